"""All pages of the captures index, one after the other: for whoever looks at a whole collection.

The order is that of replay keys, and within a key that of time, so that the captures of a URL come
together. The index is read in parts, each by a range of it, so memory does not grow with it, and
whoever writes it is not kept waiting.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from core.index_schema import KEY_CHARACTERS
from playback.choosing import twin_of
from playback.database import Database

_BATCH = 1_000
_COLUMNS = "page_id, urlkey, url, captured_ms, timestamp, outcome, status, page_class"
_FIRST = {"urlkey": "", "captured_ms": -(2**53), "page_id": ""}


def page_rows(database: Database, condition: str) -> Iterator[Any]:
    """Every page that the condition tells: id, key, URL, moment, outcome, status, class.

    Pages that are written meanwhile are there or not.

    Args:
        database: the index.
        condition: SQL of ours over columns of ``pages``.

    Raises:
        TransientError: the index cannot be read.
    """
    order = ", ".join((*database.by_key, "captured_ms", "page_id"))
    query = (
        f"SELECT {_COLUMNS} FROM pages WHERE {database.key} >= :start"  # noqa: S608 constants of ours
        f" AND (urlkey, captured_ms, page_id) > (:urlkey, :captured_ms, :page_id) AND {condition}"
        f" ORDER BY {order} LIMIT :limit"
    )
    last: dict[str, Any] = dict(_FIRST)
    while True:
        start = last["urlkey"][:KEY_CHARACTERS]
        rows = database.rows(query, {**last, "start": start, "limit": _BATCH})
        yield from rows
        if len(rows) < _BATCH:
            return
        last = {name: rows[-1][name] for name in _FIRST}


def captures_of_pages(database: Database, condition: str) -> Iterator[list[Any]]:
    """The captures of one page after the other, each page's oldest first.

    http and https are one page; what else shares a replay key is another. Arguments, rows and errors are
    those of `page_rows`.
    """
    for _, rows in groupby(page_rows(database, condition), key=itemgetter("urlkey")):
        by_page: dict[str, list[Any]] = {}
        for row in rows:
            by_page.setdefault(min(row["url"], twin_of(row["url"])), []).append(row)
        yield from by_page.values()
