"""Choice of the page to show for a URL and time, as SQL order and query.

Captures are ordered by the rank of their class (`core.page_classes`), then by their distance from the requested time.
The exact URL comes first, then the same under the other scheme, then other URLs of the same replay key, which may be
distinct pages; an error at the exact URL still ranks with it, but a robots check counts for no URL. A phone's capture
is chosen only when no other lies within `PHONE_BEHIND_MS` more of the requested time.

Of a URL with many captures only the nearest on either side of the time are read, of the best class present. (If none is
good, all are counted once to find it; nothing is sorted then either.)
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.page_classes import rank_sql, usable_sql, withheld_sql
from core.page_manifest import DeviceType, VisitOutcome

OFFERED = f"outcome NOT IN ('{VisitOutcome.FAILED}', '{VisitOutcome.SKIPPED}')"
WITHHELD = withheld_sql()
# Of these `core.page_classes.is_usable` holds, if replay shows them.
USABLE = f"({OFFERED} AND {usable_sql()})"

# Sites send phones other pages than most readers, who read on desktops, would have seen.
PHONE_BEHIND_MS = 30 * 86_400_000
DISTANCE = f"abs(captured_ms - :at) + CASE WHEN device = '{DeviceType.PHONE}' THEN {PHONE_BEHIND_MS} ELSE 0 END"

# Match between a row's URL and the requested one; `other_scheme` gives the value of :twin.
_NEARNESS = "CASE WHEN url = :url THEN 0 WHEN url = :twin THEN 1 ELSE 2 END"
BEST_FIRST = (
    f"CASE WHEN {WITHHELD} THEN 1 ELSE 0 END, CASE WHEN url IN (:url, :twin) THEN 0 ELSE 1 END,"
    f" {rank_sql()}, {_NEARNESS}, {DISTANCE}, captured_ms, page_id"
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
    f"((CASE WHEN {WITHHELD} THEN 1 ELSE 0 END * 2"
    f" + CASE WHEN url IN (:url, :twin) THEN 0 ELSE 1 END) * 100 + ({rank_sql()})) * 3"
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
        asked = {"url": self.url, "twin": other_scheme(self.url)}
        return {**key, **asked, "at": self.at_ms, "timestamp": self.timestamp}


def best_pages(ask: Ask, has_key: str, key: Mapping[str, str], columns: str, wanted: BestPageQuery) -> Iterator[Any]:
    """Yield rows of pages with that key (values in `key`): the exact capture first, then best first.

    `columns` must include ``captured_ms``, ``device`` and ``page_id``.
    """
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
