"""A browser that looks at copies, a real playback of a small collection, and servers that misbehave."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest_asyncio
from PIL import Image, ImageDraw

from core.clock import SystemClock
from core.config.settings import BrowserSettings
from qa.local_replay import LendBrowser
from render.browser import Browser
from render.chromium import find_browser
from tests.links.conftest import shared_registry, sqlite_store, store  # noqa: F401 fixtures
from tests.support.playback_fixtures import CollectionBuilder, archived, collection, full, site  # noqa: F401 fixtures

Serve = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Launch the real browser, for all tests of the session's loop.

    Names below localhost are this machine, as where copies are shown in full.
    """
    async with await Browser.launch(
        BrowserSettings(hang_limit_s=3_600), find_browser(), hosts={"*.localhost": "127.0.0.1"}, clock=SystemClock()
    ) as launched:
        yield launched


def drawing(columns: int = 6, size: tuple[int, int] = (1280, 800)) -> bytes:
    """Return a PNG with visible content: columns of boxes in several colours."""
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    colours = ("navy", "darkred", "darkgreen", "orange", "purple")
    for column in range(columns):
        for row in range(size[1] // 100):
            left, top = 30 + column * 200, 20 + row * 100
            draw.rectangle((left, top, left + 150, top + 60), fill=colours[(column + row) % 5])
            draw.line((left, top + 70, left + 120 + 7 * row, top + 70), fill="black", width=4)
    with io.BytesIO() as buffer:
        image.save(buffer, "PNG")
        return buffer.getvalue()


def drawn_page(builder: CollectionBuilder, url: str, *, is_there: bool = True, **more: Any) -> str:
    """Add a page captured with the drawing, which its copy has lost unless `is_there`; return its id."""
    picture = f"{url}drawing.png"
    if is_there:
        builder.response(picture, drawing(), mime="image/png")
    html = f"<!DOCTYPE html><body style='margin:0'><img src='{picture}' style='display:block'>"
    return builder.page(url, html, shot=drawing(), **more)


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[str]:
    """Run a server and yield its "host:port"; `serve` gets each request's target, and may answer it."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                while (await reader.readline()).strip():
                    pass
                await serve(line.decode().split(" ")[1], writer)
        except (ConnectionError, IndexError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def answer(writer: asyncio.StreamWriter, body: str, *, status: str = "200 OK") -> None:
    """Send an HTML page as the response."""
    data = body.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    await writer.drain()


def lending(browser: Browser) -> LendBrowser:
    """Return a function that lends that one browser."""

    @asynccontextmanager
    async def lend() -> AsyncIterator[Browser]:
        yield browser

    return lend
