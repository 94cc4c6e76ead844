"""The papers' lemmas on the way to their theorems, measured: distances of subspaces, norms of gradients (P1, P2).

Lemmas hide constants and logarithms; here constants are one and logarithms are left out, so a measured number below is what is
expected, and the exponents are what can be compared. Noise is simulated.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.clipping.sums import from_symmetric_half
from commonground.data.users import Users
from commonground.datasets.synthetic import Truth, make_shared_subspace
from commonground.errors import RecipeWarning
from commonground.estimators.exponential_subspace import ExponentialSubspace
from commonground.gate import Gate, randomness_from
from commonground.ledger import InMemoryLedger
from commonground.progress import progress_bar
from commonground.reproduce.rates import ALTMIN, DELTA, FEDREP, METHODS, Point, bound_of, fitted_exponent
from commonground.reproduce.results import Claim, Outcome, PaperResult, Row
from commonground.statistics.paper.altmin import NormalisedPairs
from commonground.statistics.paper.fedrep import BatchGradients, Pairs
from commonground.theory import exponential_risk

LABEL_NOISE = 0.01
BASE = Point(n=20_000, d=20, epsilon=8.0)
GRID: dict[str, tuple[float, ...]] = {"n": (10_000, 20_000, 40_000), "epsilon": (4.0, 8.0, 16.0), "d": (10, 20, 40)}


def distance(embedding: np.ndarray, truth: Truth, order: Any) -> float:
    """‖(I − U*U*ᵀ)Û‖, Û with orthonormal columns."""
    U = np.linalg.qr(embedding)[0]
    return float(np.linalg.norm(U - truth.embedding @ (truth.embedding.T @ U), order))


def _gate(point: Point, seed: int) -> Gate:
    return Gate(InMemoryLedger(Budget(point.epsilon, DELTA)), randomness_from(seed))


def altmin_rounds(point: Point, users: Users, truth: Truth, seed: int) -> float:
    """Lemma 4.4: after Algorithms 3 and 2, in Frobenius norm."""
    with warnings.catch_warnings(action="ignore", category=RecipeWarning):
        return distance(METHODS[ALTMIN](point, seed).fit(users).billboard_.embedding, truth, "fro")


def altmin_start(point: Point, users: Users, truth: Truth, seed: int) -> float:
    """Lemma 4.6: after Algorithm 3 alone, with all of the budget and the lemma's noise."""
    mu = min(point.epsilon / math.sqrt(8 * math.log(1 / DELTA)), Budget(point.epsilon, DELTA).mu)
    sums = users.sum(NormalisedPairs(point.m, math.sqrt(point.k)))
    half = _gate(point, seed).release(sums.bounded("start"), mu).value
    return distance(np.linalg.eigh(from_symmetric_half(half, point.d))[1][:, -point.k :], truth, 2)


def fedrep_start(point: Point, users: Users, truth: Truth, seed: int) -> float:
    """Lemma 12: after Algorithm 2 alone, with all of the budget."""
    mu = min(point.epsilon / math.sqrt(2 * math.log(1.25 / DELTA)), Budget(point.epsilon, DELTA).mu)
    Z = _gate(point, seed).release(users.sum(Pairs(float(point.d))).bounded("start"), mu).value
    return distance(np.linalg.svd(Z)[0][:, : point.k], truth, 2)


def fedrep_rounds(point: Point, users: Users, truth: Truth, seed: int) -> float:
    """Lemma 9: after Algorithms 2 and 1 at η = 1/(2Λ²), half of the budget each."""
    with warnings.catch_warnings(action="ignore", category=RecipeWarning):
        return distance(METHODS[FEDREP](point, seed).fit(users).billboard_.embedding, truth, 2)


def largest_gradient(point: Point, users: Users, truth: Truth, seed: int) -> float:
    """Lemma 7: of a thousand people, at an embedding some way off; each as a population of her own."""
    del users, truth  # she is alone in hers
    U = np.linalg.qr(np.random.default_rng([seed, 7]).standard_normal((point.d, point.k)))[0]
    U[:, 0] = (U[:, 0] + np.eye(point.d)[0]) / 2
    asked, sizes = BatchGradients(np.linalg.qr(U)[0], point.m // 4, 0, 1e9), []
    for person in range(1000):
        alone, _ = make_shared_subspace(1, point.m, point.d, point.k, seed=1000 * seed + person)
        sizes.append(float(np.linalg.norm(alone.sum(asked).value)))
    return max(sizes)


def _largest_head(point: Point) -> float:
    return math.sqrt(point.k) + math.sqrt(2 * math.log(point.n))


def _of_altmin_rounds(p: Point) -> float:
    noisy = math.sqrt(8 * math.log(1 / DELTA)) / p.epsilon * (LABEL_NOISE + p.k * math.sqrt(p.d)) * p.k * p.d / p.n
    return noisy + LABEL_NOISE * math.sqrt(p.k * p.d / (p.n * p.m))


def _of_altmin_start(p: Point) -> float:
    size = LABEL_NOISE**2 + p.k
    return size * (math.sqrt(8 * math.log(1 / DELTA)) / p.epsilon * p.d**1.5 / p.n + math.sqrt(p.d / (p.n * p.m)))


def _of_fedrep_start(p: Point) -> float:
    size = LABEL_NOISE**2 + _largest_head(p) ** 2
    noisy = math.sqrt(2 * math.log(1.25 / DELTA)) * size * p.d**1.5 / (p.n * p.epsilon)
    return noisy + math.sqrt(size * _largest_head(p) ** 2 * p.d / (p.n * p.m))


def _of_fedrep_rounds(p: Point) -> float:
    """The square root of Theorem 10's two terms over Γ²; what is left of the start after T rounds is not in it."""
    return math.sqrt(bound_of(FEDREP, p)) / _largest_head(p)


def _of_gradients(p: Point) -> float:
    return (LABEL_NOISE + _largest_head(p)) * _largest_head(p) * math.sqrt(p.d * p.k)


Measure = Callable[[Point, Users, Truth, int], float]
# Exponents of the two terms of each bound: of privacy, and of the people themselves.
_TWO_TERMS = {"n": (-1.0, -0.5), "epsilon": (-1.0, 0.0), "d": (1.5, 0.5)}
LEMMAS: dict[str, tuple[Measure, Callable[[Point], float], dict[str, tuple[float, float]]]] = {
    "P1, Lemma 4.4": (altmin_rounds, _of_altmin_rounds, _TWO_TERMS),
    "P1, Lemma 4.6": (altmin_start, _of_altmin_start, _TWO_TERMS),
    "P2, Lemma 9": (fedrep_rounds, _of_fedrep_rounds, {**_TWO_TERMS, "d": (1.0, 0.5)}),
    "P2, Lemma 12": (fedrep_start, _of_fedrep_start, _TWO_TERMS),
    "P2, Lemma 7": (largest_gradient, _of_gradients, {"d": (0.5, 0.5)}),
}
TOLERANCE = 0.25  # for three values and two seeds


# Theorem 5.2's people: n, d and rows of each (k = 1); how Algorithm 4 scores them, by L_f (None: squared error), and at which ε
EXPONENTIAL = 2_000, 3, 10
PRINTED_CLIP = 40 * math.sqrt(EXPONENTIAL[1]) * math.log(EXPONENTIAL[0] * EXPONENTIAL[2])
SCORES: dict[str, tuple[float | None, tuple[float, ...]]] = {
    "squared error, at most 1": (None, (0.25, 1.0, 4.0)),
    "Huber's loss, L_f = 3": (3.0, (1.0,)),
    f"Huber's loss, the theorem's L_f = {PRINTED_CLIP:.0f}": (PRINTED_CLIP, (1.0,)),
}


def exponential_excess(epsilon: float, seed: int, clip: float | None = None) -> tuple[float, float]:
    """Theorem 5.2: mean |x·(θ̂ − θ)| of Algorithm 4 on a net of width 0.1, which no 1-Lipschitz loss exceeds; and C.

    With ``clip`` the score is Huber's of slope 1, which is 1-Lipschitz as the theorem asks, heads bounded by C = max ‖v_j‖.
    """
    n, d, rows = EXPONENTIAL
    users, truth = make_shared_subspace(n, rows, d, 1, seed=seed)
    bound = float(np.abs(truth.heads).max())
    score: dict[str, Any] = {"loss_bound": 1.0}
    if clip is not None:
        score = {"loss": "huber", "feature_clip": clip, "head_bound": bound, "slope": 1.0}
    with warnings.catch_warnings(action="ignore", category=RecipeWarning):
        model = ExponentialSubspace(
            1, epsilon, recipe="paper", candidates="net", net_width=0.1, simulation_seed=seed, **score
        ).fit(users)
    probes = np.eye(d)
    found = np.column_stack([model.predict(np.tile(row, (n, 1)), users=users.ids) for row in probes])
    away = np.linalg.norm(found - truth.heads @ truth.embedding.T, axis=1)
    return float(math.sqrt(2 / math.pi) * away.mean()), bound


def _exponential_rows() -> tuple[list[Row], Claim]:
    n, d, m = EXPONENTIAL
    rows, worst = [], 0.0
    for label, (clip, epsilons) in SCORES.items():
        for epsilon in epsilons:
            excess, bound = exponential_excess(epsilon, 0, clip)
            promised = exponential_risk(n, m, d, 1, epsilon, bound)
            worst = max(worst, excess / promised)
            note = f"{label}; promised {promised:.2f}, of which √(k/m) is {bound * math.sqrt(1 / m):.2f}"
            rows.append(
                Row(
                    {"lemma": "P1, Theorem 5.2", "exponent of": f"(ε = {epsilon:g}: the risk itself)"},
                    excess,
                    note=note,
                )
            )
    claim = Claim(
        "P1, Theorem 5.2: the risk lies below (constants one, no logarithms), on a net of width 0.1",
        worst < 1,
        f"at most {worst:.2g} of it; but predicting zero, E|x·U*v| = 2/π = {2 / math.pi:.2f}, does, too",
    )
    return rows, claim


def _run(fast: bool, show: bool) -> Outcome:
    base = replace(BASE, n=2_000, d=8) if fast else BASE
    grid = {"n": (2_000.0, 4_000.0)} if fast else GRID
    seeds = range(1 if fast else 2)
    rows: list[Row] = []
    below: dict[str, float] = {}
    exponents: dict[tuple[str, str], float] = {}
    with progress_bar("lemmas", len(LEMMAS), show) as advance:
        for lemma, (measure, bound, printed) in LEMMAS.items():
            for varied, values in grid.items():
                if varied not in printed:
                    continue
                xs, found, ratios = [], [], []
                for value in values:
                    changed: dict[str, Any] = {varied: value if varied == "epsilon" else int(value)}
                    point = replace(base, **changed)
                    for seed in seeds:
                        users, truth = make_shared_subspace(point.n, point.m, point.d, point.k, seed=seed)
                        xs.append(value)
                        found.append(measure(point, users, truth, seed))
                        ratios.append(found[-1] / bound(point))
                slope, error = fitted_exponent(np.array(xs), np.array(found))
                exponents[lemma, varied] = slope
                below[lemma] = max(below.get(lemma, 0.0), *ratios)
                note = f"measured {min(found):.3g} to {max(found):.3g}, at most {max(ratios):.2g} of the bound"
                rows.append(
                    Row({"lemma": lemma, "exponent of": varied}, slope, printed[varied][0], spread=error, note=note)
                )
            advance()
    claims = []
    for lemma, ratio in below.items():
        terms = {varied: sorted(pair) for varied, pair in LEMMAS[lemma][2].items() if varied in grid}
        inside = [
            low - TOLERANCE <= exponents[lemma, varied] <= high + TOLERANCE for varied, (low, high) in terms.items()
        ]
        found_as = ", ".join(
            f"{varied} {exponents[lemma, varied]:.2f} ({low:g} to {high:g})" for varied, (low, high) in terms.items()
        )
        evidence = f"{found_as}; at most {ratio:.2g} of the bound, constants one and no logarithms"
        claims.append(
            Claim(
                f"{lemma}: exponents between those of its two terms, within {TOLERANCE:g}",
                all(inside),
                evidence,
            )
        )
    if not fast:
        found_by_choice, claim = _exponential_rows()
        rows += found_by_choice
        claims.append(claim)
    return Outcome(rows, claims)


RESULT = PaperResult(
    "p2-lemmas",
    "Lemmas 4.4 and 4.6 and Theorem 5.2 of P1, Lemmas 7, 9 and 12 of P2: measured, beside what they promise",
    "Around n = 20,000, m = 40, d = 20, k = 2, ε = 8, label noise 0.01, one at a time, three values each, 2 seeds. Distances are "
    "‖(I − U*U*ᵀ)Û‖; gradients: the largest of 1,000 people. In the column 'printed': exponents of the privacy term (Lemma 7: of "
    "√(dk)). Theorem 5.2: 2,000 people, d = 3, k = 1, m = 10, one seed, mean |x·(θ̂ − θ)|, a net of width 0.1.",
    _run,
    fast="n = 2,000 and 4,000, d = 8, one seed",
)
