"""How good a model is on rows that it has not seen: a number with noise, and the interval that the noise leaves."""

from commonground.evaluation.evaluate import evaluate
from commonground.evaluation.result import Evaluation, Measure

__all__ = ["Evaluation", "Measure", "evaluate"]
