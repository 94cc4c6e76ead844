"""Private AltMin: near the floor, also where features are correlated; disjoint groups are paid once; other losses."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.gaussian import compose, gaussian_epsilon
from commonground.audit.gates import Recorder
from commonground.audit.neighbours import TARGET, neighbours
from commonground.audit.replay import evidence, record
from commonground.datasets import Truth
from commonground.errors import BudgetError, InputError
from commonground.estimators.altmin import paper as altmin_paper
from commonground.estimators.altmin.disjoint_groups import DisjointGroups, group_of_each
from commonground.estimators.altmin.paper import AltMinSettings, printed_costs
from commonground.gate import Gate, randomness_from
from commonground.heads.kinds import RidgeHeads
from commonground.heads.table import HeadTable
from commonground.ledger import DurableLedger, InMemoryLedger
from commonground.steps.moment_system import repaired


def ratio_to_floor(
    n: int, epsilon: float, seed: int, spread: float = 1.0, make=cg.PrivateAltMin, **population: int
) -> float:  # type: ignore[no-untyped-def]
    """MSE ÷ floor, for features whose standard deviations along random directions differ by the factor ``spread``."""
    plain, truth = cg.datasets.make_shared_subspace(n, seed=seed, **population)
    d = plain.n_features
    rotation = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]
    S = rotation * np.logspace(0, -math.log10(spread), d)  # x → S x, so θ → S⁻ᵀ θ
    block = next(plain.blocks(max_bytes=2**40))
    users = cg.Users.from_arrays(
        (block.X @ S.T).astype(np.float32), block.y, np.repeat(plain.ids, np.diff(block.offsets))
    )
    board = make(
        truth.embedding.shape[1], epsilon, fit_intercept=False, shared_mean=False, keep_heads=False, simulation_seed=seed
    ).fit(users).billboard_  # fmt: skip
    best = replace(board, embedding=np.linalg.qr(np.linalg.inv(S).T @ truth.embedding)[0])
    return error(board, users, truth, S) / error(best, users, truth, S)


def error(board: cg.Billboard, users: cg.Users, truth: Truth, S: np.ndarray) -> float:
    heads = HeadTable.fit(replace(board, head_kind=RidgeHeads()), users).weights
    wrong = heads @ (S.T @ board.embedding).T - truth.heads @ truth.embedding.T
    return float((wrong**2).sum(axis=1).mean()) + truth.noise**2


@pytest.mark.parametrize(
    ("n", "epsilon", "spread", "population", "target"),
    [
        (20_000, 1.0, 1.0, {}, 1.005),
        (20_000, 1.0, 3.0, {}, 1.01),
        (20_000, 1.0, 10.0, {}, 1.5),
        (5_000, 1.0, 1.0, {}, 1.05),
        (5_000, 1.0, 3.0, {"n_features": 20}, 1.05),
        (20_000, 1.0, 3.0, {"rank": 4, "n_features": 20}, 1.05),
    ],
)
def test_near_the_floor(n: int, epsilon: float, spread: float, population: dict[str, int], target: float) -> None:
    """The whole table is in benchmarks/compare_learners.py."""
    assert ratio_to_floor(n, epsilon, 101, spread, **population) <= target


def test_correlated_features() -> None:
    fedrep = ratio_to_floor(10_000, 1.0, 5, spread=4.0, make=cg.PrivateFedRep, n_features=20)
    altmin = ratio_to_floor(10_000, 1.0, 5, spread=4.0, n_features=20)
    assert altmin < 1.05
    assert fedrep < 1.05


def test_defaults_with_mean_intercepts_ragged_rows_and_correlated_features() -> None:
    """Nearly as good on fresh rows as the model without privacy."""
    rng = np.random.default_rng(2)
    n, d = 5000, 10
    S = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.logspace(0, -0.5, d)
    U, w = np.linalg.qr(rng.standard_normal((d, 2)))[0], rng.standard_normal(d)
    heads, own = rng.standard_normal((n, 2)), rng.standard_normal(n)
    ids = np.repeat(np.arange(n), rng.integers(3, 20, n))
    X = rng.standard_normal((len(ids), d)) @ S.T + 0.5
    y = ((X @ U) * heads[ids]).sum(axis=1) + X @ w + 3.0 + own[ids] + 0.1 * rng.standard_normal(len(ids))
    test = np.append(ids[1:] != ids[:-1], True)  # everybody's last row
    users = cg.Users.from_arrays(X[~test], y[~test], ids[~test])
    models = [cg.PrivateAltMin(2, 1.0, simulation_seed=0), cg.NonPrivateFedRep(2), cg.OwnDataOnly("pooled")]
    private, without, own_data = (
        float(np.mean((model.fit(users).predict(X[test], users=ids[test]) - y[test]) ** 2)) for model in models
    )
    assert private < 1.15 * without < own_data


def test_personal_budgets() -> None:
    users, truth = cg.datasets.make_shared_subspace(4000, n_features=15, seed=1)
    epsilons = np.where(np.arange(4000) % 2, 2.0, 0.5)
    model = cg.PrivateAltMin(2, budgets=epsilons, fit_intercept=False, shared_mean=False, simulation_seed=1).fit(users)
    assert model.spent(0) <= 0.5 < 1.9 < model.spent(1) <= 2.0
    floor = cg.metrics.population_mse(truth.embedding, users, truth)
    assert cg.metrics.population_mse(model.billboard_, users, truth) < 1.2 * floor


# ---- the paper's recipe ---------------------------------------------------------------------------------------------


def test_printed_noise_costs_less_than_declared_and_never_more() -> None:
    for epsilon in (0.1, 1.0, 5.0, 10.0, 100.0):
        for delta in (1e-9, 1e-6, 0.5):
            for settings in (AltMinSettings(5), AltMinSettings(4, "groups")):
                mu = printed_costs(Budget(epsilon, delta), settings)
                times = settings.n_rounds if settings.schedule == "epochs" else 1
                all_together = compose([mu["start"], *[mu["matrix"], mu["vector"]] * times])
                assert gaussian_epsilon(all_together, delta) <= epsilon
    spent = compose([math.sqrt(1.75 / 16) / math.sqrt(math.log(1e6))])
    assert compose(printed_costs(Budget(1.0, 1e-6), AltMinSettings(1)).values()) == pytest.approx(spent)
    assert gaussian_epsilon(spent, 1e-6) == pytest.approx(0.350, abs=1e-3)  # quoted in altmin_paper


def test_printed_noise_is_the_noise_that_is_drawn() -> None:
    """P1's σ of Algorithms 2 and 3, for the off-diagonal entries of the released matrices."""
    users, _ = cg.datasets.make_shared_subspace(500, rows_per_user=12, n_features=6, seed=0)
    settings = AltMinSettings(3, "groups", model_clip=0.5, response_clip=0.2, rows_per_user=12)
    model = cg.PrivateAltMin(2, 1.0, recipe="paper", simulation_seed=0, paper_settings=settings).fit(users)
    noise = {event.name.split(":")[-1].strip(): event.noise_std for event in model.billboard_.statement.events}
    m, eta, zeta, Delta = 12, 0.5, 0.2, math.sqrt(16 * math.log(1e6))
    assert noise["initialisation (Alg. 3)"] / math.sqrt(2) == pytest.approx(Delta * zeta**2 * m, rel=1e-5)
    assert noise["matrix"] / math.sqrt(2) == pytest.approx(m * eta**2 * Delta / 2, rel=1e-5)
    assert noise["vector"] == pytest.approx(m * zeta * eta * Delta / 2, rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "rows", "target"),
    [
        (AltMinSettings(5, rows_per_user=20), 20, 0.1),
        (AltMinSettings(3, "groups", rows_per_user=20), 20, 0.1),
        (AltMinSettings(3, "groups", model_clip=4.0, response_clip=2.0, rows_per_user=20), 20, 0.15),
    ],
)
def test_the_papers_recipe_learns_where_its_theorem_applies(settings: AltMinSettings, rows: int, target: float) -> None:
    users, truth = cg.datasets.make_shared_subspace(30_000, rows, 15, seed=0)
    model = cg.PrivateAltMin(2, 8.0, recipe="paper", simulation_seed=0, paper_settings=settings).fit(users)
    assert cg.metrics.subspace_distance(model.billboard_.embedding, truth.embedding) < target


def test_groups_depend_on_nobody_elses_rows_ids_or_order() -> None:
    X, y = np.ones((6, 3)), np.zeros(6)
    grouped = cg.Users.from_arrays(X, y, ["a", "a", "b", "c", "d", "d"])
    spread_out = cg.Users.from_arrays(X, y, ["d", "a", "z", "c", "a", "d"])  # b replaced by z, rows in another order
    here, there = (dict(zip(u.ids.tolist(), group_of_each(u, 5).tolist(), strict=True)) for u in (grouped, spread_out))
    assert all(here[name] == there[name] for name in "acd")
    sizes = np.bincount(group_of_each(cg.datasets.make_shared_subspace(5000, n_features=3, seed=0)[0], 5), minlength=5)
    assert (sizes > 800).all()


def test_a_group_passes_once_and_later_groups_may_not_cost_more() -> None:
    users, truth = cg.datasets.make_shared_subspace(60, n_features=4, seed=0)
    budget = Budget(1.0, 1e-6)
    book = InMemoryLedger(budget)
    groups = DisjointGroups(users, 3, Gate(book, randomness_from(0)))
    for group in range(3):
        matrix = altmin_paper._system(groups.people(group), truth.embedding, AltMinSettings()).matrix
        groups.release(matrix.bounded("m"), group, 0.1)
        with pytest.raises(BudgetError, match="passed before"):
            groups.release(matrix.bounded("m"), group, 0.1)
    assert len(book.events) == 1
    groups = DisjointGroups(users, 3, Gate(InMemoryLedger(budget), randomness_from(0)))
    groups.release(matrix.bounded("m"), 0, 0.1)
    with pytest.raises(BudgetError, match="not paid for"):
        groups.release(matrix.bounded("m"), 1, 0.11)
    with pytest.raises(BudgetError):
        groups.release(matrix.bounded("m"), 3, 0.1)


def test_a_durable_ledger_pays_for_groups_once(tmp_path: Path) -> None:
    """With real noise: 5 rounds on disjoint groups cost the population what the statement says, and no more."""
    users, _ = cg.datasets.make_shared_subspace(200, n_features=4, seed=0)
    people = DurableLedger(str(tmp_path / "budget.db"), create=True).open_population("people", Budget(2.0, 1e-6))
    settings = AltMinSettings(5, "groups")
    first, second = (
        cg.PrivateAltMin(1, 1.0, recipe="paper", paper_settings=settings).fit(users, ledger=people) for _ in range(2)
    )
    mus = [event.mu for model in (first, second) for event in model.billboard_.statement.events]
    assert len(mus) == 6
    assert float(people.account().settled) == pytest.approx(sum(mu**2 for mu in mus), rel=1e-6)


def test_a_person_moves_the_sums_of_her_own_group_only() -> None:
    users, truth = cg.datasets.make_shared_subspace(60, n_features=4, seed=0)
    block = next(users.blocks())
    X, y = block.X.copy(), block.y.copy()
    X[:10], y[:10] = 7.0 * X[:10] ** 2, -3.0  # person 0
    changed = cg.Users.from_arrays(X, y, np.repeat(users.ids, 10))
    mine = int(group_of_each(users, 3)[0])
    moved = []
    for group in range(3):
        sums = []
        for people in (users, changed):
            groups = DisjointGroups(people, 3, Gate(InMemoryLedger(Budget(1.0, 1e-6)), randomness_from(0)))
            sums.append(
                altmin_paper._system(groups.people(group), truth.embedding, AltMinSettings(model_clip=1.0)).matrix
            )
        moved.append(float(np.abs(sums[0].value - sums[1].value).max()))
    assert [value > 0 for value in moved] == [group == mine for group in range(3)]


def test_three_groups_together_cost_what_one_was_charged() -> None:
    """Exactly, by replaying the releases on the neighbour: μ² of all passages that moved, against μ² of the events."""
    settings = AltMinSettings(3, "groups", rows_per_user=4)

    def fit(users: cg.Users, seed: int | None, watch: Recorder) -> cg.PrivateAltMin:
        model = cg.PrivateAltMin(1, 4.0, recipe="paper", simulation_seed=seed, paper_settings=settings)
        return model.fit(users, gate=watch.gate)

    pair = neighbours("mirrored", n_users=30)
    transcript = record(fit, pair.with_target, 0, TARGET)
    found = evidence(fit, transcript, pair.without, TARGET)
    events = fit(pair.with_target, 0, Recorder()).billboard_.statement.events
    assert len(transcript.events) == 7
    assert len(events) == 3
    assert not found.certain
    spent = sum((moved * event.mu) ** 2 for moved, event in zip(found.moved, transcript.events, strict=True))
    assert 0.8 * compose(event.mu for event in events) ** 2 < spent <= compose(event.mu for event in events) ** 2


def test_settings_are_checked() -> None:
    for bad in ({"schedule": "both"}, {"n_rounds": 0}, {"rows_per_user": 1}, {"model_clip": 0.0}):
        with pytest.raises(InputError, match="AltMinSettings"):
            AltMinSettings(**bad)  # type: ignore[arg-type]


# ---- the system -----------------------------------------------------------------------------------------------------


def test_repair_keeps_what_stands_out_of_the_noise_and_forgets_the_rest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, k = 12, 2
    A, B = np.diag([0.7, 0.3]), np.diag(np.linspace(1.0, 3.0, d))
    noise = rng.standard_normal((d * k, d * k))
    noise = (noise + noise.T) / 2  # off-diagonals of variance 1/2, as a symmetric half gives them
    gradient = rng.standard_normal((d, k))
    exact = repaired(np.kron(A, B), 0.0, k).solve(gradient)
    np.testing.assert_allclose(exact, np.linalg.inv(B) @ gradient @ np.linalg.inv(A), rtol=1e-8)
    flat = repaired(np.kron(A, B) + 5.0 * noise, 5.0, k)
    assert np.linalg.eigvalsh(flat.inverse).min() > 0
    assert np.linalg.cond(flat.inverse) < 200
    close = repaired(np.kron(A, B) + 1e-3 * noise, 1e-3, k).solve(gradient)
    assert np.abs(close - exact).max() < 0.05 * np.abs(exact).max()


def test_noise_that_hides_even_the_trace_leaves_a_positive_system() -> None:
    for M in (np.zeros((6, 6)), -np.eye(6)):
        system = repaired(M, 1.0, 2)
        assert np.isfinite(system.inverse).all()
        assert np.linalg.eigvalsh(system.inverse).min() > 0


# ---- losses and parameters ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning", "ignore::commonground.errors.ScaleWarning")
def test_whether_people_are_few_is_public() -> None:
    """Few people do without the matrix, whatever their rows; and have the model of ``PrivateFedRep``, of the same releases."""
    rng, boards = np.random.default_rng(0), []
    for rows in (4, 60):
        ids, X = np.repeat(np.arange(400), rows), rng.standard_normal((400 * rows, 4))
        y = 2.0 + X[:, 0] + rng.standard_normal(len(ids))
        boards.append(cg.PrivateAltMin(1, 1.0, simulation_seed=1).fit(X, y, users=ids).billboard_)
    names = [[event.name for event in board.statement.events] for board in boards]
    assert names[0] == names[1]
    assert "moments: clipped sum" not in names[0]
    same = cg.PrivateFedRep(1, 1.0, simulation_seed=1).fit(X, y, users=ids).billboard_
    np.testing.assert_array_equal(boards[1].embedding, same.embedding)
    assert boards[1].statement.events == same.statement.events


def test_logistic_labels() -> None:
    users, truth = cg.datasets.make_shared_subspace(5000, 20, 20, noise=0.0, seed=4)
    block = next(users.blocks(max_bytes=2**40))
    yes = np.random.default_rng(0).random(len(block.y)) < 1 / (1 + np.exp(-2.0 * block.y))
    labelled = cg.Users.from_arrays(block.X, yes, np.repeat(users.ids, 20))
    model = cg.PrivateAltMin(2, 1.0, loss="logistic", fit_intercept=False, simulation_seed=0).fit(labelled)
    square = cg.PrivateAltMin(2, 1.0, fit_intercept=False, simulation_seed=0).fit(labelled)
    distance = [cg.metrics.subspace_distance(m.billboard_.embedding, truth.embedding) for m in (model, square)]
    assert distance[0] < 0.07
    assert distance[0] < distance[1]
    probability = model.predict_proba(block.X[:2000], users=np.repeat(users.ids, 20)[:2000])
    assert probability.shape == (2000, 2)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    right = np.mean((probability[:, 1] > 0.5) == yes[:2000])
    assert right > 0.75
    whose = np.repeat(users.ids, 20)[:2000]
    for labels in (yes[:2000], np.where(yes[:2000], 1, -1)):  # not R², which means nothing for log-odds
        assert model.score(block.X[:2000], labels, users=whose) == right
    with pytest.raises(InputError, match="logistic"):
        cg.PrivateAltMin(loss="huber").predict_proba(block.X)


def test_huber_withstands_outliers_that_break_the_square_loss() -> None:
    users, truth = cg.datasets.make_shared_subspace(8000, 12, 15, seed=5)
    block = next(users.blocks(max_bytes=2**40))
    rng = np.random.default_rng(0)
    y = block.y + np.where(rng.random(len(block.y)) < 0.1, 30.0 * rng.standard_normal(len(block.y)), 0.0)
    dirty = cg.Users.from_arrays(block.X, y, np.repeat(users.ids, 12))
    distance = {
        loss: cg.metrics.subspace_distance(
            cg.PrivateAltMin(2, 1.0, loss=loss, fit_intercept=False, shared_mean=False, simulation_seed=0)
            .fit(dirty)
            .billboard_.embedding,
            truth.embedding,
        )
        for loss in ("square", "huber")
    }
    assert distance["huber"] < 0.001
    assert distance["huber"] < distance["square"] / 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"recipe": "best"}, "recipe"),
        ({"loss": "hinge"}, "loss"),
        ({"recipe": "paper", "loss": "huber"}, "paper"),
        ({"recipe": "paper", "budgets": [1.0] * 30}, "paper"),
        ({"n_rounds": 0}, "n_rounds"),
        ({"rank": 50}, "unknowns"),
    ],
)
def test_impossible_parameters(parameters: dict, message: str) -> None:  # type: ignore[type-arg]
    rng = np.random.default_rng(0)
    users = cg.Users.from_arrays(rng.standard_normal((90, 100)), rng.standard_normal(90), np.repeat(np.arange(30), 3))
    with pytest.raises(InputError, match=message):
        cg.PrivateAltMin(**{"simulation_seed": 0, **parameters}).fit(users)


@pytest.mark.parametrize("schedule", ["epochs", "groups"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 10.0, 1000.0])
def test_the_rho_printed_with_the_figure_is_spent_and_never_more_than_the_budget(schedule: str, epsilon: float) -> None:
    users, _ = cg.datasets.make_shared_subspace(300, 10, n_features=6, seed=0)
    settings = cg.AltMinSettings(3, schedule, noise="zcdp")
    statement = cg.PrivateAltMin(2, epsilon, recipe="paper", simulation_seed=0, paper_settings=settings).fit(users)
    events = statement.billboard_.statement.events
    rho = sum(event.mu**2 for event in events) / 2
    assert rho <= epsilon**2 / (8 * np.log(1e6)) * (1 + 1e-9)
    assert statement.billboard_.statement.epsilon_spent <= epsilon
    if epsilon <= 1:
        assert rho == pytest.approx(epsilon**2 / (8 * np.log(1e6)), rel=1e-6)


def test_noise_has_two_names() -> None:
    with pytest.raises(InputError, match="'algorithm' or 'zcdp', got 'none'"):
        cg.AltMinSettings(noise="none")
