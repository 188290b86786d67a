"""`weboid links confirm`: the browser's word on links, before any is called dead."""

import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from core.clock import SystemClock
from core.layout import Layout
from core.settings import Settings
from core.urls import identity_key
from crawler.archiving import Order, archive
from crawler.cli.exits import Exit
from crawler.cli.links.copies_seen import CopiesSeen
from crawler.cli.links.opening import registry_settings
from crawler.cli.options import (
    collection_option,
    database_option,
    dedup_option,
    frontier_option,
    json_option,
    profile_option,
    shared_settings,
    workers_option,
)
from crawler.cli.params import DURATION
from crawler.composing import turns_for
from crawler.events import Event, PageDone, PageSkipped
from crawler.frontier.base import Lane, NewItem
from crawler.frontier.opening import open_frontier
from crawler.running import Account
from crawler.stopping import Stop
from links.books.urls import find_urls
from links.checking.booking import Booked, Result, book
from links.checking.judging import Rules
from links.checking.opining import Awaiting, awaiting_opinion
from links.presets import preset_of
from links.store.store import Store, open_store
from playback.database import open_database
from playback.front.records import Records

_CLOCK = SystemClock()
_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class _Gathered:
    """What the captures say: opinions, and the links that nobody has visited since."""

    results: list[Result]
    left: list[Awaiting]


@click.command("confirm")
@click.option("--limit", default=500, show_default=True, help="At most so many links.")
@click.option("--no-visit", is_flag=True, help="Only take the captures that are there.")
@click.option(
    "--hand-over",
    is_flag=True,
    help="Leave the visits to who works on the collection: `weboid archive --stay`.",
)
@click.option(
    "--captures",
    "lately",
    type=DURATION,
    metavar="LENGTH",
    help="Also hold what was captured so lately against its first copy: 7d.",
)
@click.option("--every", type=DURATION, metavar="LENGTH", help="Again and again, so often: 6h.")
@click.option("--dry-run", is_flag=True, help="List the links that wait, and do nothing.")
@collection_option
@frontier_option
@database_option
@dedup_option
@profile_option
@workers_option
@json_option
def command(
    *,
    limit: int,
    no_visit: bool,
    hand_over: bool,
    lately: timedelta | None,
    every: timedelta | None,
    dry_run: bool,
    collection: Path,
    frontier_url: str,
    database_url: str,
    dedup_url: str,
    profile: str,
    workers: int,
    as_json: bool,
) -> int:
    """Let a browser see the links that are about to be called dead.

    No link is dead before a browser has failed at it, too. This visits the links that wait for that,
    keeps the captures in the collection, and books what the browser saw: gone, refused, back again,
    another page than the copy, or in the hands of another owner.
    """
    settings = registry_settings(profile, database_url)
    if not (no_visit or dry_run):
        settings = shared_settings(settings, frontier_url=frontier_url, dedup_url=dedup_url)
    layout = Layout(collection)
    with (
        closing(open_store(layout, settings.index.url)) as store,
        closing(open_database(layout, settings.index.url)) as database,
    ):
        if dry_run:
            with store.reading() as rows:
                waiting = awaiting_opinion(rows, limit=limit)
            for each in waiting:
                click.echo(each.url)
            return Exit.OK
        task = _Confirming(store, CopiesSeen(database, Records(layout)), settings)
        crew = None if no_visit else _Crew(collection, workers, as_json, hand_over)
        goes_on = True
        while goes_on:
            left, goes_on = task.round(crew, limit=limit, lately=lately)
            _say(task.booked, left, as_json=as_json)
            task.booked.clear()
            goes_on = goes_on and every is not None and asyncio.run(rested(every))
    return Exit.OK


@dataclass(frozen=True, slots=True)
class _Crew:
    """Who visits, and where what it sees is kept."""

    root: Path
    workers: int
    quiet: bool
    hand_over: bool


async def rested(length: timedelta) -> bool:
    """Whether the time passed, and nobody said stop."""
    with Stop(lambda: None) as stop:
        try:
            await asyncio.wait_for(stop.event.wait(), length.total_seconds())
        except TimeoutError:
            return True
    return False


class _Confirming:
    """Takes opinions from captures, and books them.

    Attributes:
        booked: what was kept.
    """

    def __init__(self, store: Store, copies: CopiesSeen, settings: Settings) -> None:
        self._store = store
        self._copies = copies
        self._settings = settings
        self._rules = Rules(preset_of(settings.links.preset), browser=True)
        self.booked: list[Booked] = []

    def round(
        self, crew: _Crew | None, *, limit: int, lately: timedelta | None
    ) -> tuple[list[Awaiting], bool]:
        """Take what is known, have the rest visited, and take that.

        Returns:
            the links that still wait, and False when somebody said stop.
        """
        with self._store.reading() as rows:
            waiting = awaiting_opinion(rows, limit=limit)
        left, stopped = self.take(waiting), False
        if left and crew is not None:
            urls = [each.url for each in left]
            stopped = asyncio.run(_visit(urls, crew, self._settings)).stopped
            left = self.take(left)
        if lately is not None:
            self.compare(_CLOCK.now() - lately)
        return left, not stopped

    def take(self, waiting: Sequence[Awaiting]) -> list[Awaiting]:
        """Book what captures say of these; those that nobody has visited since come back."""
        until = _CLOCK.now() + timedelta(days=1)
        gathered = _Gathered([], [])
        for each in waiting:
            found = self._copies.opinion(each.url, since=each.since, until=until)
            if found is None:
                gathered.left.append(each)
            else:
                gathered.results.append(Result(each.url_id, *found))
        self._book(gathered.results)
        return gathered.left

    def compare(self, since: datetime) -> None:
        """Hold every page that was captured since then, and is watched, against its first copy."""
        batch: list[tuple[str, Result]] = []
        for url, finding, moment in self._copies.compared(since):
            batch.append((url, Result(0, finding, moment)))
            if len(batch) == _AT_ONCE:
                self._book_watched(batch)
                batch = []
        self._book_watched(batch)

    def _book_watched(self, batch: Iterable[tuple[str, Result]]) -> None:
        named = [(identity_key(url), result) for url, result in batch]
        with self._store.reading() as rows:
            known = find_urls(rows, [identity for identity, _ in named])
        self._book(
            [replace(result, url_id=known[each].id) for each, result in named if each in known]
        )

    def _book(self, results: Sequence[Result]) -> None:
        if results:
            with self._store.writing() as rows:
                self.booked += book(rows, results, self._rules)


async def _visit(urls: Sequence[str], crew: _Crew, settings: Settings) -> Account:
    """Visit the links once each; what fails is an opinion, too, and is not tried again."""
    if crew.hand_over:
        return await _hand_over(urls, Layout(crew.root), settings)
    once = replace(settings, frontier=replace(settings.frontier, attempts=1))
    order = Order(urls, crew.root, once, crew.workers, again=timedelta(0))
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    progress = Progress(
        *columns,
        TimeRemainingColumn(),
        console=console,
        disable=crew.quiet or not sys.stderr.isatty(),
    )
    with progress:
        number = progress.add_task("Asking the browser", total=len(urls))

        def report(event: Event) -> None:
            if isinstance(event, PageDone | PageSkipped):
                progress.advance(number)

        return await archive(order, clock=_CLOCK, started=lambda *_: None, report=report)


async def _hand_over(urls: Sequence[str], layout: Layout, settings: Settings) -> Account:
    """Leave the links to whoever works on the frontier; a later round takes what was seen."""
    items = await turns_for(settings).assign(NewItem(url, Lane.HIGH) for url in urls)
    with open_frontier(layout, settings.frontier, settings.politeness) as frontier:
        added = frontier.add(items, now=_CLOCK.now(), again=timedelta(0))
    return Account(added=added, handed_over=True)


def _say(booked: Sequence[Booked], left: Sequence[Awaiting], *, as_json: bool) -> None:
    if as_json:
        for each in booked:
            click.echo(json.dumps(_facts(each), ensure_ascii=False))
        return
    for each in booked:
        said = f" ({each.finding.note})" if each.finding.note else ""
        click.echo(
            f"{each.before.name.lower()} -> {each.after.name.lower()}  {each.url}"
            f"  {each.finding.verdict}{said}"
        )
    click.echo(f"{len(booked)} opinions booked; {len(left)} links still wait for one.", err=True)


def _facts(booked: Booked) -> dict[str, object]:
    return {
        "url": booked.url,
        "verdict": str(booked.finding.verdict),
        "code": int(booked.finding.code),
        "note": booked.finding.note,
        "before": booked.before.name.lower(),
        "after": booked.after.name.lower(),
    }
