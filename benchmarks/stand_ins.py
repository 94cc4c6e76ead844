"""For a borrowed machine that has torch, NumPy, SciPy and scikit-learn alone: empty stand-ins for what P4's cells only import.

``import stand_ins`` before ``commonground``. Numba's decorators then leave functions as they are (P4's cells call none of them in
a loop), and whatever is asked of pyarrow is nothing. Where a library is installed, it is used.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

STANDS_IN_FOR = ("numba", "pyarrow")


class Nothing:
    """Whatever is asked of it; as a decorator it leaves its function alone."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        return given[0] if len(given) == 1 and not named and callable(given[0]) else self

    def __getattr__(self, name: str) -> "Nothing":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, at: Any) -> "Nothing":
        return self

    def __or__(self, other: Any) -> "Nothing":  # int | pa.Table
        return self

    __ror__ = __or__


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Nothing:
        return getattr(Nothing(), name) if name.startswith("__") else Nothing()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in MISSING else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


MISSING = {name for name in STANDS_IN_FOR if importlib.util.find_spec(name) is None}
sys.meta_path.append(_Finder())
