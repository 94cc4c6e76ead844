"""`commonground schema`: a draft for the operator to check."""

import re
from pathlib import Path

import typer

from commonground.cli.options import print_json
from commonground.data.schema import Schema
from commonground.errors import InputError
from commonground.files import PRIVATE, replacing, require_other_file


def draft(table: Path, out: Path, user: str, label: str, force: bool, as_json: bool) -> None:
    require_other_file(out, table)
    if out.exists() and not force:
        raise InputError(f"{out} is there already. Choose another name, or --force to replace it.")
    text = Schema.draft(table, user, label)
    marked = text.count("# FROM THE DATA")
    left_out = dict(re.findall(r'^\[columns\.(.+)\]\nrole = "ignore"  # (.+)$', text, re.MULTILINE))
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out, PRIVATE) as file:
        file.write(text.encode())
    if as_json:
        print_json({"schema": str(out), "draft": True, "lines_from_the_data": marked, "ignored": left_out})
        return
    typer.echo(
        f"Drafted {out}. It is NOT private: {marked} lines marked FROM THE DATA were read off people's rows, and the schema is "
        "published with the billboard. Check them, then delete the line draft = true."
    )
    for name, why in left_out.items():
        typer.echo(f"Ignored: {name}, {why}.")
