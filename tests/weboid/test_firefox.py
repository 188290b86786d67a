"""The console and the reader pages in Firefox: the acts that other tests do in Chromium."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from core.clock import SystemClock
from core.config.settings import Settings
from crawler.frontier.base import ItemState
from crawler.frontier.sqlite_frontier import open_frontier
from playback.web.page_saves import SaveOptions
from tests.support.console_server import serve_console
from tests.support.firefox import FIREFOX, open_firefox
from tests.support.playback_fixtures import UNLIMITED, CollectionBuilder, Served, serving
from tests.weboid.console.sample_collection import make_collection
from weboid.app.reader_queue_status import ReaderQueueStatus
from weboid.console.accounts import COOKIE

pytestmark = [pytest.mark.browser, pytest.mark.skipif(FIREFOX is None, reason="Firefox is not installed")]
URL = "https://cited.example/page"
CLOCK = SystemClock()


@pytest.fixture
def saving(collection: CollectionBuilder) -> Iterator[Served]:
    """A front whose readers may save."""
    with (
        contextlib.closing(ReaderQueueStatus(collection.layout, Settings(), clock=CLOCK)) as status,
        serving(collection, status=status, saves=SaveOptions(status), access=UNLIMITED) as served,
    ):
        yield served


@pytest.mark.asyncio
async def test_a_reader_saves_a_page(saving: Served, tmp_path: Path) -> None:
    """The page of a missing copy, the form, the progress that reloads itself, the copy; no script of ours."""
    builder = saving.builder
    async with open_firefox(tmp_path) as window:
        await window.open(f"{saving.front}/page/{URL}")
        await window.value("document.querySelector('.notice .button').click()")
        await window.until("document.querySelector('form.speak button')")
        assert await window.value("document.querySelector('#url').value") == URL
        await window.value("document.querySelector('form.speak button').click()")
        await window.until("document.body.innerText.includes('Queued since')")
        with open_frontier(builder.layout, Settings().frontier, Settings().politeness) as frontier:
            (item,) = frontier.claim(now=CLOCK.now(), worker="w")
            builder.page(URL, "<p>The copy.</p>", at=CLOCK.now(), title="A page")
            frontier.complete(item, now=CLOCK.now(), outcome="complete")
        await window.until("document.querySelector('iframe.copy')")
        assert await window.value("document.querySelector('.banner h1 .title').textContent") == "A page"
        await window.open(f"{saving.front}/save?url={quote(URL, safe='')}")
        assert "Newest capture" in await window.value("document.body.innerText")


@pytest.mark.asyncio
async def test_an_operator_captures_a_page_and_sees_it_in_the_queue(tmp_path: Path) -> None:
    """Signed in by the cookie of a session; a form of the console is taken, and the page is refreshed by its script."""
    layout = await asyncio.to_thread(make_collection, tmp_path / "collection")
    with serve_console(layout) as console:
        async with open_firefox(tmp_path) as window:
            await window.cookie(COOKIE, console.sessions["operator"], "127.0.0.1")
            await window.open(f"{console.address}/console/captures?q=reading")
            await window.value("document.querySelector('.pages .facts a').click()")
            await window.until("document.querySelector('form[action=\"/do/save_capture\"]')")
            await window.value("document.querySelector('form[action=\"/do/save_capture\"] button').click()")
            await window.until("document.querySelector('.said[role=status]')")
            assert "will be captured" in await window.value("document.querySelector('.said').textContent")
            url = await window.value("document.querySelector('h1 .url').textContent")
            queued = [each.item.url for each in console.frontier.ls(ItemState.QUEUED, limit=5)]
            assert queued[0] == url
            # The overview asks again after five seconds, and this part of it is another one then.
            await window.open(f"{console.address}/console")
            await window.value("document.querySelector('#live').dataset.first = 'yes'; 1")
            console.frontier.pause("test")
            await window.until("document.querySelector('#live').textContent.includes('Paused')")
