"""`commonground plan`: what refits under one yearly budget bring, before any of it is spent. Nobody's rows are read.

People are made up from what a board publishes: its directions, mean, spread and noise. A year of refits is then played through,
for several numbers of them; the error is that of people's own predictions on fresh rows, exactly, averaged over the year.
"""

import csv
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as RichTable

from commonground import plots
from commonground.cli.options import AsJson, Board, Delta, print_json
from commonground.defaults import DELTA
from commonground.errors import InputError

SIMULATED = 4000  # people at most; for more, the noise is made as much smaller as it would be among them
EVALUATED = 1000  # people whose error is computed
LOOKS = 12  # a year, at least, at the error
TIMES_EPSILON = (0.25, 0.5, 1.0, 2.0)  # for one fit, of which the error is told, too


@dataclass(frozen=True)
class Year:
    """One number of refits, played through."""

    refits: int
    epsilon_each: float
    rmse: float  # averaged over the year, noise of labels included
    rmse_from_scratch: float  # the same without start=, for as many refits
    times: tuple[float, ...]  # in years
    rmses: tuple[float, ...]


@dataclass(frozen=True)
class Refits:
    """All that is told."""

    years: tuple[Year, ...]
    by_epsilon: tuple[tuple[float, float, float], ...]  # ε of one fit, its rmse from the board and from scratch
    rmse_unchanged: float  # nobody refits: the board as it is
    rmse_floor: float  # what heads reach on directions that are known
    left: str | None
    allowed: dict[int, int] | None  # of refits of each kind, by what the ledger has left


def plan(
    billboard: Board,
    out: Annotated[Path, typer.Option("--out", help="Folder for the table (CSV) and the figure (PNG and SVG).")],
    epsilon: Annotated[float, typer.Option(help="ε for a whole year of refits together.")] = 1.0,
    delta: Delta = DELTA,
    people: Annotated[
        int | None, typer.Option(help="How many there will be; as many as the board has, by default.")
    ] = None,
    rows: Annotated[int, typer.Option(help="About how many rows each of them has.")] = 10,
    refits: Annotated[str, typer.Option(help="Numbers of refits a year to compare.")] = "1,4,12,52",
    drift: Annotated[float, typer.Option(help="By how much the shared directions turn in a year, in degrees.")] = 0.0,
    ledger: Annotated[str | None, typer.Option(help="Ledger that is to pay; says how many refits it allows.")] = None,
    population: Annotated[str | None, typer.Option(help="Whose budget in the ledger.")] = None,
    seed: Annotated[int, typer.Option(help="Of the made-up people and their noise.")] = 0,
    as_json: AsJson = False,
) -> None:
    """What refits under one yearly budget would bring: error by ε and number of refits, from a board; no rows are read."""
    from commonground.billboard.board import Billboard
    from commonground.cli.ledger import population_in

    board = Billboard.load(billboard)
    numbers = _numbers(refits)
    if board.spread is None or board.noise is None or board.log_odds or board.rank == 0:
        raise InputError(
            "plan makes people up from a board's directions, spread and noise of labels, and this board lacks some of them. Give "
            "one of `train --model fedrep` with a rank of at least 1."
        )
    people_who_pay = population_in(ledger, population)
    n = board.statement.n_users if people is None else people
    if n < 2 or rows < 1:
        raise InputError(f"--people must be at least 2 and --rows at least 1, got {n} and {rows}.")
    out.mkdir(parents=True, exist_ok=True)
    years = play(board, n, rows, epsilon, delta, numbers, math.radians(drift), seed, verbose=not as_json)
    told = _with_ledger(years, people_who_pay, epsilon, delta, numbers)
    _write(told, out)
    written = [out / "plan.csv", *plots.write(_figure(told), out / "plan")]
    if as_json:
        print_json(
            {"people": n, "rows": rows, "epsilon": epsilon, "delta": delta, "drift_degrees": drift, **asdict(told)}
        )
    else:
        _show(told, n, epsilon, delta, drift)
        typer.echo(f"Wrote {', '.join(map(str, written))}.")


def play(
    board: Any,
    n: int,
    rows: int,
    epsilon: float,
    delta: float,
    numbers: Sequence[int],
    drift: float,
    seed: int,
    verbose: bool,
) -> Refits:
    """A year for each number of refits, from people who are like the board."""
    from commonground.accounting.budgets import Budget
    from commonground.accounting.refits import budget_of_each
    from commonground.datasets.drifting import DriftingPeople
    from commonground.metrics import error_of_heads
    from commonground.progress import progress_bar

    world = DriftingPeople(board.embedding, board.spread, board.noise, board.mean, board.intercept, drift, seed)
    present = min(n, SIMULATED)
    known = world.own_parts(EVALUATED, seed + 1)

    def rmse(of: Any, time: float) -> float:
        judged = world.rows(known, time, rows, seed + 2)
        return math.sqrt(error_of_heads(of, judged, *world.coefficients(known, time)) + board.noise)

    def year(refits: int, advance: Any, starts: bool) -> tuple[list[float], list[float]]:
        now, times, errors = board, [], []
        for at in range(refits):
            each = budget_of_each(epsilon, delta, refits)
            time = at / refits
            crowd = world.rows(world.own_parts(present, seed + 10 + at), time, rows, seed + 10 + at)
            now = _refitted(now if starts else None, board, crowd, each.mu * n / present, seed + at)
            looks = math.ceil(LOOKS / refits)
            for look in range(looks):
                times.append(time + (look + 0.5) / looks / refits)
                errors.append(rmse(now, times[-1]))
            advance()
        return times, errors

    years, by_epsilon = [], []
    crowd = world.rows(world.own_parts(present, seed + 9), 0.0, rows, seed + 9)
    with progress_bar("refits", 2 * (sum(numbers) + len(TIMES_EPSILON)), verbose) as advance:
        for times_epsilon in TIMES_EPSILON:
            one = Budget(epsilon * times_epsilon, delta)
            fits = (_refitted(start, board, crowd, one.mu * n / present, seed) for start in (board, None))
            started, scratch = (rmse(fitted, 0.0) for fitted in fits)
            by_epsilon.append((one.epsilon, started, scratch))
            advance()
            advance()
        for refits in numbers:
            times, errors = year(refits, advance, True)
            anew = year(refits, advance, False)[1]
            each = budget_of_each(epsilon, delta, refits).epsilon
            years.append(Year(refits, each, _mean(errors), _mean(anew), tuple(times), tuple(errors)))
    middles = [(at + 0.5) / 12 for at in range(12)]
    unchanged = _mean([rmse(board, time) for time in middles])
    floor = _mean([rmse(_known(board, world, time), time) for time in middles[::4]])
    return Refits(tuple(years), tuple(by_epsilon), unchanged, floor, None, None)


def _refitted(start: Any, board: Any, crowd: Any, mu: float, seed: int) -> Any:
    """A simulated fit, like the one that made the board; its noise is that of the cost ``mu``."""
    from commonground.accounting.gaussian import gaussian_epsilon
    from commonground.estimators.fedrep import PrivateFedRep

    model = PrivateFedRep(
        board.rank,
        max(gaussian_epsilon(mu, 1e-6), 1e-4),
        1e-6,
        fit_intercept=board.fit_intercept,
        shared_mean=board.mean is not None,
        keep_heads=False,
        simulation_seed=seed,
    )
    with warnings.catch_warnings(action="ignore"):
        return model.fit(crowd, start=start).billboard_


def _known(board: Any, world: Any, time: float) -> Any:
    return replace(board, embedding=world.embedding_at(time))


def _with_ledger(told: Refits, people: Any, epsilon: float, delta: float, numbers: Sequence[int]) -> Refits:
    """Also how many refits of each kind the ledger's ``people`` have budget left for, where a ledger was named."""
    if people is None:
        return told
    from commonground.accounting.refits import budget_of_each, fits_within

    left = people.account().left
    allowed = {refits: fits_within(left, budget_of_each(epsilon, delta, refits)) for refits in numbers}
    return replace(told, left=people.left_in_words(), allowed=allowed)


def _numbers(text: str) -> list[int]:
    try:
        numbers = sorted({int(one) for one in text.split(",")})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 1 or numbers[-1] > 400:
        raise InputError(
            f"--refits must be numbers from 1 to 400 with commas between them, such as 1,4,12,52; got {text!r}."
        )
    return numbers


def _mean(values: Sequence[float]) -> float:
    """Of errors: the root of their mean square."""
    return math.sqrt(sum(value**2 for value in values) / len(values))


def _write(told: Refits, out: Path) -> None:
    with (out / "plan.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("refits", "epsilon_each", "rmse", "rmse_from_scratch", "refits_the_ledger_allows"))
        for year in told.years:
            allowed = "" if told.allowed is None else told.allowed[year.refits]
            table.writerow((year.refits, year.epsilon_each, year.rmse, year.rmse_from_scratch, allowed))


def _show(told: Refits, n: int, epsilon: float, delta: float, drift: float) -> None:
    typer.echo(
        f"Simulated from the board, nobody's rows are read: {n:,} people, ε = {epsilon:g} (δ = {delta:g}) a year for whoever is "
        f"in all fits, directions that turn by {drift:g}° a year."
    )
    table = RichTable(title="Error of people's own predictions (RMSE), over the year", width=78)
    headings = ["refits", "ε each", "from the board", "from scratch", *(["ledger allows"] if told.allowed else [])]
    for heading in headings:
        table.add_column(heading, justify="right")
    for year in told.years:
        cells = [str(year.refits), f"{year.epsilon_each:.4f}", f"{year.rmse:.4f}", f"{year.rmse_from_scratch:.4f}"]
        table.add_row(*cells, *([f"{told.allowed[year.refits]:,}"] if told.allowed else []))
    Console(width=80).print(table)
    one = "; ".join(f"ε = {at:g}: {start:.4f} ({scratch:.4f} from scratch)" for at, start, scratch in told.by_epsilon)
    typer.echo(f"Right after one fit from the board: {one}.")
    best = min(told.years, key=lambda year: year.rmse)
    typer.echo(
        f"The board as it is, all year: {told.rmse_unchanged:.4f}. With directions that are known: {told.rmse_floor:.4f}. Best "
        f"of these: {best.refits} refits, each with --epsilon {math.floor(best.epsilon_each * 1e6) / 1e6:g} --start BOARD."
    )
    if told.left is not None:
        typer.echo(told.left)


def _figure(told: Refits) -> list[plots.Panel]:
    known = plots.Line("directions known", [], [told.rmse_floor], "#7f7f7f", "2 3")
    unchanged = plots.Line("board unchanged", [], [told.rmse_unchanged], "#000", "7 4")
    over_time = [
        plots.Line(f"{year.refits} × ε = {year.epsilon_each:.2g}", year.times, year.rmses) for year in told.years
    ]
    numbers = [year.refits for year in told.years]
    by_number = [
        plots.Line("from the board (start=)", numbers, [year.rmse for year in told.years]),
        plots.Line("from scratch", numbers, [year.rmse_from_scratch for year in told.years]),
    ]
    epsilons, started, scratch = zip(*told.by_epsilon, strict=True)
    by_epsilon = [
        plots.Line("one fit from the board", epsilons, started),
        plots.Line("one fit from scratch", epsilons, scratch),
    ]
    everything = [told.rmse_floor, told.rmse_unchanged, *started, *scratch]
    everything += [y for line in (*over_time, *by_number) for y in line.ys]
    low, high = min(everything), max(everything)
    room = 0.05 * (high - low) or 0.1
    ends = low - room, high + room  # the same for all three, to compare
    error = "RMSE on fresh rows"
    return [
        plots.Panel([*over_time, known], "year", error, "over the year", x_range=(0.0, 1.0), y_range=ends),
        plots.Panel(
            [*by_number, unchanged, known],
            "refits a year",
            error,
            "by number of refits",
            log_x=True,
            x_ticks=numbers,
            y_range=ends,
        ),
        plots.Panel(
            by_epsilon, "ε of the fit", error, "right after one fit", log_x=True, x_ticks=epsilons, y_range=ends
        ),
    ]
