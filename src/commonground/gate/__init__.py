"""The one door from private to public."""

from commonground.gate.randomness import Randomness, randomness_from
from commonground.gate.release import Release, SampledReleases, release

__all__ = ["Randomness", "Release", "SampledReleases", "randomness_from", "release"]
