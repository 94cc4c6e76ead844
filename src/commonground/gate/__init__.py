"""The one way from private to public: a ``Gate`` for each fit, and ``SampledReleases`` for long training runs."""

from commonground.gate.gate import Gate
from commonground.gate.perturb import Perturbed
from commonground.gate.randomness import Randomness, randomness_from
from commonground.gate.release import Release, SampledReleases
from commonground.gate.scattered import ScatteredSum
from commonground.gate.select import Selection

__all__ = [
    "Gate",
    "Perturbed",
    "Randomness",
    "Release",
    "SampledReleases",
    "ScatteredSum",
    "Selection",
    "randomness_from",
]
