"""`weboid scan`: what was archived, shown to a virus scanner."""

import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from core.backoff import Backoff
from core.clock import SystemClock
from core.durations import parse_duration
from core.errors import TransientError, UnavailableError, WeboidError
from core.timestamps import warc_date
from crawler.cli.exits import Exit
from crawler.cli.groups import GroupWithDefault
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.run_lines import size
from crawler.cli.scan_lists import lists
from crawler.cli.tables import clean, table, width
from crawler.collection import read_collection
from playback.database import open_database
from playback.decisions.store import open_decisions
from playback.decisions.verdicts import Verdict, threats
from playback.scanning.clamd import DEFAULT_ADDRESS, VARIABLE, Clamd, parse_clamd_address
from playback.scanning.reading import PayloadReader
from playback.scanning.scanner import MOST_BYTES, UNSETTLED, Found, Scan
from playback.server import find_replay_python

_CLOCK = SystemClock()
log = logging.getLogger(__name__)

_ALL_AGAIN_S = 3_600.0  # between looks at the whole index, while watching


@click.group("scan", cls=GroupWithDefault, invoke_without_command=True)
@collection_option
@database_option
@click.option(
    "--clamd",
    default=DEFAULT_ADDRESS,
    show_default=True,
    envvar=VARIABLE,
    show_envvar=True,
    metavar="ADDRESS",
    help="Where clamd listens: unix:/path, or host:port.",
)
@click.option(
    "--watch", is_flag=True, help="Go on: scan what comes, and all when signatures change."
)
@click.option("--every", default="10s", show_default=True, help="How often to look, with --watch.")
@click.option("--again", is_flag=True, help="Also what has a verdict of these very signatures.")
@click.option("--jobs", type=click.IntRange(1, 64), default=2, show_default=True, help="At once.")
@click.option(
    "--max-bytes",
    type=click.IntRange(1),
    default=MOST_BYTES,
    show_default=True,
    help="The largest payload to scan; not more than clamd's StreamMaxLength and MaxFileSize.",
)
@click.option(
    "--signatures",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="clamd's database folder: signatures of your own count towards their version, too.",
)
@click.option(
    "--settle",
    default="15m",
    show_default=True,
    help="How long clamd may take to read --signatures that have changed.",
)
@json_option
def command(
    *,
    collection: Path,
    database_url: str,
    clamd: str,
    watch: bool,
    every: str,
    again: bool,
    jobs: int,
    max_bytes: int,
    signatures: Path | None,
    settle: str,
    as_json: bool,
) -> int:
    """Show payloads to clamd, the newest first, and keep its verdicts.

    Neither capture nor playback waits for it. What has a verdict of the same signatures is passed
    over, so an interrupted scan goes on where it stopped. In what clamd knows as a threat playback
    shows a notice. Exit code 1: a threat was found. See docs/scanning.md.
    """
    layout = read_collection(collection)
    address, pause_s = parse_clamd_address(clamd), parse_duration(every).total_seconds()
    python = find_replay_python()
    with ExitStack() as stack:
        database = open_database(layout, database_url)
        stack.callback(database.close)
        decisions = open_decisions(layout, database_url)
        stack.callback(decisions.close)
        scan = Scan(
            database,
            decisions,
            Clamd(address),
            partial(PayloadReader, python, layout),
            _CLOCK.now,
            most_bytes=max_bytes,
            jobs=jobs,
            signatures=signatures,
            settle=parse_duration(settle),
        )
        stopped = stack.enter_context(_stopped_by_signals())
        if watch:
            _watch(scan, stopped, pause_s, as_json=as_json)
            return Exit.STOPPED
        found = _shown(partial(scan.run, again=again, stopped=stopped), quiet=as_json)
        _tell(found, as_json=as_json)
    if stopped.is_set():
        return Exit.STOPPED
    return Exit.SOME_FAILED if found.threats else Exit.OK


command.add_command(lists)


@command.command("threats")
@collection_option
@database_option
@json_option
def threats_command(*, collection: Path, database_url: str, as_json: bool) -> int:
    """Show the payloads in which a threat was found, newest first."""
    layout = read_collection(collection)
    with ExitStack() as stack:
        decisions = open_decisions(layout, database_url)
        stack.callback(decisions.close)
        found = threats(decisions)
    if as_json:
        click.echo(json.dumps({"threats": [_facts(each) for each in found]}))
        return Exit.OK
    rows = [
        (f"{each.scanned_at:%Y-%m-%d %H:%M}", clean(each.threat), each.scanner, each.digest)
        for each in found
    ]
    for line in table(("scanned", "threat", "scanner", "digest"), rows, columns=width()):
        click.echo(line)
    return Exit.OK


def _watch(scan: Scan, stopped: threading.Event, pause_s: float, *, as_json: bool) -> None:
    """Scan what comes until it is stopped; all of the index each hour, and for new signatures."""
    highest, version, due = 0, "", 0.0
    away = False
    backoff = Backoff(pause_s, max(_ALL_AGAIN_S, pause_s))
    while not stopped.is_set():
        try:
            now = _CLOCK.monotonic()
            current = scan.version()
            # What clamd has not read yet is no reason to show it everything again.
            is_settled = not current.endswith(UNSETTLED) or not version
            if (current != version and is_settled) or now >= due:
                highest, version, due = 0, current, now + _ALL_AGAIN_S
            found = scan.run(after=highest, stopped=stopped)
            highest, away = found.highest, False
            if found.scanned or found.skipped:
                _tell(found, as_json=as_json)
            backoff.reset()
            stopped.wait(pause_s)
        except (UnavailableError, TransientError) as error:
            if not away:  # once, not every few seconds
                click.echo(f"weboid: {error} Waiting for it.", err=True)
            away = True
            stopped.wait(pause_s)
        except WeboidError:
            raise
        except Exception as error:
            log.exception("scan.internal_error")
            wait_s = backoff.next_s()
            click.echo(
                f"weboid: internal error ({type(error).__name__}: {error}); the next scan begins in "
                f"{wait_s:g} s.",
                err=True,
            )
            stopped.wait(wait_s)


def _shown(run: Callable[..., Found], *, quiet: bool) -> Found:
    columns = (TextColumn("scanning"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True, disable=quiet) as progress:
        task = progress.add_task("", total=None)
        return run(progress=lambda done, total: progress.update(task, completed=done, total=total))


def _tell(found: Found, *, as_json: bool) -> None:
    if as_json:
        facts = {
            "scanner": found.scanner,
            "scanned": found.scanned,
            "clean": found.clean,
            "skipped": found.skipped,
            "bytes": found.read_bytes,
            "threats": [{**_facts(verdict), "url": url} for verdict, url in found.threats],
        }
        click.echo(json.dumps(facts))
        return
    for verdict, url in found.threats:
        click.echo(f"{clean(verdict.threat)}  {clean(url)}  {verdict.digest}")
    skipped = f", {found.skipped} not looked into" if found.skipped else ""
    click.echo(
        f"{found.scanned} payloads of {size(found.read_bytes)} scanned with {found.scanner}:"
        f" {len(found.threats)} threats, {found.clean} clean{skipped}."
    )


def _facts(verdict: Verdict) -> dict[str, Any]:
    return {
        "digest": verdict.digest,
        "threat": verdict.threat,
        "scanner": verdict.scanner,
        "scanned_at": warc_date(verdict.scanned_at),
    }


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, so that what was found is kept; a second one ends it."""
    stopped = threading.Event()
    before: dict[signal.Signals, Any] = {}

    def stop(number: int, _frame: Any) -> None:
        stopped.set()
        signal.signal(number, before[signal.Signals(number)])

    if threading.current_thread() is threading.main_thread():
        for each in (signal.SIGINT, signal.SIGTERM):
            before[each] = signal.signal(each, stop)
    try:
        yield stopped
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
