"""Mementos of a page in order of time, and their Link headers (RFC 7089, RFC 8288).

A memento is a visit that brought a usable copy of the page (`core.page_classes.is_usable`; RFC 7089 calls its
address URI-M); of one visit there is one. A visit that failed or was skipped, a check for robots and an
error page are none: a TimeMap has no place for a status, so whoever reads one takes every line for a copy.
What a take-down hides is as if it had never been captured. What a take-down blocks stays listed.

A URL's mementos are those of the very URL and of its twin under the other scheme. Only where there are
none, those of its other equals by replay key, which merges distinct pages: as `warc.index.page_choice` has it.

URI-M, the address of a memento, is replay's: ``/c/<timestamp>/<url>``, the copy itself without a frame.
TimeGate and TimeMaps are the front's.

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
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from core.captures import ArtifactKind, artifact_uri
from core.errors import BadUrlError, InputError
from core.page_classes import rank_sql
from core.timestamps import parse_timestamp14, timestamp14, unix_milliseconds
from core.url_keys import replay_key
from playback.access.takedowns import Takedown, TakedownEffect
from playback.media_types import SHOWN_TYPES
from playback.url_paths import Memento, MementoModifier, escape_url, memento_path
from warc.index.database import key_values
from warc.index.page_choice import BEST_FIRST, EXACT_FIRST, USABLE, distance_of, other_scheme

MOST_MEMENTOS = 100_000  # of one URL; what lies beyond is not listed
_LATEST_MS = 2**53
_CHUNKS = (8, 500, 5_000)  # rows asked for at first, then, and from then on
_TYPES = ", ".join(f"'{each}'" for each in SHOWN_TYPES)
_HAS_DOM = """EXISTS (SELECT 1 FROM captures AS artifact
    WHERE artifact.page_id = pages.page_id AND substr(artifact.url, 1, 8) = :dom)"""
_IS_MEMENTO = f"{USABLE} AND (mime IN ({_TYPES}) OR {_HAS_DOM})"
_COLUMNS = "page_id, url, timestamp, final_url, login, captured_ms, device"
_WHOSE = ("url IN (:url, :twin)", "url NOT IN (:url, :twin)")
_SIDES = (
    "captured_ms <= :at ORDER BY captured_ms DESC, page_id",
    "captured_ms > :at ORDER BY captured_ms, page_id",
)
_UP = (
    "captured_ms >= :ms AND (captured_ms > :ms OR page_id > :id) ORDER BY captured_ms, page_id"
    " LIMIT :limit"
)
_DOWN = (
    "captured_ms <= :ms AND (captured_ms < :ms OR page_id < :id)"
    " ORDER BY captured_ms DESC, page_id DESC LIMIT :limit"
)


class QueryableIndex(Protocol):
    """Whatever answers questions to a captures index; see `warc.index.database.IndexDatabase`."""

    @property
    def has_key(self) -> str:
        """The condition that a row's urlkey is `key`."""
        ...

    def rows(self, query: str, values: Mapping[str, Any]) -> list[Any]:
        """The answer's rows."""
        ...


class MementoVisit(NamedTuple):
    """What take-downs must know of a page."""

    page_id: str
    url: str
    timestamp: str
    final_url: str
    login: str


class MementoAccess(Protocol):
    """Whoever knows which pages may be shown."""

    def pages(self, pages: Iterable[MementoVisit]) -> Mapping[str, Takedown]:
        """The take-downs of those pages that have one, by `page_id`."""
        ...


@dataclass(frozen=True, slots=True)
class PageMemento:
    """A copy of a page: its URL, and its moment in 14 digits."""

    url: str
    timestamp: str


@dataclass(frozen=True, slots=True)
class MementoNeighbours:
    """The mementos around one of them; `previous` and `next` are None at the ends."""

    first: PageMemento | None = None
    previous: PageMemento | None = None
    next: PageMemento | None = None
    last: PageMemento | None = None


class MementoIndex:
    """Questions for mementos. From any thread that may ask the index.

    Every question raises TransientError when the index or the take-downs cannot be read, and finds
    nothing for what is no URL.
    """

    def __init__(self, index: QueryableIndex, permits: MementoAccess) -> None:
        """Take the captures index, and who knows what of it may be shown."""
        self._index = index
        self._permits = permits

    def nearest(self, url: str, at: datetime | None) -> PageMemento | None:
        """The one to show for the moment `at` (None: the newest), as playback chooses it."""
        values = _values(url)
        if values is None:
            return None
        values |= {
            "at": _LATEST_MS if at is None else unix_milliseconds(at),
            "timestamp": "" if at is None else timestamp14(at),
        }
        found = next(iter(self._of_second(values)), None) if at is not None else None
        return found or self._good(values) or self._best(values)

    def is_listed(self, memento: PageMemento) -> bool:
        """Return True when that very capture is a memento."""
        values = _values(memento.url)
        if values is None:
            return False
        try:
            at = unix_milliseconds(parse_timestamp14(memento.timestamp))
        except InputError:
            return False
        found = self._of_second({**values, "at": at})
        # Of two captures in one second, by http and by https, either may be the one that is meant.
        return PageMemento(values["url"], memento.timestamp) in found

    def _of_second(self, values: dict[str, Any]) -> list[PageMemento]:
        """Return those of the second that is asked for, the best first."""
        rows = self._index.rows(
            f"SELECT {_COLUMNS} FROM pages WHERE {self._index.has_key} AND {_IS_MEMENTO}"  # noqa: S608 constants of ours
            f" AND captured_ms BETWEEN :second AND :second + 999 AND url IN (:url, :twin)"
            f" ORDER BY {BEST_FIRST} LIMIT :limit",
            {**values, "second": values["at"] // 1000 * 1000, "limit": _CHUNKS[1]},
        )
        return [PageMemento(each.url, each.timestamp) for each in self._listed(rows)]

    def _good(self, values: dict[str, Any]) -> PageMemento | None:
        """Return the nearest good one of the very URL, without a look at all there are; None: look."""
        for limit in _CHUNKS[:2]:
            nearest: list[tuple[int, int, MementoVisit]] = []
            reach = _LATEST_MS * 2  # behind what was read of either side a nearer one may lie
            for side in _SIDES:
                rows = self._index.rows(
                    f"SELECT {_COLUMNS} FROM pages WHERE {self._index.has_key} AND {_IS_MEMENTO}"  # noqa: S608 constants of ours
                    f" AND url = :url AND {rank_sql()} = 0 AND {side} LIMIT :limit",
                    {**values, "limit": limit},
                )
                shown = {visit.page_id: visit for visit in self._listed(rows)}
                nearest += [
                    (distance_of(row, values["at"]), row["captured_ms"], shown[row["page_id"]])
                    for row in rows
                    if row["page_id"] in shown
                ]
                if len(rows) == limit:
                    reach = min(reach, abs(rows[-1]["captured_ms"] - values["at"]))
            if nearest and min(nearest)[0] <= reach:
                chosen = min(nearest)[2]
                return PageMemento(chosen.url, chosen.timestamp)
        return None

    def _best(self, values: dict[str, Any]) -> PageMemento | None:
        """The best of all that there are."""
        offset = 0
        for limit in (*_CHUNKS, MOST_MEMENTOS):
            rows = self._index.rows(
                f"SELECT {_COLUMNS} FROM pages WHERE {self._index.has_key} AND {_IS_MEMENTO}"  # noqa: S608 constants of ours
                f" ORDER BY {EXACT_FIRST}, {BEST_FIRST} LIMIT :limit OFFSET :offset",
                {**values, "limit": limit, "offset": offset},
            )
            for visit in self._listed(rows):
                return PageMemento(visit.url, visit.timestamp)
            if len(rows) < limit:
                return None
            offset += limit
        return None

    def listed(self, url: str) -> Iterator[PageMemento]:
        """All of them, oldest first; read from the index as they are asked for."""
        for condition in _WHOSE:
            found = self._walk(url, condition, _UP, (-_LATEST_MS, ""))
            first = next(found, None)
            if first is not None:
                yield first
                yield from islice(found, MOST_MEMENTOS - 1)
                return

    def around(self, url: str, timestamp: str) -> MementoNeighbours:
        """The first and the last, and those before and after the second that `timestamp` names."""
        try:
            start = unix_milliseconds(parse_timestamp14(timestamp))
        except InputError:
            return MementoNeighbours()
        for condition in _WHOSE:
            first = next(self._walk(url, condition, _UP, (-_LATEST_MS, "")), None)
            if first is not None:
                return MementoNeighbours(
                    first,
                    next(self._walk(url, condition, _DOWN, (start, "")), None),
                    next(self._walk(url, condition, _UP, (start + 999, "\U0010ffff")), None),
                    next(self._walk(url, condition, _DOWN, (_LATEST_MS, "")), None),
                )
        return MementoNeighbours()

    def _walk(
        self, url: str, condition: str, direction: str, after: tuple[int, str]
    ) -> Iterator[PageMemento]:
        """Mementos from a place on, without a second one at the same address."""
        values = _values(url)
        if values is None:
            return
        query = (
            f"SELECT {_COLUMNS} FROM pages WHERE {self._index.has_key} AND {condition}"  # noqa: S608 constants of ours
            f" AND {_IS_MEMENTO} AND {direction}"
        )
        seen, second = set[PageMemento](), ""
        for number in range(MOST_MEMENTOS):
            limit = _CHUNKS[min(number, len(_CHUNKS) - 1)]
            where = {"ms": after[0], "id": after[1], "limit": limit}
            rows = self._index.rows(query, {**values, **where})
            for visit in self._listed(rows):
                found = PageMemento(visit.url, visit.timestamp)
                if found.timestamp != second:
                    seen, second = set(), found.timestamp
                if found not in seen:
                    seen.add(found)
                    yield found
            if len(rows) < limit:
                return
            after = rows[-1]["captured_ms"], rows[-1]["page_id"]

    def _listed(self, rows: list[Any]) -> Iterator[MementoVisit]:
        """The pages of those rows that no take-down hides."""
        visits = [MementoVisit(*(row[name] for name in MementoVisit._fields)) for row in rows]
        takedowns = self._permits.pages(visits)
        for visit in visits:
            takedown = takedowns.get(visit.page_id)
            if takedown is None or takedown.effect is not TakedownEffect.HIDE:
                yield visit


def _values(url: str) -> dict[str, Any] | None:
    """The values that every query needs; None when nothing can be filed under the URL."""
    try:
        keys = key_values(replay_key(url))
        return {
            **keys,
            "url": url,
            "twin": other_scheme(url),
            "dom": artifact_uri(ArtifactKind.DOM, ""),
        }
    except BadUrlError:
        return None


LINK_FORMAT = "application/link-format"
# RFC 3986, 2.2 and 2.3, and the percent sign of what is already encoded.
_URI = "!#$&'()*+,/:;=?@[]~%-._"
# Reverse proxies give an answer's head 4 or 8 kB; the other headers need two.
_MOST_CHARACTERS = 5_000


@dataclass(frozen=True, slots=True)
class MementoEndpoints:
    """The origins of front and replay, and what lies there."""

    front: str
    replay: str

    def timegate(self, url: str) -> str:
        """Where the memento nearest to a moment is asked for (URI-G)."""
        return f"{self.front}/timegate/{escape_url(url)}"

    def timemap(self, url: str, *, form: str = "link", page: int | None = None) -> str:
        """Where all mementos are listed (URI-T)."""
        number = "" if page is None else f"{page}/"
        return f"{self.front}/timemap/{form}/{number}{escape_url(url)}"

    def memento(self, memento: PageMemento) -> str:
        """The memento's address (URI-M)."""
        path = memento_path(Memento(memento.timestamp, MementoModifier.PAGE, memento.url))
        return self.replay + path


def http_date(moment: datetime) -> str:
    """The moment as HTTP writes it: ``Sun, 01 Mar 2026 12:00:00 GMT``."""
    return format_datetime(moment, usegmt=True)


def memento_date(memento: PageMemento) -> str:
    """The value of Memento-Datetime."""
    return http_date(parse_timestamp14(memento.timestamp))


def format_link(target: str, rel: str, **parameters: str) -> str:
    """One link; the target keeps every character that a URI may have."""
    more = "".join(f'; {name}="{value}"' for name, value in parameters.items() if value)
    return f'<{quote(target, safe=_URI, errors="replace")}>; rel="{rel}"{more}'


def page_links(places: MementoEndpoints, url: str) -> list[str]:
    """Those that do not depend on a moment: the original, its TimeGate and its TimeMap."""
    return [
        format_link(url, "original"),
        format_link(places.timegate(url), "timegate"),
        format_link(places.timemap(url), "timemap", type=LINK_FORMAT),
    ]


def memento_links(
    places: MementoEndpoints, shown: PageMemento, around: MementoNeighbours
) -> list[str]:
    """Those to the memento itself and to its neighbours; one link for each memento, the nearest first."""
    roles: dict[PageMemento, list[str]] = {shown: []}
    for role, each in (
        ("prev", around.previous),
        ("next", around.next),
        ("first", around.first),
        ("last", around.last),
    ):
        if each is not None:
            roles.setdefault(each, []).append(role)
    return [memento_link(places, each, *names) for each, names in roles.items()]


def memento_link(places: MementoEndpoints, memento: PageMemento, *roles: str) -> str:
    """The link to one memento; `roles` are first, prev, next and last, as they apply."""
    rel = " ".join((*roles, "memento"))
    return format_link(places.memento(memento), rel, datetime=memento_date(memento))


def link_header(needed: Iterable[str], more: Iterable[str] = ()) -> str:
    """The value of Link: all that is needed, and of the rest what a proxy's buffer has room for."""
    links = list(needed)
    room = _MOST_CHARACTERS - sum(map(len, links))
    for each in more:
        room -= len(each)
        if room < 0:
            break
        links.append(each)
    return ", ".join(links)
