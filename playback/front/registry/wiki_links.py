"""A wiki's links by state, page by page, and what changed since a day: for bots that mend a whole wiki.

A part goes on behind the link that the part before ended with, never by counting. Links that changed are
rare among all, so no more than `LOOKED_AT` are looked through for one part: it may be empty and go on.
"""

import re
from dataclasses import dataclass, replace
from datetime import date

from starlette.datastructures import QueryParams

from core.errors import InputError
from links.books.looking import EVERY_STATE, links_of_wiki
from links.books.wikis import WikiName
from links.days import EPOCH
from links.link_search import STATES
from links.states import State
from playback.front.languages import noop
from playback.front.registry.answers import Group, Link, PageRef
from playback.front.registry.asking import parse_fields, parse_wiki
from playback.front.registry.reading import Reading, UnknownWikiError, ref_of

PART = 100  # links of one answer
LOOKED_AT = 2_000
_AFTER = re.compile(r"([0-9]{1,18})-([0-9]{1,18})", re.ASCII)
_BY_NAME: dict[str, tuple[State, ...]] = {state.name.lower(): (state,) for state in State}
_BY_NAME |= {group.value: tuple(STATES[group]) for group in Group}


@dataclass(frozen=True, slots=True)
class WikiQuestion:
    """Which of a wiki's links.

    Attributes:
        wiki: whose.
        states: in these.
        since_day: whose state is so since that day or later, or which a page has since then; None: all.
        after: page and URL of the last one that was told, by the registry's numbers.
        fields: what is told of each link; empty: everything.
    """

    wiki: WikiName
    states: tuple[int, ...] = EVERY_STATE
    since_day: int | None = None
    after: tuple[int, int] = (0, 0)
    fields: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LinkOfPage:
    """A link, and a page that has it since a day."""

    page: PageRef
    link: Link
    first_day: int


@dataclass(frozen=True, slots=True)
class FoundLinks:
    """A part of a wiki's links; `after` is where the next part begins, empty at the end."""

    links: tuple[LinkOfPage, ...]
    after: str
    day: int


def parse_wiki_question(given: QueryParams) -> WikiQuestion:
    """Return what the parameters ask for.

    Raises:
        InputError: they cannot be understood.
    """
    names = [each for each in re.split("[|,]", given.get("state", "")) if each]
    if not _BY_NAME.keys() >= set(names):
        raise InputError(noop("state is a state or a group, such as dead or unreachable."))
    states = {int(state) for name in names for state in _BY_NAME[name]}
    after = given.get("after", "")
    place = _AFTER.fullmatch(after)
    if after and place is None:
        raise InputError(noop("after is the place that the part before gave."))
    return WikiQuestion(
        parse_wiki(given.get("dbname", "")),
        tuple(sorted(states)) or EVERY_STATE,
        _since(given.get("since", "")),
        (int(place[1]), int(place[2])) if place else (0, 0),
        parse_fields(given.get("fields", "")),
    )


def find_links(reading: Reading, question: WikiQuestion) -> FoundLinks:
    """Return the next part of the wiki's links.

    Raises:
        UnknownWikiError: nobody knows the wiki, or it is not told of.
    """
    wiki = reading.wiki(question.wiki)
    if wiki is None:
        raise UnknownWikiError
    limit = LOOKED_AT if question.since_day is not None else PART
    uses = links_of_wiki(
        reading.reader, wiki, limit=limit, after=question.after, states=question.states
    )
    links = reading.links(list(dict.fromkeys(use.url_id for use in uses)))
    found: list[LinkOfPage] = []
    last = None
    for use in uses:
        if len(found) == PART:
            break
        last = use
        link = replace(links[use.url_id], spelling=use.spelling)
        days = (use.first_day, link.since_day or 0)
        if question.since_day is None or max(days) >= question.since_day:
            found.append(LinkOfPage(ref_of(wiki, use.page), link, use.first_day))
    is_end = last is None or (last is uses[-1] and len(uses) < limit)
    after = "" if is_end or last is None else f"{last.page.id}-{last.url_id}"
    return FoundLinks(tuple(found), after, reading.day)


def _since(text: str) -> int | None:
    if not text:
        return None
    try:
        day = (date.fromisoformat(text) - EPOCH).days
    except ValueError:
        day = -1
    if day < 0 or len(text) != 10:
        raise InputError(noop("since is a day like 2026-11-20."))
    return day
