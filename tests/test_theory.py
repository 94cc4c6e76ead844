"""Bounds that can be computed: simulations lie below them, and they grow as the theorems say."""

import warnings

import numpy as np
import pytest

import commonground as cg
from commonground.errors import InputError, RecipeWarning
from commonground.reproduce.rates import fitted_exponent
from commonground.theory import altmin_risk, exponential_risk, fedrep_risk, owners_risk

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
