"""Before any budget is spent: features whose size the noise would hide, by name. For the operator's eyes alone.

Features of very different sizes, or far from zero, are a matter of units, which the released coordinates can even out only
where n·μ is large; a shared answer for a feature that lies a hundred spreads from zero is off by as much. What helps is public:
a range for the column (``Schema``), or another unit.

Not private: this reads rows, outside of the gate. So its outcome goes to the operator as a warning, and nothing of it reaches
the billboard or changes the fit. Middles and spreads are those of quantiles, which nobody with fewer than a tenth of the rows
that are looked at decides (of a table on disk, those of the first block; of a feature that is mostly one value, a hundredth);
still, an operator who lets others see which trainings were refused tells them something that no ε covers. With ranges for the
label and all features nothing is looked at.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from commonground.data.population import Population
from commonground.steps.label_units import LabelUnit

# By reach, n·μ/√d: how far the sum of n people stands out of the noise. See docs/schema.md for the experiment.
FEW, SOME = 40.0, 120.0
SHARED_ANSWER_FROM = 30.0  # n·μ, from which on the level of labels is seen; see benchmarks/shared_answers.py
SCALES_FOUND_FROM = 300.0  # from here on released coordinates find scales of any ratio, and features some way from zero
CENTRE_FOUND_FROM = 1_000.0  # from here on, features as far from zero as years are
FIND_SCALES = ("PrivateFedRep", "SingleModel")  # the estimators that release such coordinates
FARTHEST = 0.99  # quantile, at which cells off a feature's one value are cut
NUMBERS = 500_000  # looked at, at most: rows times features
# Labels: so many octaves about size one are fine; beyond, n·μ must be so large for each octave of small and of large labels; and
# so large for estimators without own levels, by which people's own rows tell where noise hides it (docs/schema.md).
FREE_OCTAVES, SMALL_AN_OCTAVE, LARGE_AN_OCTAVE, LABELS_FOUND_FROM = 3.0, 15.0, 8.0, 300.0
OWN_LEVELS = ("PrivateFedRep",)
LOCATE_LABELS = ("PrivateFedRep", "PrivateAltMin", "SingleModel")


@dataclass(frozen=True)
class HiddenScale:
    """A feature whose size would be hidden; for the operator, and without the private number itself."""

    feature: str
    problem: str

    def __str__(self) -> str:
        return f"{self.feature!r} {self.problem}"


def hidden_scales(users: Population, mu: float, *, finds_scales: bool, shared_mean: bool) -> list[HiddenScale]:
    """Which features noise would hide at this n·μ; none where every feature has a public size, or rows are elsewhere."""
    known = users.known_part if users.rows_are_here else None
    if known is None or known.sparse or (known.schema is not None and known.schema.bounded):
        return []
    users = known
    middle, spread = _middles_and_spreads(users)
    names = users.feature_names or [f"feature {j}" for j in range(users.n_features)]
    varying = spread > 0
    if not varying.any():
        return []
    usual, found = float(np.median(spread[varying])), []
    reach = reach_of(users, mu)
    largest_ratio = math.inf if finds_scales and reach >= SCALES_FOUND_FROM else 100.0 if reach >= SOME else 10.0
    largest_offset = 10.0 if reach >= FEW else 3.0  # of a feature's middle, in its own spreads
    if finds_scales and reach >= SCALES_FOUND_FROM:
        largest_offset = 1_000.0 if reach >= CENTRE_FOUND_FROM else 50.0
    for name, at, size, varies in zip(names, middle.tolist(), spread.tolist(), varying, strict=True):
        if not varies:
            continue
        ratio = size / usual
        if not 1 / largest_ratio <= ratio <= largest_ratio:
            found.append(HiddenScale(str(name), f"is far {'larger' if ratio > 1 else 'smaller'} than the others"))
        elif shared_mean and abs(at) / largest_offset > size:
            found.append(HiddenScale(str(name), "lies many times its spread from zero"))
    return found


def hidden_label(users: Population, mu: float, *, own_levels: bool, with_level: bool) -> str:
    """What to say of labels so large or small that noise would hide where they lie; empty where all is well.

    Where labels lie is found on a grid of sizes, about size one where nothing stands out. With a public range they are learned in
    units of it (``with_level``: also from its middle), and it alone is looked at; else of the rows, only quantiles.
    """
    known = users.known_part if users.rows_are_here else None
    if known is None:
        return ""
    users = known
    label = None if users.schema is None else users.schema.label
    if label is not None and label.kind in ("category", "yes/no"):
        return ""
    if users.label_range is not None:
        unit = LabelUnit.of(users.label_range, with_level=with_level)
        middle, spread = (sum(users.label_range) / 2 - unit.zero) / unit.size, 1.0
    else:
        y = next(iter(users.blocks())).y
        with np.errstate(over="ignore", invalid="ignore"):  # labels as large as numbers get
            low, middle, high = np.quantile(y[:: 1 + y.size // NUMBERS].astype(np.float64), [0.1, 0.5, 0.9])
            spread = (high - low) / 2.56
    if not spread > 0.0:
        return ""
    size = max(spread, abs(middle)) if abs(middle) > 2.0**FREE_OCTAVES else spread
    octaves = abs(math.log2(size))
    needed = (LARGE_AN_OCTAVE if size > 1.0 else SMALL_AN_OCTAVE) * octaves if own_levels else LABELS_FOUND_FROM
    if octaves <= FREE_OCTAVES or users.n_users * mu >= needed:
        return ""
    name = "the label" if users.label_name is None else f"{users.label_name!r}, the label,"
    return (
        f"noise would hide where labels lie for {users.n_users:,} people at this ε, and nothing would be learned, or predictions "
        f"be off by any factor: {name} is far {'larger' if size > 1 else 'smaller'} than one. Declare its public range, such as "
        "0 to 500,000 for prices (--label-range, or a schema), or divide it by a public number."
    )


def reach_of(users: Population, mu: float) -> float:
    """How far n people stand out of the noise, from public numbers."""
    return users.n_users * mu / max(users.n_features, 1) ** 0.5


def too_few_for_a_shared_answer(users: Population, mu: float) -> str:
    """A warning from public numbers alone, empty where there is none: nothing but a label's range holds such an answer."""
    if users.sparse or not users.features_are_known or users.n_users * mu >= SHARED_ANSWER_FROM:
        return ""
    held = (
        "Only a narrow public range of labels would hold it."
        if users.label_range is None
        else "Only their range holds it."
    )
    return (
        f"{users.n_users:,} people are few for a shared answer at this ε: for somebody without a head of her own it can be off "
        f"by several times the spread of labels. {held}"
    )


def advice(hidden: Sequence[HiddenScale], n_users: int) -> str:
    return (
        f"noise would hide the size of {len(hidden)} feature{'s' if len(hidden) > 1 else ''} for {n_users:,} "
        f"people at this ε, and little would be learned, or predictions be off by "
        f"any factor: {'; '.join(map(str, hidden[:10]))}{'; …' if len(hidden) > 10 else ''}. Declare a public range for each (a "
        "schema, see `commonground schema`), change its unit, or leave it out."
    )


def _middles_and_spreads(users: Population) -> tuple[np.ndarray, np.ndarray]:
    """By quantiles of some rows; of a feature that is mostly one value, the root mean square about it, but for the farthest."""
    X = next(iter(users.blocks())).X
    rows = X[:: 1 + X.size // NUMBERS].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # numbers as large as they get
        low, middle, high = np.quantile(rows, [0.1, 0.5, 0.9], axis=0)
        off = np.abs(rows - middle)
        about = np.sqrt(np.mean(np.minimum(off, np.quantile(off, FARTHEST, axis=0)) ** 2, axis=0))
        spread = np.where(
            high > low, (high - low) / 2.56, about
        )  # 2.56: of a normal distribution, its standard deviation
    middle = np.where(high > low, middle, 0.0)  # what is mostly one value is as good as an intercept
    return middle, np.nan_to_num(spread, nan=0.0, posinf=0.0)
