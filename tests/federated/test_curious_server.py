"""A server that a node does not trust asks what it likes: the node refuses, or answers within what it says and charges.

Questions are the honest ones, with a field changed at random into whatever a field could be. What is answered is compared for
neighbouring data sets: the exact sum behind the answer, before the node's noise, moves by no more than its sensitivity.
"""

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from test_federation import ASKED, W0, D, K, U

import commonground as cg
from commonground.audit.gates import Recorder
from commonground.clipping.bounded import BoundedSum
from commonground.clipping.grid import N_BINS, lower_edge
from commonground.federated.node import Node, node_of
from commonground.federated.questions import (
    CATALOGUE,
    METHODS,
    MOST_VALUES,
    Noised,
    Question,
    QuestionError,
    question_from,
)
from commonground.federated.wire import WireError, pack, pack_question, unpack
from commonground.statistics.convex_gradients import SignedLabels
from commonground.statistics.directions import Directions, FeatureEnergies
from commonground.statistics.embedding_moments import EmbeddingMoments
from commonground.statistics.gradients import EmbeddingGradients
from commonground.statistics.statistic import WINDOW, SharedModel, Statistic
from populations import mean_model, ragged_block, replace_person, strange_people

N = 12
LOWEST = 110


def population(person: tuple[np.ndarray, np.ndarray] | None = None) -> cg.Users:
    block = ragged_block(3, n_users=N, d=D, low=6, high=9)
    if person is not None:
        block = replace_person(block, 0, *person)
    return cg.Users.from_arrays(block.X, block.y, np.repeat(np.arange(N), np.diff(block.offsets)))


def subnormal_people() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Squares of which most round to nothing: by the rounded norm, such a contribution is several times too small."""
    half = 2.0**-537.5
    for size in (1.0, 1e12, 1e-3):
        x = np.full((7, D), 0.99 * half * size)
        x[:, 0] = 1.02 * half * size
        yield x, np.full(7, half)
        yield -x, np.full(7, -half)


NEIGHBOURS = [
    population(),
    *(
        population(person)
        for person in (*strange_people(D).values(), *subnormal_people())
        if np.isfinite(person[0]).all() and np.isfinite(person[1]).all()  # others do not get into a table
    ),
]


def noised(method: str = "bounded", *arguments: int, mu: float = 0.1, people: int = N, name: str = "sizes") -> Noised:
    return Noised(method, arguments, name, mu, people)


def honest_questions() -> list[Question]:
    questions = []
    for statistic in ASKED.values():
        for method in METHODS[statistic.innermost.gives]:
            edge = [LOWEST + 5] if method == "clipped_at" else []
            questions.append(Question(statistic, noised(method, *edge)))
    return questions


def mean_feature_question(lowest: Any, edge: Any) -> RecordDict:
    config = {"ask": "MeanFeatures", "lowest": lowest, "noised method": "clipped_at", "noised name": "s"}
    return pack({**config, "noised arguments": [edge], "noised mu": 0.1, "noised people": N})


def refused(node: Node, records: RecordDict) -> str:
    config, arrays = unpack(node.answer(records))
    assert list(config) == ["refused"], f"answered {config}"
    assert arrays == {}
    assert node.gate.ledger.events == (), "a refusal costs nothing"  # type: ignore[union-attr]
    return str(config["refused"])


@pytest.fixture
def node() -> Node:
    return node_of(population(), "clinic", "nodes", 50.0, 1e-6)


# ---- the attack ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lowest", "edge"),
    [
        (-20, -10),
        (0, 5),
        (-20, 5),
        (N_BINS - WINDOW + 1, N_BINS - 5),
        (300, 305),
        (10**9, 10**9 + 3),
        (110, 110),
        (110, 126),
    ],
)
def test_a_threshold_beside_the_public_grid_is_refused(node: Node, lowest: int, edge: int) -> None:
    """``lowest=-20, clipped_at(-10)`` was answered with a sum that moved by five times what it said and charged."""
    refused(node, mean_feature_question(lowest, edge))


@pytest.mark.parametrize("edge", [111, 118, 125])
def test_thresholds_on_the_grid_are_answered(node: Node, edge: int) -> None:
    config, arrays = unpack(node.answer(mean_feature_question(110, edge)))
    assert config == {"people": N}
    assert arrays["value"].shape == (1, D)
    (event,) = node.gate.ledger.events  # type: ignore[union-attr]
    assert event.sensitivity == pytest.approx(2 * lower_edge(edge))


WRONG = {
    "a name that is a program": ("noised name", "x" * 201),
    "a name that is no text": ("noised name", 3),
    "a name over two lines": ("noised name", "a\nb"),
    "no cost": ("noised mu", 0.0),
    "a whole number for a cost": ("noised mu", 1),
    "a cost that is nothing": ("noised mu", math.nan),
    "a cost without end": ("noised mu", math.inf),
    "so little that the noise is infinite": ("noised mu", 1e-300),
    "fewer people than are here": ("noised people", N - 1),
    "people without number": ("noised people", 10**15),
    "half a person": ("noised people", float(N)),
    "a method of Python's": ("noised method", "__init__"),
    "a method for another sum": ("noised method", "bounded"),
    "two edges": ("noised arguments", [112, 113]),
    "no edge": ("noised arguments", []),
    "an edge that is no number": ("noised arguments", ["112"]),
    "an edge in between": ("noised arguments", [112.5]),
    "an edge that is true": ("noised arguments", [True]),
    "a value of another statistic": ("constant", 2.0),
    "another statistic": ("ask", "FeatureEnergies"),
    "no statistic": ("ask", True),
    "a window that starts in between": ("lowest", 110.0),
    "a window that is true": ("lowest", True),
    "a list for a number": ("lowest", [110, 111]),
    "something that nobody asked for": ("rows", True),
    "a program": ("ask", "eval"),
    "a statistic within one that has none": ("statistic", "MeanFeatures"),
}


@pytest.mark.parametrize("what", WRONG)
def test_every_field_is_checked(node: Node, what: str) -> None:
    field, value = WRONG[what]
    config, _ = unpack(mean_feature_question(110, 115))
    start = time.monotonic()
    refused(node, pack({**config, field: value}))
    assert time.monotonic() - start < 5, "a number in a message does not keep a node busy"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lowest", None),
        ("more", 110),
        ("model.intercept", np.nan),
        ("model.own_intercept", 1),
        ("model.embedding", U * np.inf),
        ("model.coef", W0 * np.nan),
        ("model.embedding", np.ones((D, D + 1))),
        ("model.embedding", np.ones((D, 0))),
        ("model.embedding", W0),
        ("model.coef", U),
        ("model.embedding", U.astype(np.complex128)),
        ("model.intercept", "0.5"),
        ("model", 1),
    ],
    ids=range(13),
)
def test_values_are_what_the_statistic_says(node: Node, name: str, value: Any) -> None:
    config, arrays = unpack(
        pack_question(Question(EmbeddingGradients(SharedModel(U, W0, 0.5, True), 110), noised("histogram")))
    )
    config.pop(name, None)
    if isinstance(value, np.ndarray):
        with np.errstate(all="ignore"):
            arrays[name] = value
    elif value is not None:
        config[name] = value
    refused(node, pack(config, arrays))


def asked(statistic: Statistic[Any], d: int = D) -> Question:
    return question_from(type(statistic).__name__, statistic.on_the_wire(), None, d, N)


def test_statistics_within_statistics_end() -> None:
    inner: Statistic[Any] = FeatureEnergies(True)
    for _ in range(2):
        inner = SignedLabels(inner)
    assert asked(inner).statistic.innermost.on_the_wire() == {"own_intercept": True}
    with pytest.raises(QuestionError, match="more within another"):
        asked(SignedLabels(inner))


def test_an_answer_has_an_end() -> None:
    """A server cannot have a node make room for (dk)² numbers, whatever d and k are."""
    d = 3000
    with pytest.raises(QuestionError, match="entries"):
        asked(EmbeddingMoments(SharedModel(np.ones((d, 40)), own_intercept=True), 1.0), d)


def test_numbers_are_brought_to_the_type_that_is_compiled() -> None:
    statistic = asked(Directions(mean_model(W0, 1, True))).statistic
    assert isinstance(statistic, Directions)
    assert type(statistic.model.intercept) is float


# ---- the wire --------------------------------------------------------------------------------------------------------------


def claiming(shape: tuple[int, ...], data: bytes = bytes(80), dtype: str = "<f8") -> RecordDict:
    """A message with an array whose header claims a shape."""
    import io

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    array = Array("float64", shape, "numpy.ndarray", header.getvalue() + data)
    return RecordDict({"config": ConfigRecord({"ask": "x"}), "arrays": ArrayRecord({"a": array})})


def test_an_array_is_as_long_as_its_bytes() -> None:
    assert unpack(claiming((10,)))[1]["a"].shape == (10,)
    for message in (
        claiming((10**12,)),
        claiming((9,)),
        claiming((11,)),
        claiming((-10,)),
        claiming((10,), dtype="|O"),
    ):
        with pytest.raises(WireError):
            unpack(message)


def test_a_question_has_few_values() -> None:
    many = {f"value {n}": 1 for n in range(MOST_VALUES + 1)}
    with pytest.raises(QuestionError, match="does not know"):
        question_from("FeatureEnergies", many, None, D, N)


# ---- at random -------------------------------------------------------------------------------------------------------------

ODD_VALUES: list[Any] = [
    0, 1, -1, -20, -10, 5, 109, 110, 111, 118, 125, 126, 226, 227, 241, 242, 300, 10**12, -(2**62), 0.0, 1.0, -0.5, 1e-300,
    1e300, math.nan, math.inf, True, False, "", "huber", "logistic", "bounded", "histogram", "whole_histogram", "clipped_at",
    "FeatureEnergies", "MeanFeatures", [], [1], [111], [118, 119], [1.5], ["a"], b"", b"canary",
]  # fmt: skip


FIELDS = (
    "model.embedding",
    "model.coef",
    "transform",
    "lowest",
    "statistic",
    "model.intercept",
    "octaves",
    "clip_norm",
    "loss",
)


def spoiled(rng: np.random.Generator, records: RecordDict) -> RecordDict:
    """One or two fields changed, added, taken away, or swapped with another question's."""
    config, arrays = unpack(records)
    for _ in range(rng.integers(1, 3)):
        at, kind = rng.integers(0, 3), rng.integers(0, 5)
        names = [*config, *FIELDS[3 * at : 3 * at + 3], "noised method", "odd"]
        name = names[rng.integers(len(names))]
        if kind == 0:
            config.pop(name, None)
        elif kind == 1 and arrays:
            which = list(arrays)[rng.integers(len(arrays))]
            values = arrays[which]
            scales = (1.0, -1.0, 1e-160, 1e300, math.nan)
            with np.errstate(all="ignore"):
                values = values.astype(np.float64) * scales[rng.integers(len(scales))]
                ways = [values, values[:-1], values.astype(np.float32), values[..., None]]
            arrays[which] = ways[rng.integers(len(ways))]
        elif kind == 2:
            arrays[FIELDS[at]] = rng.standard_normal([(D,), (D, K), (D, D), (D, 1), (3,)][rng.integers(5)])
        else:
            config[name] = ODD_VALUES[rng.integers(len(ODD_VALUES))]
    try:
        return pack(config, arrays)
    except (TypeError, ValueError):  # Flower's records cannot hold it
        return records


def exact_answer(users: cg.Users, records: RecordDict) -> tuple[str, BoundedSum | None]:
    """What a node says, and the bounded sum that its gate was given."""
    watch = Recorder()
    config, _ = unpack(node_of(users, "clinic", "nodes", 50.0, 1e-6, watch.node_gate).answer(records))
    return str(config.get("refused", "")), watch.parts[0] if watch.parts else None


def test_whatever_is_asked_is_refused_or_answered_within_its_sensitivity() -> None:
    rng = np.random.default_rng(0)
    honest, answered, refusals = [pack_question(question) for question in honest_questions()], 0, 0
    for trial in range(600):
        records = spoiled(rng, honest[trial % len(honest)]) if trial >= len(honest) else honest[trial]
        why, here = exact_answer(NEIGHBOURS[0], records)
        assert why != "it failed; the reason is in its own log", unpack(records)[0]
        if here is None:
            refusals += 1
            continue
        answered += 1
        with np.errstate(all="ignore"):
            _, there = exact_answer(NEIGHBOURS[rng.integers(1, len(NEIGHBOURS))], records)
        assert there is not None, "whether a question is answered does not depend on rows"
        assert there.sensitivity == here.sensitivity
        moved = float(np.linalg.norm((there.value - here.value) / here.sensitivity))
        assert moved <= 1.0, f"moved by {moved:g} × its sensitivity: {unpack(records)[0]}"
    assert answered > 60, answered
    assert refusals > 300, refusals


def test_every_question_is_read_as_it_was_asked() -> None:
    """On the wire and back, every value is the same; and each statistic gives the kind of sum that it says."""
    users = population()
    assert set(ASKED) == set(CATALOGUE)
    for statistic in ASKED.values():
        again = asked(statistic).statistic
        assert type(again) is type(statistic)
        values, sent = again.on_the_wire(), statistic.on_the_wire()
        assert values.keys() == sent.keys()
        assert all(np.array_equal(values[name], sent[name]) for name in sent)
        assert type(users.sum(again)) is statistic.innermost.gives
