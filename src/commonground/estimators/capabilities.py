"""Which estimator takes what: one table, from which refusals are made, and the table in docs/estimators.md."""

from dataclasses import asdict, dataclass
from typing import Any

from commonground.data.population import Population
from commonground.errors import InputError


@dataclass(frozen=True)
class Capabilities:
    """What an estimator can be given, beside rows in memory or on disk and one ε for everybody."""

    sparse: bool = False  # rows that are mostly zeros (scipy.sparse), such as one-hot items
    budgets: bool = False  # an ε of one's own for everybody
    device: bool = False  # a GPU for the rounds
    ray: bool = False  # rows that stay with Ray's workers
    federation: bool = False  # rows that stay at the nodes of a federation
    ledger: bool = True  # a ledger that pays for the fit
    start: bool = False  # an earlier billboard to go on from
    evaluation: bool = True  # a released number of how good it is on held-out rows, and searches by it


CAPABILITIES = {
    "PrivateFedRep": Capabilities(sparse=True, budgets=True, device=True, ray=True, federation=True, start=True),
    "PrivateFedRep, rank='auto'": Capabilities(
        sparse=True, budgets=True, device=True, ray=True, federation=True, start=True
    ),
    "PrivateFedRep, device='cuda'": Capabilities(budgets=True, device=True, start=True),
    "PrivateFedRep, recipe='paper'": Capabilities(ray=True),
    "PrivateFedRepClassifier, several classes": Capabilities(sparse=True, budgets=True, evaluation=False),
    "PrivateAltMin": Capabilities(budgets=True, ray=True, federation=True),
    "PrivateAltMin, recipe='paper'": Capabilities(ray=True),
    "SingleModel": Capabilities(budgets=True, ray=True, federation=True),
    "ExponentialSubspace": Capabilities(ray=True),
    "PrivateMarginClassifier": Capabilities(),
    "PersonalBudgetRidge": Capabilities(budgets=True, ray=True),
    "OwnDataOnly": Capabilities(budgets=True, ledger=False),  # it spends nothing of anybody's
    "NonPrivateFedRep": Capabilities(sparse=True, budgets=True, ledger=False),  # protects nobody
}
WORDS = {
    "sparse": "sparse rows",
    "budgets": "personal budgets",
    "device": "a GPU",
    "ray": "rows that stay with Ray's workers",
    "federation": "rows that stay at the nodes of a federation",
    "ledger": "a ledger",
    "start": "an earlier board to start from",
    "evaluation": "a released evaluation or a search",
}


def require(variant: str, wanted: dict[str, bool]) -> None:
    """Refuse what an estimator cannot be given, and say who can.

    A ``variant`` that is no line of the table takes what the plainest estimator does; ``wanted`` are columns that a fit asks for.
    """
    can = CAPABILITIES.get(variant, Capabilities())
    for what, is_taken in asdict(can).items():
        if wanted.get(what) and not is_taken:
            others = [name for name, one in CAPABILITIES.items() if asdict(one)[what] and "," not in name]
            instead = " With few features, pass X.toarray()." if what == "sparse" else ""
            raise InputError(
                f"{variant} has no version for {WORDS[what]}, which {', '.join(others)} can be given.{instead} "
                "See docs/estimators.md."
            )


def asked_of(people: Population, budgets: Any, device: str) -> dict[str, bool]:
    """Which columns of the table a fit needs; a ledger is refused where a budget would be booked."""
    return {
        "sparse": people.sparse,
        "budgets": budgets is not None or people.budgets is not None,
        "device": device != "cpu",
        people.kind: True,
    }
