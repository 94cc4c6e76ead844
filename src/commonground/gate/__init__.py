"""The doors from private to public: ``release`` and ``perturb`` for sums, ``select`` for choices, ``sample_people``."""

from commonground.gate.perturb import Perturbed, perturb, sample_people
from commonground.gate.randomness import Randomness, randomness_from
from commonground.gate.release import Release, SampledReleases, release
from commonground.gate.select import Selection, select

__all__ = [
    "Perturbed",
    "Randomness",
    "Release",
    "SampledReleases",
    "Selection",
    "perturb",
    "randomness_from",
    "release",
    "sample_people",
    "select",
]
