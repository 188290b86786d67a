"""Records of items with their attempts, and reports of hosts, read from the SQLite frontier for lists and look-ups."""

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import product
from typing import Any

from core.errors import InputError
from core.timestamps import from_unix_milliseconds as to_moment
from crawler.frontier import sqlite_database
from crawler.frontier.base import ClaimAttempt, Frontier, HostOrder, HostReport, ItemRecord, ItemState, Lane
from crawler.frontier.host_slots import epoch_of, host_report, slot_by_name

# ruff: noqa: S608 - only constants are pieced together; values are parameters


_RECORD = f"""
SELECT i.seq, {sqlite_database.ITEM_COLUMNS}, i.ended, i.added_ms, i.ended_ms, i.outcome,
       c.token, c.worker, c.lease_ms, c.claimed_ms, ifnull(l.due_ms, d.due_ms)
FROM {{source}}
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
# The values of `host_report`.
_REPORT = (
    "SELECT host, waiting_now + waiting_high + waiting_standard, active, next_ms, blocked_ms, down_ms, blocked_reason, "
    "done, bytes, busy_ms, ifnull(mean_ms, 0), refusals FROM hosts"
)
_COMPARED = 1_000  # hosts compared among those with queues of similar length (a factor of two)


class FrontierRecords(Frontier):
    """`Frontier` as far as it reads records of items and reports of hosts."""

    _store: sqlite_database.FrontierDatabase

    def find_all(self, urls: Sequence[str]) -> list[ItemRecord | None]:
        """See `Frontier.find_all`."""
        identities = [sqlite_database.identity_of(url) for url in urls]
        records: dict[bytes, ItemRecord] = {}
        with self._store.reading() as db:
            for start in range(0, len(identities), _AT_ONCE):
                part = identities[start : start + _AT_ONCE]
                rows = db.execute(f"{_BY_SEEN}WHERE s.identity IN ({', '.join('?' * len(part))})", part).fetchall()
                logs = _logs(db, [row[1] for row in rows])
                records |= {row[0]: _record(row[1:], logs.get(row[1], ())) for row in rows}
        return [records.get(identity) for identity in identities]

    def ls(self, state: ItemState, *, limit: int = 100, host: str | None = None) -> Sequence[ItemRecord]:
        """See `Frontier.ls`."""
        limit = max(limit, 0)
        with self._store.reading() as db:
            slot = None if host is None else slot_by_name(db, host)
            if host is not None and slot is None:
                return []
            of_host, where = ((), "") if slot is None else ((slot.id,), "WHERE host_id = ?")
            match state:
                case ItemState.CLAIMED:
                    numbers = _numbers(db, _CLAIMED.format(where=where), *of_host, limit)
                case ItemState.QUEUED:
                    # Those without a not-before moment come first, by lane.
                    if slot is None:
                        numbers = _numbers(db, _QUEUED.format(where="lane >= 0"), limit)
                    else:
                        numbers, query = [], _QUEUED.format(where="lane = ? AND epoch = ? AND host_id = ?")
                        epochs = range(epoch_of(sqlite_database.last_seq(db)) + 1)
                        for lane, epoch in product(Lane, epochs):
                            if (left := limit - len(numbers)) > 0:
                                numbers += _numbers(db, query, lane, epoch, slot.id, left)
                    rest = limit - len(numbers)
                    numbers += _numbers(db, _LATER.format(where=where), *of_host, rest)
                case _:
                    query = _ENDED.format(where="" if slot is None else "host_id = ? AND")
                    numbers = _numbers(db, query, *of_host, sqlite_database.ENDED_CODES[state], limit)
            return [_by_seq(db, seq) for seq in numbers]

    def scan(self, state: ItemState, *, cursor: str = "", limit: int = 1000) -> tuple[Sequence[ItemRecord], str]:
        """See `Frontier.scan`."""
        part, *numbers = cursor.split(":")
        try:
            key = [int(each) for each in numbers]
        except ValueError as error:
            raise InputError(f"{cursor[:80]!r} is not a cursor of a scan.") from error
        if any(abs(each) >> 63 for each in key):
            raise InputError("A number of this cursor is too large.")
        limit = max(limit, 1)
        with self._store.reading() as db:
            match state:
                case ItemState.CLAIMED:
                    return _scanned(db, "claims", "claims", (), key or [_LOWEST], limit)
                case ItemState.QUEUED:
                    return _scan_queued(db, part or _PARTS[0], key, limit)
                case _:
                    code = sqlite_database.ENDED_CODES[state]
                    return _scanned(db, "ended", "ended", (code,), key or [_LOWEST] * 2, limit)

    def host(self, host: str, *, now: datetime) -> HostReport | None:
        """See `Frontier.host`."""
        with self._store.reading() as db:
            row = db.execute(f"{_REPORT} WHERE host = ?", (host,)).fetchone()
        return None if row is None else host_report(row, now)

    def hosts(self, order: HostOrder, *, now: datetime, limit: int = 20) -> Sequence[HostReport]:
        """See `Frontier.hosts`; among over 1,000 queues of a like length (a factor of two), any."""
        is_slowest = order is HostOrder.SLOWEST
        where, value = ("mean_ms IS NOT NULL", "mean_ms") if is_slowest else ("size > 0", "size")
        most = limit if is_slowest else max(limit, _COMPARED)
        query = f"{_REPORT} WHERE {where} ORDER BY {value} DESC LIMIT ?"
        with self._store.reading() as db:
            reports = [host_report(row, now) for row in db.execute(query, (most,))]
        return reports if is_slowest else sorted(reports, key=lambda each: -each.waiting)[:limit]


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
    query = f"{_LOG} IN ({', '.join('?' * len(numbers))}) ORDER BY seq, number"
    for seq, ending, reason, worker, claimed_ms, ended_ms in db.execute(query, numbers):
        attempt = ClaimAttempt(ending, reason, worker, to_moment(claimed_ms), to_moment(ended_ms))
        logs.setdefault(seq, []).append(attempt)
    return logs


def _record(row: Sequence[Any], attempts_made: Iterable[ClaimAttempt]) -> ItemRecord:
    ended, added_ms, ended_ms, outcome, token, worker, lease_ms, begun_ms, due_ms = row[11:]
    state = sqlite_database.ENDED.get(ended) or (ItemState.QUEUED if token is None else ItemState.CLAIMED)
    return ItemRecord(
        item=sqlite_database.frontier_item(row[1:11], token),
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
