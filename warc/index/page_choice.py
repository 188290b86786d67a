"""Choice of the page to show for a URL and moment, as SQL order and query.

Never a second-best capture where there is a good one: captures are ordered by the rank of their
class (`core.page_classes`), then by their distance from the moment asked for. The very URL comes
first, then the same under the other scheme, then its other equals by replay key, which merges
distinct pages; an error at the very URL is still its own, but a check for robots is nobody's. A
phone's capture is offered only where no other one lies within `PHONE_BEHIND_MS` more of the moment.

The order is that of `warc.index.page_choice`. Where there are few pages they are sorted. Where a
URL was captured more often, only the nearest on either side of the moment are read, of the best
sort that there is: a URL of a hundred thousand good captures answers as fast as one of one. (If
none of them is good, all are counted once to find the best sort; nothing is sorted then either.)
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

# How a row's URL is the one asked for; `other_scheme` gives the value of :twin.
_NEARNESS = "CASE WHEN url = :url THEN 0 WHEN url = :twin THEN 1 ELSE 2 END"
BEST_FIRST = (
    f"CASE WHEN {WITHHELD} THEN 1 ELSE 0 END, CASE WHEN url IN (:url, :twin) THEN 0 ELSE 1 END,"
    f" {rank_sql()}, {_NEARNESS}, {DISTANCE}, captured_ms, page_id"
)


def distance_of(row: Any, at_ms: int) -> int:
    """Return what `DISTANCE` is of a row with `captured_ms` and `device`."""
    behind = PHONE_BEHIND_MS if row["device"] == DeviceType.PHONE else 0
    return int(abs(row["captured_ms"] - at_ms)) + behind


# Before them the very capture whose timestamp was asked for.
EXACT_FIRST = "CASE WHEN timestamp = :timestamp AND url IN (:url, :twin) THEN 0 ELSE 1 END"


def other_scheme(url: str) -> str:
    """The same URL under the other of the web's schemes.

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
    """What is looked for.

    Attributes:
        url: of which page.
        at_ms: near which moment, in milliseconds since 1970 UTC.
        timestamp: the moment in 14 digits, whose very capture comes first; empty: none does.
        shown: the condition on a row that may be found.
    """

    url: str
    at_ms: int
    timestamp: str
    shown: str


def best_pages(
    ask: Ask, has_key: str, key: Mapping[str, str], columns: str, wanted: BestPageQuery
) -> Iterator[Any]:
    """Rows of pages with that key, the very capture that is named and then the best first.

    Args:
        ask: asks the captures index.
        has_key: the condition that a row's urlkey is the key (`warc.index.database`).
        key: the values that `has_key` needs.
        columns: of the rows; with ``captured_ms``, ``device`` and ``page_id``.
        wanted: what is looked for.

    Raises:
        TransientError: the index cannot be read.
    """
    values = {
        **key,
        "url": wanted.url,
        "twin": other_scheme(wanted.url),
        "at": wanted.at_ms,
        "timestamp": wanted.timestamp,
    }
    probe = f"SELECT count(*) AS n FROM (SELECT 1 FROM pages WHERE {has_key} LIMIT :few) AS few"  # noqa: S608 constants
    found = ask(probe, {**key, "few": FEW})
    count = found[0]["n"] if found else 0
    if count == 0:
        return
    where = f"FROM pages WHERE {has_key} AND {wanted.shown}"
    if count < FEW:
        order = f"{EXACT_FIRST}, {BEST_FIRST}"
        yield from ask(f"SELECT {columns} {where} ORDER BY {order} LIMIT :few",
                       {**values, "few": FEW})  # fmt: skip
        return
    yield from _of_many(ask, columns, where, values)


def _of_many(ask: Ask, columns: str, where: str, values: dict[str, Any]) -> Iterator[Any]:
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
    """Yield the rows of one sort, the nearest first, reading more whenever those were not enough.

    A phone's capture comes as if it were further away (`warc.index.page_choice`).
    """
    sides = " UNION ALL ".join(
        f"SELECT * FROM (SELECT {columns} {where} AND {_SORT} = :sort AND captured_ms {side}"  # noqa: S608 constants
        f" LIMIT :limit) AS {name}"
        for side, name in (
            ("<= :at ORDER BY captured_ms DESC", "earlier"),
            ("> :at ORDER BY captured_ms", "later"),
        )
    )
    limit, given, at = _NEAREST, 0, values["at"]
    while True:
        rows = ask(sides, {**values, "limit": limit})
        # Of either side the nearest are there, so as many in all are the nearest of all.
        whole = len(rows) < limit or limit >= _MOST_NEAREST
        reach = (
            math.inf if whole else sorted(abs(row["captured_ms"] - at) for row in rows)[limit - 1]
        )
        rows = sorted(
            rows, key=lambda row: (distance_of(row, at), row["captured_ms"], row["page_id"])
        )
        ready = sum(distance_of(row, at) <= reach for row in rows)
        yield from rows[given:ready]
        if whole:
            return
        given, limit = ready, limit * 16
