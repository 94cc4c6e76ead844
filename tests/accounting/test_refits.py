"""One budget for many fits: as many as were asked for fit into it, and a ledger agrees."""

from pathlib import Path

import pytest

from commonground.accounting.budgets import Budget
from commonground.accounting.refits import budget_of_each, fits_within
from commonground.errors import BudgetError, InputError
from commonground.ledger import DurableLedger


@pytest.mark.parametrize(
    ("epsilon", "delta", "fits"), [(2.0, 1e-6, 52), (1.0, 1e-5, 3), (0.5, 1e-6, 7), (8.0, 1e-9, 2)]
)
def test_so_many_fits_and_not_one_more_fit_into_the_ledger(
    epsilon: float, delta: float, fits: int, tmp_path: Path
) -> None:
    people = DurableLedger(tmp_path / "l.db", create=True).open_population("p", Budget(epsilon, delta))
    each = budget_of_each(epsilon, delta, fits)
    assert fits_within(people.account().left, each) == fits
    for _ in range(fits):
        people.reserve(each)
    with pytest.raises(BudgetError):
        people.reserve(each)
    assert each.mu * fits**0.5 == pytest.approx(Budget(epsilon, delta).mu, rel=1e-6), "and hardly anything is left over"


def test_one_fit_has_it_all_and_no_fit_is_refused() -> None:
    assert budget_of_each(1.0, 1e-6, 1) == Budget(1.0, 1e-6)
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="whole number of at least 1"):
            budget_of_each(1.0, 1e-6, wrong)  # type: ignore[arg-type]
