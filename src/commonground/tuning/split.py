"""Tuning by split: a part of the budget for each fit, one for the choice, and one for the last fit where that pays."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from commonground.accounting.budgets import Budget
from commonground.accounting.events import Event
from commonground.billboard.board import Billboard
from commonground.data.population import Population
from commonground.errors import SharingWarning
from commonground.gate import Gate, Randomness
from commonground.heads.table import HeadTable
from commonground.ledger import InMemoryLedger, Ledger
from commonground.progress import progress_bar
from commonground.tuning.candidates import Group
from commonground.tuning.hold_out import HeldOut
from commonground.tuning.parts import Part, part_of
from commonground.tuning.score import Scores, own_errors, release_scores
from commonground.tuning.truncate import at_rank

CHOICE = 0.06  # of μ², for the choice
LAST = 0.6  # of the rest, for the last fit, where there is one; chosen by `benchmarks/tuning.py --choose`


@dataclass(frozen=True)
class Shares:
    """Of μ²."""

    each: float  # for each fit that is compared
    choice: float
    last: float  # for fitting the winner again on all rows; 0: its fit is kept

    @classmethod
    def of(cls, n_groups: int, refit: bool) -> "Shares":
        """With one fit there is nothing that a last one would add."""
        last = LAST * (1.0 - CHOICE) if refit else 0.0
        return cls((1.0 - CHOICE - last) / n_groups, CHOICE, last)


@dataclass(frozen=True)
class Split:
    """A search within one book."""

    estimator: Any
    candidates: list[dict[str, Any]]
    groups: list[Group]
    budget: Budget  # of all of it
    book: Ledger  # pays
    randomness: Randomness  # of the choice
    seeds: list[int | None]  # of each fit, and of the last
    paid: list[Event]  # filled as releases are charged
    verbose: bool
    gate: Callable[[Ledger, Randomness], Gate] = Gate  # for audits: makes gates that watch; then no book pays

    def run(self, people: Population, rows: HeldOut, shares: Shares) -> tuple[Any, int, Scores]:
        """The winner, fitted; its place; and the scores."""
        with progress_bar("tuning", len(self.groups) + 1, self.verbose) as advance:
            fitted, boards = [], dict[int, Billboard]()
            for number, group in enumerate(self.groups):
                model = self._fit(group.settings, rows.seen, shares.each, f"fit {number + 1}", number, keep_heads=False)
                fitted.append(model)
                boards |= boards_of(self.candidates, group, model)
                advance()
            scores = self._choose([boards[at] for at in range(len(self.candidates))], rows, shares.choice)
            best = int(np.argmin(scores.value))
            if shares.last:
                winner = self._fit(self.candidates[best], people, shares.last, "last fit", len(self.groups))
            else:
                of = next(number for number, group in enumerate(self.groups) if best in group.members)
                winner = with_board(fitted[of], self.candidates[best], boards[best], people)
            advance()
        return winner, best, scores

    def _fit(
        self, settings: Any, people: Population, share: float, what: str, number: int, keep_heads: bool = True
    ) -> Any:
        part = part_of(self.budget, share)
        model = clone(self.estimator).set_params(**settings, epsilon=part.epsilon, delta=part.delta)
        changes = {"simulation_seed": self.seeds[number], "keep_heads": keep_heads}
        model.set_params(**{name: value for name, value in changes.items() if name in model.get_params(deep=False)})
        pays = Part(InMemoryLedger(part), self.book, self.paid, what)
        with warnings.catch_warnings():
            if not keep_heads:  # that a part of the budget is little is what the last fit is for
                warnings.simplefilter("ignore", SharingWarning)
            if self.gate is Gate:
                return model.fit(people, ledger=pays)
            model.fit(people, gate=self.gate)
        for event in model.billboard_.statement.events:
            pays.charge(event)
        return model

    def _choose(self, boards: list[Billboard], rows: HeldOut, share: float) -> Scores:
        part, gate = part_of(self.budget, share), self.gate
        errors, metric = own_errors(boards, rows)
        pays = Part(InMemoryLedger(part), self.book, self.paid, "choice")
        opened = gate(pays if gate is Gate else InMemoryLedger(part), self.randomness)
        scores = release_scores(errors, metric, opened, part.mu)
        if gate is not Gate:  # a gate that replays charges nobody
            for event in opened.events:
                pays.charge(event)
        return scores


def boards_of(candidates: list[dict[str, Any]], group: Group, model: Any) -> dict[int, Billboard]:
    """The board of each of a group's candidates, by its place: the fitted one, or one of lower rank."""
    board: Billboard = model.billboard_
    ranks = {at: candidates[at].get("rank", board.rank) for at in group.members}
    return {at: at_rank(board, rank) if isinstance(rank, int) else board for at, rank in ranks.items()}


def with_board(model: Any, settings: dict[str, Any], board: Billboard, people: Population) -> Any:
    """A fitted model with another board, made from its own, and heads on it from all of everybody's rows (local, free)."""
    model.set_params(**settings, **({"keep_heads": True} if "keep_heads" in model.get_params(deep=False) else {}))
    model.billboard_, model.heads_ = board, HeadTable.fit(board, people)
    model.set_people(people)
    return model
