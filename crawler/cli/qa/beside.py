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
from core.settings import QualitySettings
from crawler.cli.qa.opening import looking_browsers, opened_checkers
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
from playback.decisions.levels import DEFAULT_LEVEL, Level
from playback.decisions.store import open_decisions
from playback.front.pages import PageStore
from playback.permits import Permits
from render.browser import Browser


def checks_beside(
    settings: QualitySettings, levels: Sequence[Level] = (DEFAULT_LEVEL,)
) -> Companion:
    """Checks for one run, of copies at these levels; nothing is started yet."""

    def opened(desk: Beside) -> AbstractAsyncContextManager[Tools]:
        return opened_tools(desk, levels)

    return ChecksBeside(settings, opened, new_id=lambda: str(uuid.uuid4()))


@asynccontextmanager
async def opened_tools(desk: Beside, levels: Sequence[Level]) -> AsyncIterator[Tools]:
    """Started for a run, until the end of the block.

    Raises:
        BrowserUnavailableError, UnavailableError: browser or playback do not start.
        TransientError: the registry does not answer.
    """
    url = desk.settings.index.url
    with (
        closing(open_store(desk.layout, url)) as store,
        opened_permits(desk.layout, url, desk.clock) as is_withheld,
        opened_sights(desk.layout, url) as sights,
    ):
        async with (
            looking_browsers(desk.settings.browser, clock=desk.clock) as lend,
            opened_checkers(
                desk.layout, url, levels, _behind_others(lend), clock=desk.clock
            ) as checkers,
        ):
            for replay in children_named(os.getpid(), "playback.replay"):
                give_way(replay)
            by_name = {str(level): checker for level, checker in checkers.items()}
            yield Tools(
                by_name,
                ENGINE,
                store,
                desk.layout.quality_pictures,
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
        pages = PageStore(database, Permits(decisions, database.rows, clock.now))

        def is_withheld(page_id: str) -> bool:
            page = pages.with_ids([page_id]).get(page_id)
            return page is None or page.taken_down is not None

        yield is_withheld
