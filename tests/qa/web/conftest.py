"""A collection with checked copies as a real browser's windows show them, and its served front."""

import asyncio

import pytest

from tests.qa.web.gallery import GalleryPictures, draw
from tests.support.browser_screen import screen, windows  # noqa: F401 fixtures


@pytest.fixture(scope="session")
def drawings() -> list[GalleryPictures]:
    """Draw the pages and their copies, once."""
    return asyncio.run(draw())
