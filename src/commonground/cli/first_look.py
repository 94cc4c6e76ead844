"""What somebody in a hurry overlooks: the operator's own look at ids and labels, before any budget is spent.

Not private, like ``estimators.scales``: errors and warnings go to the operator, name columns and numbers of rows, never what a
cell holds; nothing that is published depends on them.
"""

import math
import warnings
from typing import Any

import numpy as np

from commonground.data.population import Population
from commonground.data.unencoded import Unencoded
from commonground.errors import InputError, PrivacyWarning, TableWarning

MUCH = 20.0  # ε: odds of e^20, hundreds of millions to one
FEW = 20  # people: of fewer it says nothing that each has one row
TWO_CLASSES = ("classifier", "logistic")  # by --model: yes is a label above zero
NUMBERS = ("fedrep", "altmin", "huber", "subspace", "single", "level", "nonprivate")


def look_at_people(people: Population, model: str, epsilon: float) -> None:
    """Refuse what cannot be meant, warn of what is hardly meant.

    Parameters
    ----------
    people : Population
        As the command has read them.
    model : str
        By its name, ``--model``.
    epsilon : float
        As asked for; where people have budgets of their own it is not looked at.
    """
    if epsilon > MUCH and people.budgets is None and model not in ("own", "nonprivate"):
        warnings.warn(
            f"ε = {epsilon:g} promises next to nothing: what is published may be e^{epsilon:g} times as likely with a person's "
            "rows as with any others. Common choices lie between 0.1 and 8.",
            PrivacyWarning,
            stacklevel=2,
        )
    if not people.rows_are_here:
        return
    _look_at_ids(people)
    if isinstance(people, Unencoded):
        return
    block = next(iter(people.blocks()))
    if block.n_users < people.n_users:  # the rest is on disk
        return
    _look_at_labels(people, block.y, model)
    if not people.sparse:
        _look_for_constants(people, block.X)


def _look_at_ids(people: Population) -> None:
    """A person under two ids is two people, and pays twice: her guarantee is then not the one that is stated."""
    who = f"Column {people.user_name!r}"
    ids = [one for one in people.ids.tolist() if isinstance(one, str)]
    without_blanks = {one.strip() for one in ids}
    if len(without_blanks) < len(ids):
        raise InputError(
            f"{who}: {len(ids) - len(without_blanks):,} ids differ from another one by nothing but blanks before or after it. "
            "Each would be a person of her own, and somebody under two ids has half of the guarantee. Take the blanks away."
        )
    alike = len(ids) - len({one.casefold() for one in without_blanks})
    if alike:
        warnings.warn(
            f"{who}: {alike:,} ids differ from another one by capital letters alone. They count as people of their own; if they "
            "are not, somebody under two ids has half of the guarantee. Write them in one way.",
            PrivacyWarning,
            stacklevel=3,
        )
    if people.n_users >= FEW and getattr(people, "n_rows", math.nan) == people.n_users:
        warnings.warn(
            f"{who}: everybody has exactly one row. Does it say whose row it is? If it numbers rows, the guarantee is for a row, "
            "not for a person with all of hers.",
            PrivacyWarning,
            stacklevel=3,
        )


def _look_at_labels(people: Population, y: np.ndarray, model: str) -> None:
    name = f"Column {people.label_name!r}, the label,"
    lowest, highest = float(y.min()), float(y.max())
    declared = None if people.schema is None else people.schema.label
    if lowest == highest:
        clipped = "" if declared is None or declared.range is None else ", once it is clipped to its range"
        right = "Is it the right column?" if not clipped else "Are column and range right?"
        raise InputError(f"{name} is the same in every row{clipped}: there is nothing to learn. {right}")
    if declared is not None and declared.kind != "number":
        return
    two = bool(np.isin(y, (0.0, 1.0)).all() or np.isin(y, (-1.0, 1.0)).all())
    if model in TWO_CLASSES and not two:
        raise InputError(
            f"--model {model} needs labels 0 and 1, or −1 and 1; {name} has others, and all above zero would count as yes. For "
            "classes by their names, or several, give a --schema whose label is a category; for numbers --model fedrep."
        )
    if model in NUMBERS and two:
        warnings.warn(
            f"{name} holds two numbers only. --model classifier answers with one of them and its probability; this model "
            "predicts numbers.",
            TableWarning,
            stacklevel=3,
        )


def _look_for_constants(people: Population, X: np.ndarray) -> None:
    """Columns that say nothing, which a range or a list of values that misses all rows makes of any column."""
    same = dict(zip(people.feature_names or (), X.min(axis=0) == X.max(axis=0), strict=False))
    columns: dict[str, Any] = {name: (name,) for name in same}
    if people.schema is not None:
        columns = {column.name: column.feature_names for column in people.schema.features}
    silent = [column for column, names in columns.items() if all(same[name] for name in names)]
    if not silent:
        return
    why = (
        "Are its range and its values in the schema right?"
        if people.schema is not None
        else "Such a column only adds noise."
    )
    warnings.warn(
        f"the same in every row: {', '.join(map(repr, silent[:10]))}{' …' if len(silent) > 10 else ''}. {why}",
        TableWarning,
        stacklevel=3,
    )
