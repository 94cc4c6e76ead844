"""P2's Algorithms 1 and 2 line by line: the yardstick that the default recipe is measured against.

Kept from the paper: fixed clipping norms ψ and ψ_init, the split of each person's rows, the form of the printed noise
levels, plain gradient steps. Changed: replacing a person moves a clipped sum by 2ψ, not by the ψ of the paper's proof, so all
noise is twice the printed one (with ψ the printed initialisation would spend ε = 1.66 where 1 is declared; for the rounds,
whose constant Theorem 8 leaves open, it is caution); and the initialisation is paid from the declared (ε, δ), half to it and
half to the rounds (the published script adds no noise to it). Chosen where the paper is silent: the constant of Theorem 8 is
that of its experiments, σ̂ = (2ψ/n)·√(16 T log(1.25/δ))/ε, and ψ_init = d. The gradient is that of half the squared loss,
as the expectations in the paper's proofs have it.

What cannot be done as printed: Algorithm 1 wants batches of b = ⌊m/2T⌋ rows, and b ≥ k for the heads to exist. With m = 10
and T = 5 that is b = 1 < k = 2. Then b is raised to k where two disjoint batches of k still fit in the first half of a
person's rows; a person with fewer rows uses what she has and the shortest least-squares head.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.clipping.sums import ClippedSums
from commonground.data.population import Population
from commonground.errors import RecipeWarning
from commonground.gate import Gate
from commonground.statistics.paper.fedrep import BatchGradients, Pairs


@dataclass(frozen=True)
class PaperSettings:
    """The hyper-parameters of P2's experiments (its appendix B.4).

    Parameters
    ----------
    n_rounds : int, default=5
        T.
    learning_rate : float, default=2.5
        η.
    clip_norm : float, default=10.0
        ψ.
    init_clip_norm : float or None, default=None
        ψ_init; None means d, the order that Lemma 12 asks for.
    rows_per_user : int, default=10
        m, public: the paper gives everybody the same number of rows.
    """

    n_rounds: int = 5
    learning_rate: float = 2.5
    clip_norm: float = 10.0
    init_clip_norm: float | None = None
    rows_per_user: int = 10


def paper_embedding(users: Population, rank: int, budget: Budget, gate: Gate, settings: PaperSettings) -> np.ndarray:
    """U_priv of Algorithm 1, started from Algorithm 2."""
    n, epsilon, delta = users.n_users, budget.epsilon / 2, budget.delta / 2
    psi_init = float(users.n_features if settings.init_clip_norm is None else settings.init_clip_norm)
    T, m = settings.n_rounds, settings.rows_per_user
    batch = m // (2 * T)
    if batch < rank:
        batch = max(min(rank, m // 4), 1)
        warnings.warn(
            f"Algorithm 1 asks for batches of b = ⌊m/2T⌋ = {m // (2 * T)} rows (m = {m}, T = {T}) and for b >= rank = "
            f"{rank}; using b = {batch}, the nearest possible.",
            RecipeWarning,
            stacklevel=6,
        )

    def init_sums() -> ClippedSums:
        return users.sum(Pairs(psi_init))

    def round_sums(U: np.ndarray, t: int) -> ClippedSums:
        return users.sum(BatchGradients(U, batch, shift=2 * batch * t, clip_norm=settings.clip_norm))

    # Alg. 2: σ̂_init = (2ψ_init/n)·√(2 log(1.25/δ))/ε, so μ = sensitivity/σ is
    # but never less noise than the exact calibration asks for: the printed formulas are not valid for large ε.
    exact = budget.split({"init": 0.5, "rounds": 0.5})
    mu_init = min(epsilon / math.sqrt(2 * math.log(1.25 / delta)), exact["init"])
    Z = gate.release(init_sums().bounded("initialisation (Alg. 2)"), mu_init).value / n  # lines 3 to 6
    U = np.linalg.svd(Z)[0][:, :rank]  # line 7
    mu_round = min(epsilon / math.sqrt(16 * T * math.log(1.25 / delta)), exact["rounds"] / math.sqrt(T))
    for t in range(T):  # Alg. 1, lines 2 to 11
        gradient = gate.release(round_sums(U, t).bounded(f"round {t + 1} (Alg. 1)"), mu_round).value / n  # line 10
        U = np.linalg.qr(U - settings.learning_rate * gradient)[0]
    return np.ascontiguousarray(U)
