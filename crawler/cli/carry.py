"""`weboid frontier export`, `import` and `snapshot`: the books elsewhere."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

import click

from core.clock import SystemClock
from core.errors import InputError, InvariantError, UnavailableError
from crawler import snapshot as snapshots
from crawler.cli.exits import Exit
from crawler.cli.run_lines import size
from crawler.cli.selections import progress
from crawler.cli.where import Where, where_options
from crawler.collection import read_collection
from crawler.frontier.base import ItemState
from crawler.frontier.redis import RedisFrontier
from crawler.ledger import Taken
from crawler.ledger import export as lines_of
from crawler.ledger import take_in as add_lines

_CLOCK = SystemClock()
# First what still moves: what ends while it is written is then told twice rather than not at all.
_ORDER = (
    ItemState.QUEUED,
    ItemState.CLAIMED,
    ItemState.DONE,
    ItemState.SKIPPED,
    ItemState.DEAD,
)


@click.command("export")
@click.argument("file", metavar="FILE")
@click.option("--state", "states", multiple=True, type=click.Choice([str(each) for each in _ORDER]))
@where_options
def export(*, file: str, states: tuple[str, ...], where: Where, as_json: bool) -> int:
    """Write the books as JSON lines.

    One line an item, with all that is known of it; - is standard output. Works while pages are
    visited: what changes its state meanwhile may stand in two lines, the later one with the later
    state. For the books of one moment export a `snapshot`.
    """
    wanted = [each for each in _ORDER if not states or str(each) in states]
    counts = dict.fromkeys(map(str, wanted), 0)
    bar = progress("lines", quiet=as_json)
    with where.frontier() as frontier, _written(file) as out, bar:
        task = bar.add_task("", total=None)
        for state in wanted:
            for line in lines_of(frontier, state, scanned=lambda count: bar.advance(task, count)):
                out.write(line + "\n")
                counts[state] += 1
    if as_json:
        click.echo(json.dumps(counts), err=file == "-")
    else:
        told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        click.echo(f"{told or 'Nothing'} written.", err=True)
    return Exit.OK


@contextmanager
def _written(file: str) -> Iterator[TextIO]:
    """The file, there when it is whole; or standard output."""
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


@click.command("import")
@click.argument("file", metavar="FILE")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([str(each) for each in _ORDER]),
    default=("queued", "claimed"),
    show_default=True,
    help="Take the lines of items in this state; may be said several times.",
)
@where_options
def take_in(*, file: str, states: tuple[str, ...], where: Where, as_json: bool) -> int:
    """Queue what an export says was to be visited.

    Known URLs are left alone, so the same import may run again. What had ended elsewhere is queued
    only when its --state is named: a frontier takes no history from another one. To move all of it,
    use `snapshot`.
    """
    chosen = frozenset(map(ItemState, states))
    bar = progress("lines", quiet=as_json)
    with where.frontier(make=True) as frontier, _read(file) as lines, bar:
        task = bar.add_task("", total=None)
        taken = add_lines(
            frontier,
            lines,
            chosen,
            now=_CLOCK.now,
            progress=lambda number: bar.update(task, completed=number),
        )
    _say_taken(taken, file, as_json=as_json)
    return Exit.SOME_FAILED if taken.bad else Exit.OK


def _say_taken(taken: Taken, file: str, *, as_json: bool) -> None:
    for problem in taken.problems:
        click.echo(f"{file}, {problem}", err=True)
    if taken.bad > len(taken.problems):
        click.echo(f"... and {taken.bad - len(taken.problems)} more lines.", err=True)
    added = taken.added
    if as_json:
        facts = {
            "added": added.added,
            "duplicates": added.duplicates,
            "other_states": taken.other,
            "bad_lines": taken.bad,
        }
        click.echo(json.dumps(facts))
        return
    left = f"; {taken.other} in other states left out" if taken.other else ""
    bad = f"; {taken.bad} lines could not be used" if taken.bad else ""
    click.echo(f"{added.added} added, {added.duplicates} known already{left}{bad}.")


@contextmanager
def _read(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        opened = Path(file).open("rb")  # noqa: SIM115 closed below; only its opening may fail
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}.") from error
    with opened:
        yield opened


@click.command("snapshot")
@click.argument("folder", type=click.Path(path_type=Path), metavar="[DIR]", required=False)
@where_options
def snapshot(*, folder: Path | None, where: Where, as_json: bool) -> int:
    """Copy the frontier while it is worked on.

    The copy is of one moment. Its folder, which must be new, is a collection without WARCs: look
    into it with --collection DIR. The crawl log, reports/crawl.jsonl, is rotated with it.

    A frontier in Redis is copied by Redis itself, into its dump file (BGSAVE): leave DIR out. The
    workers rotate their crawl logs with it.
    """
    if where.is_shared:
        return _shared_snapshot(folder, where, as_json=as_json)
    if folder is None:
        raise InputError("Say where the copy is to be: `weboid frontier snapshot DIR`.")
    made = snapshots.take(read_collection(where.layout.root), folder, now=_CLOCK.now())
    if as_json:
        facts = {
            "folder": str(made.folder),
            "bytes": made.size_bytes,
            "log": str(made.log) if made.log else None,
        }
        click.echo(json.dumps(facts, ensure_ascii=False))
        return Exit.OK
    click.echo(f"The frontier is copied to {made.folder}, {size(made.size_bytes)}.")
    if made.log:
        click.echo(f"The crawl log up to now is {made.log}.")
    return Exit.OK


def _shared_snapshot(folder: Path | None, where: Where, *, as_json: bool) -> int:
    if folder is not None:
        raise InputError(
            "Redis writes the copy itself (BGSAVE), where its configuration says: leave DIR out."
        )
    with where.frontier() as frontier:
        if not isinstance(frontier, RedisFrontier):
            raise InvariantError("A frontier that machines share is none in Redis.")
        try:
            file = snapshots.take_shared(frontier, now=_CLOCK.now())
        except UnavailableError as error:
            raise UnavailableError(
                f"{error} The user needs +bgsave and +info: name one that has these in --frontier."
            ) from error
    if as_json:
        click.echo(json.dumps({"file": file or None}))
        return Exit.OK
    click.echo(f"Redis has written its copy{f', {file}, on its own machine' if file else ''}.")
    click.echo("Workers rotate their crawl logs now.")
    return Exit.OK
