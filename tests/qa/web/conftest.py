"""A collection with checked copies as a real browser's windows show them, and its served front."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.qa.web.gallery import Drawing, draw
from tests.support.browser_screen import Screen, open_screen


@pytest_asyncio.fixture
async def screen() -> AsyncIterator[Screen]:
    """A window."""
    async with open_screen() as it:
        yield it


@pytest.fixture(scope="session")
def drawings() -> list[Drawing]:
    """Pages and their copies, drawn once."""
    return asyncio.run(draw())
