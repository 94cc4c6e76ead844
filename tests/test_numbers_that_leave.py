"""Nothing computed before the noise leaves: not in a file, a log line, a warning, an exception, a statement or a repr.

Among ordinary people there is a canary whose rows hold recognisable numbers. While the command line trains on them, every
private number that is made on the way is noted: exact sums and counts, her own contribution and its norm in each round, her
head, clipped shares, exact quantiles, numbers of rows, column summaries. Then all that was written is searched for all of
them, as text of any precision and as bytes. Variants that leak on purpose show that the search would find it.

A number is too common to be searched for when it has fewer than four significant digits. Six must agree, or four for the
canary's own cells and for counts, which lie far from any other number here. With the seeds fixed there is no false alarm.
"""

import contextlib
import io
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.billboard.statement import Statement
from commonground.cli import app as cli
from commonground.clipping.bounded import BoundedSum
from commonground.clipping.grid import N_BINS, lower_edge
from commonground.clipping.sums import BinnedSums, ClippedSums, DirectionSums, PositiveSums, SizeCounts
from commonground.data.users import Block
from commonground.errors import CommongroundError
from commonground.estimators.fedrep import default
from commonground.gate import Gate
from commonground.gate import gate as gate_module
from commonground.heads.files import Heads
from commonground.ledger import InMemoryLedger
from commonground.statistics.answers import AnswerShares, ToldShares
from commonground.statistics.coordinates import FeatureMoments, ScaleProfiles
from commonground.statistics.directions import Directions, FeatureEnergies
from commonground.statistics.gradients import EmbeddingGradients, MeanGradients
from commonground.statistics.labels import LabelEnergies, LabelMeans
from commonground.statistics.own_heads import HeadDirections, HeadNoise
from commonground.statistics.posterior import PosteriorGradients, PosteriorMoments
from commonground.statistics.residuals import ResidualGradients
from commonground.statistics.rows import RowCounts

# A huge column is part of the search: the warning of it is written, and searched like all else.
pytestmark = pytest.mark.filterwarnings("ignore::commonground.errors.ScaleWarning")

FEATURES = ("age", "height", "income", "dose")
CELLS = (8675309.25, 271828.1828, 0.0031415926535, 6.02214076e11)  # one number for each feature that gives her away
LABEL = -57721566.49
N_PEOPLE, CANARY_ROWS = 1201, 1117
MANY = 6  # significant digits that must agree
FEW = 4  # for the canary's cells and for counts


# ---- searching ----------------------------------------------------------------------------------------------------------


def digits_of(token: str) -> int:
    """Significant digits as written: 3 of 0.0450 and of 450, 5 of 12,345."""
    mantissa = re.split("[eE]", token)[0].replace(",", "").replace(".", "").lstrip("0")
    return len(mantissa)


class Secrets:
    """Numbers that must not leave."""

    def __init__(self) -> None:
        self.marked: set[float] = set()  # recognisable by few digits
        self.others: set[float] = set()

    def note(self, *values: Any, marked: bool = False) -> None:
        for value in values:
            numbers = np.abs(np.asarray(value, dtype=np.float64)).ravel()
            numbers = numbers[np.isfinite(numbers) & (numbers > 0)]
            kept = {float(x) for x in numbers if digits_of(f"{x:.12g}") >= FEW}  # not 0.5, 12 or 1e6
            (self.marked if marked else self.others).update(kept)

    def found_in(self, writing: str | bytes) -> set[float]:
        text = writing if isinstance(writing, str) else writing.decode("latin-1")
        found = self._in_text(text)
        return found if isinstance(writing, str) else found | self._in_bytes(writing)

    def _in_text(self, text: str) -> set[float]:
        found: set[float] = set()
        tokens = set(re.findall(r"\d(?:[\d,]*\d)?(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?", text))
        for secrets, enough in ((self.marked, FEW), (self.others, MANY)):
            known = np.sort(np.fromiter(secrets, dtype=np.float64))
            for token in tokens:
                if (digits := digits_of(token)) >= enough and len(known):
                    number = float(token.replace(",", ""))
                    room = number * 10.0 ** (1 - min(digits, 15))  # rounded or cut off
                    near = known[slice(*np.searchsorted(known, [number - room, number + room]))]
                    found.update(float(x) for x in near)
        return found

    def _in_bytes(self, data: bytes) -> set[float]:
        """Numbers of 8 bytes at any place, of 4 bytes where two stand side by side.

        False alarms in N bytes of noise, K secrets: about NK / 2³¹ if one number of 4 bytes were enough (it was: 350,000 bytes
        with 5,500 secrets gave one); with two, at most N (K / 2³¹)², 1e-6.
        """
        known = np.fromiter(self.marked | self.others, dtype=np.float64)
        found: set[float] = set()
        with np.errstate(all="ignore"):
            for kind, size in (("<f8", 8), ("<f4", 4), ("<i8", 8), ("<i4", 4)):
                here = known[known == np.rint(known)] if "i" in kind else known
                for shift in range(size):
                    whole = (len(data) - shift) // size * size
                    numbers = np.abs(np.frombuffer(data[shift : shift + whole], dtype=kind).astype(np.float64))
                    short = here.astype(kind[1:]).astype(np.float64)
                    if size == 4:  # noise hits one such number now and then, two side by side hardly ever
                        hit = np.isin(numbers, short)
                        beside = np.append(hit[1:], False) | np.append(False, hit[:-1])
                        numbers = numbers[hit & beside]
                    found.update(here[np.isin(short, numbers)].tolist())
        return found


# ---- noting every private number that is made ----------------------------------------------------------------------------


def note_sums(secrets: Secrets, sums: Any) -> None:
    """One block's or one person's contribution: entries and norm, or counts."""
    if isinstance(sums, BinnedSums):
        secrets.note(sums.counts, marked=True)
        secrets.note(sums.raw, sums.unit, sums.raw.sum(axis=0), np.linalg.norm(sums.raw.sum(axis=0)))
    elif isinstance(sums, SizeCounts):
        secrets.note(sums.counts, marked=True)
    elif isinstance(sums, DirectionSums):
        secrets.note(sums.value, np.linalg.norm(sums.value))
    elif isinstance(sums, PositiveSums):
        secrets.note(sums.value, np.linalg.norm(sums.value), np.linalg.eigvalsh(sums.value))


def note_release(secrets: Secrets, bounded_sum: BoundedSum) -> None:
    value = np.asarray(bounded_sum.value)
    secrets.note(value, np.linalg.norm(value))
    if value.ndim == 1 and (value == np.rint(value)).all():  # a histogram of sizes: what one would like to know of it
        secrets.note(value, marked=True)
        below = np.cumsum(value) / max(value.sum(), 1.0)
        secrets.note(below, 1 - below, 100 * below)
        for quantile in (0.1, 0.25, 0.3, 0.5, 0.75, 0.9):
            place = np.interp(quantile, below, np.arange(len(value)))
            secrets.note(place, lower_edge(place), lower_edge(place) ** 2)


@contextlib.contextmanager
def watched(secrets: Secrets, canary: Block) -> Iterator[None]:
    """Note what every statistic gives, for each block and for the canary alone, and what goes to the gate."""

    def noting(of: Callable[..., Any]) -> Callable[..., Any]:
        def watch(statistic: Any, block: Block, *coordinates: Any) -> Any:
            sums = of(statistic, block, *coordinates)
            for one in (sums, of(statistic, canary, *coordinates)):
                note_sums(secrets, one)
            return sums

        return watch

    through_the_gate = gate_module.release

    def gate(bounded_sum: BoundedSum, *arguments: Any) -> Any:
        note_release(secrets, bounded_sum)
        return through_the_gate(bounded_sum, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate_module, "release", gate)
        for statistic in (
            EmbeddingGradients, ResidualGradients, FeatureEnergies, MeanGradients, Directions, HeadDirections, HeadNoise,
            ScaleProfiles, FeatureMoments, LabelEnergies, LabelMeans, PosteriorGradients, PosteriorMoments,
            RowCounts, AnswerShares, ToldShares,
        ):  # fmt: skip
            name = "of_coordinates" if statistic.sees_through_coordinates else "of"
            patch.setattr(statistic, name, noting(getattr(statistic, name)))
        yield


def population() -> pd.DataFrame:
    """The canary's 1117 rows among those of 1200 others, in random order."""
    rng = np.random.default_rng(8)
    ids = np.repeat([f"u{j}" for j in range(N_PEOPLE - 1)], rng.integers(3, 9, N_PEOPLE - 1))
    X = rng.standard_normal((len(ids), len(FEATURES)))
    frame = pd.DataFrame(X, columns=list(FEATURES)).assign(
        user_id=ids, y=X @ np.ones(4) + rng.standard_normal(len(ids))
    )
    wiggle = 1 + 1e-3 * rng.standard_normal((CANARY_ROWS, 5))
    wiggle[:3] = 1.0  # some rows hold the very numbers
    hers = pd.DataFrame(wiggle * [*CELLS, LABEL], columns=[*FEATURES, "y"]).assign(user_id="canary")
    return pd.concat([frame, hers]).sample(frac=1, random_state=1).reset_index(drop=True)


def note_table(secrets: Secrets, frame: pd.DataFrame, users: cg.Users) -> None:
    hers = frame[frame.user_id == "canary"]
    numbers = frame.drop(columns="user_id")
    secrets.note(CELLS, LABEL, hers.drop(columns="user_id"), marked=True)
    secrets.note(len(frame), users.n_rows, users.max_rows_per_user, CANARY_ROWS, marked=True)
    for one in (numbers, hers.drop(columns="user_id")):
        secrets.note(one.mean(), one.std(), one.min(), one.max(), one.sum(), one.var(), (one**2).sum())
        secrets.note(one.quantile([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99]))


# ---- everything that is written ------------------------------------------------------------------------------------------


def command_line(*arguments: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["commonground", *map(str, arguments)])
        with contextlib.suppress(SystemExit):
            cli.main()


@contextlib.contextmanager
def listening(writings: dict[str, str | bytes], name: str) -> Iterator[None]:
    """Standard output and error, log lines of every level, warnings, and an exception as it would be printed."""
    out, log = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    logging.getLogger("numba").setLevel(logging.WARNING)  # its compiler talks a lot, about code only
    try:
        with (
            contextlib.redirect_stdout(out), contextlib.redirect_stderr(out),
            warnings.catch_warnings(record=True) as warned,
        ):  # fmt: skip
            warnings.simplefilter("always")
            try:
                yield
            except (Exception, KeyboardInterrupt):
                traceback.print_exc(file=out)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    said = [str(one.message) for one in warned]
    writings[name] = "\n".join([out.getvalue(), log.getvalue(), *said])


def written_in_training(
    folder: Path, leak: Callable[[pytest.MonkeyPatch, Path], None]
) -> tuple[Secrets, dict[str, Any]]:
    """Train on the canary and the others from the command line; the secrets made, and what was written."""
    frame = population()
    secrets, writings = Secrets(), dict[str, str | bytes]()
    frame.to_csv(folder / "rows.csv", index=False)
    users = cg.Users.from_table(folder / "rows.csv")
    note_table(secrets, frame, users)
    X, y = users.rows_of("canary")
    canary = Block(X, y, np.array([0, len(y)]), first=0)

    with watched(secrets, canary), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        leak(patch, folder)
        with listening(writings, "train"):
            command_line(
                "train",
                "rows.csv",
                "--out",
                "board",
                "--any-scales",
                "--rounds",
                4,
                "--epsilon",
                3,
                "--simulation-seed",
                2,
            )
    return secrets, writings | files_in(folder)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def files_in(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "rows.csv"
    }


def everything_written(folder: Path) -> tuple[Secrets, dict[str, Any]]:
    """The same, in every other way that writes something, errors and reprs included."""
    secrets, writings = written_in_training(folder, lambda patch, folder: None)
    users = cg.Users.from_table(folder / "rows.csv")
    X, y = users.rows_of("canary")
    canary = Block(X, y, np.array([0, len(y)]), first=0)
    with watched(secrets, canary), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with listening(writings, "train, JSON"):
            command_line(
                "train",
                "rows.csv",
                "--out",
                "json",
                "--any-scales",
                "--rounds",
                4,
                "--simulation-seed",
                2,
                "--json",
                "--no-intercept",
            )
        with listening(writings, "paper"):
            command_line(
                "train", "rows.csv", "--out", "paper", "--any-scales", "--recipe", "paper", "--simulation-seed", 2
            )
        with listening(writings, "statement"):
            command_line("statement", "board")
        with listening(writings, "rank too large"):
            command_line("train", "rows.csv", "--out", "b", "--rank", 9)
        with listening(writings, "not a billboard"):
            command_line("train", "rows.csv", "--out", ".", "--rounds", 1, "--simulation-seed", 2)
        with listening(writings, "budget exhausted"):
            cg.PrivateFedRep(2, 1.0, simulation_seed=2).fit(users, ledger=InMemoryLedger(Budget(0.3, 1e-6)))
        with listening(writings, "interrupted"):
            patch.setattr(default.Training, "better_mean", interrupt)
            cg.PrivateFedRep(2, 1.0, simulation_seed=2).fit(users)

    model = cg.PrivateFedRep(2, 3.0, n_rounds=4, simulation_seed=2)
    with watched(secrets, canary):
        model.fit(users)
    single = cg.SingleModel(3.0, simulation_seed=2).fit(users)
    board = replace(
        model.billboard_, head_kind=model.billboard_.head_kind.on_shared_part_only
    )  # who keeps it shows nothing
    heads, head = Heads.fit(board, users), board.personalize(X, y)
    secrets.note(heads.table.weights, heads.table.intercepts, head.coef, head.intercept, head.weights)
    objects = [users, model, single, model.billboard_, model.billboard_.statement, heads, head, canary, users._people]
    objects += [SizeCounts(np.full(N_BINS, 4321)), DirectionSums(np.full((2, 2), 4321.0), 1.0, 4321)]
    objects += [ClippedSums(np.full(2, 4321.0), 1.0, 4321), BoundedSum(np.full(2, 4321.0), 1.0, "sum")]
    secrets.note(4321.0, marked=True)
    with np.printoptions(threshold=sys.maxsize):
        for one in objects:
            writings[f"repr and str of a {type(one).__name__}"] = f"{one!r}\n{one!s}"
    return secrets, writings | files_in(folder)


def leaks(secrets: Secrets, writings: dict[str, Any]) -> dict[str, set[float]]:
    return {name: found for name, writing in writings.items() if (found := secrets.found_in(writing))}


def test_no_private_number_is_written_anywhere(tmp_path: Path) -> None:
    secrets, writings = everything_written(tmp_path)
    assert len(secrets.marked) > 1000
    assert len(secrets.others) > 2000
    for name in ("train", "train, JSON", "paper", "statement"):
        assert "SIMULATED" in writings[name] or '"simulated": true' in writings[name], "it did not train"
        assert "Traceback" not in writings[name]
    assert "BudgetError" in writings["budget exhausted"]
    assert "KeyboardInterrupt" in writings["interrupted"]
    boards = [
        f"{board}/{part}"
        for board in ("board", "json", "paper")
        for part in ("billboard.safetensors", "statement.json")
    ]
    assert sorted(name for name in writings if isinstance(writings[name], bytes)) == sorted(boards), (
        "files nobody asked for"
    )
    assert leaks(secrets, writings) == {}


# ---- the search finds what it should ------------------------------------------------------------------------------------


def leak_in_statement(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """A diagnostic beside the parameters: the exact share of people with small gradients."""
    histogram, shares, statement = BinnedSums.histogram, list[float](), Statement.of_fit

    def noting(self: BinnedSums, name: str) -> BoundedSum:
        below = np.cumsum(inside := self.counts[self.lowest : self.lowest + len(self.raw)]) / inside.sum()
        shares.append(float(1 - below[int(np.argmax(below > 0.5))]))
        return histogram(self, name)

    patch.setattr(BinnedSums, "histogram", noting)

    def telling(*args: Any, **kw: Any) -> Statement:
        # One with many digits: 0.25 is no secret, nor is 357 of 1,200.
        told = next(share for share in reversed(shares) if 0.0 < share < 1.0 and share != round(share, 6))
        return statement(*args, **kw, clipped_share=told)

    patch.setattr(Statement, "of_fit", telling)


def leak_in_log(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """A progress line with the norm of the exact sum, in seven digits."""
    release = Gate.release

    def log(self: Gate, bounded_sum: BoundedSum, mu: float) -> Any:
        logging.getLogger("commonground").debug("norm %.7g", np.linalg.norm(bounded_sum.value))
        return release(self, bounded_sum, mu)

    patch.setattr(Gate, "release", log)


def leak_in_exception(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """A helpful error that says what it could not publish."""
    release = Gate.release

    def fail(self: Gate, bounded_sum: BoundedSum, mu: float) -> Any:
        if "initial" in bounded_sum.name:
            raise CommongroundError(f"cannot publish {bounded_sum.value!r}")
        return release(self, bounded_sum, mu)

    patch.setattr(Gate, "release", fail)


def leak_in_warning(patch: pytest.MonkeyPatch, folder: Path) -> None:
    original = FeatureEnergies.of_coordinates

    def warn(statistic: FeatureEnergies, block: Block, coordinates: Any) -> Any:
        warnings.warn(f"a row has label {block.y.min():.4g}", cg.errors.PrivacyWarning, stacklevel=2)
        return original(statistic, block, coordinates)

    patch.setattr(FeatureEnergies, "of_coordinates", warn)


def leak_in_file(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Exact sums in single precision, left behind for debugging."""
    release = Gate.release

    def dump(self: Gate, bounded_sum: BoundedSum, mu: float) -> Any:
        with open(folder / "debug.bin", "ab") as file:
            file.write(b"\x01" + bounded_sum.value.astype(np.float32).tobytes())
        return release(self, bounded_sum, mu)

    patch.setattr(Gate, "release", dump)


def leak_number_of_rows(patch: pytest.MonkeyPatch, folder: Path) -> None:
    original = cg.PrivateFedRep.fit

    def tell(self: Any, users: cg.Users, **keywords: Any) -> Any:
        print(f"training on {users.n_rows:,} rows")
        return original(self, users, **keywords)

    patch.setattr(cg.PrivateFedRep, "fit", tell)


LEAKS = {
    leak_in_statement: "board/statement.json",
    leak_in_log: "train",
    leak_in_exception: "train",
    leak_in_warning: "train",
    leak_in_file: "debug.bin",
    leak_number_of_rows: "train",
}


@pytest.mark.parametrize("leak", LEAKS, ids=[leak.__name__ for leak in LEAKS])
def test_a_leak_is_found(leak: Callable[[pytest.MonkeyPatch, Path], None], tmp_path: Path) -> None:
    found = leaks(*written_in_training(tmp_path, leak))
    assert LEAKS[leak] in found, found.keys()


# ---- errors about tables -------------------------------------------------------------------------------------------------

GIVEAWAY = "8675309.25"
BAD_TABLES = {
    "a cell too few": f"user_id,a,b,y\nu1,1,2,3\ncanary,{GIVEAWAY},2\n",
    "a cell too many": f"user_id,a,b,y\nu1,1,2,3\ncanary,{GIVEAWAY},{GIVEAWAY},3,4\n",
    "text in a number": f"user_id,a,b,y\nu1,1,2,3\ncanary,{GIVEAWAY}mg,2,3\n",
    "a missing cell": f"user_id,a,b,y\nu1,1,2,3\ncanary,,{GIVEAWAY},3\n",
    "an infinite cell": f"user_id,a,b,y\nu1,1,2,3\ncanary,inf,{GIVEAWAY},3\n",
    "a missing id": f"user_id,a,b,y\nu1,1,2,3\n,1,{GIVEAWAY},3\n",
    "one person only": f"user_id,a,b,y\ncanary,1,{GIVEAWAY},3\ncanary,2,3,4\n",
    "not UTF-8 in a number": f"user_id,a,b,y\nu1,1,2,3\ncanary,{GIVEAWAY}\udcff,2,3\n",
    "an open quote": f'user_id,a,b,y\nu1,1,2,3\n"canary,{GIVEAWAY},2,3\n',
}


@pytest.mark.parametrize("streamed", [False, True], ids=["in memory", "streamed"])
@pytest.mark.parametrize("kind", BAD_TABLES)
def test_errors_about_a_table_do_not_quote_it(kind: str, streamed: bool, tmp_path: Path) -> None:
    """They name the place, not the person's values: error messages end up in tickets and chats."""
    path = tmp_path / "rows.csv"
    path.write_bytes(BAD_TABLES[kind].encode("utf-8", "surrogateescape"))
    with pytest.raises(CommongroundError) as caught:
        cg.PrivateFedRep(1).fit(cg.Users.from_table(path, max_memory=1 if streamed else 2**30))
    assert "86753" not in str(caught.value)
    assert "mg" not in str(caught.value).replace(str(path), "")


@pytest.mark.parametrize("value", [GIVEAWAY + "mg", 8675309.25 + 1j, [8675309.25], float("nan"), None])
def test_errors_about_arrays_do_not_quote_them(value: Any) -> None:
    X = np.array([[1.0, 2.0], [8675309.25, 3.0]], dtype=object)
    X[1, 1] = value
    with pytest.raises(CommongroundError) as caught:
        cg.Users.from_arrays(X, [8675309.25, 1.0], ["a", "canary"])
    assert "86753" not in str(caught.value)
