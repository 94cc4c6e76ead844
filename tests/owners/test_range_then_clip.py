"""P4's Algorithm 2 nearly as written: bounded parts, a mean that is right, a budget that is kept."""

from typing import Any

import numpy as np
import pytest

import commonground as cg
from commonground.accounting.sampled import epsilon_of_steps
from commonground.errors import InputError
from commonground.gate import SampledReleases
from commonground.owners.range_then_clip import binned, mean_in_range


def users(n_owners: int = 6, each: int = 40, rows: int = 8, d: int = 4, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    owner, user = np.repeat(np.arange(n_owners), each * rows), np.repeat(np.arange(n_owners * each), rows)
    X = rng.standard_normal((len(owner), d)) / np.sqrt(d)
    y = X @ np.linspace(1.0, -1.0, d) + 0.1 * rng.standard_normal(len(owner))
    return {"X": X, "y": y, "owners": owner, "users": user}


def fitted(**changed: Any) -> cg.JointSGDRegressor:
    settings: dict[str, Any] = {
        "epsilon": 4.0, "delta": 1e-5, "unit": "user", "aggregator": "range-then-clip", "records_per_user": 8, "steps": 60,
        "fit_intercept": False, "radius": 3.0, "simulation_seed": 0,
    }  # fmt: skip
    return cg.JointSGDRegressor(**{**settings, **changed})


def test_a_users_part_is_bounded_whoever_she_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    strange = [1e300, -1e300, np.inf, np.nan, 1e-320, 0.0]
    for values in [
        *rng.standard_normal((30, 5)) * 10.0 ** rng.integers(-3, 4, (30, 1)),
        *(np.full(5, value) for value in strange),
    ]:
        part = binned(np.asarray(values, float).reshape(1, -1), 1.0, 0.15, 7)
        assert np.linalg.norm(part) <= np.sqrt(2 * part.shape[1]) * (1 + 1e-12)
        assert part[0].sum() == part.shape[1]
    both = binned(np.array([[0.2, -0.4], [0.1, 0.3]]), 1.0, 0.15, 7)
    apart = [binned(np.array([row]), 1.0, 0.15, 7) for row in ([0.2, -0.4], [0.1, 0.3])]
    np.testing.assert_allclose(both, apart[0] + apart[1])


def test_without_noise_the_mean_of_those_who_lie_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.array([0.31, -0.22, 0.05]) + 0.03 * rng.standard_normal((200, 3))
    width, bins = 0.1, 10
    middles = width * (2 * np.arange(bins) + 1 - bins)
    counts, offsets = binned(values, 1.0, width, bins)
    np.testing.assert_allclose(mean_in_range(counts, offsets, middles, width, 0.0), values.mean(axis=0), atol=1e-9)
    nobody = np.zeros((3, bins))
    np.testing.assert_array_equal(mean_in_range(nobody, nobody, middles, width, 1.0), 0.0)


def test_it_learns_and_keeps_its_budget() -> None:
    data = users(n_owners=6, each=150)
    model = fitted(steps=200, learning_rate=2.0).fit(**data)
    truth = np.linspace(1.0, -1.0, 4)
    found = model.billboard_.arrays["coefficients"].ravel()
    assert ((found - truth) ** 2).sum() < 0.3 * (truth**2).sum()
    (event,) = model.billboard_.statement.events
    assert (event.sampling_probability, event.steps, event.unit) == (pytest.approx(1 / 6), 200, "user")
    cost = epsilon_of_steps({(event.sampling_probability, event.noise_multiplier, event.relation, 1): 200}, 1e-5)
    assert cost <= 4.0


def test_what_passes_the_gate_moves_by_at_most_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user is replaced by a huge one: every step's sum moves by at most the two contributions that are paid for."""
    seen: list[np.ndarray] = []
    release = SampledReleases.release

    def watch(self: SampledReleases, bounded: Any) -> np.ndarray:
        seen.append(bounded.value.copy())
        return release(self, bounded) * 0.0  # nothing is learned: both runs stay side by side

    monkeypatch.setattr(SampledReleases, "release", watch)
    data = users(n_owners=2, each=5)
    fitted(steps=12).fit(**data)
    before, seen[:] = list(seen), []
    data["y"] = data["y"].copy()
    data["y"][:8] = 1e9
    fitted(steps=12).fit(**data)
    moved = [float(np.linalg.norm(a - b)) for a, b in zip(before, seen, strict=True)]
    assert 0.0 < max(moved) <= 2.0 * (1 + 1e-9)
    most = max(float(np.linalg.norm(a)) for a in before)
    assert most <= 10 * (1 + 1e-9), "ten users, each of norm at most one"


def test_what_it_needs() -> None:
    with pytest.raises(InputError, match="needs records_per_user"):
        fitted(records_per_user=None).fit(**users())
    with pytest.raises(InputError, match="users' mean gradients"):
        fitted(unit="record").fit(**users())
    with pytest.raises(InputError, match="recipe='paper' is Algorithm 1"):
        fitted(recipe="paper").fit(**users())


def test_single_steps_bring_owners_something() -> None:
    """recipe="paper", 300 owners of 10 rows, ε = 4: what owners fit towards u is better than what they fit alone."""
    rng = np.random.default_rng(0)
    n, rows, d = 300, 10, 5
    owner = np.repeat(np.arange(n), 2 * rows)
    X = rng.standard_normal((len(owner), d)) / np.sqrt(d)
    theta = np.linspace(1.0, -1.0, d) + 0.05 * rng.standard_normal((n, d))
    y = (X * theta[owner]).sum(axis=1) + 0.3 * rng.standard_normal(len(owner))
    train = np.tile(np.arange(2 * rows) < rows, n)
    model = cg.JointSGDRegressor(
        4.0, 1e-5, recipe="paper", fit_intercept=False, steps=2000, radius=3.0, simulation_seed=0
    )
    model.fit(X[train], y[train], owner[train])
    alone = cg.OwnDataOnly(fit_intercept=False).fit(X[train], y[train], users=owner[train])
    errors = [
        float(((guess - y[~train]) ** 2).mean())
        for guess in (model.predict(X[~train], owner[~train]), alone.predict(X[~train], users=owner[~train]))
    ]
    assert errors[0] < 0.95 * errors[1]
