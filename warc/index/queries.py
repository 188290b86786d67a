"""Queries of the captures index: the page to show for a URL and time, and ranges by replay key, then time.

The exact URL comes first, then the same under the other scheme, then other URLs of the same replay key, which may be
distinct pages; among them the rank of the class (`core.page_classes`) decides, then the distance from the requested
time. An error at the exact URL still ranks with it, but a robots check counts for no URL. Of a URL with many captures
only the nearest on either side of the time are read, of the best class present; nothing is sorted then.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from core.page_classes import DEFAULT_REPLAY_LEVEL, RANKS, UNUSABLE, WITHHELD, WORST_RANK, PageClass
from core.page_manifest import DeviceType, VisitOutcome
from core.timestamps import timestamp14_at
from core.url_keys import replay_key
from warc.index.database import IndexDatabase, key_values

OFFERED = f"outcome NOT IN ('{VisitOutcome.FAILED}', '{VisitOutcome.SKIPPED}')"


def _names(classes: Iterable[PageClass]) -> str:
    return ", ".join(f"'{each}'" for each in sorted(classes))


_IS_WITHHELD = f"page_class IN ({_names(WITHHELD)})"
SHOWN = f"{OFFERED} AND NOT {_IS_WITHHELD}"
# `core.page_classes.is_usable` is true for these, if replay shows them.
USABLE = f"({OFFERED} AND (coalesce(status, 999) < 400 AND page_class IN ({_names(RANKS.keys() - UNUSABLE)})))"
# How far its newest check at the default level moves a page behind.
QUALITY = (
    "coalesce((SELECT quality FROM qualities WHERE qualities.page_id = pages.page_id"  # noqa: S608 constants
    f" AND qualities.level = '{DEFAULT_REPLAY_LEVEL}'"
    " ORDER BY qualities.checked_ms DESC, qualities.quality DESC LIMIT 1), 0)"
)
_RANK_CASES = " ".join(f"WHEN '{each}' THEN {number}" for each, number in RANKS.items() if each)
# `core.page_classes.class_rank` plus the penalty of its checks.
RANK = (
    f"(CASE page_class {_RANK_CASES} WHEN '' THEN"
    f" CASE WHEN coalesce(status, 0) >= 400 THEN {RANKS[PageClass.HTTP_ERROR]} ELSE 0 END ELSE {WORST_RANK} END"
    f" + {QUALITY})"
)

# Sites send phones other pages than most readers, who read on desktops, would have seen.
PHONE_BEHIND_MS = 30 * 86_400_000
DISTANCE = f"abs(captured_ms - :at) + CASE WHEN device = '{DeviceType.PHONE}' THEN {PHONE_BEHIND_MS} ELSE 0 END"

# Match between a row's URL and the requested one; `other_scheme` gives the value of :twin.
_NEARNESS = "CASE WHEN url = :url THEN 0 WHEN url = :twin THEN 1 ELSE 2 END"
BEST_FIRST = (
    f"CASE WHEN {_IS_WITHHELD} THEN 1 ELSE 0 END, CASE WHEN url IN (:url, :twin) THEN 0 ELSE 1 END,"
    f" {RANK}, {_NEARNESS}, {DISTANCE}, captured_ms, page_id"
)


def distance_of(row: Any, at_ms: int) -> int:
    """Compute `DISTANCE` of a row with `captured_ms` and `device`."""
    behind = PHONE_BEHIND_MS if row["device"] == DeviceType.PHONE else 0
    return int(abs(row["captured_ms"] - at_ms)) + behind


# Before them the exact capture with the requested timestamp.
EXACT_FIRST = "CASE WHEN timestamp = :timestamp AND url IN (:url, :twin) THEN 0 ELSE 1 END"


def other_scheme(url: str) -> str:
    """Return the same URL with http and https exchanged.

    >>> other_scheme("http://example.org/a")
    'https://example.org/a'
    """
    scheme, colon, rest = url.partition(":")
    return {"http": "https", "https": "http"}.get(scheme, scheme) + colon + rest


Ask = Callable[[str, dict[str, Any]], list[Any]]

FEW = 64  # pages that are sorted as they are
_MOST_A_SECOND = 64
_NEAREST = 8  # read on either side at first
_MOST_NEAREST = 32_768
# BEST_FIRST without the distance, as one number: withheld, of another URL, rank, nearness of the URL.
_SORT = (
    f"((CASE WHEN {_IS_WITHHELD} THEN 1 ELSE 0 END * 2"
    f" + CASE WHEN url IN (:url, :twin) THEN 0 ELSE 1 END) * 100 + ({RANK})) * 3"
    " + CASE WHEN url = :url THEN 0 WHEN url = :twin THEN 1 ELSE 2 END"
)


@dataclass(frozen=True, slots=True)
class BestPageQuery:
    """Query for the best capture of a page."""

    url: str
    at_ms: int  # the requested time, in milliseconds since 1970 UTC
    timestamp: str  # 14-digit timestamp whose exact capture comes first; empty: none does
    shown: str  # SQL condition for rows that may be returned

    def values(self, key: Mapping[str, str]) -> dict[str, Any]:
        """Return the query parameters, with those of the URL's key."""
        urls = {"url": self.url, "twin": other_scheme(self.url)}
        return {**key, **urls, "at": self.at_ms, "timestamp": self.timestamp}


def best_pages(ask: Ask, has_key: str, key: Mapping[str, str], columns: str, wanted: BestPageQuery) -> Iterator[Any]:
    """Yield the key's pages, the exact capture first, then best; `columns` has captured_ms, device, page_id."""
    values = wanted.values(key)
    probe = f"SELECT count(*) AS n FROM (SELECT 1 FROM pages WHERE {has_key} LIMIT :few) AS few"  # noqa: S608 constants
    counted = ask(probe, {**key, "few": FEW})
    count = counted[0]["n"] if counted else 0
    if count == 0:
        return
    where = f"FROM pages WHERE {has_key} AND {wanted.shown}"
    if count < FEW:
        order = f"{EXACT_FIRST}, {BEST_FIRST}"
        yield from ask(f"SELECT {columns} {where} ORDER BY {order} LIMIT :few",
                       {**values, "few": FEW})  # fmt: skip
        return
    second = values["at"] - values["at"] % 1000
    very = ask(
        f"SELECT {columns} {where} AND captured_ms BETWEEN :second AND :second + 999"
        f" AND timestamp = :timestamp AND url IN (:url, :twin) ORDER BY {BEST_FIRST} LIMIT :few",
        {**values, "second": second, "few": _MOST_A_SECOND},
    )
    yield from very
    seen = {row["page_id"] for row in very}
    sort: int | None = 0
    while sort is not None:
        for row in _nearest(ask, columns, where, {**values, "sort": sort}):
            if row["page_id"] not in seen:
                yield row
        best = ask(f"SELECT min({_SORT}) AS sort {where} AND {_SORT} > :sort",
                   {**values, "sort": sort})  # fmt: skip
        sort = best[0]["sort"] if best else None


def _nearest(ask: Ask, columns: str, where: str, values: dict[str, Any]) -> Iterator[Any]:
    """Yield one class's rows, nearest first (a phone's further by `PHONE_BEHIND_MS`), reading more on demand."""
    sides = " UNION ALL ".join(
        f"SELECT * FROM (SELECT {columns} {where} AND {_SORT} = :sort AND captured_ms {side}"  # noqa: S608 constants
        f" LIMIT :limit) AS {name}"
        for side, name in (("<= :at ORDER BY captured_ms DESC", "earlier"), ("> :at ORDER BY captured_ms", "later"))
    )
    limit, yielded, at = _NEAREST, 0, values["at"]
    while True:
        rows = ask(sides, {**values, "limit": limit})
        # Of either side the nearest are there, so as many in all are the nearest of all.
        whole = len(rows) < limit or limit >= _MOST_NEAREST
        reach = math.inf if whole else sorted(abs(row["captured_ms"] - at) for row in rows)[limit - 1]
        rows = sorted(rows, key=lambda row: (distance_of(row, at), row["captured_ms"], row["page_id"]))
        ready = sum(distance_of(row, at) <= reach for row in rows)
        yield from rows[yielded:ready]
        if whole:
            return
        yielded, limit = ready, limit * 16


EARLIEST_MS, LATEST_MS = -(2**53), 2**53
# Smallest successor suffix: no key has a character below it. (PostgreSQL text has no NUL.)
_NEXT = "\x01"
_FIRST_ID, _LAST_ID = -1, 2**62
_COLUMNS = "id, urlkey, captured_ms, url, mime, status, digest, length, page_id, login"


@dataclass(frozen=True, slots=True, order=True)
class IndexPosition:
    """Position of a row in the index."""

    urlkey: str
    captured_ms: int
    number: int


@dataclass(frozen=True, slots=True)
class ListedCapture:
    """Capture in a listing, without the location of its record."""

    position: IndexPosition
    url: str
    mime: str
    status: int | None
    digest: str
    length: int
    page_id: str
    login: str | None = None

    @property
    def urlkey(self) -> str:
        """Return its replay key."""
        return self.position.urlkey

    @property
    def timestamp(self) -> str:
        """Return its 14-digit timestamp."""
        return timestamp14_at(self.position.captured_ms)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Half-open range of keys: `low` <= key < `high`."""

    low: str
    high: str

    @classmethod
    def of_key(cls, key: str) -> "KeyRange":
        """Return the range that holds one key."""
        return cls(key, key + _NEXT)

    @classmethod
    def of_prefix(cls, prefix: str) -> "KeyRange":
        """Return the range of keys with the prefix. Keys are ASCII: each has a successor."""
        return cls(prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))

    @property
    def is_one(self) -> bool:
        """Return whether it holds one key only."""
        return self.high == self.low + _NEXT


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Closed time range from `first_ms` to `last_ms`, in milliseconds since 1970 UTC."""

    first_ms: int = EARLIEST_MS
    last_ms: int = LATEST_MS


def matching_keys(url: str, match: str) -> KeyRange | None:
    """Return the keys of an `exact` URL, a `prefix`, `host` or `domain`; None: no page. Raises BadUrlError."""
    key = replay_key(url)
    if match == "exact" and key != "-":
        return KeyRange.of_key(key)
    if match == "prefix" and not key.startswith(("urn:", "-")):
        # The key has lost a final "/" or "?", which here marks the end of a name.
        key += "".join(end for end in "/?" if url.endswith(end) and not key.endswith(end))
        return KeyRange.of_prefix(key)
    if match in {"host", "domain"} and ")" in key:
        # The keys of a host, or of a domain with all its hosts: in SURT they begin alike.
        host = key.partition(")")[0]
        # "-" follows ","; a port is between the host and its bracket, and belongs to the host.
        return KeyRange(f"{host})", f"{host}*") if match == "host" else KeyRange(f"{host})", f"{host}-")
    return None


class CaptureQueries:
    """Queries for rows of the captures index, as thread-safe as it. Every query raises TransientError."""

    def __init__(self, index: IndexDatabase) -> None:
        self._index = index

    def of_key(
        self, key: str, between: TimeRange, *, after: IndexPosition | None = None, descending: bool = False, limit: int
    ) -> list[ListedCapture]:
        """Return the next rows of one key in time order, starting `after` a position if given."""
        first, last = between.first_ms, between.last_ms
        if after is None:
            ms, number = (last, _LAST_ID) if descending else (first, _FIRST_ID)
        else:
            ms, number = after.captured_ms, after.number
        if descending:
            last, beyond = min(last, ms), "captured_ms < :ms OR id < :id"
        else:
            first, beyond = max(first, ms), "captured_ms > :ms OR id > :id"
        rows = self._index.rows(
            f"SELECT {_COLUMNS} FROM captures WHERE {self._index.has_key}"  # noqa: S608 constants of ours
            f" AND captured_ms BETWEEN :first AND :last AND ({beyond})"
            f" ORDER BY {_order(('captured_ms', 'id'), descending=descending)} LIMIT :limit",
            {**key_values(key), "first": first, "last": last, "ms": ms, "id": number, "limit": limit},
        )
        return [_row(each) for each in rows]

    def of_range(
        self, keys: KeyRange, *, after: IndexPosition | None = None, descending: bool = False, limit: int
    ) -> list[ListedCapture]:
        """Return the next rows of a key range, starting `after` a position if given."""
        captures: list[ListedCapture] = []
        if after is not None:
            # The rest of that key, then the keys that follow: each is one range of the index.
            captures = self.of_key(after.urlkey, TimeRange(), after=after, descending=descending, limit=limit)
            keys = KeyRange(keys.low, after.urlkey) if descending else KeyRange(after.urlkey + _NEXT, keys.high)
        if len(captures) < limit:
            order = _order((*self._index.by_key, "captured_ms", "id"), descending=descending)
            rows = self._index.rows(
                f"SELECT {_COLUMNS} FROM captures WHERE {self._index.in_range}"  # noqa: S608 constants of ours
                f" ORDER BY {order} LIMIT :limit",
                {**range_values(keys), "limit": limit - len(captures)},
            )
            captures += map(_row, rows)
        return captures

    def count(self, keys: KeyRange, between: TimeRange, *, most: int) -> int:
        """Count rows, up to `most`; for a range of several keys `between` is ignored."""
        condition, values = self._where(keys, between)
        rows = self._index.rows(
            f"SELECT count(*) AS n FROM (SELECT 1 FROM captures WHERE {condition} LIMIT :most) AS few",  # noqa: S608 constants of ours
            {**values, "most": most},
        )
        return int(rows[0]["n"]) if rows else 0

    def place(
        self,
        keys: KeyRange,
        between: TimeRange,
        *,
        offset: int,
        after: IndexPosition | None = None,
        descending: bool = False,
    ) -> IndexPosition | None:
        """Return the position of the row after `offset` others; None when there are no more."""
        beyond = ""
        values: dict[str, Any] = {"offset": offset}
        if after is not None:
            less = "<" if descending else ">"
            beyond = (
                f" AND (urlkey {less} :after_key OR captured_ms {less} :after_ms"
                f" OR (captured_ms = :after_ms AND id {less} :after_id))"
            )
            values |= {"after_key": after.urlkey, "after_ms": after.captured_ms, "after_id": after.number}
            keys = KeyRange(keys.low, after.urlkey + _NEXT) if descending else KeyRange(after.urlkey, keys.high)
        condition, of_keys = self._where(keys, between)
        terms = ("captured_ms", "id") if keys.is_one else (*self._index.by_key, "captured_ms", "id")
        rows = self._index.rows(
            f"SELECT urlkey, captured_ms, id FROM captures WHERE {condition}{beyond}"  # noqa: S608 constants of ours
            f" ORDER BY {_order(terms, descending=descending)} LIMIT 1 OFFSET :offset",
            {**values, **of_keys},
        )
        return _position(rows[0]) if rows else None

    def _where(self, keys: KeyRange, between: TimeRange) -> tuple[str, dict[str, Any]]:
        if not keys.is_one:
            return self._index.in_range, range_values(keys)
        condition = f"{self._index.has_key} AND captured_ms BETWEEN :first AND :last"
        return condition, {**key_values(keys.low), "first": between.first_ms, "last": between.last_ms}


def range_values(keys: KeyRange) -> dict[str, str]:
    """Return the values for `IndexDatabase.in_range`."""
    low, high = key_values(keys.low), key_values(keys.high)
    return {"low": low["key"], "low_start": low["key_start"], "high": high["key"], "high_start": high["key_start"]}


def _order(terms: tuple[str, ...], *, descending: bool) -> str:
    return ", ".join(f"{term} DESC" if descending else term for term in terms)


def _position(row: Any) -> IndexPosition:
    return IndexPosition(row["urlkey"], row["captured_ms"], row["id"])


_LISTED = itemgetter("url", "mime", "status", "digest", "length")


def _row(row: Any) -> ListedCapture:
    url, mime, status, digest, length = _LISTED(row)
    return ListedCapture(_position(row), url, mime, status, digest, length, row["page_id"] or "", row["login"])


ALL_KEYS = KeyRange("", "\U0010ffff")
_PAGE_BATCH = 1_000
_PAGE_COLUMNS = "page_id, urlkey, url, captured_ms, timestamp, outcome, status, page_class"


def page_chunks(
    database: IndexDatabase, condition: str, *, columns: str, keys: KeyRange = ALL_KEYS, size: int
) -> Iterator[list[Any]]:
    """Yield pages matching trusted SQL, in chunks; `columns` has urlkey, captured_ms, page_id. TransientError."""
    terms = (*database.by_key, "captured_ms", "page_id")
    marks = (*(f":after_{number}" for number in range(len(database.by_key))), ":ms", ":id")
    beyond, after = "", dict[str, Any]()
    while True:
        rows = database.rows(
            f"SELECT {columns} FROM pages WHERE {database.in_range}{beyond} AND {condition}"  # noqa: S608 constants of ours
            f" ORDER BY {', '.join(terms)} LIMIT {size}",
            {**range_values(keys), **after},
        )
        if rows:
            yield rows
        if len(rows) < size:
            return
        last = rows[-1]
        start = key_values(last["urlkey"])
        # The range begins there, or each part would be looked for from the first row on.
        keys = KeyRange(last["urlkey"], keys.high)
        # In the index's order: the whole key alone, or its beginning and then the whole.
        parts = (start["key"],) if len(database.by_key) == 1 else (start["key_start"], start["key"])
        after = {f"after_{number}": part for number, part in enumerate(parts)}
        after |= {"ms": last["captured_ms"], "id": last["page_id"]}
        beyond = f" AND ({', '.join(terms)}) > ({', '.join(marks)})"


def page_rows(database: IndexDatabase, condition: str) -> Iterator[Any]:
    """Yield the pages that match the condition; arguments and errors are those of `page_chunks`."""
    for rows in page_chunks(database, condition, columns=_PAGE_COLUMNS, size=_PAGE_BATCH):
        yield from rows


def captures_of_pages(database: IndexDatabase, condition: str) -> Iterator[list[Any]]:
    """Yield each page's captures (http and https as one), oldest first; arguments and errors as `page_rows`."""
    for _, rows in groupby(page_rows(database, condition), key=itemgetter("urlkey")):
        by_page: dict[str, list[Any]] = {}
        for row in rows:
            by_page.setdefault(min(row["url"], other_scheme(row["url"])), []).append(row)
        yield from by_page.values()
