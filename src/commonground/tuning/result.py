"""What a search has found, and what all of it cost."""

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from commonground.billboard.statement import Statement

IN_WORDS = {"rmse": "squared error", "log_loss": "log loss", "accuracy": "share of wrong classes"}


@dataclass(frozen=True)
class Candidate:
    """One setting, and how it did.

    Parameters
    ----------
    settings : mapping
        Its parameters.
    score : float
        Released: mean difference in error from the first candidate; the smallest is the best. By repeat-and-select, from
        everybody's own mean of training labels (from nothing, for classes), and NaN where it is not published.
    std : float
        Of the noise in ``score``; 0 for the first, which the others are compared with.
    fit : int
        Which of the fits it comes from, from 1.
    free : bool
        Whether it was read off another candidate's fit, and cost nothing.
    """

    settings: Mapping[str, Any]
    score: float
    std: float
    fit: int
    free: bool


@dataclass(frozen=True)
class Tuned:
    """The outcome of ``tune``. ``str()`` is for people.

    Parameters
    ----------
    best : estimator
        The winner, fitted; its board's statement is about the whole search.
    best_settings : dict
        Its parameters among those that were searched.
    candidates : tuple of Candidate
        All of them, in the order of the grid, with their released scores.
    metric : str
        What scores are differences of.
    clip : float
        The largest norm of a person's differences that counted.
    way : str
        "split" or "repeat-and-select".
    why : str
        Why this way, in a sentence.
    shares : dict
        Of μ²: for each fit, for the choice, and for the last fit.
    """

    best: Any
    best_settings: dict[str, Any]
    candidates: tuple[Candidate, ...]
    metric: str
    clip: float
    way: str
    why: str
    shares: dict[str, float]

    @property
    def statement(self) -> Statement:
        """What the whole search cost everybody: that of the winner's board."""
        found: Statement = self.best.billboard_.statement
        return found

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "best": {name: _plain(value) for name, value in self.best_settings.items()},
            "metric": self.metric,
            "clip": self.clip,
            "way": self.way,
            "why": self.why,
            "shares": self.shares,
            "candidates": [
                {
                    "settings": {name: _plain(value) for name, value in one.settings.items()},
                    "score": None if math.isnan(one.score) else one.score,
                    "std": None if math.isnan(one.std) else one.std,
                    "fit": one.fit,
                    "free": one.free,
                }
                for one in self.candidates
            ],
            "epsilon_spent": self.statement.epsilon_spent,
            "statement": self.statement.to_json(),
        }

    def __str__(self) -> str:
        spent = f"ε = {self.statement.epsilon_spent:.4g} of {self.statement.epsilon:g} at δ = {self.statement.delta:g}"
        reference = "the first" if self.way == "split" else "everybody's own mean"
        lines = [
            f"{len(self.candidates)} candidates, different fits: {max(one.fit for one in self.candidates)}; all together {spent}",
            f"difference in {IN_WORDS[self.metric]} from {reference}, released (± its noise)",
        ]
        for one in self.candidates:
            words = ", ".join(f"{name}={value}" for name, value in one.settings.items())
            mark = "*" if dict(one.settings) == self.best_settings else " "
            if math.isnan(one.score):
                lines.append(f"{mark} {words[:38]:<38} not published")
                continue
            noise = f"± {one.std:.2g}" if one.std else "(first)"
            free = "free, from" if one.free else "by"
            lines.append(f"{mark} {words[:38]:<38} {one.score:>+9.3g} {noise:<10} {free} fit {one.fit}")
        return "\n".join([*lines, textwrap.fill(self.why, 80), textwrap.fill(str(self.statement), 80)])


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)
