"""Labels in a unit of their own, read off their public range: prices in cents and in thousands are then learned alike. Free.

Where noise hides how large labels are, they are taken to be about as large as one; in such a unit they are. Where they lie is
looked for on a grid that tells numbers far from zero apart only roughly; so labels of a range that lies far from it, such as
years, are seen from its middle.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

from commonground.data.population import Population
from commonground.errors import InputError
from commonground.statistics.labels import LabelsInUnit
from commonground.statistics.statistic import SharedModel

UNITS_IN_RANGE = 4.0
FAR_FROM_ZERO = 4.0  # widths of the range: the grid has a place for every eleventh part of a number
MOST_OCTAVES = 60  # of a unit from one: beyond the public grid of sizes


@dataclass(frozen=True)
class LabelUnit:
    """A public unit of labels; a power of two, so that labels and models keep all of their digits.

    Attributes
    ----------
    size : float
        The unit, in labels as they are; 1.0 where no range is known.
    zero : float
        The label that is zero in this unit.
    """

    size: float = 1.0
    zero: float = 0.0

    @classmethod
    def of(cls, label_range: tuple[float, float] | None, *, with_level: bool = True) -> "LabelUnit":
        """The unit for labels of a public range; ``with_level``: for a model with a shared level, which alone has a zero.

        >>> LabelUnit.of((1.0, 5.0)), LabelUnit.of((0.0, 250_000.0)), LabelUnit.of((1990.0, 2024.0))
        (LabelUnit(size=1.0, zero=0.0), LabelUnit(size=65536.0, zero=0.0), LabelUnit(size=8.0, zero=2007.0))
        """
        if label_range is None:
            return cls()
        low, high = label_range
        octaves = math.log2(max(high / UNITS_IN_RANGE - low / UNITS_IN_RANGE, 1e-300))
        if abs(octaves) > MOST_OCTAVES:
            raise InputError(
                f"the range of labels is from {low:g} to {high:g}; labels are learned where it is between 1e-17 and 1e18 wide. "
                "Give them in another unit."
            )
        middle = low / 2 + high / 2
        is_far = with_level and abs(middle) > FAR_FROM_ZERO * (high - low)
        return cls(2.0 ** round(octaves), middle if is_far else 0.0)

    def seen_by(self, users: Population) -> Population:
        """The same people, whose labels are in this unit."""
        if self == LabelUnit():
            return users
        return users.seen_through(partial(LabelsInUnit, unit=self.size, zero=self.zero))

    def of_range(self, label_range: tuple[float, float] | None) -> tuple[float, float] | None:
        """A range of labels, in this unit."""
        if label_range is None:
            return None
        low, high = label_range
        return (low - self.zero) / self.size, (high - self.zero) / self.size

    def of_model(self, model: SharedModel) -> SharedModel:
        """A model of labels as they are, as one of labels in this unit."""
        return LabelUnit(1.0 / self.size, -self.zero / self.size).as_labels(model)

    def as_labels(self, model: SharedModel) -> SharedModel:
        """A model of labels in this unit, as one of labels as they are."""
        coef = None if model.coef is None else model.coef * self.size
        model = replace(model, coef=coef, intercept=model.intercept * self.size + self.zero)
        if model.spread is None:
            return model
        return replace(model, spread=model.spread * self.size**2, noise=model.noise * self.size**2)
