"""What learning across owners publishes (P4): the shared parameters, and the statement of what they cost everybody."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from commonground.accounting.budgets import Budget
from commonground.accounting.sampled import REPLACE, SampledGaussianEvent
from commonground.billboard.board import Billboard
from commonground.billboard.claims import UnbelievableError, check_claim, check_finite
from commonground.billboard.files import STATEMENT, reading_board, write_board, write_page
from commonground.billboard.signing import SigningKey, VerifyingKey
from commonground.billboard.statement import BaseStatement, installed, recorded_spend, spent_as_json
from commonground.errors import BudgetError, InputError
from commonground.gate import SampledReleases
from commonground.ledger import InMemoryLedger, Ledger, LedgerEntry, SharedLedger, StepLedger

_KIND = "shared parameters"


@dataclass(frozen=True)
class JointStatement(BaseStatement):
    """What is guaranteed, to whom, and every release it rests on. ``str()`` is one honest paragraph.

    Parameters
    ----------
    algorithm, recipe : str
        What was run.
    epsilon, delta : float
        Declared; ε is ``math.inf`` for a model without privacy.
    unit : {"record", "user", "owner", "person"}
        Whom it protects.
    relation : {"add-or-remove-one", "replace-one"}
        What neighbours differ in.
    n_owners : int
        Public; people who train together are their own owners.
    n_units : int
        Records, users or people: places in the table, which neighbours have in common.
    sampling_probability, noise_multiplier, steps : float, float and int
        Of each step: how likely a unit is drawn, and noise in units of the clip norm; how many steps there were.
    simulated : bool
        The noise can be recomputed from a seed: no protection.
    noise : str
        How it was drawn, in words.
    events : tuple of SampledGaussianEvent
        Every release.
    ledger : LedgerEntry or None, default=None
        Where a durable ledger has it written down; None: it was not asked.
    parameters : dict, default={}
        Further public settings.
    software : dict, default={"commonground": version}
        What made it.
    """

    algorithm: str
    recipe: str
    epsilon: float
    delta: float
    unit: str
    relation: str
    n_owners: int
    n_units: int
    sampling_probability: float
    noise_multiplier: float
    steps: int
    simulated: bool
    noise: str
    events: tuple[SampledGaussianEvent, ...]
    ledger: LedgerEntry | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    software: dict[str, str] = field(default_factory=lambda: {"commonground": installed("commonground")})

    @property
    def units(self) -> str:
        """Those whom it protects, in the plural.

        Returns
        -------
        str
        """
        return "people" if self.unit == "person" else f"{self.unit}s"

    @property
    def whose(self) -> str:
        """Whose rows it was made from, in words.

        Returns
        -------
        str
        """
        counted = f"{self.n_units:,} {self.units}"
        return f"with {counted}" if self.unit == "person" else f"across {self.n_owners:,} owners with {counted}"

    @property
    def _what(self) -> str:
        return f"{self.algorithm} (recipe {self.recipe!r}) {self.whose}"

    @property
    def _guarantee(self) -> str:
        neighbours = (
            f"one {self.unit} is replaced by any other (replacement)"
            if self.relation == REPLACE
            else f"one {self.unit} is there or is missing, its place left empty (adding or removing)"
        )
        all_of_it = {
            "user": " at one owner with all of its records there (somebody at several owners counts as several users)",
            "owner": " with all of its records",
            "person": " with all of her rows",
        }.get(self.unit, "")
        group = max(event.group_size for event in self.events)
        grouped = f", counted as a group of {group} records (group privacy)," if group > 1 else ""
        return (
            f"The shared parameters published here are (ε = {self.epsilon:g}, δ = {self.delta:g})-differentially "
            f"private for every {self.unit}: neighbouring data sets differ in that {neighbours}; the number of {self.units} "
            f"is public. They were learned in {self.steps:,} steps; in each, every unit took part with probability q = "
            f"{self.sampling_probability:g}, its gradient was clipped, and the sum got Gaussian noise of "
            f"{self.noise_multiplier:.4g} times the clip norm. One {self.unit}{all_of_it}{grouped} spends ε = "
            f"{self.epsilon_spent:.4g} at this δ, composed by privacy-loss distributions for Poisson sampling. "
            f"{self._kept_local} Noise: {self.noise}."
        )

    @property
    def _kept_local(self) -> str:
        if self.unit == "person":
            return (
                "A person's head is made from the shared parameters and her own rows, is not published, and is shown to her "
                "alone, so all other people together learn no more about her than this (joint differential privacy)."
            )
        return (
            "An owner's personal parameters are made from the shared ones and its own rows, are not published, and are shown to "
            "that owner alone, so all other owners together learn no more than this (joint differential privacy). Inside one "
            "owner nothing is protected."
        )

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The inverse of ``to_json``; events from before they named their unit have the statement's.

        Parameters
        ----------
        document : dict
            What ``to_json`` made; further entries are passed over.

        Returns
        -------
        JointStatement
        """
        events = [{"unit": document["unit"], **event} for event in document["events"]]
        return super().from_json({**document, "events": events})


@dataclass(frozen=True)
class SharedParameters:
    """The billboard of learning across owners: named arrays that everybody may see. No personal parameter is among them.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters by name.
    statement : JointStatement
        What they cost everybody.
    """

    arrays: dict[str, np.ndarray]
    statement: JointStatement
    # What a board of people says of its answers; what owners' answers are is the network's business.
    log_odds: ClassVar[bool] = False
    answers_by_sign: ClassVar[bool] = False
    classes: ClassVar[None] = None
    feature_names: ClassVar[None] = None

    @property
    def size_in_words(self) -> str:
        """How much is published, for people."""
        return f"{sum(array.size for array in self.arrays.values()):,} shared parameters"

    @property
    def fingerprint(self) -> str:
        """Names these arrays."""
        return hashlib.sha256(self._payload()).hexdigest()

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write one HTML page for whoever has to sign, as ``Billboard.report`` does.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        Path
            The file.
        """
        from commonground.report.board import report_of_shared

        return write_page(path, report_of_shared(self))

    def save(self, path: str | os.PathLike[str], sign: SigningKey | str | os.PathLike[str] | None = None) -> Path:
        """Write a folder with the arrays and the statement, in place of an older board.

        Parameters
        ----------
        path : path
            The folder.
        sign : SigningKey or path, default=None
            As in ``Billboard.save``.

        Returns
        -------
        Path
            The folder.
        """
        spent = {"epsilon_spent": spent_as_json(self.statement.epsilon_spent)}
        return write_board(path, self._payload(), {"kind": _KIND, **self.statement.to_json(), **spent}, sign)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], public_key: VerifyingKey | str | os.PathLike[str] | None = None
    ) -> "SharedParameters":
        """Read and verify, as ``Billboard.load`` does.

        Parameters
        ----------
        path : path
            The folder that ``save`` wrote.
        public_key : VerifyingKey or path, default=None
            As in ``Billboard.load``.

        Returns
        -------
        SharedParameters
        """
        with reading_board(path, public_key) as (document, payload):
            if document["kind"] != _KIND:
                raise ValueError
            board = cls(load_arrays(payload), JointStatement.from_json(document))
            board._check(recorded_spend(document))
            return board

    def _check(self, spend: float | None) -> None:
        """Raise ``UnbelievableError`` where arrays, statement and releases do not belong together."""
        claim = self.statement
        check_finite(self.arrays)
        check_claim(claim, spend)
        str(claim)  # what cannot be read out is damaged
        if not claim.private:
            return
        if not claim.events and self.arrays:
            raise UnbelievableError("it says that nothing depends on anybody's data, and publishes learned numbers")
        if claim.events and not (
            claim.steps <= sum(event.steps for event in claim.events)
            and any(event.noise_multiplier == claim.noise_multiplier for event in claim.events)
            and all(event.sampling_probability == claim.sampling_probability for event in claim.events)
        ):
            raise UnbelievableError("the steps that it tells of are not those that its releases paid for")

    def _payload(self) -> bytes:
        return bytes(save_arrays({name: np.ascontiguousarray(array) for name, array in sorted(self.arrays.items())}))


def refuse_ledger_with_gate(gate: Callable[..., SampledReleases], ledger: Ledger | SharedLedger | None) -> None:
    """No ledger vouches for what passed a gate that somebody looks behind."""
    if gate is not SampledReleases and ledger is not None:
        raise InputError("gate= is for audits, which no ledger pays for. Fit without it.")


@contextmanager
def paying(
    ledger: Ledger | SharedLedger | None, budget: Budget, events: Sequence[SampledGaussianEvent], resumed: bool = False
) -> Iterator[Ledger]:
    """What a run's steps are charged to, all of them before the first is drawn.

    A resumed run was paid for when it began: a ledger that knows its very releases is not charged again.
    """
    paid = ledger.paid_before(budget, events) if resumed and isinstance(ledger, StepLedger | InMemoryLedger) else None
    if ledger is None or paid is not None:
        yield paid or InMemoryLedger(budget)
    elif isinstance(ledger, StepLedger):
        with ledger.reserve_steps(budget, events, events[0].name) as book:
            yield book
    elif isinstance(ledger, SharedLedger):
        raise BudgetError(
            "this ledger cannot book trainings on samples. Use a DurableLedger, or one for this run alone."
        )
    else:
        yield ledger


def is_shared_parameters(path: str | os.PathLike[str]) -> bool:
    """Whether a folder holds shared parameters rather than a billboard of people."""
    try:
        return bool(json.loads((Path(path) / STATEMENT).read_text(encoding="utf-8"))["kind"] == _KIND)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def load_any_board(
    path: str | os.PathLike[str], public_key: VerifyingKey | str | os.PathLike[str] | None = None
) -> Billboard | SharedParameters:
    """A board of either kind, read and verified."""
    kind = SharedParameters if is_shared_parameters(path) else Billboard
    return kind.load(path, public_key)
