"""Frontier in one SQLite file, which several processes may use at once; and the choice of the frontier's backend."""

import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Unpack
from uuid import UUID, uuid4

from core.config.settings import FrontierSettings, PolitenessSettings
from core.layout import Layout
from core.timestamps import from_unix_milliseconds as to_moment
from core.timestamps import unix_milliseconds, unix_milliseconds_ceil
from core.urls import host_of
from crawler.frontier import base, host_slots
from crawler.frontier.item_records import FrontierRecords
from crawler.frontier.sqlite_database import MINUTE_MS, MINUTES_KEPT, FrontierDatabase, identity_of, last_seq
from crawler.frontier.transitions import FrontierTransaction, IncomingItem, rest_limit_ms

_NOTES_TIDIED = 8  # maximum number of expired notes that one write deletes: more than it adds, so that few remain


class SqliteFrontier(FrontierRecords):
    """`Frontier` at `path`, created when missing; `new_id` makes page ids, `rng` draws places for random order."""

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
        self._transitions = partial(
            FrontierTransaction,
            politeness=self._politeness,
            settings=self._settings,
            new_id=new_id,
            rng=rng or random.Random(),  # noqa: S311 no secret, only an order
        )
        self._store = FrontierDatabase(path)

    def close(self) -> None:
        self._store.close()

    @contextmanager
    def _moving(self, now: datetime, *, durable: bool = False) -> Iterator[FrontierTransaction]:
        """Open a transaction whose counts are written at its end."""
        with self._store.transaction(durable=durable) as db:
            moves = self._transitions(db, now)
            yield moves
            moves.changes.write(db, moves.now_ms)

    def add(self, items: Iterable[base.NewItem], *, now: datetime, again: timedelta | None = None) -> base.AddResult:
        """See `Frontier.add`. One commit, on disk before it returns."""
        offered = 0
        wanted: dict[bytes, IncomingItem] = {}
        for item in items:
            offered += 1
            identity = identity_of(item.url)
            offer = IncomingItem(offered, identity, item, item.host or host_of(item.url))
            wanted.setdefault(identity, offer)
        if not offered:
            return base.AddResult()
        fresh: list[IncomingItem] = []
        known: list[IncomingItem] = []
        with self._moving(now, durable=True) as moves:
            last = last_seq(moves.db)
            # In the order of the filter's keys, so that neighbours share a page.
            for _, offer in sorted(wanted.items(), key=itemgetter(0)):
                seq = last + offer.seq
                entered = moves.db.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (offer.identity, seq))
                (fresh if entered.rowcount else known).append(offer._replace(seq=seq))
            requeued = [] if again is None else moves.again(known, again)
            moves.enqueue(sorted(fresh + requeued, key=itemgetter(0)))
            duplicates = offered - len(fresh) - len(requeued)
            moves.changes.count("duplicates", duplicates)
        return base.AddResult(added=len(fresh), duplicates=duplicates, requeued=len(requeued))

    def claim(self, *, now: datetime, worker: str, limit: int = 1) -> list[base.FrontierItem]:
        claimed: list[base.FrontierItem] = []
        with self._moving(now) as moves:
            paused, token = moves.db.execute("SELECT paused, token FROM totals").fetchone()
            if paused is not None:
                return []
            moves.tidy()
            while len(claimed) < limit:
                token += 1
                ready = moves.first_ready(token)
                if ready is None:
                    break
                claimed.append(moves.take(ready, token, worker))
            moves.changes.count("token", len(claimed))
        return claimed

    def renew(self, item: base.FrontierItem, *, now: datetime) -> bool:
        with self._moving(now) as moves:
            if moves.held(item) is None:
                return False
            moves.db.execute(
                "UPDATE claims SET renewed_ms = max(renewed_ms, ?), lease_ms = max(lease_ms, ?) WHERE token = ?",
                (moves.now_ms, moves.lease_end_ms, item.token),
            )
        return True

    def complete(
        self, item: base.FrontierItem, *, now: datetime, outcome: str, **visit: Unpack[base.CompletedVisit]
    ) -> bool:
        stored_bytes, due, memo = visit.get("stored_bytes", 0), visit.get("due"), visit.get("memo", "")
        with self._moving(now) as moves:
            held = moves.held(item)
            if held is None:
                return False
            moves.finish(held, visit, completed=True, stored_bytes=stored_bytes)
            moves.end(held, base.ItemState.DONE, outcome)
            moves.changes.stored(held.job_id, stored_bytes)
            if memo != item.memo:
                moves.db.execute("UPDATE items SET memo = ? WHERE seq = ?", (memo, held.seq))
            if due is not None:
                moves.db.execute("INSERT INTO due VALUES (?, ?)", (unix_milliseconds_ceil(due), held.seq))
                moves.changes.count("due")
        return True

    def retry(
        self, item: base.FrontierItem, *, now: datetime, reason: str, **visit: Unpack[base.FailedVisit]
    ) -> base.ItemState | None:
        with self._moving(now) as moves:
            held = moves.held(item)
            if held is None:
                return None
            failures = held.failures + 1
            moves.finish(held, visit)
            moves.log_attempt(held, "retry", reason)
            moves.db.execute("UPDATE items SET failures = ? WHERE seq = ?", (failures, held.seq))
            if failures >= self._settings.attempts:
                moves.end(held, base.ItemState.DEAD, reason)
                return base.ItemState.DEAD
            doubled = host_slots.retry_at(now, failures, self._settings.retry_delay_s)
            moves.requeue(held, visit.get("not_before") or doubled)
        return base.ItemState.QUEUED

    def _bury(
        self, item: base.FrontierItem, state: base.ItemState, now: datetime, reason: str, use: base.HostUse
    ) -> bool:
        with self._moving(now) as moves:
            held = moves.held(item)
            if held is None:
                return False
            moves.finish(held, use)
            if state is base.ItemState.DEAD:
                moves.log_attempt(held, "fail", reason)
            moves.end(held, state, reason)
        return True

    def release(
        self, item: base.FrontierItem, *, now: datetime, reason: str = "", not_before: datetime | None = None
    ) -> bool:
        with self._moving(now) as moves:
            held = moves.held(item)
            if held is None:
                return False
            moves.free(held, {"delay": timedelta(0)}, now)
            if reason:
                moves.log_attempt(held, "release", reason)
            moves.requeue(held, not_before)
        return True

    def discard(self, urls: Iterable[str], *, now: datetime, reason: str) -> int:
        identities = [identity_of(url) for url in urls]
        with self._moving(now) as moves:
            return sum(moves.discard(identity, reason) for identity in identities)

    def rest(self, hosts: Mapping[str, datetime], *, now: datetime) -> None:
        with self._moving(now) as moves:
            for host, moment in hosts.items():
                moves.rest(host, moment)

    def block_until(self, host: str, moment: datetime, reason: str, *, now: datetime) -> None:
        # A moment that is `now` must not become a later one by rounding.
        until_ms = unix_milliseconds_ceil(moment) if moment > now else unix_milliseconds(now)
        with self._moving(now) as moves:
            slot = moves.slot_of(host)
            blocked = slot.blocked(until_ms, moves.now_ms)
            if blocked is not slot:
                moves.save(blocked, slot)
                host_slots.save_block(moves.db, blocked, reason)
                host_slots.save_back_off(moves.db, slot.id, 0)

    def back_off(self, failure: base.HostBackOff, *, now: datetime) -> datetime:
        host, reason, at_least, down, blocks = failure
        p = self._politeness
        if at_least is not None:
            at_least = min(at_least, now + host_slots.longest_back_off(p))
        with self._moving(now) as moves:
            slot = moves.slot_of(host)
            until, failures = now, slot.refusals + 1
            if is_down := down and failures >= p.host_failures:
                until += timedelta(seconds=p.host_down_s)
            elif blocks:
                until = host_slots.retry_at(now, failures, p.host_retry_s, p.host_retry_limit_s)
            until_ms = unix_milliseconds_ceil(max(until, at_least or until))
            after = slot.downed(until_ms) if is_down else slot.refused(until_ms)
            moves.save(after, slot)
            host_slots.save_block(moves.db, after, reason)
            if after.blocked_ms != slot.blocked_ms:
                host_slots.save_back_off(moves.db, slot.id, after.blocked_ms)
        return to_moment(after.down_ms or after.blocked_ms)

    def pause(self, reason: str) -> None:
        with self._store.transaction() as db:
            db.execute("UPDATE totals SET paused = ?", (reason,))

    def resume(self) -> None:
        with self._store.transaction() as db:
            db.execute("UPDATE totals SET paused = NULL")

    def next_wakeup(self, now: datetime) -> datetime | None:
        with self._store.reading() as db:
            paused, rest_ms = db.execute("SELECT paused, rest_ms FROM totals").fetchone()
            moments = [
                db.execute(f"SELECT min({moment}) FROM {source}").fetchone()[0]  # noqa: S608 constants
                for moment, source in (
                    *(("ready_ms", f"hosts WHERE lane = {lane.value}") for lane in base.Lane),
                    *(("due_ms", "later"), ("due_ms", "due"), ("lease_ms", "claims")),
                )
            ]
        earliest = min((each for each in moments if each is not None), default=None)
        if paused is not None or earliest is None:
            return None
        if rest_ms > unix_milliseconds(now) + rest_limit_ms(self._politeness):
            return now  # the clock was put back: a claim will cut the rests
        return max(now, to_moment(earliest))

    def stats(self, now: datetime) -> base.FrontierStats:
        with self._store.reading() as db:
            query = "SELECT count(*) FROM claims WHERE lease_ms <= ?"
            (expired,) = db.execute(query, (unix_milliseconds(now),)).fetchone()
            queued, claimed, *rest = db.execute(
                "SELECT queued, claimed, done, skipped, dead, later, due, duplicates, hosts, "
                "bytes, version, paused FROM totals"
            ).fetchone()
        return base.FrontierStats(queued + expired, claimed - expired, *rest)

    def counts(self) -> dict[base.ItemState, int]:
        with self._store.reading() as db:
            numbers = db.execute("SELECT queued, claimed, done, skipped, dead FROM totals")
            return dict(zip(base.ItemState, numbers.fetchone(), strict=True))

    def job_counts(self, job: str) -> base.JobCounts:
        with self._store.reading() as db:
            row = db.execute(
                "SELECT queued, claimed, done, skipped, dead, bytes, began_ms FROM jobs WHERE job = ?", (job,)
            ).fetchone()
        return base.JobCounts(0, 0, 0, 0, 0, 0, None) if row is None else base.JobCounts(*[*row[:6], to_moment(row[6])])

    def minutes(self, now: datetime, *, count: int = 60) -> Sequence[base.MinuteCounts]:
        last = unix_milliseconds(now) // MINUTE_MS
        first = last + 1 - max(min(count, MINUTES_KEPT), 0)
        with self._store.reading() as db:
            rows = db.execute(
                "SELECT minute, done, skipped, dead, bytes FROM minutes WHERE minute BETWEEN ? AND ?", (first, last)
            )
            counts = {row[0]: row[1:] for row in rows}
        return [
            base.MinuteCounts(to_moment(minute * MINUTE_MS), *counts.get(minute, (0, 0, 0, 0)))
            for minute in range(first, last + 1)
        ]

    def blocks(self, *, now: datetime, limit: int = 100) -> Sequence[base.HostBlock]:
        with self._store.reading() as db:
            rows = db.execute(
                "SELECT host, blocked_ms, blocked_reason FROM hosts "
                "WHERE blocked_ms > 0 AND blocked_ms > ? ORDER BY blocked_ms DESC LIMIT ?",
                (unix_milliseconds(now), limit),
            )
            return [base.HostBlock(host, to_moment(until), reason) for host, until, reason in rows]

    def give_order(self, kind: str, key: str, value: str) -> int:
        with self._store.transaction(durable=True) as db:
            db.execute("INSERT OR REPLACE INTO orders VALUES (?, ?, ?)", (kind, key, value))
            return _raise_version(db)

    def take_back(self, kind: str, key: str) -> bool:
        with self._store.transaction(durable=True) as db:
            cursor = db.execute("DELETE FROM orders WHERE kind = ? AND key = ?", (kind, key))
            if cursor.rowcount:
                _raise_version(db)
            return cursor.rowcount == 1

    def orders(self, kind: str) -> dict[str, str]:
        with self._store.reading() as db:
            return dict(db.execute("SELECT key, value FROM orders WHERE kind = ? ORDER BY key", (kind,)))

    def put_note(
        self, kind: str, key: str, value: str, *, now: datetime, until: datetime | None = None, is_claim: bool = False
    ) -> bool:
        """See `Frontier.put_note`; deletes some expired ones."""
        until_ms = None if until is None else unix_milliseconds_ceil(until)
        with self._store.transaction() as db:
            held = "SELECT 1 FROM notes WHERE kind = ? AND key = ? AND value != ? AND ifnull(until_ms > ?, 1)"
            if is_claim and db.execute(held, (kind, key, value, unix_milliseconds(now))).fetchone():
                return False
            db.execute(
                "DELETE FROM notes WHERE rowid IN "
                "(SELECT rowid FROM notes WHERE until_ms IS NOT NULL AND until_ms <= ? LIMIT ?)",
                (unix_milliseconds(now), _NOTES_TIDIED),
            )
            db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?, ?)", (kind, key, value, until_ms))
        return True

    def note(self, kind: str, key: str, *, now: datetime) -> str | None:
        with self._store.reading() as db:
            row = db.execute(
                "SELECT value FROM notes WHERE kind = ? AND key = ? AND (until_ms IS NULL OR until_ms > ?)",
                (kind, key, unix_milliseconds(now)),
            ).fetchone()
        return None if row is None else str(row[0])

    def notes(self, kind: str, *, now: datetime) -> dict[str, str]:
        with self._store.reading() as db:
            return dict(
                db.execute(
                    "SELECT key, value FROM notes WHERE kind = ? AND (until_ms IS NULL OR until_ms > ?) ORDER BY key",
                    (kind, unix_milliseconds(now)),
                )
            )

    def erase_note(self, kind: str, key: str) -> None:
        with self._store.transaction() as db:
            db.execute("DELETE FROM notes WHERE kind = ? AND key = ?", (kind, key))


def _raise_version(db: sqlite3.Connection) -> int:
    return int(db.execute("UPDATE totals SET version = version + 1 RETURNING version").fetchone()[0])


def open_frontier(
    layout: Layout, settings: FrontierSettings, politeness: PolitenessSettings, *, server_time: bool = True
) -> base.Frontier:
    """Open the frontier of `settings.url`, or the collection's own; errors as theirs, ConfigError for a bad `url`."""
    if not settings.url:
        return SqliteFrontier(layout.frontier_db, politeness=politeness, settings=settings)
    from core.config.database_urls import RedisUse, parse_redis_url
    from crawler.frontier.redis_frontier import RedisFrontier  # loads the Redis client

    address = parse_redis_url(settings.url, RedisUse.FRONTIER)
    return RedisFrontier(address, politeness=politeness, settings=settings, server_time=server_time)
