"""A collection with checked copies as a real browser's windows show them, and its served front."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.playback.screen import Screen, open_screen


@pytest_asyncio.fixture
async def screen() -> AsyncIterator[Screen]:
    """A window."""
    async with open_screen() as it:
        yield it
