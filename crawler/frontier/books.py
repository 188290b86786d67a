"""Items, their queues and their history as rows of the SQLite frontier: what verbs write."""

import sqlite3
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

from core.errors import InvariantError
from core.urls import identity_key
from crawler.frontier.base import FrontierItem, ItemState, Lane, NewItem
from crawler.frontier.slots import epoch_of

# What `items.ended` says. A URL that is queued again gets a new row; the old one is history.
OPEN, DONE, SKIPPED, DEAD, SUPERSEDED = range(5)
ENDED = {DONE: ItemState.DONE, SKIPPED: ItemState.SKIPPED, DEAD: ItemState.DEAD}


class Offer(NamedTuple):
    """A URL that is offered, and whose turn it takes."""

    item: NewItem
    host: str


class Candidate(NamedTuple):
    """A URL that was offered: its hashed identity key, the number it would get, the offer."""

    identity: bytes
    seq: int
    offer: Offer


class Wanted(NamedTuple):
    """An offer that was taken: it gets this number, and a memo of an earlier visit."""

    seq: int
    offer: Offer
    memo: str = ""


class Entry(NamedTuple):
    """An item to be written: all that a row holds when it is queued."""

    seq: int
    id: bytes
    url: str
    host_id: int
    job_id: int
    lane: int
    place: int
    hops: int
    hops_off: int
    via: str
    memo: str


class Located(NamedTuple):
    """Where a known URL stands."""

    seq: int
    host_id: int
    job_id: int
    lane: int
    place: int
    ended: int
    ended_ms: int | None
    memo: str


def identity_of(url: str) -> bytes:
    """128 bits of the hash of the URL's identity key.

    Raises:
        BadUrlError: it is no web URL.
    """
    return blake2b(identity_key(url).encode(), digest_size=16).digest()


def last_seq(db: sqlite3.Connection) -> int:
    """The highest number given so far; 0 for none."""
    return int(db.execute("SELECT ifnull(max(seq), 0) FROM items").fetchone()[0])


def sift(
    db: sqlite3.Connection, candidates: Iterable[Candidate]
) -> tuple[list[Candidate], list[Candidate]]:
    """Enter the URLs into the filter of unique URLs: those that were new, those that were not."""
    fresh: list[Candidate] = []
    known: list[Candidate] = []
    for candidate in candidates:
        entered = db.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", candidate[:2])
        (fresh if entered.rowcount else known).append(candidate)
    return fresh, known


def located(db: sqlite3.Connection, identity: bytes) -> Located | None:
    """Where the URL stands; None when it is unknown."""
    row = db.execute(
        "SELECT i.seq, i.host_id, i.job_id, i.lane, i.place, i.ended, i.ended_ms, i.memo "
        "FROM seen AS s JOIN items AS i ON i.seq = s.seq WHERE s.identity = ?",
        (identity,),
    ).fetchone()
    return None if row is None else Located._make(row)


def supersede(db: sqlite3.Connection, identity: bytes, old: int, seq: int) -> None:
    """Let number `seq` stand for the URL from now on; the ended item becomes history."""
    db.execute("UPDATE seen SET seq = ? WHERE identity = ?", (seq, identity))
    db.execute("UPDATE items SET ended = ? WHERE seq = ?", (SUPERSEDED, old))


def write_items(db: sqlite3.Connection, entries: list[Entry], now_ms: int) -> None:
    """Write new items and queue them; the hosts' slots are the caller's affair."""
    db.executemany(
        "INSERT INTO items (seq, id, url, host_id, job_id, lane, place, hops, hops_off, via, "
        "memo, added_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((*entry, now_ms) for entry in entries),
    )
    db.executemany(
        "INSERT INTO queue VALUES (?, ?, ?, ?, ?)",
        sorted((e.lane, epoch_of(e.seq, e.place), e.host_id, e.place, e.seq) for e in entries),
    )


def enqueue(db: sqlite3.Connection, lane: int, host_id: int, place: int, seq: int) -> None:
    """Put an item that is written into its place in its host's queue."""
    epoch = epoch_of(seq, place)
    db.execute("INSERT INTO queue VALUES (?, ?, ?, ?, ?)", (lane, epoch, host_id, place, seq))


def first_in_queue(db: sqlite3.Connection, lane: Lane, head: int, host_id: int) -> tuple[int, int]:
    """Place and number of the host's first item in the lane, none of which is before epoch `head`.

    Epochs without one are passed once: the caller keeps the epoch found as the new head.
    """
    epoch, last = head, None
    while last is None or epoch <= last:
        row = db.execute(
            "SELECT place, seq FROM queue WHERE lane = ? AND epoch = ? AND host_id = ? "
            "ORDER BY place, seq LIMIT 1",
            (lane, epoch, host_id),
        ).fetchone()
        if row is not None:
            return int(row[0]), int(row[1])
        last = epoch_of(last_seq(db)) if last is None else last
        epoch += 1
    raise InvariantError(f"Host {host_id} counts items in lane {lane}, but the queue has none.")


def unqueue(db: sqlite3.Connection, lane: int, host_id: int, place: int, seq: int) -> bool:
    """Take an item out of its queue; False when it was not in there."""
    gone = db.execute(
        "DELETE FROM queue WHERE lane = ? AND epoch = ? AND host_id = ? AND place = ? AND seq = ?",
        (lane, epoch_of(seq, place), host_id, place, seq),
    )
    return gone.rowcount == 1


def end(db: sqlite3.Connection, seq: int, ended: int, now_ms: int, outcome: str) -> None:
    """Write that an item is DONE, SKIPPED or DEAD, and how."""
    db.execute(
        "UPDATE items SET ended = ?, ended_ms = ?, outcome = ? WHERE seq = ?",
        (ended, now_ms, outcome, seq),
    )


def item(
    db: sqlite3.Connection, seq: int, host: str, *, token: int, host_down: str = ""
) -> tuple[FrontierItem, int]:
    """The item as a claim with that token hands it out; and the number of its job."""
    row = db.execute(
        "SELECT i.id, i.url, i.lane, i.hops, i.via, i.attempts, i.hops_off, i.memo, j.job, j.id "
        "FROM items AS i JOIN jobs AS j ON j.id = i.job_id WHERE i.seq = ?",
        (seq,),
    ).fetchone()
    page_id, url, lane, hops, via, attempts, hops_off, memo, job, job_id = row
    found = FrontierItem(
        id=str(UUID(bytes=page_id)),
        url=url,
        host=host,
        lane=Lane(lane),
        hops=hops,
        via=via,
        attempts=attempts + 1,
        token=token,
        job=job,
        hops_off=hops_off,
        memo=memo,
        host_down=host_down,
    )
    return found, job_id
