"""Nobody waits for what she does not use: what the first help says is true, and loads nothing."""

import subprocess
import sys
from typing import Any

import pytest
import typer

from commonground.audit.broken import BROKEN
from commonground.audit.joint import JOINT_RECIPES
from commonground.audit.neighbours import PAIRS
from commonground.audit.recipes import RECIPES
from commonground.cli import audit
from commonground.cli.app import app
from commonground.cli.lazy import IN_A_LINE

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
    assert told == IN_A_LINE, "a new command needs its line in cli/lazy.py"


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not loaded_by("import commonground") & set(HEAVY)


@pytest.mark.parametrize("asked", ["--help", "--version", *(f"{command} --help" for command in IN_A_LINE)])
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
