"""What both ways of searching start from and end with: settings and a budget, and a fitted winner with what may be told."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from commonground.accounting.budgets import Budget
from commonground.accounting.events import Event
from commonground.billboard.board import Billboard
from commonground.data.population import Population
from commonground.errors import is_whole
from commonground.gate import Gate, Randomness
from commonground.heads.table import HeadTable
from commonground.ledger import Ledger
from commonground.tuning.candidates import Group, at_rank
from commonground.tuning.score import Scores


@dataclass(frozen=True)
class Search:
    """Settings to compare within one budget. All of it is public."""

    estimator: Any
    candidates: list[dict[str, Any]]
    groups: list[Group]  # of candidates that one fit serves
    budget: Budget  # of all of it
    seed: int | None  # of simulated noise
    verbose: bool
    gate: Callable[[Ledger, Randomness], Gate] = Gate  # for audits: makes gates that watch; then no ledger pays

    def group_of(self, candidate: int) -> tuple[int, Group]:
        """The fit that serves a candidate, and its number."""
        return next((number, group) for number, group in enumerate(self.groups) if candidate in group.members)

    def model(self, settings: Any, budget: Budget, **others: Any) -> Any:
        """An estimator with these settings and this budget, not fitted; and with ``others``, of which it may have none."""
        model = clone(self.estimator).set_params(**settings, epsilon=budget.epsilon, delta=budget.delta)
        known = model.get_params(deep=False)
        return model.set_params(**{name: value for name, value in others.items() if name in known})

    def boards_of(self, group: Group, model: Any) -> dict[int, Billboard]:
        """The board of each of a group's candidates, by its place: the fitted one, or one of lower rank."""
        board: Billboard = model.billboard_
        ranks = {at: self.candidates[at].get("rank", board.rank) for at in group.members}
        return {at: at_rank(board, rank) if is_whole(rank) else board for at, rank in ranks.items()}

    def with_board(self, model: Any, candidate: int, board: Billboard, people: Population) -> Any:
        """A fitted model as one of a candidate, with a board made from its own, and heads from all of everybody's rows."""
        keep = {"keep_heads": True} if "keep_heads" in model.get_params(deep=False) else {}
        model.set_params(**self.candidates[candidate], **keep)
        model.billboard_, model.heads_ = board, HeadTable.fit(board, people)
        model.set_people(people)
        return model


@dataclass(frozen=True)
class Found:
    """The winner of a search, and what may be told of it."""

    model: Any  # the winner, fitted
    best: int  # its place among the candidates
    paid: tuple[Event, ...]  # all that was charged
    scores: Scores
    # By a candidate's place: its score, and the standard deviation of its noise
    released: dict[int, tuple[float, float]]
    way: str
    why: str  # this way, in sentences
    shares: dict[str, float]  # of μ²
