"""The papers' bounds, computable.

Theorems hide constants and logarithms. Where a paper's own experiments have a constant it is kept (the noise), otherwise
constants are one and logarithms are left out, so these are scales, not guarantees. Tests show that simulations lie below.

Letters are the papers': n people with m rows of d features each, heads of k numbers (``n_users``, ``rows_per_user``,
``n_features``, ``rank``), and the budget (ε, δ); ``noise`` is the standard deviation of the labels' noise.
"""

import math
from collections.abc import Sequence

import numpy as np

from commonground.errors import InputError

__all__ = [
    "altmin_risk",
    "coefficient_error_bound",
    "exponential_risk",
    "fedrep_risk",
    "head_risk",
    "margin_risk",
    "owners_alone_risk",
    "owners_full_risk",
    "owners_risk",
    "owners_smooth_risk",
]


def altmin_risk(
    n_users: int,
    rows_per_user: int,
    n_features: int,
    rank: int,
    epsilon: float,
    delta: float,
    noise: float,
    *,
    largest_head: float | None = None,
) -> float:
    """P1's Theorem 4.2 for heads ~ N(0, I): excess population risk of Priv-AltMin.

    Δ²(σ² + μ²k²d) μ⁴k³d²/n² + σ²μ⁴k²d/(nm) + kσ²/m with Δ² = 16 log(1/δ)/ε²; σ = ``noise``, λ_k is one, Γ = ``largest_head``
    gives the incoherence μ² = Γ²/k (None: μ = 1, as Theorem 1.1 has it). The theorem prints Δ; Theorem 1.1 has ε², so Δ² is
    meant.

    >>> altmin_risk(50_000, 10, 50, 2, 1.0, 1e-6, 0.01) < 1
    True
    """
    _check(n_users, rows_per_user, n_features, rank, epsilon)
    n, m, d, k = n_users, rows_per_user, n_features, rank
    mu2 = 1.0 if largest_head is None else largest_head**2 / k
    privacy = 16 * math.log(1 / delta) / epsilon**2 * (noise**2 + mu2 * k**2 * d) * mu2**2 * k**3 * d**2 / n**2
    return privacy + noise**2 * mu2**2 * k**2 * d / (n * m) + k * noise**2 / m


def fedrep_risk(
    n_users: int,
    rows_per_user: int,
    n_features: int,
    rank: int,
    epsilon: float,
    delta: float,
    noise: float,
    *,
    n_rounds: int = 5,
    largest_head: float | None = None,
    largest_singular: float = 1.0,
    smallest_singular: float = 1.0,
) -> float:
    """P2's Theorem 10 (members) and Corollary 11 (new people): excess population risk of Private FedRep.

    (R² + Γ²)Γ⁴Λ²/(σ⁴λ²) · (16 T log(1.25/δ) d²k/(n²ε²) + d/(nm)) + R²k/m, with the budget of the T rounds, R = ``noise``, and Λ
    and λ = σ the singular values of the matrix of heads over √n. Γ is ``largest_head``; None means √k + √(2 log n), which n
    heads ~ N(0, I) hardly exceed. The theorem's Õ hides T log(1/δ); its constant is that of the experiments.

    >>> fedrep_risk(20_000, 10, 50, 2, 8.0, 1e-6, 0.01) < fedrep_risk(20_000, 10, 50, 2, 1.0, 1e-6, 0.01)
    True
    """
    _check(n_users, rows_per_user, n_features, rank, epsilon)
    n, m, d, k = n_users, rows_per_user, n_features, rank
    gamma = math.sqrt(k) + math.sqrt(2 * math.log(n)) if largest_head is None else largest_head
    heads = (noise**2 + gamma**2) * gamma**4 * largest_singular**2 / smallest_singular**6
    privacy = 16 * n_rounds * math.log(1.25 / delta) * d**2 * k / (n * epsilon) ** 2
    return heads * (privacy + d / (n * m)) + noise**2 * k / m


def head_risk(missed: float, rows: int, rank: int, noise: float) -> float:
    """What a least-squares head on a given embedding costs a person, exactly, for rows ~ N(0, I): P2's Lemma 35 made good.

    missed² + (missed² + R²) k/(m − k − 1), where ``missed`` is ‖(I − UUᵀ) U* v*‖, the part of her coefficients that the
    embedding U does not have, and R = ``noise``. The lemma's proof takes (Uᵀ XᵀX U)⁻¹ Uᵀ XᵀX for Uᵀ, which holds on the span of
    U only: what the embedding misses is noise to the head, too. So it counts more than once, and the labels' noise is divided
    by m − k − 1 in place of m. For m ≤ k + 1 the expectation is infinite.

    >>> head_risk(0.1, 5, 2, 0.0) / 0.1**2  # the experiments' five rows: twice what Lemma 35 has
    2.0
    """
    if not rows > rank + 1 > 1:
        raise InputError(f"rank >= 1 and rows > rank + 1 are needed, got rank={rank}, rows={rows}.")
    return missed**2 + (missed**2 + noise**2) * rank / (rows - rank - 1)


def margin_risk(
    n_users: int,
    rows_per_user: int,
    rank: int,
    epsilon: float,
    margin: float,
    *,
    row_bound: float = 1.0,
    head_bound: float = 1.0,
) -> float:
    """P2's Theorem 17: what Algorithm 3's share of errors exceeds the smallest margin loss by, whatever the number of features.

    r²Γ²k/(nερ²) + rΓ/(ρ√m): Lemma 16's term, and √(k'/m) for k' = (rΓ/ρ)²; r and Γ are ``row_bound`` and ``head_bound``, ρ is
    ``margin``.

    >>> margin_risk(1_000, 3, 1, 1.0, 0.3) > 1  # three rows: nothing is promised
    True
    """
    _check(n_users, rows_per_user, rank, rank, epsilon)
    if not margin > 0:
        raise InputError(f"margin must be a number > 0, got {margin}.")
    projected = (row_bound * head_bound / margin) ** 2
    return projected * rank / (n_users * epsilon) + math.sqrt(projected / rows_per_user)


def exponential_risk(
    n_users: int, rows_per_user: int, n_features: int, rank: int, epsilon: float, head_bound: float, slope: float = 1.0
) -> float:
    """P1's Theorem 5.2: excess population risk of Algorithm 4, ξC (k d^1.5/(εn) + √(k/m)).

    C is ``head_bound``, and ξ the ``slope`` of the loss.
    """
    _check(n_users, rows_per_user, n_features, rank, epsilon)
    net = rank * n_features**1.5 / (epsilon * n_users)
    return slope * head_bound * (net + math.sqrt(rank / rows_per_user))


def owners_risk(
    n_owners: int,
    records: int,
    n_shared: int,
    epsilon: float,
    delta: float,
    *,
    personal_diameter: float = 1.0,
    shared_diameter: float = 1.0,
    lipschitz: float = 1.0,
    users: int | None = None,
    as_printed: bool = False,
) -> float:
    """P4's Theorem 3.1: population loss of Algorithm 1, RL (1/√(mn) + √(ℓ log(1/δ))/(εn)), R² = nD_x² + D_u².

    n owners have m ``records`` each; ℓ parameters are shared; D_x, D_u and L are ``personal_diameter``, ``shared_diameter`` and
    ``lipschitz``. With ``as_printed`` the second term is divided by m, as printed for records, or, given r ``users`` of an
    owner, by r, with log(m/rδ) (and Theorem 1.1); with that noise the guarantee does not hold.

    >>> owners_risk(50, 20, 10, 1.0, 1e-5) > 1  # what predicting nothing at all may cost: no promise
    True
    """
    _check_owners(n_owners, records, n_shared, epsilon)
    apart = records if users is None else users
    if not 1 <= apart <= records:
        raise InputError(f"users must be a number from 1 to records = {records}, got {users}.")
    radius = math.sqrt(n_owners * personal_diameter**2 + shared_diameter**2)
    drawn = n_owners * (apart if as_printed else 1)
    logarithm = math.log(records / apart / delta) if as_printed else math.log(1 / delta)
    noise = math.sqrt(n_shared * logarithm) / (epsilon * drawn)
    return radius * lipschitz * (1 / math.sqrt(records * n_owners) + noise)


def owners_smooth_risk(
    n_owners: int,
    records: int,
    users: int,
    n_shared: int,
    epsilon: float,
    *,
    personal_diameter: float = 1.0,
    shared_diameter: float = 1.0,
    lipschitz: float = 1.0,
    as_printed: bool = False,
) -> float:
    """P4's Theorem B.1: population loss of Algorithm 2 for smooth losses, RL (1/√(mn) + ℓ/(ε√(nmr))), R² = nD_x² + D_u².

    Symbols are those of ``owners_risk``; ε is a user's. With ``as_printed`` n stands in place of √n in the second term: with
    that noise the guarantee does not hold (``audit/whole_owners.py``).
    """
    _check_owners(n_owners, records, n_shared, epsilon)
    if not 1 <= users <= records:
        raise InputError(f"users must be a number from 1 to records = {records}, got {users}.")
    radius = math.sqrt(n_owners * personal_diameter**2 + shared_diameter**2)
    drawn = n_owners if as_printed else math.sqrt(n_owners)
    noise = n_shared / (epsilon * drawn * math.sqrt(records * users))
    return radius * lipschitz * (1 / math.sqrt(records * n_owners) + noise)


def owners_alone_risk(
    records: int, *, personal_diameter: float = 1.0, shared_diameter: float = 1.0, lipschitz: float = 1.0
) -> float:
    """P4, section 3.2 and appendix A.1: an owner by itself, L (D_x + D_u)/√m, with the symbols of ``owners_risk``."""
    _check_owners(1, records, 1, 1.0)
    return lipschitz * (personal_diameter + shared_diameter) / math.sqrt(records)


def owners_full_risk(
    n_owners: int,
    records: int,
    n_personal: int,
    n_shared: int,
    epsilon: float,
    delta: float,
    *,
    personal_diameter: float = 1.0,
    shared_diameter: float = 1.0,
    lipschitz: float = 1.0,
) -> float:
    """P4, section 3.2 and appendix A.3: everything published, every x_j too, as ``owners_risk`` with nk + ℓ noised numbers.

    ``n_personal`` is k, the other symbols are those of ``owners_risk``. At the level of records, as printed: with every x_j
    noised, a record steers later gradients through released numbers only, so noise of this order holds. ``epsilon=math.inf`` is
    A.2's bound without privacy.

    Examples
    --------
    >>> owners_full_risk(50, 20, 10, 10, 1.0, 1e-5) > owners_risk(50, 20, 10, 1.0, 1e-5, as_printed=True)
    True
    """
    _check_owners(n_owners, records, n_shared, epsilon)
    radius = math.sqrt(n_owners * personal_diameter**2 + shared_diameter**2)
    noise = math.sqrt((n_owners * n_personal + n_shared) * math.log(1 / delta)) / (epsilon * n_owners * records)
    return radius * lipschitz * (1 / math.sqrt(records * n_owners) + noise)


def coefficient_error_bound(
    true_norm: float,
    smallest_eigenvalue: float,
    epsilons: Sequence[float] | np.ndarray,
    alpha: float,
    d: int,
    label_noise: float,
    failure: float,
    coefficient_bound: float | None = None,
) -> float:
    """P3's Theorem 2.5: with probability 1 − ``failure``, PDP-OP's ‖θ̂ − θ*‖ is at most this.

    ``smallest_eigenvalue`` is that of Σ w_i x_i x_iᵀ, w_i = ε_i/Σε; labels are θ*ᵀx plus normal noise of standard deviation
    ``label_noise``. The three terms: the ridge's bias, the privacy noise, the labels' noise.
    """
    epsilons = np.asarray(epsilons, dtype=np.float64)
    printed = min(1.0 / math.sqrt(alpha), math.sqrt(d) / alpha)  # B(λ)
    radius = printed if coefficient_bound is None else coefficient_bound
    rate = alpha * epsilons.sum() / (2 * math.sqrt(d) * (1 + math.sqrt(d) * radius))
    weights = epsilons / epsilons.sum()
    bias = true_norm / (1 + smallest_eigenvalue / alpha)
    privacy = (d + math.sqrt(2 * d / failure)) / rate
    labels = label_noise / alpha * math.sqrt(2 * d / failure) * float(np.linalg.norm(weights))
    return bias + privacy + labels


def _check(n: int, m: int, d: int, k: int, epsilon: float) -> None:
    if not (min(n, m) >= 1 and 1 <= k <= d and epsilon > 0):
        raise InputError(
            f"n, m >= 1, 1 <= k <= d and epsilon > 0 are needed, got n={n}, m={m}, d={d}, k={k}, ε={epsilon}."
        )


def _check_owners(n: int, m: int, shared: int, epsilon: float) -> None:
    if min(n, m, shared) < 1 or not epsilon > 0:
        raise InputError(f"numbers must be at least 1 and epsilon > 0, got {n}, {m}, {shared}, {epsilon}.")
