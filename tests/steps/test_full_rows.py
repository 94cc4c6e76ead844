"""From how many rows on people count in full: what a released histogram says, and nothing else."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import commonground as cg
from commonground.clipping.bounded import BoundedSum
from commonground.clipping.grid import N_BINS, bin_of
from commonground.estimators.fedrep.default_plan import FitSettings, plan_for
from commonground.steps.rows import release_full_rows, rows_are_seen


class Saying:
    """A gate that says what it is told to, whatever the people are; and keeps what it was given."""

    def __init__(self, rows: dict[int, int] | None = None) -> None:
        self.rows, self.given = rows, []

    def release(self, bounded: BoundedSum, mu: float) -> Any:
        self.given.append((bounded, mu))
        value = bounded.value.copy()
        if self.rows is not None:
            value = np.zeros(N_BINS)
            for m, people in self.rows.items():
                value[bin_of(float(m) ** 2)] += people
        return SimpleNamespace(value=value, noise_std=2**0.5 / mu)


def people(rows: np.ndarray) -> cg.Users:
    ids = np.repeat(np.arange(len(rows)), rows)
    X = np.random.default_rng(0).standard_normal((len(ids), 3))
    return cg.Users.from_arrays(X, X[:, 0], ids)


def test_people_with_equally_many_rows_all_count_in_full() -> None:
    for m in (1, 2, 7, 10, 100):
        assert 1.0 <= release_full_rows(people(np.full(500, m)), Saying(), 1.0) <= m


def test_most_people_count_less_where_few_have_very_many_rows() -> None:
    rows = np.maximum(1, np.round(np.exp(np.random.default_rng(1).normal(2.5, 1.0, 4000)))).astype(int)
    full = release_full_rows(people(rows), Saying(), 1.0)
    assert np.quantile(rows, 0.8) < full <= np.quantile(rows, 0.93)


def test_it_is_what_the_release_says() -> None:
    gate = Saying({40: 900, 3: 100})
    full = release_full_rows(people(np.full(1000, 3)), gate, 0.5)
    assert 30.0 < full <= 40.0
    ((asked, mu),) = gate.given
    assert (asked.sensitivity, mu) == (2**0.5, 0.5)


@pytest.mark.parametrize(("n", "epsilon", "seen"), [(200, 1.0, False), (100_000, 1.0, True), (3000, 8.0, True)])
def test_it_is_paid_for_where_it_can_be_seen(n: int, epsilon: float, seen: bool) -> None:
    mu = cg.accounting.budgets.Budget(epsilon, 1e-6).mu
    some: Any = SimpleNamespace(sparse=False, rows_are_here=True, total_weight=float(n), n_features=5)
    assert ("rows" in plan_for(some, FitSettings(rank=1), mu).fractions()) is seen
    assert rows_are_seen(n, mu * 0.004**0.5) is seen
