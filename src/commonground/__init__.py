"""Personalised models for many people, trained together, with a privacy guarantee for every person."""

from commonground import accounting, datasets, errors, metrics
from commonground.billboard.board import Billboard
from commonground.billboard.joint import JointStatement, SharedParameters
from commonground.billboard.statement import Statement
from commonground.data.items import one_hot
from commonground.data.schema import Schema
from commonground.data.schema_column import Column
from commonground.data.users import Users
from commonground.estimators.altmin import PrivateAltMin
from commonground.estimators.altmin.paper import AltMinSettings
from commonground.estimators.exponential_subspace import ExponentialSubspace
from commonground.estimators.fedrep import PrivateFedRep
from commonground.estimators.fedrep.paper import PaperSettings
from commonground.estimators.margin_classifier import PrivateMarginClassifier
from commonground.estimators.nonprivate_fedrep import NonPrivateFedRep
from commonground.estimators.own_data import OwnDataOnly
from commonground.estimators.personal_ridge import PersonalBudgetRidge
from commonground.estimators.single_model import SingleModel
from commonground.owners.joint_sgd import JointSGDClassifier, JointSGDRegressor

__all__ = [
    "AltMinSettings",
    "Billboard",
    "Column",
    "ExponentialSubspace",
    "JointSGDClassifier",
    "JointSGDRegressor",
    "JointStatement",
    "NonPrivateFedRep",
    "OwnDataOnly",
    "PaperSettings",
    "PersonalBudgetRidge",
    "PrivateAltMin",
    "PrivateFedRep",
    "PrivateMarginClassifier",
    "Schema",
    "SharedParameters",
    "SingleModel",
    "Statement",
    "Users",
    "accounting",
    "datasets",
    "errors",
    "metrics",
    "one_hot",
]
