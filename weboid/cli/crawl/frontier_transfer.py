"""`weboid crawl add`, `weboid queue export`, `import` and `snapshot`."""

import asyncio
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, TextIO

import click

from core.errors import DiskFullError, InputError, InvariantError, UnavailableError, is_disk_full
from core.json_values import json_facts
from core.layout import Layout
from core.timestamps import LONGEST_DURATION, parse_duration, warc_date
from crawler.collection import copy_database, read_collection
from crawler.frontier.base import JOB_ORDER, ItemState, Lane, NewItem
from crawler.frontier.frontier_export import export_lines as lines_of
from crawler.frontier.frontier_export import import_items as add_lines
from crawler.frontier.redis_frontier import RedisFrontier
from crawler.jobs.list_files import GivenUrls
from crawler.run.context_builder import make_slot_assigner
from crawler.run.crawl_run import add_in_batches
from crawler.worker.crawl_events import rotate_crawl_log
from crawler.worker.worker_pool import SNAPSHOT_ORDER
from warc.local_storage import replace_file, replacing_file, sync_folder
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option
from weboid.cli.support.options import named_file, output
from weboid.cli.support.progress import search_progress
from weboid.cli.support.run_output import format_size


@cli_command("add")
def add_command(
    *,
    urls: tuple[str, ...] = argument("[URL]..."),
    list_file: str | None = option("One URL per line; - is standard input.", "--list", metavar="FILE"),
    lane: str = option(
        "now: a reader is waiting; high: before the regular crawl.",
        choices=[lane.name.lower() for lane in Lane],
        default="standard",
    ),
    again: bool = option("Also queue URLs that were visited before."),
    older_than: timedelta | None = option(
        "Queue visited URLs again if the visit is at least this long ago: 30d, 12h.",
        type=parse_duration,
        metavar="DURATION",
    ),
    job: str = option("Crawl whose scope and budget apply.", default="", metavar="NAME"),
    where: CommandTarget = TARGET,
) -> int:
    """Add URLs, also to a running crawl.

    Workers of the frontier see them within a second. A known URL that is still queued is moved to
    the lane that is named, if that comes earlier; one that was visited is skipped without --again or
    --older-than.
    """
    if again and older_than is not None:
        raise InputError("Use --again or --older-than, not both.")
    # Nothing was visited a century ago, so that only moves what still waits to a higher lane.
    age = timedelta(0) if again else LONGEST_DURATION if older_than is None else older_than
    turns = make_slot_assigner(where.settings)
    with ExitStack() as stack:
        url_list = stack.enter_context(GivenUrls(urls, list_file, report=lambda text: click.echo(text, err=True)))
        frontier = stack.enter_context(where.frontier(make=True))
        jobs = list(frontier.orders(JOB_ORDER)) if job else []
        if job and job not in jobs:
            names = ", ".join(jobs[:20]) or "none"
            raise InputError(f"There is no job {job!r}; known: {names}. `weboid crawl` makes one.")
        items = (NewItem(url, Lane[lane.upper()], job=job) for url in url_list)
        result = asyncio.run(add_in_batches(frontier, turns, items, now=CLOCK.now, again=age))
        url_list.require_some()
        now = CLOCK.now()
        stats, worked_on = frontier.stats(now), where.is_worked_on(frontier, now=now)
    facts = json_facts(result, "added duplicates requeued") | json_facts(stats, "queued paused")
    known = f", {result.duplicates} already known" if result.duplicates else ""
    again_too = f", {result.requeued} queued again" if result.requeued else ""
    lines = [f"{result.added} added{known}{again_too}; {stats.queued} in the queue."]
    if stats.paused is not None:
        lines.append(f"The frontier is paused ({stats.paused}): `weboid crawl resume` resumes it.")
    elif not worked_on:
        command = "`weboid worker`" if where.is_shared else "`weboid archive`"
        lines.append(f"Nothing is working on {where.name} now: start {command}.")
    output.show({**facts, "worked_on": worked_on}, lines)
    return ExitCode.SOME_FAILED if url_list.bad else ExitCode.OK


# Unfinished states first: an item that ends meanwhile is written twice rather than not at all.
_ORDER = (ItemState.QUEUED, ItemState.CLAIMED, ItemState.DONE, ItemState.SKIPPED, ItemState.DEAD)


@cli_command("export", hidden=True)
def export_command(
    *,
    file: str = argument("FILE"),
    states: tuple[str, ...] = option(None, "--state", choices=_ORDER),
    where: CommandTarget = TARGET,
) -> None:
    """Write the frontier as JSON lines.

    One line per item, with all that is known of it; - is standard output. Works during a crawl: an item whose state
    changes meanwhile may be in two lines, the later one with the later state. For a consistent export use a `snapshot`.
    """
    wanted = [each for each in _ORDER if not states or str(each) in states]
    counts = dict.fromkeys(map(str, wanted), 0)
    bar = search_progress("lines")
    with where.frontier() as frontier, _open_output(file) as out, bar:
        task = bar.add_task("", total=None)
        for state in wanted:
            for line in lines_of(frontier, state, scanned=lambda count: bar.advance(task, count)):
                out.write(line + "\n")
                counts[state] += 1
    if output.is_json:
        click.echo(json.dumps(counts), err=file == "-")
    else:
        written = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        click.echo(f"{written or 'Nothing'} written.", err=True)


@contextmanager
def _open_output(file: str) -> Iterator[TextIO]:
    """Yield the file, created atomically when it is complete; or standard output."""
    if file == "-":
        yield sys.stdout
        return
    try:
        with replacing_file(Path(file)) as partial, partial.open("w", encoding="utf-8") as out:
            yield out
    except OSError as error:
        raise UnavailableError(f"{file} cannot be written: {error.strerror or error}.") from error


@cli_command("import", hidden=True)
def import_command(
    *,
    file: str = argument("FILE"),
    states: tuple[str, ...] = option(
        "Load only items in this state; may be given several times.",
        "--state",
        choices=_ORDER,
        default=("queued", "claimed"),
    ),
    where: CommandTarget = TARGET,
) -> int:
    """Queue the unfinished items of an export.

    Known URLs are skipped, so the same import may run again. Items that had ended elsewhere are queued only when their
    --state is named: a frontier takes no history from another one. To move all of it, use `snapshot`.
    """
    chosen = frozenset(map(ItemState, states))
    bar = search_progress("lines")
    with ExitStack() as stack:
        frontier = stack.enter_context(where.frontier(make=True))
        lines: BinaryIO = sys.stdin.buffer
        if file != "-":
            with named_file(file):
                lines = stack.enter_context(Path(file).open("rb"))
        stack.enter_context(bar)
        task = bar.add_task("", total=None)
        tally = add_lines(
            frontier, lines, chosen, now=CLOCK.now, progress=lambda number: bar.update(task, completed=number)
        )
    for problem in tally.problems:
        click.echo(f"{file}, {problem}", err=True)
    if tally.bad > len(tally.problems):
        click.echo(f"... and {tally.bad - len(tally.problems)} more lines.", err=True)
    added = tally.added
    facts = {"added": added.added, "duplicates": added.duplicates, "other_states": tally.other, "bad_lines": tally.bad}
    left = f"; {tally.other} in other states left out" if tally.other else ""
    bad = f"; {tally.bad} lines could not be used" if tally.bad else ""
    output.show(facts, f"{added.added} added, {added.duplicates} already known{left}{bad}.")
    return ExitCode.SOME_FAILED if tally.bad else ExitCode.OK


_MARGIN = 1.1  # of the space that a copy needs


@cli_command("snapshot", hidden=True)
def snapshot(
    *, folder: Path | None = argument("[DIR]", type=click.Path(path_type=Path)), where: CommandTarget = TARGET
) -> None:
    """Copy the frontier while it is in use.

    The copy is consistent. Its folder, which must be new, is a collection without WARCs: inspect it
    with --collection DIR. The crawl log, reports/crawl.jsonl, is rotated with it.

    A frontier in Redis is copied by Redis itself, into its dump file (BGSAVE): leave DIR out. The
    workers rotate their crawl logs with it.
    """
    if where.is_shared:
        if folder is not None:
            raise InputError("Redis writes the copy itself (BGSAVE), to its configured path: leave DIR out.")
        with where.frontier() as frontier:
            if not isinstance(frontier, RedisFrontier):
                raise InvariantError("The shared frontier is not in Redis.")
            try:
                file = frontier.save()  # by Redis itself; empty if its name is unknown
                frontier.give_order(SNAPSHOT_ORDER, "", warc_date(CLOCK.now()))
            except UnavailableError as error:
                raise UnavailableError(
                    f"{error} The user needs +bgsave and +info: name one that has these in --frontier."
                ) from error
        place = f", {file}, on its own machine" if file else ""
        lines = [f"Redis has written its copy{place}.", "Workers rotate their crawl logs now."]
        output.show({"file": file or None}, lines)
        return
    if folder is None:
        raise InputError("Name the folder of the copy: `weboid queue snapshot DIR`.")
    size, log = snapshot_frontier(read_collection(where.layout.root), folder, now=CLOCK.now())
    lines = [f"The frontier is copied to {folder}, {format_size(size)}."]
    lines += [f"The crawl log up to now is {log}."] if log else []
    output.show({"folder": str(folder), "bytes": size, "log": str(log) if log else None}, lines)


def snapshot_frontier(layout: Layout, folder: Path, *, now: datetime) -> tuple[int, Path | None]:
    """Copy the frontier into a new folder, and rotate its crawl log; return the copy's size in bytes, and that log."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} already exists: name a new or empty folder.")
    copy = Layout(folder)
    try:
        copy.databases.mkdir(parents=True, exist_ok=True)
        database = layout.frontier_db
        files = (path for path in database.parent.glob(f"{database.name}*") if path.is_file())
        needed, free = sum(path.stat().st_size for path in files), shutil.disk_usage(folder).free
        if free < needed * _MARGIN:
            raise DiskFullError(f"The copy needs {needed:,} bytes, and {free:,} are free on the disk of {folder}.")
        partial = copy.frontier_db.with_suffix(".partial")
        copy_database(layout.frontier_db, partial)
        log = rotate_crawl_log(layout.crawl_log, now=now)
        with partial.open("rb") as copied:
            os.fsync(copied.fileno())
        partial.rename(copy.frontier_db)
        sync_folder(copy.databases)
        # The marker is written last: a folder without it is not recognised as a collection.
        replace_file(copy.marker, layout.marker.read_bytes())
        sync_folder(folder)
    except sqlite3.Error as error:
        raise UnavailableError(f"{layout.frontier_db} cannot be copied: {error}.") from error
    except OSError as error:
        if is_disk_full(error):
            raise DiskFullError(f"The disk that holds {folder} is full: free some.") from error
        raise UnavailableError(f"{folder} cannot be written: {error.strerror or error}.") from error
    return copy.frontier_db.stat().st_size, log
