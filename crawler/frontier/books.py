"""Items, their queues and their history as rows of the SQLite frontier."""
# ruff: noqa: S608 - only constants of this file are pieced together; values are parameters

import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from core.errors import InvariantError
from core.timestamps import moment as to_moment
from crawler.frontier.base import (
    Attempt,
    FrontierItem,
    FrontierStats,
    ItemRecord,
    ItemState,
    Lane,
    NewItem,
)
from crawler.frontier.slots import epoch_of

# What `items.ended` says. A URL that is queued again gets a new row; the old one is history.
OPEN, DONE, DEAD, SUPERSEDED = range(4)

_RECORD = """
SELECT i.seq, i.id, i.url, h.host, i.lane, i.hops, i.via, i.attempts, i.ended, i.added_ms,
       i.ended_ms, i.outcome, c.token, l.due_ms
FROM {source}
JOIN items AS i ON i.seq = s.seq
JOIN hosts AS h ON h.id = i.host_id
LEFT JOIN claims AS c ON c.seq = s.seq
LEFT JOIN later AS l ON l.seq = s.seq
"""
_BY_SEEN = _RECORD.format(source="seen AS s") + "WHERE s.identity = ?"
_BY_STATE = {
    ItemState.CLAIMED: (
        _RECORD.format(source="(SELECT seq, token FROM claims ORDER BY token LIMIT ?) AS s")
        + "ORDER BY s.token",
    ),
    ItemState.QUEUED: (
        _RECORD.format(
            source="(SELECT seq, lane FROM queue ORDER BY lane, epoch, host_id, seq LIMIT ?) AS s"
        )
        + "ORDER BY s.lane, s.seq",
        _RECORD.format(source="(SELECT seq, due_ms FROM later ORDER BY due_ms LIMIT ?) AS s")
        + "ORDER BY s.due_ms",
    ),
    **{
        state: (
            _RECORD.format(
                source=f"(SELECT seq, ended_ms FROM items WHERE ended = {ended} AND ended > 0 "
                "ORDER BY ended_ms DESC, seq DESC LIMIT ?) AS s"
            )
            + "ORDER BY s.ended_ms DESC, s.seq DESC",
        )
        for state, ended in ((ItemState.DONE, DONE), (ItemState.DEAD, DEAD))
    },
}


class Candidate(NamedTuple):
    """A URL that was offered: its hashed identity key, the number it would get, the item."""

    identity: bytes
    seq: int
    item: NewItem


class Numbered(NamedTuple):
    """An item with its number."""

    seq: int
    item: NewItem


class Located(NamedTuple):
    """Where a known URL stands."""

    seq: int
    host_id: int
    lane: int
    ended: int


def last_seq(db: sqlite3.Connection) -> int:
    """The highest number given so far; 0 for none."""
    return int(db.execute("SELECT ifnull(max(seq), 0) FROM items").fetchone()[0])


def sift(
    db: sqlite3.Connection, candidates: Iterable[Candidate]
) -> tuple[list[Numbered], list[Candidate]]:
    """Enter the URLs into the filter of unique URLs: those that were new, those that were not."""
    fresh, known = [], []
    for candidate in candidates:
        entered = db.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", candidate[:2])
        if entered.rowcount:
            fresh.append(Numbered(candidate.seq, candidate.item))
        else:
            known.append(candidate)
    return fresh, known


def located(db: sqlite3.Connection, identity: bytes) -> Located:
    """Where the known URL stands."""
    row = db.execute(
        "SELECT i.seq, i.host_id, i.lane, i.ended FROM seen AS s "
        "JOIN items AS i ON i.seq = s.seq WHERE s.identity = ?",
        (identity,),
    ).fetchone()
    if row is None:
        raise InvariantError("The filter of unique URLs knows a URL that has no item.")
    return Located._make(row)


def supersede(db: sqlite3.Connection, identity: bytes, old: Located, seq: int) -> None:
    """Let number `seq` stand for the URL from now on; the ended item becomes history."""
    db.execute("UPDATE seen SET seq = ? WHERE identity = ?", (seq, identity))
    db.execute("UPDATE items SET ended = ? WHERE seq = ?", (SUPERSEDED, old.seq))
    total(db, done=-(old.ended == DONE), dead=-(old.ended == DEAD))


def write_items(
    db: sqlite3.Connection, rows: list[tuple[Numbered, int, bytes]], now_ms: int
) -> None:
    """Write new items, each with its host's number and its identifier; and queue them."""
    db.executemany(
        "INSERT INTO items (seq, id, url, host_id, lane, hops, via, added_ms) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (seq, page_id, item.url, host_id, item.lane, item.hops, item.via, now_ms)
            for (seq, item), host_id, page_id in rows
        ),
    )
    db.executemany(
        "INSERT INTO queue VALUES (?, ?, ?, ?)",
        sorted((item.lane, epoch_of(seq), host_id, seq) for (seq, item), host_id, _ in rows),
    )


def first_in_queue(db: sqlite3.Connection, lane: Lane, head: int, host_id: int) -> int:
    """The number of the host's oldest item in the lane, none of which is before epoch `head`.

    Epochs without one are passed once: the caller keeps the epoch found as the new head.
    """
    for epoch in range(head, epoch_of(last_seq(db)) + 1):
        row = db.execute(
            "SELECT min(seq) FROM queue WHERE lane = ? AND epoch = ? AND host_id = ?",
            (lane, epoch, host_id),
        ).fetchone()
        if row[0] is not None:
            return int(row[0])
    raise InvariantError(f"Host {host_id} counts items in lane {lane}, but the queue has none.")


def unqueue(db: sqlite3.Connection, lane: int, host_id: int, seq: int) -> bool:
    """Take an item out of its queue; False when it was not in there."""
    gone = db.execute(
        "DELETE FROM queue WHERE lane = ? AND epoch = ? AND host_id = ? AND seq = ?",
        (lane, epoch_of(seq), host_id, seq),
    )
    return gone.rowcount == 1


def end(db: sqlite3.Connection, seq: int, ended: int, now_ms: int, outcome: str) -> None:
    """Write that an item is DONE or DEAD, and how."""
    db.execute(
        "UPDATE items SET ended = ?, ended_ms = ?, outcome = ? WHERE seq = ?",
        (ended, now_ms, outcome, seq),
    )


def item(db: sqlite3.Connection, seq: int, host: str, *, token: int) -> FrontierItem:
    """The item as a claim with that token hands it out."""
    page_id, url, lane, hops, via, attempts = db.execute(
        "SELECT id, url, lane, hops, via, attempts FROM items WHERE seq = ?", (seq,)
    ).fetchone()
    return FrontierItem(
        str(UUID(bytes=page_id)), url, host, Lane(lane), hops, via, attempts + 1, token
    )


def total(db: sqlite3.Connection, **changes: int) -> None:
    """Add to the counts; names are columns of `totals`."""
    changes = {name: by for name, by in changes.items() if by}
    if changes:
        terms = ", ".join(f"{name} = {name} + ?" for name in changes)
        db.execute(f"UPDATE totals SET {terms}", tuple(changes.values()))


def paused(db: sqlite3.Connection) -> str | None:
    """Why claims are paused; None when they are not."""
    reason: str | None = db.execute("SELECT paused FROM totals").fetchone()[0]
    return reason


def stats(db: sqlite3.Connection, now_ms: int) -> FrontierStats:
    """The counts; claims whose lease ran out count as queued."""
    (expired,) = db.execute("SELECT count(*) FROM claims WHERE lease_ms <= ?", (now_ms,)).fetchone()
    queued, claimed, *rest = db.execute(
        "SELECT queued, claimed, done, dead, duplicates, hosts, paused FROM totals"
    ).fetchone()
    return FrontierStats(queued + expired, claimed - expired, *rest)


def counts(db: sqlite3.Connection) -> dict[ItemState, int]:
    """Items by state."""
    numbers = db.execute("SELECT queued, claimed, done, dead FROM totals").fetchone()
    states = (ItemState.QUEUED, ItemState.CLAIMED, ItemState.DONE, ItemState.DEAD)
    return dict(zip(states, numbers, strict=True))


def ls(db: sqlite3.Connection, state: ItemState, limit: int) -> list[ItemRecord]:
    """At most `limit` items in the state, in the order that `Frontier.ls` promises."""
    rows: list[Any] = []
    for query in _BY_STATE[state]:
        rows += db.execute(query, (max(limit - len(rows), 0),)).fetchall()
    return [_record(db, row) for row in rows]


def find(db: sqlite3.Connection, identity: bytes) -> ItemRecord | None:
    """What the books say about the URL; None when it was never added."""
    row = db.execute(_BY_SEEN, (identity,)).fetchone()
    return None if row is None else _record(db, row)


def _record(db: sqlite3.Connection, row: tuple[Any, ...]) -> ItemRecord:
    seq, page_id, url, host, lane, hops, via, attempts, *rest = row
    ended, added_ms, ended_ms, outcome, token, due_ms = rest
    if ended:
        state = ItemState.DONE if ended == DONE else ItemState.DEAD
    else:
        state = ItemState.QUEUED if token is None else ItemState.CLAIMED
    log = db.execute(
        "SELECT ending, reason, worker, claimed_ms, ended_ms FROM attempts "
        "WHERE seq = ? ORDER BY number",
        (seq,),
    )
    return ItemRecord(
        item=FrontierItem(
            id=str(UUID(bytes=page_id)),
            url=url,
            host=host,
            lane=Lane(lane),
            hops=hops,
            via=via,
            attempts=attempts + (token is not None),
            token=token or 0,
        ),
        state=state,
        added_at=to_moment(added_ms),
        ended_at=None if ended_ms is None else to_moment(ended_ms),
        outcome=outcome,
        due_at=None if due_ms is None else to_moment(due_ms),
        attempts=tuple(
            Attempt(ending, reason, worker, to_moment(claimed_ms), to_moment(ended_ms))
            for ending, reason, worker, claimed_ms, ended_ms in log
        ),
    )
