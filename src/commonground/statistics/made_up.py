"""Made-up people, the same few numbers for everybody: kernels are compiled on them before there is anything to compute.

What is compiled for them serves all people with the same type of numbers. Nothing here is drawn, and nobody's rows are read.
"""

import numpy as np

from commonground.data.population import Block
from commonground.statistics.directions import Directions
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.statistics.posterior import PosteriorMoments
from commonground.statistics.statistic import SharedModel

MODEL = SharedModel(np.eye(2, 1), np.zeros(2), 0.0, True, np.eye(2))


def made_up_people(numbers: str) -> Block:
    """Two people with three rows of two features each."""
    X = np.array([[1, 0], [0, 1], [1, 2]] * 2, numbers)
    return Block(X, X[:, 1].copy(), np.array([0, 3, 6]), 0)


def compile_rounds(numbers: str) -> None:
    """The kernel of rounds with posterior heads, for rows of this type of numbers."""
    PosteriorMoments(MODEL).of_coordinates(made_up_people(numbers), Coordinates())


def compile_directions(numbers: str) -> None:
    """That of people's own directions."""
    Directions(MODEL).of_coordinates(made_up_people(numbers), Coordinates())
