"""What `report`, `replace` and `mark` share: the registry, who speaks, and URLs in JSON."""

import getpass
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.layout import Layout
from crawler.collection import read_collection
from links.reporters import open_reporters
from links.store.store import Store, open_store


@dataclass(frozen=True, slots=True)
class Registry:
    """A collection's registry."""

    store: Store
    layout: Layout

    def reporter(self, actor: str | None) -> bytes:
        """The digest of who speaks: whoever is logged in here, when nobody is named."""
        return open_reporters(self.layout).of_name(name_of(actor))


@contextmanager
def opened_registry(collection: Path, database_url: str) -> Iterator[Registry]:
    """The registry of a collection, closed at the end of the block.

    Raises:
        UnavailableError: there is no collection.
    """
    layout = read_collection(collection)
    with closing(open_store(layout, database_url)) as store:
        yield Registry(store, layout)


def name_of(actor: str | None) -> str:
    """Who speaks."""
    return getpass.getuser() if actor is None else actor
