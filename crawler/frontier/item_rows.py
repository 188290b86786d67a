"""Items, queues and attempts as rows of the SQLite frontier."""

import sqlite3
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import product
from typing import Any, NamedTuple
from uuid import UUID

from core.errors import InputError, InvariantError
from core.timestamps import from_unix_milliseconds as to_moment
from core.urls import identity_key
from crawler.frontier.base import ClaimAttempt, FrontierItem, ItemRecord, ItemState, Lane
from crawler.frontier.host_slots import epoch_of

# Codes of `items.ended`. A URL that is queued again gets a new row; the old one is history.
OPEN, DONE, SKIPPED, DEAD, SUPERSEDED = range(5)
ENDED = {DONE: ItemState.DONE, SKIPPED: ItemState.SKIPPED, DEAD: ItemState.DEAD}
ENDED_CODES = {state: code for code, state in ENDED.items()}


class ItemLocation(NamedTuple):
    """Number, state and queue position of a known URL."""

    seq: int
    host_id: int
    job_id: int
    lane: int
    place: int
    ended: int
    ended_ms: int | None
    memo: str


def identity_of(url: str) -> bytes:
    """Return 128 bits of the hash of the URL's identity key; BadUrlError for no web URL."""
    return blake2b(identity_key(url).encode(), digest_size=16).digest()


def last_seq(db: sqlite3.Connection) -> int:
    """Return the highest number given so far; 0 for none."""
    return int(db.execute("SELECT ifnull(max(seq), 0) FROM items").fetchone()[0])


def locate_item(db: sqlite3.Connection, identity: bytes) -> ItemLocation | None:
    """Find the URL's item; None when it is unknown."""
    row = db.execute(
        "SELECT i.seq, i.host_id, i.job_id, i.lane, i.place, i.ended, i.ended_ms, i.memo "
        "FROM seen AS s JOIN items AS i ON i.seq = s.seq WHERE s.identity = ?",
        (identity,),
    ).fetchone()
    return None if row is None else ItemLocation._make(row)


def first_in_queue(db: sqlite3.Connection, lane: Lane, head: int, host_id: int) -> tuple[int, int]:
    """Return place and number of the host's first item in the lane, from epoch `head` on.

    Empty epochs are passed once: the caller stores the epoch found as the new head.
    """
    epoch, last = head, None
    while last is None or epoch <= last:
        row = db.execute(
            "SELECT place, seq FROM queue WHERE lane = ? AND epoch = ? AND host_id = ? ORDER BY place, seq LIMIT 1",
            (lane, epoch, host_id),
        ).fetchone()
        if row is not None:
            return int(row[0]), int(row[1])
        last = epoch_of(last_seq(db)) if last is None else last
        epoch += 1
    raise InvariantError(f"Host {host_id} counts items in lane {lane}, but the queue has none.")


def remove_from_queue(db: sqlite3.Connection, lane: int, host_id: int, place: int, seq: int) -> bool:
    """Remove an item from its queue; False when it was not in there."""
    gone = db.execute(
        "DELETE FROM queue WHERE lane = ? AND epoch = ? AND host_id = ? AND place = ? AND seq = ?",
        (lane, epoch_of(seq, place), host_id, place, seq),
    )
    return gone.rowcount == 1


def read_claimed_item(
    db: sqlite3.Connection, seq: int, host: str, *, token: int, host_down: str = ""
) -> tuple[FrontierItem, int]:
    """Return (item for a claim with that token, number of its job)."""
    row = db.execute(
        "SELECT i.id, i.url, i.lane, i.hops, i.via, i.attempts, i.hops_off, i.memo, j.job, j.id "
        "FROM items AS i JOIN jobs AS j ON j.id = i.job_id WHERE i.seq = ?",
        (seq,),
    ).fetchone()
    *facts, job_id = row
    return _item(facts, host, token=token, host_down=host_down), job_id


def _item(facts: Sequence[Any], host: str, *, token: int | None, host_down: str = "") -> FrontierItem:
    page_id, url, lane, hops, via, attempts, hops_off, memo, job = facts
    return FrontierItem(
        id=str(UUID(bytes=page_id)),
        url=url,
        host=host,
        lane=Lane(lane),
        hops=hops,
        via=via,
        attempts=attempts + (token is not None),
        token=token or 0,
        job=job,
        hops_off=hops_off,
        memo=memo,
        host_down=host_down,
    )


_RECORD = """
SELECT i.seq, i.id, i.url, h.host, i.lane, i.hops, i.via, i.attempts, i.hops_off, i.memo, j.job,
       i.ended, i.added_ms, i.ended_ms, i.outcome, c.token, c.worker, c.lease_ms,
       c.claimed_ms, ifnull(l.due_ms, d.due_ms)
FROM {source}
JOIN hosts AS h ON h.id = i.host_id
JOIN jobs AS j ON j.id = i.job_id
LEFT JOIN claims AS c ON c.seq = i.seq
LEFT JOIN later AS l ON l.seq = i.seq
LEFT JOIN due AS d ON d.seq = i.seq
"""
_BY_SEEN = _RECORD.format(source="seen AS s JOIN items AS i ON i.seq = s.seq").replace(
    "SELECT ", "SELECT s.identity, ", 1
)
_LOG = "SELECT seq, ending, reason, worker, claimed_ms, ended_ms FROM attempts WHERE seq "
_AT_ONCE = 500  # values of one question; SQLite takes 999 whichever way it was built
_BY_SEQ = _RECORD.format(source="items AS i") + "WHERE i.seq = ?"

_CLAIMED = "SELECT seq FROM claims {where} ORDER BY token LIMIT ?"
_QUEUED = "SELECT seq FROM queue WHERE {where} ORDER BY lane, epoch, host_id, place, seq LIMIT ?"
_LATER = "SELECT seq FROM later {where} ORDER BY due_ms LIMIT ?"
_ENDED = "SELECT seq FROM items WHERE {where} ended = ? AND ended % 4 > 0 ORDER BY ended_ms DESC, seq DESC LIMIT ?"
# Where a scan goes, in this order: an item that moves while it stays queued moves ahead.
_PARTS = ("later", *(str(int(lane)) for lane in reversed(Lane)))
_SCAN = {
    "later": "SELECT seq, due_ms, seq FROM later WHERE (due_ms, seq) > (?, ?) ORDER BY due_ms, seq LIMIT ?",
    "claims": "SELECT seq, token FROM claims WHERE token > ? ORDER BY token LIMIT ?",
    "queue": "SELECT seq, epoch, host_id, place, seq FROM queue "
    "WHERE lane = ? AND (epoch, host_id, place, seq) > (?, ?, ?, ?) "
    "ORDER BY epoch, host_id, place, seq LIMIT ?",
    "ended": "SELECT seq, ended_ms, seq FROM items "
    "WHERE ended = ? AND ended % 4 > 0 AND (ended_ms, seq) > (?, ?) "
    "ORDER BY ended_ms, seq LIMIT ?",
}
_LOWEST = -(1 << 63)


def find_records(db: sqlite3.Connection, identities: Sequence[bytes]) -> dict[bytes, ItemRecord]:
    """Return the records of those of the URLs that were added."""
    records: dict[bytes, ItemRecord] = {}
    for start in range(0, len(identities), _AT_ONCE):
        part = identities[start : start + _AT_ONCE]
        rows = db.execute(f"{_BY_SEEN}WHERE s.identity IN ({_marks(part)})", part).fetchall()
        logs = _logs(db, [row[1] for row in rows])
        records |= {row[0]: _record(row[1:], logs.get(row[1], ())) for row in rows}
    return records


def list_records(db: sqlite3.Connection, state: ItemState, limit: int, host_id: int | None) -> list[ItemRecord]:
    """List at most `limit` items in the state, in the order of `Frontier.ls`."""
    limit = max(limit, 0)
    of_host = () if host_id is None else (host_id,)
    where = "" if host_id is None else "WHERE host_id = ?"
    match state:
        case ItemState.CLAIMED:
            numbers = _numbers(db, _CLAIMED.format(where=where), *of_host, limit)
        case ItemState.QUEUED:
            # Those without a not-before moment come first, by lane.
            if host_id is None:
                numbers = _numbers(db, _QUEUED.format(where="lane >= 0"), limit)
            else:
                numbers, query = [], _QUEUED.format(where="lane = ? AND epoch = ? AND host_id = ?")
                epochs = range(epoch_of(last_seq(db)) + 1)
                for lane, epoch in product(Lane, epochs):
                    if (left := limit - len(numbers)) > 0:
                        numbers += _numbers(db, query, lane, epoch, host_id, left)
            rest = limit - len(numbers)
            numbers += _numbers(db, _LATER.format(where=where), *of_host, rest)
        case _:
            query = _ENDED.format(where="" if host_id is None else "host_id = ? AND")
            numbers = _numbers(db, query, *of_host, ENDED_CODES[state], limit)
    return [_by_seq(db, seq) for seq in numbers]


def scan_records(db: sqlite3.Connection, state: ItemState, cursor: str, limit: int) -> tuple[Sequence[ItemRecord], str]:
    """Return some items in the state and the next cursor; see `Frontier.scan`."""
    part, *numbers = cursor.split(":")
    try:
        key = [int(each) for each in numbers]
    except ValueError as error:
        raise InputError(f"{cursor[:80]!r} is not a cursor of a scan.") from error
    if any(abs(each) >> 63 for each in key):
        raise InputError("A number of this cursor is too large.")
    limit = max(limit, 1)
    match state:
        case ItemState.CLAIMED:
            return _scanned(db, "claims", "claims", (), key or [_LOWEST], limit)
        case ItemState.QUEUED:
            return _scan_queued(db, part or _PARTS[0], key, limit)
        case _:
            code = ENDED_CODES[state]
            return _scanned(db, "ended", "ended", (code,), key or [_LOWEST] * 2, limit)


def _scan_queued(db: sqlite3.Connection, part: Any, key: list[Any], limit: int) -> tuple[Sequence[ItemRecord], str]:
    if part not in _PARTS:
        raise InputError("This cursor is not from a scan of queued items.")
    for place in _PARTS[_PARTS.index(part) :]:
        if place == "later":
            rows = _scanned(db, place, place, (), key or [_LOWEST] * 2, limit)
        else:
            rows = _scanned(db, "queue", place, (int(place),), key or [_LOWEST] * 4, limit)
        records, following = rows
        if records:
            return records, following or ":".join(_PARTS[_PARTS.index(place) + 1 :][:1])
        key = []
    return [], ""


def _scanned(
    db: sqlite3.Connection, query: str, part: str, fixed: tuple[int, ...], key: list[Any], limit: int
) -> tuple[list[ItemRecord], str]:
    if len(key) + len(fixed) + 1 != _SCAN[query].count("?"):
        raise InputError("This cursor is not from a scan of this state.")
    rows = db.execute(_SCAN[query], (*fixed, *key, limit)).fetchall()
    following = ":".join(map(str, (part, *rows[-1][1:]))) if len(rows) == limit else ""
    return [_by_seq(db, row[0]) for row in rows], following


def _numbers(db: sqlite3.Connection, query: str, *values: int) -> list[int]:
    return [row[0] for row in db.execute(query, values)]


def _by_seq(db: sqlite3.Connection, seq: int) -> ItemRecord:
    row = db.execute(_BY_SEQ, (seq,)).fetchone()
    return _record(row, _logs(db, row[:1]).get(seq, ()))


def _logs(db: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, list[ClaimAttempt]]:
    """Return the items' attempts, oldest first."""
    logs: dict[int, list[ClaimAttempt]] = {}
    query = f"{_LOG} IN ({_marks(numbers)}) ORDER BY seq, number"
    for seq, ending, reason, worker, claimed_ms, ended_ms in db.execute(query, numbers):
        attempt = ClaimAttempt(ending, reason, worker, to_moment(claimed_ms), to_moment(ended_ms))
        logs.setdefault(seq, []).append(attempt)
    return logs


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _record(row: Sequence[Any], attempts_made: Iterable[ClaimAttempt]) -> ItemRecord:
    page_id, url, host, *facts = row[1:11]
    ended, added_ms, ended_ms, outcome, token, worker, lease_ms, begun_ms, due_ms = row[11:]
    state = ENDED.get(ended) or (ItemState.QUEUED if token is None else ItemState.CLAIMED)
    return ItemRecord(
        item=_item((page_id, url, *facts), host, token=token),
        state=state,
        added_at=to_moment(added_ms),
        ended_at=None if ended_ms is None else to_moment(ended_ms),
        outcome=outcome,
        due_at=None if due_ms is None else to_moment(due_ms),
        attempts=tuple(attempts_made),
        worker=worker or "",
        lease_until=None if lease_ms is None else to_moment(lease_ms),
        claimed_at=None if begun_ms is None else to_moment(begun_ms),
    )
