"""Progress on a terminal, below the output of a command."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def terminal_progress(*columns: ProgressColumn, quiet: bool) -> Progress:
    """Return a progress on standard error; without output where that is no terminal."""
    console = Console(stderr=True)
    disable = quiet or not console.is_terminal
    return Progress(*columns, console=console, transient=True, disable=disable)


def search_progress(what: str, *, quiet: bool) -> Progress:
    """Return a progress whose end is unknown."""
    count = TextColumn(f"{{task.completed:,.0f}} {what}")
    return terminal_progress(SpinnerColumn(), count, TimeElapsedColumn(), quiet=quiet)


@contextmanager
def progress_bar(title: str, total: int | None, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """Yield a function that advances a bar."""
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with terminal_progress(*columns, quiet=quiet) as progress:
        task = progress.add_task(title, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def session_progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the present state of a session in one line."""
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with terminal_progress(*columns, quiet=quiet) as progress:
        task = progress.add_task("", total=None)
        yield lambda text: progress.update(task, description=text)
