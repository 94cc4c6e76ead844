"""Labels in a unit that follows from their public range."""

import numpy as np
import pytest

import commonground as cg
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
    smaller = type(block)(block.X, block.y / 8.0, block.offsets, 0, block.person_weights)
    bare = SharedModel(np.zeros((3, 0)))
    for statistic in (LabelMeans(bare, 110), LabelEnergies(bare)):
        asked, expected = LabelsInUnit(statistic, 8.0).of(block), statistic.of(smaller)
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
