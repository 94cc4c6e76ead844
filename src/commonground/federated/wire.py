"""Questions and answers as Flower records: named arrays, numbers and text. Arrays travel in NumPy's format, without pickle.

A message comes from somebody else's machine. What it claims about sizes is not believed: an array is as long as the bytes
that came with it, a question has as many values as `questions` allows.
"""

import io
import math
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from commonground.errors import CommongroundError
from commonground.federated.questions import Noised, Question, arrays_in, question_from

INTRODUCE = "introduce"
_ASK = "ask"
_CONFIG, _ARRAYS = "config", "arrays"
_NOISED = {"method": str, "arguments": list, "name": str, "mu": float, "people": int}


class WireError(CommongroundError):
    """A message that is not what the other side should have sent. Its text holds nothing out of the message."""


def pack(config: dict[str, Any], arrays: dict[str, np.ndarray] | None = None) -> RecordDict:
    packed = {name: Array(np.ascontiguousarray(array)) for name, array in (arrays or {}).items()}
    return RecordDict({_CONFIG: ConfigRecord(config), _ARRAYS: ArrayRecord(packed)})


def unpack(records: RecordDict) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        arrays = {name: _array_of(array.data) for name, array in records.array_records[_ARRAYS].items()}
        return dict(records.config_records[_CONFIG]), arrays
    except Exception:
        raise WireError("a message that cannot be read") from None


def _array_of(data: bytes) -> np.ndarray:
    """NumPy's own reader makes room for as many numbers as the header claims, before it looks whether they are there."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("another format")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ValueError("not as many numbers as it says")
    values = np.frombuffer(data, dtype, offset=stream.tell())
    return values.reshape(shape, order="F" if by_columns else "C").copy()


def pack_question(question: Question) -> RecordDict:
    """The statistic's public values by name: arrays, plain numbers and text; None is left out."""
    values = question.statistic.on_the_wire()
    arrays = arrays_in(values)
    config: dict[str, Any] = {name: value for name, value in values.items() if name not in arrays}
    config[_ASK] = type(question.statistic).__name__
    if (noised := question.noised) is not None:
        config |= {"noised method": noised.method, "noised arguments": list(noised.arguments)}
        config |= {"noised name": noised.name, "noised mu": noised.mu, "noised people": noised.people}
    return pack(config, arrays)


def unpack_question(config: dict[str, Any], arrays: dict[str, np.ndarray], n_features: int, people: int) -> Question:
    """What a node with ``people`` of ``n_features`` is asked; whether it knows the question says ``questions``."""
    values = dict(config)
    asked, noised = values.pop(_ASK, None), None
    if "noised method" in values:
        given = {name: values.pop(f"noised {name}", None) for name in _NOISED}
        if any(type(given[name]) is not kind for name, kind in _NOISED.items()):
            raise WireError("a question that cannot be read")
        noised = Noised(**{**given, "arguments": tuple(given["arguments"])})
    if values.keys() & arrays.keys():
        raise WireError("a question that cannot be read")
    return question_from(asked, values | arrays, noised, n_features, people)
