"""Stores of a collection, opened when a command needs them."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.clock import SystemClock
from core.layout import Layout
from crawler.collection import open_collection, read_collection
from weboid.cli.support.commands import made_by
from weboid.cli.support.options import COLLECTION, DATABASE

if TYPE_CHECKING:  # each command loads the libraries of the stores that it opens
    from links.registry.database import RegistryStore
    from playback.access.decision_store import DecisionStore
    from playback.access.level_store import LevelStore
    from warc.index.database import IndexDatabase


@dataclass(frozen=True, slots=True)
class CollectionStores:
    """Collection of a command; index, registry and decisions may be in a database instead."""

    root: Path
    database_url: str

    @property
    def layout(self) -> Layout:
        """Return the collection's folders; UnavailableError: there is none."""
        return read_collection(self.root)

    @contextmanager
    def registry(self, *, make: bool = False) -> Iterator["RegistryStore"]:
        """Yield the link registry; `make` a missing collection."""
        from links.registry.database import open_registry_store

        if make and not self.database_url and not Layout(self.root).marker.exists():
            asyncio.run(make_collection(self.root))
        layout = Layout(self.root) if self.database_url else self.layout
        with closing(open_registry_store(layout, self.database_url)) as store:
            yield store

    def index(self) -> "AbstractContextManager[IndexDatabase]":
        """Open the captures index."""
        from warc.index.database import open_database

        return closing(open_database(self.layout, self.database_url))

    def decisions(self) -> "AbstractContextManager[DecisionStore]":
        """Open the decisions about take-downs, levels, holds and scans."""
        from playback.access.decision_store import open_decisions

        return closing(open_decisions(self.layout, self.database_url))

    @contextmanager
    def levels(self) -> Iterator["LevelStore"]:
        """Yield the playback levels among the decisions."""
        from playback.access.level_store import LevelStore

        with self.decisions() as decisions:
            yield LevelStore(decisions)


async def make_collection(root: Path) -> None:
    """Create the collection if it is missing."""
    async with open_collection(root, clock=SystemClock()):
        pass


def collection_stores(
    collection: Path = COLLECTION, database_url: str = DATABASE
) -> CollectionStores:
    """Return the stores that `--collection` and `--database` name."""
    return CollectionStores(collection, database_url)


STORES = made_by(collection_stores)
