"""Tuning by split: a part of the budget for each fit, one for the choice, and one for the last fit where that pays."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.accounting.events import Event
from commonground.billboard.board import Billboard
from commonground.data.population import Population
from commonground.errors import SharingWarning
from commonground.gate import Gate, randomness_from
from commonground.ledger import InMemoryLedger, Ledger
from commonground.progress import progress_bar
from commonground.tuning.hold_out import HeldOut
from commonground.tuning.parts import Part, Shares, part_of, repeated_mu
from commonground.tuning.score import Scores, own_errors, release_scores
from commonground.tuning.search import Found, Search


@dataclass(frozen=True)
class Split:
    """A search by split, within one book."""

    search: Search
    shares: Shares
    book: Ledger  # pays
    paid: list[Event] = field(default_factory=list)  # filled as releases are charged

    def run(self, people: Population, rows: HeldOut) -> Found:
        """Fit every group, choose by released scores, and fit the winner again where that has a share."""
        search, shares = self.search, self.shares
        with progress_bar("tuning", len(search.groups) + 1, search.verbose) as advance:
            fitted, boards = [], dict[int, Billboard]()
            for number, group in enumerate(search.groups):
                model = self._fit(group.settings, rows.seen, shares.each, f"fit {number + 1}", number, keep_heads=False)
                fitted.append(model)
                boards |= search.boards_of(group, model)
                advance()
            scores = self._choose([boards[at] for at in range(len(search.candidates))], rows)
            best = int(np.argmin(scores.value))
            if shares.last:
                winner = self._fit(search.candidates[best], people, shares.last, "last fit", len(search.groups))
            else:
                winner = search.with_board(fitted[search.group_of(best)[0]], best, boards[best], people)
            advance()
        # Others are compared with the first, which has no noise.
        released = {at: (float(value), scores.std if at else 0.0) for at, value in enumerate(scores.value)}
        told = {"each fit": shares.each, "choice": shares.choice, "last fit": shares.last}
        why = _why(len(released), len(search.groups), shares, search.budget)
        return Found(winner, best, tuple(self.paid), scores, released, "split", why, told)

    def _fit(
        self, settings: Any, people: Population, share: float, what: str, number: int, keep_heads: bool = True
    ) -> Any:
        part = part_of(self.search.budget, share)
        seed = None if self.search.seed is None else (len(self.search.groups) + 1) * int(self.search.seed) + number
        model = self.search.model(settings, part, simulation_seed=seed, keep_heads=keep_heads)
        pays = Part(InMemoryLedger(part), self.book, self.paid, what)
        with warnings.catch_warnings():
            if not keep_heads:  # that a part of the budget is little is what the last fit is for
                warnings.simplefilter("ignore", SharingWarning)
            if self.search.gate is Gate:
                return model.fit(people, ledger=pays)
            model.fit(people, gate=self.search.gate)
        for event in model.billboard_.statement.events:
            pays.charge(event)
        return model

    def _choose(self, boards: list[Billboard], rows: HeldOut) -> Scores:
        part, gate = part_of(self.search.budget, self.shares.choice), self.search.gate
        errors, metric = own_errors(boards, rows)
        pays = Part(InMemoryLedger(part), self.book, self.paid, "choice")
        opened = gate(pays if gate is Gate else InMemoryLedger(part), randomness_from(self.search.seed))
        scores = release_scores(errors, metric, opened, part.mu)
        if gate is not Gate:  # a gate that replays charges nobody
            for event in opened.events:
                pays.charge(event)
        return scores


def _why(n_candidates: int, n_groups: int, shares: Shares, budget: Budget) -> str:
    free = n_candidates - n_groups
    fits = f"{n_groups} fit{'s' * (n_groups > 1)} ({shares.each:.1%}{' each' * (n_groups > 1)})"
    words = f"Split: μ² is divided among {fits}, the choice ({shares.choice:.1%})"
    words += (
        f" and a last fit of the winner on all rows ({shares.last:.1%})."
        if shares.last
        else "; the winner's fit is kept."
    )
    if free:
        words += f" {free} of {n_candidates} candidates are read off other fits' released spectra and cost nothing."
    if n_groups > 1:
        words += " " + _other_way(n_groups, shares, budget)
    return words


def _other_way(n_groups: int, shares: Shares, budget: Budget) -> str:
    """What repeat-and-select would leave, by public numbers."""
    each, last = (budget.mu * share**0.5 for share in (shares.each, shares.last))
    here = f"{each:.2g} to each and {last:.2g} to the last" if last else f"{each:.2g} to each"
    return (
        f"Of μ = {budget.mu:.2g}, split leaves {here}; repeat-and-select, which no ledger can add up, would leave "
        f"{repeated_mu(budget, n_groups):.2g} to each, and has no last fit."
    )
