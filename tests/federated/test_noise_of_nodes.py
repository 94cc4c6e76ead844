"""trust="nodes": how much noise there is, who is protected by how much of it, and what remains when nodes vanish."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import chi2

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.gaussian import gaussian_delta
from commonground.clipping.bounded import BoundedSum
from commonground.errors import BudgetError, InputError
from commonground.federated.federation import Federation
from commonground.federated.guarantee import NoiseShares, epsilon_to_the_server
from commonground.federated.questions import Noised, Question
from commonground.federated.wire import pack_question, unpack
from commonground.gate import Gate, Randomness, ScatteredSum, randomness_from
from commonground.gate.release import release
from commonground.gate.scattered import release_scattered
from commonground.ledger import InMemoryLedger
from commonground.statistics.directions import Directions
from federation_in_process import InProcess, nodes_of
from populations import mean_model


class OpenLedger(InMemoryLedger):
    def __init__(self) -> None:
        super().__init__(Budget(1000.0, 1e-6))


def looks_like(draws: np.ndarray, std: float) -> bool:
    """Two-sided chi-square test of the variance; false-alarm rate 1e-6."""
    statistic = (draws**2).sum() / std**2
    return bool(chi2.ppf(5e-7, len(draws)) < statistic < chi2.ppf(1 - 5e-7, len(draws)))


def scattered(shares: int, parts: int, sensitivity: float = 3.0, entries: int = 3000) -> ScatteredSum:
    def collect(mu: float) -> tuple[np.ndarray, int]:
        own = [release(BoundedSum(np.zeros(entries), sensitivity, "z"), mu, OpenLedger(), Randomness()).value]
        own += [
            release(BoundedSum(np.zeros(entries), sensitivity, "z"), mu, OpenLedger(), Randomness()).value
            for _ in range(parts - 1)
        ]
        return sum(own[1:], own[0].copy()), parts

    return ScatteredSum("zeros", sensitivity, (entries,), shares, collect)


@pytest.mark.statistical
@pytest.mark.parametrize(("shares", "parts"), [(1, 1), (3, 3), (3, 4), (4, 4)])
def test_noise_of_all_parts_together(shares: int, parts: int) -> None:
    """The stated σ is accepted, 2/3 and 3/2 of it are rejected (false alarms 1e-6 each); it is at least what μ needs."""
    book = OpenLedger()
    public = release_scattered(scattered(shares, parts), 0.5, book, Randomness())
    assert looks_like(public.value, public.noise_std)
    assert not looks_like(public.value, 2 / 3 * public.noise_std)
    assert not looks_like(public.value, 3 / 2 * public.noise_std)
    assert public.noise_std == pytest.approx(3.0 / 0.5 * math.sqrt(parts / shares), rel=1e-5)
    assert public.event.supported
    (charged,) = book.events  # for the fewest parts that are published
    assert charged.supported
    assert charged.noise_std == pytest.approx(3.0 / 0.5, rel=1e-5)


@pytest.mark.statistical
def test_noise_of_one_node_and_of_all(users: cg.Users) -> None:
    """Through the real nodes: each message has a share of the variance (false alarms 1e-6 each)."""
    exact = Directions(mean_model(np.zeros(40), 0.0, False)).of(next(iter(users.blocks()))).bounded("d")
    messages = []
    link = InProcess(nodes_of(users, 3, "nodes", 500.0), lambda node, answer: messages.append(answer) or answer)
    federation = Federation(link, trust="nodes", tolerated=1)
    messages.clear()
    gate = Gate(OpenLedger(), Randomness())
    public = gate.release(federation.sum(Directions(mean_model(np.zeros(40), 0.0, False))).bounded("d"), 0.5)
    sigma = exact.sensitivity / 0.5
    assert looks_like(public.value - exact.value, sigma * math.sqrt(3 / 2))
    assert not looks_like(public.value - exact.value, sigma * math.sqrt(3 / 2) * 0.8)
    assert public.noise_std == pytest.approx(sigma * math.sqrt(3 / 2), rel=1e-5)
    for node, message in zip(link.members, messages, strict=True):
        own = Directions(mean_model(np.zeros(40), 0.0, False)).of(next(iter(node.users.blocks()))).bounded("d").value
        assert looks_like(unpack(message)[1]["value"] - own, sigma / math.sqrt(2))
    assert [event.mu for event in gate.events] == [0.5]
    for node in link.members:
        assert [event.mu for event in node.gate.ledger.events] == [0.5 * math.sqrt(2)]


@pytest.fixture(scope="module")
def users() -> cg.Users:
    return cg.datasets.make_shared_subspace(n_users=300, n_features=40, rank=2, seed=0)[0]


def test_all_nodes_bound_alike(users: cg.Users) -> None:
    """The room for rounding is that of all people, not of a node's: the server computes its σ from one number."""
    node = nodes_of(users, 3, "nodes", 500.0)[0]
    wanted = Noised("bounded", (), "d", 0.5, people=10**9)
    node.answer(pack_question(Question(Directions(mean_model(np.zeros(40))), wanted)))
    (event,) = node.gate.ledger.events
    assert event.sensitivity > math.sqrt(2) * 1.05


def test_the_charge_comes_before_the_question() -> None:
    poor = InMemoryLedger(Budget(0.1, 1e-6))

    def collect(mu: float) -> tuple[np.ndarray, int]:
        raise AssertionError("asked before it was paid")

    with pytest.raises(BudgetError, match="more than the declared"):
        release_scattered(ScatteredSum("z", 1.0, (3,), 2, collect), 1.0, poor, Randomness())
    with pytest.raises(AssertionError):
        release_scattered(ScatteredSum("z", 1.0, (3,), 2, collect), 0.01, poor, Randomness())
    assert len(poor.events) == 1, "a crash wastes budget, it never undercounts it"


@pytest.mark.parametrize(
    "broken",
    [
        ScatteredSum("z", math.inf, (3,), 2, lambda mu: (np.zeros(3), 2)),
        ScatteredSum("z", 0.0, (3,), 2, lambda mu: (np.zeros(3), 2)),
        ScatteredSum("z", 1.0, (3,), 0, lambda mu: (np.zeros(3), 2)),
        ScatteredSum("z", 1.0, (3,), 2, lambda mu: (np.zeros(3), 1)),
        ScatteredSum("z", 1.0, (3,), 2, lambda mu: (np.zeros(4), 2)),
        ScatteredSum("z", 1.0, (3,), 2, lambda mu: (np.full(3, np.nan), 2)),
    ],
    ids=["infinite sensitivity", "no sensitivity", "no shares", "too few parts", "other shape", "NaN"],
)
def test_what_is_not_protected_is_not_published(broken: ScatteredSum) -> None:
    with pytest.raises(BudgetError):
        release_scattered(broken, 0.01, OpenLedger(), Randomness())


def test_noise_of_nodes_is_never_simulated(users: cg.Users) -> None:
    with pytest.raises(BudgetError, match="cannot be simulated"):
        release_scattered(scattered(2, 2), 0.5, OpenLedger(), randomness_from(1))
    federation = Federation(InProcess(nodes_of(users, 2, "nodes")), trust="nodes")
    with pytest.raises(BudgetError, match="cannot be simulated"):
        cg.PrivateFedRep(2, 1.0, simulation_seed=1).fit(federation)


# ---- guarantees ----------------------------------------------------------------------------------------------------------


def every_case() -> Iterator[tuple[int, int, int, int]]:
    for nodes in (1, 2, 5):
        for tolerated in range(nodes):
            for arrived in range(1, nodes + 1):
                for colluding in range(arrived):
                    yield nodes, tolerated, arrived, colluding


def test_what_remains_by_counting_variances() -> None:
    """μ = Δ/σ with the variance of the shares that an observer does not know, added up one by one."""
    mu, sensitivity = 0.7, 2.0
    sigma = sensitivity / mu
    for nodes, tolerated, arrived, colluding in every_case():
        shares = NoiseShares(nodes, tolerated)
        share = sigma**2 / (nodes - tolerated)
        unknown = sum(share for _ in range(arrived - colluding))
        assert shares.cost_to_the_public(mu, arrived, colluding) == pytest.approx(sensitivity / math.sqrt(unknown))
        assert shares.cost_to_the_server(mu) == pytest.approx(sensitivity / math.sqrt(share))
        if arrived >= nodes - tolerated:
            assert shares.cost_to_the_public(mu, arrived) <= mu
    assert NoiseShares(3, 1).cost_to_the_public(mu, 2, 2) == math.inf
    with pytest.raises(InputError):
        NoiseShares(3, 3)


def test_the_servers_epsilon() -> None:
    budget = Budget(1.0, 1e-6)
    for nodes, tolerated in ((4, 0), (4, 1), (4, 3), (100, 10)):
        epsilon = epsilon_to_the_server(budget, NoiseShares(nodes, tolerated))
        assert gaussian_delta(budget.mu * math.sqrt(nodes - tolerated), epsilon) <= 1e-6
        assert gaussian_delta(budget.mu * math.sqrt(nodes - tolerated), epsilon * 0.999) > 1e-6


def test_nodes_that_allow_too_little_stop_the_training(users: cg.Users) -> None:
    """ε of the server's view is what the nodes must allow; a little less and they refuse before the end."""
    needed = epsilon_to_the_server(Budget(5.0, 1e-6), NoiseShares(2, 0))
    model = cg.PrivateFedRep(2, 5.0, shared_mean=False, n_rounds=2)
    model.fit(Federation(InProcess(nodes_of(users, 2, "nodes", needed * 1.000001)), trust="nodes"))
    with pytest.raises(cg.errors.CommongroundError):
        model.fit(Federation(InProcess(nodes_of(users, 2, "nodes", needed * 0.99)), trust="nodes"))
