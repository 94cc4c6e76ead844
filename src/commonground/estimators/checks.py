"""What estimators ask of what they are given, before anything is paid for."""

from typing import Any

from commonground.accounting.budgets import Budget, warn_of_a_large_delta
from commonground.data.population import Population
from commonground.data.users import Users
from commonground.errors import InputError, is_whole


def check_rank(rank: Any, n_features: int, name: str, least: int = 1) -> None:
    if not is_whole(rank) or not least <= rank < max(n_features, 1):
        if least >= n_features:
            raise InputError(
                f"{name} learns shared directions, fewer than there are features, and {n_features} feature leaves none. "
                "PrivateFedRep(rank=0) and PrivateFedRepClassifier(rank=0) work with one (--model fedrep on the command line), "
                "and so do SingleModel and OwnDataOnly."
            )
        allowed = f"an integer from {least} to {n_features - 1} (fewer than the {n_features} features)"
        raise InputError(f"rank of {name} must be {allowed}, got {rank!r}.")


def several_classes(people: Population) -> bool:
    """Whether labels are a category of three values or more: without order, places in a list are no numbers."""
    label = None if people.schema is None else people.schema.label
    return label is not None and label.kind == "category" and len(label.values) > 2


def require_no_classes(people: Population, model: str) -> None:
    """For models of numbers or of two classes, which would take the place of a class in its list for a size."""
    if several_classes(people) and people.schema is not None:
        label = people.schema.label
        raise InputError(
            f"{label.name!r} is a category of {len(label.values)} classes, and {model} would take their places in the list for "
            "numbers: the model could be worse than the most frequent class. Take PrivateFedRepClassifier (--model classifier)."
        )


def check_budget(epsilon: float, delta: float, n_users: int) -> Budget:
    budget = Budget(epsilon, delta)
    warn_of_a_large_delta(delta, n_users, stacklevel=5)
    return budget


def as_users(X: Any, y: Any, users: Any) -> Population:
    if isinstance(X, Population):
        if y is not None or users is not None:
            raise InputError(
                "fit got a Users object and also y or users=; give either fit(users) or fit(X, y, users=ids)."
            )
        return X
    if y is None:
        raise InputError(
            "fit requires y to be passed, but the target y is None: give X, y and users=ids with one user id for each row, or a "
            "Users object alone."
        )
    if users is None:
        raise InputError(
            "whose rows are these? Give fit a Users object, or X, y and users=ids with one user id for each row, or name the "
            "column of X that says it when making the model: user='column'."
        )
    if isinstance(users, str):
        raise InputError(f"users= takes one id for each row. Name a column when making the model: user={users!r}.")
    return Users.from_arrays(X, y, users)
