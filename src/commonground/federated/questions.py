"""What a node can be asked: the sum of one of these functions over its people, and nothing else.

A question names a function of ``commonground.contributions`` and gives the public numbers and arrays it takes. No code and no
pickle travels: a node looks the name up in this list.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from commonground.contributions.convex_gradients import convex_gradient_sums, signed_block_sum
from commonground.contributions.coordinates import feature_moment_sums, in_coordinates, scale_profile_sums
from commonground.contributions.directions import direction_sums, direction_sums_within, energy_counts
from commonground.contributions.embedding_moments import embedding_moment_sizes, embedding_moment_sums
from commonground.contributions.gradients import embedding_gradient_sums, mean_feature_sums, mean_gradient_sums
from commonground.contributions.own_heads import head_direction_sums, head_noise_counts
from commonground.contributions.residuals import residual_gradient_sums
from commonground.contributions.whitened import whitened_gradient_sums

CONTRIBUTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        convex_gradient_sums,
        direction_sums,
        direction_sums_within,
        embedding_gradient_sums,
        embedding_moment_sizes,
        embedding_moment_sums,
        energy_counts,
        feature_moment_sums,
        head_direction_sums,
        head_noise_counts,
        in_coordinates,
        mean_feature_sums,
        mean_gradient_sums,
        residual_gradient_sums,
        scale_profile_sums,
        signed_block_sum,
        whitened_gradient_sums,
    )
}
# What a node that adds its own noise makes of a sum: its methods that give a BoundedSum.
BOUNDED = ("bounded", "clipped_at", "histogram", "whole_histogram")


@dataclass(frozen=True)
class Noised:
    """The node's answer passes its own gate first."""

    method: str  # of the sum, one of BOUNDED
    arguments: tuple[int, ...]  # public
    name: str  # of the release, for ledgers
    mu: float  # what the node's release costs
    people: int  # at all nodes together: sums of so many are rounded


@dataclass(frozen=True)
class Question:
    """``noised=None`` asks for the exact sum."""

    function: str  # one of CONTRIBUTIONS
    public: tuple[Any, ...] = field(repr=False)
    noised: Noised | None = None


def fits(public: tuple[Any, ...], n_features: int) -> bool:
    """Whether arguments are what these functions take: numbers, text, one another, and arrays with one entry or row per feature.

    Compiled code reads arrays without looking at their length, so a shorter one must not get there.
    """
    return all(
        (argument.dtype == np.float64 and argument.ndim in (1, 2) and len(argument) == n_features)
        if isinstance(argument, np.ndarray)
        else argument is None or isinstance(argument, bool | int | float | str) or known(argument)
        for argument in public
    )


def known(function: Any) -> bool:
    """Whether this is a function that nodes can be asked for."""
    return callable(function) and CONTRIBUTIONS.get(getattr(function, "__name__", "")) is function
