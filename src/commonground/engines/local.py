"""One machine: block after block, each read once."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, Self, TypeVar

from commonground.data.users import Users


class Addable(Protocol):
    def __add__(self, other: Any, /) -> Self: ...


Sum = TypeVar("Sum", bound=Addable)


def sum_over_blocks(users: Users, block_sum: Callable[..., Sum], *public: Any) -> Sum:
    """Add up ``block_sum(block, *public)`` over all blocks of whole people."""
    return add_up(block_sum(block, *public) for block in users.blocks())


def add_up(parts: Iterable[Sum]) -> Sum:
    """The sum of at least one part, in an order that depends on their number alone.

    Sums of equally many parts are added first, like carrying digits. So a part passes through at most log₂(parts) + 1
    additions, and their rounding stays within ``clipping.rounding_margin`` however the rows are cut.
    """
    waiting: list[tuple[int, Sum]] = []  # (carries so far, sum)
    for total in parts:
        carries = 0
        while waiting and waiting[-1][0] == carries:
            carries, total = carries + 1, waiting.pop()[1] + total
        waiting.append((carries, total))
    total = waiting.pop()[1]
    while waiting:
        total = waiting.pop()[1] + total
    return total
