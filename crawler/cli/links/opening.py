"""What the commands of `weboid links` open."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from core.clock import SystemClock
from core.layout import Layout
from crawler.collection import open_collection, read_collection
from links.store.store import Store, open_store


@contextmanager
def opened_registry(collection: Path, database_url: str, *, make: bool = False) -> Iterator[Store]:
    """The registry of a collection, closed at the end of the block.

    Args:
        collection: its folder.
        database_url: the index that the registry is beside; empty: the collection's own.
        make: a collection that is not there yet is made.

    Raises:
        UnavailableError: there is no collection.
        TransientError: the database does not answer.
    """
    if make and not Layout(collection).marker.exists():
        asyncio.run(_make_collection(collection))
    with closing(open_store(read_collection(collection), database_url)) as store:
        yield store


async def _make_collection(root: Path) -> None:
    async with open_collection(root, clock=SystemClock()):
        pass
