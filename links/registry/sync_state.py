"""State of wiki synchronisation: feed cursors, leases, used webhook signatures.

Cursor and lease (a row of kind `LEASE`) are written and checked in the transaction that writes the data. Machines'
clocks may differ by less than a lease's length.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, delete, select, update

from core.errors import CollectionInUseError
from core.storable_text import storable
from links.registry.pages import LOCK_WIKI
from links.registry.schema import feeds, webhook_signatures
from links.registry.statements import Reader, SqlStatement, insert_new, one, upsert

TROUBLE_LIMIT_CHARS = 500
LEASE = "lease"


class FeedHeldError(CollectionInUseError):
    """Refusal of a lease because another process synchronises the wiki until that time."""

    def __init__(self, message: str, *, until: datetime) -> None:
        super().__init__(message)
        self.until = until


class FeedCursor(NamedTuple):
    """Position of a feed."""

    wiki_id: int
    kind: str  # ``changes``, ``sweep``, …
    cursor: str  # opaque text of the feed; empty: it has not begun
    moment: datetime  # time of the last progress
    trouble: str  # reason that it is stopped; empty: it runs


FEEDS = SqlStatement(
    select(feeds.c.wiki_id, feeds.c.kind, feeds.c.cursor, feeds.c.moment, feeds.c.trouble)
    .where(feeds.c.wiki_id == one("wiki"))
    .order_by(feeds.c.kind)
)
FORGET_FEED = SqlStatement(delete(feeds).where(feeds.c.wiki_id == one("of"), feeds.c.kind == one("which")))
SET_TROUBLE = SqlStatement(
    update(feeds).where(feeds.c.wiki_id == one("of"), feeds.c.kind == one("which")).values(trouble=one("why"))
)


def feeds_of(reader: Reader, wiki_id: int) -> dict[str, FeedCursor]:
    """Return the wiki's feeds, by their kinds."""
    return {
        row[1]: FeedCursor(row[0], row[1], row[2], datetime.fromtimestamp(row[3], UTC), row[4])
        for row in FEEDS.rows(reader, {"wiki": wiki_id})
    }


def put_cursor(connection: Connection, wiki_id: int, kind: str, cursor: str, *, now: datetime) -> None:
    """Store the feed's position, and clear its trouble."""
    row = {"wiki_id": wiki_id, "kind": kind, "cursor": cursor, "moment": int(now.timestamp())}
    upsert(connection, feeds, ["wiki_id", "kind"], [row | {"trouble": ""}])


def forget_feed(connection: Connection, wiki_id: int, kind: str) -> None:
    """Delete the position of a feed."""
    FORGET_FEED.run(connection, {"of": wiki_id, "which": kind})


def put_trouble(connection: Connection, wiki_id: int, kinds: Iterable[str], why: str, *, now: datetime) -> None:
    """Set or clear the reason that feeds are stopped; cursors and times are kept."""
    for kind in kinds:
        # On one line, without characters that databases reject.
        plain = " ".join(storable(why).split())[:TROUBLE_LIMIT_CHARS]
        parameters = {"of": wiki_id, "which": kind, "why": plain}
        if not SET_TROUBLE.run(connection, parameters) and why:
            put_cursor(connection, wiki_id, kind, "", now=now)
            SET_TROUBLE.run(connection, parameters)


def take_feed_lease(
    connection: Connection,
    wiki_id: int,
    holder: str,
    *,
    now: datetime,
    length: timedelta,
    is_gone: Callable[[str], bool] = lambda _holder: False,
) -> None:
    """Claim or renew the lease of a wiki; FeedHeldError when another has it, unless `is_gone`."""
    LOCK_WIKI.rows(connection, {"wiki": wiki_id})
    there = feeds_of(connection, wiki_id).get(LEASE)
    is_free = there is None or there.cursor in ("", holder) or there.moment <= now
    if there is not None and not is_free and not is_gone(there.cursor):
        raise FeedHeldError(
            "Another process feeds this wiki, or did so a moment ago: stop that one, or wait until "
            f"{there.moment:%H:%M:%S} UTC.",
            until=there.moment,
        )
    put_cursor(connection, wiki_id, LEASE, holder, now=now + length)


def hold_feed_lease(connection: Connection, wiki_id: int, holder: str) -> None:
    """Lock the lease until the commit; FeedHeldError when another has it by now: write nothing."""
    LOCK_WIKI.rows(connection, {"wiki": wiki_id})
    there = feeds_of(connection, wiki_id).get(LEASE)
    if there is None or there.cursor != holder:
        raise FeedHeldError(
            "Another process feeds this wiki now, because this one was not heard of for too long.",
            until=there.moment if there else datetime.fromtimestamp(0, UTC),
        )


def release_feed_lease(connection: Connection, wiki_id: int, holder: str, *, now: datetime) -> None:
    """Release the lease, unless another process holds it."""
    LOCK_WIKI.rows(connection, {"wiki": wiki_id})
    there = feeds_of(connection, wiki_id).get(LEASE)
    if there is not None and there.cursor == holder:
        put_cursor(connection, wiki_id, LEASE, "", now=now)


FORGET_SIGNATURES = SqlStatement(delete(webhook_signatures).where(webhook_signatures.c.moment < one("before")))


def use_signature(connection: Connection, signature: bytes, moment: datetime, *, kept: timedelta) -> bool:
    """Record a signature as used, and delete those older than `kept`; True when it was not used before."""
    made = int(moment.timestamp())
    FORGET_SIGNATURES.run(connection, {"before": made - int(kept.total_seconds())})
    return insert_new(connection, webhook_signatures, {"signature": signature, "moment": made})
