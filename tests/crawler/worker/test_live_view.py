"""Live pictures of pages in progress: made while someone looks, and only then."""

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from PIL import Image

from core.clock import SystemClock
from core.config.settings import FrontierSettings, PolitenessSettings, VisitSettings
from core.layout import Layout
from crawler.frontier.base import Frontier
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.worker.live_view import (
    VIEWER_S,
    ask_for_pictures,
    live_picture,
    live_pictures,
    picture_key,
    store_pictures,
)
from net.backoff import StoreRetry
from render.browser import Browser
from render.page import BrowserPage
from render.visit import VisitRequest, visit
from tests.support.browser_screen import launch_browser

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
CLOCK = SystemClock()


@dataclass
class OneBrowser:
    """The pool of a process with one browser."""

    browser: Browser

    def pages(self) -> dict[str, BrowserPage]:
        """Return the browser's pages in progress."""
        return self.browser.pages


@dataclass
class SlowPage:
    """A page that is in work until `end` is set: its style sheet is late."""

    url: str
    end: asyncio.Event
    drawn: asyncio.Event


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with await launch_browser() as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def slow() -> AsyncIterator[SlowPage]:
    end, drawn = asyncio.Event(), asyncio.Event()

    async def page(_request: web.BaseRequest) -> web.StreamResponse:
        text = "<body style='background:#0a0'><p>red<script>fetch('/late')</script>"
        return web.Response(text=text, content_type="text/html")

    async def late(_request: web.BaseRequest) -> web.StreamResponse:
        drawn.set()
        await end.wait()
        return web.Response(text="")

    app = web.Application()
    app.add_routes([web.get("/", page), web.get("/late", late)])
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    server = web.TCPSite(runner, "127.0.0.1", 0)
    await server.start()
    port = runner.addresses[0][1]
    yield SlowPage(f"http://127.0.0.1:{port}/", end, drawn)
    end.set()
    await runner.cleanup()


@pytest.fixture
def frontier(tmp_path: Path) -> Frontier:
    layout = Layout(tmp_path)
    layout.databases.mkdir()
    return open_frontier(layout, FrontierSettings(), PolitenessSettings())


async def test_pictures_are_made_only_while_someone_looks(browser: Browser, slow: SlowPage, frontier: Frontier) -> None:
    """Without a viewer nothing is stored; a viewer gets a JPEG of the page; afterwards the pictures end."""
    pool, patience = OneBrowser(browser), StoreRetry(CLOCK, lambda _event: None)
    visiting = asyncio.create_task(visit(browser, VisitRequest(slow.url), VisitSettings(), clock=CLOCK))
    await slow.drawn.wait()
    key = picture_key(slow.url)

    await store_pictures(frontier, pool, patience, CLOCK)  # type: ignore[arg-type]
    unwatched = live_pictures(frontier, now=CLOCK.now())
    ask_for_pictures(frontier, now=CLOCK.now())
    async with asyncio.timeout(120):
        while key not in live_pictures(frontier, now=CLOCK.now()):
            await store_pictures(frontier, pool, patience, CLOCK)  # type: ignore[arg-type]
            await asyncio.sleep(0.05)
    picture = live_picture(frontier, key, now=CLOCK.now())
    page = browser.pages[slow.url]
    frontier.erase_note("live-viewer", "")
    await store_pictures(frontier, pool, patience, CLOCK)  # type: ignore[arg-type]
    is_ended = page._live is None
    slow.end.set()
    seen = await visiting

    assert unwatched == {}
    assert picture is not None
    with Image.open(io.BytesIO(picture)) as image:
        red, green, blue = image.convert("RGB").getpixel((image.width // 2, image.height - 5))  # type: ignore[misc]
        assert image.format == "JPEG"
        assert image.width <= 640
        assert green > 100 > max(red, blue)
    assert is_ended
    assert (seen.outcome, browser.pages) == ("complete", {})


async def test_a_viewer_is_forgotten_after_seconds(frontier: Frontier) -> None:
    """A console that was closed costs nothing for longer than its last request."""
    now = CLOCK.now()
    ask_for_pictures(frontier, now=now)

    assert frontier.note("live-viewer", "", now=now) is not None
    assert frontier.note("live-viewer", "", now=now + timedelta(seconds=VIEWER_S + 1)) is None
