"""The doors from private to public: ``release`` and ``perturb`` for sums, ``select`` for choices, ``sample_people``.

``release_scattered`` is ``release`` for a sum whose parts pass a gate each where they are.
"""

from commonground.gate.perturb import Perturbed, perturb, sample_people
from commonground.gate.randomness import Randomness, randomness_from
from commonground.gate.release import Release, SampledReleases, release
from commonground.gate.scattered import ScatteredSum, release_scattered
from commonground.gate.select import Selection, select

__all__ = [
    "Perturbed",
    "Randomness",
    "Release",
    "SampledReleases",
    "ScatteredSum",
    "Selection",
    "perturb",
    "randomness_from",
    "release",
    "release_scattered",
    "sample_people",
    "select",
]
