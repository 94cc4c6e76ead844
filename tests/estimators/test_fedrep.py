"""Private FedRep: the frontier in small, the paper's recipe where its setting is possible, and its spending."""

import numpy as np
import pytest

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.gaussian import compose
from commonground.denoise.shrinkage import signal_share
from commonground.errors import BudgetError, RecipeWarning
from commonground.ledger import InMemoryLedger


def ratio_to_floor(n: int, epsilon: float, seed: int, rank: int = 2, rows: int = 10, d: int = 50) -> float:
    users, truth = cg.datasets.make_shared_subspace(n, rows, d, rank, seed=seed)
    model = cg.PrivateFedRep(rank, epsilon, fit_intercept=False, shared_mean=False, simulation_seed=seed)
    board = model.fit(users).billboard_
    return cg.metrics.population_mse(board, users, truth) / cg.metrics.population_mse(truth.embedding, users, truth)


@pytest.mark.parametrize(
    ("n", "epsilon", "rank", "rows", "target"),
    [
        (20_000, 1.0, 2, 10, 1.005),
        (20_000, 0.1, 2, 10, 1.20),
        (5_000, 1.0, 2, 10, 1.04),
        (2_000, 1.0, 2, 10, 1.4),
        (20_000, 1.0, 5, 10, 1.03),
        (5_000, 1.0, 2, 4, 2.0),
    ],
)
def test_the_frontier_on_two_seeds(n: int, epsilon: float, rank: int, rows: int, target: float) -> None:
    """All seeds are in benchmarks/frontier.py; here a change that loses the frontier is noticed in seconds."""
    assert max(ratio_to_floor(n, epsilon, seed, rank, rows) for seed in (101, 102)) <= target


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e5])
def test_any_common_scale_of_features_and_labels(scale: float) -> None:
    users, truth = cg.datasets.make_shared_subspace(3000, n_features=20, seed=3)
    block = next(users.blocks(max_bytes=2**40))
    rescaled = cg.Users.from_arrays(block.X * scale, block.y * scale**2, np.repeat(users.ids, 10))
    model = cg.PrivateFedRep(2, 1.0, fit_intercept=False, shared_mean=False, simulation_seed=1).fit(rescaled)
    assert cg.metrics.subspace_distance(model.billboard_.embedding, truth.embedding) < 0.01


def population_with_mean(seed: int) -> tuple[cg.Users, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    n, d, m = 6000, 20, 12
    U, w = np.linalg.qr(rng.standard_normal((d, 2)))[0], rng.standard_normal(d)
    heads, own = rng.standard_normal((n, 2)), rng.standard_normal(n)
    ids = np.repeat(np.arange(n), m)
    X = rng.standard_normal((n * m, d)) + 0.5
    y = ((X @ U) * heads[ids]).sum(axis=1) + X @ w + 3.0 + own[ids] + 0.1 * rng.standard_normal(n * m)
    test = np.arange(n * m) % m == 0
    return cg.Users.from_arrays(X[~test], y[~test], ids[~test]), X[test], y[test], ids[test]


def test_shared_mean_and_own_intercepts() -> None:
    """With defaults: nearly as good as without privacy, and newcomers without rows get the shared prediction."""
    users, X, y, ids = population_with_mean(0)
    private = cg.PrivateFedRep(2, 1.0, simulation_seed=0).fit(users)
    without = cg.NonPrivateFedRep(2).fit(users)
    errors = [float(np.mean((model.predict(X, users=ids) - y) ** 2)) for model in (private, without)]
    assert errors[0] < 1.1 * errors[1] < 0.03
    shared = np.mean((private.billboard_.predict(X) - y) ** 2)
    assert shared < 1.2 * np.mean((without.billboard_.predict(X) - y) ** 2)


def test_single_model_finds_the_mean() -> None:
    users, X, y, _ = population_with_mean(1)
    model = cg.SingleModel(1.0, simulation_seed=0).fit(users)
    pooled = cg.OwnDataOnly("pooled").fit(users)
    assert np.mean((model.predict(X) - y) ** 2) < 1.1 * np.mean((pooled.billboard_.predict(X) - y) ** 2)


def test_more_budget_is_not_worse() -> None:
    assert ratio_to_floor(2000, 4.0, 7, d=30) < ratio_to_floor(2000, 0.25, 7, d=30)


def test_non_private_fedrep_reaches_the_floor() -> None:
    users, truth = cg.datasets.make_shared_subspace(2000, (2, 30), n_features=20, seed=5)
    board = cg.NonPrivateFedRep(2, fit_intercept=False, shared_mean=False).fit(users).billboard_
    floor = cg.metrics.population_mse(truth.embedding, users, truth)
    assert cg.metrics.population_mse(board, users, truth) < 1.02 * floor


def test_paper_recipe_where_its_setting_is_possible() -> None:
    """With 40 rows each, b = m/2T = 4 >= k, a step within Lemma 9's reach and a generous budget, Algorithm 1 converges."""
    users, truth = cg.datasets.make_shared_subspace(5000, 40, n_features=20, seed=0)
    settings = cg.PaperSettings(learning_rate=1.0, rows_per_user=40)
    model = cg.PrivateFedRep(2, 50.0, recipe="paper", simulation_seed=0, paper_settings=settings).fit(users)
    assert cg.metrics.subspace_distance(model.billboard_.embedding, truth.embedding) < 0.1
    assert model.billboard_.mean is None


def test_paper_recipe_learns_at_the_papers_own_setting() -> None:
    """10 rows each, b raised to 2: it is the rate that decides. Nothing but η differs."""
    users, truth = cg.datasets.make_shared_subspace(10_000, 10, n_features=20, seed=0)
    distances = {}
    for rate in (0.5, 2.5):  # Theorem 10's, and the one that is printed with the experiments
        settings = cg.PaperSettings(learning_rate=rate)
        with pytest.warns(RecipeWarning):
            model = cg.PrivateFedRep(2, 8.0, recipe="paper", simulation_seed=0, paper_settings=settings).fit(users)
        distances[rate] = cg.metrics.subspace_distance(model.billboard_.embedding, truth.embedding)
    assert distances[0.5] < 0.15
    assert distances[2.5] > 0.5
    assert cg.PaperSettings().learning_rate == 0.5


def test_paper_recipe_says_what_is_impossible() -> None:
    users, _ = cg.datasets.make_shared_subspace(500, 10, n_features=10, seed=0)
    with pytest.warns(RecipeWarning, match=r"b = ⌊m/2T⌋ = 1 rows .* using b = 2"):
        model = cg.PrivateFedRep(2, 1.0, recipe="paper", simulation_seed=0).fit(users)
    events = model.billboard_.statement.events
    assert [event.sensitivity for event in events] == pytest.approx([2 * 10.0] + [2 * 10.0] * 5, rel=1e-6)
    assert model.billboard_.statement.epsilon_spent <= 1.0


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0, 100.0, 10_000.0])
def test_paper_noise_is_printed_or_larger(epsilon: float) -> None:
    users, _ = cg.datasets.make_shared_subspace(300, 40, n_features=6, seed=0)
    settings = cg.PaperSettings(rows_per_user=40)
    model = cg.PrivateFedRep(2, epsilon, recipe="paper", simulation_seed=0, paper_settings=settings).fit(users)
    events = model.billboard_.statement.events
    half_epsilon, half_delta = epsilon / 2, 0.5e-6
    assert events[0].noise_std >= 2 * 6.0 * np.sqrt(2 * np.log(1.25 / half_delta)) / half_epsilon
    assert events[1].noise_std >= 2 * 10.0 * np.sqrt(16 * 5 * np.log(1.25 / half_delta)) / half_epsilon
    assert model.billboard_.statement.epsilon_spent <= epsilon


def test_everything_released_is_charged_and_nothing_more() -> None:
    users, _ = cg.datasets.make_shared_subspace(400, n_features=8, seed=0)
    book = InMemoryLedger(Budget(3.0, 1e-6))
    model = cg.PrivateFedRep(2, 3.0, simulation_seed=0).fit(users, ledger=book)
    assert model.billboard_.statement.events == book.events
    assert compose(event.mu for event in book.events) == pytest.approx(Budget(3.0, 1e-6).mu, rel=1e-6)
    with pytest.raises(BudgetError):  # the same people again: the budget is gone
        cg.PrivateFedRep(2, 3.0, simulation_seed=1).fit(users, ledger=book)


def test_what_is_released_does_not_depend_on_the_data() -> None:
    """Number, names, shapes and costs of the releases are the same for neighbours; only values and clips differ."""
    users, _ = cg.datasets.make_shared_subspace(300, n_features=8, seed=0)
    block = next(users.blocks())
    X, y = block.X.copy(), block.y.copy()
    X[:10], y[:10] = 1e6, -1e6
    neighbour = cg.Users.from_arrays(X, y, np.repeat(np.arange(300), 10))
    shapes = [
        [(e.name, e.mu, e.entries) for e in cg.PrivateFedRep(2, simulation_seed=0).fit(u).billboard_.statement.events]
        for u in (users, neighbour)
    ]
    assert shapes[0] == shapes[1]


def test_stein_shrinkage_estimates_the_signal() -> None:
    """Averaged over draws, the share of signal is close to ‖g‖²/(‖g‖² + p σ²)."""
    rng = np.random.default_rng(0)
    p, signal, sigma = 96, 20.0, 1.0
    g = np.zeros(p)
    g[0] = signal
    shares = [signal_share(g + sigma * rng.standard_normal(p), sigma, p) for _ in range(2000)]
    assert np.mean(shares) == pytest.approx(signal**2 / (signal**2 + p * sigma**2), abs=0.01)


def test_block_size_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    users, _ = cg.datasets.make_shared_subspace(3000, (1, 20), n_features=8, seed=0)
    whole = cg.PrivateFedRep(2, 2.0, simulation_seed=0).fit(users).billboard_.embedding
    blocks = cg.Users.blocks
    monkeypatch.setattr(cg.Users, "blocks", lambda self, max_bytes=0: blocks(self, 2**16))
    assert len(list(users.blocks())) > 10
    in_blocks = cg.PrivateFedRep(2, 2.0, simulation_seed=0).fit(users).billboard_.embedding
    np.testing.assert_allclose(in_blocks, whole, atol=1e-6)
