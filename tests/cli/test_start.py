"""Nobody waits for what she does not use: what the first help says is true, and loads nothing."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from commonground.audit.broken import BROKEN
from commonground.audit.joint import JOINT_RECIPES
from commonground.audit.neighbours import PAIRS
from commonground.audit.recipes import RECIPES
from commonground.cli import audit
from commonground.cli.app import app
from commonground.cli.commands import COMMANDS
from commonground.cli.lazy import _PUT_OFF

HEAVY = ("numpy", "scipy", "numba", "pyarrow", "sklearn", "sqlalchemy", "matplotlib", "opendp", "dp_accounting")


def loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return {module.partition(".")[0] for module in done.stdout.splitlines()[-1].split()}


def test_the_first_help_tells_every_command_in_its_own_words() -> None:
    group: Any = typer.main.get_command(app)
    context = group.make_context("commonground", ["train"], resilient_parsing=True)
    own_words = {name: group.get_command(context, name) for name in group.list_commands(context)}
    told = {name: (command.help or "").partition("\n")[0] for name, command in own_words.items() if command}
    assert told == {name: command.line for name, command in COMMANDS.items()}, "its line is in cli/commands.py"


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not loaded_by("import commonground") & set(HEAVY)


@pytest.mark.parametrize("asked", ["--help", "--version", *(f"{command} --help" for command in COMMANDS)])
def test_no_help_loads_anything_heavy(asked: str) -> None:
    code = f"""import sys
sys.argv = ["commonground", *{asked!r}.split()]
from commonground.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code"""
    assert not loaded_by(code) & set(HEAVY)


def test_the_help_of_audit_names_what_there_is() -> None:
    assert audit.RECIPES.split(", ") == [*RECIPES, *JOINT_RECIPES]
    assert audit.PEOPLE.split(", ") == [*PAIRS]
    assert audit.MISTAKES.split(", ") == [*BROKEN]


def test_a_prediction_does_not_wait_for_training() -> None:
    assert not loaded_by("import commonground.cli.app") & {
        "sklearn",
        "matplotlib",
        "opendp",
        "dp_accounting",
        "ray",
        "flwr",
    }


# Modules that a command may not load, besides those that are put off until they are used.
DATABASE, ESTIMATORS = {"sqlalchemy"}, {"sqlalchemy", "sklearn", "opendp"}
WITHOUT = {
    "schema people.csv --out schema.toml": ESTIMATORS | {"scipy", "numba"},
    "train people.csv --out board --epsilon 4": DATABASE | {"sklearn.model_selection"},
    "statement board": ESTIMATORS,
    "predict board people.csv --out answers.csv": ESTIMATORS,
    "evaluate board people.csv": DATABASE | {"sklearn"},
    "tune people.csv --out winner --try rank=0,1": DATABASE | {"sklearn.model_selection"},
    "report board --out report.html": ESTIMATORS,
    "audit fedrep --runs 20 --people 12": DATABASE | {"scipy.optimize"},
}
EVER = {"matplotlib", "dp_accounting", "torch", "ray", "flwr"}


def test_commands_load_what_they_need(tmp_path: Path) -> None:
    """One after another, as each needs what the others write; which modules a command has loaded when it is done."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.repeat(np.arange(100), 5), rng.standard_normal((500, 4))])
    header = "user_id,a,b,c,y"
    np.savetxt(tmp_path / "people.csv", rows, delimiter=",", header=header, comments="", fmt=["%d"] + 4 * ["%.6f"])
    for command, unwanted in WITHOUT.items():
        ask = f"""import sys
sys.argv = ["commonground", *{command!r}.split()]
sys.modules["matplotlib"] = None  # an extra
from commonground.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
loaded = [name for name, module in sys.modules.items() if module and type(module).__name__ != "_LazyModule"]
print("LOADED", *loaded)"""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", ask], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert not done.returncode, f"{command}: {done.stderr}"
        loaded = set(done.stdout.rpartition("LOADED ")[2].split())
        assert not loaded & (unwanted | EVER | set(_PUT_OFF)), command


def test_what_is_put_off_is_there_when_it_is_used() -> None:
    ask = """import sys
from commonground.cli.lazy import putting_off
with putting_off():
    import scipy.stats
kept = type(scipy.stats).__name__, len(sys.meta_path)
assert scipy.stats.binom.pmf(1, 1, 0.5) == 0.5
from scipy.stats import norm
print(*kept, type(scipy.stats).__name__, norm.cdf(0.0), any("Loaded" in str(one) for one in sys.meta_path))"""
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    first, _, then, half, still_there = done.stdout.split()
    assert (first, then, half, still_there) == ("_LazyModule", "module", "0.5", "False")


def test_every_public_name_can_be_had() -> None:
    import commonground

    for name in commonground.__all__:
        assert getattr(commonground, name) is not None
    assert set(commonground.__all__) <= set(dir(commonground))
    with pytest.raises(AttributeError, match="no attribute 'PrivateFredRep'"):
        commonground.PrivateFredRep  # noqa: B018


def test_it_runs_as_a_module_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "commonground", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("commonground 0.")
