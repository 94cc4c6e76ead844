"""Everything public says what it takes, what it gives and what it learns, in numpydoc's form."""

import ast
import contextlib
import dataclasses
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Self

import pytest
from sklearn.base import BaseEstimator

import commonground
from commonground import defaults

HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
ENTRY = re.compile(r"(\*{0,2}\w+(?:, \w+)*) : (\S.*)")
LEARNED = re.compile(r"\bself\.([a-z]\w*[^\W_]_)\b")  # such as self.billboard_


def public() -> dict[str, Any]:
    """Every public function and class, and the methods and properties of these classes, by name."""
    modules: list[ModuleType] = [commonground, commonground.datasets, commonground.metrics, commonground.errors]
    modules.append(commonground.threads)
    modules += [getattr(commonground.accounting, name) for name in commonground.accounting.__all__]
    others = "deep", "ledger.durable", "evaluation.evaluate"
    modules += [importlib.import_module(f"commonground.{name}") for name in others]
    found: dict[str, Any] = {}
    for module in modules:
        here = module.__name__
        for name in dir(module):
            thing = getattr(module, name)
            if hasattr(module, "__all__"):
                exported = name in module.__all__
            else:
                exported = not name.startswith("_") and getattr(thing, "__module__", "") == here
            if exported and (inspect.isclass(thing) or inspect.isfunction(thing)):
                found[f"{here}.{name}"] = thing
                if inspect.isclass(thing):
                    found |= {f"{here}.{name}.{method}": member for method, member in members(thing)}
    return found


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties that this package defines, the class's own or inherited."""
    for attribute in inspect.classify_class_attrs(cls):
        if attribute.name.startswith("_") or not attribute.defining_class.__module__.startswith("commonground."):
            continue
        if attribute.kind in ("method", "class method", "static method"):
            yield attribute.name, getattr(cls, attribute.name)
        elif isinstance(attribute.object, property | functools.cached_property):
            yield attribute.name, attribute.object


PUBLIC = public()


def sections(thing: Any) -> dict[str, str]:
    """The docstring by its headings; what stands before the first of them has the heading ''."""
    parts = HEADING.split(inspect.getdoc(thing) or "")
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(text: str) -> Iterator[tuple[str, str]]:
    """(name, what follows the colon) of each name in a section; a line that has no such form is an error."""
    for line in text.splitlines():
        if line and not line.startswith(" "):
            entry = ENTRY.fullmatch(line)
            assert entry, f"not of the form 'name : type': {line!r}"
            yield from ((name, entry[2]) for name in entry[1].split(", "))


def is_property(thing: Any) -> bool:
    return isinstance(thing, property | functools.cached_property)


def parameters(thing: Any) -> dict[str, bool]:
    """Parameters of the signature and whether they have a default; *args and **kwargs may go without saying."""
    if is_property(thing) or (inspect.isclass(thing) and issubclass(thing, Exception)):
        return {}
    if dataclasses.is_dataclass(thing):
        missing = dataclasses.MISSING
        return {
            field.name: field.default is not missing or field.default_factory is not missing
            for field in dataclasses.fields(thing)
            if field.init
        }
    own = inspect.signature(thing).parameters.values()
    return {
        one.name: one.default is not one.empty
        for one in own
        if one.name not in ("self", "cls") and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }


def gives_something(thing: Any) -> bool:
    """Whether it is a function that returns what is worth telling: a property's first line says it, ``self`` is known."""
    if inspect.isclass(thing) or is_property(thing):
        return False
    return inspect.signature(thing).return_annotation not in (None, Self, inspect.Signature.empty)


def learned(cls: type) -> set[str]:
    """Names ending in ``_`` that the class, or what it inherits from in this package, sets or has as properties."""
    bases = [base for base in cls.__mro__ if base.__module__.startswith("commonground.")]
    named = {name for base in bases for name in LEARNED.findall(inspect.getsource(base))}
    return named | {name for name, member in members(cls) if is_property(member) and name.endswith("_")}


def faults(thing: Any) -> Iterator[str]:
    """What numpydoc's reader would miss."""
    said = sections(thing)
    first, *rest = said[""].splitlines() or [""]
    written_by_dataclass = inspect.isclass(thing) and first.startswith(f"{thing.__name__}(")
    if not first.strip() or written_by_dataclass:
        yield "has no docstring"
        return
    if not first.endswith(".") or (rest and rest[0]):
        yield f"begins with more or less than one sentence on a line of its own: {first!r}"
    given = parameters(thing)
    told = {name: kind for name, kind in entries(said.get("Parameters", "")) if not name.startswith("*")}
    if list(told) != list(given):
        yield f"documents the parameters {', '.join(told) or 'none'}; the signature has {', '.join(given) or 'none'}"
    for name in told.keys() & given.keys():
        if ("default=" in told[name]) != given[name]:
            yield f"parameter {name} {'has a default that is not told' if given[name] else 'has no default'}"
    if gives_something(thing) and not {"Returns", "Yields"} & said.keys():
        yield "does not say what it returns"
    if inspect.isclass(thing) and issubclass(thing, BaseEstimator):
        attributes = {name for name, _ in entries(said.get("Attributes", ""))}
        if attributes != learned(thing):
            yield f"tells of the attributes {sorted(attributes)}; it learns {sorted(learned(thing))}"


@pytest.mark.parametrize("name", PUBLIC)
def test_docstring_is_complete(name: str) -> None:
    found = list(faults(PUBLIC[name]))
    assert not found, f"{name} " + "; ".join(found)


def test_nothing_public_is_passed_over() -> None:
    assert len(PUBLIC) > 100
    for name in ("PrivateFedRep.fit", "Users.from_table", "accounting.gaussian.gaussian_mu", "deep.JointTrainer.score"):
        assert f"commonground.{name}" in PUBLIC


def values_told(thing: Any) -> dict[str, Any]:
    """The defaults that a docstring tells, where they are plain values: "2 GiB" is not."""
    told: dict[str, Any] = {}
    for line in sections(thing).get("Parameters", "").splitlines():
        entry = ENTRY.fullmatch(line)
        if entry and "default=" in line:
            names, text = entry[1].split(", "), line.partition("default=")[2]
            values = re.split(", | and ", text) if len(names) > 1 else [text]
            for name, value in zip(names, values if len(values) > 1 else values * len(names), strict=True):
                with contextlib.suppress(ValueError, SyntaxError):
                    told[name] = ast.literal_eval(value)
    return told


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if values_told(thing)])
def test_defaults_that_are_told_are_those_of_the_signature(name: str) -> None:
    signature = inspect.signature(PUBLIC[name]).parameters
    told = values_told(PUBLIC[name])
    plain = {name for name in told if isinstance(signature[name].default, None | bool | int | float | str | tuple)}
    assert {name: told[name] for name in plain} == {name: signature[name].default for name in plain}


def test_estimators_tell_the_defaults_that_they_share() -> None:
    told = values_told(commonground.PrivateFedRep)
    assert (told["rank"], told["epsilon"], told["delta"]) == (defaults.RANK, defaults.EPSILON, defaults.DELTA)


def _half(x: float, times: int = 1) -> float:
    """Halve a number.

    Parameters
    ----------
    x : float
    times : int, default=1
        How often.

    Returns
    -------
    float
    """
    return x / 2**times


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("", "", None),
        ("Halve a number.", "", "no docstring"),
        ("Halve a number.", "Halve a number,\nas often as asked.", "more or less than one sentence"),
        ("x : float\n", "", "the signature has x, times"),
        (", default=1", "", "a default that is not told"),
        ("x : float", "x : float, default=0", "x has no default"),
        ("Returns\n-------\nfloat", "", "what it returns"),
    ],
)
def test_what_is_left_out_is_noticed(old: str, new: str, fault: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_half, "__doc__", inspect.cleandoc(_half.__doc__ or "").replace(old, new, 1))
    found = list(faults(_half))
    assert found == [] if fault is None else len(found) == 1 and fault in found[0]


def test_a_learned_attribute_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = inspect.getdoc(commonground.PrivateFedRep) or ""
    monkeypatch.setattr(commonground.PrivateFedRep, "__doc__", told.replace("user_ids_ :", "people_ :", 1))
    (fault,) = faults(commonground.PrivateFedRep)
    assert "it learns" in fault
    assert "user_ids_" in fault
