"""`weboid links mirror`: archives elsewhere for what was visited (A10)."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

import click

from core.backoff import Backoff
from core.errors import InputError
from core.layout import Layout
from core.settings import Settings
from core.urls import identity_key
from crawler.cli.exits import Exit
from crawler.cli.links.archives_asked import CLOCK, opened_archives
from crawler.cli.links.confirm import rested
from crawler.cli.links.copies_seen import CopiesSeen
from crawler.cli.links.opening import registry_settings
from crawler.cli.options import collection_option, database_option, json_option, profile_option
from crawler.cli.params import DURATION
from crawler.cli.tables import clean
from links.archives.mirroring import (
    Done,
    Mirror,
    Mirrored,
    Visited,
    is_wanted,
    mirror,
    visited_as,
)
from links.books.urls import find_urls
from links.observed import Observed
from links.store.store import Store, open_store
from playback.database import open_database
from playback.front.records import Records

log = logging.getLogger(__name__)

_AT_ONCE = 500
_LONGEST_S = 3_600.0  # between two rounds after one failed
_AGAIN = timedelta(hours=1)  # visits may become known a little late


@click.command("mirror")
@click.option(
    "--since",
    type=DURATION,
    default="7d",
    show_default=True,
    metavar="LENGTH",
    help="Of what was visited so lately.",
)
@click.option("--limit", default=100, show_default=True, help="Ask about so many links at most.")
@click.option("--every", type=DURATION, metavar="LENGTH", help="Again and again, so often: 10m.")
@click.option("--dry-run", is_flag=True, help="Say which links archives would be asked about.")
@profile_option
@collection_option
@database_option
@json_option
def command(
    *,
    since: timedelta,
    limit: int,
    every: timedelta | None,
    dry_run: bool,
    profile: str,
    collection: Path,
    database_url: str,
    as_json: bool,
) -> int:
    """Have archives elsewhere keep what was visited, or find copies of what could not be.

    [links] mirror says which visits count: `failed` (those that brought nothing), `always`, or `never`.
    After a good one Save Page Now is asked to take the page, too; after one that failed it is asked
    as well, and the archives of [links] archives are asked for copies. See docs/archives.md.
    """
    settings = registry_settings(profile, database_url, collection)
    wanted = Mirror(settings.links.mirror)
    if wanted is Mirror.NEVER:
        raise InputError('Nothing is mirrored: set mirror = "failed" or "always" under [links].')
    layout = Layout(collection)
    with (
        closing(open_store(layout, settings.index.url)) as store,
        closing(open_database(layout, settings.index.url)) as database,
    ):
        task = _Mirroring(store, CopiesSeen(database, Records(layout)), settings, wanted)
        start = CLOCK.now() - since
        if dry_run:
            for url, visited in islice(task.waiting(start), limit):
                click.echo(json.dumps({"url": url.url}) if as_json else f"{visited}  {url.url}")
            return Exit.OK
        if every is None:
            return Exit.SOME_FAILED if _round(task, start, limit, as_json=as_json)[1] else Exit.OK
        backoff = Backoff(every.total_seconds(), max(_LONGEST_S, every.total_seconds()))
        failed, goes_on = False, True
        while goes_on:
            try:
                start, failed = _round(task, start, limit, as_json=as_json)
            except InputError:
                raise
            except Exception as error:
                log.exception("mirror.round_failed")
                failed, pause_s = True, backoff.next_s()
                click.echo(f"weboid: {error} Trying again in {pause_s:g} s.", err=True)
            else:
                backoff.reset()
                pause_s = every.total_seconds()
            goes_on = asyncio.run(rested(timedelta(seconds=pause_s)))
    return Exit.SOME_FAILED if failed else Exit.OK


def _round(
    task: "_Mirroring", start: datetime, limit: int, *, as_json: bool
) -> tuple[datetime, bool]:
    """Mirror what waits; return from when the next round looks, and whether some are to come again."""
    begun = CLOCK.now()
    todo = list(islice(task.waiting(start), limit))
    done = asyncio.run(task.do(todo))
    _say(done, as_json=as_json)
    if len(todo) < limit:  # else more is waiting
        start = max(start, begun - _AGAIN)
    return start, any(each.done is Done.LATER for each in done)


@dataclass(frozen=True, slots=True)
class _Mirroring:
    """Reads what was visited, and has it mirrored."""

    store: Store
    seen: CopiesSeen
    settings: Settings
    wanted: Mirror

    def waiting(self, since: datetime) -> Iterator[tuple[Observed, Visited]]:
        """Watched links that were visited since then, about which archives are to be asked."""
        visits = (
            (identity_key(url), visited)
            for url, verdict in self.seen.verdicts(since)
            if (visited := visited_as(verdict)) is not None
        )
        while batch := dict(islice(visits, _AT_ONCE)):
            with self.store.reading() as rows:
                known = find_urls(rows, batch)
            for identity, visited in batch.items():
                row = known.get(identity)
                if row is None:
                    continue
                url = Observed(row.id, row.host_id, identity, row.standing.state)
                why = is_wanted(self.store, url, visited, wanted=self.wanted, now=CLOCK.now())
                if why is None:
                    yield url, visited

    async def do(self, todo: list[tuple[Observed, Visited]]) -> list[Mirrored]:
        """Ask archives about these, one after the other: they are asked gently anyway."""
        async with opened_archives(self.settings) as archives:
            return [
                await mirror(self.store, archives, url, visited, now=CLOCK.now())
                for url, visited in todo
            ]


def _say(done: list[Mirrored], *, as_json: bool) -> None:
    for each in done:
        if as_json:
            copy = each.copy
            facts = {
                "url": each.url,
                "outcome": str(each.done),
                "copy": None
                if copy is None
                else {"archive": copy.service, "address": copy.address},
                "note": each.note,
            }
            click.echo(json.dumps(facts, ensure_ascii=False))
        else:
            where = clean(each.copy.address) if each.copy is not None else clean(each.note)
            click.echo(f"{each.done:<6} {clean(each.url)}  {where}")
    if not as_json:
        counted = Counter(str(each.done) for each in done)
        told = ", ".join(f"{count} {name}" for name, count in sorted(counted.items()))
        click.echo(f"{len(done)} links{': ' + told if told else ''}.", err=True)
