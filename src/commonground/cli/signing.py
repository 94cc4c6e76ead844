"""`commonground keys`: new."""

from pathlib import Path
from typing import Annotated

import typer

from commonground.billboard.signing import VerifyingKey, new_key
from commonground.cli.options import new_group

keys_app = new_group("Keys to sign boards with (`train --sign`) and to check whose they are (`statement --verify`).")


@keys_app.callback()
def keys() -> None:
    """A group, also while it has one command."""


@keys_app.command()
def new(
    out: Annotated[Path, typer.Option("--out", help="Name of the pair: writes NAME.pem and NAME.public.pem.")],
) -> None:
    """Make a pair of Ed25519 keys. The private one signs and is for you alone; give the public one to everybody."""
    private, public = new_key(out)
    typer.echo(
        f"Private key: {private} (keep it to yourself). Public key: {public}, SHA-256 {VerifyingKey.read(public).fingerprint}. "
        "Give people the public key by another way than the boards."
    )
