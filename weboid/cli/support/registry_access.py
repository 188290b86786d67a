"""Settings, actors, wikis and farms of the link registry, by name."""

import getpass
from pathlib import Path

from sqlalchemy import Connection

from core.config.settings import Settings
from core.errors import InputError
from links.feedback.reporter_limits import open_reporter_digests
from links.registry.wikis import Wiki, WikiFarm, all_farms, find_farm, known_wiki, parse_wiki
from weboid.app.operator_identity import collection_settings
from weboid.cli.support.options import with_database
from weboid.cli.support.stores import CollectionStores


def registry_settings(
    profile: str, database_url: str, collection: Path | None = None, *, unattended: bool = False
) -> Settings:
    """Return the profile with the registry's database, completed by the operator of the collection."""
    settings = collection_settings(profile, collection, unattended=unattended)
    return with_database(settings, database_url)


def reporter_digest(stores: CollectionStores, actor: str | None) -> bytes:
    """Return the digest of the actor as a reporter; the logged-in user when no name is given."""
    return open_reporter_digests(stores.layout).of_name(actor_name(actor))


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
