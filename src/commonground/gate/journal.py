"""A journal: what a fit has released so far, in a file from which a later process goes on. One record after the other.

A record is a line of JSON and the bytes of a value, with checksums that also cover everything before it:

    fit       what is fitted, in public words; the first record
    payer     the population and the reservation that pay, where a ledger does
    claim     the process that goes on; the ledger knows it, too
    release   an event and its value, after the noise; on the disk before anybody else sees the value

The end of a file that a pulled plug has cut off is taken away when it is read; damage anywhere else is an error. The file is for
its owner's eyes (mode 0600): values are noised and paid for, but more of them than the billboard tells.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from commonground.accounting.events import Event, event_from_dict
from commonground.errors import CheckpointError
from commonground.files import PRIVATE, sync_folder

FORMAT = "commonground journal 1"
_BEGINNING = b' {"kind": "fit"'  # after a checksum


@dataclass(frozen=True)
class Entry:
    """One release as it was made."""

    event: Event
    value: np.ndarray  # float64; of a choice: which one, a single whole number
    charged: bool  # to the ledger of the fit; some releases are paid for by another one
    state: Any  # of simulated noise, afterwards; None for real noise


class Journal:
    """The journal at a place: read (made where there is none), locked for this process, and open for what comes next."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._handle = -1
        self.path = Path(path)
        self.description: dict[str, Any] | None = None
        self.payer: tuple[str, str] | None = None
        self.claims: list[str] = []
        self.entries: list[Entry] = []
        self._digest = hashlib.sha256(FORMAT.encode()).digest()
        self._handle = self._locked_file()
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def begin(self, description: Mapping[str, Any]) -> None:
        """Say what is fitted, in public words and numbers a resumed fit must share; a journal of anything else is refused."""
        described: dict[str, Any] = json.loads(json.dumps(description))
        if self.description is None:
            self.description = described
            self._append("fit", {"format": FORMAT, "description": described})
            sync_folder(self.path.absolute().parent)
        elif self.description != described:
            before, names = self.description, sorted({*self.description, *described})
            differing = [name for name in names if before.get(name) != described.get(name)]
            told = "; ".join(f"{name}: {before.get(name)} there, {described.get(name)} here" for name in differing)
            raise CheckpointError(
                f"{self.path} holds the beginning of another fit ({told}). Finish that one, with what it began with; or give "
                f"this one another file; or remove it: what it has spent stays spent. {self.how_to_give_up()}".strip()
            )

    def pay_from(self, population: str, reservation: str) -> None:
        """Note who pays, as the ledger calls them."""
        self.payer = population, reservation
        self._append("payer", {"population": population, "reservation": reservation})

    def claim(self, claim: str) -> None:
        """Note that this process goes on, by a claim that the ledger knows, too; before the ledger is told."""
        self.claims.append(claim)
        self._append("claim", {"claim": claim})

    def write(self, entry: Entry) -> None:
        """Keep a release, with its value after the noise; on the disk when this returns."""
        value = np.ascontiguousarray(entry.value)
        facts = {"event": entry.event.as_dict(), "charged": entry.charged, "state": entry.state}
        # First: an interruption in between must not make it seem that there is nothing to keep.
        self.entries.append(entry)
        try:
            self._append("release", {**facts, "dtype": value.dtype.str, "shape": value.shape}, value.tobytes())
        except CheckpointError:
            self.entries.pop()
            raise

    def how_to_give_up(self) -> str:
        """What an operator does who will not resume it."""
        if self.payer is None:
            return ""
        population, reservation = self.payer
        return (
            f"Reservation {reservation} of population {population!r} stays booked for it; to give back what is left of that: "
            f"commonground ledger settle LEDGER {reservation} --population {population}"
        )

    def close(self) -> None:
        """Let go of the file; others may open it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        self.close()

    def remove(self) -> None:
        """The fit is done, or nothing of it is worth keeping."""
        self.path.unlink(missing_ok=True)
        self.close()

    # ---- the file ----------------------------------------------------------------------------------------------------

    def _locked_file(self) -> int:
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
        except OSError as problem:
            raise CheckpointError(
                f"the checkpoint {self.path} cannot be written ({problem.strerror}). Name a file in a folder that is there."
            ) from None
        os.fchmod(handle, PRIVATE)  # whoever made it
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise CheckpointError(
                f"another process is using the checkpoint {self.path}. Wait for it, or give this fit another file."
            ) from None
        return handle

    def _append(self, kind: str, facts: Mapping[str, Any], payload: bytes = b"") -> None:
        octets = {"bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
        body = json.dumps({"kind": kind, **octets, **facts})
        digest = hashlib.sha256(self._digest + body.encode()).digest()
        record = f"{digest.hex()} {body}\n".encode() + payload
        start = os.fstat(self._handle).st_size
        try:
            left = memoryview(record)
            while left:
                left = left[os.write(self._handle, left) :]
            os.fsync(self._handle)
        except OSError as problem:
            os.ftruncate(self._handle, start)
            raise CheckpointError(
                f"the checkpoint {self.path} cannot be written ({problem.strerror}); the fit ends here. Make room for it, then "
                "run the same again: it goes on from what is written."
            ) from problem
        self._digest = digest

    def _read(self) -> None:
        size = os.fstat(self._handle).st_size
        sound = 0
        with open(os.dup(self._handle), "rb") as file:
            file.seek(0)
            for kind, facts, payload in self._records(file, size):
                self._understood(kind, facts, payload)
                sound = file.tell()
        head = os.pread(self._handle, 64 + len(_BEGINNING), 0)
        # Never cut somebody else's file.
        if head[:64].strip(b"0123456789abcdef") or not _BEGINNING.startswith(head[64:]):
            raise self._damaged("it does not begin like one")
        if sound < size:
            os.ftruncate(self._handle, sound)
            os.fsync(self._handle)

    def _records(self, file: Any, size: int) -> Iterator[tuple[str, dict[str, Any], bytes]]:
        """All of them but a last one that is cut off, whose value was handed to nobody."""
        while (line := file.readline()).endswith(b"\n"):
            stored, body = line[:65], line[65:-1]
            digest = hashlib.sha256(self._digest + body).digest()
            if f"{digest.hex()} ".encode() != stored:
                raise self._damaged(f"in the record after release {len(self.entries)}")
            facts = json.loads(body)
            payload = file.read(facts["bytes"])
            if hashlib.sha256(payload).hexdigest() != facts["sha256"]:
                if file.tell() < size:
                    raise self._damaged(f"in the value after release {len(self.entries)}")
                return
            self._digest = digest
            yield facts["kind"], facts, payload

    def _understood(self, kind: str, facts: dict[str, Any], payload: bytes) -> None:
        try:
            if kind == "fit":
                if facts["format"] != FORMAT or self.description is not None:
                    raise ValueError("of another version")
                self.description = dict(facts["description"])
            elif kind == "payer":
                self.payer = str(facts["population"]), str(facts["reservation"])
            elif kind == "claim":
                self.claims.append(str(facts["claim"]))
            elif kind == "release":
                value = np.frombuffer(payload, dtype=np.dtype(facts["dtype"])).reshape(facts["shape"])
                event = event_from_dict(facts["event"])
                self.entries.append(Entry(event, value, bool(facts["charged"]), facts["state"]))
            else:
                raise ValueError(f"a record of the kind {kind!r}")
        except (KeyError, TypeError, ValueError) as problem:
            raise self._damaged(str(problem)) from None

    def _damaged(self, why: str) -> CheckpointError:
        return CheckpointError(
            f"{self.path} is not a checkpoint, or it is damaged ({why}). Give another file, or remove it and fit again: what was "
            "spent stays spent."
        )
