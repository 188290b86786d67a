"""Lists of the registry, paged by key: pages of a wiki, links by state, links by pattern (W05).

The rows read for a part are limited: it may be incomplete or empty and still have a successor.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from sqlalchemy import Connection, Select, func, select
from starlette.datastructures import QueryParams

from core.errors import InputError
from core.url_patterns import PatternForm, parse_pattern
from links.check_history import EPOCH
from links.registry.link_search import STATES, LinkQuery, search_links
from links.registry.lookups import EVERY_STATE, links_of_wiki
from links.registry.schema import pages, refs, spam_hits, urls
from links.registry.urls import find_matching_urls
from links.registry.wikis import WikiName, all_wikis, observed_namespaces
from links.rules.exclusion_list import exclusions_of
from links.rules.link_pattern import LinkPattern
from links.rules.wiki_rules import is_present
from links.states import LinkState
from playback.web.i18n import noop
from playback.web.registry import registry_values
from playback.web.registry.registry_reader import RegistryReader, UnknownWikiError, ref_of

LIST_SIZE = 50
MOST_PAGES_SCANNED = 2_000  # pages at a time …
MOST_BELOW = 2_000  # URLs of a domain and path from which a list is made
ROUNDS = 5  # … so often for one part


def read_list(
    connection: Connection,
    reading: RegistryReader,
    wiki: WikiName,
    kind: registry_values.WikiListKind,
    *,
    after: int = 0,
    domain: str = "",
) -> registry_values.WikiListPart | None:
    """Return a part of the list, after page number `after`; None for an unknown wiki.

    `domain`, perhaps with a path prefix, includes subdomains (W05); InputError: invalid, or too many URLs.
    """
    row = reading.wiki(wiki)
    if row is None:
        return None
    only: list[int] | None = None
    if domain and kind is not registry_values.WikiListKind.SPAM:
        try:
            pattern = parse_pattern(domain)
        except InputError:
            pattern = None
        if pattern is None or pattern.form is PatternForm.REGEX:
            raise InputError(noop("Enter a host name and the beginning of a path: example.org/path."))
        below = find_matching_urls(connection, pattern, limit=MOST_BELOW + 1)
        if len(below) > MOST_BELOW:
            raise InputError(noop("The pattern matches too many links. Enter a longer path."))
        only = [each.id for each in below]
    entries: list[tuple[registry_values.PageReference, int]] = []
    for _ in range(ROUNDS):
        last = connection.scalar(last_of_round(row.id, after))
        query = count_findings(kind, row.id, after, last, only).limit(LIST_SIZE + 1 - len(entries))
        entries += [
            (ref_of(row, each.page_id, each.title, each.namespace), each.links) for each in connection.execute(query)
        ]
        if len(entries) > LIST_SIZE:
            return registry_values.WikiListPart(tuple(entries[:LIST_SIZE]), entries[LIST_SIZE - 1][0].page_id)
        if last is None:
            return registry_values.WikiListPart(tuple(entries), None)
        after = last
    return registry_values.WikiListPart(tuple(entries), after, is_whole=False)


def last_of_round(wiki_id: int, after: int) -> Select[Any]:
    """Select the last page number of the scan; None when it reaches the end."""
    return (
        select(pages.c.page_id)
        .where(pages.c.wiki_id == wiki_id, pages.c.page_id > after)
        .order_by(pages.c.page_id)
        .offset(MOST_PAGES_SCANNED - 1)
        .limit(1)
    )


def count_findings(
    kind: registry_values.WikiListKind, wiki_id: int, after: int, last: int | None, only: Sequence[int] | None = None
) -> Select[Any]:
    """Select pages with their number of findings of that kind; `only` of these URLs."""
    query = select(pages.c.page_id, pages.c.title, pages.c.namespace, func.count().label("links"))
    if kind is registry_values.WikiListKind.SPAM:
        query = query.join(spam_hits, spam_hits.c.page == pages.c.id).where(is_present())
    else:
        states = [state for state, group in registry_values.GROUPS.items() if group == kind.value]
        query = (
            query.join(refs, refs.c.page == pages.c.id)
            .join(urls, urls.c.id == refs.c.url_id)
            .where(refs.c.gone_day.is_(None), urls.c.state.in_(states))
        )
        if only is not None:
            query = query.where(urls.c.id.in_(only))
    query = query.where(pages.c.wiki_id == wiki_id, pages.c.page_id > after)
    if last is not None:
        query = query.where(pages.c.page_id <= last)
    order = (pages.c.page_id, pages.c.title, pages.c.namespace)
    return query.group_by(*order).order_by(pages.c.page_id)


MOST_FOUND_LINKS = 50


@dataclass(frozen=True, slots=True)
class PatternQuestion:
    """Query for links by pattern."""

    pattern: LinkPattern
    wiki: WikiName | None  # pages of this wiki; None: all watched links, without pages (W24)
    namespaces: tuple[int, ...] | None  # empty: all; None: those observed
    groups: frozenset[registry_values.Group]  # states; empty: all
    after: str = ""  # position from the previous part


@dataclass(frozen=True, slots=True)
class FoundUse:
    """Link found, with some of the pages that contain it."""

    link: registry_values.LinkRecord
    pages: tuple[registry_values.PageReference, ...]
    has_more_pages: bool


@dataclass(frozen=True, slots=True)
class PatternFound:
    """Part of the links found by pattern."""

    uses: tuple[FoundUse, ...]  # sorted by host and path
    after: str = ""  # start of the next part; empty at the end
    is_wiki_known: bool = True  # False when the requested wiki is not watched


def find_by_pattern(connection: Connection, reading: RegistryReader, question: PatternQuestion) -> PatternFound:
    """Return the next links that match the pattern; raise InputError for an invalid position."""
    wiki_id, namespaces = None, question.namespaces
    if question.wiki is not None:
        row = reading.wiki(question.wiki)
        if row is None:
            return PatternFound((), is_wiki_known=False)
        wiki_id = row.id
        if namespaces is None:
            namespaces = observed_namespaces(row)
    states = frozenset(state for group in question.groups for state in STATES[group])
    wanted = LinkQuery(wiki_id, namespaces or () if wiki_id is not None else (), states)
    matches = search_links(connection, question.pattern, wanted, limit=MOST_FOUND_LINKS, after=question.after)
    ids = [each.url_id for each in matches.links]
    links = reading.links(ids if wiki_id is not None else reading.disclosed(ids))
    uses = []
    for each in matches.links:
        # Pages are included for the requested wiki only (W24).
        has_pages = wiki_id is not None
        refs = tuple(
            registry_values.PageReference(
                registry_values.parse_wiki(page.wiki), page.page_id, page.title, page.namespace
            )
            for page in (each.pages if has_pages else ())
        )
        if each.url_id in links:
            uses.append(FoundUse(links[each.url_id], refs, has_pages and each.more_pages))
    return PatternFound(tuple(uses), matches.after)


def exclusions_for(reading: RegistryReader, question: PatternQuestion) -> list[str] | None:
    """Return exclusion entries that remove links, of all wikis unless one is named (X06, X10); None: unknown."""
    if question.wiki is None:
        wikis = [each for each in all_wikis(reading.reader) if each.id not in reading.hidden()]
    else:
        wiki = reading.wiki(question.wiki)
        if wiki is None:
            return None
        wikis = [wiki]
    entries = [
        entry.text
        for each in wikis
        for entry in exclusions_of(json.loads(each.settings or "{}")).meeting(question.pattern)
    ]
    return list(dict.fromkeys(entries))


LINKS_PER_PART = 100  # links of one answer
MOST_LINKS_SCANNED = 2_000
_AFTER = re.compile(r"([0-9]{1,18})-([0-9]{1,18})", re.ASCII)
_BY_NAME: dict[str, tuple[LinkState, ...]] = {state.name.lower(): (state,) for state in LinkState}
_BY_NAME |= {group.value: tuple(STATES[group]) for group in registry_values.Group}


@dataclass(frozen=True, slots=True)
class WikiQuestion:
    """Query for the links of a wiki."""

    wiki: WikiName
    states: tuple[int, ...] = EVERY_STATE  # link states
    since_day: int | None = None  # only links in state, or on the page, since then
    after: tuple[int, int] = (0, 0)  # page and URL numbers of the last link of the previous part
    fields: frozenset[str] = frozenset()  # fields of each link; empty: all


@dataclass(frozen=True, slots=True)
class LinkOfPage:
    """Link with a page that contains it, and since when."""

    page: registry_values.PageReference
    link: registry_values.LinkRecord
    first_day: int


@dataclass(frozen=True, slots=True)
class FoundLinks:
    """Part of a wiki's links; `after` is the start of the next part, empty at the end."""

    links: tuple[LinkOfPage, ...]
    after: str
    day: int


def parse_wiki_question(parameters: QueryParams) -> WikiQuestion:
    """Parse the parameters."""
    names = [each for each in re.split("[|,]", parameters.get("state", "")) if each]
    if not _BY_NAME.keys() >= set(names):
        raise InputError(noop("state is a state or a group, such as dead or unreachable."))
    states = {int(state) for name in names for state in _BY_NAME[name]}
    since, since_day = parameters.get("since", ""), None
    if since:
        try:
            since_day = (date.fromisoformat(since) - EPOCH).days
        except ValueError:
            since_day = -1
        if since_day < 0 or len(since) != 10:
            raise InputError(noop("since is a date, such as 2026-11-20."))
    after = parameters.get("after", "")
    place = _AFTER.fullmatch(after)
    if after and place is None:
        raise InputError(noop("after is the position returned with the previous part."))
    return WikiQuestion(
        registry_values.parse_wiki(parameters.get("dbname", "")),
        tuple(sorted(states)) or EVERY_STATE,
        since_day,
        (int(place[1]), int(place[2])) if place else (0, 0),
        registry_values.parse_fields(parameters.get("fields", "")),
    )


def find_links(reading: RegistryReader, question: WikiQuestion) -> FoundLinks:
    """Return the next part of the wiki's links; raise UnknownWikiError for an unknown wiki."""
    wiki = reading.wiki(question.wiki)
    if wiki is None:
        raise UnknownWikiError
    limit = MOST_LINKS_SCANNED if question.since_day is not None else LINKS_PER_PART
    uses = links_of_wiki(reading.reader, wiki, limit=limit, after=question.after, states=question.states)
    links = reading.links(list(dict.fromkeys(use.url_id for use in uses)))
    page_links: list[LinkOfPage] = []
    last = None
    for use in uses:
        if len(page_links) == LINKS_PER_PART:
            break
        last = use
        link = replace(links[use.url_id], spelling=use.spelling)
        if question.since_day is None or max(use.first_day, link.since_day or 0) >= question.since_day:
            page = ref_of(wiki, use.page.page_id, use.page.title, use.page.namespace)
            page_links.append(LinkOfPage(page, link, use.first_day))
    is_end = last is None or (last is uses[-1] and len(uses) < limit)
    after = "" if is_end or last is None else f"{last.page.id}-{last.url_id}"
    return FoundLinks(tuple(page_links), after, reading.day)
