"""Populations with a known truth (``synthetic``, ``ratings``), and real data sets from a folder of the reader's (``real``)."""

from commonground.datasets.owners import OwnersData, across_owners, digits_across_owners
from commonground.datasets.ratings import Ratings, make_ratings
from commonground.datasets.real import DataSet, load
from commonground.datasets.synthetic import Truth, make_margin_classes, make_shared_subspace, segmented_budgets

__all__ = [
    "DataSet",
    "OwnersData",
    "Ratings",
    "Truth",
    "across_owners",
    "digits_across_owners",
    "load",
    "make_margin_classes",
    "make_ratings",
    "make_shared_subspace",
    "segmented_budgets",
]
