"""P1's Algorithms 1 to 3, with the departures of ``DEPARTURES``: the yardstick that the default recipe is measured against.

Kept from the paper: Algorithm 3 for the start, fixed clips η and ζ, a linear system of dk unknowns per round, the printed noise,
Q of the QR decomposition, final heads from the second half of a person's rows.

**What the printed noise protects.** With W = Σ of q rows clipped to η, the noise m η² Δ/2 of Algorithm 2 is 2Δ times q η² for
its q = m/4 rows, that of Algorithm 3 is Δ times m ζ² for its m/2 pairs: sums over *all rows of one person* who has at most m of
them. So its unit is the person, under replacement, provided that m is a public bound. Here rows beyond ``rows_per_user`` are left
out of the statistics, and people may have fewer. In terms of cost, a round spends μ = 1/(2Δ) on the matrix (√2 q η² moved; the
paper's Wigner entries are √2 larger than those of a symmetric half at the same σ) and 1/Δ on the vector, the start 1/(√2 Δ).
With Δ = √(16 log(1/δ))/ε of Theorem 4.2 that is μ = √(1.75/16 · ε²/log(1/δ)): less than the budget allows (at ε = 1,
δ = 1e-6 the exact ε is 0.35). Were it more, for a δ near one, the exact calibration is used: the larger noise of both.

**Two schedules.** "groups": T groups of people, one round each, paid once (``disjoint_groups``), heads and systems from separate
quarters of a person's rows: the theorem. "epochs": everybody in each of T rounds, so Δ grows by √T, heads and systems from her
first half: the experiments, whose 10 rows are too few for quarters.

**Guarantee.** Unit: a person, replaced by any other, with at most ``rows_per_user`` rows. What reads data passes the gate: once
the sum of people's normalised pairs (the start), and in each round everybody's system, its matrix and its vector apart, at the
costs above; with groups each person is in one round. Clips and the number of rounds are settings. All else is made of these.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.clipping.sums import from_symmetric_half
from commonground.data.population import Population
from commonground.denoise.shrinkage import shrunk_towards
from commonground.errors import InputError
from commonground.estimators.altmin.disjoint_groups import DisjointGroups, group_of_each
from commonground.gate import Gate, Release
from commonground.statistics.paper.altmin import NormalisedPairs, System, SystemSums

DEPARTURES = (
    'Epochs by default: everybody in each of T rounds, as the experiments do (Δ grows by √T). schedule="groups" is the '
    "theorem's: a group of people for each round, paid once.",
    "With epochs, heads and systems come from the same first half of a person's rows; with groups from its two quarters, as "
    "printed. 10 rows are too few for quarters.",
    "Groups follow from a checksum of people's ids, not from a random permutation, so their sizes are about n/T, not exactly.",
    "The start reads all rows of a person in pairs, and the rounds read her first half again. The paper's Theorem 4.2 asks "
    "for samples of their own; its experiments do not say.",
    "Start and rounds are paid together from the declared (ε, δ) by the exact Gaussian account; where the printed noise were "
    'too small for it, the larger is taken. AltMinSettings(noise="zcdp") spends the ρ that is printed with Figure 2.',
    "sym is the mean of a matrix and its transpose, which never is longer than the matrix; printed: the upper triangle "
    "repeated, which may be.",
    "The matrix M is moved towards a multiple of the identity as far as its known noise allows, with its smallest eigenvalues "
    "raised (``shrunk_towards``): the printed argmin does not exist when one is negative.",
    "The clipping norm 10⁻⁴ of the experiments is taken for both η and ζ, so that rows count by their direction and labels by "
    "their sign.",
    "Five epochs; the choice among {1, 2, 5, 10} by looking at the result is not repeated, as nothing pays for it.",
    "Heads have no bound on their norm (line 5 has one, R_k).",
    "Rows beyond the public m are left out; people may have fewer. Rows that are not finite send nothing.",
)


@dataclass(frozen=True)
class AltMinSettings:
    """The hyper-parameters of P1's experiments (its section 6).

    Parameters
    ----------
    n_rounds : int, default=5
        T, the number of groups, or of epochs.
    schedule : {"epochs", "groups"}, default="epochs"
        Everybody in each round, or a group of people for each.
    model_clip, response_clip : float, default=1e-4
        η and ζ.
    rows_per_user : int, default=10
        m, public.
    noise : {"algorithm", "zcdp"}, default="algorithm"
        As Algorithms 2 and 3 print it with Theorem 4.2's Δ, which costs ρ = 0.055 ε²/log(1/δ) in all; or smaller by one
        factor everywhere, so that all releases together cost the ρ = ε²/(8 log(1/δ)) printed with Figure 2.
    """

    n_rounds: int = 5
    schedule: str = "epochs"
    model_clip: float = 1e-4
    response_clip: float = 1e-4
    rows_per_user: int = 10
    noise: str = "algorithm"

    def __post_init__(self) -> None:
        if self.noise not in ("algorithm", "zcdp"):
            raise InputError(f"noise of AltMinSettings must be 'algorithm' or 'zcdp', got {self.noise!r}.")
        if self.schedule not in ("epochs", "groups"):
            raise InputError(f"schedule of AltMinSettings must be 'epochs' or 'groups', got {self.schedule!r}.")
        least = 4 if self.schedule == "groups" else 2
        if self.n_rounds < 1 or self.rows_per_user < least:
            raise InputError(
                f"AltMinSettings needs n_rounds >= 1 and rows_per_user >= {least}, got {self.n_rounds} and "
                f"{self.rows_per_user}."
            )
        if not (self.model_clip > 0 and self.response_clip > 0):
            raise InputError("model_clip and response_clip of AltMinSettings must be > 0.")


def printed_costs(budget: Budget, settings: AltMinSettings) -> dict[str, float]:
    """μ of each release under the printed noise, or under the exact calibration where that asks for more noise."""
    Delta = math.sqrt(16 * math.log(1 / budget.delta)) / budget.epsilon
    # Squares add up to 1.75/Δ² with Algorithms 2 and 3 as printed, and to 2ρ = 4/Δ² with the printed ρ.
    Delta *= math.sqrt(1.75) / 2 if settings.noise == "zcdp" else 1.0
    printed = {"start": 1 / (math.sqrt(2) * Delta), "matrix": 1 / (2 * Delta), "vector": 1 / Delta}
    exact = budget.split({name: mu**2 * Delta**2 / 1.75 for name, mu in printed.items()})
    times = {"start": 1, "matrix": settings.n_rounds, "vector": settings.n_rounds}
    if settings.schedule == "groups":
        times = dict.fromkeys(times, 1)
    return {name: min(printed[name], exact[name]) / math.sqrt(times[name]) for name in printed}


def paper_embedding(
    users: Population, rank: int, budget: Budget, gate: Gate, settings: AltMinSettings, start: np.ndarray | None = None
) -> np.ndarray:
    """U_priv of Algorithm 1. A ``start`` that was made from data without noise voids the guarantee (``reproduce`` does it)."""
    d, mu = users.n_features, printed_costs(budget, settings)
    if settings.schedule == "groups" and len(set(group_of_each(users, settings.n_rounds).tolist())) < settings.n_rounds:
        raise InputError(
            f"{users.n_users} people are too few for {settings.n_rounds} groups: one would be empty. Take fewer rounds, or "
            "schedule='epochs'."
        )
    U = _release_start(users, rank, gate, settings, mu["start"]) if start is None else start
    groups = DisjointGroups(users, settings.n_rounds, gate)
    for t in range(settings.n_rounds):  # Alg. 1, lines 3 to 7
        if settings.schedule == "groups":
            sums = _system(groups.people(t), U, settings)
            M = groups.release(sums.matrix.bounded("rounds on disjoint groups: matrix"), t, mu["matrix"])
            b = groups.release(sums.vector.bounded("rounds on disjoint groups: vector"), t, mu["vector"])
        else:
            sums = _system(users, U, settings)
            M = gate.release(sums.matrix.bounded(f"round {t + 1}: matrix"), mu["matrix"])
            b = gate.release(sums.vector.bounded(f"round {t + 1}: vector"), mu["vector"])
        U = np.linalg.qr(_solve(M, b).reshape(rank, d).T)[0]  # Alg. 2, lines 3 and 4
    return np.ascontiguousarray(U)


def _release_start(users: Population, rank: int, gate: Gate, settings: AltMinSettings, mu: float) -> np.ndarray:
    """Algorithm 3."""
    sums = users.sum(NormalisedPairs(settings.rows_per_user, settings.response_clip))
    half = gate.release(sums.bounded("initialisation (Alg. 3)"), mu).value
    return np.ascontiguousarray(np.linalg.eigh(from_symmetric_half(half, users.n_features))[1][:, -rank:])


def _system(users: Population, U: np.ndarray, settings: AltMinSettings) -> SystemSums:
    quarters = settings.schedule == "groups"
    return users.sum(System(U, settings.rows_per_user, quarters, settings.model_clip, settings.response_clip))


def _solve(matrix: Release, vector: Release) -> np.ndarray:
    """Z = argmin uᵀ M u − 2 uᵀ b with the spectrum of M kept positive."""
    size = len(vector.value)
    M = from_symmetric_half(matrix.value, size)
    mean_eigenvalue = max(float(np.trace(M)) / size, matrix.noise_std)  # the noise may hide even that
    return np.linalg.solve(shrunk_towards(M, mean_eigenvalue * np.eye(size), matrix.noise_std), vector.value)
