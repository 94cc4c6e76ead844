"""Commands (of ``commands.py``) and libraries that are loaded when they are asked for, and a help that loads none."""

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

from commonground.cli.commands import COMMANDS

TITLE = "Personalised models for many people, with a privacy guarantee for every person."

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
        known = [name for name, command in COMMANDS.items() if name in self.commands or command.attribute]
        return [*known, *(name for name in self.commands if name not in known)]

    def get_command(self, context: Any, name: str) -> Any:
        """The command, its file loaded."""
        if name in COMMANDS and COMMANDS[name].attribute and name not in self.commands:
            _, file, attribute = COMMANDS[name]
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
    for name, command in COMMANDS.items():
        app.command(name, help=command.line)(lambda: None)
    app()
