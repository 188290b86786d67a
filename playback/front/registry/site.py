"""The registry's part of the front, put together."""

import logging
import secrets
from collections.abc import Callable

from starlette.routing import BaseRoute

from core.errors import UnavailableError
from links.reporters import Reporters, open_reporters
from playback.database import Database
from playback.front.languages import here
from playback.front.offering import Offering
from playback.front.registry.access import Door
from playback.front.registry.cached.finding import Finder
from playback.front.registry.cached.gadget import Gadget
from playback.front.registry.cached.serving import CachedLinks
from playback.front.registry.captures import OwnCopies
from playback.front.registry.desk import Desk, LinkRegistry
from playback.front.registry.forms import Stamps
from playback.front.registry.people import FORM_PATH, People
from playback.front.registry.programs import Programs
from playback.front.saying.acts import Acts
from playback.front.saying.pages import SayingPages
from playback.front.views import Means

_LOG = logging.getLogger(__name__)


def links_addresses(registry: LinkRegistry | None) -> Callable[[], str]:
    """Gives the address of the form; empty where there is no registry."""
    return lambda: here(FORM_PATH) if registry is not None and registry.source.is_there() else ""


def _reporters(registry: LinkRegistry) -> Reporters:
    """Return what signs stamps: the collection's key, shared by its fronts; else one of this process."""
    if registry.layout is not None:
        try:
            return open_reporters(registry.layout)
        except UnavailableError as error:
            _LOG.warning("front.form_key_unavailable: %s", error)
    return Reporters(secrets.token_bytes(32))


def registry_routes(registry: LinkRegistry, database: Database, means: Means) -> list[BaseRoute]:
    """Its addresses."""
    desk = Desk(registry.source, OwnCopies(database, means.store), means.clock)
    door = Door(registry.access)
    people = People(desk, door, Stamps(_reporters(registry)), means)
    finder = Finder(registry.source, Offering(database, means.store), means.status, means.clock)
    cached = CachedLinks(finder, door, means, desk.note)
    routes = [
        *Programs(desk, door, people, means).routes(),
        *people.routes(),
        *cached.routes(),
        *Gadget().routes(),
    ]
    if registry.voice is not None:
        acts = Acts(registry.source, registry.voice, means.clock)
        routes += SayingPages(acts, door, means).routes()
    return routes
