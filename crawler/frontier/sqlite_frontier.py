"""Frontier in one SQLite file, which several processes may use at once."""

import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Self
from uuid import UUID, uuid4

from core.config.settings import FrontierSettings, PolitenessSettings
from core.timestamps import from_unix_milliseconds as to_moment
from core.timestamps import unix_milliseconds, unix_milliseconds_ceil
from core.urls import host_of
from crawler.frontier import host_slots, item_rows, sqlite_database
from crawler.frontier.base import (
    AddResult,
    FrontierItem,
    FrontierStats,
    HostBlock,
    HostOrder,
    HostReport,
    ItemRecord,
    ItemState,
    JobCounts,
    Lane,
    MinuteCounts,
    NewItem,
)
from crawler.frontier.item_rows import AcceptedOffer, UrlOffer
from crawler.frontier.politeness import host_retry_at, longest_back_off, retry_at
from crawler.frontier.sqlite_database import CountChanges, FrontierDatabase
from crawler.frontier.transitions import (
    HOST_NOT_ASKED,
    ClaimTransitions,
    HostUsage,
    QueueTransitions,
    log_attempt,
)

# What one note tidies up at most: more than it adds, so that no more than a few lie about.
_TIDY_LIMIT = 8


def write_order(db: sqlite3.Connection, kind: str, key: str, value: str) -> int:
    """Store the order; return the new version."""
    db.execute("INSERT OR REPLACE INTO orders VALUES (?, ?, ?)", (kind, key, value))
    return _raise_version(db)


def delete_order(db: sqlite3.Connection, kind: str, key: str) -> bool:
    """Delete the order; False when there was none."""
    gone = db.execute("DELETE FROM orders WHERE kind = ? AND key = ?", (kind, key)).rowcount == 1
    if gone:
        _raise_version(db)
    return gone


def read_orders(db: sqlite3.Connection, kind: str) -> dict[str, str]:
    """Return the orders of that kind by key."""
    return dict(db.execute("SELECT key, value FROM orders WHERE kind = ? ORDER BY key", (kind,)))


def write_note(
    db: sqlite3.Connection, kind: str, key: str, value: str, now_ms: int, until_ms: int | None
) -> None:
    """Store the note; delete some expired ones."""
    db.execute(
        "DELETE FROM notes WHERE rowid IN "
        "(SELECT rowid FROM notes WHERE until_ms IS NOT NULL AND until_ms <= ? LIMIT ?)",
        (now_ms, _TIDY_LIMIT),
    )
    db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?, ?)", (kind, key, value, until_ms))


def read_note(db: sqlite3.Connection, kind: str, key: str, now_ms: int) -> str | None:
    """Return the note unless it has expired."""
    row = db.execute(
        "SELECT value, until_ms FROM notes WHERE kind = ? AND key = ?", (kind, key)
    ).fetchone()
    if row is None or (row[1] is not None and row[1] <= now_ms):
        return None
    return str(row[0])


def read_notes(db: sqlite3.Connection, kind: str, now_ms: int) -> dict[str, str]:
    """Return the unexpired notes of that kind by key."""
    rows = db.execute("SELECT key, value, until_ms FROM notes WHERE kind = ? ORDER BY key", (kind,))
    return {key: value for key, value, until in rows if until is None or until > now_ms}


def delete_note(db: sqlite3.Connection, kind: str, key: str) -> None:
    """Delete the note."""
    db.execute("DELETE FROM notes WHERE kind = ? AND key = ?", (kind, key))


def _raise_version(db: sqlite3.Connection) -> int:
    row = db.execute("UPDATE totals SET version = version + 1 RETURNING version").fetchone()
    return int(row[0])


class SqliteReports:
    """Methods of a `Frontier` that move no item; each is one transaction of the store."""

    _store: FrontierDatabase

    def unfinished(self, now: datetime) -> int:
        """See `Frontier.unfinished`."""
        stats = self.stats(now)
        return stats.queued + stats.claimed

    def stats(self, now: datetime) -> FrontierStats:
        """See `Frontier.stats`."""
        with self._store.reading() as db:
            return sqlite_database.read_stats(db, unix_milliseconds(now))

    def counts(self) -> dict[ItemState, int]:
        """See `Frontier.counts`."""
        with self._store.reading() as db:
            return sqlite_database.read_counts(db)

    def job_counts(self, job: str) -> JobCounts:
        """See `Frontier.job_counts`."""
        with self._store.reading() as db:
            return sqlite_database.read_job_counts(db, job)

    def minutes(self, now: datetime, *, count: int = 60) -> Sequence[MinuteCounts]:
        """See `Frontier.minutes`."""
        with self._store.reading() as db:
            return sqlite_database.read_minutes(db, unix_milliseconds(now), count)

    def ls(
        self, state: ItemState, *, limit: int = 100, host: str | None = None
    ) -> Sequence[ItemRecord]:
        """See `Frontier.ls`."""
        with self._store.reading() as db:
            slot = None if host is None else host_slots.slot_by_name(db, host)
            if host is not None and slot is None:
                return []
            return item_rows.list_records(db, state, limit, None if slot is None else slot.id)

    def scan(
        self, state: ItemState, *, cursor: str = "", limit: int = 1000
    ) -> tuple[Sequence[ItemRecord], str]:
        """See `Frontier.scan`."""
        with self._store.reading() as db:
            return item_rows.scan_records(db, state, cursor, limit)

    def find(self, url: str) -> ItemRecord | None:
        """See `Frontier.find`."""
        identity = item_rows.identity_of(url)
        with self._store.reading() as db:
            return item_rows.find_record(db, identity)

    def find_all(self, urls: Sequence[str]) -> list[ItemRecord | None]:
        """See `Frontier.find_all`."""
        identities = [item_rows.identity_of(url) for url in urls]
        with self._store.reading() as db:
            found = item_rows.find_records(db, identities)
        return [found.get(identity) for identity in identities]

    def blocks(self, *, now: datetime, limit: int = 100) -> Sequence[HostBlock]:
        """See `Frontier.blocks`."""
        with self._store.reading() as db:
            return host_slots.list_blocks(db, unix_milliseconds(now), limit)

    def host(self, host: str, *, now: datetime) -> HostReport | None:
        """See `Frontier.host`."""
        with self._store.reading() as db:
            return host_slots.host_report(db, host, now)

    def hosts(self, order: HostOrder, *, now: datetime, limit: int = 20) -> Sequence[HostReport]:
        """See `Frontier.hosts`; among over 1,000 queues of a like length (a factor of two), any."""
        with self._store.reading() as db:
            return host_slots.host_reports(db, order, now, limit)

    def give_order(self, kind: str, key: str, value: str) -> int:
        """See `Frontier.give_order`."""
        with self._store.transaction(durable=True) as db:
            return write_order(db, kind, key, value)

    def take_back(self, kind: str, key: str) -> bool:
        """See `Frontier.take_back`."""
        with self._store.transaction(durable=True) as db:
            return delete_order(db, kind, key)

    def orders(self, kind: str) -> dict[str, str]:
        """See `Frontier.orders`."""
        with self._store.reading() as db:
            return read_orders(db, kind)

    def put_note(
        self, kind: str, key: str, value: str, *, now: datetime, until: datetime | None = None
    ) -> None:
        """See `Frontier.put_note`."""
        until_ms = None if until is None else unix_milliseconds_ceil(until)
        with self._store.transaction() as db:
            write_note(db, kind, key, value, unix_milliseconds(now), until_ms)

    def note(self, kind: str, key: str, *, now: datetime) -> str | None:
        """See `Frontier.note`."""
        with self._store.reading() as db:
            return read_note(db, kind, key, unix_milliseconds(now))

    def notes(self, kind: str, *, now: datetime) -> dict[str, str]:
        """See `Frontier.notes`."""
        with self._store.reading() as db:
            return read_notes(db, kind, unix_milliseconds(now))

    def erase_note(self, kind: str, key: str) -> None:
        """See `Frontier.erase_note`."""
        with self._store.transaction() as db:
            delete_note(db, kind, key)


class SqliteFrontier(SqliteReports):
    """`Frontier` at `path`, created when it is missing; its folder must exist.

    Args:
        path: the file (`core.layout.Layout.frontier_db`).
        politeness: host delays.
        settings: attempts, leases, retry delays, order and shares of the lanes.
        new_id: makes page identifiers.
        rng: draws places for the order "random".

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
        rng: random.Random | None = None,
    ) -> None:
        self._politeness = politeness or PolitenessSettings()
        self._settings = settings or FrontierSettings()
        rng = rng or random.Random()  # noqa: S311 no secret, only an order
        self._moves = QueueTransitions(self._politeness, self._settings, new_id, rng)
        self._claims = ClaimTransitions(self._moves)
        self._store = FrontierDatabase(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    @contextmanager
    def _counted(self, now: datetime) -> Iterator[tuple[sqlite3.Connection, CountChanges]]:
        """Open a transaction whose counts are written at its end."""
        changes = CountChanges()
        with self._store.transaction() as db:
            yield db, changes
            changes.write(db, unix_milliseconds(now))

    def add(
        self, items: Iterable[NewItem], *, now: datetime, again: timedelta | None = None
    ) -> AddResult:
        """See `Frontier.add`. One commit, on disk before it returns."""
        now_ms = unix_milliseconds(now)
        offered = 0
        wanted: dict[bytes, tuple[int, UrlOffer]] = {}
        for item in items:
            offered += 1
            offer = UrlOffer(item, item.host or host_of(item.url))
            wanted.setdefault(item_rows.identity_of(item.url), (offered, offer))
        if not offered:
            return AddResult()
        changes = CountChanges()
        with self._store.transaction(durable=True) as db:
            last = item_rows.last_seq(db)
            # In the order of the filter's keys, so that neighbours share a page.
            fresh, known = item_rows.insert_unseen(
                db,
                (
                    item_rows.OfferCandidate(identity, last + place, offer)
                    for identity, (place, offer) in sorted(wanted.items(), key=itemgetter(0))
                ),
            )
            queued = [AcceptedOffer(seq, offer) for _, seq, offer in fresh]
            if again is not None:
                queued += self._moves.again(db, known, again, now_ms, changes)
            self._moves.enqueue(db, sorted(queued, key=itemgetter(0)), now_ms, changes)
            duplicates = offered - len(queued)
            changes.count("duplicates", duplicates)
            changes.write(db, now_ms)
        return AddResult(added=len(fresh), duplicates=duplicates, requeued=len(queued) - len(fresh))

    def claim(self, *, now: datetime, worker: str, limit: int = 1) -> list[FrontierItem]:
        """See `Frontier.claim`."""
        now_ms = unix_milliseconds(now)
        claimed: list[FrontierItem] = []
        with self._counted(now) as (db, changes):
            paused, token = db.execute("SELECT paused, token FROM totals").fetchone()
            if paused is not None:
                return []
            self._claims.tidy(db, now_ms, changes)
            while len(claimed) < limit:
                token += 1
                found = self._claims.first_ready(db, token, now_ms)
                if found is None:
                    break
                claimed.append(self._claims.take(db, found, token, worker, now_ms, changes))
            changes.count("token", len(claimed))
        return claimed

    def renew(self, item: FrontierItem, *, now: datetime) -> bool:
        """See `Frontier.renew`."""
        now_ms = unix_milliseconds(now)
        with self._store.transaction() as db:
            if self._claims.held(db, item) is None:
                return False
            db.execute(
                "UPDATE claims SET renewed_ms = max(renewed_ms, ?), lease_ms = max(lease_ms, ?) "
                "WHERE token = ?",
                (now_ms, self._claims.lease_end(now_ms), item.token),
            )
        return True

    def complete(  # noqa: PLR0913 each is a fact of its own
        self,
        item: FrontierItem,
        *,
        now: datetime,
        outcome: str,
        duration: timedelta | None = None,
        delay: timedelta | None = None,
        stored_bytes: int = 0,
        due: datetime | None = None,
        memo: str = "",
    ) -> bool:
        """See `Frontier.complete`."""
        with self._counted(now) as (db, changes):
            held = self._claims.held(db, item)
            if held is None:
                return False
            usage = HostUsage(duration, delay, stored_bytes)
            self._claims.finish(db, held, usage, now, changes, completed=True)
            item_rows.end_item(db, held.seq, item_rows.DONE, unix_milliseconds(now), outcome)
            changes.moved(held.job_id, ItemState.CLAIMED, ItemState.DONE)
            changes.stored(held.job_id, stored_bytes)
            if memo != item.memo:
                db.execute("UPDATE items SET memo = ? WHERE seq = ?", (memo, held.seq))
            if due is not None:
                db.execute("INSERT INTO due VALUES (?, ?)", (unix_milliseconds_ceil(due), held.seq))
                changes.count("due")
        return True

    def retry(
        self,
        item: FrontierItem,
        *,
        now: datetime,
        reason: str,
        not_before: datetime | None = None,
        duration: timedelta | None = None,
        delay: timedelta | None = None,
    ) -> ItemState | None:
        """See `Frontier.retry`."""
        with self._counted(now) as (db, changes):
            held = self._claims.held(db, item)
            if held is None:
                return None
            failures = held.failures + 1
            self._claims.finish(db, held, HostUsage(duration, delay), now, changes)
            log_attempt(db, held, "retry", reason, unix_milliseconds(now))
            db.execute("UPDATE items SET failures = ? WHERE seq = ?", (failures, held.seq))
            if failures >= self._settings.attempts:
                item_rows.end_item(db, held.seq, item_rows.DEAD, unix_milliseconds(now), reason)
                changes.moved(held.job_id, ItemState.CLAIMED, ItemState.DEAD)
                return ItemState.DEAD
            due = not_before or retry_at(now, failures, self._settings)
            self._moves.delay(db, held.seq, held.host_id, due, changes, now=now)
            changes.moved(held.job_id, ItemState.CLAIMED, ItemState.QUEUED)
        return ItemState.QUEUED

    def fail(
        self,
        item: FrontierItem,
        *,
        now: datetime,
        reason: str,
        duration: timedelta | None = None,
        delay: timedelta | None = None,
    ) -> bool:
        """See `Frontier.fail`."""
        return self._end(item, now, item_rows.DEAD, reason, HostUsage(duration, delay))

    def skip(
        self,
        item: FrontierItem,
        *,
        now: datetime,
        reason: str,
        duration: timedelta | None = None,
        delay: timedelta | None = None,
    ) -> bool:
        """See `Frontier.skip`."""
        return self._end(item, now, item_rows.SKIPPED, reason, HostUsage(duration, delay))

    def _end(
        self, item: FrontierItem, now: datetime, ended: int, reason: str, usage: HostUsage
    ) -> bool:
        with self._counted(now) as (db, changes):
            held = self._claims.held(db, item)
            if held is None:
                return False
            self._claims.finish(db, held, usage, now, changes)
            if ended == item_rows.DEAD:
                log_attempt(db, held, "fail", reason, unix_milliseconds(now))
            item_rows.end_item(db, held.seq, ended, unix_milliseconds(now), reason)
            changes.moved(held.job_id, ItemState.CLAIMED, item_rows.ENDED[ended])
        return True

    def release(
        self,
        item: FrontierItem,
        *,
        now: datetime,
        reason: str = "",
        not_before: datetime | None = None,
    ) -> bool:
        """See `Frontier.release`."""
        with self._counted(now) as (db, changes):
            held = self._claims.held(db, item)
            if held is None:
                return False
            self._claims.free(db, held, HOST_NOT_ASKED, now, changes)
            if reason:
                log_attempt(db, held, "release", reason, unix_milliseconds(now))
            if not_before is None:
                self._moves.push(db, held.seq, held.host_id, Lane(held.lane), held.place)
            else:
                self._moves.delay(db, held.seq, held.host_id, not_before, changes, now=now)
            changes.moved(held.job_id, ItemState.CLAIMED, ItemState.QUEUED)
        return True

    def discard(self, urls: Iterable[str], *, now: datetime, reason: str) -> int:
        """See `Frontier.discard`."""
        identities = [item_rows.identity_of(url) for url in urls]
        with self._counted(now) as (db, changes):
            return sum(
                self._moves.discard(db, identity, unix_milliseconds(now), reason, changes)
                for identity in identities
            )

    def rest(self, hosts: Mapping[str, datetime], *, now: datetime) -> None:
        """See `Frontier.rest`."""
        latest = now + self._moves.longest_rest
        with self._counted(now) as (db, changes):
            for host, moment in hosts.items():
                slot = host_slots.slot_by_name(db, host)
                if slot is not None:
                    until_ms = unix_milliseconds_ceil(min(moment, latest))
                    self._moves.save(db, slot.rested(until_ms), slot)
                    changes.rested(until_ms)

    def block_until(self, host: str, moment: datetime, reason: str, *, now: datetime) -> None:
        """See `Frontier.block_until`."""
        # A moment that is `now` must not become a later one by rounding.
        until_ms = unix_milliseconds_ceil(moment) if moment > now else unix_milliseconds(now)
        with self._counted(now) as (db, changes):
            slot = self._moves.slot_of(db, host, changes)
            blocked = slot.blocked(until_ms, unix_milliseconds(now))
            if blocked is not slot:
                self._moves.save(db, blocked, slot)
                host_slots.save_block(db, blocked, reason)
                host_slots.save_back_off(db, slot.id, 0)

    def back_off(
        self,
        host: str,
        reason: str,
        *,
        now: datetime,
        at_least: datetime | None = None,
        down: bool = False,
    ) -> datetime:
        """See `Frontier.back_off`."""
        if at_least is not None:
            at_least = min(at_least, now + longest_back_off(self._politeness))
        with self._counted(now) as (db, changes):
            slot = self._moves.slot_of(db, host, changes)
            if down and slot.refusals + 1 >= self._politeness.host_failures:
                until = now + timedelta(seconds=self._politeness.host_down_s)
                after = slot.downed(unix_milliseconds_ceil(max(until, at_least or until)))
            else:
                until = host_retry_at(now, slot.refusals + 1, self._politeness)
                after = slot.refused(unix_milliseconds_ceil(max(until, at_least or until)))
            self._moves.save(db, after, slot)
            host_slots.save_block(db, after, reason)
            if after.blocked_ms != slot.blocked_ms:
                host_slots.save_back_off(db, slot.id, after.blocked_ms)
        return to_moment(after.down_ms or after.blocked_ms)

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
            paused, rest_ms = db.execute("SELECT paused, rest_ms FROM totals").fetchone()
            moments = [
                *(host_slots.earliest_turn(db, lane) for lane in Lane),
                db.execute("SELECT min(due_ms) FROM later").fetchone()[0],
                db.execute("SELECT min(due_ms) FROM due").fetchone()[0],
                db.execute("SELECT min(lease_ms) FROM claims").fetchone()[0],
            ]
        earliest = min((each for each in moments if each is not None), default=None)
        if paused is not None or earliest is None:
            return None
        if rest_ms > unix_milliseconds(now) + self._moves.rest_limit_ms:
            return now  # the clock was put back: a claim will cut the rests
        return max(now, to_moment(earliest))
