"""Questions by pattern, put to link search (`links.link_search`) and told as answers have it."""

import json
from dataclasses import dataclass

from sqlalchemy import Connection

from links.books.wikis import WikiName, all_wikis, observed_namespaces
from links.exclusion import exclusions_of
from links.link_patterns import LinkPattern
from links.link_search import STATES, FoundLink, Wanted, search_links
from playback.front.registry.answers import Group, Link, PageRef
from playback.front.registry.asking import parse_wiki
from playback.front.registry.reading import Reading

LIMIT = 50


@dataclass(frozen=True, slots=True)
class PatternQuestion:
    """Which links.

    Attributes:
        pattern: what their URLs are like.
        wiki: on whose pages; None: any link that is watched, and no pages are told (W24).
        namespaces: of these pages; none: all; None: those that the wiki observes.
        groups: in these states; none: all.
        after: the place that the part before gave.
    """

    pattern: LinkPattern
    wiki: WikiName | None
    namespaces: tuple[int, ...] | None
    groups: frozenset[Group]
    after: str = ""


@dataclass(frozen=True, slots=True)
class FoundUse:
    """A link that was found, and some of the pages that have it."""

    link: Link
    pages: tuple[PageRef, ...]
    has_more_pages: bool


@dataclass(frozen=True, slots=True)
class PatternFound:
    """A part of what was found.

    Attributes:
        uses: in the order of host and path.
        after: the place where the next part begins; empty at the end.
        is_wiki_known: False when the wiki that was named is not watched.
    """

    uses: tuple[FoundUse, ...]
    after: str = ""
    is_wiki_known: bool = True


def find(connection: Connection, reading: Reading, question: PatternQuestion) -> PatternFound:
    """The next links that the pattern means.

    Raises:
        InputError: `after` is no place that a part gave.
    """
    wiki_id, namespaces = None, question.namespaces
    if question.wiki is not None:
        row = reading.wiki(question.wiki)
        if row is None:
            return PatternFound((), is_wiki_known=False)
        wiki_id = row.id
        if namespaces is None:
            namespaces = observed_namespaces(row)
    states = frozenset(state for group in question.groups for state in STATES[group])
    wanted = Wanted(wiki_id, namespaces or () if wiki_id is not None else (), states)
    found = search_links(connection, question.pattern, wanted, limit=LIMIT, after=question.after)
    ids = [each.url_id for each in found.links]
    links = reading.links(ids if wiki_id is not None else reading.told(ids))
    uses = tuple(
        _use(links[each.url_id], each, is_told=wiki_id is not None)
        for each in found.links
        if each.url_id in links
    )
    return PatternFound(uses, found.after)


def kept_out(reading: Reading, question: PatternQuestion) -> list[str] | None:
    """Return entries of exclusion lists that keep links out of the answer (X06, X10).

    Without a wiki in the question those of all wikis: what one of them keeps out may be missing. None
    when nobody knows the wiki, or it is not told of.
    """
    if question.wiki is None:
        wikis = [each for each in all_wikis(reading.reader) if each.id not in reading.hidden()]
    else:
        wiki = reading.wiki(question.wiki)
        if wiki is None:
            return None
        wikis = [wiki]
    found = [
        entry.text
        for each in wikis
        for entry in exclusions_of(json.loads(each.settings or "{}")).meeting(question.pattern)
    ]
    return list(dict.fromkeys(found))


def _use(link: Link, found: FoundLink, *, is_told: bool) -> FoundUse:
    """Pages are told of the wiki that was named, and of no other (W24)."""
    if not is_told:
        return FoundUse(link, (), has_more_pages=False)
    pages = tuple(
        PageRef(parse_wiki(page.wiki), page.page_id, page.title, page.namespace)
        for page in found.pages
    )
    return FoundUse(link, pages, found.more_pages)
