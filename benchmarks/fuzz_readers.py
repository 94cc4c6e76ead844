"""Damage every kind of file we load, byte by byte, and see what its reader makes of it.

    .venv/bin/python benchmarks/fuzz_readers.py --runs 20000

A damaged file must give the same thing as before or a CommongroundError; a table without checksums may also be read as
another valid table (a changed digit is a digit). Anything else, such as another exception, a warning, a value that is not
finite, or a billboard or heads that differ, is a bug: it is printed with the file that shows it, and the exit code is 1.
"""

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import commonground as cg
from commonground.errors import CommongroundError
from commonground.heads.files import Heads

TOKENS = [
    b"",
    b"\x00",
    b"\xff",
    b"\n",
    b",",
    b'"',
    b"-",
    b"nan",
    b"inf",
    b"1e999",
    b"\xef\xbb\xbf",
    b"{}",
    b"null",
    b"\x7f" * 8,
]


@dataclass(frozen=True)
class Reader:
    """One kind of file: where it is, how it is read, and what was read in a form that can be compared."""

    name: str
    path: Path
    read: Callable[[], Any]
    has_checksum: bool  # then a difference is a bug


@dataclass
class Tally:
    outcomes: Counter[str] = field(default_factory=Counter)
    bugs: list[str] = field(default_factory=list)
    seconds: float = 0.0


def damage(data: bytes, rng: np.random.Generator) -> bytes:
    """One to three changes: flip a bit, overwrite, insert, delete, repeat, cut."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, len(changed) + 1))
        size = int(min(rng.geometric(0.2), 64))
        kind = rng.integers(0, 7)
        token = TOKENS[rng.integers(0, len(TOKENS))] if rng.random() < 0.5 else rng.bytes(size)
        if kind <= 1 and at < len(changed):
            changed[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 2:
            changed[at : at + len(token)] = token
        elif kind == 3:
            changed[at:at] = token
        elif kind == 4:
            del changed[at : at + size]
        elif kind == 5:
            changed[at:at] = changed[at : at + size]
        elif rng.random() < 0.3:
            del changed[at:]
    return bytes(changed)


def fuzz(reader: Reader, runs: int, seed: int) -> Tally:
    rng = np.random.default_rng([seed, *reader.name.encode()])
    original, expected, tally = reader.path.read_bytes(), reader.read(), Tally()
    started = time.perf_counter()
    for _ in range(runs):
        data = damage(original, rng)
        reader.path.write_bytes(data)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                got = reader.read()
            outcome = "same" if got == expected else "another table"
            if outcome != "same" and reader.has_checksum:
                tally.bugs.append(f"{reader.name}: damage not noticed: {data!r}")
                outcome = "BUG"
        except CommongroundError:
            outcome = "refused"
        except Exception as error:
            tally.bugs.append(f"{reader.name}: {type(error).__name__}: {error}: {data!r}")
            outcome = "BUG"
        tally.outcomes[outcome] += 1
    tally.seconds = time.perf_counter() - started
    reader.path.write_bytes(original)
    return tally


def readers(folder: Path) -> list[Reader]:
    """Small files of every kind, so that most of their bytes matter."""
    rng = np.random.default_rng(0)
    ids = np.repeat([f"u{j}" for j in range(8)], 3)
    frame = pa.table({"user_id": ids, "a": rng.standard_normal(24), "b": np.arange(24), "y": rng.standard_normal(24)})
    scattered = frame.take(pa.array(rng.permutation(24)))
    users = cg.Users.from_table(frame)
    board = cg.PrivateFedRep(1, n_rounds=1, simulation_seed=0, keep_heads=False).fit(users).billboard_
    board.save(folder / "board")
    Heads.fit(board, users).save(folder / "heads.parquet", board)
    pa.csv.write_csv(scattered, folder / "rows.csv")
    pq.write_table(scattered, folder / "rows.parquet", write_page_checksum=True)
    pq.write_table(frame, folder / "plain.parquet", compression="none", use_dictionary=False)

    def read_board() -> Any:
        read = cg.Billboard.load(folder / "board")
        return read.fingerprint, read.statement, read.feature_names, read.fit_intercept

    def read_heads() -> Any:
        heads = Heads.load(folder / "heads.parquet", board)
        table = heads.table
        return heads.ids.to_pylist(), table.weights.tobytes(), table.shape, table.intercepts.tobytes()

    def read_users(name: str, max_memory: int) -> Callable[[], Any]:
        def read() -> Any:
            people = cg.Users.from_table(folder / name, max_memory=max_memory)
            parts = [(block.X, block.y, block.offsets) for block in people.blocks()]
            if not all(np.isfinite(X).all() and np.isfinite(y).all() for X, y, _ in parts):
                raise ValueError("a value that is not finite got through")
            if sum(len(offsets) - 1 for _, _, offsets in parts) != len(people.ids):
                raise ValueError("people were lost")
            return repr(people.ids.tolist()), [tuple(array.tobytes() for array in part) for part in parts]

        return read

    return [
        Reader("billboard arrays", folder / "board" / "billboard.safetensors", read_board, True),
        Reader("billboard statement", folder / "board" / "statement.json", read_board, True),
        Reader("heads", folder / "heads.parquet", read_heads, True),
        Reader("CSV", folder / "rows.csv", read_users("rows.csv", 2**20), False),
        Reader("CSV, streamed", folder / "rows.csv", read_users("rows.csv", 1), False),
        Reader("Parquet", folder / "rows.parquet", read_users("rows.parquet", 2**20), False),
        Reader("Parquet, streamed", folder / "plain.parquet", read_users("plain.parquet", 1), False),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000, help="damaged files of each kind")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    table = Table(title=f"{arguments.runs:,} damaged files of each kind")
    for heading in ("file", "same", "refused", "another table", "BUG", "runs/s"):
        table.add_column(heading, justify="left" if heading == "file" else "right")
    bugs: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for reader in readers(Path(folder)):
            tally = fuzz(reader, arguments.runs, arguments.seed)
            cells = [f"{tally.outcomes[kind]:,}" for kind in ("same", "refused", "another table", "BUG")]
            table.add_row(reader.name, *cells, f"{arguments.runs / tally.seconds:,.0f}")
            bugs += tally.bugs
    console = Console()
    for bug in bugs[:20]:
        console.print(bug[:600], markup=False, highlight=False)
    console.print(table)
    return 1 if bugs else 0


if __name__ == "__main__":
    sys.exit(main())
