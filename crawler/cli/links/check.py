"""`weboid links check`: look at the URLs that are due."""

import asyncio
import json
import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import click
import uvloop
from sqlalchemy import Connection

from core.clock import SystemClock
from core.errors import InputError, UnavailableError
from core.layout import Layout
from core.settings import LinksSettings, Settings
from core.urls import fetch_key
from crawler.cli.exits import Exit
from crawler.cli.links.check_show import CheckShow, Lines
from crawler.cli.links.opening import registry_settings
from crawler.cli.options import (
    collection_option,
    database_option,
    json_option,
    profile_option,
    tell_contact,
)
from crawler.cli.params import DURATION
from crawler.cli.tables import clean, table, width
from crawler.stopping import Stop
from links.checking import due
from links.checking.chores import Chores
from links.checking.due import DueUrl
from links.checking.leases import LeaseHeldError
from links.checking.parts import WHOLE, Part, parse_part, part_of_bucket
from links.checking.passes import longest_due, outlook
from links.checking.passing import Passing
from links.checking.plans import Means, Tally
from links.checking.working import Worker, fit_to_files, means_of, plan_of, take_part, watch
from links.days import day_of
from links.locator import bucket_of, locate
from links.store.store import Store, open_store
from proxy.addresses import is_own

_CLOCK = SystemClock()
_PATIENCE_S = 600.0  # of a check that ends by itself
_MOST_HOSTS = 20


class PartType(click.ParamType[Part]):
    """``i/n``, as `links.checking.parts.parse_part` reads it."""

    name = "part"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Part:
        """The part; fails with the reason."""
        if isinstance(value, Part):
            return value
        try:
            return parse_part(str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)


@dataclass(frozen=True, slots=True)
class _Order:
    """What is to be done."""

    settings: Settings
    part: Part
    limit: int | None
    length: timedelta | None
    is_watch: bool


@click.command("check")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option(
    "--part",
    type=PartType(),
    default=WHOLE,
    metavar="I/N",
    help="Only the I-th of N shares of the hosts: a share for each checker.  [default: 1/1]",
)
@click.option("--limit", type=click.IntRange(1), metavar="COUNT", help="At most so many looks.")
@click.option("--for", "length", type=DURATION, metavar="LENGTH", help="For so long: 30m, 8h.")
@click.option("--dry-run", is_flag=True, help="Say what is due, and ask for nothing.")
@click.option("--watch", "is_watch", is_flag=True, help="Go on for ever, as URLs become due.")
@collection_option
@database_option
@profile_option
@json_option
def command(
    *,
    urls: tuple[str, ...],
    part: Part,
    limit: int | None,
    length: timedelta | None,
    dry_run: bool,
    is_watch: bool,
    collection: Path,
    database_url: str,
    profile: str,
    as_json: bool,
) -> int:
    """Look at the links that are due, or at the URLs that are named, and note what was found.

    Hosts are asked one request at a time with [links] host_gap_s between them, in random order.
    SIGINT ends it when what was begun is noted; what was not looked at stays due. With a database
    that several machines share, give each of their checkers a --part. See docs/checking.md.
    """
    settings = registry_settings(profile, database_url, collection)
    if urls and (is_watch or dry_run or part != WHOLE):
        raise InputError("Named URLs are looked at once: leave out --watch, --dry-run and --part.")
    if not dry_run:
        settings = fit_to_files(settings, lambda text: click.echo(text, err=True))
    order = _Order(settings, part, limit, length, is_watch)
    with opened(Layout(collection), settings) as store:
        if dry_run:
            return _tell_due(store, part, as_json=as_json)
        tell_contact(settings.links.contact)
        show = CheckShow(as_json=as_json)
        with show:
            if urls:
                return uvloop.run(_check_named(store, _find(store, urls), order, show))
            return uvloop.run(_check_due(store, order, show))


@contextmanager
def opened(layout: Layout, settings: Settings) -> Iterator[Store]:
    """The registry, closed at the end of the block.

    Raises:
        UnavailableError: the collection has none.
    """
    if not settings.index.url and not layout.links_db.exists():
        raise UnavailableError(
            f"{layout.root} has no link registry yet: `weboid links import` or "
            "`weboid links add-page` makes one."
        )
    store = open_store(layout, settings.index.url)
    try:
        yield store
    finally:
        store.close()


def _worker(*, patience_s: float | None = None) -> Worker:
    name = f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(4)}"
    worker = Worker(name, is_own)
    return worker if patience_s is None else replace(worker, patience_s=patience_s)


async def _check_due(store: Store, order: _Order, show: CheckShow) -> int:
    plan = plan_of(order.settings.links, order.part, limit=order.limit)
    patience_s = None if order.is_watch else _PATIENCE_S
    code: int = Exit.STOPPED
    stop = Stop(show.stopping)
    with stop, stop.cut_short():
        async with means_of(
            store, order.settings, [order.part], _worker(patience_s=patience_s), clock=_CLOCK
        ) as means:
            _end_after(order.length, stop)
            if not await take_part(means.tenure, stop.event, clock=_CLOCK, waiting=show.held):
                return code
            show.begin(await means.desk.read(lambda rows: _count(rows, order.part)))
            if order.is_watch:
                between = _Between(means, order, stop, show)
                await watch(means, plan, stop.event, between=between, on_kept=show.kept)
                return Exit.OK
            tally = await Passing(means, plan, on_kept=show.kept).run(stop.event)
            if tally.is_complete:
                chores = Chores(means, order.part, keep_days=order.settings.links.keep_days)
                await chores.run(stop.event)
            await _tell_end(means, order, tally, show)
            code = Exit.OK if tally.is_complete or order.limit is not None else Exit.STOPPED
    return code


async def _check_named(
    store: Store, named: Sequence[DueUrl], order: _Order, show: CheckShow
) -> int:
    """Look at these now; when a checker is at work on their hosts, let it do so next."""
    parts = [part_of_bucket(bucket) for bucket in sorted({bucket_of(each.host) for each in named})]
    plan = plan_of(order.settings.links, WHOLE, limit=order.limit)
    code: int = Exit.STOPPED
    stop = Stop(show.stopping)
    with stop, stop.cut_short():
        async with means_of(
            store, order.settings, parts, _worker(patience_s=_PATIENCE_S), clock=_CLOCK
        ) as means:
            _end_after(order.length, stop)
            try:
                await means.tenure.take()
            except LeaseHeldError as held:
                ids = [each.id for each in named]
                await means.desk.write(lambda rows: due.make_urgent(rows, ids))
                show.handed_over(held, named)
                return Exit.OK
            show.begin(len(named))
            passing = Passing(means, plan, on_kept=show.kept)
            tally = await passing.run(stop.event, named=named)
            show.end(tally)
            code = Exit.OK if tally.is_complete or order.limit is not None else Exit.STOPPED
    return code


def _end_after(length: timedelta | None, stop: Stop) -> None:
    if length is not None:
        asyncio.get_running_loop().call_later(length.total_seconds(), stop.event.set)


async def _tell_end(means: Means, order: _Order, tally: Tally, show: CheckShow) -> None:
    """Say how it went, and what else should be known."""
    lines = Lines(await _warnings(means, order.settings.links))
    lines.awaiting = await means.desk.read(due.count_awaiting)
    show.end(tally, lines)


async def _warnings(means: Means, links: LinksSettings) -> list[str]:
    """Whether everything is looked at in time, and what would help (W38); empty when it is."""
    now = _CLOCK.now()
    found = await means.desk.read_aside(lambda rows: outlook(rows, links, now=now))
    if found is not None and not found.fits:
        return [found.sentence]
    late = await means.desk.read(lambda rows: longest_due(rows, day=day_of(now)))
    if late <= links.pass_days:
        return []
    return [
        f"A URL has been due for {late} days, though a pass should take {links.pass_days}: let "
        "checks run longer, with more [links] connections, or with a --part on another machine."
    ]


class _Between:
    """What a watching check does after each pass: it tells of it, does the chores, and warns daily."""

    def __init__(self, means: Means, order: _Order, stop: Stop, show: CheckShow) -> None:
        links = order.settings.links
        self._chores = Chores(means, order.part, keep_days=links.keep_days)
        self._means, self._links, self._stop, self._show = means, links, stop, show
        self._warned_day = -1

    async def __call__(self, tally: Tally) -> None:
        """After a pass."""
        self._show.passed(tally)
        await self._chores.run(self._stop.event)
        today = day_of(_CLOCK.now())
        if today != self._warned_day and not self._stop.event.is_set():
            self._warned_day = today
            self._show.warn(await _warnings(self._means, self._links))


def _count(rows: Connection, part: Part) -> int:
    return due.count_due(rows, part, day_of(_CLOCK.now()))


def _find(store: Store, texts: Sequence[str]) -> list[DueUrl]:
    """The named URLs' rows.

    Raises:
        InputError: the registry does not watch one of them.
    """
    keys = {locate(fetch_key(text)).key: text for text in texts}
    with store.reading() as rows:
        found = due.by_keys(rows, list(keys))
    missing = [text for key, text in keys.items() if key not in {each.key for each in found}]
    if missing:
        raise InputError(
            f"The registry does not watch {clean(missing[0][:300])!r}"
            + (f", nor {len(missing) - 1} others" if len(missing) > 1 else "")
            + ": only what a page has is looked at. `weboid links add-page` adds a page's links."
        )
    return found


def _tell_due(store: Store, part: Part, *, as_json: bool) -> int:
    today = day_of(_CLOCK.now())
    with store.reading() as rows:
        count = due.count_due(rows, part, today)
        hosts = due.count_by_host(rows, part, today, limit=_MOST_HOSTS)
    if as_json:
        facts = {"due": count, "part": str(part), "hosts": [each._asdict() for each in hosts]}
        click.echo(json.dumps(facts, ensure_ascii=False))
        return Exit.OK
    click.echo(f"{count} URLs are due." if count else "Nothing is due.")
    if hosts:
        rows_ = [(f"{each.due}", each.host) for each in hosts]
        for line in table(("due>", "host"), rows_, columns=width()):
            click.echo(line)
    return Exit.OK
