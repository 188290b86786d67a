"""Mementos of a page in chronological order, and their Link headers (RFC 7089, RFC 8288).

A memento is a visit with a usable copy of the page (`core.page_classes.is_usable`); each visit has at most one. Failed
or skipped visits, bot challenges and error pages are excluded: a TimeMap has no field for a status, so clients treat
every entry as a copy. Hidden captures are excluded, blocked ones are listed.

The mementos of a URL are those of the exact URL and its counterpart under the other scheme. Only if there are none,
those of other URLs with the same replay key are used, since that key merges distinct pages (see `warc.index.queries`).

>>> places = MementoEndpoints("https://archive.example", "https://copies.example")
>>> places.timegate("https://example.org/a?b#!c")
'https://archive.example/timegate/https://example.org/a?b%23!c'
>>> format_link("https://example.org/", "original")
'<https://example.org/>; rel="original"'
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from itertools import islice
from typing import Any, Protocol
from urllib.parse import quote

from core.captures import ArtifactKind, artifact_uri
from core.errors import BadUrlError, InputError
from core.media_types import SHOWN_TYPES
from core.timestamps import parse_timestamp14, timestamp14, unix_milliseconds
from core.url_keys import replay_key
from playback.access.control import AccessControl, PageFacts, page_facts
from playback.access.takedowns import TakedownEffect
from playback.url_paths import Memento, MementoModifier, escape_url, memento_path
from warc.index.database import key_values
from warc.index.queries import BEST_FIRST, USABLE, BestPageQuery, best_pages, other_scheme

MOST_MEMENTOS = 100_000  # of one URL; further ones are not listed
_LATEST_MS = 2**53
_CHUNKS = (8, 500, 5_000)  # rows of the first, the second and all later queries
_TYPES = ", ".join(f"'{each}'" for each in SHOWN_TYPES)
_HAS_DOM = """EXISTS (SELECT 1 FROM captures AS artifact
    WHERE artifact.page_id = pages.page_id AND substr(artifact.url, 1, 8) = :dom)"""
_IS_MEMENTO = f"{USABLE} AND (mime IN ({_TYPES}) OR {_HAS_DOM})"
_COLUMNS = "page_id, url, timestamp, final_url, login, captured_ms, device"
_WHOSE = ("url IN (:url, :twin)", "url NOT IN (:url, :twin)")
_UP = "captured_ms >= :ms AND (captured_ms > :ms OR page_id > :id) ORDER BY captured_ms, page_id LIMIT :limit"
_DOWN = (
    "captured_ms <= :ms AND (captured_ms < :ms OR page_id < :id) ORDER BY captured_ms DESC, page_id DESC LIMIT :limit"
)


class QueryableIndex(Protocol):
    """Interface for queries on a captures index; see `warc.index.database.IndexDatabase`."""

    @property
    def has_key(self) -> str:
        """Return the SQL condition that a row's urlkey is `key`."""

    def rows(self, query: str, values: Mapping[str, Any]) -> list[Any]:
        """Run a query and return its rows."""


@dataclass(frozen=True, slots=True)
class PageMemento:
    """Copy of a page: URL and 14-digit timestamp."""

    url: str
    timestamp: str


@dataclass(frozen=True, slots=True)
class MementoNeighbours:
    """Mementos around a given one; `previous` and `next` are None at the ends."""

    first: PageMemento | None = None
    previous: PageMemento | None = None
    next: PageMemento | None = None
    last: PageMemento | None = None


class MementoIndex:
    """Look-up of mementos, none for an invalid URL; TransientError: index or take-downs cannot be read now."""

    def __init__(self, index: QueryableIndex, permits: AccessControl) -> None:
        self._index = index
        self._permits = permits

    def nearest(self, url: str, at: datetime | None) -> PageMemento | None:
        """Return the memento to show for `at` (None: the newest), as chosen by playback."""
        if (values := url_values(url)) is None:
            return None
        moment = (_LATEST_MS, "") if at is None else (unix_milliseconds(at), timestamp14(at))
        wanted = BestPageQuery(url, *moment, _IS_MEMENTO)
        rows = best_pages(self._index.rows, self._index.has_key, values, _COLUMNS, wanted)
        while part := list(islice(rows, _CHUNKS[0])):
            for visit in self._listed(part):
                return PageMemento(visit.url, visit.timestamp)
        return None

    def is_listed(self, memento: PageMemento) -> bool:
        """Return True when exactly this capture is a memento."""
        if (values := url_values(memento.url)) is None:
            return False
        try:
            at = unix_milliseconds(parse_timestamp14(memento.timestamp))
        except InputError:
            return False
        rows = self._index.rows(
            f"SELECT {_COLUMNS} FROM pages WHERE {self._index.has_key} AND {_IS_MEMENTO}"  # noqa: S608 constants of ours
            f" AND captured_ms BETWEEN :at AND :at + 999 AND url IN (:url, :twin)"
            f" ORDER BY {BEST_FIRST} LIMIT :limit",
            {**values, "at": at, "limit": _CHUNKS[1]},
        )
        # Of two captures in one second, by http and by https, either may be the one that is meant.
        return memento in [PageMemento(each.url, each.timestamp) for each in self._listed(rows)]

    def listed(self, url: str) -> Iterator[PageMemento]:
        """Yield all mementos, oldest first, reading the index in batches."""
        for condition in _WHOSE:
            mementos = self._walk(url, condition, _UP, (-_LATEST_MS, ""))
            if (first := next(mementos, None)) is not None:
                yield first
                yield from islice(mementos, MOST_MEMENTOS - 1)
                return

    def around(self, url: str, timestamp: str) -> MementoNeighbours:
        """Return the first, last, previous and next mementos relative to `timestamp`."""
        try:
            start = unix_milliseconds(parse_timestamp14(timestamp))
        except InputError:
            return MementoNeighbours()
        for condition in _WHOSE:
            if (first := next(self._walk(url, condition, _UP, (-_LATEST_MS, "")), None)) is not None:
                return MementoNeighbours(
                    first,
                    next(self._walk(url, condition, _DOWN, (start, "")), None),
                    next(self._walk(url, condition, _UP, (start + 999, "\U0010ffff")), None),
                    next(self._walk(url, condition, _DOWN, (_LATEST_MS, "")), None),
                )
        return MementoNeighbours()

    def _walk(self, url: str, condition: str, direction: str, after: tuple[int, str]) -> Iterator[PageMemento]:
        """Yield mementos from a position on, one for each URL and second."""
        if (values := url_values(url)) is None:
            return
        query = (
            f"SELECT {_COLUMNS} FROM pages WHERE {self._index.has_key} AND {condition}"  # noqa: S608 constants of ours
            f" AND {_IS_MEMENTO} AND {direction}"
        )
        seen, second = set[PageMemento](), ""
        for number in range(MOST_MEMENTOS):
            limit = _CHUNKS[min(number, len(_CHUNKS) - 1)]
            rows = self._index.rows(query, {**values, "ms": after[0], "id": after[1], "limit": limit})
            for visit in self._listed(rows):
                memento = PageMemento(visit.url, visit.timestamp)
                if memento.timestamp != second:
                    seen, second = set(), memento.timestamp
                if memento not in seen:
                    seen.add(memento)
                    yield memento
            if len(rows) < limit:
                return
            after = rows[-1]["captured_ms"], rows[-1]["page_id"]

    def _listed(self, rows: list[Any]) -> Iterator[PageFacts]:
        """Yield the pages of the rows that are not hidden by a take-down."""
        visits = [page_facts(row) for row in rows]
        takedowns = self._permits.pages(visits)
        for visit in visits:
            takedown = takedowns.get(visit.page_id)
            if takedown is None or takedown.effect is not TakedownEffect.HIDE:
                yield visit


def url_values(url: str) -> dict[str, Any] | None:
    """Return the query parameters for a URL's pages; None when it has no key."""
    try:
        key = key_values(replay_key(url))
    except BadUrlError:
        return None
    return {**key, "url": url, "twin": other_scheme(url), "dom": artifact_uri(ArtifactKind.DOM, "")}


LINK_FORMAT = "application/link-format"
# RFC 3986, 2.2 and 2.3, and the percent sign of existing escapes.
_URI = "!#$&'()*+,/:;=?@[]~%-._"
# Reverse proxies give an answer's head 4 or 8 kB; the other headers need two.
_MOST_CHARACTERS = 5_000


@dataclass(frozen=True, slots=True)
class MementoEndpoints:
    """Origins of front and replay, and their Memento addresses."""

    front: str
    replay: str

    def timegate(self, url: str) -> str:
        """Return the TimeGate address (URI-G)."""
        return f"{self.front}/timegate/{escape_url(url)}"

    def timemap(self, url: str, *, form: str = "link", page: int | None = None) -> str:
        """Return the TimeMap address (URI-T)."""
        number = "" if page is None else f"{page}/"
        return f"{self.front}/timemap/{form}/{number}{escape_url(url)}"

    def memento(self, memento: PageMemento) -> str:
        """Return the memento's address (URI-M)."""
        return self.replay + memento_path(Memento(memento.timestamp, MementoModifier.PAGE, memento.url))


def memento_date(memento: PageMemento) -> str:
    """Return the value of Memento-Datetime, an HTTP-date: ``Sun, 01 Mar 2026 12:00:00 GMT``."""
    return format_datetime(parse_timestamp14(memento.timestamp), usegmt=True)


def format_link(target: str, rel: str, **parameters: str) -> str:
    """Format one link value; the target keeps all characters valid in a URI."""
    more = "".join(f'; {name}="{value}"' for name, value in parameters.items() if value)
    return f'<{quote(target, safe=_URI, errors="replace")}>; rel="{rel}"{more}'


def page_links(places: MementoEndpoints, url: str) -> list[str]:
    """Return the links independent of time: original, TimeGate and TimeMap."""
    return [
        format_link(url, "original"),
        format_link(places.timegate(url), "timegate"),
        format_link(places.timemap(url), "timemap", type=LINK_FORMAT),
    ]


def memento_links(places: MementoEndpoints, shown: PageMemento, around: MementoNeighbours) -> list[str]:
    """Return the links to the memento and its neighbours, one for each memento, nearest first."""
    roles: dict[PageMemento, list[str]] = {shown: []}
    named = {"prev": around.previous, "next": around.next, "first": around.first, "last": around.last}
    for role, each in named.items():
        if each is not None:
            roles.setdefault(each, []).append(role)
    return [memento_link(places, each, *names) for each, names in roles.items()]


def memento_link(places: MementoEndpoints, memento: PageMemento, *roles: str) -> str:
    """Return the link to one memento; `roles` are first, prev, next and last, as they apply."""
    return format_link(places.memento(memento), " ".join((*roles, "memento")), datetime=memento_date(memento))


def link_header(needed: Iterable[str], more: Iterable[str] = ()) -> str:
    """Return the value of Link: all required links, and others within a proxy's header limit."""
    links = list(needed)
    room = _MOST_CHARACTERS - sum(map(len, links))
    for each in more:
        room -= len(each)
        if room < 0:
            break
        links.append(each)
    return ", ".join(links)
