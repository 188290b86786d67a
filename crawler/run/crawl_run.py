"""Run from start to summary, also of a URL list; one with a shared frontier ends when that is prepared."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Required, TypedDict, Unpack

from core.clock import Clock
from core.config.settings import Settings
from core.errors import TransientError
from core.layout import CA_FILE, Layout
from core.page_manifest import VisitOutcome
from crawler.capture.page_capture import StoredLevelOf
from crawler.collection import Collection, open_collection
from crawler.frontier.base import STOP_ORDER, AddResult, Frontier, ItemState, NewItem, pages_per_minute
from crawler.frontier.host_slots import SlotAssigner
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.pools.resource_pool import open_local_pool
from crawler.run.context_builder import RunContext, RunExtension, build_worker_pool, make_slot_assigner
from crawler.worker import crawl_events
from crawler.worker.page_task import REPORTED_WAIT
from crawler.worker.worker_pool import BACKOFF_MAX_S, process_name
from net.backoff import ExponentialBackoff, WaitEnded, WaitStarted
from net.stop_signals import StopSignals, first_error
from warc.index.database import is_complete, open_database
from warc.local_storage import DiskReserve, open_warcs

if TYPE_CHECKING:
    from core.playback_check import QaVerdict
    from render.sign_in import SiteLogins

log = logging.getLogger(__name__)

STATUS_INTERVAL_S = 2.0
SAMPLED_ITEMS = 100  # queued items; when there are more, these speak for all
FAILED_KEPT = 10_000  # of a run of months the rest is in the frontier's dead letters

Prepare = Callable[[Frontier], Awaitable[AddResult]]  # adds to the frontier; returns the result


@dataclass(slots=True)
class RunSummary:
    """Summary of a run."""

    added: AddResult = field(default_factory=AddResult)  # result of adding the given URLs
    outcomes: Counter[VisitOutcome] = field(default_factory=Counter)  # pages by outcome
    failed: list[tuple[str, str]] = field(default_factory=list)  # the first, with the reason
    failures: int = 0  # how many they are
    skipped: Counter[str] = field(default_factory=Counter)  # pages, by the reason's first word
    links: int = 0  # URLs that pages link to and that joined the frontier
    records: int = 0  # captures and artifacts written
    stored_bytes: int = 0  # their compressed size
    left: int = 0  # unfinished pages when the run ended
    seconds: float = 0.0  # duration of the run
    stopped: bool = False  # whether the run was asked to stop
    handed_over: bool = False  # whether workers elsewhere do the work
    checked: Counter[QaVerdict] = field(default_factory=Counter)  # checked copies, by verdict
    repaired: Counter[str] = field(default_factory=Counter)  # repaired captures, by result

    def note(self, event: crawl_events.Event) -> None:
        """Count the event."""
        match event:
            case crawl_events.PageChecked():
                self.checked[event.verdict] += 1
            case crawl_events.PageRepaired():
                self.repaired[event.state] += 1
            case crawl_events.LinksAdded():
                self.links += event.count
            case crawl_events.PageSkipped():
                self.skipped[event.reason.partition(":")[0]] += 1
            case crawl_events.PageDone():
                if event.error:
                    self.failures += 1
                    if len(self.failed) < FAILED_KEPT:
                        self.failed.append((event.url, event.error))
                if event.page is not None:
                    self.outcomes[event.page.outcome] += 1
                    self.records += event.page.records
                    self.stored_bytes += event.page.stored_bytes
            case _:
                pass


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Configuration of a run."""

    root: Path  # the collection's folder
    settings: Settings  # this machine's settings
    workers: int  # visits at the same time
    endless: bool = False  # continue when nothing is left: something may become due, or be added
    logins: SiteLogins | None = None
    extension: RunExtension | None = None
    eager: bool = False  # start although nothing is left: the extension has work
    stored_level_of: StoredLevelOf = field(kw_only=True)  # looks up decisions on stored levels


class RunHooks(TypedDict, total=False):
    """Clock and callbacks of a run."""

    clock: Required[Clock]
    report: Required[Callable[[crawl_events.Event], None]]
    started: Callable[
        [AddResult, int], None
    ]  # before the first visit, with added URLs and the number of unfinished ones
    stopping: Callable[[], None]  # when the first signal asked to stop


async def perform_run(run: RunConfig, prepare: Prepare, **hooks: Unpack[RunHooks]) -> RunSummary:
    """Run the prepared work and the rest of earlier runs; finished pages are not visited again.

    Raises CollectionInUseError, CollectionVersionError, UnavailableError (the collection), BrowserUnavailableError,
    ProxyUnavailableError (they do not start), DiskFullError (no space within the settings' patience; the next run
    continues), LimitReachedError (the run has received all that it may).
    """
    clock, report, started = hooks["clock"], hooks["report"], hooks.get("started")
    begun, account, settings = clock.monotonic(), RunSummary(), run.settings

    async def begin(frontier: Frontier) -> None:
        for key in frontier.orders(STOP_ORDER):  # starting a run overrides them
            frontier.take_back(STOP_ORDER, key)
        account.added = await prepare(frontier)
        account.left = frontier.unfinished(clock.now())
        if started is not None:
            started(account.added, account.left)

    def note(event: crawl_events.Event) -> None:
        account.note(event)
        log_of(event)
        report(event)
        if run.extension is not None:
            run.extension.note(event)

    if settings.frontier.url:
        account.handed_over = True
        with open_frontier(Layout(run.root), settings.frontier, settings.politeness) as frontier:
            await begin(frontier)
        account.seconds = clock.monotonic() - begun
        return account
    with StopSignals(hooks.get("stopping", lambda: None)) as stop:
        with stop.cut_short():
            async with open_collection(run.root, clock=clock) as collection:
                layout = collection.layout
                with (
                    closing(crawl_events.CrawlLog(layout.crawl_log, clock=clock)) as crawl_log,
                    open_frontier(layout, settings.frontier, settings.politeness) as frontier,
                ):
                    log_of = crawl_log.note
                    # This process holds the collection's lock: the claims are a killed run's.
                    while frontier.counts()[ItemState.CLAIMED] and (claimed := frontier.ls(ItemState.CLAIMED)):
                        for record in claimed:
                            frontier.release(record.item, now=clock.now(), reason="the worker is gone")
                    await begin(frontier)
                    reporting = asyncio.create_task(_report_status(frontier, clock, report))
                    try:
                        await _work(run, collection, frontier, clock, note, stop)
                    finally:
                        reporting.cancel()
                        account.left = frontier.unfinished(clock.now())
        account.stopped = stop.event.is_set()
    account.seconds = clock.monotonic() - begun
    return account


async def _report_status(frontier: Frontier, clock: Clock, report: Callable[[crawl_events.Event], None]) -> None:
    """Report the frontier's counts, and the host it waits for, until cancelled."""
    waiting, since, pause_s = "", 0.0, STATUS_INTERVAL_S
    backoff = ExponentialBackoff(2 * STATUS_INTERVAL_S, BACKOFF_MAX_S)
    while True:
        await asyncio.sleep(pause_s)
        try:
            now = clock.now()
            stats, minutes = frontier.stats(now), frontier.minutes(now)
            text = "" if stats.claimed or not stats.queued else host_wait(frontier, now)
            if text and text != waiting:
                since = since if waiting else clock.monotonic()
                report(WaitStarted("host", text))
            elif waiting and stats.claimed:
                report(WaitEnded("host", clock.monotonic() - since))
            waiting = text if text or stats.claimed else waiting
            per_minute = round(pages_per_minute(minutes, 1, now=now), 1)
            counts = stats.queued, stats.claimed, stats.done, stats.skipped, stats.dead
            report(crawl_events.QueueStatus(*counts, per_minute, stats.paused))
        except TransientError:
            continue
        except Exception:
            log.exception("queue_status.failed")
            pause_s = backoff.next_s()
        else:
            backoff.reset()
            pause_s = STATUS_INTERVAL_S


def host_wait(frontier: Frontier, now: datetime) -> str:
    """Describe the wait of all queued items, with host and end; empty when the wait is short."""
    wakeup = frontier.next_wakeup(now)
    if wakeup is None:
        return ""
    blocks = {each.host: each for each in frontier.blocks(now=now, limit=SAMPLED_ITEMS)}
    queued = frontier.ls(ItemState.QUEUED, limit=SAMPLED_ITEMS) if blocks else ()
    why = ", when the next attempt is due"
    if queued and all(record.item.host in blocks for record in queued):
        first = min((blocks[record.item.host] for record in queued), key=lambda each: each.until)
        wakeup = max(wakeup, first.until)
        why = f": {first.host} is paused ({first.reason})"
    if wakeup - now < REPORTED_WAIT:
        return ""
    return f"Nothing can be visited until {wakeup:%Y-%m-%d %H:%M:%S} UTC{why}."


async def _work(
    run: RunConfig,
    collection: Collection,
    frontier: Frontier,
    clock: Clock,
    note: Callable[[crawl_events.Event], None],
    stop: StopSignals,
) -> None:
    """Start pools and workers and run them; start nothing when there is nothing to do."""
    layout, settings = collection.layout, run.settings
    if settings.index.url or not await asyncio.to_thread(is_complete, layout):
        from warc.rebuild import complete_index

        await asyncio.to_thread(
            complete_index,
            layout,
            settings.proxy,
            index=settings.index,
            report=lambda text: note(crawl_events.IndexRestored(text)),
        )
    if not (run.endless or run.eager) and not frontier.unfinished(clock.now()):
        await asyncio.to_thread(_recover, layout, settings, clock, note)
        return
    async with AsyncExitStack() as stack:
        index = stack.enter_context(closing(open_database(layout, settings.index.url)))
        if settings.storage.url:
            from warc.uploads import UploadWorker

            uploads = UploadWorker(layout, settings.storage, clock)
            stack.push_async_callback(lambda: asyncio.to_thread(uploads.close, stopped=stop.event.is_set()))
        async with open_local_pool(collection, settings, clock=clock, report=note) as supervisor:
            context = RunContext(
                *(layout, settings, frontier, supervisor, index, clock, note),
                name=process_name(),
                disk=DiskReserve(layout.archive, settings.proxy.disk_reserve_bytes),
                reports=layout.reports,
                ca=layout.ca / CA_FILE,
                logins=run.logins,
                stored_level_of=run.stored_level_of,
                endless=run.endless,
            )
            pool = build_worker_pool(context, stopping=stop.event)
            extension = run.extension
            try:
                if extension is None:
                    await pool.run(run.workers)
                    return
                async with extension.beside(context):
                    await pool.run(run.workers)
                    while not pool.stopping.is_set() and await extension.settle():
                        await pool.run(run.workers)
            except BaseExceptionGroup as group:
                raise first_error(group) from group


def _recover(layout: Layout, settings: Settings, clock: Clock, note: Callable[[crawl_events.Event], None]) -> None:
    """Recover interrupted WARCs as a proxy does at its start, when there is nothing to archive."""
    from warc.checksums import add_missing_sums, warcs_without_sum
    from warc.index.sqlite import open_index
    from warc.recovery import recover_collection

    if not (open_warcs(layout) or warcs_without_sum(layout)):
        return
    for each in recover_collection(layout, settings.proxy, now=clock.now(), index=settings.index):
        note(crawl_events.FileRecovered.of(each.to_dict()))
    with closing(open_index(layout, settings.index)) as index:
        add_missing_sums(layout, index)


ADD_BATCH = 5_000  # URLs of a commit: lists are read as streams


async def add_in_batches(
    frontier: Frontier,
    turns: SlotAssigner,
    items: Iterable[NewItem],
    *,
    now: Callable[[], datetime],
    again: timedelta | None,
) -> AddResult:
    """Add any number of items in batches; return the sum of the results."""
    iterator, result = iter(items), AddResult()
    while batch := list(islice(iterator, ADD_BATCH)):
        result += frontier.add(await turns.assign(batch), now=now(), again=again)
    return result


async def archive_urls(
    run: RunConfig, urls: Iterable[str], *, again: timedelta | None = None, **hooks: Unpack[RunHooks]
) -> RunSummary:
    """Archive the URLs (fetch keys), with `again` those that ended so long ago, too (zero: all; A02)."""

    async def prepare(frontier: Frontier) -> AddResult:
        turns = make_slot_assigner(run.settings)
        return await add_in_batches(frontier, turns, map(NewItem, urls), now=hooks["clock"].now, again=again)

    return await perform_run(run, prepare, **hooks)
