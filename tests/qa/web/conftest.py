"""A collection with checked copies as a real browser's windows show them, and its served front."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from render.browser import Browser
from tests.qa.web.gallery import Drawing, draw
from tests.support.browser_screen import Screen, launch_browser, open_window


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def windows() -> AsyncIterator[Browser]:
    """A browser for the windows of all tests of the session's loop."""
    async with await launch_browser() as it:
        yield it


@pytest_asyncio.fixture(loop_scope="session")
async def screen(windows: Browser) -> AsyncIterator[Screen]:
    """A window."""
    async with open_window(windows) as it:
        yield it


@pytest.fixture(scope="session")
def drawings() -> list[Drawing]:
    """Pages and their copies, drawn once."""
    return asyncio.run(draw())
