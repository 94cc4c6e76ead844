"""The exponential mechanisms: exact distribution, exact privacy on a net, and what they are good for."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import chisquare

import commonground as cg
from commonground.accounting.budgets import PureBudget
from commonground.accounting.costs import PureCost
from commonground.clipping.bounded import SCORE_UNIT
from commonground.data.users import Block
from commonground.errors import BudgetError, InputError
from commonground.ledger import DurableLedger
from commonground.public_draws import (
    public_generator,
    random_subspaces,
    sign_projection,
    sphere_net,
    subspace_net,
    subspaces_around,
)
from commonground.statistics.margins import MarginScores
from commonground.statistics.paper.exponential import LipschitzScores
from commonground.statistics.subspace_scores import SubspaceScores
from populations import ragged_block, replace_person, strange_people

EPSILON = 0.8


def as_users(block: Block) -> cg.Users:
    return cg.Users.from_arrays(block.X, block.y, np.repeat(np.arange(block.n_users), np.diff(block.offsets)))


def exact_log_probabilities(value: np.ndarray, epsilon: float) -> np.ndarray:
    return log_softmax(-epsilon * value / (2 * SCORE_UNIT))


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [None, 0])
def test_the_published_subspace_has_the_exact_distribution(seed: int | None) -> None:
    """1,500 fits on a net of eight: chi-square against the textbook's formula, false-alarm rate 1e-6; 3/2 ε is rejected."""
    block = ragged_block(3, n_users=25, d=2, low=4, high=8)
    users, net = as_users(block), subspace_net(2, 1, 0.25)
    value = SubspaceScores(net, True, False, 2.0).of(block).value
    counts = np.zeros(len(net))
    model = cg.ExponentialSubspace(
        1, EPSILON, recipe="paper", candidates="net", net_width=0.25, loss_bound=2.0, keep_heads=False
    )
    for draw in range(1500):
        model.simulation_seed = None if seed is None else draw
        embedding = model.fit(users).billboard_.embedding
        counts[np.flatnonzero((net == embedding).all(axis=(1, 2)))] += 1
    expected = 1500 * np.exp(exact_log_probabilities(value, EPSILON))
    assert expected.min() > 5, "too few for a chi-square test"
    assert chisquare(counts, expected).pvalue > 1e-6
    sharper = 1500 * np.exp(exact_log_probabilities(value, 2.5 * EPSILON))
    assert chisquare(counts, sharper).pvalue < 1e-6


NET = subspace_net(3, 1, 0.25)
M = sign_projection(3, 6, public_generator(0, "tests"))
SCORES = {
    "P1 Algorithm 4": (3, SubspaceScores(candidates=NET, half=True, centred=False, loss_bound=1.0).of),
    "P1 Algorithm 4, Huber": (3, LipschitzScores(candidates=NET, feature_clip=2.0, head_bound=1.0, slope=0.5).of),
    "ours": (3, SubspaceScores(candidates=NET, half=False, centred=True, loss_bound=0.0).of),
    "P2 Algorithm 3": (
        6,
        MarginScores(candidates=1.4 * NET, projection=M, half=True, margin=0.1, length=1.0, radius=1.0).of,
    ),
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
def test_replacing_a_person_moves_log_probabilities_by_at_most_epsilon(name: str, seed: int) -> None:
    """Computed exactly, for every candidate of the net and every strange person; and it does come near ε."""
    d, scores = SCORES[name]
    block = ragged_block(seed, n_users=20, d=d, low=4)
    rows = 1e3 * block.X[:9]
    explained = [(rows, rows[:, :3] @ U[:, 0]) for U in NET[::20]]  # one candidate explains all of her labels
    logs = []
    for X, y in [*strange_people(d).values(), *explained]:
        with np.errstate(over="ignore"):
            neighbour = replace_person(block, 4, X, y)
        logs.append(exact_log_probabilities(scores(neighbour).value, EPSILON))
    moved = max(np.abs(one - other).max() for one in logs for other in logs)
    assert moved <= EPSILON * (1 + 1e-12)
    assert moved > 0.1 * EPSILON


def people_whose_labels_are_explained(block: Block, who: int, label: float) -> list[Block]:
    """``who`` replaced by people whose labels, of this size, one candidate or another explains by their sign."""
    rows = 1e3 * block.X[:10]
    return [replace_person(block, who, rows, label * np.sign(rows @ U[:, 0])) for U in NET[::10]]


def test_a_huge_label_cancels_for_a_lipschitz_loss(seed: int) -> None:
    """Exact log-probabilities: labels up to 1e9 move them by no more than ε, and hardly more than labels of size one do."""
    block = ragged_block(seed, n_users=20, d=3, low=4)
    scores = LipschitzScores(NET, feature_clip=2.0, head_bound=1.0, slope=0.5)
    moved = {}
    for label in (1.0, 1e3, 1e9):
        logs = [
            exact_log_probabilities(scores.of(other).value, EPSILON)
            for other in people_whose_labels_are_explained(block, 4, label)
        ]
        moved[label] = max(np.abs(one - other).max() for one in logs for other in logs)
        assert moved[label] <= EPSILON * (1 + 1e-12)
    assert moved[1e9] <= 1.3 * moved[1e3]
    assert moved[1e9] > 0.1 * EPSILON, "a gain that is lost in rounding would say nothing"


def test_the_printed_exponent_spends_more_than_epsilon() -> None:
    """Ten people, the sum of scores and the printed εn/(8 L_f C ξ): a replaced person moves a log-probability by more than ε."""
    block = ragged_block(0, n_users=10, d=3, low=4)
    clip, bound, slope = 2.0, 1.0, 0.5
    scores, logs = LipschitzScores(NET, clip, bound, slope), []
    for other in people_whose_labels_are_explained(block, 4, 1e3):
        losses = slope * clip * bound * scores.of(other).value / SCORE_UNIT  # but for what cancels
        logs.append(log_softmax(-EPSILON * 10 / (8 * clip * bound * slope) * losses))
    moved = max(np.abs(one - other).max() for one in logs for other in logs)
    assert 1.5 * EPSILON < moved < 2.5 * EPSILON


def test_huber_loss_learns_and_says_what_it_needs() -> None:
    users, truth = cg.datasets.make_shared_subspace(n_users=3000, n_features=3, rank=1, seed=1)
    settings = {"recipe": "paper", "candidates": "net", "net_width": 0.1, "simulation_seed": 1}
    model = cg.ExponentialSubspace(1, 4.0, loss="huber", feature_clip=3.0, **settings).fit(users)
    assert cg.metrics.subspace_distance(model.billboard_.embedding, truth.embedding) < 0.2
    assert model.billboard_.statement.epsilon_spent <= 4.0
    with pytest.raises(InputError, match="'huber' with recipe='paper'"):
        cg.ExponentialSubspace(loss="huber").fit(users)
    with pytest.raises(InputError, match="slope of ExponentialSubspace must be a finite number > 0"):
        cg.ExponentialSubspace(loss="huber", slope=0.0, recipe="paper").fit(users)


@pytest.mark.parametrize(("d", "k", "width"), [(2, 1, 0.3), (3, 1, 0.2), (4, 1, 0.5), (3, 2, 0.3), (4, 2, 1.0)])
def test_the_net_covers(d: int, k: int, width: float, seed: int) -> None:
    net = subspace_net(d, k, width)
    np.testing.assert_allclose(net.transpose(0, 2, 1) @ net, np.broadcast_to(np.eye(k), (len(net), k, k)), atol=1e-9)
    for U in random_subspaces(25, d, k, public_generator(seed, "tests")):
        # the nearest basis of each candidate's span: ‖U − N Q‖² = 2k − 2 Σ singular values of Nᵀ U
        singular = np.linalg.svd(net.transpose(0, 2, 1) @ U, compute_uv=False).sum(axis=1)
        assert np.sqrt(np.maximum(2 * k - 2 * singular, 0)).min() <= width


def test_nets_that_are_too_large_or_make_no_sense() -> None:
    with pytest.raises(InputError, match=r"needs .* candidates"):
        subspace_net(20, 1, 0.2)
    with pytest.raises(InputError, match=r"needs .* candidates"):
        subspace_net(6, 3, 0.5)
    for width in (0, -1, 2, np.nan):
        with pytest.raises(InputError, match="net_width"):
            sphere_net(3, width)


def test_candidates_around_a_choice(seed: int) -> None:
    centre = random_subspaces(1, 6, 2, public_generator(seed, "a"))[0]
    around = subspaces_around(centre, 50, (0.1, 0.2), public_generator(seed, "b"))
    assert around.shape == (50, 6, 2)
    np.testing.assert_array_equal(around[0], centre)
    distances = [np.linalg.norm(U @ U.T - centre @ centre.T) / np.sqrt(2) for U in around[1:]]
    assert 0.09 < min(distances) < max(distances) < 0.21


@pytest.mark.parametrize(("d", "k", "n"), [(3, 1, 1000), (5, 1, 2000), (4, 2, 2000)])
def test_the_zoom_comes_close_to_the_floor(d: int, k: int, n: int) -> None:
    users, truth = cg.datasets.make_shared_subspace(n_users=n, n_features=d, rank=k, seed=1)
    floor = cg.metrics.population_mse(truth.embedding, users, truth)
    model = cg.ExponentialSubspace(k, 2.0, fit_intercept=False, n_candidates=512, simulation_seed=1).fit(users)
    assert cg.metrics.population_mse(model.billboard_, users, truth) < 2 * floor
    assert model.billboard_.statement.epsilon_spent <= 2.0


def test_units_do_not_matter_to_the_zoom() -> None:
    users, _ = cg.datasets.make_shared_subspace(n_users=500, n_features=4, rank=1, seed=1)
    block = next(users.blocks())
    other = Block(block.X, 1024.0 * block.y, block.offsets, 0)
    boards = [
        cg.ExponentialSubspace(1, simulation_seed=3, n_stages=3).fit(as_users(b)).billboard_ for b in (block, other)
    ]
    np.testing.assert_array_equal(boards[0].embedding, boards[1].embedding)


def test_the_budget_is_what_the_stages_cost(tmp_path: Any) -> None:
    users, _ = cg.datasets.make_shared_subspace(n_users=60, n_features=3, rank=1, seed=1)
    people = DurableLedger(tmp_path / "budget.db", create=True).open_population("people", PureBudget(1.5))
    model = cg.ExponentialSubspace(1, 1.0, n_candidates=50, n_stages=3).fit(users, ledger=people)
    assert [event.kind for event in model.billboard_.statement.events] == ["pure"] * 3
    assert model.billboard_.statement.epsilon_spent == pytest.approx(1.0, rel=1e-6)
    assert float(people.account().charged_in(PureCost)) == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(BudgetError, match="asks for"):
        cg.ExponentialSubspace(1, 1.0).fit(users, ledger=people)
    with pytest.raises(BudgetError, match="simulated"):
        cg.ExponentialSubspace(1, 0.1, simulation_seed=1).fit(users, ledger=people)


def test_candidates_from_an_earlier_billboard() -> None:
    users, truth = cg.datasets.make_shared_subspace(n_users=1000, n_features=6, rank=1, seed=1)
    coarse = cg.PrivateFedRep(1, 0.1, fit_intercept=False, shared_mean=False, n_rounds=1, simulation_seed=1).fit(users)
    model = cg.ExponentialSubspace(
        1, 1.0, candidates=coarse.billboard_, n_stages=1, n_candidates=256, fit_intercept=False, simulation_seed=1
    ).fit(users)
    before, after = (cg.metrics.subspace_distance(m.billboard_.embedding, truth.embedding) for m in (coarse, model))
    assert after < before
    assert "(ε = 0.1, δ = 1e-06) is a cost of its own" in str(model.billboard_.statement)
    not_private = cg.NonPrivateFedRep(1).fit(users).billboard_
    other_shape = cg.PrivateFedRep(2, n_rounds=1, simulation_seed=1).fit(users).billboard_
    for bad, why in ((not_private, "not private"), (other_shape, "shape")):
        with pytest.raises(InputError, match=why):
            cg.ExponentialSubspace(1, candidates=bad, simulation_seed=1).fit(users)
    with pytest.raises(InputError, match="not private"):
        cg.ExponentialSubspace(1, candidates=coarse.billboard_).fit(users)  # seeded noise protects nobody


@pytest.mark.parametrize(
    "bad",
    [
        {"recipe": "best"}, {"candidates": "all"}, {"n_candidates": 1}, {"n_candidates": 2.5}, {"n_stages": 0},
        {"loss_bound": 0}, {"loss_bound": np.inf}, {"epsilon": 0}, {"epsilon": np.nan}, {"rank": 0}, {"rank": 3},
    ],
)  # fmt: skip
def test_impossible_parameters(bad: dict[str, Any]) -> None:
    users, _ = cg.datasets.make_shared_subspace(n_users=20, n_features=3, rank=1)
    with pytest.raises(InputError, match=next(iter(bad))):
        cg.ExponentialSubspace(simulation_seed=0).set_params(**bad).fit(users)


# --- margin classifier ----------------------------------------------------------------------------------------------


def test_classes_are_learned_and_d_plays_no_part() -> None:
    errors = []
    for d in (20, 500):
        users = cg.datasets.make_margin_classes(n_users=400, n_features=d, margin=0.7, seed=2)
        X, y = next(users.blocks()).X, next(users.blocks()).y
        model = cg.PrivateMarginClassifier(1, 2.0, n_candidates=256, simulation_seed=1).fit(users)
        errors.append(1 - model.score(X, y, users=np.repeat(np.arange(400), 10)))
    assert max(errors) < 0.25
    assert errors[1] < errors[0] + 0.1


@pytest.mark.parametrize("recipe", ["default", "paper"])
@pytest.mark.parametrize("low", [-1, 0])
def test_labels_of_either_kind(recipe: str, low: int) -> None:
    users = cg.datasets.make_margin_classes(n_users=100, n_features=10, rank=2, seed=1)
    block = next(users.blocks())
    ids, y = np.repeat(np.arange(100), 10), np.where(block.y > 0, 1, low)
    model = cg.PrivateMarginClassifier(2, 4.0, recipe=recipe, n_candidates=64, simulation_seed=1).fit(
        block.X, y, users=ids
    )
    assert model.classes_.tolist() == [low, 1]
    assert set(model.predict(block.X, users=ids)) <= {low, 1}
    decision = model.decision_function(block.X, users=ids)
    np.testing.assert_array_equal(model.predict(block.X, users=ids), np.where(decision > 0, 1, low))
    assert np.linalg.norm(model.heads_, axis=1).max() <= 1 + 1e-12
    twin = cg.PrivateMarginClassifier(2, 4.0, recipe=recipe, n_candidates=64, simulation_seed=1).fit(users)
    np.testing.assert_allclose(twin.decision_function(block.X, users=ids), decision)


def test_the_embedding_lies_on_the_sphere_of_candidates() -> None:
    """Where nothing is projected, U is √2 times a candidate with orthonormal columns: no other number is in it."""
    users = cg.datasets.make_margin_classes(n_users=40, n_features=6, rank=2, seed=1)
    U = cg.PrivateMarginClassifier(2, projected_dim=6, n_candidates=30, n_stages=2).fit(users).billboard_.embedding
    np.testing.assert_allclose(U.T @ U, 2 * np.eye(2), atol=1e-12)


def test_other_labels_are_refused() -> None:
    X, ids = np.ones((6, 3)), [0, 0, 1, 1, 2, 2]
    for y in ([0, 1, 2, 0, 1, 2], [-1, 0, 1, 1, 1, 1], [0.5, 1, 0, 1, 0, 1]):
        with pytest.raises(InputError, match="labels must be"):
            cg.PrivateMarginClassifier(1).fit(X, y, users=ids)


def test_the_theorems_projection() -> None:
    users = cg.datasets.make_margin_classes(n_users=100, n_features=300, seed=1)
    model = cg.PrivateMarginClassifier(
        1, projected_dim="theorem", margin=0.5, n_candidates=20, n_stages=1, rows_per_person=10, simulation_seed=1
    ).fit(users)
    parameters = model.billboard_.statement.parameters
    assert parameters["projected_dim"] == int(np.ceil(4 * np.log(100 * 10 / 0.05)))
    assert np.linalg.matrix_rank(model.billboard_.embedding) == 1
    assert cg.PrivateMarginClassifier(1, projected_dim="theorem", margin=0.01)._projected_dim(users) == 300


@pytest.mark.parametrize(
    "bad",
    [
        {"recipe": "best"}, {"margin": 0}, {"feature_bound": -1}, {"head_bound": np.inf}, {"projected_dim": 0},
        {"projected_dim": "big"}, {"rows_per_person": 0}, {"n_candidates": 1}, {"n_stages": 0}, {"epsilon": 0}, {"rank": 9},
    ],
)  # fmt: skip
def test_impossible_parameters_of_the_classifier(bad: dict[str, Any]) -> None:
    users = cg.datasets.make_margin_classes(n_users=20, n_features=30)
    with pytest.raises(InputError, match=next(iter(bad))):
        cg.PrivateMarginClassifier(simulation_seed=0).set_params(**bad).fit(users)


def test_pure_statements_say_so() -> None:
    users = cg.datasets.make_margin_classes(n_users=50, n_features=10)
    statement = cg.PrivateMarginClassifier(1, n_candidates=20, n_stages=2).fit(users).billboard_.statement
    assert (statement.delta, statement.simulated) == (0.0, False)
    assert "by addition of their ε" in str(statement)
    assert replace(statement) == statement
