"""Who maps contributions over people: this machine (`local`), or an engine that ``users`` brings along.

Every estimator reads rows through `sum_over_people` alone. What it asks for is a function of `commonground.contributions` and
the public numbers and arrays it takes, so the question can be sent to where the rows are; only sums come back. No engine
sees a budget or draws noise.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

from commonground.data.users import Users
from commonground.engines.local import Sum, sum_over_blocks


class Engine(Protocol):
    def sum_over_people(self, users: Users, block_sum: Callable[..., Sum], *public: Any) -> Sum: ...


def sum_over_people(users: Users, block_sum: Callable[..., Sum], *public: Any) -> Sum:
    """Add up ``block_sum(block, *public)`` over blocks of whole people, wherever their rows are."""
    if users.engine is not None:
        return users.engine.sum_over_people(users, block_sum, *public)
    return sum_over_blocks(users, block_sum, *public)


@dataclass(frozen=True)
class View:
    """An engine that asks another one, and has rows changed on the way: ``change(block, *public, block_sum, …)``."""

    engine: Engine | None
    change: Callable[..., Any]  # of `commonground.contributions`
    public: tuple[Any, ...]

    def sum_over_people(self, users: Users, block_sum: Callable[..., Sum], *public: Any) -> Sum:
        as_they_are = copy(users)  # with the weights of those who ask
        as_they_are.engine = self.engine
        return sum_over_people(as_they_are, self.change, *self.public, block_sum, *public)


def seen_through(users: Users, change: Callable[..., Any], *public: Any) -> Users:
    """The same people; what is summed over them sees their rows changed."""
    seen = copy(users)
    seen.engine = View(users.engine, change, public)
    return seen
