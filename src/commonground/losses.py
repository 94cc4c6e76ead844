"""The losses that a model may be fitted by: one line each, for boards, wires, compiled code, kinds of heads and estimators.

A new loss has its line here, its formulas in ``statistics/kernels/convex_head.py``, and the same for a browser in
``page/convex.js``.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Loss:
    """What is known of a loss besides its formulas. All of it is public."""

    name: str  # on a board, on a wire and, but for the square, on the command line
    what: str  # the list of models says what it is for
    curvature: float  # its largest second derivative
    heads: tuple[str, ...]  # the kinds of heads that have it; "convex": by the formulas of the kernel
    log_odds: bool = False  # labels are yes (above zero) or no, for formulas ±1, and scores are log-odds of yes

    @property
    def has_prior(self) -> bool:
        """Whether heads may be held by a released prior."""
        return "posterior" in self.heads


# New ones at the end: compiled code that is kept calls them by their numbers.
LOSSES = {
    loss.name: loss
    for loss in (
        Loss("square", "for numbers", 1.0, ("posterior",)),
        Loss("logistic", "for yes or no, as log-odds", 0.25, ("posterior", "convex"), log_odds=True),
        Loss("huber", "altmin for labels with outliers", 1.0, ("convex",)),
    )
}
NUMBERS = {name: number for number, name in enumerate(LOSSES)}  # what compiled code calls them
NAMED_LOSSES = tuple(
    loss for name, loss in LOSSES.items() if name != "square"
)  # each a ``--model`` of the command line
LOGISTIC, HUBER = NUMBERS["logistic"], NUMBERS["huber"]


def losses_of(kind: str) -> tuple[str, ...]:
    """Their names, of those that heads of this kind have."""
    return tuple(name for name, loss in LOSSES.items() if kind in loss.heads)
