"""Questions and answers as Flower records: named arrays, numbers and text. Arrays travel in NumPy's format, without pickle."""

from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from commonground.errors import CommongroundError
from commonground.federated.questions import CONTRIBUTIONS, Noised, Question

INTRODUCE = "introduce"
_CONFIG, _ARRAYS = "config", "arrays"


class WireError(CommongroundError):
    """A message that is not what the other side should have sent. Its text holds nothing out of the message."""


def pack(config: dict[str, Any], arrays: dict[str, np.ndarray] | None = None) -> RecordDict:
    packed = {name: Array(np.ascontiguousarray(array)) for name, array in (arrays or {}).items()}
    return RecordDict({_CONFIG: ConfigRecord(config), _ARRAYS: ArrayRecord(packed)})


def unpack(records: RecordDict) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        arrays = {name: array.numpy() for name, array in records.array_records[_ARRAYS].items()}
        return dict(records.config_records[_CONFIG]), arrays
    except Exception:
        raise WireError("a message that cannot be read") from None


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
    try:
        public = tuple(_argument(at, config, arrays) for at in range(config["arguments"]))
        noised = None
        if "method" in config:
            edges = tuple(int(edge) for edge in config["method arguments"])
            noised = Noised(
                str(config["method"]), edges, str(config["name"]), float(config["mu"]), int(config["people"])
            )
        return Question(str(config["ask"]), public, noised)
    except (KeyError, TypeError, ValueError):
        raise WireError("a question that cannot be read") from None


def _argument(at: int, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    if f"function {at}" in config:
        return CONTRIBUTIONS[config[f"function {at}"]]
    return arrays.get(f"argument {at}", config.get(f"argument {at}"))
