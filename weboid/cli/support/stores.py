"""Stores of a collection, opened when a command needs them; actors, wikis and farms by name."""

import asyncio
import getpass
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.config.settings import Settings
from core.errors import InputError, UnavailableError
from core.layout import Layout
from crawler.collection import open_collection, read_collection
from weboid.app.operator_identity import collection_settings
from weboid.cli.support.commands import CLOCK, option_dict
from weboid.cli.support.options import COLLECTION, DATABASE, with_database

if TYPE_CHECKING:  # each command loads the libraries of the stores that it opens
    from sqlalchemy import Connection

    from links.registry.database import RegistryStore
    from links.registry.wikis import Wiki, WikiFarm
    from playback.access.control import AccessControl
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
    def readable(self) -> "Iterator[tuple[IndexDatabase, DecisionStore, AccessControl]]":
        """Yield captures index and decisions, with the access control of a public reader."""
        from playback.access.control import AccessControl
        from playback.access.holds import HoldIndex
        from playback.access.threat_lists import lists_folder

        with self.index() as database, self.decisions() as decisions:
            holds = HoldIndex(decisions, lists_folder(self.layout.decisions_db))
            yield database, decisions, AccessControl(decisions, database.rows, CLOCK.now, holds)

    @contextmanager
    def levels(self) -> Iterator["LevelStore"]:
        """Yield the playback levels among the decisions."""
        from playback.access.level_store import LevelStore

        with self.decisions() as decisions:
            yield LevelStore(decisions)


@contextmanager
def open_existing_registry(layout: Layout, settings: Settings) -> Iterator["RegistryStore"]:
    """Yield the collection's registry."""
    from links.registry.database import open_registry_store

    if not settings.index.url and not layout.links_db.exists():
        raise UnavailableError(
            f"{layout.root} has no link registry yet: `weboid links import` or `weboid links add-page` makes one."
        )
    with closing(open_registry_store(layout, settings.index.url)) as store:
        yield store


async def make_collection(root: Path) -> None:
    """Create the collection if it is missing."""
    async with open_collection(root, clock=CLOCK):
        pass


STORES = option_dict({"root": COLLECTION, "database_url": DATABASE}, CollectionStores)


def registry_settings(profile: str, database_url: str, collection: Path | None = None) -> Settings:
    """Return the profile with the registry's database, completed by the operator of the collection."""
    return with_database(collection_settings(profile, collection), database_url)


def actor_name(actor: str | None) -> str:
    """Return the actor's name; the logged-in user when no name is given."""
    return getpass.getuser() if actor is None else actor


def reporter_digest(stores: CollectionStores, actor: str | None) -> bytes:
    """Return the digest of the actor as a reporter; the logged-in user when no name is given."""
    from links.feedback.reporter_limits import open_reporter_digests

    return open_reporter_digests(stores.layout).of_name(actor_name(actor))


def wiki_named(rows: "Connection", name: str) -> "Wiki":
    """Return the wiki of that name."""
    from links.registry.wikis import known_wiki, parse_wiki

    return known_wiki(rows, parse_wiki(name))


def farm_named(rows: "Connection", name: str) -> "WikiFarm":
    """Return the farm of that name."""
    from links.registry.wikis import all_farms, find_farm

    farm = find_farm(rows, name)
    if farm is None:
        known = ", ".join(each.name for each in all_farms(rows))
        raise InputError(f"There is no farm {name[:80]!r}; the registry knows {known}.")
    return farm
