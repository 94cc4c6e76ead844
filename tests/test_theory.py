"""Bounds that can be computed: simulations lie below them, and they grow as the theorems say."""

import warnings

import numpy as np
import pytest

import commonground as cg
from commonground.errors import InputError, RecipeWarning
from commonground.reproduce.rates import fitted_exponent
from commonground.theory import (
    altmin_risk,
    exponential_risk,
    fedrep_risk,
    head_risk,
    margin_risk,
    owners_alone_risk,
    owners_full_risk,
    owners_risk,
    owners_smooth_risk,
)

N, M, D, K, EPSILON, DELTA, NOISE = 6_000, 20, 15, 2, 8.0, 1e-6, 0.01


@pytest.fixture(scope="module")
def people() -> tuple[cg.Users, cg.datasets.Truth]:
    return cg.datasets.make_shared_subspace(N, M, D, K, NOISE, seed=0)


def excess(model: cg.PrivateFedRep | cg.PrivateAltMin, users: cg.Users, truth: cg.datasets.Truth) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecipeWarning)
        board = model.fit(users).billboard_
    return cg.metrics.population_mse(board, users, truth) - truth.noise**2


def test_priv_altmin_lies_below_theorem_4_2(people: tuple[cg.Users, cg.datasets.Truth]) -> None:
    settings = cg.AltMinSettings(5, rows_per_user=M)
    model = cg.PrivateAltMin(K, EPSILON, DELTA, recipe="paper", simulation_seed=0, paper_settings=settings)
    found, bound = excess(model, *people), altmin_risk(N, M, D, K, EPSILON, DELTA, NOISE)
    assert 0 < found < bound


def test_private_fedrep_lies_below_theorem_10_and_new_people_below_corollary_11(
    people: tuple[cg.Users, cg.datasets.Truth],
) -> None:
    """Corollary 11: somebody who was not in training and has the same embedding; her risk is that of members."""
    users, truth = people
    settings = cg.PaperSettings(rows_per_user=M)
    model = cg.PrivateFedRep(K, EPSILON, DELTA, recipe="paper", simulation_seed=0, paper_settings=settings)
    members = excess(model, users, truth)
    bound = fedrep_risk(N, M, D, K, EPSILON / 2, DELTA / 2, NOISE)  # half of the budget is the rounds'
    assert 0 < members < bound
    rng, risks = np.random.default_rng(1), []
    for _ in range(500):
        theta = truth.embedding @ rng.standard_normal(K)
        X = rng.standard_normal((M, D))
        head = model.billboard_.personalize(X, X @ theta + NOISE * rng.standard_normal(M))
        origin = head.predict(np.zeros((1, D)))
        risks.append(float(((head.predict(np.eye(D)) - origin - theta) ** 2).sum() + origin @ origin))
    assert np.mean(risks) < bound
    assert np.mean(risks) == pytest.approx(members, rel=0.5)


def test_how_they_grow() -> None:
    ns = np.array([1e5, 2e5, 4e5])
    for risk in (altmin_risk, fedrep_risk):
        values = [
            risk(int(n), 10, 50, 2, 1.0, 1e-6, 0.0, **({"largest_head": 3.0} if risk is fedrep_risk else {}))
            for n in ns
        ]
        slope, _ = fitted_exponent(ns, np.array(values))
        assert -2.001 < slope < -1.5
    assert exponential_risk(1000, 10, 5, 1, 1.0, 1.0) > exponential_risk(2000, 10, 5, 1, 1.0, 1.0)
    with pytest.raises(InputError, match="1 <= k <= d"):
        altmin_risk(10, 10, 5, 6, 1.0, 1e-6, 0.1)


def test_what_p4_promises() -> None:
    """With noise that holds, nothing for 50 owners; with thousands of owners and small personal parts, something."""
    alone = 1.0 / np.sqrt(20)  # L D / √m, what an owner reaches by itself
    assert owners_risk(50, 20, 10, 1.0, 1e-5) > 1.0 > alone
    assert owners_risk(5_000, 20, 10, 1.0, 1e-5, personal_diameter=0.005) < alone
    assert owners_risk(50, 20, 10, 1.0, 1e-5, as_printed=True) < owners_risk(50, 20, 10, 1.0, 1e-5)
    with pytest.raises(InputError, match="epsilon > 0"):
        owners_risk(50, 20, 10, 0.0, 1e-5)


def test_p2s_lemma_35_counts_what_is_missed_once_and_least_squares_more_often() -> None:
    """Five rows, as the experiments leave for a head, k = 2: twice; 20,000 heads, so 10 % is ten standard errors."""
    rng, rows, d = np.random.default_rng(0), 5, 6
    for missed, noise in ((0.3, 0.0), (0.0, 0.5), (0.3, 0.5)):
        risks = []
        for _ in range(20_000):
            X = rng.standard_normal((rows, d))
            theta = np.array([1.0, -1.0, missed, 0.0, 0.0, 0.0])  # U is the first two coordinates
            head = np.linalg.lstsq(X[:, :2], X @ theta + noise * rng.standard_normal(rows), rcond=None)[0]
            risks.append(float(((head - theta[:2]) ** 2).sum() + missed**2))
        # Its mean is heavy-tailed at m = k + 3: the mean of the middle 99.9 % and a wide band
        found = float(np.mean(np.sort(risks)[:-20]))
        assert found == pytest.approx(head_risk(missed, rows, 2, noise), rel=0.15)
        printed = missed**2 + noise**2 * 2 / rows
        assert found > 1.5 * printed
    assert head_risk(0.3, 1_000, 2, 0.5) == pytest.approx(0.09 + 0.25 * 2 / 1_000, rel=0.01), (
        "with many rows it is the lemma"
    )
    with pytest.raises(InputError, match=r"rows > rank \+ 1"):
        head_risk(0.3, 3, 2, 0.5)


def test_what_p2_cites_holds_within() -> None:
    """Corollary 27 (with Theorem 26) at α = 4, where it fails once in 1,500; Theorem 37, Davis and Kahan's, which never fails."""
    rng = np.random.default_rng(0)
    for a, b in ((50, 2), (200, 20)):
        singular = np.linalg.svd(0.3 * rng.standard_normal((a, b)), compute_uv=False)
        assert 0.3 * (np.sqrt(a) - np.sqrt(b) - 4) <= singular.min()
        assert singular.max() <= 0.3 * (np.sqrt(a) + np.sqrt(b) + 4)
    for size in (0.01, 0.1, 0.3):
        U = np.linalg.qr(rng.standard_normal((20, 3)))[0]
        M, E = U @ np.diag([3.0, 2.0, 1.0]) @ U.T, size * rng.standard_normal((20, 20))
        E = (E + E.T) / 2
        found = np.linalg.eigh(M + E)[1][:, -3:]
        distance = np.linalg.norm(found - U @ (U.T @ found), 2)
        assert distance <= 2 * np.linalg.norm(E, 2) / 1.0  # λ_k − λ_{k+1} = 1


def test_algorithm_3_of_p2_lies_below_theorem_17() -> None:
    """Separable people, so the smallest margin loss is zero: the share of errors is what the theorem bounds."""
    n, m, margin = 300, 40, 0.6
    users = cg.datasets.make_margin_classes(n, m + 20, n_features=20, margin=margin, seed=1)
    X, y = (np.stack(list(parts)) for parts in zip(*map(users.rows_of, range(n)), strict=True))
    train = cg.Users.from_arrays(X[:, :m].reshape(n * m, -1), y[:, :m].ravel(), np.repeat(np.arange(n), m))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecipeWarning)
        model = cg.PrivateMarginClassifier(1, 4.0, margin=margin / 2, recipe="paper", simulation_seed=0).fit(train)
    wrong = 1 - model.score(X[:, m:].reshape(n * 20, -1), y[:, m:].ravel(), users=np.repeat(np.arange(n), 20))
    bound = margin_risk(n, m, 1, 4.0, margin / 2)
    assert bound < 0.6, "half of all errors is what guessing has: the bound should say something"
    assert 0 <= wrong < bound
    assert margin_risk(2 * n, m, 1, 4.0, margin) < margin_risk(n, m, 1, 4.0, margin)
    with pytest.raises(InputError, match="margin must be"):
        margin_risk(n, m, 1, 4.0, 0.0)


def test_p1s_two_bounds_cross_where_section_5_says() -> None:
    """Privacy terms, C = √k: Theorem 4.2 is the smaller from n of order k³·⁵ d¹·⁵ / ε on. Of rows both need k²."""
    many, constant = 10**15, 16 * np.log(1e6)  # rows; Theorem 4.2's constant, which section 5 leaves out

    def crossing(d: int, k: int, epsilon: float) -> float:
        low, high = 1.0, 1e12
        while high / low > 1.001:
            n = int(np.sqrt(low * high))
            smaller = altmin_risk(n, many, d, k, epsilon, 1e-6, 0.0) / constant < exponential_risk(
                n, many, d, k, epsilon, np.sqrt(k)
            )
            low, high = (low, float(n)) if smaller else (float(n), high)
        return high

    for d, k, epsilon in ((50, 2, 1.0), (50, 8, 1.0), (200, 2, 1.0), (50, 2, 0.1)):
        assert crossing(d, k, epsilon) == pytest.approx(k**3.5 * d**1.5 / epsilon, rel=0.02)
    rows = exponential_risk(10**15, 16, 5, 4, 1.0, 2.0)
    assert rows == pytest.approx(1.0, rel=0.01), "C √(k/m) = 1 for m = k²: no fewer rows than Theorem 4.2 asks for"


def test_both_papers_bounds_are_a_factor_dk_apart_for_the_same_heads() -> None:
    """P2's section 3.3: privacy terms Γ⁶k²d³ and Γ⁶kd² over ε²n², up to the noise's constants."""
    many = 10**15

    def ratio(d: int, k: int) -> float:
        below = fedrep_risk(10_000, many, d, k, 1.0, 1e-6, 0.0, largest_head=3.0)
        return altmin_risk(10_000, many, d, k, 1.0, 1e-6, 0.0, largest_head=3.0) / below

    assert ratio(80, 2) / ratio(40, 2) == pytest.approx(2.0)
    assert ratio(40, 8) / ratio(40, 2) == pytest.approx(4.0)
    assert altmin_risk(500, 10, 20, 4, 1.0, 1e-6, 0.1) == altmin_risk(500, 10, 20, 4, 1.0, 1e-6, 0.1, largest_head=2.0)


def test_p4s_section_3_2_and_what_is_left_of_it() -> None:
    """Joint DP saves √(nk) against full DP, as printed. To be below 'alone' it needs m times as many owners."""
    sizes = {"personal_diameter": 1e-6, "shared_diameter": 1.0}
    alone = owners_alone_risk(100, **sizes)

    def owners_needed(as_printed: bool) -> int:
        return next(
            n for n in range(2, 10**6) if owners_risk(n, 100, 100, 1.0, 1e-5, as_printed=as_printed, **sizes) < alone
        )

    printed, valid = owners_needed(True), owners_needed(False)
    assert 3 < printed < 10  # √(ℓ log(1/δ)/m)/ε = 3.4, and as much again for 1/√n
    assert valid == pytest.approx(np.sqrt(100 * 100 * np.log(1e5)), rel=0.15)  # √(mℓ log 1/δ)/ε
    full = owners_full_risk(50, 20, 10, 10, 1.0, 1e-5) - owners_full_risk(50, 20, 10, 10, np.inf, 1e-5)
    joint = owners_risk(50, 20, 10, 1.0, 1e-5, as_printed=True) - owners_risk(50, 20, 10, np.inf, 1e-5)
    assert full / joint == pytest.approx(np.sqrt((50 * 10 + 10) / 10))
    # Theorem 1.1, users: 5 of 4 records each; the level of records is that of one record a user
    assert owners_risk(50, 20, 10, 1.0, 1e-5, users=20, as_printed=True) == owners_risk(
        50, 20, 10, 1.0, 1e-5, as_printed=True
    )
    assert owners_risk(50, 20, 10, 1.0, 1e-5, users=5, as_printed=True) > owners_risk(
        50, 20, 10, 1.0, 1e-5, as_printed=True
    )
    # Theorem B.1 divides by √(mr) for r; with noise for its true cost, by √n for n
    printed_smooth, true_smooth = (owners_smooth_risk(100, 50, 10, 4, 1.0, as_printed=b) for b in (True, False))
    first = owners_smooth_risk(100, 50, 10, 4, np.inf)
    assert (true_smooth - first) / (printed_smooth - first) == pytest.approx(10.0)
    with pytest.raises(InputError, match="users must be"):
        owners_smooth_risk(10, 5, 6, 4, 1.0)
    with pytest.raises(InputError, match="users must be"):
        owners_risk(10, 5, 6, 1.0, 1e-5, users=0)
