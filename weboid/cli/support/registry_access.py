"""Link registry of a command: opening it, its settings, its wikis and farms by name."""

import asyncio
import getpass
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from core.clock import SystemClock
from core.config.settings import Settings
from core.errors import InputError
from core.layout import Layout
from crawler.collection import open_collection, read_collection
from links.feedback.reporter_limits import open_reporter_digests
from links.registry.database import RegistryStore, open_registry_store
from links.registry.wikis import Wiki, WikiFarm, all_farms, find_farm, known_wiki, parse_wiki
from weboid.app.operator_identity import collection_settings
from weboid.cli.support.options import with_database


@contextmanager
def open_registry(
    collection: Path, database_url: str, *, make: bool = False
) -> Iterator[RegistryStore]:
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
    with closing(open_registry_store(layout, database_url)) as store:
        yield store


def registry_settings(
    profile: str, database_url: str, collection: Path | None = None, *, unattended: bool = False
) -> Settings:
    """The profile, with the registry's database laid over it: a checker needs no more of a cluster.

    The collection, where there is one, says who its operator is (`weboid.app.operator_identity`).

    Raises:
        ConfigError: the profile is none, or the URL names no database.
    """
    settings = collection_settings(profile, collection, unattended=unattended)
    return with_database(settings, database_url)


async def _make_collection(root: Path) -> None:
    async with open_collection(root, clock=SystemClock()):
        pass


@dataclass(frozen=True, slots=True)
class RegistrySession:
    """A collection's registry."""

    store: RegistryStore
    layout: Layout

    def reporter(self, actor: str | None) -> bytes:
        """The digest of who speaks: whoever is logged in here, when nobody is named."""
        return open_reporter_digests(self.layout).of_name(actor_name(actor))


@contextmanager
def open_registry_session(collection: Path, database_url: str) -> Iterator[RegistrySession]:
    """The registry of a collection, closed at the end of the block.

    Raises:
        UnavailableError: there is no collection.
    """
    layout = read_collection(collection)
    with closing(open_registry_store(layout, database_url)) as store:
        yield RegistrySession(store, layout)


def actor_name(actor: str | None) -> str:
    """Who speaks."""
    return getpass.getuser() if actor is None else actor


def wiki_named(rows: Connection, name: str) -> Wiki:
    """The wiki of that name.

    Raises:
        InputError: it is no name, or the registry does not know the wiki.
    """
    return known_wiki(rows, parse_wiki(name))


def farm_named(rows: Connection, name: str) -> WikiFarm:
    """The farm of that name.

    Raises:
        InputError: the registry does not know it.
    """
    found = find_farm(rows, name)
    if found is None:
        known = ", ".join(farm.name for farm in all_farms(rows))
        raise InputError(f"There is no farm {name[:80]!r}; the registry knows {known}.")
    return found
