"""What `commonground --help` says, and commands and libraries that are loaded when they are asked for."""

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import version
from importlib.util import LazyLoader
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

TITLE = "Personalised models for many people, with a privacy guarantee for every person."

# Every command in a line, in the order of the help; tests/cli/test_start.py holds it against the commands' own words.
IN_A_LINE = {
    "schema": "Draft a schema: what each column of a table is. Not private: check it before it is used, as it is published.",
    "train": "Learn the shared part from everybody's rows and publish it as a billboard.",
    "statement": "Verify a billboard and print what it guarantees, to whom, and every release it rests on.",
    "plan": "What refits under one yearly budget would bring: error by ε and number of refits, from a board; no rows are read.",
    "report": "One page to look at and sign: the guarantee in words and numbers, where the budget went, what is published.",
    "page": "A page on which a person makes her own model in her browser; nothing leaves it, and the browser sees to it.",
    "serve": "Look at that page from this machine alone (loopback); ends with Ctrl-C.",
    "personalize": "Fit a head for each person of a table from the billboard and her own rows. "
    "The file is private to these people.",
    "predict": "Answer each row by its person's own head, or by the shared part where she has none.",
    "evaluate": "Held-out errors: of a board, with noise and a small charge (BOARD TABLE); "
    "or, NOT private, of models on a table.",
    "tune": "Search for the best settings within one budget, by people's own held-out errors, and publish the winner.",
    "demo": "Simulate people who share a subspace, train privately at several ε and compare with the alternatives.",
    "audit": "Try to tell two neighbouring populations apart, and print the ε this proves beside the claim.",
    "reproduce": "Compute results of the papers again: ours, theirs, the difference, a verdict. "
    "Simulated throughout: NOT private.",
    "ledger": "The durable budget: what may be spent on whom, what was, and what is left.",
    "federate": "Data that may not move: rows stay at nodes, a server trains over them (Flower; extra 'federated').",
    "keys": "Keys to sign boards with (`train --sign`) and to check whose they are (`statement --verify`).",
}

# Commands, or groups of them, with a file of their own.
_ELSEWHERE = {
    "schema": ("schema", "schema"),
    "plan": ("plan", "plan"),
    "report": ("report", "report"),
    "page": ("report", "page"),
    "serve": ("report", "serve"),
    "evaluate": ("evaluate", "evaluate"),
    "tune": ("tune", "tune"),
    "audit": ("audit", "audit"),
    "reproduce": ("reproduce", "reproduce"),
    "ledger": ("ledger", "ledger_app"),
    "federate": ("federate", "federate_app"),
    "keys": ("signing", "keys_app"),
}

# What libraries load with themselves and hardly use: scikit-learn scipy.stats, SciPy every public name of NumPy.
_PUT_OFF = ("scipy.stats", "numpy.f2py", "numpy.testing")


class _LoadedWhenUsed:
    """Finds these modules, and leaves them empty until something in them is asked for."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path, target) if name in _PUT_OFF else None
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found


@contextmanager
def putting_off() -> Iterator[None]:
    """Of libraries that are loaded meanwhile, no more than a command needs; for a process that is ours."""
    sys.meta_path.insert(0, _LoadedWhenUsed)
    try:
        yield
    finally:
        sys.meta_path.remove(_LoadedWhenUsed)


@contextmanager
def loading() -> Iterator[None]:
    """No search for garbage meanwhile: what libraries make as they load stays, and searching it takes a twelfth of the time."""
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searching:
            gc.enable()


class LoadedWhenAsked(TyperGroup):
    """The commands of ``app.py``, and those of other files, each loaded by its name."""

    def list_commands(self, context: Any) -> list[str]:
        """All names, in the order of the help."""
        known = [name for name in IN_A_LINE if name in self.commands or name in _ELSEWHERE]
        return [*known, *(name for name in self.commands if name not in known)]

    def get_command(self, context: Any, name: str) -> Any:
        """The command, its file loaded."""
        if name in _ELSEWHERE and name not in self.commands:
            file, attribute = _ELSEWHERE[name]
            found = getattr(import_module(f"commonground.cli.{file}"), attribute)
            if isinstance(found, typer.Typer):
                self.commands[name] = get_group(found)
            else:
                alone = typer.Typer(add_completion=False)
                alone.command(name)(found)
                self.commands[name] = get_command(alone)
            self.commands[name].name = name
        return super().get_command(context, name)


def new_app() -> typer.Typer:
    """An app without commands: its help and ``--version``."""
    app = typer.Typer(
        help=TITLE,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        suggest_commands=False,  # click does, too
        cls=LoadedWhenAsked,
    )
    app.callback()(_options)
    return app


def _options(
    _: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=lambda asked: _say_version(asked), is_eager=True),
    ] = False,
) -> None:
    pass


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"commonground {version('commonground')}")
        raise typer.Exit


def first_help() -> None:
    """``commonground``, ``commonground --help`` and ``commonground --version``, without loading any command."""
    app = new_app()
    for name, line in IN_A_LINE.items():
        app.command(name, help=line)(lambda: None)
    app()
