"""A collection with checked copies as a real browser's windows show them, and its served front."""

import pytest_asyncio

from render.browser import Browser
from tests.qa.web.gallery import GalleryPictures, draw
from tests.support.browser_screen import open_window, screen, windows  # noqa: F401 fixtures


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def drawings(windows: Browser) -> list[GalleryPictures]:  # noqa: F811 a fixture
    """Draw the pages and their copies, once."""
    async with open_window(windows) as window:
        return await draw(window)
