"""The frontier in one SQLite file, which several processes may use at once."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, Self
from uuid import UUID, uuid4

from core.errors import InvariantError
from core.settings import FrontierSettings, PolitenessSettings
from core.timestamps import milliseconds, milliseconds_up
from core.timestamps import moment as to_moment
from core.urls import host_of, identity_key
from crawler.frontier import books, slot_rows
from crawler.frontier.base import (
    AddResult,
    FrontierItem,
    FrontierStats,
    HostBlock,
    ItemRecord,
    ItemState,
    Lane,
    NewItem,
)
from crawler.frontier.books import DEAD, DONE
from crawler.frontier.slots import HostSlot, epoch_of
from crawler.frontier.store import Store
from crawler.politeness import next_allowed, retry_at

# A lease that runs out tells of a dead worker, not of a bad page, so it counts for less than a
# failure; but a page that kills every worker must not be handed out for ever.
CLAIMS_PER_ATTEMPT = 3
# What one claim tidies up at most, so that it stays short after a long pause; the rest follows.
_TIDY_LIMIT = 1_000


class _Held(NamedTuple):
    """A claim as the books have it."""

    token: int
    seq: int
    id: bytes
    host_id: int
    lane: int
    worker: str
    claimed_ms: int
    renewed_ms: int
    attempts: int
    failures: int


_HELD = """
SELECT c.token, c.seq, i.id, i.host_id, i.lane, c.worker, c.claimed_ms, c.renewed_ms,
       i.attempts, i.failures
FROM claims AS c JOIN items AS i ON i.seq = c.seq
"""


class SqliteFrontier:
    """A `Frontier` at `path`, made when it is missing; its folder must exist.

    Args:
        path: the file (`core.layout.Layout.frontier_db`).
        politeness: how gently hosts are asked.
        settings: attempts, leases and retry delays.
        new_id: makes page identifiers.

    Raises:
        CollectionVersionError: the file is another program's or another version's.
        UnavailableError: it cannot be opened or read.
    """

    def __init__(
        self,
        path: Path,
        *,
        politeness: PolitenessSettings | None = None,
        settings: FrontierSettings | None = None,
        new_id: Callable[[], UUID] = uuid4,
    ) -> None:
        self._politeness = politeness or PolitenessSettings()
        self._settings = settings or FrontierSettings()
        self._new_id = new_id
        self._store = Store(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def add(self, items: Iterable[NewItem], *, now: datetime, again: bool = False) -> AddResult:
        """See `Frontier.add`. One commit, on disk before it returns."""
        now_ms = milliseconds(now)
        offered = 0
        wanted: dict[bytes, tuple[int, NewItem]] = {}
        for item in items:
            offered += 1
            wanted.setdefault(_identity(item.url), (offered, item))
        if not offered:
            return AddResult()
        with self._store.transaction(durable=True) as db:
            last = books.last_seq(db)
            # In the order of the filter's keys, so that neighbours share a page.
            fresh, known = books.sift(
                db,
                (
                    books.Candidate(key, last + place, item)
                    for key, (place, item) in sorted(wanted.items(), key=itemgetter(0))
                ),
            )
            requeued = self._again(db, known) if again else []
            queued = sorted(fresh + requeued, key=itemgetter(0))
            host_ids = self._enqueue(db, queued)
            ids = [self._new_id().bytes for _ in queued]
            books.write_items(db, list(zip(queued, host_ids, ids, strict=True)), now_ms)
            duplicates = offered - len(fresh) - len(requeued)
            books.total(db, queued=len(queued), duplicates=duplicates)
        return AddResult(added=len(fresh), duplicates=duplicates, requeued=len(requeued))

    def claim(self, *, now: datetime, worker: str, limit: int = 1) -> list[FrontierItem]:
        """See `Frontier.claim`."""
        now_ms = milliseconds(now)
        claimed: list[FrontierItem] = []
        with self._store.transaction() as db:
            if books.paused(db) is not None:
                return []
            self._reap(db, now_ms)
            self._promote(db, now_ms)
            while len(claimed) < limit:
                ready = slot_rows.ready(db, now_ms, limit - len(claimed))
                if not ready:
                    break
                claimed += [self._take(db, host, slot, worker, now_ms) for host, slot in ready]
            books.total(db, queued=-len(claimed), claimed=len(claimed))
        return claimed

    def renew(self, item: FrontierItem, *, now: datetime) -> bool:
        """See `Frontier.renew`."""
        now_ms = milliseconds(now)
        with self._store.transaction() as db:
            if _held(db, item) is None:
                return False
            db.execute(
                "UPDATE claims SET renewed_ms = max(renewed_ms, ?), lease_ms = max(lease_ms, ?) "
                "WHERE token = ?",
                (now_ms, self._lease_end(now_ms), item.token),
            )
        return True

    def complete(
        self,
        item: FrontierItem,
        *,
        now: datetime,
        outcome: str,
        duration: timedelta | None = None,
    ) -> bool:
        """See `Frontier.complete`."""
        with self._store.transaction() as db:
            held = _held(db, item)
            if held is None:
                return False
            self._free(db, held, now, duration)
            books.end(db, held.seq, DONE, milliseconds(now), outcome)
            books.total(db, claimed=-1, done=1)
        return True

    def retry(
        self,
        item: FrontierItem,
        *,
        now: datetime,
        reason: str,
        not_before: datetime | None = None,
        duration: timedelta | None = None,
    ) -> ItemState | None:
        """See `Frontier.retry`."""
        with self._store.transaction() as db:
            held = _held(db, item)
            if held is None:
                return None
            failures = held.failures + 1
            due = not_before or retry_at(now, failures, self._settings)
            self._free(db, held, now, duration)
            self._log(db, held, "retry", reason, milliseconds(now))
            db.execute("UPDATE items SET failures = ? WHERE seq = ?", (failures, held.seq))
            if failures >= self._settings.attempts:
                books.end(db, held.seq, DEAD, milliseconds(now), reason)
                books.total(db, claimed=-1, dead=1)
                return ItemState.DEAD
            db.execute("INSERT INTO later VALUES (?, ?)", (milliseconds_up(due), held.seq))
            books.total(db, claimed=-1, queued=1)
        return ItemState.QUEUED

    def fail(
        self,
        item: FrontierItem,
        *,
        now: datetime,
        reason: str,
        duration: timedelta | None = None,
    ) -> bool:
        """See `Frontier.fail`."""
        with self._store.transaction() as db:
            held = _held(db, item)
            if held is None:
                return False
            self._free(db, held, now, duration)
            self._log(db, held, "fail", reason, milliseconds(now))
            books.end(db, held.seq, DEAD, milliseconds(now), reason)
            books.total(db, claimed=-1, dead=1)
        return True

    def release(self, item: FrontierItem, *, now: datetime, reason: str = "") -> bool:
        """See `Frontier.release`."""
        with self._store.transaction() as db:
            held = _held(db, item)
            if held is None:
                return False
            self._free(db, held, now, None, counts=False)
            if reason:
                self._log(db, held, "release", reason, milliseconds(now))
            self._push(db, held.seq, held.host_id, Lane(held.lane))
            books.total(db, claimed=-1, queued=1)
        return True

    def block_until(self, host: str, moment: datetime, reason: str, *, now: datetime) -> None:
        """See `Frontier.block_until`."""
        with self._store.transaction() as db:
            slot = slot_rows.by_name(db, host) or self._new_slot(db, host)
            blocked = slot.blocked(milliseconds_up(moment), milliseconds(now))
            if blocked is not slot:
                slot_rows.save(db, blocked.settled(self._politeness.visits_per_host), slot)
                slot_rows.save_block(db, blocked, reason)

    def pause(self, reason: str) -> None:
        """See `Frontier.pause`."""
        with self._store.transaction() as db:
            db.execute("UPDATE totals SET paused = ?", (reason,))

    def resume(self) -> None:
        """See `Frontier.resume`."""
        with self._store.transaction() as db:
            db.execute("UPDATE totals SET paused = NULL")

    def next_wakeup(self, now: datetime) -> datetime | None:
        """See `Frontier.next_wakeup`."""
        with self._store.reading() as db:
            if books.paused(db) is not None:
                return None
            moments = [
                *(slot_rows.earliest(db, lane) for lane in Lane),
                db.execute("SELECT min(due_ms) FROM later").fetchone()[0],
                db.execute("SELECT min(lease_ms) FROM claims").fetchone()[0],
            ]
        earliest = min((each for each in moments if each is not None), default=None)
        return None if earliest is None else max(now, to_moment(earliest))

    def unfinished(self, now: datetime) -> int:
        """See `Frontier.unfinished`."""
        stats = self.stats(now)
        return stats.queued + stats.claimed

    def stats(self, now: datetime) -> FrontierStats:
        """See `Frontier.stats`."""
        with self._store.reading() as db:
            return books.stats(db, milliseconds(now))

    def counts(self) -> dict[ItemState, int]:
        """See `Frontier.counts`."""
        with self._store.reading() as db:
            return books.counts(db)

    def ls(self, state: ItemState, *, limit: int = 100) -> Sequence[ItemRecord]:
        """See `Frontier.ls`."""
        with self._store.reading() as db:
            return books.ls(db, state, limit)

    def find(self, url: str) -> ItemRecord | None:
        """See `Frontier.find`."""
        identity = _identity(url)
        with self._store.reading() as db:
            return books.find(db, identity)

    def blocks(self, *, now: datetime, limit: int = 100) -> Sequence[HostBlock]:
        """See `Frontier.blocks`."""
        with self._store.reading() as db:
            return slot_rows.blocks(db, milliseconds(now), limit)

    def _lease_end(self, now_ms: int) -> int:
        return now_ms + round(self._settings.lease_s * 1000)

    def _new_slot(self, db: sqlite3.Connection, host: str) -> HostSlot:
        books.total(db, hosts=1)
        return slot_rows.create(db, host)

    def _again(self, db: sqlite3.Connection, known: list[books.Candidate]) -> list[books.Numbered]:
        """Of the known URLs those that ended, to be queued anew; queued ones move up."""
        requeued = []
        for identity, seq, item in known:
            old = books.located(db, identity)
            if old.ended:
                books.supersede(db, identity, old, seq)
                requeued.append(books.Numbered(seq, item))
            elif item.lane < old.lane:
                self._move_up(db, old, item.lane)
        return requeued

    def _move_up(self, db: sqlite3.Connection, old: books.Located, lane: Lane) -> None:
        """Move an open item to a higher lane; a claimed or delayed one when it comes back."""
        db.execute("UPDATE items SET lane = ? WHERE seq = ?", (lane, old.seq))
        if not books.unqueue(db, old.lane, old.host_id, old.seq):
            return
        slot = slot_rows.by_id(db, old.host_id)
        moved = slot.pulled(Lane(old.lane), slot.heads[old.lane])
        slot_rows.save(db, moved, slot)
        self._push(db, old.seq, old.host_id, lane)

    def _enqueue(self, db: sqlite3.Connection, items: list[books.Numbered]) -> list[int]:
        """Let new items wait for their hosts; the hosts' numbers, item by item."""
        hosts = [host_of(item.url) for _, item in items]
        groups = Counter(zip(hosts, (item.lane for _, item in items), strict=True))
        ids: dict[str, int] = {}
        for (host, lane), count in groups.items():
            grown = slot_rows.grow(db, host, lane, count)
            if grown is None:
                slot = slot_rows.by_name(db, host) or self._new_slot(db, host)
                pushed = slot.pushed(lane, epoch_of(items[0].seq), count)
                slot_rows.save(db, pushed.settled(self._politeness.visits_per_host), slot)
                grown = slot.id
            ids[host] = grown
        return [ids[host] for host in hosts]

    def _push(self, db: sqlite3.Connection, seq: int, host_id: int, lane: Lane) -> None:
        """Put an item back into its place in its host's queue."""
        db.execute("INSERT INTO queue VALUES (?, ?, ?, ?)", (lane, epoch_of(seq), host_id, seq))
        slot = slot_rows.by_id(db, host_id)
        grown = slot.pushed(lane, epoch_of(seq))
        slot_rows.save(db, grown.settled(self._politeness.visits_per_host), slot)

    def _take(
        self, db: sqlite3.Connection, host: str, slot: HostSlot, worker: str, now_ms: int
    ) -> FrontierItem:
        """Claim the host's first item."""
        lane = slot.top_lane
        if lane is None:
            raise InvariantError(f"{host} is ready, but nothing waits for it.")
        seq = books.first_in_queue(db, lane, slot.heads[lane], slot.id)
        books.unqueue(db, lane, slot.id, seq)
        taken = slot.pulled(lane, epoch_of(seq)).taken()
        slot_rows.save(db, taken.settled(self._politeness.visits_per_host), slot)
        token = db.execute(
            "INSERT INTO claims (seq, worker, claimed_ms, renewed_ms, lease_ms) "
            "VALUES (?, ?, ?, ?, ?)",
            (seq, worker, now_ms, now_ms, self._lease_end(now_ms)),
        ).lastrowid
        return books.item(db, seq, host, token=token or 0)

    def _reap(self, db: sqlite3.Connection, now_ms: int) -> None:
        """Queue the items whose leases ran out again, or bury those that keep doing so."""
        rows = db.execute(
            f"{_HELD} WHERE c.lease_ms <= ? ORDER BY c.lease_ms LIMIT ?", (now_ms, _TIDY_LIMIT)
        ).fetchall()
        for held in map(_Held._make, rows):
            # The host was last asked when its worker last gave a sign of life.
            seen = to_moment(held.renewed_ms)
            self._free(db, held, seen, seen - to_moment(held.claimed_ms))
            self._log(db, held, "expired", "the worker gave no sign of life", now_ms)
            if held.attempts + 1 >= CLAIMS_PER_ATTEMPT * max(self._settings.attempts, 1):
                books.end(db, held.seq, DEAD, now_ms, "its workers keep vanishing")
                books.total(db, claimed=-1, dead=1)
            else:
                self._push(db, held.seq, held.host_id, Lane(held.lane))
                books.total(db, claimed=-1, queued=1)

    def _promote(self, db: sqlite3.Connection, now_ms: int) -> None:
        """Queue the retries whose moment has come."""
        rows = db.execute(
            "SELECT i.seq, i.host_id, i.lane FROM later AS l JOIN items AS i ON i.seq = l.seq "
            "WHERE l.due_ms <= ? ORDER BY l.due_ms LIMIT ?",
            (now_ms, _TIDY_LIMIT),
        ).fetchall()
        for seq, host_id, lane in rows:
            db.execute("DELETE FROM later WHERE seq = ?", (seq,))
            self._push(db, seq, host_id, Lane(lane))

    def _free(
        self,
        db: sqlite3.Connection,
        held: _Held,
        finished: datetime,
        duration: timedelta | None,
        *,
        counts: bool = True,
    ) -> None:
        """End a claim: its token is void, its host rests, its attempt counts."""
        if duration is None:
            duration = finished - to_moment(held.claimed_ms)
        rested = next_allowed(finished, duration, self._politeness)
        slot = slot_rows.by_id(db, held.host_id)
        freed = slot.freed(milliseconds_up(rested))
        slot_rows.save(db, freed.settled(self._politeness.visits_per_host), slot)
        db.execute("DELETE FROM claims WHERE token = ?", (held.token,))
        if counts:
            db.execute("UPDATE items SET attempts = attempts + 1 WHERE seq = ?", (held.seq,))

    @staticmethod
    def _log(db: sqlite3.Connection, held: _Held, ending: str, reason: str, now_ms: int) -> None:
        db.execute(
            "INSERT INTO attempts (seq, id, ending, reason, worker, claimed_ms, ended_ms) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (held.seq, held.id, ending, reason, held.worker, held.claimed_ms, now_ms),
        )


def _identity(url: str) -> bytes:
    return blake2b(identity_key(url).encode(), digest_size=16).digest()


def _held(db: sqlite3.Connection, item: FrontierItem) -> _Held | None:
    """The claim that the item was handed out under; None when it is void."""
    row = db.execute(f"{_HELD} WHERE c.token = ?", (item.token,)).fetchone()
    held = None if row is None else _Held._make(row)
    return held if held is not None and held.id == UUID(item.id).bytes else None
