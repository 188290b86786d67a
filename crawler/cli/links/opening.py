"""What the commands of `weboid links` open."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from core.clock import SystemClock
from core.layout import Layout
from core.settings import Settings
from crawler.cli.options import with_database
from crawler.collection import open_collection, read_collection
from crawler.operator import collection_settings
from links.store.store import Store, open_store


@contextmanager
def opened_registry(collection: Path, database_url: str, *, make: bool = False) -> Iterator[Store]:
    """The registry of a collection, closed at the end of the block.

    Args:
        collection: its folder.
        database_url: the index that the registry is beside; empty: the collection's own.
        make: a collection that is not there yet is made.

    Raises:
        UnavailableError: there is no collection, and no database was named.
        TransientError: the database does not answer.
    """
    if make and not database_url and not Layout(collection).marker.exists():
        asyncio.run(_make_collection(collection))
    layout = Layout(collection) if database_url else read_collection(collection)
    with closing(open_store(layout, database_url)) as store:
        yield store


def registry_settings(
    profile: str, database_url: str, collection: Path | None = None, *, unattended: bool = False
) -> Settings:
    """The profile, with the registry's database laid over it: a checker needs no more of a cluster.

    The collection, where there is one, says who its operator is (`crawler.operator`).

    Raises:
        ConfigError: the profile is none, or the URL names no database.
    """
    settings = collection_settings(profile, collection, unattended=unattended)
    return with_database(settings, database_url)


async def _make_collection(root: Path) -> None:
    async with open_collection(root, clock=SystemClock()):
        pass
