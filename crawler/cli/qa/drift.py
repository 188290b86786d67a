"""`weboid qa drift`: which pages changed most since they were first captured."""

import heapq
import json
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from core.clock import SystemClock
from core.timestamps import milliseconds
from crawler.cli.exits import Exit
from crawler.cli.options import collection_option, database_option, json_option
from crawler.cli.params import DURATION
from crawler.cli.qa.sights import Sights, opened_sights
from crawler.cli.tables import clean, table, width
from crawler.collection import read_collection
from crawler.quality.changes import changes, facts_of
from playback.choosing import OFFERED
from playback.database import Database
from playback.pages_stream import captures_of_pages

_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True, order=True)
class Drifted:
    """A page and how far it went, the furthest last in order.

    Attributes:
        distance: as `crawler.quality.changes.Changes.distance`.
        url: its newest capture's.
        facts: as `crawler.quality.changes.facts_of`.
    """

    distance: float
    url: str
    facts: dict[str, Any] = field(compare=False)


@click.command("drift")
@click.option(
    "--since",
    type=DURATION,
    metavar="LENGTH",
    help="Only pages that were captured again so lately: 30d.",
)
@click.option("--sample", type=click.IntRange(1), help="So many pages, chosen by chance.")
@click.option("--seed", default=0, help="Of the sample: the same number chooses the same pages.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Show so many."
)
@click.option("--jobs", type=click.IntRange(1, 64), default=2, show_default=True, help="At once.")
@collection_option
@database_option
@json_option
def command(
    *,
    since: timedelta | None,
    sample: int | None,
    seed: int,
    limit: int,
    jobs: int,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """List the pages that changed most between their first good capture and their newest.

    Looks at pages with two or more captures, and says of each what `weboid qa compare` says. Memory
    does not grow with the collection. With --json a line each.
    """
    layout = read_collection(collection)
    start = None if since is None else _CLOCK.now() - since
    with opened_sights(layout, database_url) as sights:
        urls: Iterable[str] = captured_again(sights.database, start)
        if sample is not None:
            urls = sampled(urls, sample, seed)
        found = _drifted(sights, urls, limit=limit, jobs=jobs, quiet=as_json)
    if as_json:
        for each in found:
            click.echo(json.dumps(each.facts, ensure_ascii=False))
        return Exit.OK
    rows = [
        (
            each.facts["drift"],
            _share(each.facts["text"]),
            _share(each.facts["picture"]),
            _told(each),
        )
        for each in found
    ]
    head = ("became", "text>", "picture>", "page")
    click.echo("\n".join(table(head, rows, columns=width())))
    return Exit.OK


def captured_again(database: Database, since: datetime | None = None) -> Iterator[str]:
    """Each URL with two or more captures, in the index's order, its newest spelling; as a stream.

    Args:
        database: the captures index.
        since: only those with a capture since then.
    """
    start = None if since is None else milliseconds(since)
    for rows in captures_of_pages(database, OFFERED):
        if len(rows) > 1 and (start is None or rows[-1]["captured_ms"] >= start):
            yield rows[-1]["url"]


def sampled(urls: Iterable[str], count: int, seed: int) -> list[str]:
    """So many of the URLs, chosen by `seed` alone: the same of the same URLs, in any order."""

    def chance(url: str) -> bytes:
        text = f"{seed}:{url}".encode("utf-8", "surrogatepass")
        return blake2b(text, digest_size=16).digest()

    return heapq.nsmallest(count, urls, key=chance)


def _drifted(
    sights: Sights, urls: Iterable[str], *, limit: int, jobs: int, quiet: bool
) -> list[Drifted]:
    """The most changed, in that order. At most `jobs` pages are in memory at a time."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    progress = Progress(
        *columns, console=Console(stderr=True), disable=quiet or not sys.stderr.isatty()
    )
    most: list[Drifted] = []
    with progress, ThreadPoolExecutor(jobs) as threads:
        task = progress.add_task("Comparing", total=None)
        for found in _done(threads, sights, urls, jobs):
            progress.advance(task)
            if found is None:
                continue
            if len(most) < limit:
                heapq.heappush(most, found)
            else:
                heapq.heappushpop(most, found)
    return sorted(most, key=lambda each: (-each.distance, each.url))


def _done(
    threads: ThreadPoolExecutor, sights: Sights, urls: Iterable[str], jobs: int
) -> Iterator[Drifted | None]:
    """What each URL's comparison finds, as it ends."""
    running: set[Future[Drifted | None]] = set()
    for url in urls:
        running.add(threads.submit(_held, sights, url))
        if len(running) > jobs:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (each.result() for each in ended)
    yield from (each.result() for each in running)


def _held(sights: Sights, url: str) -> Drifted | None:
    """The page's newest capture held against its first good one; None when there are not both."""
    older, newer = sights.oldest_good(url), sights.newest(url)
    if older is None or newer is None or older.captured_at >= newer.captured_at:
        return None
    then, now = sights.pair(older, newer)
    found = changes(then, now)
    return Drifted(found.distance, now.url, facts_of(found, then, now))


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _told(drifted: Drifted) -> str:
    reason = drifted.facts["reason"]
    return clean(f"{drifted.url}  ({reason})" if reason else drifted.url)
