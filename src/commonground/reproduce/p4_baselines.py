"""The columns that P4's tables show beside joint DP, made of the library's parts; nothing but those tables needs them.

Two are a JointTrainer with its parameters divided otherwise: all of them shared (full DP), or all personal (per silo). The third,
collaboration without DP, is a single owner who holds everybody's records. The convex learners need none: without ``owners`` they
predict as full DP does.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from commonground.errors import BudgetError
from commonground.ledger import Ledger, SharedLedger

if TYPE_CHECKING:
    from commonground.deep import JointTrainer  # torch is an extra


def full_dp(trainer: "JointTrainer") -> "JointTrainer":
    """The same training with every parameter shared and private; it pays as any other does."""
    found: JointTrainer = clone(trainer).set_params(personal=(), keep=("shared",))
    return found


def per_silo(trainer: "JointTrainer") -> "JointTrainer":
    """Every owner alone, with all parameters its own: nothing is published, so nothing is paid."""
    everything = [name for name, _ in trainer.model.named_parameters()]
    found: JointTrainer = clone(trainer).set_params(personal=everything, keep=("own",))
    return found


@dataclass(frozen=True, repr=False)
class WithoutPrivacy:
    """All owners' records in one hand, and one network trained on them. NOT PRIVATE: it has neither billboard nor statement."""

    one_owner: "JointTrainer"

    @classmethod
    def fit(
        cls, trainer: "JointTrainer", X: Any, y: Any, *, ledger: Ledger | SharedLedger | None = None
    ) -> "WithoutPrivacy":
        """Train as ``trainer``'s owners do alone. What has no protection costs more than any ledger holds: none is taken."""
        if ledger is not None:
            raise BudgetError(
                "collaboration without DP leaves everybody's data unprotected (ε = ∞), which no ledger can pay for. Train it "
                "without ledger= and publish nothing, or fit a JointTrainer."
            )
        return cls(per_silo(trainer).fit(X, y, owners=np.zeros(len(y), dtype=np.int64)))

    def score(self, X: Any, y: Any) -> float:
        """Accuracy."""
        return self.one_owner.score(X, y, owners=np.zeros(len(y), dtype=np.int64))
