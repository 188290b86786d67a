"""Mementos: which copies of a page there are, in the order of time.

A memento is a visit that brought a usable copy of the page (`core.classes.is_usable`; RFC 7089 calls its
address URI-M); of one visit there is one. A visit that failed or was skipped, a check for robots and an
error page are none: a TimeMap has no place for a status, so whoever reads one takes every line for a copy.
What a take-down hides is as if it had never been captured. What a take-down blocks stays listed.

A URL's mementos are those of the very URL and of its twin under the other scheme. Only where there are
none, those of its other equals by replay key, which merges distinct pages: as `playback.choosing` has it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, Protocol

from core.classes import rank_sql
from core.errors import BadUrlError, InputError
from core.records import ArtifactKind, artifact_uri
from core.replay_keys import replay_key
from core.timestamps import milliseconds, parse_timestamp14, timestamp14
from playback.choosing import BEST_FIRST, EXACT_FIRST, USABLE, distance_of, twin_of
from playback.database import key_values
from playback.decisions.takedowns import Effect, Takedown
from playback.kinds import SHOWN_TYPES

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


class Asked(Protocol):
    """Whatever answers questions to a captures index; see `playback.database.Database`."""

    @property
    def has_key(self) -> str:
        """The condition that a row's urlkey is `key`."""
        ...

    def rows(self, query: str, values: Mapping[str, Any]) -> list[Any]:
        """The answer's rows."""
        ...


class Visit(NamedTuple):
    """What take-downs must know of a page."""

    page_id: str
    url: str
    timestamp: str
    final_url: str
    login: str


class PagePermits(Protocol):
    """Whoever knows which pages may be shown."""

    def pages(self, pages: Iterable[Visit]) -> Mapping[str, Takedown]:
        """The take-downs of those pages that have one, by `page_id`."""
        ...


@dataclass(frozen=True, slots=True)
class PageMemento:
    """A copy of a page: its URL, and its moment in 14 digits."""

    url: str
    timestamp: str


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The mementos around one of them; `previous` and `next` are None at the ends."""

    first: PageMemento | None = None
    previous: PageMemento | None = None
    next: PageMemento | None = None
    last: PageMemento | None = None


class Mementos:
    """Questions for mementos. From any thread that may ask the index.

    Every question raises TransientError when the index or the take-downs cannot be read, and finds
    nothing for what is no URL.
    """

    def __init__(self, index: Asked, permits: PagePermits) -> None:
        """Take the captures index, and who knows what of it may be shown."""
        self._index = index
        self._permits = permits

    def nearest(self, url: str, at: datetime | None) -> PageMemento | None:
        """The one to show for the moment `at` (None: the newest), as playback chooses it."""
        values = _values(url)
        if values is None:
            return None
        values |= {
            "at": _LATEST_MS if at is None else milliseconds(at),
            "timestamp": "" if at is None else timestamp14(at),
        }
        found = self._exact(values) if at is not None else None
        return found or self._good(values) or self._best(values)

    def is_listed(self, memento: PageMemento) -> bool:
        """Return True when that very capture is a memento."""
        values = _values(memento.url)
        if values is None:
            return False
        try:
            at = milliseconds(parse_timestamp14(memento.timestamp))
        except InputError:
            return False
        found = self._of_second({**values, "at": at})
        # Of two captures in one second, by http and by https, either may be the one that is meant.
        return PageMemento(values["url"], memento.timestamp) in found

    def _exact(self, values: dict[str, Any]) -> PageMemento | None:
        """The one whose second is asked for."""
        return next(iter(self._of_second(values)), None)

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
            nearest: list[tuple[int, int, Visit]] = []
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

    def around(self, url: str, timestamp: str) -> Neighbours:
        """The first and the last, and those before and after the second that `timestamp` names."""
        try:
            start = milliseconds(parse_timestamp14(timestamp))
        except InputError:
            return Neighbours()
        for condition in _WHOSE:
            first = next(self._walk(url, condition, _UP, (-_LATEST_MS, "")), None)
            if first is not None:
                return Neighbours(
                    first,
                    next(self._walk(url, condition, _DOWN, (start, "")), None),
                    next(self._walk(url, condition, _UP, (start + 999, "\U0010ffff")), None),
                    next(self._walk(url, condition, _DOWN, (_LATEST_MS, "")), None),
                )
        return Neighbours()

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

    def _listed(self, rows: list[Any]) -> Iterator[Visit]:
        """The pages of those rows that no take-down hides."""
        visits = [Visit(*(row[name] for name in Visit._fields)) for row in rows]
        takedowns = self._permits.pages(visits)
        for visit in visits:
            takedown = takedowns.get(visit.page_id)
            if takedown is None or takedown.effect is not Effect.HIDE:
                yield visit


def _values(url: str) -> dict[str, Any] | None:
    """The values that every query needs; None when nothing can be filed under the URL."""
    try:
        keys = key_values(replay_key(url))
        return {**keys, "url": url, "twin": twin_of(url), "dom": artifact_uri(ArtifactKind.DOM, "")}
    except BadUrlError:
        return None
