"""Values of a category are found by releases alone: each person within √2, the rest of the budget for the fit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.gaussian import compose
from commonground.data.unencoded import Unencoded
from commonground.errors import InputError
from commonground.estimators.discovery import DISCOVERY_SHARE, _names_there_may_be, _of_new_names
from commonground.gate import Gate, randomness_from
from commonground.ledger import DurableLedger, InMemoryLedger
from commonground.steps.category_values import _counts, release_category_values

SCHEMA = cg.Schema(
    (
        cg.Column("who", "person"), cg.Column("y", "label", range=(-5, 5)),
        cg.Column("x", range=(-3, 3)), cg.Column("z", range=(-3, 3)),
        cg.Column("town", kind="category", values="discover", longest=8, missing="indicator"),
    )
)  # fmt: skip


def people(n: int, town: Callable[[np.random.Generator, int], Any]) -> Unencoded:
    rng = np.random.default_rng(5)
    who, x = np.repeat(np.arange(n), 3), rng.standard_normal(3 * n)
    frame = pd.DataFrame(
        {
            "who": who,
            "town": town(rng, 3 * n),
            "x": x,
            "z": rng.standard_normal(3 * n),
            "y": x + 0.1 * rng.standard_normal(3 * n),
        }
    )
    found = cg.Users.from_table(frame, schema=SCHEMA)
    assert isinstance(found, Unencoded)
    return found


def towns(rng: np.random.Generator, n: int) -> list[str]:
    common = rng.choice(["Oslo", "Ås", "Osaka", "Bergen"], n, p=[0.4, 0.3, 0.2, 0.1])
    return [
        f"only-{i}" if rare else one for i, (one, rare) in enumerate(zip(common, rng.random(n) < 0.02, strict=True))
    ]


def test_the_frequent_values_are_found_and_nobodys_own() -> None:
    """Expected false finds are 0.05 a search; the seed is fixed."""
    gate = Gate(InMemoryLedger(Budget(8.0, 1e-6)), randomness_from(1))
    found = release_category_values(people(4000, towns), "town", 8, gate, mu=0.5)
    assert set(found) == {"Oslo", "Ås", "Osaka", "Bergen"}
    assert compose(event.mu for event in gate.events) <= 0.5
    assert len(gate.events) <= 9


def test_longer_values_than_declared_are_not_found() -> None:
    gate = Gate(InMemoryLedger(Budget(8.0, 1e-6)), randomness_from(1))
    assert set(release_category_values(people(4000, towns), "town", 4, gate, mu=0.5)) == {"Oslo", "Ås"}


STRANGE = {
    "nothing": [],
    "one": [b"Oslo"],
    "all that begin alike": [b"Os" + bytes([65 + i]) for i in range(26)],
    "thousands": [f"{i:05d}".encode() for i in range(3000)],
    "with an end inside": [b"Oslo\x00", b"\x00"],
}


@pytest.mark.parametrize("before", STRANGE)
@pytest.mark.parametrize("after", STRANGE)
def test_a_person_moves_each_letter_by_no_more_than_is_said(before: str, after: str) -> None:
    others = [(0, b"Oslo"), (0, b"Bergen"), (1, b"Osaka"), (3, b"Oslo")]
    for letter, beginnings in ((0, [b""]), (2, [b"Os", b"Be", b"00"])):
        sums = []
        for mine in (STRANGE[before], STRANGE[after]):
            pairs = sorted(others + [(2, value) for value in mine])
            person, values = np.array([p for p, _ in pairs]), [value for _, value in pairs]
            sums.append(_counts(person, values, beginnings, letter, 4).bounded("town"))
        assert np.linalg.norm(sums[0].value - sums[1].value) <= sums[0].sensitivity
        assert sums[0].sensitivity == pytest.approx(np.sqrt(2.0))


def test_the_fit_pays_for_what_it_finds_from_the_one_declared_budget(tmp_path: Any) -> None:
    budget = Budget(4.0, 1e-6)
    ledger = DurableLedger(tmp_path / "l.db", create=True).open_population("all", budget)
    model = cg.PrivateFedRep(rank=1, epsilon=4.0, n_rounds=2).fit(people(3000, towns), ledger=ledger)
    board = model.billboard_
    assert board.schema is not None
    assert "Oslo" in board.schema.features[2].values
    assert board.feature_names == board.schema.feature_names
    assert board.statement.epsilon == 4.0
    assert 3.9 < board.statement.epsilon_spent <= 4.0
    spent = compose(event.mu for event in board.statement.events if event.name.startswith("values of town"))
    assert spent <= budget.mu * DISCOVERY_SHARE**0.5
    assert float(ledger.account().charged) == pytest.approx(compose(e.mu for e in board.statement.events) ** 2)
    assert model.n_features_in_ == board.n_features
    cg.Billboard.load(board.save(tmp_path / "board"))


def test_where_nothing_stands_out_the_column_is_ignored_or_the_fit_refused() -> None:
    rare = people(200, lambda rng, n: [f"v{i}" for i in range(n)])
    model = cg.SingleModel(epsilon=0.1, simulation_seed=0)
    assert model.fit(rare).billboard_.feature_names == ("x", "z")
    alone = Unencoded(
        cg.Users, rare._source, rare._ids, cg.Schema((*SCHEMA.columns[:2], SCHEMA.columns[4])), 2**30, rare._scratch
    )  # fmt: skip
    with pytest.raises(InputError, match="no value of any category stands out"):
        model.fit(alone)


def test_who_cannot_set_a_share_aside_says_so_before_anything_is_spent() -> None:
    some = people(50, towns)
    with pytest.raises(InputError, match="needs more than 2 features, and 2 are there whatever"):
        cg.PrivateFedRep(rank=2).fit(some)
    for model in (cg.ExponentialSubspace(rank=1, epsilon=1.0), cg.PrivateFedRep(1, budgets=np.ones(50))):
        with pytest.raises(InputError, match="takes a share of one"):
            model.fit(some)


def test_a_table_is_opened_for_one_fit() -> None:
    """Rows on disk have one place: a second fit would read the first one's rows at another width, as other people's."""
    users = people(300, towns)
    cg.PrivateFedRep(1, 4.0, simulation_seed=1).fit(users)
    with pytest.raises(InputError, match="opened for one fit"):
        cg.PrivateFedRep(1, 4.0, simulation_seed=1).fit(users)


@pytest.mark.parametrize("wrong", [{"recipe": "papr"}, {"rank": np.int64(5)}, {"epsilon": 1e-4}])
def test_nothing_is_charged_where_the_fit_cannot_go_on(wrong: dict[str, Any], tmp_path: Any) -> None:
    payer = DurableLedger(tmp_path / "l.db", create=True).open_population("all", Budget(9.0, 1e-5))
    with pytest.raises((InputError, cg.errors.BudgetError)):
        cg.PrivateFedRep(**{"rank": 1, "epsilon": 4.0, **wrong}).fit(people(300, towns), ledger=payer)
    assert float(payer.account().charged) == 0.0


def test_a_value_whose_feature_name_is_taken_is_left_out() -> None:
    assert _of_new_names({"a": ("b=c", "d"), "a=b": ("c", "e")}, {"x", "a=d"}) == {"a": ("b=c",), "a=b": ("e",)}


def test_missing_cells_of_a_column_to_discover_have_a_name_that_is_taken() -> None:
    """Else the fit would be refused for a name that occurs twice, after discovery was paid for."""
    schema = cg.Schema(
        (*SCHEMA.columns, cg.Column("town=Oslo", kind="category", values="discover", missing="indicator"))
    )
    taken = _names_there_may_be(schema)
    assert {"town is missing", "town=Oslo is missing", "x", "z"} == taken
    assert _of_new_names({"town": ("Oslo is missing", "Oslo")}, taken) == {"town": ("Oslo",)}


@pytest.mark.parametrize("column", ["x", "y"])
def test_a_cell_that_overflows_by_its_scale_is_told_before_anything_is_charged(column: str) -> None:
    """1.7e308 is a number, and 1.7e308 / 0.01 is none: that was found when rows were made, after discovery was paid for."""
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"who": np.repeat(np.arange(300), 3), "town": "Oslo"})
    frame = frame.assign(x=rng.standard_normal(900), y=rng.standard_normal(900))
    frame.loc[5, column] = 1.7e308
    schema = cg.Schema(
        (SCHEMA.columns[0], cg.Column("y", "label", scale=0.01), cg.Column("x", scale=0.01), SCHEMA.columns[4])
    )
    with pytest.raises(InputError, match=f"'{column}': row 5 .* is not a finite number"):
        cg.Users.from_table(frame, schema=schema)
