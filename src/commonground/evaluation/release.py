"""Everybody's own errors become a few public numbers, through the gate.

**Guarantee.** Unit: one person, replaced by any other; the number of people is public. Others' errors do not depend on her rows
once the board is public, so only what she sends changes: for a clip that is not known in advance, one count in a histogram of
sizes (√2); m means, numbers between 0 and 1 with the count of those who have held-out rows (√m, ``clipping.shares``); for the ROC
curve, her own distribution over public cells (√2). Who has no held-out row sends zeros.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.accounting.plan import Plan, Share
from commonground.clipping.grid import N_BINS, bins_of, lower_edge
from commonground.clipping.shares import ShareSums
from commonground.clipping.sums import SizeCounts
from commonground.denoise.histograms import LOCATING_WIDTH, densest_window
from commonground.evaluation.intervals import area_with_interval, interval_of_ratio
from commonground.evaluation.own_errors import CELLS, MEANS, MOST_LOG_LOSS, OwnErrors
from commonground.evaluation.result import Measure
from commonground.gate import Gate

PLAN = Plan(
    (
        Share("sizes", 1.0, "how large people's own errors are, where no clip is public"),
        Share("means", 3.0, "means over people, and how many have held-out rows"),
        Share("curve", 3.0, "people's scores by label, for the ROC curve"),
    )
)
BIN_STANDS_OUT = 3.0  # standard deviations of the noise by which a bin of sizes must stand out to count
SPARE_BINS = 1  # half octaves between the largest size that stands out and the clip


@dataclass(frozen=True)
class Limit:
    """What is public of the sizes of errors, in the unit of labels."""

    clip: float | None = None  # the largest error of a person that counts; None: to be read off a release
    width: float | None = None  # of the range of labels: no error is larger

    @property
    def known(self) -> "Clip | None":
        if self.clip is None:
            return None
        return Clip(self.clip if self.width is None else min(self.clip, self.width), False)


@dataclass(frozen=True)
class Clip:
    """The largest error of a person that counts, in the unit of labels; public from the start, or read off a release."""

    size: float
    released: bool


def release_measures(
    errors: OwnErrors, n_public: int, limit: Limit, budget: Budget, gate: Gate, confidence: float
) -> tuple[tuple[Measure, ...], Clip | None]:
    """All of ``errors`` within ``budget``, and the clip that was used; ``n_public``: how many people are told of."""
    clip = limit.known
    names = [name for name in MEANS if name in errors.of]
    has_size = "rmse" in names or "mae" in names
    plan = PLAN if has_size and clip is None else PLAN.without("sizes")
    plan = plan if names else plan.without("means")
    plan = plan if errors.masses is not None else plan.without("curve")
    cost = plan.costs(budget)
    if has_size and clip is None:
        clip = _released_clip(errors, limit.width, gate, cost["sizes"])
    found: list[Measure] = []
    if names:
        found += _released_means(errors, n_public, names, clip, gate, cost["means"], confidence)
    if errors.masses is not None:
        released = gate.release(errors.masses.bounded("evaluation: scores by label"), cost["curve"])
        no, yes = released.value[:CELLS], released.value[CELLS:]
        found.append(Measure("auc", *area_with_interval(yes, no, released.noise_std, confidence)))
    return tuple(found), clip if has_size else None


def _released_clip(errors: OwnErrors, width: float | None, gate: Gate, mu: float) -> Clip:
    """Above the largest size of a person's own error that stands out of the noise; sizes lie close together, or are clipped."""
    with np.errstate(over="ignore"):  # one person's error, which nothing printed may tell of
        squares = errors.of["rmse"] if "rmse" in errors.of else np.square(errors.of["mae"])
    there = ~np.isnan(squares)
    bins = bins_of(np.where(there, np.minimum(squares, 1e300), 0.0))
    counts = np.bincount(bins, np.where(there, errors.weights, 0.0), minlength=N_BINS)
    released = gate.release(SizeCounts(counts).bounded("evaluation: sizes of errors"), mu)
    first = densest_window(released.value, released.noise_std)
    last = first + LOCATING_WIDTH // 2
    for bin_index in range(last, min(first + 2 * LOCATING_WIDTH, N_BINS - 2)):
        if released.value[bin_index] > BIN_STANDS_OUT * released.noise_std:
            last = bin_index
    size = lower_edge(min(last + 1 + SPARE_BINS, N_BINS - 1))
    return Clip(size, released=True) if width is None or size < width else Clip(width, released=False)


def _released_means(
    errors: OwnErrors, n_public: int, names: list[str], clip: Clip | None, gate: Gate, mu: float, confidence: float
) -> list[Measure]:
    most = {name: _most(name, clip) for name in names}
    with np.errstate(over="ignore"):  # as above; more than the most counts as the most
        shares = np.column_stack([errors.of[name] / most[name] for name in names])
    sums = ShareSums.of(shares, errors.weights)
    released = gate.release(sums.bounded("evaluation: means over people", n_public), mu)
    people, std = float(released.value[-1]) / sums.count_factor, released.noise_std
    found = []
    for name, above in zip(names, released.value[:-1].tolist(), strict=True):
        low, high = interval_of_ratio(above, people, std, std / sums.count_factor, confidence, most=0.5)
        middle = float(np.clip(above / people, low, high)) if people > 0.0 else (low + high) / 2
        found.append(Measure(name, *(in_its_unit(name, most[name] * (0.5 + each)) for each in (middle, low, high))))
    return found


def _most(name: str, clip: Clip | None) -> float:
    """The largest value of a person's own number, by which it is divided."""
    if name in ("rmse", "mae"):
        assert clip is not None
        return clip.size**2 if name == "rmse" else clip.size
    return MOST_LOG_LOSS if name == "log_loss" else 1.0


def in_its_unit(name: str, mean: float) -> float:
    """A mean over people as it is told: errors of numbers as the root of mean squares."""
    return math.sqrt(max(mean, 0.0)) if name == "rmse" else mean


def exact_measures(errors: OwnErrors) -> tuple[Measure, ...]:
    """The same without noise: NOT private."""
    found = []
    for name in (name for name in MEANS if name in errors.of):
        values = errors.of[name]
        there = ~np.isnan(values) & (errors.weights > 0.0)
        mean = float(np.average(values[there], weights=errors.weights[there])) if there.any() else math.nan
        found.append(Measure(name, *[in_its_unit(name, mean)] * 3))
    if errors.masses is not None:
        masses = errors.masses.units.astype(float)
        area = area_with_interval(masses[CELLS:], masses[:CELLS], 0.0, 0.5)[0]
        found.append(Measure("auc", area, area, area))
    return tuple(found)
