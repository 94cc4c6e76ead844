"""`train --model NAME`: the estimators by name. A new estimator is one line of ``MODELS``; losses have their names of themselves.

What the command line offers (``--rank``, ``--rounds``, …) goes to the estimators whose ``__init__`` has such a parameter; what
was asked for and has no place there is an error, not silently dropped.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from commonground.data.population import Population
from commonground.defaults import RANK
from commonground.errors import InputError
from commonground.estimators.checks import require_no_classes, several_classes
from commonground.losses import NAMED_LOSSES

OPTION_OF = {"fit_intercept": "--intercept", "n_rounds": "--rounds", "shared_mean": "--shared-mean"}  # others: --name


@dataclass(frozen=True)
class ModelByName:
    """Where an estimator is, and with which parameters it is opened."""

    place: str  # module:class
    what: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    labels: Literal["numbers", "two classes", "any"] = "numbers"  # for which it is meant
    heads_by_own_rows: bool = False  # alone: no prior is released that would hold a head of few rows

    @property
    def estimator(self) -> Any:
        module, name = self.place.split(":")
        return getattr(import_module(module), name)


MODELS = {
    "fedrep": ModelByName(
        "commonground.estimators.fedrep:PrivateFedRep", "shared directions and own heads, for numbers"
    ),
    "altmin": ModelByName("commonground.estimators.altmin:PrivateAltMin", "the same by alternating minimisation"),
    **{
        loss.name: ModelByName(
            "commonground.estimators.altmin:PrivateAltMin",
            loss.what,
            {"loss": loss.name},
            labels="two classes" if loss.log_odds else "numbers",
            heads_by_own_rows=not loss.has_prior,
        )
        for loss in NAMED_LOSSES
    },
    "classifier": ModelByName(
        "commonground.estimators.fedrep.classifier:PrivateFedRepClassifier",
        "for yes or no, or a category of several values",
        labels="two classes",
    ),
    "margin": ModelByName(
        "commonground.estimators.margin_classifier:PrivateMarginClassifier", "two classes, pure ε", labels="two classes"
    ),
    "subspace": ModelByName(
        "commonground.estimators.exponential_subspace:ExponentialSubspace",
        "few features, pure ε",
        heads_by_own_rows=True,
    ),
    "single": ModelByName("commonground.estimators.single_model:SingleModel", "one model for everybody"),
    "level": ModelByName(
        "commonground.estimators.single_model:SingleModel",
        "the same, with everybody's own level",
        {"own_intercept": True},
    ),
    "ridge": ModelByName(
        "commonground.estimators.personal_ridge:PersonalBudgetRidge",
        "one model, everybody her own ε; needs ranges",
        labels="any",
    ),
    "own": ModelByName(
        "commonground.estimators.own_data:OwnDataOnly", "own rows alone: nothing is shared", labels="any"
    ),
    "nonprivate": ModelByName(
        "commonground.estimators.nonprivate_fedrep:NonPrivateFedRep", "NOT private: what sharing could bring"
    ),
}


def opened(model: str, people: Population, asked: Mapping[str, Any], **settings: Any) -> Any:
    """The estimator of this name for these people.

    ``asked``: what the person at the command line asked for; None where she did not. ``settings``: what goes to whoever can
    take it.
    """
    if model.lower().startswith("joint"):
        raise InputError(
            "owners who each hold many people's rows (hospitals, shops) train together in Python: JointSGDRegressor and "
            "JointSGDClassifier, docs/joint_learning.md; or keep their rows where they are: `commonground federate`."
        )
    if model not in MODELS:
        known = ", ".join(f"{name} ({entry.what})" for name, entry in MODELS.items())
        raise InputError(f"--model must be one of {known}; got {model!r}.")
    entry = MODELS[model]
    takes = set(inspect.signature(entry.estimator).parameters) - set(entry.fixed)
    given = {name: value for name, value in asked.items() if value is not None}
    misplaced = [OPTION_OF.get(name, f"--{name.replace('_', '-')}") for name in given if name not in takes]
    if misplaced:
        raise InputError(f"{', '.join(misplaced)} does not go with --model {model} ({entry.what}).")
    if model == "classifier" and people.schema is not None and not people.schema.label.is_class:
        raise InputError(
            f"--model classifier needs a label that is yes or no, or a category; {people.schema.label.name!r} is a "
            f"{people.schema.label.kind}. Say in the schema which values it has, or take another model."
        )
    if "classes" not in takes:
        require_no_classes(people, f"--model {model}")
    if "rank" in takes and "rank" not in given and not (model == "classifier" and several_classes(people)):
        given["rank"] = default_rank(people)
    usable = {name: value for name, value in settings.items() if name in takes}
    if model == "margin" and asked.get("rank") is None:  # one direction at least, of a single feature, too
        given["rank"] = max(given["rank"], 1)
    if model == "ridge":
        usable |= _bounds(people, settings["epsilon"])
    return entry.estimator(**{**usable, **given, **entry.fixed})


def default_rank(people: Population) -> int:
    """``RANK`` directions, or as many as there can be: fewer than features.

    Where categories are still to be discovered, only the other features count: perhaps nothing is found.
    """
    return max(0, min(RANK, people.n_features - 1))


def _bounds(people: Population, epsilon: float) -> dict[str, Any]:
    schema = people.schema
    if schema is not None and schema.undiscovered:
        names = ", ".join(repr(column.name) for column in schema.undiscovered)
        raise InputError(
            f'--model ridge discovers no values, as values = "discover" asks of {names}. List them: values = ["…"].'
        )
    if schema is None:
        raise InputError("--model ridge needs a public range for every feature and for the label: give --schema.")
    if schema.label.is_class:
        raise InputError(
            f"--model ridge needs a label that is a number with a range; {schema.label.name!r} is {schema.label.kind}. Take "
            "--model classifier."
        )
    without = [column.name for column in schema.features if not column.bounded]
    without += [schema.label.name] if schema.label.range is None else []
    if without:
        raise InputError(
            f"--model ridge needs a public range for every feature and for the label; the schema has none for "
            f"{', '.join(map(repr, without))}. Add range = [lowest, highest] there."
        )
    return {"feature_bounds": (-1.0, 1.0), "label_bounds": schema.label.range, "budgets": epsilon}
