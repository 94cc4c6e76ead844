"""`commonground evaluate`: is the private model of any use on this table? For the operator's eyes only: NOT private.

Some rows of each person are held out; every model sees the others only. No ledger is asked: the private model that is fitted
here is thrown away, and its noise protects nobody, as the errors beside it are computed on rows as they are.
"""

import csv
import math
import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from scipy.special import expit
from sklearn.base import clone, is_classifier

from commonground import plots
from commonground.billboard.statement import in_lines
from commonground.cli.models import opened
from commonground.cli.options import print_json
from commonground.cli.tables import people_of_table
from commonground.cli.use import class_of
from commonground.data.population import Population
from commonground.data.schema import Schema
from commonground.data.users import Users
from commonground.errors import InputError, PrivacyWarning, ScaleWarning, SharingWarning, is_whole
from commonground.estimators.nonprivate_fedrep import NonPrivateFedRep
from commonground.estimators.own_data import OwnDataOnly
from commonground.progress import progress_bar

MEAN, OWN_MEAN, OWN_DATA, OPEN = "global mean", "own mean", "own data", "mixed model, NOT private"
CLASS, OWN_CLASS = "most frequent class", "own most frequent class"  # in place of means
UNPROTECTED = {"own": "own data, nothing shared", "nonprivate": "nonprivate, NOT private"}  # models without an ε
SMALLEST_CHANCE = 0.01  # that a log loss counts, as in an evaluation of a board
BINS = (1, 2, 4, 8, 16, 32, 64)  # lowest numbers of own rows
ITERATIONS = 60  # of the model without privacy: enough for a comparison
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
WARNING = (
    "NOT PRIVATE, for the operator's eyes only: errors on people's rows as they are. Do not publish them; and what you choose "
    "by them (features, rank, ε, whether to train at all) is chosen by these rows, outside of any guarantee."
)


@dataclass(frozen=True)
class Split:
    """Everybody's rows, some of which no model sees. Private."""

    X: np.ndarray
    y: np.ndarray
    ids: np.ndarray
    held_out: np.ndarray  # (rows,) bool
    own_rows: np.ndarray  # (rows,) how many rows of this row's person models see

    def __repr__(self) -> str:
        return "<Split: private>"

    @classmethod
    def of(cls, people: Population, share: float, seed: int) -> "Split":
        """Of each person with two rows or more that share, at least one, spread evenly over her rows."""
        blocks = list(people.blocks())
        X, y = np.concatenate([block.X for block in blocks]), np.concatenate([block.y for block in blocks])
        sizes = np.concatenate([np.diff(block.offsets) for block in blocks])
        ids, held_out = np.repeat(np.asarray(people.ids), sizes), np.zeros(len(y), dtype=bool)
        wanted = np.where(sizes > 1, np.maximum(1, np.floor(share * sizes)), 0).astype(int)
        start = 0
        for size, count in zip(sizes.tolist(), wanted.tolist(), strict=True):
            order = np.argsort(np.modf((np.arange(size) + 7919 * seed + 1) * GOLDEN)[0], kind="stable")
            held_out[start + order[:count]] = True
            start += size
        return cls(X, y, ids, held_out, np.repeat(sizes - wanted, sizes))


@dataclass(frozen=True)
class Errors:
    """Of one model; not private."""

    model: str
    all_rows: float
    by_own_rows: dict[int, float]  # lowest number of own rows → error
    log_loss: float | None = None  # of the classes' chances, of a model that tells them

    def worse_than(self, other: "Errors") -> bool:
        """In no way better, and in some worse."""
        if self.log_loss is None or other.log_loss is None:
            return not self.all_rows <= other.all_rows
        better = self.all_rows < other.all_rows or self.log_loss < other.log_loss
        return not better and (self.all_rows, self.log_loss) != (other.all_rows, other.log_loss)


def run_evaluation(
    table: Any, out: Path, people: dict[str, Any], model: str, rank: Any, epsilon: float, delta: float, held_out: float,
    seed: int, as_json: bool, to_people: Console,
) -> None:  # fmt: skip
    """Fit everything on the rows that are not held out; print the table, write numbers and figure under ``out``."""
    if not 0 < held_out < 1:
        raise InputError(f"--held-out must lie between 0 and 1, got {held_out:g}.")
    users: Population = people_of_table(table, **people)
    private = opened(model, users, {"rank": rank}, epsilon=epsilon, delta=delta)
    out.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        for quiet in (ScaleWarning, SharingWarning):
            warnings.simplefilter("ignore", quiet)
        # Fits here are thrown away; nobody has paid
        warnings.filterwarnings("ignore", "the same people", PrivacyWarning)
        if not users.features_are_known:  # which values are found is decided once, by a fit on everybody
            found = clone(private).fit(users).billboard_.schema
            users = Users.from_table(table, schema=found)
        name = UNPROTECTED.get(model, f"private {model}, ε = {epsilon:g}")
        results = compare(private, name, users, held_out, seed, verbose=not as_json)
    mean, ours = results[0], results[-1]
    useless = ours.worse_than(mean)
    what = "share of wrong classes" if _is_class(users.schema) else "root mean squared error"
    _write(results, out, what)
    if as_json:
        found_errors = [
            {"model": r.model, "error": r.all_rows, "by_own_rows": r.by_own_rows}
            | ({} if r.log_loss is None else {"log_loss": r.log_loss})
            for r in results
        ]
        print_json(
            {
                "private": False,
                "warning": WARNING,
                "error": what,
                "results": found_errors,
                "worse_than_the_mean": useless,
            }
        )
        return
    _show(results, out, what)
    if useless:
        which = "This" if model in UNPROTECTED else "The private"
        helps = "" if model in UNPROTECTED else ": more people, a larger ε, fewer features or public ranges would help"
        to_people.print(
            f"[bold red]{which} model is worse than the {mean.model}[/] ({_against(ours, mean)}). "
            f"Do not train it like this{helps}.",
            highlight=False,
        )


def compare(
    private: Any, name: str, users: Population, held_out: float, seed: int, verbose: bool = False
) -> list[Errors]:
    """All models on the same split: the global mean first, the private one last."""
    split, schema = Split.of(users, held_out, seed), users.schema
    seen, asked = ~split.held_out, split.held_out
    if not asked.any():
        raise InputError("nobody has two rows or more, so none can be held out.")
    if schema is not None and schema.label.kind == "category" and "classes" in private.get_params():
        # Places, as labels are here
        private = clone(private).set_params(classes=tuple(range(len(schema.label.values))))
    models: list[tuple[str, Any]] = [(OWN_DATA, OwnDataOnly())]
    if users.n_features > 1:
        known = is_whole(private.rank) and 0 < private.rank < users.n_features
        models.append((OPEN, NonPrivateFedRep(private.rank if known else 1, max_iterations=ITERATIONS)))
    mean, own_mean = (CLASS, OWN_CLASS) if _is_class(schema) else (MEAN, OWN_MEAN)
    answers = {mean: _mean(split, schema), own_mean: _own_means(split, schema)}
    chances: dict[str, np.ndarray] = {}
    with progress_bar("evaluating, models", len(models) + 1, verbose) as advance:
        for title, model in [*models, (name, private)]:
            fitted = model.fit(split.X[seen], split.y[seen], users=split.ids[seen])
            scores = fitted.predict(split.X[asked], users=split.ids[asked])
            told = _chances(fitted, scores, split) if title == name and _is_class(schema) else None
            if told is not None:
                chances = {mean: _frequencies(split, told.shape[1]), name: told}
            if schema is not None and not is_classifier(fitted):
                is_class = _is_class(schema)
                scores = class_of(fitted.billboard_, scores, schema) if is_class else schema.in_label_range(scores)
            answers[title] = scores
            advance()
    bins = np.searchsorted(BINS, split.own_rows[asked], side="right") - 1
    errors = [_errors(title, answer, split.y[asked], bins, _is_class(schema)) for title, answer in answers.items()]
    return [replace(one, log_loss=_log_loss(chances.get(one.model), split.y[asked])) for one in errors]


def _against(ours: Errors, mean: Errors) -> str:
    """In which number it is worse."""
    if ours.all_rows == mean.all_rows:
        return f"log loss {ours.log_loss:.4g} against {mean.log_loss:.4g}"
    return f"{ours.all_rows:.4g} against {mean.all_rows:.4g}"


def _chances(fitted: Any, scores: np.ndarray, split: Split) -> np.ndarray | None:
    """(rows, classes) of held-out rows; None: this model tells none."""
    if hasattr(fitted, "predict_proba"):
        return np.asarray(fitted.predict_proba(split.X[split.held_out], users=split.ids[split.held_out]))
    if not fitted.billboard_.log_odds:
        return None
    yes = expit(scores)
    return np.column_stack([1.0 - yes, yes])


def _frequencies(split: Split, n_classes: int) -> np.ndarray:
    """How often each class is, as if nothing else were known."""
    counts = np.bincount(split.y[~split.held_out].astype(int), minlength=n_classes)
    return np.tile(counts / counts.sum(), (int(split.held_out.sum()), 1))


def _log_loss(chances: np.ndarray | None, truth: np.ndarray) -> float | None:
    if chances is None:
        return None
    of_truth = np.clip(chances[np.arange(len(truth)), truth.astype(int)], SMALLEST_CHANCE, 1.0 - SMALLEST_CHANCE)
    return float(-np.log(of_truth).mean())


def _is_class(schema: Schema | None) -> bool:
    return schema is not None and schema.label.is_class


def _errors(title: str, answer: np.ndarray, truth: np.ndarray, bins: np.ndarray, classes: bool) -> Errors:
    wrong = (answer != truth).astype(float) if classes else (answer - truth) ** 2
    measure = (lambda part: float(part.mean())) if classes else (lambda part: float(np.sqrt(part.mean())))
    return Errors(title, measure(wrong), {BINS[b]: measure(wrong[bins == b]) for b in np.unique(bins) if b >= 0})


def _mean(split: Split, schema: Schema | None) -> np.ndarray:
    labels, n = split.y[~split.held_out], int(split.held_out.sum())
    return np.full(n, _middle(labels, schema))


def _middle(labels: np.ndarray, schema: Schema | None) -> float:
    """The mean, or the most frequent class."""
    return float(np.bincount(labels.astype(int)).argmax()) if _is_class(schema) else float(labels.mean())


def _own_means(split: Split, schema: Schema | None) -> np.ndarray:
    seen = ~split.held_out
    own: dict[Any, list[float]] = {}
    for person, label in zip(split.ids[seen].tolist(), split.y[seen].tolist(), strict=True):
        own.setdefault(person, []).append(label)
    middle = {person: _middle(np.array(labels), schema) for person, labels in own.items()}
    return np.array([middle[person] for person in split.ids[split.held_out].tolist()])


def _write(results: list[Errors], out: Path, what: str) -> None:
    path = out / "evaluation_NOT_PRIVATE.csv"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "own rows from", what])
        for result in results:
            writer.writerow([result.model, "all", result.all_rows])
            writer.writerows([result.model, low, error] for low, error in result.by_own_rows.items())
    for picture in plots.write([_figure(results, what)], out / "evaluation_NOT_PRIVATE"):
        os.chmod(picture, 0o600)


def _rows_from(low: int) -> str:
    """Numbers of own rows, of the bin that begins there.

    >>> [_rows_from(low) for low in (1, 2, 16, 64)]
    ['1', '2–3', '16–31', '64+']
    """
    if low == BINS[-1]:
        return f"{low}+"
    last = BINS[BINS.index(low) + 1] - 1
    return str(low) if last == low else f"{low}–{last}"


def _show(results: list[Errors], out: Path, what: str) -> None:
    typer.echo(in_lines(WARNING))
    lows = sorted({low for result in results for low in result.by_own_rows})
    table = RichTable(title=f"{what}, by the number of own rows", width=78)
    table.add_column("model")
    for heading in ("all", *map(_rows_from, lows)):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        worse = result is results[-1] and result.worse_than(results[0])
        cells = [
            f"{result.all_rows:.3g}",
            *(f"{result.by_own_rows[low]:.3g}" if low in result.by_own_rows else "–" for low in lows),
        ]
        table.add_row(escape(result.model), *cells, style="red" if worse else None)
    Console(width=80).print(table)
    chances, alone = results[-1].log_loss, results[0].log_loss
    if chances is not None and alone is not None:
        told = f"Chances of classes: log loss {chances:.4g}; by how often each class is, {alone:.4g}."
        typer.echo(in_lines(f"{told} Chances count from {SMALLEST_CHANCE:g} on."))
    typer.echo(f"Figure: {out / 'evaluation_NOT_PRIVATE.svg'} · numbers: {out / 'evaluation_NOT_PRIVATE.csv'}")


def _figure(results: list[Errors], what: str) -> plots.Panel:
    lines = [
        plots.Line(result.model, list(result.by_own_rows), list(result.by_own_rows.values()), dash=dash)
        for result, dash in zip(results, ("2 3", "8 3 2 3", "7 4", "3 3", ""), strict=False)
    ]
    lows = sorted({low for result in results for low in result.by_own_rows})
    most = max((y for line in lines for y in line.ys if math.isfinite(y)), default=1.0)
    return plots.Panel(
        lines,
        "own rows that models saw (from)",
        f"{what}, rows held out",
        "NOT PRIVATE: for the operator's eyes only",
        log_x=True,
        x_ticks=lows,
        y_range=(0.0, 1.05 * most or 1.0),
    )
