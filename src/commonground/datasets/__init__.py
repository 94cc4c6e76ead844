"""Populations with a known truth (``synthetic``), and real data sets from a folder of the reader's (``real``)."""

from commonground.datasets.real import DataSet, load
from commonground.datasets.synthetic import Truth, make_shared_subspace, segmented_budgets

__all__ = ["DataSet", "Truth", "load", "make_shared_subspace", "segmented_budgets"]
