"""The frontier in one SQLite file, which several processes may use at once."""

import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Self
from uuid import UUID, uuid4

from core.settings import FrontierSettings, PolitenessSettings
from core.timestamps import milliseconds, milliseconds_up
from core.timestamps import moment as to_moment
from core.urls import host_of
from crawler.frontier import books, slot_rows
from crawler.frontier.base import (
    AddResult,
    FrontierItem,
    ItemState,
    Lane,
    NewItem,
)
from crawler.frontier.books import Offer, Wanted
from crawler.frontier.claims import NOT_ASKED, Claims, Usage, log
from crawler.frontier.moves import Moves
from crawler.frontier.sqlite_reports import SqliteReports
from crawler.frontier.store import Store
from crawler.frontier.tally import Tally
from crawler.politeness import host_retry_at, longest_back_off, retry_at


class SqliteFrontier(SqliteReports):
    """A `Frontier` at `path`, made when it is missing; its folder must exist.

    Args:
        path: the file (`core.layout.Layout.frontier_db`).
        politeness: how gently hosts are asked.
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
        self._moves = Moves(self._politeness, self._settings, new_id, rng)
        self._claims = Claims(self._moves)
        self._store = Store(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    @contextmanager
    def _counted(self, now: datetime) -> Iterator[tuple[sqlite3.Connection, Tally]]:
        """A transaction whose counts are written at its end."""
        changes = Tally()
        with self._store.transaction() as db:
            yield db, changes
            changes.write(db, milliseconds(now))

    def add(
        self, items: Iterable[NewItem], *, now: datetime, again: timedelta | None = None
    ) -> AddResult:
        """See `Frontier.add`. One commit, on disk before it returns."""
        now_ms = milliseconds(now)
        offered = 0
        wanted: dict[bytes, tuple[int, Offer]] = {}
        for item in items:
            offered += 1
            offer = Offer(item, item.host or host_of(item.url))
            wanted.setdefault(books.identity_of(item.url), (offered, offer))
        if not offered:
            return AddResult()
        changes = Tally()
        with self._store.transaction(durable=True) as db:
            last = books.last_seq(db)
            # In the order of the filter's keys, so that neighbours share a page.
            fresh, known = books.sift(
                db,
                (
                    books.Candidate(identity, last + place, offer)
                    for identity, (place, offer) in sorted(wanted.items(), key=itemgetter(0))
                ),
            )
            queued = [Wanted(seq, offer) for _, seq, offer in fresh]
            if again is not None:
                queued += self._moves.again(db, known, again, now_ms, changes)
            self._moves.enqueue(db, sorted(queued, key=itemgetter(0)), now_ms, changes)
            duplicates = offered - len(queued)
            changes.count("duplicates", duplicates)
            changes.write(db, now_ms)
        return AddResult(added=len(fresh), duplicates=duplicates, requeued=len(queued) - len(fresh))

    def claim(self, *, now: datetime, worker: str, limit: int = 1) -> list[FrontierItem]:
        """See `Frontier.claim`."""
        now_ms = milliseconds(now)
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
        now_ms = milliseconds(now)
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
            usage = Usage(duration, delay, stored_bytes)
            self._claims.finish(db, held, usage, now, changes, completed=True)
            books.end(db, held.seq, books.DONE, milliseconds(now), outcome)
            changes.moved(held.job_id, ItemState.CLAIMED, ItemState.DONE)
            changes.stored(held.job_id, stored_bytes)
            if memo != item.memo:
                db.execute("UPDATE items SET memo = ? WHERE seq = ?", (memo, held.seq))
            if due is not None:
                db.execute("INSERT INTO due VALUES (?, ?)", (milliseconds_up(due), held.seq))
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
            self._claims.finish(db, held, Usage(duration, delay), now, changes)
            log(db, held, "retry", reason, milliseconds(now))
            db.execute("UPDATE items SET failures = ? WHERE seq = ?", (failures, held.seq))
            if failures >= self._settings.attempts:
                books.end(db, held.seq, books.DEAD, milliseconds(now), reason)
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
        return self._end(item, now, books.DEAD, reason, Usage(duration, delay))

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
        return self._end(item, now, books.SKIPPED, reason, Usage(duration, delay))

    def _end(
        self, item: FrontierItem, now: datetime, ended: int, reason: str, usage: Usage
    ) -> bool:
        with self._counted(now) as (db, changes):
            held = self._claims.held(db, item)
            if held is None:
                return False
            self._claims.finish(db, held, usage, now, changes)
            if ended == books.DEAD:
                log(db, held, "fail", reason, milliseconds(now))
            books.end(db, held.seq, ended, milliseconds(now), reason)
            changes.moved(held.job_id, ItemState.CLAIMED, books.ENDED[ended])
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
            self._claims.free(db, held, NOT_ASKED, now, changes)
            if reason:
                log(db, held, "release", reason, milliseconds(now))
            if not_before is None:
                self._moves.push(db, held.seq, held.host_id, Lane(held.lane), held.place)
            else:
                self._moves.delay(db, held.seq, held.host_id, not_before, changes, now=now)
            changes.moved(held.job_id, ItemState.CLAIMED, ItemState.QUEUED)
        return True

    def discard(self, urls: Iterable[str], *, now: datetime, reason: str) -> int:
        """See `Frontier.discard`."""
        identities = [books.identity_of(url) for url in urls]
        with self._counted(now) as (db, changes):
            return sum(
                self._moves.discard(db, identity, milliseconds(now), reason, changes)
                for identity in identities
            )

    def rest(self, hosts: Mapping[str, datetime], *, now: datetime) -> None:
        """See `Frontier.rest`."""
        latest = now + self._moves.longest_rest
        with self._counted(now) as (db, changes):
            for host, moment in hosts.items():
                slot = slot_rows.by_name(db, host)
                if slot is not None:
                    until_ms = milliseconds_up(min(moment, latest))
                    self._moves.save(db, slot.rested(until_ms), slot)
                    changes.rested(until_ms)

    def block_until(self, host: str, moment: datetime, reason: str, *, now: datetime) -> None:
        """See `Frontier.block_until`."""
        # A moment that is `now` must not become a later one by rounding.
        until_ms = milliseconds_up(moment) if moment > now else milliseconds(now)
        with self._counted(now) as (db, changes):
            slot = self._moves.slot_of(db, host, changes)
            blocked = slot.blocked(until_ms, milliseconds(now))
            if blocked is not slot:
                self._moves.save(db, blocked, slot)
                slot_rows.save_block(db, blocked, reason)
                slot_rows.save_back_off(db, slot.id, 0)

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
                after = slot.downed(milliseconds_up(max(until, at_least or until)))
            else:
                until = host_retry_at(now, slot.refusals + 1, self._politeness)
                after = slot.refused(milliseconds_up(max(until, at_least or until)))
            self._moves.save(db, after, slot)
            slot_rows.save_block(db, after, reason)
            if after.blocked_ms != slot.blocked_ms:
                slot_rows.save_back_off(db, slot.id, after.blocked_ms)
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
                *(slot_rows.earliest(db, lane) for lane in Lane),
                db.execute("SELECT min(due_ms) FROM later").fetchone()[0],
                db.execute("SELECT min(due_ms) FROM due").fetchone()[0],
                db.execute("SELECT min(lease_ms) FROM claims").fetchone()[0],
            ]
        earliest = min((each for each in moments if each is not None), default=None)
        if paused is not None or earliest is None:
            return None
        if rest_ms > milliseconds(now) + self._moves.rest_limit_ms:
            return now  # the clock was put back: a claim will cut the rests
        return max(now, to_moment(earliest))
