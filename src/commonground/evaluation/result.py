"""What an evaluation tells, and what it cost."""

import math
import textwrap
from dataclasses import asdict, dataclass
from typing import Any

from commonground.accounting.events import Event, epsilon_spent
from commonground.ledger import LedgerEntry

WORDS = {
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "coverage": "labels inside their 90 % intervals",
    "log_loss": "log loss, chances in [0.01, 0.99]",
    "accuracy": "share of right classes",
    "auc": "area under ROC curve (18 cells)",
}


@dataclass(frozen=True)
class Measure:
    """One released number and the interval that its noise leaves."""

    name: str  # "rmse", "mae", "coverage", "log_loss", "accuracy" or "auc"
    value: float
    low: float  # ends of its interval
    high: float


@dataclass(frozen=True)
class Evaluation:
    """How good a model is on rows that it has not seen, everybody counting once. ``str()`` is for people.

    Parameters
    ----------
    measures : tuple of Measure
        What was asked for; also by name: ``evaluation["rmse"].value``.
    of : str
        What was evaluated.
    by : str
        Whose answers: people's own heads, or the shared prediction.
    n_users : int
        Public.
    presence_is_private : bool
        Whether they are all who were trained on, with or without held-out rows; else the people of the held-out table.
    epsilon, delta : float
        Declared for this evaluation alone; the model's own come on top. ε is infinite where it is not private.
    confidence : float
        Of each interval by itself.
    clip : float or None
        The largest error of a person that counts, in the unit of labels; None where there is none to choose.
    clip_released : bool
        Whether it was read off a release; else it was given, or is the width of the public range of labels.
    events : tuple of Event
        Every release.
    simulated : bool
        The noise, here or in the model, can be recomputed from a seed: no protection.
    ledger : LedgerEntry or None, default=None
        Where a durable ledger has it written down.
    """

    measures: tuple[Measure, ...]
    of: str
    by: str
    n_users: int
    presence_is_private: bool
    epsilon: float
    delta: float
    confidence: float
    clip: float | None
    clip_released: bool
    events: tuple[Event, ...]
    simulated: bool
    ledger: LedgerEntry | None = None

    def __getitem__(self, name: str) -> Measure:
        """The measure of this name."""
        return {measure.name: measure for measure in self.measures}[name]

    @property
    def private(self) -> bool:
        """Whether anything is guaranteed."""
        return math.isfinite(self.epsilon) and not self.simulated

    @property
    def epsilon_spent(self) -> float:
        """The ε of the releases made, at the declared δ."""
        return epsilon_spent(self.events, self.delta) if math.isfinite(self.epsilon) else math.inf

    @property
    def statement(self) -> str:
        """What is guaranteed, in one paragraph."""
        if not math.isfinite(self.epsilon):
            return (
                "NOT PRIVATE, for the operator's eyes only: exact numbers from people's rows as they are. Do not publish them; "
                "what is chosen by them is chosen by these rows, outside of any guarantee."
            )
        public = (
            "the number of people is public, and who of those trained on has held-out rows is not"
            if self.presence_is_private
            else "how many people have held-out rows is public here, as nothing says who was trained on"
        )
        paragraph = (
            f"These numbers are (ε = {self.epsilon:g}, δ = {self.delta:g})-differentially private for every person, on top of "
            f"what the model itself cost: one person's rows, those trained on and those held out, are replaced by any other's; "
            f"{public}. They passed one gate in "
            f"{len(self.events)} noisy release{'s' * (len(self.events) != 1)}, together at a cost of ε = "
            f"{self.epsilon_spent:.4g}. Who gains and who loses is "
            "not among them."
        )
        if self.ledger is not None:
            paragraph += f" A ledger has it as reservation {self.ledger.reservation} of {self.ledger.population!r}."
        if self.simulated:
            return f"SIMULATED, NOT PRIVATE: the noise comes from a known seed and protects nobody. {paragraph}"
        return paragraph

    @property
    def interval_covers(self) -> str:
        """What the intervals are about, in a sentence."""
        if not math.isfinite(self.epsilon):
            return "Exact: there is no noise, and no interval."
        words = (
            f"Each interval holds the exact number of these people with probability {self.confidence:.0%}, by the known noise; "
            "how far other people would differ is not in it."
        )
        if self.clip is None:
            return words
        reached = (
            " Most of them reach it, so that the true number may be far larger: give --clip a size that these errors have, or a "
            "larger --epsilon."
            if self._reach_the_clip
            else ""
        )
        if self.clip_released:
            return (
                f"{words} Exact, that is, of errors of which none counts for more than {self.clip:.4g}, a size read off a "
                f"release: where few people have far larger ones, the mean without that limit lies higher.{reached}"
            )
        return f"{words} Exact, that is, of errors of which none counts for more than {self.clip:.4g}, which is public.{reached}"

    @property
    def _reach_the_clip(self) -> bool:
        """Whether a mean lies in the upper half of what is possible, as it does where the clip lies below most errors."""
        power = {"rmse": 2, "mae": 1}
        return self.clip is not None and any(
            (one.value / self.clip) ** power[one.name] > 0.5 for one in self.measures if one.name in power
        )

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        finite = math.isfinite(self.epsilon)
        return {
            "private": self.private,
            "simulated": self.simulated,
            "of": self.of,
            "by": self.by,
            "n_users": self.n_users,
            "epsilon": self.epsilon if finite else "inf",
            "delta": self.delta,
            "epsilon_spent": self.epsilon_spent if finite else "inf",
            "confidence": self.confidence,
            "clip": self.clip,
            "clip_released": self.clip_released,
            "measures": {measure.name: asdict(measure) for measure in self.measures},
            "statement": self.statement,
            "interval_covers": self.interval_covers,
            "ledger": None if self.ledger is None else asdict(self.ledger),
            "events": [event.as_dict() for event in self.events],
        }

    def __str__(self) -> str:
        lines = [f"{self.of} on held-out rows of {self.n_users:,} people, by {self.by}"]
        for measure in self.measures:
            between = f"  [{measure.low:.4g}, {measure.high:.4g}]" if math.isfinite(self.epsilon) else ""
            lines.append(f"  {measure.name:<9}{measure.value:>9.4g}{between:<23} {WORDS[measure.name]}")
        told = [textwrap.fill(words, 80) for words in (self.interval_covers, self.statement)]
        return "\n".join([*lines, *told])
