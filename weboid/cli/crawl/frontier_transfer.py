"""`weboid enqueue`, `frontier export`, `import` and `snapshot`."""

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, TextIO

import click

from core.clock import SystemClock
from core.errors import InputError, InvariantError, UnavailableError
from core.timestamps import LONGEST_DURATION, parse_duration
from crawler.collection import read_collection
from crawler.frontier.base import JOB_ORDER, AddResult, Frontier, ItemState, Lane, NewItem
from crawler.frontier.frontier_export import FrontierImport
from crawler.frontier.frontier_export import export_lines as lines_of
from crawler.frontier.frontier_export import import_items as add_lines
from crawler.frontier.redis_frontier import RedisFrontier
from crawler.jobs.list_files import GivenUrls
from crawler.run.context_builder import make_slot_assigner
from crawler.run.crawl_run import add_in_batches
from weboid.app import collection_snapshot as snapshots
from weboid.cli.support.command_target import TARGET, CommandTarget
from weboid.cli.support.commands import ExitCode, argument, cli_command, option
from weboid.cli.support.options import OUTPUT, CommandOutput
from weboid.cli.support.progress import search_progress
from weboid.cli.support.run_output import format_size

_CLOCK = SystemClock()


@cli_command("enqueue")
def enqueue_command(
    *,
    urls: tuple[str, ...] = argument("[URL]..."),
    list_file: str | None = option(
        "One URL a line; - is standard input.", "--list", metavar="FILE"
    ),
    priority: str = option(
        "now: for a waiting reader; high: before the regular crawl.",
        type=click.Choice([lane.name.lower() for lane in Lane]),
        default="standard",
    ),
    again: bool = option("Queue also what was visited before."),
    older_than: timedelta | None = option(
        "Queue what was visited before, if that was so long ago: 30d, 12h.",
        type=parse_duration,
        metavar="LENGTH",
    ),
    job: str = option("The crawl whose scope and budget hold.", default="", metavar="NAME"),
    where: CommandTarget = TARGET,
    output: CommandOutput = OUTPUT,
) -> int:
    """Add URLs, also to a running crawl.

    Workers of the frontier see them within a second. A known URL that is still queued is moved to
    the requested priority if that is higher; one that was visited is skipped without --again or
    --older-than.
    """
    if again and older_than is not None:
        raise InputError("Use --again or --older-than, not both.")
    lane = Lane[priority.upper()]
    # Nothing was visited a century ago, so that only moves what still waits to a higher lane.
    age = timedelta(0) if again else LONGEST_DURATION if older_than is None else older_than
    turns = make_slot_assigner(where.settings)
    with ExitStack() as stack:
        given = stack.enter_context(
            GivenUrls(urls, list_file, told=lambda text: click.echo(text, err=True))
        )
        frontier = stack.enter_context(where.frontier(make=True))
        _require_job(frontier, job)
        items = (NewItem(url, lane, job=job) for url in given)
        result = asyncio.run(add_in_batches(frontier, turns, items, now=_CLOCK.now, again=age))
        given.require_some()
        _say(result, frontier, where, output=output)
    return ExitCode.SOME_FAILED if given.bad else ExitCode.OK


def _require_job(frontier: Frontier, job: str) -> None:
    if not job:
        return
    known = frontier.orders(JOB_ORDER)
    if job not in known:
        names = ", ".join(list(known)[:20]) or "none"
        raise InputError(f"There is no job {job!r}; known: {names}. `weboid crawl` makes one.")


def _say(
    result: AddResult, frontier: Frontier, where: CommandTarget, output: CommandOutput
) -> None:
    now = _CLOCK.now()
    stats, worked_on = frontier.stats(now), where.is_worked_on(frontier, now=now)
    facts = {
        "added": result.added,
        "duplicates": result.duplicates,
        "requeued": result.requeued,
        "queued": stats.queued,
        "paused": stats.paused,
        "worked_on": worked_on,
    }
    if output.json(facts):
        return
    parts = [f"{result.added} added"]
    if result.duplicates:
        parts.append(f"{result.duplicates} known already")
    if result.requeued:
        parts.append(f"{result.requeued} queued again")
    click.echo(f"{', '.join(parts)}; {stats.queued} in the queue.")
    if stats.paused is not None:
        click.echo(f"The frontier is paused ({stats.paused}): `weboid resume` lets pages begin.")
    elif not worked_on:
        how = "`weboid worker`" if where.is_shared else "`weboid archive`"
        click.echo(f"Nobody works on {where.name} now: {how} does.")


# Unfinished states first: an item that ends meanwhile is written twice rather than not at all.
_ORDER = (ItemState.QUEUED, ItemState.CLAIMED, ItemState.DONE, ItemState.SKIPPED, ItemState.DEAD)


@cli_command("export")
def export_command(
    *,
    file: str = argument("FILE"),
    states: tuple[str, ...] = option(
        None, "--state", type=click.Choice([str(each) for each in _ORDER])
    ),
    where: CommandTarget = TARGET,
    output: CommandOutput = OUTPUT,
) -> None:
    """Write the frontier as JSON lines.

    One line per item, with all that is known of it; - is standard output. Works during a crawl: an
    item whose state changes meanwhile may be in two lines, the later one with the later state. For
    a consistent export use a `snapshot`.
    """
    wanted = [each for each in _ORDER if not states or str(each) in states]
    counts = dict.fromkeys(map(str, wanted), 0)
    bar = search_progress("lines", quiet=output.is_json)
    with where.frontier() as frontier, _open_output(file) as out, bar:
        task = bar.add_task("", total=None)
        for state in wanted:
            for line in lines_of(frontier, state, scanned=lambda count: bar.advance(task, count)):
                out.write(line + "\n")
                counts[state] += 1
    if output.is_json:
        click.echo(json.dumps(counts), err=file == "-")
    else:
        told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        click.echo(f"{told or 'Nothing'} written.", err=True)


@contextmanager
def _open_output(file: str) -> Iterator[TextIO]:
    """Yield the file, created atomically when it is complete; or standard output."""
    if file == "-":
        yield sys.stdout
        return
    path = Path(file)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8") as out:
            yield out
        partial.replace(path)
    except OSError as error:
        raise UnavailableError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


@cli_command("import")
def import_command(
    *,
    file: str = argument("FILE"),
    states: tuple[str, ...] = option(
        "Take the lines of items in this state; may be given several times.",
        "--state",
        type=click.Choice([str(each) for each in _ORDER]),
        default=("queued", "claimed"),
    ),
    where: CommandTarget = TARGET,
    output: CommandOutput = OUTPUT,
) -> int:
    """Queue the unfinished items of an export.

    Known URLs are skipped, so the same import may run again. Items that had ended elsewhere are
    queued only when their --state is named: a frontier takes no history from another one. To move
    all of it, use `snapshot`.
    """
    chosen = frozenset(map(ItemState, states))
    bar = search_progress("lines", quiet=output.is_json)
    with where.frontier(make=True) as frontier, _open_input(file) as lines, bar:
        task = bar.add_task("", total=None)
        taken = add_lines(
            frontier,
            lines,
            chosen,
            now=_CLOCK.now,
            progress=lambda number: bar.update(task, completed=number),
        )
    _say_taken(taken, file, output=output)
    return ExitCode.SOME_FAILED if taken.bad else ExitCode.OK


def _say_taken(taken: FrontierImport, file: str, output: CommandOutput) -> None:
    for problem in taken.problems:
        click.echo(f"{file}, {problem}", err=True)
    if taken.bad > len(taken.problems):
        click.echo(f"... and {taken.bad - len(taken.problems)} more lines.", err=True)
    added = taken.added
    facts = {
        "added": added.added,
        "duplicates": added.duplicates,
        "other_states": taken.other,
        "bad_lines": taken.bad,
    }
    left = f"; {taken.other} in other states left out" if taken.other else ""
    bad = f"; {taken.bad} lines could not be used" if taken.bad else ""
    output.show(facts, f"{added.added} added, {added.duplicates} known already{left}{bad}.")


@contextmanager
def _open_input(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        opened = Path(file).open("rb")  # noqa: SIM115 closed below; only its opening may fail
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}.") from error
    with opened:
        yield opened


@cli_command("snapshot")
def snapshot(
    *,
    folder: Path | None = argument("[DIR]", type=click.Path(path_type=Path)),
    where: CommandTarget = TARGET,
    output: CommandOutput = OUTPUT,
) -> None:
    """Copy the frontier while it is in use.

    The copy is consistent. Its folder, which must be new, is a collection without WARCs: inspect it
    with --collection DIR. The crawl log, reports/crawl.jsonl, is rotated with it.

    A frontier in Redis is copied by Redis itself, into its dump file (BGSAVE): leave DIR out. The
    workers rotate their crawl logs with it.
    """
    if where.is_shared:
        if folder is not None:
            raise InputError(
                "Redis writes the copy itself (BGSAVE), to its configured path: leave DIR out."
            )
        with where.frontier() as frontier:
            if not isinstance(frontier, RedisFrontier):
                raise InvariantError("A frontier that machines share is none in Redis.")
            try:
                file = snapshots.snapshot_shared_frontier(frontier, now=_CLOCK.now())
            except UnavailableError as error:
                raise UnavailableError(
                    f"{error} The user needs +bgsave and +info: name one that has these in --frontier."
                ) from error
        output.show(
            {"file": file or None},
            [
                f"Redis has written its copy{f', {file}, on its own machine' if file else ''}.",
                "Workers rotate their crawl logs now.",
            ],
        )
        return
    if folder is None:
        raise InputError("Name the folder of the copy: `weboid frontier snapshot DIR`.")
    made = snapshots.snapshot_frontier(read_collection(where.layout.root), folder, now=_CLOCK.now())
    facts = {
        "folder": str(made.folder),
        "bytes": made.size_bytes,
        "log": str(made.log) if made.log else None,
    }
    if output.json(facts):
        return
    click.echo(f"The frontier is copied to {made.folder}, {format_size(made.size_bytes)}.")
    if made.log:
        click.echo(f"The crawl log up to now is {made.log}.")
