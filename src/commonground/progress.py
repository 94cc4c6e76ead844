"""A progress bar for long work; silent unless asked for, and never on a pipe's standard output."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress  # loaded when a bar is shown

_shown: list["Progress"] = []  # the bar on the screen, if there is one


@contextmanager
def progress_bar(description: str, total: int, enabled: bool) -> Iterator[Callable[[], None]]:
    """Yield a function to call once for each unit of work done."""
    if not enabled:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total)
        _shown.append(bar)

        def advance() -> None:
            bar.advance(task)
            done = bar.tasks[task].completed
            if done > (bar.tasks[task].total or 0):  # what is done decides how much there is: 20 of 20, never 20 of 10
                bar.update(task, total=done)

        try:
            yield advance
        finally:
            _shown.pop()


@contextmanager
def progress_line(description: str, total: int) -> Iterator[Callable[[], None]]:
    """The same as a further line of the bar that is being shown, for the time of this work; silent if there is none."""
    if not _shown:
        yield lambda: None
        return
    bar = _shown[-1]
    task = bar.add_task(description, total=total)
    try:
        yield lambda: bar.advance(task)
    finally:
        bar.remove_task(task)
