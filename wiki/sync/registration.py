"""Registration of a wiki in the registry: its name, namespaces, and farm, of its own when none matches."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection

from core.errors import ConfigError, InputError
from core.urls import host_of
from links.registry import wikis
from links.rules.link_class import OwnHosts
from wiki.api.models import SiteFacts, WikiNamespace
from wiki.settings import WikiSettings, replace_settings
from wiki.sync.feed_context import SITE

FARM_CHARS: Final = 40
CLEARED: Final = "-"  # in the place of a list: it is emptied
_FARM_OTHERS = re.compile(r"[^A-Za-z0-9_.-]+", re.ASCII)


@dataclass(frozen=True)
class WikiRegistration:
    """Registration data of a wiki."""

    address: str  # of its API
    facts: SiteFacts  # its site information
    name: str = ""  # ``dbname@farm`` or ``dbname``; empty: its own dbname, in the matching farm
    farm: str = ""  # empty: the one that matches the wiki's host, or a new one
    feed: Mapping[str, Any] | None = None  # values of `FeedSettings`; None keeps one


def put_wiki(connection: Connection, wanted: WikiRegistration, *, day: int) -> wikis.Wiki:
    """Add or update a wiki, and its farm. InputError: its name or address is another's; ConfigError: a bad setting."""
    host = host_of(wanted.facts.server)
    known = find_registered(wikis.all_wikis(connection), wanted)
    if known is not None:
        name = known.name
    else:
        dbname, at, farm = (wanted.name or wanted.facts.dbname).partition("@")
        farm = farm if at else wanted.farm or farm_for(host, wikis.all_farms(connection))
        name = wikis.parse_wiki(f"{dbname}@{farm}")
    if wikis.find_farm(connection, name.farm) is None:
        wikis.put_farm(connection, name.farm, address=wanted.facts.server, internal=host_pattern(host))
    existing = known or wikis.find_wiki(connection, name)
    at_url = comparable_address(existing.url) if existing is not None else ""
    if existing is not None and at_url not in ("", comparable_address(wanted.address)):
        raise InputError(
            f"{name} is known as the wiki at {existing.url}. If this is another wiki, give it a name: --name "
            f"SOMETHING@{name.farm}. If it has moved, first run `weboid wiki set {name} "
            f"--url {wanted.address}`."
        )
    wiki = existing or wikis.ensure_wiki(connection, name, day=day)
    wikis.forget_feed(connection, wiki.id, SITE)  # a wiki that is added again counts as the same
    settings = WikiSettings.parse(wiki.settings)
    feed = replace_settings(settings.feed, "feed", **(wanted.feed or {}))
    if feed.account and not feed.password_file:  # it would never log in
        raise ConfigError(f"The account {feed.account} needs its password: --password-file FILE.")
    merged, pages_url = replace(settings, feed=feed).merged_into(wiki.settings), wanted.facts.pages_url or None
    return wikis.change_wiki(connection, wiki, url=wanted.address, pages_url=pages_url, settings=merged)


def find_registered(registered: Iterable[wikis.Wiki], wanted: WikiRegistration) -> wikis.Wiki | None:
    """Find the wiki with this address or name; InputError: invalid, or already observed under another name."""
    known_wikis = list(registered)
    at = comparable_address(wanted.address)
    first = next((each for each in known_wikis if each.url and comparable_address(each.url) == at), None)
    if first is None:
        name = wikis.parse_wiki(wanted.name) if "@" in wanted.name else None
        return next((each for each in known_wikis if each.name == name), None)
    dbname, _, farm = wanted.name.partition("@")
    others = (dbname, first.name.dbname), (farm, first.name.farm), (wanted.farm, first.name.farm)
    if any(written and written != known for written, known in others):
        raise InputError(f"The wiki at {first.url} is already known as {first.name}: omit --name and --farm.")
    return first


def farm_for(host: str, farms: Iterable[wikis.WikiFarm]) -> str:
    r"""Return the farm that matches the host; else a new name derived from the host.

    >>> farm_for("de.wikipedia.org", [wikis.WikiFarm(1, "WMF", "", r"\.wikipedia\.org$")])
    'WMF'
    >>> farm_for("[2001:db8::1]", [])
    '2001-db8-1'
    """
    for each in farms:
        with suppress(InputError):  # an invalid expression matches no wiki
            if each.internal and OwnHosts(each.internal).has(host):
                return each.name
    # Hosts of one domain differ in their left labels.
    return _FARM_OTHERS.sub("-", host).strip("-._")[:FARM_CHARS].strip("-._") or "wiki"


def host_pattern(host: str) -> str:
    r"""Return a regular expression (RE2) that matches only this host.

    >>> host_pattern("wiki.example.org")
    '^wiki\\.example\\.org$'
    """
    return "^" + re.sub(r"([^A-Za-z0-9_-])", r"\\\1", host) + "$"


def comparable_address(url: str) -> str:
    """Return the API address in its comparison form, equal for http and https."""
    return url.partition("://")[2].rstrip("/")


def namespace_ids(words: Iterable[str], known: Mapping[int, WikiNamespace]) -> tuple[int, ...]:
    """Resolve namespaces given by number or by local or English name; InputError lists those of the wiki."""
    names = {"main": 0, "(main)": 0, "article": 0}
    for each in sorted(known.values(), key=lambda each: -each.id):
        names[normalized_name(each.canonical)] = each.id
        names[normalized_name(each.name)] = each.id
    names.pop("", None)  # the articles' own
    ids: dict[int, None] = {}
    for word in words:
        is_number = word.isascii() and word.isdigit() and len(word) < 7
        number = int(word) if is_number else names.get(normalized_name(word), -1)
        if number < 0 or number not in known:
            spaces = sorted((each.id, each.name or "(main)") for each in known.values() if each.id >= 0)
            listed = ", ".join(f"{number} {name}" for number, name in spaces)
            raise InputError(f"The wiki has no namespace {word[:80]!r}; it has {listed}.")
        ids[number] = None
    return tuple(ids)


def normalized_name(name: str) -> str:
    """Normalize a namespace's name for comparison."""
    return " ".join(name.replace("_", " ").split()).casefold().rstrip(":")
