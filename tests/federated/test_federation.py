"""One machine and several nodes are the same training; what a node gives out, and what the server believes."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, MessageType, Metadata, RecordDict
from flwr.app.message import make_message

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.cli.federate import dealt_out
from commonground.clipping.sums import BinnedSums, DirectionSums, SizeCounts
from commonground.data.users import Block
from commonground.errors import BudgetError, InputError
from commonground.federated.checks import ImpossibleError, checked_sums, nobody
from commonground.federated.federation import Federation, FederationError, added
from commonground.federated.flower import client_app
from commonground.federated.node import Node, node_of
from commonground.federated.questions import CATALOGUE, METHODS, Noised, Question
from commonground.federated.wire import INTRODUCE, WireError, pack, pack_question, unpack, unpack_question
from commonground.gate import Gate, randomness_from
from commonground.ledger import InMemoryLedger
from commonground.statistics.answers import AnswerShares, ToldShares
from commonground.statistics.convex_gradients import ConvexGradients, SignedLabels
from commonground.statistics.coordinates import FeatureMoments, InCoordinates, ScaleProfiles
from commonground.statistics.directions import Directions, DirectionsWithin, FeatureEnergies
from commonground.statistics.embedding_moments import EmbeddingMoments, EmbeddingMomentSizes
from commonground.statistics.gradients import EmbeddingGradients, MeanFeatures, MeanGradients
from commonground.statistics.labels import LabelEnergies, LabelMeans, LabelPlaces, LabelsInUnit
from commonground.statistics.margins import MarginScores
from commonground.statistics.own_heads import HeadDirections, HeadNoise, LabelNoise
from commonground.statistics.posterior import PosteriorGradients, PosteriorMoments
from commonground.statistics.residuals import ResidualGradients
from commonground.statistics.rows import RowCounts
from commonground.statistics.statistic import SharedModel, Statistic
from commonground.statistics.whitened import BestGuesses, MissedSizes
from federation_in_process import InProcess, dealt, nodes_of
from populations import mean_model, ragged_block, replace_person, strange_people

D, K = 6, 2
U = np.linalg.qr(np.random.default_rng(5).standard_normal((D, K)))[0]
W0 = np.full(D, 0.1)
MODEL, WITHOUT_MEAN = SharedModel(U, W0, 0.5, True), SharedModel(U, own_intercept=True)
KNOWN = replace(MODEL, spread=np.diag([2.0, 1.0, 0.5]), noise=0.3)
# Every question there is, with public values.
ASKED: dict[str, Statistic[Any]] = {
    type(statistic).__name__: statistic
    for statistic in (
        AnswerShares(),
        ConvexGradients(MODEL, "huber", False, 110),
        Directions(mean_model(W0, 0.5, True)),
        DirectionsWithin(mean_model(W0, 0.5, True), U),
        EmbeddingGradients(WITHOUT_MEAN, 110),
        EmbeddingMomentSizes(SharedModel(U, W0, 0.5, False)),
        EmbeddingMoments(WITHOUT_MEAN, 0.5),
        FeatureEnergies(True),
        FeatureMoments(True),
        HeadDirections(MODEL),
        HeadNoise(SharedModel(U)),
        LabelEnergies(MODEL),
        LabelMeans(MODEL, 110),
        LabelPlaces(MODEL),
        LabelsInUnit(LabelMeans(MODEL, 110), 4.0, 2007.0),
        LabelNoise(MODEL),
        PosteriorGradients(KNOWN, False, 0.0, 110, 12.0),
        PosteriorMoments(KNOWN),
        InCoordinates(np.diag(np.arange(1.0, D + 1)), EmbeddingGradients(WITHOUT_MEAN, 110)),
        MeanFeatures(115),
        MeanGradients(mean_model(W0, 0.5, True), 1.0, 110, W0),
        ResidualGradients(MODEL, 110),
        RowCounts(),
        ScaleProfiles(W0, True, 110),
        SignedLabels(MeanGradients(mean_model(W0, 0.5, True), 1.0, 110)),
        ToldShares(replace(KNOWN, noise=1.0, log_odds=True), 0.1, 110),
        BestGuesses(WITHOUT_MEAN),
        MissedSizes(WITHOUT_MEAN),
    )
}


def people(seed: int = 0, n_users: int = 300, d: int = D) -> cg.Users:
    return cg.datasets.make_shared_subspace(n_users=n_users, n_features=d, rank=K, seed=seed)[0]


@pytest.fixture(scope="module")
def users() -> cg.Users:
    return people()


# ---- the same training -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        cg.PrivateFedRep(2, 5.0, n_rounds=4, simulation_seed=3),
        cg.PrivateFedRep(2, 5.0, shared_mean=False, fit_intercept=False, n_rounds=2, simulation_seed=3),
        cg.PrivateAltMin(2, 5.0, n_rounds=4, simulation_seed=3),
        cg.PrivateAltMin(2, 5.0, n_rounds=4, loss="huber", simulation_seed=3),
        cg.PrivateAltMin(2, 5.0, n_rounds=2, loss="logistic", simulation_seed=3),
        cg.SingleModel(5.0, simulation_seed=3),
    ],
    ids=["FedRep", "FedRep without mean", "AltMin", "AltMin, Huber", "AltMin, logistic", "one model"],
)
def test_the_same_billboard_as_on_one_machine(users: cg.Users, model: Any) -> None:
    here = model.fit(users).billboard_
    there = model.fit(Federation(InProcess(nodes_of(users, 3)))).billboard_
    np.testing.assert_allclose(there.embedding, here.embedding, rtol=0, atol=1e-9)
    if here.mean is not None:
        np.testing.assert_allclose(there.mean, here.mean, rtol=0, atol=1e-9)
    assert [(e.name, e.mu, e.entries) for e in there.statement.events] == [
        (e.name, e.mu, e.entries) for e in here.statement.events
    ]
    assert model.heads_ is None, "heads are the nodes' business"
    assert "Rows stayed at 3 nodes" in str(there.statement)
    assert "All nodes took part in every sum. Which nodes answered in time is public" in str(there.statement)
    assert "trusted" in str(there.statement)


@pytest.mark.parametrize("model", [cg.PrivateFedRep(2, 5.0, n_rounds=4), cg.SingleModel(5.0), cg.PrivateAltMin(2, 5.0)])
def test_labels_in_a_unit_and_rows_in_coordinates_are_not_too_much_to_ask(users: cg.Users, model: Any) -> None:
    """All that a question can hold at once: a unit and a zero, coordinates and a centre, and a model with all of its parts."""
    rows = next(users.blocks())
    label, features = cg.Column("y", "label", range=(2000, 2010)), (cg.Column(f"x{n}") for n in range(D))
    schema = cg.Schema((cg.Column("who", "person"), label, *features))
    ranged = cg.Users.from_arrays(rows.X, rows.y + 2005.0, rows.person_of_row, schema=schema)
    here = model.set_params(simulation_seed=3).fit(ranged).billboard_
    nodes = nodes_of(ranged, 3)
    for node in nodes:
        node.users.schema = schema
    there = model.fit(Federation(InProcess(nodes))).billboard_
    assert there.intercept == pytest.approx(here.intercept)
    assert 2000 < there.intercept < 2010


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_sum_is_that_of_one_machine(users: cg.Users, name: str) -> None:
    federation = Federation(InProcess(nodes_of(users, 3)))
    there, here = (who.sum(ASKED[name]) for who in (federation, users))
    assert type(there) is type(here)
    for field, value in vars(here).items():
        if value is None:
            assert vars(there)[field] is None
        else:
            np.testing.assert_allclose(vars(there)[field], value, rtol=1e-9, atol=1e-9)


MARGINS = MarginScores(np.zeros((1, 2, 1)), np.zeros((2, D)), False, 0.1, 1.0, 1.0)


def test_what_is_not_built_is_refused(users: cg.Users) -> None:
    federation = Federation(InProcess(nodes_of(users, 2)))
    with pytest.raises(InputError, match="personal budgets"):
        cg.PrivateFedRep(2, budgets=np.ones(300)).fit(federation)
    with pytest.raises(InputError, match="cannot be asked"):
        federation.sum(MARGINS)
    with pytest.raises(InputError, match="cannot be asked"):
        federation.sum(InCoordinates(W0, MARGINS))
    with pytest.raises(InputError, match="rows are at their nodes"):
        federation.blocks()


def test_nodes_that_do_not_fit_together(users: cg.Users) -> None:
    two = nodes_of(users, 2)
    with pytest.raises(FederationError, match="different features"):
        Federation(InProcess([two[0], node_of(people(d=D + 1), "odd", "server", None, 1e-6)]))
    with pytest.raises(FederationError, match="under trust='server' only"):
        Federation(InProcess(two), trust="nodes")
    with pytest.raises(FederationError, match="no node"):
        Federation(InProcess(two, lambda node, answer: None))
    with pytest.raises(InputError, match="Tolerate from 0 to 1"):
        Federation(InProcess(nodes_of(users, 2, "nodes")), trust="nodes", tolerated=2)


# ---- what a node gives out -------------------------------------------------------------------------------------------


def ask(node: Node, question: Question) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return unpack(node.answer(pack_question(question)))


def noised(mu: float = 0.1, method: str = "bounded", n: int = 300) -> Noised:
    return Noised(method, (), "sizes", mu, n)


def test_a_node_of_trust_nodes_never_gives_an_exact_sum(users: cg.Users) -> None:
    node = nodes_of(users, 1, "nodes")[0]
    assert ask(node, Question(FeatureEnergies(True))) == (
        {"refused": "it gives sums out under trust='nodes' only"},
        {},
    )
    config, arrays = ask(node, Question(FeatureEnergies(True), noised()))
    assert config == {"people": 300}
    exact = users.sum(FeatureEnergies(True)).counts
    assert not np.isin(arrays["value"], exact).any()
    assert set(arrays) == {"value"}


@pytest.mark.parametrize(
    "question",
    [
        Question(MARGINS),
        Question(FeatureEnergies(True), noised(method="__init__")),
        Question(FeatureEnergies(True), noised(method="__repr__")),
        Question(FeatureEnergies(True), noised(n=299)),
        Question(FeatureEnergies(True), noised(mu=np.inf)),
        Question(FeatureEnergies(True), noised(mu=np.nan)),
        Question(FeatureEnergies(True), noised(mu=-1.0)),
        Question(FeatureEnergies("canary"), noised()),
        Question(ResidualGradients(SharedModel(U[:3], W0, 0.0, True), 110), noised(method="histogram")),
        Question(ResidualGradients(SharedModel(U, W0[:3], 0.0, True), 110), noised(method="histogram")),
        Question(ResidualGradients(SharedModel(U.astype(np.float32), W0, 0.0, True), 110), noised(method="histogram")),
        Question(ResidualGradients(SharedModel(U[..., None], W0, 0.0, True), 110), noised(method="histogram")),
    ],
    ids=lambda question: f"{type(question.statistic).__name__} {question.noised}",
)
def test_a_node_answers_what_it_knows_and_nothing_else(users: cg.Users, question: Question) -> None:
    node = nodes_of(users, 1, "nodes")[0]
    config, arrays = ask(node, question)
    assert list(config) == ["refused"]
    assert arrays == {}
    assert node.gate.ledger.events == ()  # type: ignore[union-attr]


def test_a_node_keeps_its_own_budget(users: cg.Users) -> None:
    """It pays before it draws, and stops whatever the server says; what it spent is what its answers cost."""
    node = nodes_of(users, 1, "nodes", epsilon=1.0)[0]
    mu = Budget(1.0, 1e-6).mu / 2
    answers = [ask(node, Question(FeatureEnergies(True), noised(mu=mu)))[0] for _ in range(6)]
    assert [("refused" in answer) for answer in answers] == [False] * 3 + [True] * 3 or [
        ("refused" in answer) for answer in answers
    ] == [False] * 4 + [True] * 2
    assert answers[-1] == {"refused": "its own budget does not allow it"}
    assert all(event.mu == mu and event.supported for event in node.gate.ledger.events)  # type: ignore[union-attr]


def test_a_node_that_fails_does_not_say_why(users: cg.Users, caplog: pytest.LogCaptureFixture) -> None:
    """Flower would send the text of an exception to the server, and such a text may hold a value."""

    class Broken(cg.Users):
        def blocks(self, max_bytes: int | None = None) -> Any:
            raise ValueError("row 7 holds 8675309.25")

    part = dealt(users, 1)[0]
    part.__class__ = Broken
    answer = Node(part, "clinic").answer(pack_question(Question(FeatureEnergies(True))))
    assert unpack(answer)[0] == {"refused": "it failed; the reason is in its own log"}
    assert "8675309.25" in caplog.text


def test_a_node_needs_a_budget_for_noise_of_its_own(users: cg.Users) -> None:
    with pytest.raises(InputError, match="budget of its own"):
        Node(users, "clinic", "nodes")
    with pytest.raises(InputError, match="trust of a node"):
        Node(users, "clinic", "everybody")
    with pytest.raises(InputError, match="cannot be simulated"):
        Node(users, "clinic", "nodes", Gate(InMemoryLedger(Budget(1.0, 1e-6)), randomness_from(0)))


def test_the_app_for_flowers_own_commands(users: cg.Users, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It serves exact sums only (a budget of its own would begin anew with every process), and keeps its errors to itself."""
    (table,) = dealt_out(users, 1, tmp_path, "user_id", "y")

    def app(**config: str) -> dict[str, Any]:
        context = Context(1, 2, dict(config), RecordDict({}), {})
        message = make_message(Metadata(1, "id", 1, 2, "", "", 1.0, 60.0, MessageType.QUERY), question)
        return unpack(client_app(message, context).content)[0]

    question = pack_question(Question(FeatureEnergies(True)))
    assert app(table=str(table)) == {"people": 300}
    for wrong in ({"table": str(table), "trust": "nodes"}, {"table": "nowhere.csv"}, {}):
        assert app(**wrong) == {"refused": "it failed; the reason is in its own log"}
    assert "nowhere.csv" in caplog.text


# ---- what the server believes ------------------------------------------------------------------------------------------


def arrays_of(sums: Any) -> dict[str, np.ndarray]:
    return {name: value.copy() for name, value in vars(sums).items() if isinstance(value, np.ndarray)}


def spoil(
    field: str, how: Callable[[np.ndarray], np.ndarray]
) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    return lambda arrays: {**arrays, field: how(arrays[field])}


def one(at: tuple[int, ...], value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array[at] = value
        return array

    return change


SPOILED = {
    "NaN": ("Directions", spoil("value", one((0, 1), np.nan))),
    "infinite": ("EmbeddingGradients", spoil("raw", one((3, 0, 0), np.inf))),
    "wrong shape": ("Directions", spoil("value", lambda a: a[:-1, :-1])),
    "wrong type": ("FeatureEnergies", spoil("counts", lambda a: a.astype(np.float32))),
    "an array too many": ("FeatureEnergies", lambda arrays: {**arrays, "rows": np.zeros(3)}),
    "an array too few": ("EmbeddingGradients", lambda arrays: {"counts": arrays["counts"]}),
    "directions too long": ("Directions", spoil("value", lambda a: 3 * a)),
    "not positive": ("Directions", spoil("value", lambda a: -a)),
    "not symmetric": ("EmbeddingMoments", spoil("value", one((0, 1), 1e3))),
    "moments too large": ("EmbeddingMoments", spoil("value", lambda a: 1e4 * a)),
    "raw too large": ("EmbeddingGradients", spoil("raw", lambda a: 1e6 * a)),
    "unit too large": ("EmbeddingGradients", spoil("unit", lambda a: 1e3 * a)),
    "someone where nobody is": ("EmbeddingGradients", spoil("unit", one((0, 0, 0), 1.0))),
    "half a person": ("FeatureEnergies", spoil("counts", one((5,), 0.5))),
    "fewer than nobody": ("FeatureEnergies", spoil("counts", lambda a: a - 1)),
    "people who are not there": ("EmbeddingGradients", spoil("counts", lambda a: a + 1)),
}


@pytest.mark.parametrize("fault", SPOILED)
def test_an_impossible_sum_is_refused(users: cg.Users, fault: str) -> None:
    name, change = SPOILED[fault]
    template = ASKED[name].of(nobody(D))
    honest = arrays_of(users.sum(ASKED[name]))
    checked_sums(template, honest, 300)
    with pytest.raises(ImpossibleError) as refused:
        checked_sums(template, change(honest), 300)
    assert not any(character.isdigit() for character in str(refused.value)), "the reason holds no number"


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_honest_node_is_never_refused(name: str, dtype: type) -> None:
    """Whatever its people's rows are: else a refusal would tell something about them."""
    block = ragged_block(1, n_users=40, d=D, low=1, high=12)
    for person, (X, y) in enumerate(strange_people(D).values()):
        block = replace_person(block, person, X, y)
    with np.errstate(all="ignore"):
        block = replace(block, X=block.X.astype(dtype), y=block.y.astype(dtype))
        template = ASKED[name].of(nobody(D))
        for start in range(-1, 40, 3):  # all of them, and a few of the strange ones by themselves
            part = block if start < 0 else people_of(block, start, 3)
            sums = ASKED[name].of(part)
            checked_sums(template, arrays_of(sums), part.n_users)


def people_of(block: Block, start: int, n: int) -> Block:
    offsets = block.offsets[start : start + n + 1]
    rows = slice(offsets[0], offsets[-1])
    return Block(block.X[rows], block.y[rows], offsets - offsets[0], first=0)


def test_clips_and_windows_are_the_servers() -> None:
    """A node cannot change what a sum is said to be: only its arrays travel."""
    template = ASKED["EmbeddingMoments"].of(nobody(D))
    sums = checked_sums(template, {"value": np.zeros_like(template.value)}, 7)
    assert (sums.clip_norm, sums.n_users) == (0.5, 7)


NONSENSE: dict[str, Callable[[dict[str, Any], dict[str, np.ndarray]], RecordDict]] = {
    "NaN": lambda config, arrays: pack(config, {name: np.full_like(array, np.nan) for name, array in arrays.items()}),
    "huge": lambda config, arrays: pack(config, {name: 1e12 * array for name, array in arrays.items()}),
    "other people": lambda config, arrays: pack({"people": config["people"] + 1}, arrays),
    "a refusal": lambda config, arrays: pack({"refused": "it does not feel like it"}),
    "not a message": lambda config, arrays: RecordDict({}),
}


@pytest.mark.parametrize("trust", ["server", "nodes"])
@pytest.mark.parametrize("what", NONSENSE)
def test_an_answer_that_cannot_be_stops_the_training(users: cg.Users, trust: str, what: str) -> None:
    """To go on without the node would publish that it was left out. The error names the node and no number of its answer."""

    def nonsense(node: int, answer: RecordDict) -> RecordDict:
        return NONSENSE[what](*unpack(answer)) if node == 1 and link.asked == 3 else answer

    link = InProcess(nodes_of(users, 4, trust), nonsense)
    federation = Federation(link, trust=trust, tolerated=1 if trust == "nodes" else 0)
    book = InMemoryLedger(Budget(5.0, 1e-6))
    with pytest.raises(
        FederationError, match=r"clinic 1 was asked for ScaleProfiles and sent .* Training stops"
    ) as told:
        cg.PrivateFedRep(2, 5.0, shared_mean=False, n_rounds=2).fit(federation, ledger=book)
    assert not any(character.isdigit() for character in str(told.value).replace("clinic 1", ""))
    assert link.asked == 3, "nobody is asked after that"
    assert book.events, "what was paid stays spent"


def with_rows_of(users: cg.Users, X: np.ndarray, y: np.ndarray) -> cg.Users:
    """The same people, the first of whom has these rows instead."""
    parts = [(X, y), *(users.rows_of(person) for person in users.ids[1:])]
    who = np.repeat(users.ids, [len(labels) for _, labels in parts])
    return cg.Users.from_arrays(np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts]), who)


@pytest.mark.parametrize("size", [1.45, 1.0, 2.9, 1e162, 1e-160])
def test_nobodys_rows_are_told_by_which_nodes_took_part(size: float) -> None:
    """Labels so small that the squared norm of a contribution is subnormal once made an honest node impossible: its people were
    left out, and the statement said so. Now there is no sentence for it: all take part, or nothing is published."""
    x = np.full(D, size)
    x[0] *= 1.15
    strange = with_rows_of(people(n_users=600), np.stack([x / 2, -x / 2]), np.array([1e-162, -1e-162]))
    told = "nothing is published"
    with contextlib.suppress(FederationError):
        told = str(cg.PrivateFedRep(2, 1.0).fit(Federation(InProcess(nodes_of(strange, 2)))).billboard_.statement)
    assert told == "nothing is published" or "All nodes took part in every sum" in told
    assert "missing" not in told


# ---- nodes that vanish -------------------------------------------------------------------------------------------------


def vanishing(users: cg.Users, trust: str, nodes: int, gone: set[int]) -> InProcess:
    """They answer the introduction and two questions."""
    link = InProcess(nodes_of(users, nodes, trust), lambda node, answer: None if late() and node in gone else answer)

    def late() -> bool:
        return link.asked > 3

    return link


@pytest.mark.parametrize(("trust", "tolerated"), [("server", 0), ("nodes", 1)])
def test_training_goes_on_without_a_node_that_vanished(users: cg.Users, trust: str, tolerated: int) -> None:
    link = vanishing(users, trust, 3, {1})
    federation = Federation(link, trust=trust, tolerated=tolerated)
    board = cg.PrivateFedRep(2, 5.0, shared_mean=False, n_rounds=2).fit(federation).billboard_
    assert federation.attendance.answered[:3] == [3, 3, 2]
    assert [member.name for member in federation.attendance.present] == ["clinic 0", "clinic 2"]
    text = str(board.statement)
    assert "fewest people in one of them were 200" in text
    assert "Which nodes answered in time is public and is not covered by ε" in text
    assert board.statement.epsilon_spent <= 5.0
    if trust == "nodes":
        assert "the answers of any 2 of the 3 nodes have all of it" in text
        assert "at most 1.414 times the stated μ" in text


def test_training_stops_when_too_much_noise_vanished(users: cg.Users) -> None:
    """With less than the declared noise nothing is published, and what was charged stays charged."""
    federation = Federation(vanishing(users, "nodes", 3, {0, 1}), trust="nodes", tolerated=1)
    book = InMemoryLedger(Budget(5.0, 1e-6))
    with pytest.raises(BudgetError, match="1 noised parts arrived and 2 are needed"):
        cg.PrivateFedRep(2, 5.0, shared_mean=False, n_rounds=2).fit(federation, ledger=book)
    assert [event.name for event in book.events] == [
        "feature scales 1: sizes",
        "feature scales 1: clipped sum",
        "feature scales 2: sizes",
    ]


def test_training_stops_when_everybody_vanished(users: cg.Users) -> None:
    federation = Federation(vanishing(users, "server", 2, {0, 1}))
    with pytest.raises(FederationError, match="no node answered"):
        cg.PrivateFedRep(2, 5.0, shared_mean=False, n_rounds=2).fit(federation)


# ---- the codec ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("noisily", [False, True])
def test_questions_survive_the_wire(name: str, noisily: bool) -> None:
    from federation_in_process import as_bytes, from_bytes

    statistic, wanted = ASKED[name], None
    if noisily:
        method = METHODS[statistic.innermost.gives][-1]
        wanted = Noised(method, (118,) if method == "clipped_at" else (), "round 1", 0.3, 99)
    back = unpack_question(*unpack(from_bytes(as_bytes(pack_question(Question(statistic, wanted))))), D, 99)
    assert (type(back.statistic), back.noised) == (type(statistic), wanted)
    got, sent = back.statistic.on_the_wire(), statistic.on_the_wire()
    assert got.keys() == sent.keys()
    for field, value in sent.items():
        np.testing.assert_array_equal(got[field], value)
        assert type(got[field]) is type(value)


def test_what_is_not_a_question_is_refused(users: cg.Users) -> None:
    node = nodes_of(users, 1)[0]
    for message in (
        RecordDict({}),
        pack({}),
        pack({"ask": "FeatureEnergies"}),
        pack({"ask": 3, "own_intercept": "x"}),
        pack({"ask": INTRODUCE, "more": 1}),
        pack({"ask": INTRODUCE}, {"more": np.zeros(3)}),
    ):
        assert "refused" in unpack(node.answer(message))[0]
    with pytest.raises(WireError):
        unpack(RecordDict({}))
    assert unpack(node.answer(pack({"ask": INTRODUCE})))[0]["people"] == 300


def test_parts_are_added_as_a_tree() -> None:
    assert added([str(n) for n in range(7)]) == "0123456"


def test_kinds_of_sums_are_those_of_clipping() -> None:
    """Every question's answer has a check of its own."""
    kinds = {type(ASKED[name].of(nobody(D))) for name in CATALOGUE}
    assert {BinnedSums, DirectionSums, SizeCounts} < kinds
    assert set(ASKED) == set(CATALOGUE)


def test_a_schema_travels_to_the_board_and_must_be_the_same_everywhere() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"who": np.repeat(np.arange(60), 5), "x": rng.normal(size=300), "town": rng.choice(["a", "b"], 300)}
    )
    frame["y"] = frame.x + (frame.town == "a")
    town = cg.Column("town", kind="category", values=("a", "b"))
    columns = (cg.Column("who", "person"), cg.Column("y", "label", range=(-3, 3)), cg.Column("x", range=(-2, 2)))
    schema, other = cg.Schema((*columns, town)), cg.Schema((*columns[:2], cg.Column("x", range=(-4, 4)), town))

    def node(part: pd.DataFrame, known: cg.Schema, name: str) -> Node:
        return node_of(cg.Users.from_table(part, schema=known), name, "server", None, 1e-6)

    first, second = frame[:150], frame[150:]
    federation = Federation(InProcess([node(first, schema, "a"), node(second, schema, "b")]))
    board = cg.SingleModel(1.0, simulation_seed=1).fit(federation).billboard_
    assert board.schema == schema
    alone = cg.SingleModel(1.0, simulation_seed=1).fit(cg.Users.from_table(frame, schema=schema)).billboard_
    np.testing.assert_allclose(board.predict(frame), alone.predict(frame))
    with pytest.raises(FederationError, match="have different schemas"):
        Federation(InProcess([node(first, schema, "a"), node(second, other, "b")]))
