"""The statement: what a published board cost everybody, in numbers and in one honest paragraph."""

import textwrap
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.metadata import version
from typing import Any, ClassVar, Self

import numpy as np

from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.costs import Cost, kind_of
from commonground.accounting.events import Event, epsilon_spent, event_from_dict
from commonground.accounting.personal import PersonalBudgets
from commonground.billboard.files import _SPEND_SINCE
from commonground.data.population import Population
from commonground.gate import Gate
from commonground.ledger import LedgerEntry

SOFTWARE = ("commonground", "opendp", "dp-accounting")  # whose versions matter for the claim


@cache
def installed(name: str) -> str:
    """The version of a package, read once."""
    return version(name)


class BaseStatement:
    """What statements of all kinds have: events, what these cost, and one form in files."""

    epsilon: float
    delta: float
    simulated: bool
    events: tuple[Any, ...]
    ledger: LedgerEntry | None
    # What a kind without such a field says in its place.
    budgets: Any = None
    custody: Any = ""
    sharing_pays: Any = None
    date: Any = ""
    label: Any = None

    @cached_property
    def epsilon_spent(self) -> float:
        """The ε of the releases made, at the declared δ; at most the declared ε."""
        return epsilon_spent(self.events, self.delta) if self.private else float("inf")

    @property
    def private(self) -> bool:
        """Whether anything is guaranteed at all."""
        return bool(np.isfinite(self.epsilon))

    def __str__(self) -> str:
        if not self.private:
            return f"NOT PRIVATE. {self._what}, without any privacy protection. Do not publish it."
        if not self.events:
            return f"{self._what}. Nothing that depends on anybody's data is published."
        paragraph = f"{self._what}. {self._guarantee}{in_words(self.ledger)}{self._made}"
        if self.simulated:
            return f"SIMULATED, NOT PRIVATE: the noise comes from a known seed and protects nobody. {paragraph}"
        return paragraph

    @property
    def _what(self) -> str:
        """What was run, on whom; the beginning of a sentence."""
        raise NotImplementedError

    @property
    def _guarantee(self) -> str:
        """What is promised to whom, and what the releases cost; sentences."""
        raise NotImplementedError

    @property
    def _made(self) -> str:
        """When, for what, and with which software; a sentence, or nothing."""
        return ""

    def to_json(self) -> dict[str, Any]:
        """As it stands in files.

        Returns
        -------
        dict
            Of what JSON can write.
        """
        document = asdict(replace(self, events=()))  # type: ignore[call-overload, type-var]
        document["epsilon"] = self.epsilon if self.private else "inf"
        document["events"] = [event.as_dict() for event in self.events]
        return document

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The inverse of ``to_json``.

        Parameters
        ----------
        document : dict
            What ``to_json`` made; further entries are passed over.

        Returns
        -------
        Self
            The same statement.
        """
        known = {f.name for f in fields(cls)}  # type: ignore[arg-type]
        values = {name: value for name, value in document.items() if name in known}
        values["events"] = tuple(event_from_dict(event) for event in values["events"])
        values["epsilon"] = float(values["epsilon"])
        if values.get("ledger") is not None:
            values["ledger"] = LedgerEntry.from_json(values["ledger"])
        return cls(**values)


@dataclass(frozen=True)
class Statement(BaseStatement):
    """What is guaranteed, to whom, and every release it rests on. ``str()`` is one honest paragraph.

    Parameters
    ----------
    algorithm, recipe : str
        What was run.
    epsilon, delta : float
        Declared; ε is ``math.inf`` for a model without privacy.
    n_users, n_features : int
        Public.
    simulated : bool
        The noise can be recomputed from a seed: no protection.
    noise : str
        How it was drawn, in words.
    events : tuple of Event
        Every release.
    unit : str, default="person"
        Whom it protects.
    relation : str, default="replace-one"
        What neighbours differ in.
    budgets : dict or None, default=None
        How people's own ε are distributed; ``epsilon`` is then the largest of them.
    custody : str, default=""
        Who held the rows, and what the server saw before the noise; empty: one operator had them all.
    sharing_pays : bool or None, default=None
        Whether what is shared can be expected to beat own data; None: not judged.
    ledger : LedgerEntry or None, default=None
        Where a durable ledger has it written down; None: it was not asked.
    parameters : dict, default={}
        Further public settings.
    software : dict, default={"commonground": version, "opendp": …, "dp-accounting": …}
        What made it.
    date : str, default=""
        The day on which it was made, in UTC; empty in boards from before that was written down.
    label : str or None, default=None
        The name of what is predicted, where the table had one.
    """

    algorithm: str
    recipe: str
    epsilon: float
    delta: float
    n_users: int
    n_features: int
    simulated: bool
    noise: str
    events: tuple[Event, ...]
    unit: str = "person"
    relation: str = "replace-one"
    budgets: dict[str, Any] | None = None
    custody: str = ""
    sharing_pays: bool | None = None
    ledger: LedgerEntry | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    software: dict[str, str] = field(default_factory=lambda: {name: installed(name) for name in SOFTWARE})
    date: str = ""
    label: str | None = None
    n_owners: ClassVar[None] = None  # people, not owners

    @classmethod
    def of_fit(
        cls,
        gate: Gate,
        algorithm: str,
        recipe: str,
        budget: Budget | PureBudget,
        users: Population,
        budgets: PersonalBudgets | None = None,
        **parameters: Any,
    ) -> "Statement":
        """What has passed ``gate``, in a fit on ``users`` within ``budget``; with the public ``parameters`` of the fit.

        Parameters
        ----------
        gate : Gate
            Knows the releases and the randomness.
        algorithm, recipe : str
            What was run.
        budget : Budget or PureBudget
            What was declared.
        users : Population
            Whom it was run on.
        budgets : PersonalBudgets or None, default=None
            Everybody's own ε, where people have one.
        **parameters : Any
            Further public settings.

        Returns
        -------
        Statement
        """
        return cls(
            algorithm=algorithm,
            recipe=recipe,
            epsilon=float(budget.epsilon),
            delta=float(budget.delta),
            n_users=users.n_users,
            n_features=users.n_features,
            simulated=gate.randomness.simulated,
            noise=gate.randomness.description,
            events=gate.events,
            budgets=None if budgets is None else budgets.distribution(),
            custody=users.custody,
            parameters={name: _plain(value) for name, value in parameters.items()},
            date=datetime.now(UTC).date().isoformat(),
            label=users.label_name,
        )

    @property
    def _made(self) -> str:
        on = f" on {self.date}" if self.date else ""
        to_predict = f" to predict {self.label!r}" if self.label else ""
        return f" Made{on}{to_predict}, with {', '.join(f'{name} {number}' for name, number in self.software.items())}."

    @property
    def _composition(self) -> str:
        return (kind_of(self.events) or Cost).composition(self.delta)

    @property
    def _what(self) -> str:
        return f"{self.algorithm} (recipe {self.recipe!r}), trained on {self.n_users:,} people"

    @property
    def _guarantee(self) -> str:
        public = "the number of people is"
        whose, cost = f"(ε = {self.epsilon:g}, δ = {self.delta:g})-differentially private for every person", ""
        if self.budgets is not None:
            quantiles, absent = self.budgets["quantiles"], self.budgets["taking no part"]
            spread = f"from {quantiles['0']:g} to {quantiles['1']:g}, median {quantiles['0.5']:g}"
            nobody = f"; {absent:,} take no part" if absent else ""
            whose = (
                f"(ε_i, δ = {self.delta:g})-differentially private for every person i, with an ε_i of her own "
                f"({spread}{nobody})"
            )
            public = "the number of people and everybody's ε are"
            cost = " to the person with the largest budget, and to everybody else no more than her own"
        paragraph = (
            f"What is published here is {whose}: the unit is one {self.unit} with all of her rows, and "
            f"neighbouring data sets differ in that one person's whole data is replaced by any other; {public} public. "
            f"The published values are the only ones that depend on more than one person's data. They passed one gate in "
            f"{len(self.events)} noisy releases, which together cost ε = {self.epsilon_spent:.4g} at this δ "
            f"{self._composition}{cost}. "
            f"A person's head is made from the billboard and her own rows and is shown to her alone, so all other people "
            f"together learn no more about her than this (joint differential privacy). Noise: {self.noise}."
        )
        if self.custody:
            paragraph += f" {self.custody}"
        if "start" in self.parameters:
            paragraph += (
                f" It goes on from the earlier board {self.parameters['start'][:12]}…, whose cost comes on top for whoever was "
                "in both."
            )
        if self.sharing_pays is False:
            paragraph += (
                " People are too few at this ε for what is shared to be more than noise: sharing is not expected to pay, and own "
                "data alone will mostly do better."
            )
        return paragraph


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value  # NumPy's numbers cannot be written as JSON


def in_words(entry: LedgerEntry | None) -> str:
    """A sentence of the statement."""
    if entry is None:
        return " No ledger was asked to pay for it."
    return (
        f" A ledger has it as reservation {entry.reservation} of the population {entry.population!r}, whose chain had "
        f"reached event {entry.sequence}, hash {entry.head[:12]}…, by its last release."
    )


def in_lines(text: str) -> str:
    """A paragraph in lines of a terminal; a word that is longer than a line stays whole."""
    return textwrap.fill(text, 80, break_long_words=False, break_on_hyphens=False)


def spent_as_json(epsilon: float) -> float | str:
    return epsilon if np.isfinite(epsilon) else "inf"


def recorded_spend(document: dict[str, Any]) -> float | None:
    """What the writer said was spent; None in files from before that was written down."""
    return float(document["epsilon_spent"]) if document["schema_version"] >= _SPEND_SINCE else None
