"""P4's results: the fast versions run, and the claims are computed from the cells they are given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from commonground.accounting.budgets import Budget
from commonground.datasets import OwnersData
from commonground.errors import BudgetError
from commonground.ledger import InMemoryLedger
from commonground.reproduce import p4
from commonground.reproduce.p4_baselines import WithoutPrivacy, full_dp, per_silo
from commonground.reproduce.p4_cells import Study


def test_printed_numbers_are_the_papers() -> None:
    assert len(p4.printed()) == 100
    assert p4.printed()["1", "mnist", "128", "joint_dp", "1.0", "", ""] == (0.8169, 0.0160)
    assert p4.printed()["4", "mnist", "256", "joint_dp", "8.0", "20", ""] == (0.2941, 0.0659)


@pytest.mark.slow
def test_fast_table1_has_every_column() -> None:
    outcome = p4.run_table1(True, False)
    assert len(outcome.rows) == 11 * 2
    assert {row.setting["owners"] for row in outcome.rows} == {4, 16}
    assert all(0.02 < row.ours < 1 for row in outcome.rows)
    assert len(outcome.claims) == 3
    assert outcome.draw is not None
    outcome.draw(Figure())


@pytest.mark.slow
def test_fast_figure1_can_be_drawn() -> None:
    outcome = p4.run_figure1(True, False)
    assert len(outcome.rows) == 2 * 2 * 2  # owners, ε, methods
    assert outcome.draw is not None
    figure = Figure()
    outcome.draw(figure)
    assert len(figure.axes[0].lines) == 2 + 1  # full DP does not depend on the number of owners


@pytest.fixture(scope="module")
def data() -> OwnersData:
    return Study(fast=True).data("digits", 4, seed=0)


def test_full_dp_shares_everything_and_pays_for_it(data: OwnersData) -> None:
    book = InMemoryLedger(Budget(1.0, 1e-4))
    trainer = Study(fast=True).trainer(0)
    full = full_dp(trainer).fit(data.X, data.y, owners=data.owners, ledger=book)
    assert set(full.billboard_.arrays) == {name for name, _ in trainer.model.named_parameters()}
    assert book.events == full.billboard_.statement.events
    asked = {"X": data.test_X, "owners": data.test_owners}
    np.testing.assert_array_equal(full.predict(**asked), full.predict(data.test_X))


def test_owners_alone_publish_and_pay_nothing(data: OwnersData) -> None:
    book = InMemoryLedger(Budget(1.0, 1e-4))
    alone = per_silo(Study(fast=True).trainer(0)).fit(data.X, data.y, owners=data.owners, ledger=book)
    assert book.events == ()
    assert alone.billboard_.arrays == {}
    assert "Nothing that depends on anybody's data" in str(alone.billboard_.statement)
    assert alone.score(data.test_X, data.test_y, data.test_owners) > 0.1


def test_what_has_no_protection_takes_no_ledger(data: OwnersData) -> None:
    trainer, book = Study(fast=True).trainer(0), InMemoryLedger(Budget(1.0, 1e-4))
    with pytest.raises(BudgetError, match="no ledger can pay"):
        WithoutPrivacy.fit(trainer, data.X, data.y, ledger=book)
    assert book.events == ()
    together = WithoutPrivacy.fit(trainer, data.X, data.y)
    assert together.score(data.test_X, data.test_y) > 0.1
    assert not hasattr(together, "billboard_")


def cells(**accuracies: float) -> list[p4.Cell]:
    return [
        {"dataset": "mnist", "n": 4, "seed": seed, "method": method, "accuracy": mean + 0.001 * seed}
        for method, mean in accuracies.items()
        for seed in range(3)
    ]


@pytest.mark.parametrize(("joint", "holds"), [(0.9, False), (0.9499, True), (0.97, True)])
def test_the_claim_against_training_alone_can_fail(joint: float, holds: bool) -> None:
    found = cells(per_silo=0.95, joint_dp=joint, full_dp=0.8)
    assert p4.table1_outcome(found).claims[0].holds is holds


def test_user_level_claims_can_fail() -> None:
    def cell(level: str, accuracy: float) -> p4.Cell:
        return {"n": 256, "seed": 0, "records_per_user": 5, "epsilon": 1.0, "level": level, "accuracy": accuracy}

    good, bad = (
        p4.table4_outcome([cell("clip", 0.9), cell("group", 0.5)]),
        p4.table4_outcome([cell("clip", 0.2), cell("group", 0.5)]),
    )
    assert [claim.holds for claim in good.claims] == [True, True]
    assert [claim.holds for claim in bad.claims] == [False, False]
    assert good.rows[0].printed == 0.2517


def test_full_dp_of_table_4_stands_beside_its_own_column() -> None:
    cell = {"n": 4, "seed": 0, "records_per_user": 5, "epsilon": 1.0, "level": "full", "accuracy": 0.9}
    (row,) = p4.table4_outcome([cell]).rows
    assert row.printed == 0.1986
    assert row.setting["user level by"] == "full"


def test_what_figure_1_is_said_to_show_can_fail() -> None:
    """Joint DP ahead for small ε, full DP for large; the lead grows with owners."""

    def outcome(leads: dict[tuple[int, float], float]) -> list[bool]:
        found = [
            {
                "n": n,
                "epsilon": e,
                "seed": 0,
                "method": method,
                "accuracy": 0.8 + (lead if method == "joint_dp" else 0.0),
            }
            for (n, e), lead in leads.items()
            for method in ("joint_dp", "full_dp")
        ]
        return [claim.holds for claim in p4.figure1_outcome(found).claims]

    assert outcome({(4, 1.0): 0.01, (64, 1.0): 0.05, (4, 100.0): -0.01, (64, 100.0): -0.01}) == [True, True, True]
    assert outcome({(4, 1.0): 0.05, (64, 1.0): -0.01, (4, 100.0): -0.01, (64, 100.0): 0.01}) == [False, False, False]


def test_joint_against_full_dp_of_users_can_fail() -> None:
    def claims(clip: float) -> list[bool]:
        cells = [
            {"n": 4, "seed": 0, "records_per_user": 5, "epsilon": 1.0, "level": level, "accuracy": accuracy}
            for level, accuracy in (("clip", clip), ("full", 0.9))
        ]
        return [claim.holds for claim in p4.table4_outcome(cells).claims]

    assert claims(0.95)[-1]
    assert not claims(0.85)[-1]
