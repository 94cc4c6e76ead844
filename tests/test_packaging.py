"""What is installed: every library that is imported is declared, and nothing is installed that was not seen before."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
# Where a library's name in code is not the name under which it is installed, or it comes with one that is declared.
INSTALLED_AS = {
    "sklearn": "scikit-learn",
    "dp_accounting": "dp-accounting",
    "cupy": "cupy-cuda13x",
    "llvmlite": "numba",
}
# Rooms that are for those who have an extra; the others may import what everybody has only.
EXTRA_OF_ROOM = {"federated": "federated", "deep": "deep", "statistics/kernels/cuda.py": "gpu"}


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w.-]+", one)[0].lower() for one in requirements}  # type: ignore[index]


def imported(path: Path) -> set[str]:
    """Libraries that a file imports, as they are installed."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules = [node.module]
        found |= {module.partition(".")[0] for module in modules}
    return {INSTALLED_AS.get(one, one) for one in found - set(sys.stdlib_module_names) - {"commonground"}}


def test_every_library_that_is_imported_is_declared() -> None:
    anywhere = names(PROJECT["dependencies"]).union(*(names(extra) for extra in EXTRAS.values()))
    for path in (ROOT / "src").rglob("*.py"):
        assert imported(path) <= anywhere, path


@pytest.mark.parametrize(("room", "extra"), EXTRA_OF_ROOM.items())
def test_an_extra_brings_all_that_its_room_imports(room: str, extra: str) -> None:
    place = ROOT / "src" / "commonground" / room
    enough = names(PROJECT["dependencies"]) | names(EXTRAS[extra])
    for path in [place] if place.is_file() else place.rglob("*.py"):
        assert imported(path) <= enough, path


def test_everything_that_is_locked_has_a_hash_except_torch() -> None:
    lines = (ROOT / "requirements.lock").read_text().replace("\\\n", " ").splitlines()
    locked = [line for line in lines if line and not line.startswith("#")]
    assert len(locked) > 100
    for line in locked:
        assert re.fullmatch(r"[\w.-]+==\S+( ; [^#]*?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*", line), line[:60]
    torch = (ROOT / "requirements-torch.lock").read_text().splitlines()
    assert [line for line in torch if not line.startswith("#")] == ["torch==2.13.0"]
    assert names(EXTRAS["dev"]) <= names(locked) | {"torch"}
    assert "--require-hashes -r requirements.lock" in (ROOT / "Makefile").read_text()


def test_the_core_is_locked_in_the_same_versions_and_without_extras() -> None:
    whole, core = (
        set((ROOT / name).read_text().replace("\\\n", " ").splitlines())
        for name in ("requirements.lock", "requirements-core.lock")
    )
    pins = {line.split()[0] for line in whole if not line.startswith("#")}
    needed = {line.split()[0] for line in core if not line.startswith("#")}
    assert needed <= pins
    assert names(PROJECT["dependencies"]) <= names(list(needed))
    assert not names(list(needed)) & {"torch", "ray", "flwr", "pandas", "pytest", "sphinx", "matplotlib"}
    assert "--require-hashes -r requirements-core.lock" in (ROOT / "Makefile").read_text()
