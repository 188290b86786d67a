"""Progress on a terminal, below the output of a command: bars, searches, and a run's pages."""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from core.page_manifest import VisitOutcome
from core.playback_check import QaVerdict
from crawler.frontier.base import AddResult
from crawler.worker import crawl_events
from net.backoff import WaitStarted
from weboid.cli.support.options import output
from weboid.cli.support.run_output import RunReporter, event_line, page_line, worst_first

if TYPE_CHECKING:
    from crawler.run.crawl_run import RunSummary


def terminal_progress(*columns: ProgressColumn) -> Progress:
    """Return a progress on standard error; without output for -q or --json, or where that is not a terminal."""
    console = Console(stderr=True)
    disable = output.is_quiet or output.is_json or not console.is_terminal
    return Progress(*columns, console=console, transient=True, disable=disable)


def search_progress(unit: str) -> Progress:
    """Return a progress whose end is unknown."""
    count = TextColumn(f"{{task.completed:,.0f}} {unit}")
    return terminal_progress(SpinnerColumn(), count, TimeElapsedColumn())


@contextmanager
def progress_bar(title: str, total: int | None) -> Iterator[Callable[[float], None]]:
    """Yield a function that advances a bar."""
    with terminal_progress(TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        task = progress.add_task(title, total=total)
        yield lambda count: progress.advance(task, count)


def count_progress() -> Progress:
    """Return a progress of tasks, each with a bar, its numbers and the time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn())
    return terminal_progress(*columns, TimeRemainingColumn())


_COLOURS = {
    VisitOutcome.COMPLETE: "green",
    VisitOutcome.PARTIAL: "yellow",
    VisitOutcome.FAILED: "red",
    VisitOutcome.SKIPPED: "cyan",
}


class BarRunReporter(RunReporter):
    """Reporter with a progress bar below the lines."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(highlight=False)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("{task.fields[standing]}", style="dim"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._progress.add_task("archiving", total=None, standing="")
        self._checked: Counter[QaVerdict] = Counter()
        # Warnings must not tear the bar.
        logging.getLogger().handlers[:] = [_AboveBarHandler(self._console)]

    def started(self, added: AddResult, todo: int) -> None:
        """Show the bar."""
        super().started(added, todo)
        self._progress.update(self._task, total=todo)
        if todo:
            self._progress.start()

    def event(self, event: crawl_events.Event) -> None:
        """Print a line above the bar, and bring its figures up to date."""
        if isinstance(event, crawl_events.PageChecked):
            self._checked[event.verdict] += 1
        super().event(event)
        if isinstance(event, crawl_events.QueueStatus):
            counts = [f"{count} {verdict}" for verdict, count in worst_first(self._checked) if verdict]
            dead = [f"{event.dead} dead"] * bool(event.dead)
            rate = f"{event.per_minute:.0f}/min" if event.paused is None else "paused"
            text = " · ".join([f"{event.claimed} in progress", f"{event.queued} queued", *dead, rate, *counts])
            self._progress.update(self._task, standing=text)
        self._progress.update(self._task, total=self._todo, completed=self._done)

    def stopping(self) -> None:
        """Print the stop request."""
        self._progress.update(self._task, description="stopping")
        self._print("Stopping: pages in progress finish; press Ctrl-C again to stop at once.")

    def ended(self, summary: "RunSummary") -> None:
        """Remove the bar and print the summary."""
        self._progress.stop()
        super().ended(summary)

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(escape(text), style=style, soft_wrap=True)

    def _page(self, event: crawl_events.PageDone | crawl_events.PageSkipped) -> None:
        outcome = VisitOutcome.SKIPPED
        if isinstance(event, crawl_events.PageDone):
            outcome = event.page.outcome if event.page and not event.error else VisitOutcome.FAILED
        self._print(page_line(event), _COLOURS[outcome])

    def _between(self, event: crawl_events.Event) -> None:
        waits = isinstance(event, crawl_events.DiskSpaceLow | WaitStarted)
        self._progress.update(self._task, description="waiting" if waits else "archiving")
        lost = isinstance(event, crawl_events.FileRecovered) and event.lost
        self._print(event_line(event), "bold red" if lost else "dim")


class _AboveBarHandler(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(f"[dim]{escape(record.getMessage())}[/dim]", soft_wrap=True)


@contextmanager
def session_progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the present state of a session in one line."""
    with terminal_progress(SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}")) as progress:
        task = progress.add_task("", total=None)
        yield lambda text: progress.update(task, description=text)


@contextmanager
def stopped_by_enter(stop: asyncio.Event) -> Iterator[None]:
    """Set the event, too, when Enter is pressed during the block, where there is a terminal."""
    has_terminal, loop = sys.stdin.isatty(), asyncio.get_running_loop()
    if has_terminal:
        loop.add_reader(sys.stdin, stop.set)
    try:
        yield
    finally:
        if has_terminal:
            loop.remove_reader(sys.stdin)
