"""Whole-number costs of shares against Python's integers, and the claim that they cover what a person can be charged."""

import math
import random
import uuid
from fractions import Fraction

import numpy as np
import pytest

from commonground.accounting.budgets import Budget
from commonground.accounting.costs import cost_of
from commonground.accounting.events import GaussianEvent, epsilon_spent
from commonground.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_epsilons, gaussian_mus
from commonground.accounting.personal import PersonalBudgets
from commonground.errors import InputError
from commonground.ledger.digests import Directory, digests
from commonground.ledger.shares import (
    STEPS,
    UNIT,
    cost_table,
    room_for,
    steps_within,
    units_above,
    units_of,
    units_within,
    weights_of,
    within_room,
)

SALT = b"0123456789abcdef"


@pytest.mark.parametrize(
    "cost", [Fraction(1, 3), cost_of(0.8), cost_of(1e-5), Fraction(1023), Fraction(0), cost_of(31.7)]
)
def test_the_table_is_exact(cost: Fraction) -> None:
    table = cost_table(cost)
    assert len(table) == STEPS + 1
    for q in [0, 1, 2, 3, STEPS - 1, STEPS, *random.Random(0).sample(range(STEPS), 2000)]:
        assert int(table[q]) == -(-(q * q * units_of(cost)) // STEPS**2) >= q * q * cost * UNIT / STEPS**2


def test_limits_never_allow_more_than_their_epsilon() -> None:
    """And who has the whole of a budget left affords a fit that declares it, from ε = 0.01 on."""
    for delta in (1e-9, 1e-6, 1e-3):
        epsilons = np.geomspace(1e-4, 200, 400)
        mus = gaussian_mus(epsilons, delta)
        for epsilon, mu, units in zip(epsilons, mus, units_within(mus).tolist(), strict=True):
            assert gaussian_delta(math.sqrt(units / UNIT), epsilon) <= delta
            assert units_of(cost_of(mu)) <= units_above(np.array([mu]))[0]
            assert epsilon < 0.01 or units >= units_above(np.array([mu]))[0]


def test_steps_are_the_most_that_is_left() -> None:
    table, room = cost_table(cost_of(0.4)), 3
    left = np.random.default_rng(0).integers(0, units_of(cost_of(0.5)), 5000)
    steps = steps_within(table, left, np.full(5000, STEPS), room)
    assert (table[steps] <= left).all()
    more = (steps > 0) & (steps < STEPS)
    assert more.sum() > 3000
    assert (table[steps[more] + 1] > left[more]).all()
    assert not ((steps > 0) & (steps <= room)).any()
    assert (steps_within(table, left, np.full(5000, 1000), room) <= 1000).all()
    assert (steps_within(table, left, np.zeros(5000), room) == 0).all()


@pytest.mark.parametrize("n_users", [300, 10_000_000])
def test_what_is_paid_covers_every_release(n_users: int) -> None:
    """For random fits of releases: her exact cost, by ``PersonalBudgets.spent``'s formula, is at most what she pays."""
    from commonground.clipping.bounded import rounding_margin

    rounding, chance = rounding_margin(n_users), random.Random(n_users)
    room = room_for(rounding)
    for _ in range(200):
        mus = [10 ** chance.uniform(-3, 0) for _ in range(chance.randint(1, 9))]
        entries = [chance.randint(1, 10 ** chance.randint(1, 6)) for _ in mus]
        charged = sum((cost_of(mu) for mu in mus), Fraction(0))
        q = chance.choice([room + 1, STEPS, chance.randint(room + 1, STEPS)])
        weight = Fraction(float(weights_of(np.array([q]), room)[0]))
        exact = sum(
            float(min(1, weight + Fraction(rounding) + Fraction(2.0**-39 * math.sqrt(m) / mu)) * Fraction(mu)) ** 2
            for mu, m in zip(mus, entries, strict=True)
        )
        if within_room(charged, sum(entries)):
            paid = -(-(q**2 * units_of(charged)) // STEPS**2)
            assert exact <= paid / UNIT * (1 + 1e-12)
    assert within_room(Fraction(1), 2**38)
    assert not within_room(Fraction(1), 2**38 + 1)


def test_weights_agree_with_personal_budgets() -> None:
    """Without a history, everybody counts as much as ``budgets=`` lets her, up to two steps for whole-number room."""
    own = np.linspace(0.05, 1.0, 300)
    mus, rounding = gaussian_mus(own, 1e-6), 1e-9
    table, room = cost_table(cost_of(mus[-1])), room_for(rounding)
    steps = steps_within(table, units_within(mus), np.full(300, STEPS), room)
    ours, plain = weights_of(steps, room), PersonalBudgets(own, 1e-6, rounding).weights
    assert ours[-1] == plain[-1] == 1.0
    assert (np.abs(ours - plain) <= 2 / STEPS).all()
    assert (ours[:-1] < 1.0).all()


def test_many_epsilons_at_once() -> None:
    mus = np.concatenate([[0.0], np.geomspace(1e-7, 20, 200)])
    assert gaussian_epsilons(mus, 1e-6).tolist() == [gaussian_epsilon(mu, 1e-6) for mu in mus]


def test_a_share_costs_its_square() -> None:
    """Against the accountant: half of a fit of μ costs the ε of a release with half its μ."""
    whole = Budget(1.0, 1e-6).mu
    half = int(cost_table(cost_of(whole))[STEPS // 2])
    expected = epsilon_spent([GaussianEvent("half", whole / 2, 1.0, 2 / whole * 1.01, 1, False)], 1e-6)
    assert gaussian_epsilon(math.sqrt(half / UNIT), 1e-6) == pytest.approx(expected, rel=1e-9)


def test_ids_keep_their_types() -> None:
    ids = [
        7,
        "7",
        b"7",
        7.5,
        "7.5",
        (7,),
        ("7",),
        (1, 23),
        (12, 3),
        uuid.UUID(int=7),
        "",
        -7,
        ("a", ("b",)),
        ("a", "b"),
    ]
    found = digests(ids, SALT)
    assert len(np.unique(found, axis=0)) == len(ids)
    assert (digests([7.0, np.int64(7), np.float32(7), True and 7], SALT) == found[0]).all()
    assert (digests(np.array(["7"]), SALT) == found[1]).all()
    for kind in (["", "a", "ä"], [3, -4, 10**30]):  # ways of their own for one type alone
        assert (digests(kind, SALT) == digests([*kind, (1,)], SALT)[:3]).all()
    assert (digests([7], b"another salt 16!") != found[0]).any()
    with pytest.raises(InputError, match="an id of type list"):
        digests([[7]], SALT)


def test_people_are_found_also_where_digests_share_their_first_half() -> None:
    known = np.array([[5, 1], [2, 9], [5, 3], [5, 2], [7, 0]], dtype=np.uint64)
    directory = Directory.of(known)
    asked = np.array([[5, 3], [5, 4], [7, 0], [2, 9], [9, 9], [5, 1], [1, 1]], dtype=np.uint64)
    assert directory.find(asked).tolist() == [2, -1, 4, 1, -1, 0, -1]
    assert directory.repeated() == 0
    assert Directory.of(known[[0, 1, 0]]).repeated() == 1


def test_many_people_are_found() -> None:
    ids = np.random.default_rng(0).permutation(300_000)
    directory = Directory.of(digests(ids, SALT))
    asked = np.array([3, 299_999, 300_000, 17])
    positions = directory.find(digests(asked, SALT))
    assert positions[2] == -1
    assert ids[positions[[0, 1, 3]]].tolist() == [3, 299_999, 17]
