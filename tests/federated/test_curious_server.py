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
from test_federation import ARGUMENTS, W0, D, K, U

import commonground as cg
from commonground.audit.gates import Recorder
from commonground.clipping.bounded import BoundedSum
from commonground.clipping.grid import N_BINS, lower_edge
from commonground.engines import sum_over_people
from commonground.federated.node import Node, node_of
from commonground.federated.questions import (
    CATALOGUE,
    METHODS,
    MOST_ARGUMENTS,
    Noised,
    Question,
    QuestionError,
    checked,
)
from commonground.federated.wire import WireError, pack, pack_question, unpack, unpack_question
from commonground.statistics.gradients import WINDOW
from populations import ragged_block, replace_person, strange_people

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
    for name, public in ARGUMENTS.items():
        entry = CATALOGUE[name]
        inner = entry if entry.gives is not None else next(CATALOGUE[a.__name__] for a in public if callable(a))
        assert inner.gives is not None
        for method in METHODS[inner.gives]:
            questions.append(Question(name, public, noised(method, *([LOWEST + 5] if method == "clipped_at" else []))))
    return questions


def mean_feature_question(lowest: Any, edge: Any) -> RecordDict:
    config = {"ask": "mean_feature_sums", "arguments": 1, "argument 0": lowest, "method": "clipped_at", "name": "s"}
    return pack({**config, "method arguments": [edge], "mu": 0.1, "people": N})


def refused(node: Node, records: RecordDict) -> str:
    config, arrays = unpack(node.answer(records))
    assert list(config) == ["refused"], f"answered {config}"
    assert arrays == {}
    assert node.gate.events == (), "a refusal costs nothing"  # type: ignore[union-attr]
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
    (event,) = node.gate.events  # type: ignore[union-attr]
    assert event.sensitivity == pytest.approx(2 * lower_edge(edge))


WRONG = {
    "a name that is a program": ("name", "x" * 201),
    "a name that is no text": ("name", 3),
    "a name over two lines": ("name", "a\nb"),
    "no cost": ("mu", 0.0),
    "a whole number for a cost": ("mu", 1),
    "a cost that is nothing": ("mu", math.nan),
    "a cost without end": ("mu", math.inf),
    "so little that the noise is infinite": ("mu", 1e-300),
    "fewer people than are here": ("people", N - 1),
    "people without number": ("people", 10**15),
    "half a person": ("people", float(N)),
    "a method of Python's": ("method", "__init__"),
    "a method for another sum": ("method", "bounded"),
    "two edges": ("method arguments", [112, 113]),
    "no edge": ("method arguments", []),
    "an edge that is no number": ("method arguments", ["112"]),
    "an edge in between": ("method arguments", [112.5]),
    "an edge that is true": ("method arguments", [True]),
    "more arguments than there are": ("arguments", 2),
    "arguments without end": ("arguments", 10**12),
    "fewer than none": ("arguments", -1),
    "a yes for a number of arguments": ("arguments", True),
    "a window that starts in between": ("argument 0", 110.0),
    "a window that is true": ("argument 0", True),
    "a list for a number": ("argument 0", [110, 111]),
    "something that nobody asked for": ("rows", True),
    "a function that nodes do not know": ("function 0", "eval"),
}


@pytest.mark.parametrize("what", WRONG)
def test_every_field_is_checked(node: Node, what: str) -> None:
    field, value = WRONG[what]
    config, _ = unpack(mean_feature_question(110, 115))
    start = time.monotonic()
    refused(node, pack({**config, field: value}))
    assert time.monotonic() - start < 5, "a number in a message does not keep a node busy"


@pytest.mark.parametrize(
    "public",
    [
        (U, W0, 0.5, True),
        (U, W0, 0.5, True, 110, 110),
        (U, W0, np.nan, True, 110),
        (U, W0, 0.5, 1, 110),
        (U * np.inf, W0, 0.5, True, 110),
        (U, W0 * np.nan, 0.5, True, 110),
        (np.ones((D, D + 1)), W0, 0.5, True, 110),
        (np.ones((D, 0)), W0, 0.5, True, 110),
        (W0, W0, 0.5, True, 110),
        (U, U, 0.5, True, 110),
        (U.astype(np.complex128), W0, 0.5, True, 110),
        (U, W0, "0.5", True, 110),
    ],
    ids=range(12),
)
def test_arguments_are_what_the_table_says(node: Node, public: tuple[Any, ...]) -> None:
    refused(node, pack_question(Question("embedding_gradient_sums", public, noised("histogram"))))


def test_functions_within_functions_end() -> None:
    inner: tuple[Any, ...] = (CATALOGUE["energy_counts"].function, True)
    for _ in range(3):
        inner = (CATALOGUE["signed_block_sum"].function, *inner)
    with pytest.raises(QuestionError, match="does not know"):
        checked(Question("signed_block_sum", inner), D, N)
    assert checked(Question("signed_block_sum", inner[2:]), D, N).public == inner[2:]


def test_an_answer_has_an_end() -> None:
    """A server cannot have a node make room for (dk)² numbers, whatever d and k are."""
    d = 3000
    wide = (np.ones((d, 40)), None, 0.0, True, 1.0)
    with pytest.raises(QuestionError, match="entries"):
        checked(Question("embedding_moment_sums", wide), d, N)


def test_numbers_are_brought_to_the_type_that_is_compiled() -> None:
    public = checked(Question("direction_sums", (W0, 1, True)), D, N).public
    assert type(public[1]) is float


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


def test_a_question_has_few_arguments() -> None:
    assert len(unpack_question({"ask": "energy_counts", "arguments": MOST_ARGUMENTS}, {}).public) == MOST_ARGUMENTS
    for count in (MOST_ARGUMENTS + 1, 10**12):
        with pytest.raises(WireError):
            unpack_question({"ask": "energy_counts", "arguments": count}, {})


# ---- at random -------------------------------------------------------------------------------------------------------------

ODD_VALUES: list[Any] = [
    0, 1, -1, -20, -10, 5, 109, 110, 111, 118, 125, 126, 226, 227, 241, 242, 300, 10**12, -(2**62), 0.0, 1.0, -0.5, 1e-300,
    1e300, math.nan, math.inf, True, False, "", "huber", "logistic", "bounded", "histogram", "whole_histogram", "clipped_at",
    "energy_counts", "mean_feature_sums", [], [1], [111], [118, 119], [1.5], ["a"], b"", b"canary",
]  # fmt: skip


def spoiled(rng: np.random.Generator, records: RecordDict) -> RecordDict:
    """One or two fields changed, added, taken away, or swapped with another question's."""
    config, arrays = unpack(records)
    for _ in range(rng.integers(1, 3)):
        at, kind = rng.integers(0, 3), rng.integers(0, 5)
        names = [*config, f"argument {at}", f"function {at}", "method", "odd"]
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
            arrays[f"argument {at}"] = rng.standard_normal([(D,), (D, K), (D, D), (D, 1), (3,)][rng.integers(5)])
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


def test_the_table_is_that_of_the_functions(node: Node) -> None:
    """Every entry says how many arguments its function takes, and what kind of sum it gives."""
    users = population()
    for name, entry in CATALOGUE.items():
        code = entry.function.__code__
        given = code.co_varnames[1 : code.co_argcount]
        assert len(entry.takes) == len(given), name
        if entry.gives is not None:
            assert type(sum_over_people(users, entry.function, *ARGUMENTS[name])) is entry.gives
        assert checked(Question(name, ARGUMENTS[name]), D, N).public is not None
