"""Access to the link registry for commands: opening, settings, wikis and farms by name."""

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
    """Yield the registry of a collection, or of the index's database; `make` a missing collection."""
    if make and not database_url and not Layout(collection).marker.exists():
        asyncio.run(_make_collection(collection))
    layout = Layout(collection) if database_url else read_collection(collection)
    with closing(open_registry_store(layout, database_url)) as store:
        yield store


def registry_settings(
    profile: str, database_url: str, collection: Path | None = None, *, unattended: bool = False
) -> Settings:
    """Return the profile with the registry's database, completed by the operator of the collection."""
    settings = collection_settings(profile, collection, unattended=unattended)
    return with_database(settings, database_url)


async def _make_collection(root: Path) -> None:
    async with open_collection(root, clock=SystemClock()):
        pass


@dataclass(frozen=True, slots=True)
class RegistrySession:
    """Open registry of a collection."""

    store: RegistryStore
    layout: Layout

    def reporter(self, actor: str | None) -> bytes:
        """Return the digest of the actor; the logged-in user when no name is given."""
        return open_reporter_digests(self.layout).of_name(actor_name(actor))


@contextmanager
def open_registry_session(collection: Path, database_url: str) -> Iterator[RegistrySession]:
    """Yield the registry session of a collection."""
    layout = read_collection(collection)
    with closing(open_registry_store(layout, database_url)) as store:
        yield RegistrySession(store, layout)


def actor_name(actor: str | None) -> str:
    """Return the actor's name; the logged-in user when no name is given."""
    return getpass.getuser() if actor is None else actor


def wiki_named(rows: Connection, name: str) -> Wiki:
    """Return the wiki of that name."""
    return known_wiki(rows, parse_wiki(name))


def farm_named(rows: Connection, name: str) -> WikiFarm:
    """Return the farm of that name."""
    found = find_farm(rows, name)
    if found is None:
        known = ", ".join(farm.name for farm in all_farms(rows))
        raise InputError(f"There is no farm {name[:80]!r}; the registry knows {known}.")
    return found
