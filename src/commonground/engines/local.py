"""One machine: block after block, each read once."""

from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar

from commonground.users import Block, Users


class Addable(Protocol):
    def __add__(self, other: Any, /) -> Self: ...


Sum = TypeVar("Sum", bound=Addable)


def sum_over_people(users: Users, block_sum: Callable[[Block], Sum]) -> Sum:
    """Add up ``block_sum`` over all blocks of whole people."""
    blocks = users.blocks()
    total = block_sum(next(blocks))
    for block in blocks:
        total = total + block_sum(block)
    return total
