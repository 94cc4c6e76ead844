"""Questions and answers as Flower records: named arrays, numbers and text. Arrays travel in NumPy's format, without pickle.

A message comes from somebody else's machine. What it claims about sizes is not believed: an array is as long as the bytes
that came with it, a question has as many arguments as `questions` allows.
"""

import io
import math
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from commonground.errors import CommongroundError
from commonground.federated.questions import CONTRIBUTIONS, MOST_ARGUMENTS, Noised, Question

INTRODUCE = "introduce"
_CONFIG, _ARRAYS = "config", "arrays"
_NOISED = {"method": str, "method arguments": list, "name": str, "mu": float, "people": int}


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
    """Arguments by position: arrays, functions by their names, plain numbers and text; None is left out."""
    config: dict[str, Any] = {"ask": question.function, "arguments": len(question.public)}
    arrays = {}
    for at, argument in enumerate(question.public):
        if isinstance(argument, np.ndarray):
            arrays[f"argument {at}"] = argument
        elif callable(argument):
            config[f"function {at}"] = argument.__name__
        elif argument is not None:
            config[f"argument {at}"] = argument.item() if isinstance(argument, np.generic) else argument
    if (noised := question.noised) is not None:
        config |= {"method": noised.method, "method arguments": list(noised.arguments), "name": noised.name}
        config |= {"mu": noised.mu, "people": noised.people}
    return pack(config, arrays)


def unpack_question(config: dict[str, Any], arrays: dict[str, np.ndarray]) -> Question:
    """Every field is read, none is left over; whether nodes know the question is for ``questions.checked`` to say."""
    left, arrays = dict(config), dict(arrays)
    asked, arguments = left.pop("ask", None), left.pop("arguments", None)
    if type(asked) is not str or type(arguments) is not int or not 0 <= arguments <= MOST_ARGUMENTS:
        raise WireError("a question that cannot be read")
    public = tuple(_argument(at, left, arrays) for at in range(arguments))
    noised = None
    if "method" in left:
        given = {name: left.pop(name, None) for name in _NOISED}
        if any(type(given[name]) is not kind for name, kind in _NOISED.items()):
            raise WireError("a question that cannot be read")
        noised = Noised(given["method"], tuple(given["method arguments"]), given["name"], given["mu"], given["people"])
    if left or arrays:
        raise WireError("a question with more in it than it asks")
    return Question(asked, public, noised)


def _argument(at: int, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """One argument, taken out of what is left."""
    name = f"argument {at}"
    if (function := config.pop(f"function {at}", None)) is not None:
        if type(function) is not str or function not in CONTRIBUTIONS:
            raise WireError("a question with a function that nodes do not know")
        return CONTRIBUTIONS[function]
    return arrays.pop(name) if name in arrays else config.pop(name, None)
