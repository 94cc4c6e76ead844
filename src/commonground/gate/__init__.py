"""The doors from private to public: ``release`` for sums, ``select`` for choices."""

from commonground.gate.randomness import Randomness, randomness_from
from commonground.gate.release import Release, release
from commonground.gate.select import Selection, select

__all__ = ["Randomness", "Release", "Selection", "randomness_from", "release", "select"]
