"""What a reproduced result is: rows beside the printed numbers, claims checked as data, a figure."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Row:
    """One number of ours, and the printed one where there is one."""

    # What identifies the row, one table column each; the same keys in all rows of a result.
    setting: dict[str, str | float]
    ours: float
    printed: float | None = None
    tolerance: float | None = None  # the largest relative difference that counts as agreement; None: shown, not judged
    spread: float | None = None  # standard error of ours
    note: str = ""  # why a row is not judged: a misprint, a draw that cannot be known
    fitted: bool = False  # whether what it depends on was recovered from the printed number itself: no evidence

    @property
    def difference(self) -> float | None:
        """Relative to the printed number."""
        return None if self.printed in (None, 0.0) else self.ours / self.printed - 1.0

    @property
    def verdict(self) -> str:
        if self.difference is None or self.tolerance is None:
            return ""
        verdict = "agrees" if abs(self.difference) <= self.tolerance else "DIFFERS"
        return f"{verdict} (fitted)" if self.fitted else verdict

    def to_json(self) -> dict[str, Any]:
        """A line of the table, for machines."""
        numbers = {"ours": self.ours, "standard_error": self.spread, "printed": self.printed}
        told = {"difference": self.difference, "verdict": self.verdict, "note": self.note}
        return {**self.setting, **numbers, **told}


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper as a comparison of numbers."""

    text: str
    holds: bool
    evidence: str


@dataclass(frozen=True)
class Outcome:
    rows: list[Row]
    claims: list[Claim] = field(default_factory=list)
    draw: "Callable[[Figure], None] | None" = None


@dataclass(frozen=True)
class PaperResult:
    """One table or figure of a paper."""

    name: str  # p3-table02
    title: str  # without sizes: a fast run has others
    settings: str  # one paragraph: what is fixed, what was recovered rather than printed
    run: Callable[[bool, bool], Outcome]  # (fast, show progress)
    fast: str = "a smaller version"  # what a fast run has instead

    def outcome(self, fast: bool, show: bool) -> Outcome:
        """The rows, and what they say about the paper. A fast run says nothing: it is another experiment."""
        found = self.run(fast, show)
        if not fast:
            return found
        return replace(found, rows=[replace(row, printed=None, tolerance=None) for row in found.rows], claims=[])

    def description(self, fast: bool) -> str:
        if not fast:
            return self.settings
        return f"Fast: {self.fast}. It shows that the code runs, and nothing about the paper: nothing is compared or judged."
