"""Archives to ask, on loopback."""

from collections.abc import AsyncIterator

import pytest

from links.archives.archive_client import ArchiveClient
from tests.support.archive_server import ArchiveServer, fetcher, running_archive_server


@pytest.fixture
async def archive_server() -> AsyncIterator[ArchiveServer]:
    """Run one server that stands for all archives."""
    async with running_archive_server() as opened:
        yield opened


@pytest.fixture
async def client(archive_server: ArchiveServer) -> AsyncIterator[ArchiveClient]:
    """Yield a client of the archive server, over real HTTP."""
    async with fetcher() as fetch:
        yield archive_server.client(fetch)
