"""`commonground report`, `page` and `serve`, and the machine formats of `statement`: a board for people to look at."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from commonground.cli.options import AsJson, Board, ItemColumn, LabelColumn, UserColumn, answer, print_json
from commonground.errors import InputError
from commonground.files import require_other_file


def report(
    billboard: Board,
    out: Annotated[Path, typer.Option("--out", help="HTML file to write.")],
    heldout: Annotated[
        Path | None,
        typer.Option(help="Table of people with labels, to show who gains. The report is then INTERNAL, NOT private."),
    ] = None,
    user: UserColumn = None,
    label: LabelColumn = None,
    item: ItemColumn = None,
    verify: Annotated[Path | None, typer.Option(help="Public key that the board must be signed with.")] = None,
    as_json: AsJson = False,
) -> None:
    """One page to look at and sign: the guarantee in words and numbers, where the budget went, what is published."""
    from commonground.billboard.files import write_page
    from commonground.billboard.joint import SharedParameters, load_any_board
    from commonground.billboard.signing import VerifyingKey
    from commonground.cli.tables import newcomers_in
    from commonground.report.board import UNSIGNED, report_of_board, report_of_shared
    from commonground.report.gains import Gains

    require_other_file(out, billboard, heldout)
    board, key = load_any_board(billboard, verify), VerifyingKey.of(verify)
    checked = UNSIGNED if key is None else f"holds, for the public key with SHA-256 {key.fingerprint}"
    if isinstance(board, SharedParameters):
        if heldout is not None:
            raise InputError("--heldout is for boards of people; owners compare on their own rows. Leave it out.")
        text = report_of_shared(board, checked)
    else:
        gains = None if heldout is None else Gains.of(board, newcomers_in(board, heldout, user, label, item))
        text = report_of_board(board, gains, checked)
    write_page(out, text, private=heldout is not None)
    size, mark = len(text.encode()), " INTERNAL, NOT PRIVATE: do not publish it." if heldout is not None else ""
    document = {"report": str(out), "internal": heldout is not None, "bytes": size}
    answer(f"Wrote {out} ({size / 1000:.0f} kB).{mark}", document, as_json)


Items = Annotated[
    str | None,
    typer.Option("--item", help="Name of the column of items, where rows are ratings: adds a list to choose from."),
]


def page(
    billboard: Board,
    out: Annotated[
        Path, typer.Option("--out", help="HTML file to write; for any web server, or to be opened from a disk.")
    ],
    item: Items = None,
    as_json: AsJson = False,
) -> None:
    """A page on which a person makes her own model in her browser; nothing leaves it, and the browser sees to it."""
    from commonground.billboard.board import Billboard

    require_other_file(out, billboard)
    path = Billboard.load(billboard).page(out, item)
    size = path.stat().st_size
    told = f"Wrote {path} ({size / 1000:.0f} kB). Whoever opens it keeps her rows to herself."
    answer(told, {"page": str(path), "bytes": size}, as_json)


def serve(
    billboard: Board,
    port: Annotated[int, typer.Option(help="Port on this machine; 0: any free one.")] = 8000,
    item: Items = None,
) -> None:
    """Look at that page from this machine alone (loopback); ends with Ctrl-C."""
    from commonground.billboard.board import Billboard
    from commonground.page.serve import server_of

    text = Billboard.load(billboard).page_text(item)
    try:
        server = server_of(text, port)
    except (OSError, OverflowError) as problem:
        raise InputError(
            f"port {port} cannot be opened ({type(problem).__name__}). Give another one: --port 0."
        ) from None
    with server:
        typer.echo(f"http://127.0.0.1:{server.server_address[1]}/ (this machine only; Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):  # how a look ends
            server.serve_forever()


def in_format(board: Any, name: str, folder: Path) -> None:
    """The statement for machines, to standard output."""
    if name == "card":
        from commonground.report.formats import card

        typer.echo(card(board))
    elif name == "registry":
        from commonground.report.formats import registry

        print_json(registry(board))
    elif name == "json":
        print_json(
            {"billboard": str(folder), "epsilon_spent": board.statement.epsilon_spent, **board.statement.to_json()}
        )
    else:
        raise InputError(f"--format must be json, card or registry, got {name!r}.")
