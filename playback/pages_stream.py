"""All pages of the captures index, one after the other: for whoever looks at a whole collection.

The order is that of replay keys, and within a key that of time, so that the captures of a URL come
together. The index is read in parts, each by a range of it, so memory does not grow with it, and
whoever writes it is not kept waiting.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from playback.captures_queries import KeyRange, range_values
from playback.choosing import twin_of
from playback.database import Database, key_values

ALL_KEYS = KeyRange("", "\U0010ffff")
_BATCH = 1_000
_COLUMNS = "page_id, urlkey, url, captured_ms, timestamp, outcome, status, page_class"


def page_chunks(
    database: Database, condition: str, *, columns: str, keys: KeyRange = ALL_KEYS, size: int
) -> Iterator[list[Any]]:
    """Every page that the condition tells, so many at a time.

    Pages that are written meanwhile are there or not.

    Args:
        database: the index.
        condition: SQL of ours over columns of ``pages``.
        columns: of ``pages``, as SQL; ``urlkey``, ``captured_ms`` and ``page_id`` among them.
        keys: only pages whose keys are in it.
        size: of a part.

    Raises:
        TransientError: the index cannot be read.
    """
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
        # By what is indexed first: the whole key alone, or its beginning and then the whole.
        parts = (start["key"],) if len(database.by_key) == 1 else (start["key_start"], start["key"])
        after = {f"after_{number}": part for number, part in enumerate(parts)}
        after |= {"ms": last["captured_ms"], "id": last["page_id"]}
        beyond = f" AND ({', '.join(terms)}) > ({', '.join(marks)})"


def page_rows(database: Database, condition: str) -> Iterator[Any]:
    """Every page that the condition tells: id, key, URL, moment, outcome, status, class.

    Arguments and errors are those of `page_chunks`.
    """
    for rows in page_chunks(database, condition, columns=_COLUMNS, size=_BATCH):
        yield from rows


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
