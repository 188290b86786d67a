"""How a run shows itself: a bar on a terminal, plain lines elsewhere, JSON lines for machines."""

import json
import logging
import sys
from collections import Counter
from dataclasses import asdict
from typing import Protocol

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from core.pages import Outcome
from core.quality import Verdict
from core.timestamps import warc_date
from crawler.cli.run_lines import aside_for, in_order, line_for, standing, summary
from crawler.events import (
    Event,
    IndexRestored,
    LinksAdded,
    PageChecked,
    PageDone,
    PagePutOff,
    PageRepaired,
    PageSkipped,
    PageTriedAgain,
    SnapshotMade,
    Standing,
)
from crawler.frontier.base import AddResult
from crawler.running import Account
from crawler.space import Paused, Resumed
from crawler.supervisor import FileRecovered
from crawler.waiting import GoingOn, Waiting

_NAMES: dict[type, str] = {
    Waiting: "waiting",
    GoingOn: "going_on",
    PageSkipped: "skipped",
    LinksAdded: "links",
    PageChecked: "checked",
    PageRepaired: "repaired",
    Standing: "progress",
    IndexRestored: "index_restored",
}
_COLOURS = {
    Outcome.COMPLETE: "green",
    Outcome.PARTIAL: "yellow",
    Outcome.FAILED: "red",
    Outcome.SKIPPED: "cyan",
}


class Show(Protocol):
    """What a run tells as it goes."""

    def started(self, added: AddResult, todo: int) -> None:
        """The URLs are in the frontier; `todo` pages are to be done."""
        ...

    def event(self, event: Event) -> None:
        """A page is over, or is tried again."""
        ...

    def stopping(self) -> None:
        """The run was asked to stop and finishes what it began."""
        ...

    def ended(self, account: Account) -> None:
        """The run is over."""
        ...


def choose(*, as_json: bool) -> "Show":
    """The way that suits who reads."""
    if as_json:
        return Machine()
    return Terminal() if sys.stdout.isatty() else Plain()


class Machine:
    """One JSON object a line on standard output."""

    def started(self, added: AddResult, todo: int) -> None:
        """Say what was added."""
        self._say({"event": "started", **asdict(added), "todo": todo})

    def event(self, event: Event) -> None:
        """Say what happened; a page without its long lists, which are in its manifest."""
        match event:
            case PageTriedAgain():
                self._say({"event": "retry", **asdict(event)})
            case Paused():
                self._say({"event": "paused", "reason": "disk", **asdict(event)})
            case Resumed():
                self._say({"event": "resumed", **asdict(event)})
            case PagePutOff():
                until = warc_date(event.until)
                self._say({"event": "later", **asdict(event), "until": until})
            case FileRecovered():
                self._say({"event": "recovered", **event.facts})
            case PageDone():
                self._say_page(event)
            case SnapshotMade():
                self._say({"event": "snapshot", "at": warc_date(event.at)})
            case _:
                self._say({"event": _NAMES[type(event)], **asdict(event)})

    def _say_page(self, event: PageDone) -> None:
        page = event.page
        facts: dict[str, object] = {
            "event": "page",
            "url": event.url,
            "outcome": str(page.outcome if page else Outcome.FAILED if event.error else "done"),
            "reason": event.error or (page.reason if page else ""),
            "attempts": event.attempts,
        }
        if page is not None:
            facts |= {
                "page_id": page.page_id,
                "final_url": page.final_url,
                "captured_at": page.captured_at,
                "status": page.status,
                "mime": page.mime,
                "class": page.page_class,
                "title": page.title,
                "records": page.records,
                "bytes": page.stored_bytes,
                "seconds": page.seconds,
            }
        self._say(facts)

    def stopping(self) -> None:
        """Say that it stops."""
        self._say({"event": "stopping"})

    def ended(self, account: Account) -> None:
        """Say what was done in all."""
        self._say(
            {
                "event": "summary",
                "added": account.added.added,
                "duplicates": account.added.duplicates,
                "outcomes": {str(key): count for key, count in account.outcomes.items()},
                "failed": [{"url": url, "reason": reason} for url, reason in account.failed],
                "failures": account.failures,
                "skipped": dict(account.skipped),
                "links": account.links,
                "records": account.records,
                "bytes": account.stored_bytes,
                "checked": dict(account.checked),
                "repaired": dict(account.repaired),
                "left": account.left,
                "seconds": round(account.seconds, 3),
                "stopped": account.stopped,
            }
        )

    def _say(self, facts: dict[str, object]) -> None:
        click.echo(json.dumps(facts, ensure_ascii=False))


class Plain:
    """One line a page, then a summary."""

    def __init__(self) -> None:
        self._done = 0
        self._todo = 0

    def started(self, added: AddResult, todo: int) -> None:
        """Say what is to be done."""
        self._todo = todo
        known = f", {added.duplicates} known already" if added.duplicates else ""
        click.echo(f"{added.added} added{known}; {todo} to archive.")

    def event(self, event: Event) -> None:
        """One line."""
        if isinstance(event, LinksAdded):
            self._todo += event.count
        elif isinstance(event, Standing):
            self._todo = self._done + event.queued + event.claimed
        elif _is_well(event):
            pass  # the summary counts them
        elif isinstance(event, PageDone | PageSkipped):
            self._done += 1
            # The frontier's counts are a moment old: what came back meanwhile is not in them yet.
            self._todo = max(self._todo, self._done)
            click.echo(f"[{self._done}/{self._todo}] {line_for(event)}")
        else:
            lost = isinstance(event, FileRecovered) and event.lost
            click.echo(f"  {aside_for(event)}", err=lost)

    def stopping(self) -> None:
        """Say what happens now."""
        click.echo("Stopping: pages begun are finished; once more to stop at once.", err=True)

    def ended(self, account: Account) -> None:
        """The summary."""
        for line in summary(account):
            click.echo(line)


class Terminal:
    """A bar that stays below the lines."""

    def __init__(self) -> None:
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
        self._todo = 0
        self._checked: Counter[Verdict] = Counter()
        # Warnings must not tear the bar.
        logging.getLogger().handlers[:] = [_Above(self._console)]

    def started(self, added: AddResult, todo: int) -> None:
        """Show the bar."""
        known = f", {added.duplicates} known already" if added.duplicates else ""
        self._console.print(f"{added.added} added{known}; {todo} to archive.")
        self._todo = todo
        self._progress.update(self._task, total=todo)
        if todo:
            self._progress.start()

    def event(self, event: Event) -> None:
        """One line above the bar."""
        if isinstance(event, LinksAdded):
            self._todo += event.count
            self._progress.update(self._task, total=self._todo)
            return
        if isinstance(event, Standing):
            self._stand(event)
            return
        if isinstance(event, PageChecked):
            self._checked[event.verdict] += 1
        if _is_well(event):
            return
        if isinstance(event, PageSkipped):
            self._console.print(escape(line_for(event)), style="cyan", soft_wrap=True)
            self._advance()
            return
        if not isinstance(event, PageDone):
            waits = isinstance(event, Paused | Waiting)
            self._progress.update(self._task, description="waiting" if waits else "archiving")
            style = "bold red" if isinstance(event, FileRecovered) and event.lost else "dim"
            self._console.print(escape(aside_for(event)), style=style, soft_wrap=True)
            return
        outcome = event.page.outcome if event.page else Outcome.FAILED
        colour = "red" if event.error else _COLOURS[outcome]
        self._console.print(f"[{colour}]{escape(line_for(event))}[/{colour}]", soft_wrap=True)
        self._advance()

    def _advance(self) -> None:
        """Count a page; the frontier's counts, which are a moment old, may not know it yet."""
        self._progress.advance(self._task)
        self._todo = max(self._todo, int(self._progress.tasks[0].completed))
        self._progress.update(self._task, total=self._todo)

    def _stand(self, event: Standing) -> None:
        """Show how the whole stands; what was skipped together or added elsewhere counts here."""
        done = int(self._progress.tasks[0].completed)
        self._todo = done + event.queued + event.claimed
        text = standing(event) + "".join(
            f" · {count} {verdict}" for verdict, count in in_order(self._checked) if verdict
        )
        self._progress.update(self._task, total=self._todo, standing=text)

    def stopping(self) -> None:
        """Say what happens now."""
        self._progress.update(self._task, description="stopping")
        self._console.print(
            "Stopping: pages begun are finished; press Ctrl-C once more to stop at once."
        )

    def ended(self, account: Account) -> None:
        """Take the bar away and give the summary."""
        self._progress.stop()
        for line in summary(account):
            self._console.print(escape(line))


class _Above(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(f"[dim]{escape(record.getMessage())}[/dim]", soft_wrap=True)


def _is_well(event: Event) -> bool:
    """Whether it is a copy that is good: of those the counts are enough."""
    return isinstance(event, PageChecked) and event.verdict is Verdict.GOOD
