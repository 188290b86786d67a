"""Watcher of several wikis in one process, woken by notifications and event streams.

Each feed continues at its own cursor, so a stream that ends, is wrong or skips events only costs time. A wiki in
trouble is retried later, and the error stored in the registry. One that another process feeds is left to that.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

from core.errors import InputError, TransientError, WeboidError
from links.check_history import day_of
from links.registry.database import RegistryStore
from links.registry.wikis import FeedHeldError, Wiki, WikiName, all_wikis, feeds_of, put_cursors, put_trouble, wiki_of
from net.backoff import ExponentialBackoff
from net.stop_signals import wait_for_any
from wiki.api.client import ApiTiming
from wiki.api.models import WikiAwayError
from wiki.api.recent_changes import listen_to_stream
from wiki.api.transport import ApiTransport
from wiki.sync.feed_context import CHANGES, SWEEP, SyncServices
from wiki.sync.sweep import SweepCursor, begin_sweep
from wiki.sync.webhook import NotifyWiki
from wiki.sync.wiki_feed import FeedRound, WikiFeed
from wiki.sync.wiki_source import WikiSource

STREAM_RETRY_S = 300.0  # after an event stream failed

log = logging.getLogger(__name__)


async def notify_from_stream(
    wire: ApiTransport,
    url: str,
    *,
    notify: NotifyWiki,
    watched: Callable[[], Collection[str]],
    stop: asyncio.Event,
    timing: ApiTiming | None = None,
) -> None:
    """Notify feeds of the stream's events until `stop` is set."""
    pauses = timing or ApiTiming()

    async def listen() -> None:
        last_id = ""
        while True:
            try:
                async for notice in listen_to_stream(wire, url, watched=watched, last_id=last_id, timing=pauses):
                    last_id = notice.last_id
                    if notice.wiki:
                        notify(notice.wiki, None, (notice.page_id,) if notice.page_id > 0 else ())
            except WeboidError as error:
                log.warning("the stream %s: %s It is tried again in %s s.", url, error, STREAM_RETRY_S)
            await pauses.sleep(STREAM_RETRY_S)

    listening = asyncio.create_task(listen())
    try:
        await stop.wait()
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


LEAST_PAUSE_S = 1.0  # between two rounds of one wiki that is notified all the time
FIRST_BACK_OFF_S = 5.0
LONGEST_BACK_OFF_S = 300.0
TROUBLE_RETRY_S = 60.0  # until a problem that a person must fix is checked again
NEW_WIKIS_S = 30.0  # between two searches for wikis that were added
SIGNAL_LIMIT = 10_000  # notified pages stored for a wiki until it is queried


# Opens the source of a wiki with its current settings.
Opener = Callable[[Wiki], AbstractAsyncContextManager[WikiSource]]


@dataclass(frozen=True)
class WatcherReport:
    """Report of a watcher about one wiki."""

    wiki: WikiName
    done: FeedRound | None = None  # result of a round; None: it failed
    trouble: str = ""  # reason of the failure; empty without one


@dataclass
class _WikiSignal:
    event: asyncio.Event = field(default_factory=asyncio.Event)
    pages: dict[int, None] = field(default_factory=dict)

    def notify(self, pages: Collection[int]) -> None:
        for page in pages:
            if len(self.pages) < SIGNAL_LIMIT:
                self.pages[page] = None
        self.event.set()

    def take_pages(self) -> tuple[int, ...]:
        self.event.clear()
        pages, self.pages = tuple(self.pages), {}
        return pages


class WikiWatcher:
    """Watcher of wikis, until it is stopped. Belongs to one event loop."""

    def __init__(
        self,
        shared: SyncServices,
        opener: Opener,
        *,
        names: Sequence[WikiName] = (),
        on_report: Callable[[WatcherReport], None] = lambda _report: None,
    ) -> None:
        """Watch the named wikis; without names all that have an address, also those added later."""
        self._shared = shared
        self._open = opener
        self._names = tuple(names)
        self._on_report = on_report
        self._signals: dict[int, _WikiSignal] = {}
        self._wikis: dict[int, Wiki] = {}

    def notify(self, dbname: str, farm: str | None, pages: tuple[int, ...] = ()) -> bool:
        """Poll a wiki (of any farm for None) at once; return False if it is not watched."""
        named = [each for each in self._wikis.values() if each.name.dbname == dbname and farm in (None, each.name.farm)]
        for wiki in named:
            self._signals[wiki.id].notify(pages)
        return bool(named)

    def names(self) -> frozenset[str]:
        """Return the names of the wikis that are watched now."""
        return frozenset(str(wiki.name) for wiki in self._wikis.values())

    def databases(self) -> frozenset[str]:
        """Return the databases of the wikis that are watched now."""
        return frozenset(wiki.name.dbname for wiki in self._wikis.values())

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set. InputError: a named wiki is unknown; TransientError: no registry at the start."""
        tasks: dict[int, asyncio.Task[None]] = {}
        stopping = asyncio.create_task(stop.wait())
        try:
            await self._begin(tasks, stop)
            while not stop.is_set():
                await asyncio.wait([stopping], timeout=NEW_WIKIS_S)
                if not stop.is_set() and not self._names:
                    try:
                        await self._begin(tasks, stop)
                    except TransientError as error:
                        log.warning("%s", error)
                    except Exception:
                        log.exception("search for new wikis failed")
        except asyncio.CancelledError:
            for task in tasks.values():
                task.cancel()
            raise
        finally:
            stop.set()
            stopping.cancel()
            for signal in self._signals.values():
                signal.event.set()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def once(self) -> bool:
        """Do all available work, wiki after wiki; return True if none failed. Raises as `run`."""
        is_well = True
        for wiki in await asyncio.to_thread(select_wikis, self._shared.store, self._names):
            try:
                async with _open_feed(wiki, self._open, self._shared) as feed:
                    async for done in _all_rounds(feed):
                        self._on_report(WatcherReport(wiki.name, done))
            except Exception as error:  # noqa: BLE001 one wiki must not end the others' turns
                is_well = False
                await self._report_trouble(wiki, error)
            else:
                await self._put_trouble(wiki, "")
        return is_well

    async def _begin(self, tasks: dict[int, asyncio.Task[None]], stop: asyncio.Event) -> None:
        for wiki in await asyncio.to_thread(select_wikis, self._shared.store, self._names):
            if wiki.id not in tasks:
                self._signals[wiki.id] = _WikiSignal()
                self._wikis[wiki.id] = wiki
                tasks[wiki.id] = asyncio.create_task(self._watch(wiki, stop))

    async def _watch(self, wiki: Wiki, stop: asyncio.Event) -> None:
        has_failed, pauses = False, ExponentialBackoff(FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S)

        def reloaded() -> Wiki:
            with self._shared.store.snapshot() as reader:
                return wiki_of(reader, wiki.id)

        while not stop.is_set():
            try:
                wiki = await asyncio.to_thread(reloaded)
                async with _open_feed(wiki, self._open, self._shared) as feed:
                    async for _ in self._rounds(feed, stop):
                        if has_failed:
                            await self._put_trouble(wiki, "")
                            has_failed = False
                            pauses.reset()
            except Exception as error:  # noqa: BLE001 the other wikis go on, and this one later
                has_failed = True
                why = await self._report_trouble(wiki, error)
                needs_operator = isinstance(why, InputError)
                pause = TROUBLE_RETRY_S if needs_operator else pauses.next_s() * (1 + random.random() / 4)  # noqa: S311 no secret
                if isinstance(why, WikiAwayError):
                    pause = max(pause, min(why.retry_s, 3_600.0))
                await wait_for_any(stop, timeout_s=pause)  # notifications do not shorten it

    async def _rounds(self, feed: WikiFeed, stop: asyncio.Event) -> AsyncIterator[FeedRound]:
        """Yield rounds of a wiki until it must be reopened or the watcher stops."""
        signal, opened = self._signals[feed.wiki.id], None
        signal.event.set()  # at first the wiki is queried at once
        while not stop.is_set():
            done = await feed.round(is_notified=signal.event.is_set(), hinted=signal.take_pages())
            self._on_report(WatcherReport(feed.wiki.name, done))
            yield done
            if opened is not None and opened != _opening_settings(feed):
                return
            opened = _opening_settings(feed)
            if done.is_busy:
                await asyncio.sleep(0)
                continue
            began = self._shared.clock.monotonic()
            await wait_for_any(signal.event, timeout_s=await feed.rest_s())
            if signal.event.is_set() and self._shared.clock.monotonic() - began < LEAST_PAUSE_S:
                await wait_for_any(stop, timeout_s=LEAST_PAUSE_S)

    async def _report_trouble(self, wiki: Wiki, error: Exception) -> WeboidError:
        """Report an error of a wiki, with its traceback if it is internal; return it as reported."""
        if not isinstance(error, WeboidError):
            log.error("%s: the round failed", wiki.name, exc_info=error)
            error = TransientError(
                f"Internal error of Weboid ({type(error).__name__}); the log has its traceback. The wiki is queried "
                "again later."
            )
        why = str(error)
        log.warning("%s: %s", wiki.name, why)
        self._on_report(WatcherReport(wiki.name, trouble=why))
        if not isinstance(error, FeedHeldError):  # then the feed continues
            await self._put_trouble(wiki, why)
        return error

    async def _put_trouble(self, wiki: Wiki, why: str) -> None:
        def put() -> None:
            with self._shared.store.writing() as connection:
                put_trouble(connection, wiki.id, [CHANGES], why, now=self._shared.clock.now())

        try:
            await asyncio.to_thread(put)
        except TransientError as error:
            log.warning("%s", error)


@asynccontextmanager
async def _open_feed(wiki: Wiki, opener: Opener, shared: SyncServices) -> AsyncIterator[WikiFeed]:
    async with opener(wiki) as source:
        feed = WikiFeed(wiki, source, shared)
        try:
            yield feed
        finally:
            await asyncio.to_thread(feed.context.give_back)


async def _all_rounds(feed: WikiFeed, *, sweeps: bool = True) -> AsyncIterator[FeedRound]:
    done = await feed.round(is_notified=True, sweeps=sweeps)
    yield done
    while done.is_busy:
        done = await feed.round(sweeps=sweeps)
        yield done


async def sweep_wiki(
    wiki: Wiki,
    opener: Opener,
    shared: SyncServices,
    *,
    is_now: bool,
    progress: Callable[[FeedRound], None],
    sweeps: bool = True,
) -> None:
    """Run a sweep of a wiki to its end, following its changes meanwhile.

    `sweeps`: also continue a sweep, not only requested lists. Raises FeedHeldError: another process feeds the wiki
    (`order_sweep` requests the sweep there); WeboidError: it is unavailable, the next run continues.
    """
    async with _open_feed(wiki, opener, shared) as feed:
        if is_now:
            await feed.context.refresh()
            await feed.sweeper.begin()
        async for done in _all_rounds(feed, sweeps=sweeps):
            progress(done)


def order_sweep(store: RegistryStore, wiki: Wiki, *, now: datetime) -> bool:
    """Request a sweep from the process that feeds the wiki; False when one is already running."""
    with store.writing() as connection:
        feed = feeds_of(connection, wiki.id).get(SWEEP)
        last = SweepCursor.parse(feed.cursor) if feed else None
        if last is not None and not last.is_done:
            return False
        put_cursors(connection, wiki.id, {SWEEP: begin_sweep(last, now=now, day=day_of(now)).text()}, now=now)
    return True


def select_wikis(store: RegistryStore, names: Sequence[WikiName]) -> list[Wiki]:
    """Return the named wikis, or all with an address; raises InputError or TransientError."""
    with store.snapshot() as reader:
        wikis = all_wikis(reader)
    known = {wiki.name: wiki for wiki in wikis}
    for name in names:
        if name not in known or not known[name].url:
            listed = ", ".join(str(wiki.name) for wiki in wikis if wiki.url) or "none"
            raise InputError(
                f"{name} cannot be watched: it is not known, or has no API address (known: "
                f"{listed}). `weboid wiki add URL` adds a wiki."
            )
    return [known[name] for name in names] if names else [wiki for wiki in wikis if wiki.url]


def _opening_settings(feed: WikiFeed) -> tuple[str, ...]:
    feed_settings = feed.context.feed
    return (feed.wiki.url, feed_settings.account, feed_settings.password_file, feed_settings.basic_file)
