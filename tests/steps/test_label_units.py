"""Labels in a unit that follows from their public range."""

import warnings

import numpy as np
import pytest

import commonground as cg
from commonground.clipping.grid import N_SIGNED_BINS
from commonground.denoise.places import NoisyCounts, find_place
from commonground.errors import InputError
from commonground.statistics.labels import LabelEnergies, LabelMeans, LabelsInUnit
from commonground.statistics.statistic import SharedModel
from commonground.steps.label_units import LabelUnit
from populations import ragged_block

MODEL = SharedModel(np.eye(3)[:, :1], np.arange(3.0), 5.0, True, spread=np.diag([3.0, 2.0]), noise=0.7)


def test_a_model_there_and_back_keeps_every_bit() -> None:
    unit = LabelUnit.of((-3.0, 1e5))
    back = unit.as_labels(unit.of_model(MODEL))
    for name, value in vars(MODEL).items():
        assert np.array_equal(getattr(back, name), value), name


def test_what_people_send_is_what_they_send_of_labels_in_that_unit() -> None:
    block = ragged_block(0, n_users=30, d=3, low=0, high=6)
    bare = SharedModel(np.zeros((3, 0)))
    for statistic, zero in ((LabelMeans(bare, 110), 0.0), (LabelEnergies(bare), 0.0), (LabelMeans(bare, 110), 5.5)):
        smaller = type(block)(block.X, (block.y - zero) / 8.0, block.offsets, 0, block.person_weights)
        asked, expected = LabelsInUnit(statistic, 8.0, zero).of(block), statistic.of(smaller)
        assert asked.counts.tobytes() == expected.counts.tobytes()  # type: ignore[attr-defined]


@pytest.mark.parametrize("label_range", [(0.0, 1e155), (0.0, 1e-170), (-1e300, 1e300), (1e-20, 2e-20)])
def test_a_range_beyond_the_grid_is_refused_before_anything_is_spent(label_range: tuple[float, float]) -> None:
    rng = np.random.default_rng(0)
    ids, X = np.repeat(np.arange(60), 5), rng.standard_normal((300, 2))
    schema = cg.Schema((cg.Column("who", "person"), cg.Column("y", "label", range=label_range), *map(cg.Column, "ab")))
    people = cg.Users.from_arrays(X, np.full(300, label_range[0]) + X[:, 0] * 1e-300, ids, schema=schema)
    for model in (cg.PrivateFedRep(1), cg.SingleModel(), cg.PrivateAltMin(1)):
        with pytest.raises(InputError, match="Give them in another unit"):
            model.fit(people)


FAR_FROM_ZERO = [(1990.0, 2024.0), (2000.0, 2010.0), (-1e6, -1e6 + 4.0)]


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning")
@pytest.mark.parametrize("label_range", FAR_FROM_ZERO)
@pytest.mark.parametrize("epsilon", [0.05, 2.0])  # levels only, and all that is learned of more people
def test_labels_of_a_range_far_from_zero_are_learned(label_range: tuple[float, float], epsilon: float) -> None:
    """No bell lies within such a range: where labels lie was no number, which stopped the fit after two releases."""
    rng, (low, high) = np.random.default_rng(0), label_range
    ids, X = np.repeat(np.arange(300), 5), rng.standard_normal((1500, 2))
    y = np.clip(low + (high - low) * (0.6 + 0.1 * rng.standard_normal(300)[ids] + 0.1 * X[:, 0]), low, high)
    schema = cg.Schema((cg.Column("who", "person"), cg.Column("y", "label", range=label_range), *map(cg.Column, "ab")))
    people = cg.Users.from_arrays(X, y, ids, schema=schema)
    for model in (
        cg.PrivateFedRep(1, epsilon, simulation_seed=1),
        cg.SingleModel(epsilon, own_intercept=True, simulation_seed=1),
        cg.SingleModel(epsilon, simulation_seed=1),
        cg.PrivateAltMin(1, epsilon, simulation_seed=1),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error", cg.errors.ScaleWarning)  # it is declared: nothing is left to advise
            board = model.fit(people).billboard_
        assert low < board.intercept < high, model
    earlier = cg.PrivateFedRep(1, epsilon, simulation_seed=1).fit(people).billboard_
    again = cg.PrivateFedRep(1, epsilon, simulation_seed=2).fit(people, start=earlier).billboard_
    assert abs(again.intercept - y.mean()) < (high - low) / 2


def test_a_model_without_a_level_keeps_its_zero() -> None:
    assert LabelUnit.of((1990.0, 2024.0), with_level=False) == LabelUnit(8.0)
    assert LabelUnit.of((1.0, 5.0)) == LabelUnit(), "near zero it is zero itself"


def test_a_place_is_found_within_any_range() -> None:
    """Whatever noise says; else what follows is no number, after people have paid."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        width, off = 10.0 ** rng.uniform(-15, 15), 10.0 ** rng.uniform(-2, 6) * rng.choice([-1.0, 1.0])
        label_range = off * width, off * width + width
        if not label_range[1] > label_range[0]:
            continue
        within = LabelUnit.of(label_range).of_range(label_range)
        counts = NoisyCounts(rng.standard_normal(N_SIGNED_BINS) * 50.0, 50.0)
        place = find_place(counts, 100.0, None, within)
        assert place is not None
        assert within is not None
        assert np.isfinite([place.mean, place.doubt, place.spread]).all(), label_range
        assert within[0] <= place.mean <= within[1]


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning", "error::RuntimeWarning")
def test_people_who_are_all_at_zero_spread_by_more_than_nothing() -> None:
    """A spread of nothing has no logarithm: numpy warned of that after people had paid, and sizes were none."""
    counts = np.zeros(N_SIGNED_BINS)
    counts[(N_SIGNED_BINS - 1) // 2] = 130.0
    place = find_place(NoisyCounts(counts, 10.0), 100.0, None, (0.0, 4.0))
    assert place is not None
    assert place.mean == 0.0
    assert place.spread > 0.0
    label, ids = cg.Column("y", "label", range=(0, 1)), np.repeat(np.arange(300), 4)
    schema = cg.Schema((cg.Column("who", "person"), label, *map(cg.Column, "ab")))
    X = np.random.default_rng(0).standard_normal((1200, 2))
    people = cg.Users.from_arrays(X, np.zeros(1200), ids, schema=schema)
    for seed in range(6):
        board = cg.PrivateFedRep(1, 0.5, simulation_seed=seed).fit(people).billboard_
        assert abs(board.intercept) < 0.3
        assert 0.0 < board.noise < 0.1  # type: ignore[operator]
