"""`commonground schema`: a draft for the operator to check."""

import re
from pathlib import Path
from typing import Annotated

import typer

from commonground.cli import options


def schema(
    table: options.Table,
    out: Annotated[Path, typer.Option("--out", help="File to write (.toml).")],
    user: options.UserColumn = None,
    label: options.LabelColumn = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Draft a schema: what each column of a table is. Not private: check it before it is used, as it is published."""
    from commonground.data.schema import Schema
    from commonground.errors import InputError
    from commonground.files import PRIVATE, replacing, require_other_file

    require_other_file(out, table)
    if out.exists() and not force:
        raise InputError(f"{out} is there already. Choose another name, or --force to replace it.")
    text = Schema.draft(table, user or "user_id", label or "y")
    marked = text.count("# FROM THE DATA")
    left_out = dict(re.findall(r'^\[columns\.(.+)\]\nrole = "ignore"  # (.+)$', text, re.MULTILINE))
    remarks = {
        name: [line.removeprefix("# ") for line in lines.splitlines()]
        for name, lines in re.findall(
            r'^\[columns\.(.+)\]\nrole = "(?:label|feature)"\n((?:# .+\n)+)', text, re.MULTILINE
        )
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out, PRIVATE) as file:
        file.write(text.encode())
    told = (
        f"Drafted {out}. It is NOT private: {marked} lines marked FROM THE DATA were read off people's rows, and the schema is "
        "published with the billboard. Check them, then delete the line draft = true."
    )
    told += "".join(f"\nIgnored: {name}, {why}." for name, why in left_out.items())
    for what in dict.fromkeys(one for several in remarks.values() for one in several):
        told += f"\nLook at {', '.join(name for name, several in remarks.items() if what in several)}. {what}"
    document = {
        "schema": str(out),
        "draft": True,
        "lines_from_the_data": marked,
        "ignored": left_out,
        "remarks": remarks,
    }
    options.answer(told, document, as_json)
