"""Checks of copies during a run, and repairs: broken pages are captured again, by this process or by others."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

import psutil

from core.clock import Clock, SystemClock
from core.config.settings import QualitySettings, Settings
from core.errors import CollectionInUseError, InvariantError
from core.layout import Layout
from core.page_manifest import PageInfo
from crawler.capture.page_capture import StoredLevelOf
from crawler.frontier.base import AddResult, Frontier
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.jobs.crawl_orders import overlay_profile
from crawler.run.context_builder import RunExtension, make_slot_assigner
from crawler.run.crawl_run import RunConfig, perform_run
from crawler.worker.crawl_events import Event, PageRepaired
from links.registry.database import RegistryStore, open_registry_store
from playback.access.decision_store import open_decisions
from playback.access.level_store import LevelStore
from playback.access.levels import DEFAULT_LEVEL, Level
from proxy.control.handshake import ClusterSecret
from qa.check_table import CheckedPage, RepairState
from qa.checker import open_checkers
from qa.live_checks import CheckTools, LiveChecks, check_capture
from qa.local_replay import LendBrowser, is_checkable, open_browsers
from qa.repair import RepairManager
from qa.snapshot_reader import open_snapshots
from render.browser import Browser
from render.sign_in import SiteLogins
from warc.artifact_reader import read_manifest
from warc.index.database import open_database

_CLOCK = SystemClock()
_ATTEMPTS = 2  # a site that is away is not waited for
_LEFT = {
    "shared": "the workers of the shared frontier (`weboid worker`) visit them",
    "in use": "the process that writes the collection visits them",
    "others": "other pages are queued too: `weboid archive --qa` visits them all",
}


@dataclass(frozen=True, slots=True)
class RepairRunOptions:
    """Options of a repair run."""

    layout: Layout
    settings: Settings
    workers: int
    limit: int  # upper bound of recaptures
    secret: ClusterSecret | None  # shared secret of a cluster's proxies; None: there is none
    unlock: Callable[[], SiteLogins | None]  # unlocks the logins that the settings name
    stored_levels: AbstractContextManager[StoredLevelOf]  # lookup, opened for one run


@dataclass(slots=True)
class RepairSummary:
    """Summary of a run of repairs."""

    ended: Counter[str] = field(default_factory=Counter)  # number of repairs by outcome
    left: int = 0  # repairs that have begun and not ended
    why_left: str = ""  # key into `_LEFT` for who visits them; empty: none are left to others
    stopped: bool = False  # whether a stop was requested

    @property
    def is_well(self) -> bool:
        """Return True if every repair that ended produced a better capture."""
        return set(self.ended) <= {RepairState.DONE_BETTER}

    @property
    def lines(self) -> list[str]:
        """Return the summary as text; empty when nothing was done."""
        lines = []
        if self.ended:
            ended = ", ".join(f"{count} {state}" for state, count in sorted(self.ended.items()))
            lines.append(f"Captured again: {self.ended.total()} ({ended}).")
        if self.left:
            who = f": {_LEFT[self.why_left]}" if self.why_left else ""
            lines.append(f"Begun and not ended: {self.left}{who}. Then: weboid qa repair")
        return lines


async def _no_checks(_page: PageInfo, _level: str) -> CheckedPage:
    raise InvariantError("No check tools are open.")


class CollectionRepair:
    """Repairs of one collection."""

    def __init__(self, options: RepairRunOptions, store: RegistryStore) -> None:
        self._options = options
        self._store = store

    def wanted(self) -> list[CheckedPage]:
        """Return the pages that would be captured again."""
        with self._repairs() as repairs:
            return repairs.wanted(self._options.limit)

    async def repair(self, on_event: Callable[[Event], None]) -> RepairSummary:
        """Repair the pages, and complete repairs in progress."""
        options, done = self._options, RepairSummary()
        with self._repairs() as repairs:
            todo = [*repairs.wanted(options.limit), *repairs.begun()]
            if not todo:
                return done
            if options.settings.frontier.url:
                done.why_left = "shared"
            elif repairs.others_wait():
                done.why_left = "others"

        def report(event: Event) -> None:
            if isinstance(event, PageRepaired):
                done.ended[event.state] += 1
            on_event(event)

        if not done.why_left:
            try:
                done.stopped = await self._visit(_levels_of(todo), report)
            except CollectionInUseError:
                done.why_left = "in use"
        with self._repairs() as repairs:
            if done.why_left:
                over = repairs.over()
                await repairs.begin(options.limit)
                if over:  # what others captured again
                    async with open_check_tools(options.layout, options.settings, _CLOCK, _levels_of(over)) as tools:
                        check = partial(check_capture, tools, report=report, clock=_CLOCK)
                        checking = replace(repairs, check=check, levels=tools.checkers.keys(), report=report)
                        await checking.finish()
            done.left = len(repairs.begun())
        return done

    async def _visit(self, levels: Sequence[Level], report: Callable[[Event], None]) -> bool:
        """Capture the pages again in a run of this process; return whether it was stopped."""
        options, settings = self._options, self._options.settings
        quality = replace(settings.quality, share=0.0, repairs=options.limit)
        settings = overlay_profile(settings, quality.repair_profile, ("proxy",))
        settings = replace(
            settings,
            frontier=replace(settings.frontier, attempts=min(settings.frontier.attempts, _ATTEMPTS)),
            # A payload in a bucket of the profile's may be the very one that is damaged.
            proxy=replace(settings.proxy, dedup_also=()),
            quality=quality,
        )

        async def add_nothing(_frontier: Frontier) -> AddResult:
            return AddResult()

        with options.stored_levels as level_of:
            run = RunConfig(
                options.layout.root,
                settings,
                options.workers,
                logins=options.unlock(),
                extension=create_live_checks(quality, levels),
                eager=True,
                stored_level_of=level_of,
            )
            account = await perform_run(run, add_nothing, clock=_CLOCK, started=lambda *_: None, report=report)
        return account.stopped

    @contextmanager
    def _repairs(self) -> Iterator[RepairManager]:
        """Yield repairs, of which none is completed: there are no levels that it can check."""
        layout, settings = self._options.layout, self._options.settings
        with (
            open_frontier(layout, settings.frontier, settings.politeness) as frontier,
            closing(open_database(layout, settings.index.url)) as index,
            open_snapshots(layout, settings.index.url) as snapshots,
        ):
            yield RepairManager(
                self._store,
                frontier,
                make_slot_assigner(settings),
                lambda page_id: read_manifest(layout, index, page_id),
                _no_checks,
                (),
                snapshots.is_withheld,
                _CLOCK,
                lambda _repaired: None,
                settings.quality.repair_profile,
            )


def _levels_of(todo: Sequence[CheckedPage]) -> list[Level]:
    known = (Level(each.check.level) for each in todo if each.check.level in set(Level))
    return list(dict.fromkeys((DEFAULT_LEVEL, *known)))


NICENESS = 15  # of 19; under load such a process gets a thirtieth of others' CPU time


def lower_priority(pid: int) -> None:
    """Set the process and its descendants to low priority; later children inherit it."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                each.nice(NICENESS)


_LEVELS = (DEFAULT_LEVEL, Level.FULL)


def create_live_checks(settings: QualitySettings, levels: Sequence[Level] = _LEVELS) -> RunExtension:
    """Create, not start, checks for one run; at level full only of copies that the level rules show so."""
    return LiveChecks(settings, lambda run: open_check_tools(run.layout, run.settings, run.clock, levels))


@asynccontextmanager
async def open_check_tools(
    layout: Layout, settings: Settings, clock: Clock, levels: Sequence[Level]
) -> AsyncIterator[CheckTools]:
    """Start the check tools and yield them."""
    url = settings.index.url
    with (
        closing(open_registry_store(layout, url)) as store,
        open_snapshots(layout, url) as snapshots,
        closing(open_decisions(layout, url)) as decisions,
    ):
        book = LevelStore(decisions)
        async with (
            open_browsers(settings.browser, clock=clock) as lend,
            open_checkers(layout, url, levels, _low_priority(lend), clock=clock) as checkers,
        ):
            for child in psutil.Process().children():
                with suppress(psutil.Error):
                    if "playback.replay" in child.cmdline():
                        lower_priority(child.pid)
            by_name = {str(level): checker for level, checker in checkers.items()}

            def levels_of(page: PageInfo) -> list[str]:
                rules = book.now()
                urls = (page.url, page.final_url)
                return [str(level) for level in levels if is_checkable(level, urls, rules)]

            yield CheckTools(by_name, levels_of, store, layout.quality_pictures, snapshots)


def _low_priority(lend: LendBrowser) -> LendBrowser:
    lowered: set[int] = set()

    @asynccontextmanager
    async def lent() -> AsyncIterator[Browser]:
        async with lend() as browser:
            if browser.pid not in lowered:
                lowered.add(browser.pid)
                lower_priority(browser.pid)
            yield browser

    return lent
