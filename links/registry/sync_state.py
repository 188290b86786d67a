"""State of wiki synchronisation: feed cursors, leases, used webhook signatures.

A feed's cursor is written in the transaction that writes what it told: whoever stops in between begins
again at the cursor, so nothing is lost, and nothing is done twice that cannot be. Cursors are the
feeds' own texts; this book does not read them.

A wiki is fed by one process at a time: its lease is a row of kind `LEASE`, which says who has it and
until when. Whoever writes looks at it in the same transaction, so that one that slept through its end
writes nothing any more. Machines' clocks may differ by less than a lease's length.
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
    """Another process feeds the wiki, or none was heard of for too short a time.

    Attributes:
        until: when its lease ends, unless it is renewed.
    """

    def __init__(self, said: str, *, until: datetime) -> None:
        super().__init__(said)
        self.until = until


class FeedCursor(NamedTuple):
    """How far a feed has come.

    Attributes:
        kind: ``changes``, ``sweep``, …
        cursor: as the feed has it; empty: it has not begun.
        moment: when it last came that far.
        trouble: why it does not go on; empty: it does.
    """

    wiki_id: int
    kind: str
    cursor: str
    moment: datetime
    trouble: str


FEEDS = SqlStatement(
    select(feeds.c.wiki_id, feeds.c.kind, feeds.c.cursor, feeds.c.moment, feeds.c.trouble)
    .where(feeds.c.wiki_id == one("wiki"))
    .order_by(feeds.c.kind)
)
FORGET_FEED = SqlStatement(
    delete(feeds).where(feeds.c.wiki_id == one("of"), feeds.c.kind == one("which"))
)
SET_TROUBLE = SqlStatement(
    update(feeds)
    .where(feeds.c.wiki_id == one("of"), feeds.c.kind == one("which"))
    .values(trouble=one("why"))
)


def feeds_of(reader: Reader, wiki_id: int) -> dict[str, FeedCursor]:
    """The wiki's feeds, by their kinds."""
    return {
        row[1]: FeedCursor(row[0], row[1], row[2], datetime.fromtimestamp(row[3], UTC), row[4])
        for row in FEEDS.rows(reader, {"wiki": wiki_id})
    }


def put_cursor(
    connection: Connection, wiki_id: int, kind: str, cursor: str, *, now: datetime
) -> None:
    """Note that the feed came that far now; it has no trouble any more."""
    row = {
        "wiki_id": wiki_id,
        "kind": kind,
        "cursor": cursor,
        "moment": int(now.timestamp()),
        "trouble": "",
    }
    upsert(connection, feeds, ["wiki_id", "kind"], [row])


def forget_feed(connection: Connection, wiki_id: int, kind: str) -> None:
    """Forget how far a feed has come."""
    FORGET_FEED.run(connection, {"of": wiki_id, "which": kind})


def put_trouble(
    connection: Connection, wiki_id: int, kinds: Iterable[str], why: str, *, now: datetime
) -> None:
    """Note why feeds do not go on; their cursors and moments stay. Empty: they do."""
    for kind in kinds:
        told = {"of": wiki_id, "which": kind, "why": _plain(why)}
        if not SET_TROUBLE.run(connection, told) and why:
            put_cursor(connection, wiki_id, kind, "", now=now)
            SET_TROUBLE.run(connection, told)


def take_feed_lease(
    connection: Connection,
    wiki_id: int,
    holder: str,
    *,
    now: datetime,
    length: timedelta,
    is_gone: Callable[[str], bool] = lambda _holder: False,
) -> None:
    """Let that process alone feed the wiki, from now for so long; whoever has the lease renews it.

    Args:
        connection: of a transaction that writes.
        wiki_id: which wiki.
        holder: the process.
        now: the moment.
        length: for how long.
        is_gone: tells of a holder whether it has certainly ended, so that nobody waits for it.

    Raises:
        FeedHeldError: another has it.
    """
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
    """Hold the wiki until the connection's changes are kept.

    Raises:
        FeedHeldError: another has the lease by now: nothing may be written.
    """
    LOCK_WIKI.rows(connection, {"wiki": wiki_id})
    there = feeds_of(connection, wiki_id).get(LEASE)
    if there is None or there.cursor != holder:
        raise FeedHeldError(
            "Another process feeds this wiki now, because this one was not heard of for too long.",
            until=there.moment if there else datetime.fromtimestamp(0, UTC),
        )


def release_feed_lease(connection: Connection, wiki_id: int, holder: str, *, now: datetime) -> None:
    """Let the next process have the wiki at once; nothing when somebody has it already."""
    LOCK_WIKI.rows(connection, {"wiki": wiki_id})
    there = feeds_of(connection, wiki_id).get(LEASE)
    if there is not None and there.cursor == holder:
        put_cursor(connection, wiki_id, LEASE, "", now=now)


def _plain(text: str) -> str:
    """The text on one line, without what no text of a database may hold."""
    return " ".join(storable(text).split())[:TROUBLE_LIMIT_CHARS]


FORGET_SIGNATURES = SqlStatement(
    delete(webhook_signatures).where(webhook_signatures.c.moment < one("before"))
)


def use_signature(
    connection: Connection, signature: bytes, moment: datetime, *, kept: timedelta
) -> bool:
    """Note a signature as used, and forget those that are older than `kept`.

    Args:
        connection: one that writes.
        signature: 32 bytes.
        moment: when it was made.
        kept: for how long a signature could be accepted at all.

    Returns:
        True when nobody had used it before.
    """
    made = int(moment.timestamp())
    FORGET_SIGNATURES.run(connection, {"before": made - int(kept.total_seconds())})
    return insert_new(connection, webhook_signatures, {"signature": signature, "moment": made})
