"""Output of a run: plain lines, JSON lines for machines, and the choice between them and a progress bar."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from core.errors import InvariantError
from core.json_values import json_facts
from core.page_classes import GOOD, PageClass
from core.page_manifest import VisitOutcome
from core.timestamps import warc_date
from crawler.frontier.base import AddResult
from crawler.worker import crawl_events
from net.backoff import WaitEnded, WaitStarted
from weboid.cli.support.commands import ExitCode
from weboid.cli.support.options import output

if TYPE_CHECKING:
    from core.playback_check import QaVerdict
    from crawler.run.crawl_run import RunSummary


def _echo(text: str, *, err: bool = False) -> None:
    """Print a line; stop the run as Ctrl-C does when the reader of the output has closed the pipe."""
    try:
        click.echo(text, err=err)
    except BrokenPipeError:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        signal.raise_signal(signal.SIGINT)


def page_line(event: crawl_events.PageDone | crawl_events.PageSkipped) -> str:
    """Return a page in one line: outcome, status, records, bytes, seconds, URL, defects."""
    if isinstance(event, crawl_events.PageSkipped):
        return f"skipped   {'':>3} {event.url}  ({event.reason})"
    page = event.page
    if page is None:
        why = event.error or "finished by an earlier run"
        return f"{'failed' if event.error else 'complete':9} {'':>3} {event.url}  ({why})"
    status = str(page.status) if page.status is not None else "-"
    in_status = GOOD | {PageClass.HTTP_ERROR}
    kind = "" if page.page_class in in_status else str(page.page_class)
    why = ", ".join(each for each in (kind, page.reason) if each)
    reason = f"  ({why})" if why else ""
    return (
        f"{page.outcome:9} {status:>3} {page.records:4} records {format_size(page.stored_bytes):>9}"
        f" {page.seconds:6.1f} s  {page.url}{reason}"
    )


def event_line(event: crawl_events.Event) -> str:
    """Return an event between pages in one line."""
    match event:
        case crawl_events.PageChecked():
            score = "   -" if event.score is None else f"{event.score:4.2f}"
            reason = f"  ({event.reason})" if event.reason else ""
            text = f"{event.verdict or 'unchecked':9} {score} {event.url}{reason}"
        case crawl_events.PageRepaired():
            text = f"repaired  {event.url}: {event.state}; {event.reason}"
        case crawl_events.PageRetried():
            text = f"again     {event.url}: {event.reason}"
        case crawl_events.PageDeferred():
            until = f"{event.until:%Y-%m-%d %H:%M:%S} UTC"
            text = f"later     {event.url}: {event.reason}; not before {until}"
        case crawl_events.DiskSpaceLow():
            text = (
                f"waiting   for space on the disk: {format_size(event.free_bytes)} free, "
                f"{format_size(event.wanted_bytes)} needed. The run continues when there is more space."
            )
        case crawl_events.DiskSpaceRestored():
            text = f"going on  after {event.seconds:.0f} s: space is available again"
        case WaitStarted():
            text = f"waiting   {event.text} The run continues when it is available again."
        case WaitEnded():
            text = f"going on  after {event.seconds:.0f} s: the {event.reason} is available again"
        case crawl_events.SnapshotMade():
            text = f"snapshot  of {event.at:%Y-%m-%d %H:%M:%S} UTC: a new crawl log begins"
        case crawl_events.FileRecovered() | crawl_events.IndexRestored():
            text = f"recovered {event.text}"
        case _:
            raise InvariantError(f"Not an event between pages: {event!r}.")
    return text


def summary_lines(summary: RunSummary) -> list[str]:
    """Return the run's summary in a few lines."""
    if summary.handed_over:
        return [f"Waiting for workers of the shared frontier (`weboid worker`): {summary.left}."]
    pages = ", ".join(f"{count} {outcome}" for outcome, count in sorted(summary.outcomes.items()))
    rate = sum(summary.outcomes.values()) / summary.seconds * 60 if summary.seconds else 0.0
    lines = [
        f"Pages: {pages or 'none'}. {summary.records} records, {format_size(summary.stored_bytes)},"
        f" {summary.seconds:.1f} s, {rate:.0f} pages/min."
    ]
    if summary.links:
        lines.append(f"Links added to the queue: {summary.links}.")
    if summary.skipped:
        why = ", ".join(f"{count} {word}" for word, count in summary.skipped.most_common(10))
        lines.append(f"Skipped: {summary.skipped.total()} ({why}).")
    if summary.failures:
        lines.append(f"Given up: {summary.failures}.")
    if summary.checked:
        verdicts = ", ".join(f"{count} {verdict or 'unchecked'}" for verdict, count in worst_first(summary.checked))
        lines.append(f"Checked: {summary.checked.total()} ({verdicts}).")
    if summary.repaired:
        ended = ", ".join(f"{count} {state}" for state, count in summary.repaired.most_common())
        lines.append(f"Captured again: {summary.repaired.total()} ({ended}).")
    if summary.left:
        lines.append(f"Left: {summary.left}. The same command continues with them.")
    return lines


def worst_first(counts: Mapping[QaVerdict, int]) -> list[tuple[QaVerdict, int]]:
    """Return the check verdicts and their counts, worst first."""
    if not counts:
        return []
    from core.playback_check import QaVerdict

    return [(verdict, counts[verdict]) for verdict in reversed(QaVerdict) if counts.get(verdict)]


def format_size(count: float) -> str:
    """Return a human-readable size.

    >>> format_size(999), format_size(1_500_000)
    ('999 B', '1.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


_NAMES: dict[type, str] = {
    WaitStarted: "waiting",
    WaitEnded: "going_on",
    crawl_events.PageSkipped: "skipped",
    crawl_events.PageRetried: "retry",
    crawl_events.PageDeferred: "later",
    crawl_events.SnapshotMade: "snapshot",
    crawl_events.LinksAdded: "links",
    crawl_events.PageChecked: "checked",
    crawl_events.PageRepaired: "repaired",
    crawl_events.QueueStatus: "progress",
    crawl_events.DiskSpaceRestored: "resumed",
    crawl_events.IndexRestored: "index_restored",
}
_SAME = ("page_id", "final_url", "captured_at", "status", "mime", "title", "records", "seconds")


class RunReporter:
    """Progress output of a run: one line per page, then a summary.

    A quiet one prints lost records alone; failures show in the exit code.
    """

    def __init__(self, *, is_quiet: bool = False) -> None:
        self._is_quiet = is_quiet
        self._done = 0
        self._todo = 0

    def started(self, added: AddResult, todo: int) -> None:
        """Report that the URLs are in the frontier; `todo` is the number of pages to visit."""
        self._todo = todo
        known = f", {added.duplicates} already known" if added.duplicates else ""
        self._print(f"{added.added} added{known}; {todo} to archive.")
        if known and not todo:
            self._print(
                "`weboid archive --again` archives known URLs again, `weboid queue retry --state dead` those that were given up."
            )

    def event(self, event: crawl_events.Event) -> None:
        """Report an event, e.g. a page that ended or is retried."""
        if isinstance(event, crawl_events.LinksAdded):
            self._todo += event.count
        elif isinstance(event, crawl_events.QueueStatus):
            self._todo = self._done + event.queued + event.claimed
        elif isinstance(event, crawl_events.PageDone | crawl_events.PageSkipped):
            self._done += 1
            # The frontier's counts are slightly old: items returned since are not included yet.
            self._todo = max(self._todo, self._done)
            self._page(event)
        elif not (isinstance(event, crawl_events.PageChecked) and event.verdict == "good"):
            self._between(event)  # the summary counts good copies

    def stopping(self) -> None:
        """Report the stop request; pages in progress finish."""
        _echo("Stopping: pages in progress finish; press Ctrl-C again to stop at once.", err=True)

    def ended(self, summary: RunSummary) -> None:
        """Report the end of the run."""
        for line in summary_lines(summary):
            self._print(line)

    def _print(self, text: str) -> None:
        if not self._is_quiet:
            _echo(text)

    def _page(self, event: crawl_events.PageDone | crawl_events.PageSkipped) -> None:
        self._print(f"[{self._done}/{self._todo}] {page_line(event)}")

    def _between(self, event: crawl_events.Event) -> None:
        lost = isinstance(event, crawl_events.FileRecovered) and event.lost
        if lost or not self._is_quiet:
            _echo(f"  {event_line(event)}", err=lost)


def run_reporter() -> RunReporter:
    """Return the reporter for JSON, a terminal, or plain output."""
    if output.is_json:
        return JsonRunReporter()
    if output.is_quiet or not sys.stdout.isatty():
        return RunReporter(is_quiet=output.is_quiet)
    from weboid.cli.support.progress import BarRunReporter

    return BarRunReporter()


class JsonRunReporter(RunReporter):
    """Reporter with one JSON object per line on standard output."""

    def started(self, added: AddResult, todo: int) -> None:
        """Write the number of added URLs."""
        self._show({"event": "started", **asdict(added), "todo": todo})

    def event(self, event: crawl_events.Event) -> None:
        """Write the event; a page without its long lists, which are in its manifest."""
        match event:
            case crawl_events.DiskSpaceLow():
                self._show({"event": "paused", "reason": "disk", **asdict(event)})
            case crawl_events.FileRecovered():
                self._show({"event": "recovered", **event.facts})
            case crawl_events.PageDone():
                page = event.page
                facts: dict[str, object] = {
                    "event": "page",
                    "url": event.url,
                    "outcome": str(page.outcome if page else VisitOutcome.FAILED if event.error else "done"),
                    "reason": event.error or (page.reason if page else ""),
                    "attempts": event.attempts,
                }
                if page is not None:
                    facts |= {name: getattr(page, name) for name in _SAME}
                    facts |= {"class": page.page_class, "bytes": page.stored_bytes}
                self._show(facts)
            case _:
                self._show({"event": _NAMES[type(event)], **asdict(event)})

    def stopping(self) -> None:
        """Write the stop request."""
        self._show({"event": "stopping"})

    def ended(self, summary: RunSummary) -> None:
        """Write the summary."""
        self._show(
            {
                "event": "summary",
                "added": summary.added.added,
                "duplicates": summary.added.duplicates,
                "outcomes": {str(key): count for key, count in summary.outcomes.items()},
                "failed": [{"url": url, "reason": reason} for url, reason in summary.failed],
                **json_facts(
                    summary, "failures skipped links records checked repaired left stopped", bytes="stored_bytes"
                ),
                "seconds": round(summary.seconds, 3),
            }
        )

    def _show(self, facts: dict[str, object]) -> None:
        _echo(json.dumps(facts, ensure_ascii=False, default=warc_date))


def run_exit_code(summary: RunSummary, *, bad: int) -> ExitCode:
    """Return the exit code of a finished run."""
    if summary.stopped and summary.left:
        return ExitCode.STOPPED
    if summary.failures or bad:
        return ExitCode.SOME_FAILED
    return ExitCode.OK
