"""Signatures of boards: Ed25519, by the ``cryptography`` package.

A checksum says that a file is as it was written; a signature says by whom. What is signed is the whole statement, and the
statement holds the checksum of the arrays, so one signature stands for everything in a board's folder.
"""

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from commonground.errors import BillboardError, InputError

_PURPOSE = b"commonground statement, version 1\n"  # a key that signs other things, too, must not sign boards by them


@dataclass(frozen=True)
class _Key:
    _key: Any

    @classmethod
    def of(cls, given: "Self | str | os.PathLike[str] | None") -> "Self | None":
        """A key, the key in a file, or none."""
        return given if given is None or isinstance(given, cls) else cls.read(given)  # type: ignore[arg-type]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        raise NotImplementedError


class SigningKey(_Key):
    """The private half: who has it can sign. Keep it from everybody else."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        ed25519, serialization = _cryptography()
        load = partial(serialization.load_pem_private_key, password=None)
        return cls(_key_in(path, "private", load, ed25519.Ed25519PrivateKey))

    def sign(self, statement: bytes) -> str:
        """The signature's file, as text."""
        signature = {
            "algorithm": "Ed25519",
            "public_key_sha256": VerifyingKey(self._key.public_key()).fingerprint,
            "signature": base64.b64encode(self._key.sign(_PURPOSE + statement)).decode(),
        }
        return json.dumps(signature, indent=2) + "\n"


class VerifyingKey(_Key):
    """The public half: whoever has it from a source they trust can tell who signed."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        ed25519, serialization = _cryptography()
        return cls(_key_in(path, "public", serialization.load_pem_public_key, ed25519.Ed25519PublicKey))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the key's 32 bytes: for people to compare."""
        return hashlib.sha256(self._key.public_bytes_raw()).hexdigest()

    def verify(self, path: Path, statement: bytes) -> None:
        """Raise ``BillboardError`` unless the file holds this key's signature of the statement."""
        from cryptography.exceptions import InvalidSignature

        board = path.parent
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            signer, signature = (
                str(document["public_key_sha256"]),
                base64.b64decode(document["signature"], validate=True),
            )
        except FileNotFoundError:
            raise BillboardError(
                f"{board} is not signed: it has no {path.name}. Ask its publisher for a signed one (`train --sign`), or do "
                "without --verify and trust whoever could write to it."
            ) from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError, binascii.Error):
            raise BillboardError(f"{path} cannot be read as a signature. Get a fresh copy of the board.") from None
        try:
            self._key.verify(signature, _PURPOSE + statement)
        except InvalidSignature:
            why = (
                "its statement or arrays were changed after they were signed"
                if signer == self.fingerprint
                else f"it was signed by another key (SHA-256 {signer[:16]}…, yours {self.fingerprint[:16]}…)"
            )
            raise BillboardError(f"the signature of {board} does not hold: {why}. Do not rely on it.") from None


def new_key(out: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write a new pair to ``out.pem`` (private, for its owner's eyes) and ``out.public.pem``; never over another file."""
    ed25519, serialization = _cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    private, public = Path(f"{os.fspath(out)}.pem"), Path(f"{os.fspath(out)}.public.pem")
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    known = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    if public.exists():
        raise _taken(public)
    _write_new(private, secret, 0o600)
    try:
        _write_new(public, known, 0o644)
    except BaseException:
        private.unlink()
        raise
    return private, public


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """A file that was not there before, links included, with these rights from its first moment."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise _taken(path) from None
    with os.fdopen(handle, "wb") as file:
        os.fchmod(handle, mode)
        file.write(content)
        file.flush()
        os.fsync(handle)


def _taken(path: Path) -> InputError:
    return InputError(f"{path} exists; a key is never written over. Choose another name, or move it away.")


def _key_in(path: str | os.PathLike[str], half: str, load: Callable[[bytes], Any], kind: type) -> Any:
    content = _content(path, f"{half} key")
    try:
        key = load(content)
    except Exception as problem:  # the library has many; none of them may be a traceback, or show the key
        raise _not_a_key(path, half, problem) from None
    if not isinstance(key, kind):
        raise _not_a_key(path, half)
    return key


def _content(path: str | os.PathLike[str], what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise InputError(
            f"the {what} {os.fspath(path)!r} cannot be read ({type(problem).__name__}). Make a pair with `commonground keys new`."
        ) from None


def _not_a_key(path: str | os.PathLike[str], half: str, problem: Exception | None = None) -> InputError:
    detail = f" ({type(problem).__name__})" if problem is not None else ""
    return InputError(
        f"{os.fspath(path)!r} holds no {half} Ed25519 key in PEM form, without a password{detail}. `commonground keys new` makes "
        "a pair: NAME.pem signs, NAME.public.pem verifies."
    )


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise InputError(
            "signatures need the package cryptography. Install it with: pip install 'commonground[sign]'"
        ) from None
    return ed25519, serialization
