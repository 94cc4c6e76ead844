"""Files that appear whole or not at all: written beside their place under a name that nobody can guess, synced, moved there."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from commonground.errors import InputError

PRIVATE = 0o600  # for what is about single people: heads, predictions
PUBLIC = 0o644  # for what is published
DRAFT = ".commonground-"  # how the names of drafts begin; a process that was killed may leave one


@contextmanager
def replacing(target: Path, mode: int) -> Iterator[BinaryIO]:
    """A new file to write, which takes the place of ``target`` when it is complete and on the disk; else it goes.

    A link at ``target`` is replaced, not followed, and the draft is new: nobody else's file is ever written to.
    """
    # Readable by this account only until it is complete.
    handle, draft = tempfile.mkstemp(prefix=DRAFT, dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        with suppress(FileNotFoundError):  # it is in its place already
            os.unlink(draft)
        raise
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """A file's new name is on the disk only when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class AloneIn:
    """One writer at a time in a folder. The lock goes with the object, however it ends, and with the process."""

    def __init__(self, folder: Path) -> None:
        self._handle = os.open(folder, os.O_RDONLY)

    def __enter__(self) -> None:
        fcntl.flock(self._handle, fcntl.LOCK_EX)

    def __exit__(self, *problem: object) -> None:
        self.__del__()

    def __del__(self) -> None:
        # In one line: interrupted before it, the handle is still here, and the lock goes with the object.
        with suppress(KeyError):  # closed already
            os.close(self.__dict__.pop("_handle"))


def require_other_file(out: Path, *inputs: Path | None) -> None:
    """An output may not take the place of what it is made from, by whatever name or link, nor become a part of it."""
    place = Path(os.path.realpath(out))
    for source in inputs:
        if source is None or not source.exists():
            continue
        original = Path(os.path.realpath(source))
        if place == original or (place.exists() and place.samefile(original)):
            raise InputError(f"--out {out} is the file that is read ({source}). Give the output another name.")
        if original.is_dir() and place.parent == original:
            raise InputError(f"--out {out} would become a part of {source}, which is read. Give another folder.")
