"""The best of several settings, within one budget."""

from commonground.tuning.result import Candidate, Tuned
from commonground.tuning.tune import tune

__all__ = ["Candidate", "Tuned", "tune"]
