"""Personalised models for many people, trained together, with a privacy guarantee for every person."""

from commonground import datasets, metrics
from commonground.billboard import Billboard, Statement
from commonground.estimators.fedrep import PrivateFedRep
from commonground.users import Users

__all__ = ["Billboard", "PrivateFedRep", "Statement", "Users", "datasets", "metrics"]
