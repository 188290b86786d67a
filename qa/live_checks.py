"""Checks and repairs during a crawl, of the pages it has just archived.

    PageDone ─> backlog, the most suspect first ─> one check at a time ─> registry, pictures, run log
                                                        ╰─> records, through the run's own proxies
    backlog empty ─> broken pages into the frontier ─> workers visit them ─> checked, compared ─> …

Checks never delay the crawl: when the backlog exceeds the setting the least suspect pages are left out; `weboid qa`
checks them later. Tools that fail are closed and started again with the next check, after a growing delay; the outage
is reported once, and its end once.
"""

import asyncio
import contextlib
import itertools
import logging
from bisect import insort
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path

from core.clock import Clock
from core.config.settings import QualitySettings
from core.errors import WeboidError
from core.page_manifest import PageInfo, VisitOutcome
from core.playback_check import PlaybackFault
from core.timestamps import parse_warc_date, timestamp14
from core.urls import host_or_empty
from crawler.frontier.base import Lane
from crawler.run.context_builder import RunContext, make_slot_assigner
from crawler.worker.crawl_events import Event, PageChecked, PageDone
from links.registry.database import RegistryStore
from net.backoff import ExponentialBackoff, WaitEnded, WaitStarted
from qa.check_run import record_checks, store_check
from qa.check_store import find_checks
from qa.check_table import CheckedPage
from qa.checker import PlaybackChecker
from qa.local_replay import ENGINE
from qa.repair import RepairManager
from qa.sample import SampleCandidate, weigh_candidate
from qa.snapshot_reader import SnapshotReader
from warc.artifact_reader import read_manifest

RECORD_EVERY = 20  # checks
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
_SAME = ("page_id", "url", "final_url", "outcome", "reason", "status", "mime", "page_class", "stored_bytes")
_REASON = "playback"  # reason in WaitStarted; the run does not block


@dataclass(frozen=True, slots=True)
class CheckTools:
    """Tools of the checks."""

    checkers: Mapping[str, PlaybackChecker]  # checkers by playback level
    levels_of: Callable[[PageInfo], Sequence[str]]  # returns the levels at which a page's copies are checked
    store: RegistryStore
    pictures: Path  # folder of check pictures
    snapshots: SnapshotReader


OpenTools = Callable[[RunContext], AbstractAsyncContextManager[CheckTools]]


def candidate_from_page(page: PageInfo) -> SampleCandidate:
    """Convert a page that was just archived to a check candidate."""
    captured_at = parse_warc_date(page.captured_at)
    return SampleCandidate(
        **{name: getattr(page, name) for name in _SAME},
        captured_at=captured_at,
        timestamp=timestamp14(captured_at),
        host=host_or_empty(page.url),
        host_checked=True,
    )


async def check_capture(
    tools: CheckTools, page: PageInfo, level: str, *, report: Callable[[PageChecked], None], clock: Clock
) -> CheckedPage:
    """Return the check of a new page's copy, stored: a new one, or an earlier one by the same engine."""

    def known_checks() -> list[CheckedPage]:
        with tools.store.reading() as rows:
            return find_checks(rows, [page.page_id])

    for row in await asyncio.to_thread(known_checks):
        if row.check.level == level and row.check.engine == ENGINE:
            return row
    candidate, checker = candidate_from_page(page), tools.checkers[level]
    checked = await checker.check(candidate)
    if PlaybackFault.NOT_SHOWN in checked.check.faults:
        # A playback that was just restarted has shown nothing: that is not the copy's fault.
        checked = await checker.check(candidate)
    await asyncio.to_thread(store_check, tools.store, tools.pictures, checked, now=clock.now())
    check = checked.check
    report(PageChecked(check.url, check.page_id, check.level, check.verdict, check.score, check.reason))
    return CheckedPage(check, candidate.host, candidate.page_class)


class LiveChecker:
    """Checks and repairs during a run, with tools that are opened when they are needed; `aclose` it."""

    def __init__(self, context: RunContext, settings: QualitySettings, open_tools: OpenTools) -> None:
        self.context = context
        self.troubles = 0  # consecutive failures
        self.has_begun = False  # `advance_repairs` queued a page
        self._backoff = ExponentialBackoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._settings = settings
        self._open_tools = open_tools
        self._left = settings.repairs
        self._unwritten = 0
        self._away_since = 0.0
        self._opened = AsyncExitStack()
        self._tools: CheckTools | None = None

    async def attempt(self, do: Callable[[], Awaitable[None]], *, hurry: asyncio.Event) -> bool:
        """Run `do`; on failure wait and return False. The delay is short once `hurry` is set."""
        context = self.context
        try:
            await do()
        except (WeboidError, OSError) as error:
            await self.aclose()
            if not self.troubles:
                self._away_since = context.clock.monotonic()
                context.report(WaitStarted(_REASON, f"Copies are not checked: {error}"))
            self.troubles += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(hurry.wait(), self._backoff.next_s())
            return False
        if self.troubles:
            context.report(WaitEnded(_REASON, context.clock.monotonic() - self._away_since))
            self._backoff.reset()
        self.troubles = 0
        return True

    async def check_page(self, page: PageInfo) -> None:
        """Check the page's copies; write unrecorded checks from time to time."""
        tools, context = await self._ready(), self.context
        for level in await asyncio.to_thread(tools.levels_of, page):
            await check_capture(tools, page, level, report=context.report, clock=context.clock)
        self._unwritten += 1
        if self._unwritten >= RECORD_EVERY:
            await self.write()

    async def write(self) -> None:
        """Write unrecorded checks and reviews into WARCs."""
        tools, context = await self._ready(), self.context
        bucket = context.settings.proxy.dedup_bucket
        await record_checks(tools.store, context.supervisor.proxies.lend, bucket=bucket)
        self._unwritten = 0

    async def advance_repairs(self) -> None:
        """Finish repairs, begin wanted ones, and write the unrecorded checks."""
        tools, context = await self._ready(), self.context
        check = partial(check_capture, tools, report=context.report, clock=context.clock)
        repairs = RepairManager(
            tools.store,
            context.frontier,
            make_slot_assigner(context.settings),
            lambda page_id: read_manifest(context.layout, context.index, page_id),
            check,
            tools.checkers.keys(),
            tools.snapshots.is_withheld,
            context.clock,
            context.report,
            self._settings.repair_profile,
            Lane.HIGH if context.endless else Lane.STANDARD,
            became=tools.snapshots.changes,
        )
        await repairs.finish()
        begun = await repairs.begin(self._left)
        self._left -= begun
        self.has_begun = begun > 0
        await self.write()

    async def _ready(self) -> CheckTools:
        if self._tools is None:
            self._tools = await self._opened.enter_async_context(self._open_tools(self.context))
        return self._tools

    async def aclose(self) -> None:
        """Close the tools; the next check opens them again."""
        self._tools = None
        with contextlib.suppress(WeboidError, OSError):
            await self._opened.aclose()
        self._opened = AsyncExitStack()


log = logging.getLogger(__name__)

# While a run waits for more, seconds between rounds of repairs and of writing records.
ROUND_S = 3.0
FAILURE_LIMIT = 3  # at the end of a run; then its checks are dropped
_KEPT = frozenset({VisitOutcome.COMPLETE, VisitOutcome.PARTIAL})
_GAPS = 2.0  # suspicion weight of a page with gaps in its ledger
_SHARES = 1 << 32


def suspicion_weight(page: PageInfo) -> float:
    """Return the suspicion weight of the page; 1: not suspect."""
    return weigh_candidate(candidate_from_page(page)).weight + (_GAPS if page.missing else 0.0)


def is_sampled(page_id: str, weight: float, share: float) -> bool:
    """Return whether a page is in the sampled share; deterministic by page id."""
    place = int.from_bytes(blake2b(page_id.encode(), digest_size=4).digest())
    return place < min(share * weight, 1.0) * _SHARES


class CheckBacklog:
    """Backlog of pages to check, the most suspect first; beyond its limit the others are dropped."""

    def __init__(self, settings: QualitySettings) -> None:
        self._settings = settings
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int, PageInfo]] = []
        self.left_out = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, page: PageInfo) -> None:
        """Add the page if it is sampled."""
        weight = suspicion_weight(page)
        if page.outcome not in _KEPT or not is_sampled(page.page_id, weight, self._settings.share):
            return
        insort(self._waiting, (-weight, next(self._numbers), page))
        if len(self._waiting) > max(1, self._settings.backlog):
            self._waiting.pop()
            self.left_out += 1

    def take(self) -> PageInfo:
        """Remove and return the most suspect page."""
        return self._waiting.pop(0)[2]

    def clear(self) -> None:
        """Drop all pages."""
        self.left_out += len(self._waiting)
        self._waiting.clear()


class LiveChecks:
    """Run extension for checks (`crawler.worker.crawl_events.RunExtension`), one per run."""

    def __init__(self, settings: QualitySettings, open_tools: OpenTools) -> None:
        self._settings = settings
        self._open_tools = open_tools
        self._backlog = CheckBacklog(settings)
        self._tries: Counter[str] = Counter()
        self._news = asyncio.Event()
        self._settling = asyncio.Event()  # to settle
        self._settled: asyncio.Future[bool] | None = None
        self._working: asyncio.Task[None] | None = None

    def note(self, event: Event) -> None:
        """Add a newly archived page to the backlog."""
        if isinstance(event, PageDone) and event.page is not None and not event.error:
            self._backlog.add(event.page)
            self._news.set()

    @asynccontextmanager
    async def beside(self, context: RunContext) -> AsyncIterator[None]:
        """Check pages until the end of the block; a check in progress is cancelled."""
        checker = LiveChecker(context, self._settings, self._open_tools)
        self._working = asyncio.create_task(self._work(checker))
        try:
            yield
        finally:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
            if self._backlog.left_out:
                log.warning("quality.left_out pages=%d", self._backlog.left_out)

    async def settle(self) -> bool:
        """Check the backlog and queue broken pages for repair; return whether any was queued."""
        assert self._working is not None
        self._settled = settled = asyncio.get_running_loop().create_future()
        self._settling.set()
        self._news.set()
        await asyncio.wait([settled, self._working], return_when=asyncio.FIRST_COMPLETED)
        self._settled = None
        self._settling.clear()
        return settled.done() and settled.result()

    async def _work(self, checker: LiveChecker) -> None:
        try:
            async with contextlib.aclosing(checker):
                while True:
                    await self._turn(checker)
        except Exception:
            # A bug here must not stop the crawl, which continues without checks.
            log.exception("quality.ended")

    async def _turn(self, checker: LiveChecker) -> None:
        settled = self._settled
        if settled is not None and checker.troubles >= FAILURE_LIMIT:
            self._backlog.clear()
            settled.set_result(False)
            self._settled = None
        elif len(self._backlog):
            page = self._backlog.take()
            if not await checker.attempt(lambda: checker.check_page(page), hurry=self._settling):
                self._tries[page.page_id] += 1
                if self._tries[page.page_id] < FAILURE_LIMIT:
                    self._backlog.add(page)
        elif settled is not None:
            if await checker.attempt(checker.advance_repairs, hurry=self._settling):
                settled.set_result(checker.has_begun)
                self._settled = None
        else:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), ROUND_S)
            except TimeoutError:
                do = checker.advance_repairs if checker.context.endless else checker.write
                await checker.attempt(do, hurry=self._settling)
