"""A board as a folder of files that are either all there and unchanged, or an error."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from commonground.billboard.claims import UnbelievableError
from commonground.billboard.signing import SigningKey, VerifyingKey
from commonground.errors import BillboardError
from commonground.files import DRAFT, PRIVATE, PUBLIC, AloneIn, replacing, sync_folder

# 2: events have a kind; 3: heads may have a prior; 4: what was spent; 5: the kind of heads; 6: the schema of columns;
# 7: the spread of people's own parts
SCHEMA_VERSION = 7
_SPEND_SINCE = 4
STATEMENT = "statement.json"
_ARRAYS, _SIGNATURE = "billboard.safetensors", "statement.sig"
# With a checksum, until the statement is theirs
_NEW_ARRAYS, _NEW_SIGNATURE = ("billboard-*.safetensors", "statement-*.sig")


@contextmanager
def place_for_board(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The folder where a billboard can be written, tried by making it and a file in it; it goes again if it stays empty.

    To be entered before budget is spent: none may be on a result that has no place to go.
    """
    folder = Path(os.path.realpath(path))  # of a link, the folder that it leads to
    made: list[Path] = []
    try:
        try:
            if folder.exists() and not (folder.is_dir() and _may_hold_board(folder)):
                raise BillboardError(f"{path} exists and is not a billboard. Choose a new folder or remove it first.")
            made = [missing for missing in (folder, *folder.parents) if not missing.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(prefix=DRAFT, dir=folder):
                pass
        except OSError as problem:
            raise BillboardError(
                f"{path} cannot be written ({problem.strerror}). Name a folder that this user can make or write to."
            ) from None
        yield folder
    finally:
        for empty in made:
            with suppress(OSError):  # not empty
                empty.rmdir()


def has_board(path: str | os.PathLike[str]) -> bool:
    """Whether a board is there already, readable or not."""
    return (Path(path) / STATEMENT).exists()


def _may_hold_board(folder: Path) -> bool:
    """Whether a board is there, or nothing but what an interrupted save left."""
    if (folder / STATEMENT).exists():
        return True
    names = (_ARRAYS, _SIGNATURE, _NEW_ARRAYS, _NEW_SIGNATURE, DRAFT + "*")
    ours = {path for name in names for path in folder.glob(name)}
    return set(folder.iterdir()) <= ours


def write_board(
    path: str | os.PathLike[str],
    payload: bytes,
    document: dict[str, Any],
    sign: SigningKey | str | os.PathLike[str] | None = None,
) -> Path:
    """A billboard's folder: arrays and statement with their checksums. Whatever else is in the folder stays as it is.

    At every moment the folder holds the old board or the new one, also if the power fails: new arrays, and the signature,
    are written under names of their own first, the statement changes in one step, and then they get their usual names.
    Between these steps a reader finds them under the first ones (``_read_files``, ``_signature_of``).
    """
    key = SigningKey.of(sign)
    document = {"schema_version": SCHEMA_VERSION, "sha256": hashlib.sha256(payload).hexdigest(), **document}
    document["statement_sha256"] = _digest(document)
    statement = (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8")
    with place_for_board(path) as folder, AloneIn(folder):
        new_arrays = folder / _NEW_ARRAYS.replace("*", document["sha256"])
        new_signature = folder / _NEW_SIGNATURE.replace("*", document["statement_sha256"])
        try:
            with replacing(new_arrays, PUBLIC) as file:
                file.write(payload)
            if key is not None:
                with replacing(new_signature, PUBLIC) as file:
                    file.write(key.sign(_canonical(document)).encode("utf-8"))
            with replacing(folder / STATEMENT, PUBLIC) as file:
                file.write(statement)
        except BaseException:
            if not (folder / STATEMENT).exists() or (folder / STATEMENT).read_bytes() != statement:
                new_arrays.unlink(missing_ok=True)
                new_signature.unlink(missing_ok=True)
            raise
        os.replace(new_arrays, folder / _ARRAYS)
        if key is not None:
            os.replace(new_signature, folder / _SIGNATURE)
        else:  # that of an older board says nothing of this one
            (folder / _SIGNATURE).unlink(missing_ok=True)
        sync_folder(folder)
        for stray in (*folder.glob(_NEW_ARRAYS), *folder.glob(_NEW_SIGNATURE)):  # of a save that was killed
            stray.unlink()
    return Path(path)


def write_page(path: str | os.PathLike[str], text: str, private: bool = False) -> Path:
    """An HTML file, whole or not at all; one that tells of people's rows is for this account's eyes."""
    target = Path(path)
    try:
        with replacing(target, PRIVATE if private else PUBLIC) as file:
            file.write(text.encode("utf-8"))
    except OSError as problem:
        raise BillboardError(
            f"{target} cannot be written ({problem.strerror}). Name a file in a folder that is there."
        ) from None
    return target


def _signature_of(folder: Path, document: dict[str, Any]) -> Path:
    """Where the signature of this statement is, also after an interrupted save."""
    new = folder / _NEW_SIGNATURE.replace("*", document["statement_sha256"])
    return new if new.exists() else folder / _SIGNATURE


def _read_files(folder: Path) -> tuple[str, bytes]:
    """The statement and its arrays, also during a save or after an interrupted one. Whether they match is checked later."""
    while True:
        text = (folder / STATEMENT).read_text(encoding="utf-8")
        for path in (folder / _ARRAYS, *folder.glob(_NEW_ARRAYS), folder / _ARRAYS):  # the last: it was moved just now
            with suppress(FileNotFoundError):
                payload = path.read_bytes()
                if hashlib.sha256(payload).hexdigest() in text:
                    return text, payload
        if (folder / STATEMENT).read_text(encoding="utf-8") == text:  # else it was replaced meanwhile
            return text, (folder / _ARRAYS).read_bytes()


@contextmanager
def reading_board(
    path: str | os.PathLike[str], public_key: VerifyingKey | str | os.PathLike[str] | None = None
) -> Iterator[tuple[dict[str, Any], bytes]]:
    """The verified statement and arrays of a folder; whatever the caller cannot read in them is damage, too."""
    folder, key = Path(path), VerifyingKey.of(public_key)
    try:
        text, payload = _read_files(folder)
    except (OSError, UnicodeDecodeError) as problem:
        order = " On the command line the billboard comes first, then the table." if folder.is_file() else ""
        raise BillboardError(
            f"{folder} is not a readable billboard folder ({type(problem).__name__}: it needs {STATEMENT} and "
            f"{_ARRAYS}). Give the folder that `commonground train --out` wrote.{order}"
        ) from None
    try:
        document = json.loads(text)
        schema = document["schema_version"]
        if not isinstance(schema, int):
            raise TypeError
        if schema > SCHEMA_VERSION:
            raise BillboardError(
                f"{folder} has schema version {schema}, newer than the {SCHEMA_VERSION} known here. Update commonground."
            )
        signed = {name: value for name, value in document.items() if name != "statement_sha256"}
        if document["statement_sha256"] != _digest(signed):
            raise _changed(folder / STATEMENT)
        if document["sha256"] != hashlib.sha256(payload).hexdigest():
            raise _changed(folder / _ARRAYS)
        if key is not None:
            key.verify(_signature_of(folder, document), _canonical(document))
        yield document, payload
    except UnbelievableError as why:
        raise BillboardError(
            f"{folder} cannot be believed: {why}. Its checksums match, so it was written like this. Do not rely on it; ask "
            "its publisher for the board and their public key."
        ) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, SafetensorError):
        raise BillboardError(
            f"{folder} is damaged: its statement or arrays cannot be read. Get a fresh copy."
        ) from None


def _digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(document)).hexdigest()


def _canonical(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _changed(path: Path) -> BillboardError:
    return BillboardError(f"{path} was changed after it was written: its checksum does not match. Get a fresh copy.")
