"""rank="auto": how many directions stand out of the released start's known noise."""

import numpy as np
import pytest

import commonground as cg
from commonground.denoise.spectra import visible_rank
from commonground.errors import InputError


def chosen(users: cg.Users, seed: int) -> int:
    model = cg.PrivateFedRep("auto", 1.0, n_rounds=1, shared_mean=False, keep_heads=False, simulation_seed=seed)
    return model.fit(users).billboard_.rank


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_the_rank_is_found_where_it_can_be_seen(rank: int) -> None:
    """Right on at least 9 of 10 draws; all tables are in benchmarks/frontier.py --rank."""
    draws = [cg.datasets.make_shared_subspace(4000, n_features=20, rank=rank, seed=s)[0] for s in range(10)]
    assert sum(chosen(users, seed) == rank for seed, users in enumerate(draws)) >= 9


def test_noise_alone_has_rank_one() -> None:
    """Random directions and noise, 200 times: a second one stands out with probability below one in a hundred."""
    rng, ranks = np.random.default_rng(0), []
    for _ in range(200):
        directions = rng.standard_normal((500, 30))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        noise = rng.standard_normal((30, 30)) / 2
        ranks.append(visible_rank(np.linalg.eigvalsh(directions.T @ directions + noise + noise.T), 1.0, 500))
    assert sum(rank > 1 for rank in ranks) <= 8


def test_the_statement_tells_the_rank_that_was_chosen() -> None:
    users, _ = cg.datasets.make_shared_subspace(4000, n_features=20, rank=3, seed=1)
    board = cg.PrivateFedRep("auto", 1.0, n_rounds=2, simulation_seed=1).fit(users).billboard_
    assert board.statement.parameters["rank"] == board.embedding.shape[1] == 3


@pytest.mark.parametrize("wrong", ["best", -1, 20, 1.5])
def test_other_ranks_are_refused(wrong: object) -> None:
    users, _ = cg.datasets.make_shared_subspace(50, n_features=20, seed=1)
    with pytest.raises(InputError, match="rank of PrivateFedRep must be"):
        cg.PrivateFedRep(wrong).fit(users)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rank of PrivateFedRep must be"):
        cg.PrivateFedRep("auto", recipe="paper").fit(users)


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning")
def test_a_direction_of_one_feature_is_refused_before_anything_is_paid() -> None:
    rng = np.random.default_rng(0)
    ids, x = np.repeat(np.arange(50), 4), rng.standard_normal((200, 1))
    asked = []

    def gate(*arguments: object, **settings: object) -> object:
        asked.append(arguments)
        raise AssertionError

    with pytest.raises(InputError, match="1 feature leaves none"):
        cg.PrivateFedRep("auto", fit_intercept=False, shared_mean=False).fit(x, x[:, 0], users=ids, gate=gate)
    assert not asked
    assert cg.PrivateFedRep("auto", simulation_seed=0).fit(x, x[:, 0], users=ids).billboard_.rank == 0
