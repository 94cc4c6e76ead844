"""What somebody in a hurry overlooks, before budget is spent: in her table (``data.first_look``), and of model and ε with it."""

import warnings

import numpy as np

from commonground.data.first_look import all_rows, constant_label, label_in_words, look_at_ids, look_for_constants
from commonground.data.population import Population
from commonground.errors import InputError, PrivacyWarning, TableWarning

MUCH = 20.0  # ε: odds of e^20, hundreds of millions to one
TWO_CLASSES = ("classifier", "logistic")  # by --model: yes is a label above zero
NUMBERS = ("fedrep", "altmin", "huber", "subspace", "single", "level", "nonprivate")


def look_at_people(people: Population, model: str, epsilon: float) -> None:
    """Refuse what cannot be meant, warn of what is hardly meant; ε does not matter where people have budgets of their own."""
    if epsilon > MUCH and people.budgets is None and model not in ("own", "nonprivate"):
        warnings.warn(
            f"ε = {epsilon:g} promises next to nothing: what is published may be e^{epsilon:g} times as likely with a person's "
            "rows as with any others. Common choices lie between 0.1 and 8.",
            PrivacyWarning,
            stacklevel=2,
        )
    if not people.rows_are_here:
        return
    look_at_ids(people)
    block = all_rows(people)
    if block is None:
        return
    if finding := constant_label(people, block):
        raise InputError(finding)
    _look_at_classes(people, block.y, model)
    look_for_constants(people, block)


def _look_at_classes(people: Population, y: np.ndarray, model: str) -> None:
    if people.schema is not None and people.schema.label.kind != "number":
        return
    two = bool(np.isin(y, (0.0, 1.0)).all() or np.isin(y, (-1.0, 1.0)).all())
    if model in TWO_CLASSES and not two:
        raise InputError(
            f"--model {model} needs labels 0 and 1, or −1 and 1; {label_in_words(people)} has others, and all above zero would "
            "count as yes. For classes by their names, or several, give a --schema whose label is a category; for numbers "
            "--model fedrep."
        )
    if model in NUMBERS and two:
        warnings.warn(
            f"{label_in_words(people)} holds two numbers only. --model classifier answers with one of them and its probability; "
            "this model predicts numbers.",
            TableWarning,
            stacklevel=3,
        )
