"""Tools of checks during a crawl: replay and browser at low priority where possible, registry, withheld pages."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress

import psutil

from core.clock import Clock
from core.config.settings import QualitySettings, Settings
from core.layout import Layout
from core.page_manifest import PageInfo
from crawler.run.context_builder import RunContext, RunExtension
from links.registry.database import open_registry_store
from playback.access.decision_store import open_decisions
from playback.access.level_store import LevelStore
from playback.access.levels import DEFAULT_LEVEL, Level
from qa.checker import open_checkers
from qa.live_checks import CheckTools, LiveChecks
from qa.local_replay import LendBrowser, is_checkable, open_browsers
from qa.snapshot_reader import open_snapshots
from render.browser import Browser

NICENESS = 15  # of 19; at equal load such a process gets a thirtieth of what others get


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

    def opened(context: RunContext) -> AbstractAsyncContextManager[CheckTools]:
        return open_check_tools(context.layout, context.settings, context.clock, levels)

    return LiveChecks(settings, opened)


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
