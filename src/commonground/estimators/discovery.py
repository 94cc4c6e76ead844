"""What a fit does before it has rows: find the values of categories that the schema leaves to be discovered, and pay for them."""

from typing import Any

from commonground.accounting.budgets import Budget, PureBudget
from commonground.data.population import Population
from commonground.data.schema import Schema
from commonground.data.unencoded import Unencoded
from commonground.errors import InputError, is_whole
from commonground.gate import Gate
from commonground.steps.category_values import release_category_values

DISCOVERY_SHARE = 0.1  # of μ², for all categories together


def discovered(people: Unencoded, gate: Gate, budget: Budget | PureBudget) -> tuple[Population, Budget]:
    """The people with their rows, and what is left of the budget."""
    assert isinstance(budget, Budget)  # see require_discoverable
    columns = people.schema.undiscovered
    spent = budget.split({"discovery": DISCOVERY_SHARE})["discovery"]
    left = budget.after(spent)  # first: it may be too little to go on with
    mu = spent / len(columns) ** 0.5
    found = {column.name: release_category_values(people, column.name, column.longest, gate, mu) for column in columns}
    if not any(found.values()) and all(column.undiscovered for column in people.schema.features):
        raise InputError(
            "no value of any category stands out of the noise, and there are no other features. More people, a "
            "larger ε, or values from a public list would help. What was released stays spent."
        )
    return people.encoded(_of_new_names(found, _names_there_may_be(people.schema))), left


def _names_there_may_be(schema: Schema) -> set[str]:
    """Names of features, whatever is found: those of columns that are declared, and of missing cells of all columns."""
    declared = {name for column in schema.features if not column.undiscovered for name in column.feature_names}
    return declared | {f"{column.name} is missing" for column in schema.features if column.missing is not None}


def _of_new_names(found: dict[str, tuple[str, ...]], taken: set[str]) -> dict[str, tuple[str, ...]]:
    """Without values whose features would have a name that is taken, such as that of a column "town=Oslo"."""
    kept: dict[str, tuple[str, ...]] = {}
    for column, values in found.items():
        kept[column] = tuple(value for value in values if f"{column}={value}" not in taken)
        taken |= {f"{column}={value}" for value in kept[column]}
    return kept


def require_discoverable(people: Population, budget: Budget | PureBudget | None, own_budgets: bool, rank: Any) -> None:
    """Before anything is charged: who can find values at all, and whether the fit can go on if none stands out."""
    if not isinstance(people, Unencoded):
        return
    if people.spent:
        raise InputError(
            "this table was opened for one fit, which it has had. Open it again: Users.from_table(…, schema=…)."
        )
    if budget is None or not budget.mu or own_budgets:
        raise InputError(
            'values = "discover" takes a share of one (ε, δ) for everybody, which this estimator does not have: it protects '
            "nobody, has δ = 0 or personal budgets. Give the values by name."
        )
    if is_whole(rank) and rank >= max(people.n_features, 1):
        raise InputError(
            f"rank = {rank} needs more than {rank} features, and {people.n_features} are there whatever values are discovered: "
            "should none stand out, the fit could not go on, and its budget would be wasted. Choose a smaller rank, or give "
            "values by name."
        )
