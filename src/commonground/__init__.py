"""Personalised models for many people, trained together, with a privacy guarantee for every person."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from commonground import accounting, datasets, errors, metrics, theory, threads
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
    from commonground.estimators.fedrep.classifier import PrivateFedRepClassifier
    from commonground.estimators.fedrep.paper import PaperSettings
    from commonground.estimators.margin_classifier import PrivateMarginClassifier
    from commonground.estimators.nonprivate_fedrep import NonPrivateFedRep
    from commonground.estimators.own_data import OwnDataOnly
    from commonground.estimators.personal_ridge import PersonalBudgetRidge
    from commonground.estimators.single_model import SingleModel
    from commonground.owners.joint_sgd import JointSGDClassifier, JointSGDRegressor
    from commonground.tuning.tune import tune

# Where the public names are: loaded when first asked for, as NumPy's, SciPy's and Numba's own start takes most of a second.
_PLACES = {
    "AltMinSettings": "estimators.altmin.paper",
    "Billboard": "billboard.board",
    "Column": "data.schema_column",
    "ExponentialSubspace": "estimators.exponential_subspace",
    "JointSGDClassifier": "owners.joint_sgd",
    "JointSGDRegressor": "owners.joint_sgd",
    "JointStatement": "billboard.joint",
    "NonPrivateFedRep": "estimators.nonprivate_fedrep",
    "OwnDataOnly": "estimators.own_data",
    "PaperSettings": "estimators.fedrep.paper",
    "PersonalBudgetRidge": "estimators.personal_ridge",
    "PrivateAltMin": "estimators.altmin",
    "PrivateFedRep": "estimators.fedrep",
    "PrivateFedRepClassifier": "estimators.fedrep.classifier",
    "PrivateMarginClassifier": "estimators.margin_classifier",
    "Schema": "data.schema",
    "SharedParameters": "billboard.joint",
    "SingleModel": "estimators.single_model",
    "Statement": "billboard.statement",
    "Users": "data.users",
    "one_hot": "data.items",
    "tune": "tuning.tune",
}
_ROOMS = ("accounting", "datasets", "errors", "metrics", "theory", "threads")

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
    "PrivateFedRepClassifier",
    "PrivateMarginClassifier",
    "Schema",
    "SharedParameters",
    "SingleModel",
    "Statement",
    "Users",
    "__version__",
    "accounting",
    "datasets",
    "errors",
    "metrics",
    "one_hot",
    "theory",
    "threads",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        found = getattr(import_module(f"commonground.{_PLACES[name]}"), name)
    elif name in _ROOMS:
        found = import_module(f"commonground.{name}")
    elif name == "__version__":
        from importlib.metadata import version

        found = version("commonground")
    else:
        raise AttributeError(f"module 'commonground' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
