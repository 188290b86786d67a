"""Extensions of a run, with real proxies and a real browser."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.clock import SystemClock
from crawler.capture.page_capture import store_everything
from crawler.frontier.base import NewItem
from crawler.profiles import load_profile
from crawler.run.context_builder import RunContext
from crawler.run.crawl_run import RunConfig, archive_urls
from crawler.worker.crawl_events import Event, PageDone
from tests.support.linked_site import LinkedSite, page, weboid_for
from tests.support.sites.web import TestWeb

pytestmark = [pytest.mark.browser, pytest.mark.proxy]

CLOCK = SystemClock()
FIRST, SECOND = "http://site.example/", "http://site.example/second"


class OnePageExtension:
    """An extension that has one more page visited, and records its events."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._run_context: RunContext | None = None

    def note(self, event: Event) -> None:
        """Record the URL of a finished page."""
        if isinstance(event, PageDone):
            self.events.append(event.url)

    @asynccontextmanager
    async def beside(self, run_context: RunContext) -> AsyncIterator[None]:
        """Borrow a proxy of the run at the start and at the end of the block."""
        self._run_context = run_context
        async with run_context.supervisor.proxies.lend() as proxy:
            await proxy.status()
        self.events.append("begins")
        yield
        async with run_context.supervisor.proxies.lend() as proxy:
            await proxy.status()
        self.events.append("ends")

    async def settle(self) -> bool:
        """Ask for the second page, once."""
        assert self._run_context is not None
        self.events.append("settles")
        added = self._run_context.frontier.add([NewItem(SECOND)], now=CLOCK.now())
        return added.added > 0


async def test_a_crew_works_on_until_its_companion_has_nothing_more(web: TestWeb, tmp_path: Path) -> None:
    """Proxies and frontier are there from its beginning to its end."""
    extension = OnePageExtension()
    with LinkedSite({"site.example/": page(), "site.example/second": page()}) as site:
        weboid = weboid_for(site, web, tmp_path)
        settings = load_profile(str(weboid.profile))
        run = RunConfig(weboid.collection, settings, 2, extension=extension, stored_level_of=store_everything)

        account = await archive_urls(run, [FIRST], clock=CLOCK, report=lambda _event: None)

    assert extension.events == ["begins", FIRST, "settles", SECOND, "settles", "ends"]
    assert sum(account.outcomes.values()) == 2


async def test_a_companion_with_nothing_to_do_is_not_begun(web: TestWeb, tmp_path: Path) -> None:
    """No proxy and no browser start for it alone."""
    extension = OnePageExtension()
    with LinkedSite({"site.example/": page()}) as site:
        weboid = weboid_for(site, web, tmp_path)
        settings = load_profile(str(weboid.profile))
        run = RunConfig(weboid.collection, settings, 1, extension=extension, stored_level_of=store_everything)

        await archive_urls(run, [], clock=CLOCK, report=lambda _event: None)

    assert extension.events == []
