"""Stored levels of visits: how much of a page a visit records, decided when it begins.

The wiki whose rules hold is the one whose page cites the link: the item's `via` is that page's address,
and orders of the frontier say how each wiki makes addresses, so every worker on every machine knows.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from core.settings import BehaviourSettings, Settings
from core.stored_levels import DEFAULT_STORED_LEVEL, StoredLevel
from crawler.frontier.base import Frontier, FrontierItem

WIKI_ORDER = "wiki"  # its key is the wiki's name in levels, its value a page's address with $1
# The level of a URL that a wiki's page cites; the wiki is empty when none does. Asks a store.
StoredLevelOf = Callable[[str, str], StoredLevel]
_OF_IMAGES = frozenset({"lazy", "candidates"})
_OF_MEDIA = frozenset({"media", "play"})


def everything_stored(_url: str, _wiki: str) -> StoredLevel:
    """Return the default level, for runs without a collection's decisions."""
    return DEFAULT_STORED_LEVEL


class StoredLevels:
    """Finds the stored level of an item's visit. From any thread."""

    def __init__(self, frontier: Frontier, level_of: StoredLevelOf) -> None:
        """Take the frontier, which knows wikis, and what knows the decisions."""
        self._frontier = frontier
        self._level_of = level_of

    def of(self, item: FrontierItem, settings: Settings) -> StoredLevel:
        """Return the level: what the settings say, else what was decided for the link.

        Raises:
            TransientError: the frontier or the decisions cannot be read.
        """
        if settings.visit.store:
            return StoredLevel(settings.visit.store)
        wiki = wiki_of(item.via, self._frontier.orders(WIKI_ORDER)) if item.via else ""
        return self._level_of(item.url, wiki)


def wiki_of(page: str, wikis: Mapping[str, str]) -> str:
    """Return the name of the wiki that a page's address belongs to; empty when it is none's.

    >>> wikis = {"handbook": "https://wiki.example/wiki/$1", "all": "https://wiki.example/$1"}
    >>> wiki_of("https://wiki.example/wiki/Main_Page", wikis)
    'handbook'
    """
    found = []
    for name, address in wikis.items():
        before, _, after = address.partition("$1")
        if before and page.startswith(before) and page.endswith(after):
            found.append((len(before), len(after), name))
    return max(found)[2] if found else ""


def announce_wikis(frontier: Frontier, addresses: Mapping[str, str]) -> None:
    """Tell every worker how these wikis make addresses of pages; what it knows already costs a look.

    Raises:
        TransientError: the frontier is away.
    """
    known = frontier.orders(WIKI_ORDER)
    for name, address in addresses.items():
        if known.get(name) != address:
            frontier.give_order(WIKI_ORDER, name, address)


def limited_to(settings: Settings, level: StoredLevel) -> Settings:
    """Return the settings of a visit at that level: nothing is made or looked for that it leaves out."""
    if level is StoredLevel.EVERYTHING:
        return settings
    run = _without(settings.behaviours, _OF_MEDIA)
    settings = replace(settings, media=replace(settings.media, players=False), behaviours=run)
    if level.keeps_images:
        return settings
    return replace(
        settings,
        behaviours=_without(run, _OF_IMAGES),
        visit=replace(
            settings.visit, view=False, full_page=False, thumbnail=False, pdf=False, favicon=False
        ),
    )


def _without(behaviours: BehaviourSettings, names: frozenset[str]) -> BehaviourSettings:
    return replace(behaviours, run=tuple(each for each in behaviours.run if each not in names))
