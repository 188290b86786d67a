"""What the commands of `weboid qa` open: a playback of their own, browsers, and checkers that use both."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager

from core.clock import Clock
from core.layout import Layout
from core.settings import BrowserSettings
from crawler.browsers import Browsers
from crawler.cli.qa.playing import NAMES, opened_playback, playing
from crawler.lending import Needs
from crawler.quality.checking import Checker, LendBrowser
from playback.decisions.levels import Level, LevelRules
from render.executable import find_browser


def is_looked_at(level: Level, urls: Iterable[str], rules: LevelRules) -> bool:
    """Whether copies of a page that goes by these URLs are looked at, at the level.

    In full only where the rules show it so: it is shown nowhere else. What they do not allow of another
    level is looked at, and told as unchecked: most pages are allowed there.
    """
    return level is not Level.FULL or rules.of_page(urls).covers(level)


@asynccontextmanager
async def looking_browsers(
    settings: BrowserSettings, *, clock: Clock
) -> AsyncIterator[LendBrowser]:
    """Browsers for looks, until the end of the block.

    Raises:
        BrowserUnavailableError: none is found, or none starts.
    """
    executable = find_browser(settings.executable)
    browsers = Browsers(settings, executable, clock, needs=lambda: Needs(hosts=NAMES))
    try:
        await browsers.start()
        yield browsers.lend
    finally:
        await browsers.stop()


@asynccontextmanager
async def opened_checkers(
    layout: Layout,
    database_url: str,
    levels: Sequence[Level],
    lend: LendBrowser,
    *,
    clock: Clock,
    fonts: bool = True,
    cached: bool = True,
) -> AsyncIterator[Mapping[Level, Checker]]:
    """A checker for each of the levels, with a playback of their own, until the end of the block.

    Args:
        layout: the collection.
        database_url: its index, when that is a server's.
        levels: at which copies are looked at.
        lend: lends a browser for one look.
        clock: the time.
        fonts: copies load their own fonts, as their pages did when they were captured.
        cached: copies that were made before are shown again.

    Raises:
        UnavailableError: playback does not start.
        ConfigError: `database_url` names no index.
    """
    async with AsyncExitStack() as stack:
        is_full = Level.FULL in levels
        origins = await stack.enter_async_context(
            playing(layout, database_url, full=is_full, fonts=fonts, cached=cached)
        )
        pool = stack.enter_context(ThreadPoolExecutor(thread_name_prefix="compare"))
        checkers = {}
        for level in levels:
            playback = stack.enter_context(
                opened_playback(layout, database_url, origins, level, clock=clock)
            )
            checkers[level] = Checker(playback, lend, pool, clock)
        yield checkers
