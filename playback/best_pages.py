"""Pages of a URL, the one to show first, without reading all that there are.

The order is that of `playback.choosing`. Where there are few pages they are sorted. Where a URL was
captured more often, only the nearest on either side of the moment are read, of the best sort that there
is: a URL of a hundred thousand good captures answers as fast as one of one. (If none of them is good,
all are counted once to find the best sort; nothing is sorted then either.)
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.classes import rank_sql
from playback.choosing import BEST_FIRST, EXACT_FIRST, WITHHELD, distance_of, twin_of

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
class Wanted:
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
    ask: Ask, has_key: str, key: Mapping[str, str], columns: str, wanted: Wanted
) -> Iterator[Any]:
    """Rows of pages with that key, the very capture that is named and then the best first.

    Args:
        ask: asks the captures index.
        has_key: the condition that a row's urlkey is the key (`playback.database`).
        key: the values that `has_key` needs.
        columns: of the rows; with ``captured_ms``, ``device`` and ``page_id``.
        wanted: what is looked for.

    Raises:
        TransientError: the index cannot be read.
    """
    values = {
        **key,
        "url": wanted.url,
        "twin": twin_of(wanted.url),
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

    A phone's capture comes as if it were further away (`playback.choosing`).
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
        rows = sorted(rows, key=lambda row: _order(row, at))
        ready = sum(distance_of(row, at) <= reach for row in rows)
        yield from rows[given:ready]
        if whole:
            return
        given, limit = ready, limit * 16


def _order(row: Any, at: int) -> tuple[int, int, str]:
    return distance_of(row, at), row["captured_ms"], row["page_id"]
