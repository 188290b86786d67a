"""Archives to ask, on loopback."""

from collections.abc import AsyncIterator

import pytest

from links.archives.archive_client import ArchiveClient
from tests.support.archive_world import World, fetcher, opened_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A server that is all archives."""
    async with opened_world() as opened:
        yield opened


@pytest.fixture
async def asker(world: World) -> AsyncIterator[ArchiveClient]:
    """Who asks them over real HTTP."""
    async with fetcher() as fetch:
        yield world.asker(fetch)
