"""What looks beside a run are had with: a playback and a browser of their own, and the registry."""

import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
)

from core.clock import Clock
from core.layout import Layout
from core.pages import PageInfo
from core.settings import QualitySettings, Settings
from crawler.cli.qa.opening import is_looked_at, looking_browsers, opened_checkers
from crawler.cli.qa.playing import ENGINE
from crawler.cli.qa.sights import Sights, opened_sights
from crawler.companion import Beside, Companion
from crawler.quality.beside import ChecksBeside
from crawler.quality.changes import Changes, changes
from crawler.quality.checking import LendBrowser
from crawler.quality.giving_way import children_named, give_way
from crawler.quality.looks import Tools
from links.store.store import open_store
from playback.database import open_database
from playback.decisions.level_book import LevelBook
from playback.decisions.levels import DEFAULT_LEVEL, Level
from playback.decisions.store import open_decisions
from playback.front.pages import PageStore
from playback.permits import Permits
from render.browser import Browser

_LEVELS = (DEFAULT_LEVEL, Level.FULL)


def checks_beside(settings: QualitySettings, levels: Sequence[Level] = _LEVELS) -> Companion:
    """Checks for one run, of copies at these levels; nothing is started yet.

    In full a copy is looked at where the level rules show it so, as they stand at that moment.
    """

    def opened(desk: Beside) -> AbstractAsyncContextManager[Tools]:
        return opened_tools(desk.layout, desk.settings, desk.clock, levels)

    return ChecksBeside(settings, opened, new_id=lambda: str(uuid.uuid4()))


@asynccontextmanager
async def opened_tools(
    layout: Layout, settings: Settings, clock: Clock, levels: Sequence[Level]
) -> AsyncIterator[Tools]:
    """Started for a run, until the end of the block.

    Raises:
        BrowserUnavailableError, UnavailableError: browser or playback do not start.
        TransientError: the registry does not answer.
    """
    url = settings.index.url
    with (
        closing(open_store(layout, url)) as store,
        opened_permits(layout, url, clock) as is_withheld,
        opened_sights(layout, url) as sights,
        closing(open_decisions(layout, url)) as decisions,
    ):
        book = LevelBook(decisions)
        async with (
            looking_browsers(settings.browser, clock=clock) as lend,
            opened_checkers(layout, url, levels, _behind_others(lend), clock=clock) as checkers,
        ):
            for replay in children_named(os.getpid(), "playback.replay"):
                give_way(replay)
            by_name = {str(level): checker for level, checker in checkers.items()}

            def levels_of(page: PageInfo) -> list[str]:
                rules = book.now()
                urls = (page.url, page.final_url)
                return [str(level) for level in levels if is_looked_at(level, urls, rules)]

            yield Tools(
                by_name,
                levels_of,
                ENGINE,
                store,
                layout.quality_pictures,
                is_withheld,
                lambda old, new: _became(sights, old, new),
            )


def _became(sights: Sights, old: str, new: str) -> Changes | None:
    """What the page of the old capture had become in the new one; None when one may not be shown."""
    then, now = sights.page(old), sights.page(new)
    return None if then is None or now is None else changes(*sights.pair(then, now))


def _behind_others(lend: LendBrowser) -> LendBrowser:
    """The same browsers, which let the crawl go first."""
    told: set[int] = set()

    @asynccontextmanager
    async def lent() -> AsyncIterator[Browser]:
        async with lend() as browser:
            if browser.pid not in told:
                told.add(browser.pid)
                give_way(browser.pid)
            yield browser

    return lent


@contextmanager
def opened_permits(
    layout: Layout, database_url: str, clock: Clock
) -> Iterator[Callable[[str], bool]]:
    """Says whether nothing of a capture may be shown: it was taken down or erased. Until the block ends.

    Raises:
        TransientError: index or decisions cannot be read.
    """
    with (
        closing(open_database(layout, database_url)) as database,
        closing(open_decisions(layout, database_url)) as decisions,
    ):
        pages = PageStore(database, Permits(decisions, database.rows, clock.now, show_logins=True))

        def is_withheld(page_id: str) -> bool:
            page = pages.with_ids([page_id]).get(page_id)
            return page is None or page.taken_down is not None

        yield is_withheld
