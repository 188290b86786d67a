"""State transitions of items in the SQLite frontier: queueing, claiming, ending, expiry."""

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from core.config.settings import FrontierSettings, PolitenessSettings
from core.errors import InvariantError
from core.timestamps import from_unix_milliseconds as to_moment
from core.timestamps import unix_milliseconds, unix_milliseconds_ceil
from crawler.frontier import base, host_slots, sqlite_database

TIDY_LIMIT = 1_000  # items of a kind that one claim cleans up, so that it stays short after a pause; the rest follows

_MILLISECOND = timedelta(milliseconds=1)
_PLACE_BITS = 31
_MARGIN_MS = base.CLOCK_MARGIN // _MILLISECOND


class IncomingItem(NamedTuple):
    """URL to queue: its number, hashed identity key and slot key, and the memo of an earlier visit."""

    seq: int
    identity: bytes
    item: base.NewItem
    host: str
    memo: str = ""


class ClaimRow(NamedTuple):
    """Stored claim."""

    token: int
    seq: int
    id: bytes
    host_id: int
    job_id: int
    lane: int
    place: int
    worker: str
    claimed_ms: int
    renewed_ms: int
    attempts: int
    failures: int


_CLAIM_ROW = """
SELECT c.token, c.seq, i.id, i.host_id, i.job_id, i.lane, i.place, c.worker, c.claimed_ms,
       c.renewed_ms, i.attempts, i.failures
FROM claims AS c JOIN items AS i ON i.seq = c.seq
"""
_CLAIMED_ITEM = (  # the host is known to the caller, which saves a join with each claim
    f"SELECT {sqlite_database.ITEM_COLUMNS.replace('h.host', '?')}, j.id "  # noqa: S608 constants
    "FROM items AS i JOIN jobs AS j ON j.id = i.job_id WHERE i.seq = ?"
)


def rest_limit_ms(politeness: PolitenessSettings) -> int:
    """Return how far off a delay's end may be, in milliseconds, unless the clock was put back."""
    return (host_slots.longest_rest(politeness) + base.CLOCK_SLACK) // _MILLISECOND


@dataclass(eq=False, repr=False)
class FrontierTransaction:
    """Transitions within one transaction, which keep slots consistent with queues; `changes` counts them."""

    db: sqlite3.Connection
    now: datetime
    _: KW_ONLY
    politeness: PolitenessSettings
    settings: FrontierSettings
    new_id: Callable[[], UUID]
    rng: random.Random
    changes: sqlite_database.CountChanges = field(default_factory=sqlite_database.CountChanges, init=False)

    def __post_init__(self) -> None:
        self.now_ms = unix_milliseconds(self.now)
        self._random = self.settings.order == "random"
        self.lease_end_ms = self.now_ms + round(self.settings.lease_s * 1000)  # of a lease that begins now
        self._longest_back_off_ms = host_slots.longest_back_off(self.politeness) // _MILLISECOND

    def save(self, slot: host_slots.HostSlot, old: host_slots.HostSlot) -> None:
        """Settle a slot and write its changes."""
        host_slots.save_slot(self.db, slot.settled(self.politeness.visits_per_host), old)

    def slot_of(self, host: str) -> host_slots.HostSlot:
        """Return the host's slot, created if need be."""
        slot = host_slots.slot_by_name(self.db, host)
        if slot is None:
            self.changes.count("hosts")
            slot = host_slots.create_slot(self.db, host, -self._place())
        return slot

    def _place(self) -> int:
        """Return the place of a new item or host: random in random order, else 0."""
        return self.rng.getrandbits(_PLACE_BITS) + 1 if self._random else 0

    def again(self, known: Iterable[IncomingItem], age: timedelta) -> list[IncomingItem]:
        """Return offers for known URLs that ended at least `age` ago; open ones move to a higher lane.

        One that ended in the future did so before the clock was put back, so it is old enough.
        """
        latest_ms = self.now_ms - -(-age // _MILLISECOND)
        limit_ms = self.now_ms + _MARGIN_MS
        requeued = []
        for offer in known:
            old = sqlite_database.locate_item(self.db, offer.identity)
            if old is None:
                raise InvariantError("The filter of unique URLs knows a URL that has no item.")
            if old.ended:
                if age <= timedelta(0) or not latest_ms < (old.ended_ms or 0) <= limit_ms:
                    self._supersede(offer.identity, old.seq, offer.seq)
                    self.changes.moved(old.job_id, sqlite_database.ENDED[old.ended], None)
                    requeued.append(offer._replace(memo=old.memo))
            elif offer.item.lane < old.lane:
                # A claimed or delayed item moves when it is queued next.
                lane = offer.item.lane
                self.db.execute("UPDATE items SET lane = ? WHERE seq = ?", (lane, old.seq))
                if self._pull(old):
                    self.push(old.seq, old.host_id, lane, old.place)
        return requeued

    def _supersede(self, identity: bytes, old: int, seq: int) -> None:
        """Make number `seq` the URL's item; the ended item becomes history."""
        self.db.execute("UPDATE seen SET seq = ? WHERE identity = ?", (seq, identity))
        self.db.execute("UPDATE items SET ended = ? WHERE seq = ?", (sqlite_database.SUPERSEDED, old))
        self._undue(old)

    def _undue(self, seq: int) -> bool:
        """Delete the due date of a done item; False when it had none."""
        removed = self.db.execute("DELETE FROM due WHERE seq = ?", (seq,)).rowcount
        self.changes.count("due", -removed)
        return removed == 1

    def enqueue(self, offers: list[IncomingItem]) -> None:
        """Write the offers' items and queue them, and create jobs and slots of new hosts."""
        hosts: dict[str, int] = {}
        for (host, lane), count in Counter((each.host, each.item.lane) for each in offers).items():
            grown = host_slots.extend_lane(self.db, host, lane, count)
            if grown is None:
                slot = self.slot_of(host)
                epoch = 0 if self._random else host_slots.epoch_of(offers[0].seq)
                self.save(slot.pushed(lane, epoch, count), slot)
                grown = slot.id
            hosts[host] = grown
        jobs: dict[str, int] = {}
        for job, count in Counter(offer.item.job for offer in offers).items():
            row = self.db.execute("SELECT id FROM jobs WHERE job = ?", (job,)).fetchone()
            if row is None:  # a new job begins now
                sql = "INSERT INTO jobs (job, began_ms) VALUES (?, ?)"
                row = (self.db.execute(sql, (job, self.now_ms)).lastrowid,)
            jobs[job] = int(row[0])
            self.changes.moved(jobs[job], None, base.ItemState.QUEUED, count)
        items = []
        queue = []
        for seq, _, item, host, memo in offers:
            place, host_id, lane = self._place(), hosts[host], item.lane
            queue.append((lane, host_slots.epoch_of(seq, place), host_id, place, seq))
            columns = seq, self.new_id().bytes, item.url, host_id, jobs[item.job], lane, place
            items.append((*columns, item.hops, item.hops_off, item.via, memo, self.now_ms))
        self.db.executemany(
            "INSERT INTO items (seq, id, url, host_id, job_id, lane, place, hops, hops_off, via, "
            "memo, added_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            items,
        )
        self.db.executemany("INSERT INTO queue VALUES (?, ?, ?, ?, ?)", sorted(queue))

    def push(self, seq: int, host_id: int, lane: base.Lane, place: int) -> None:
        """Return an item to its place in its host's queue."""
        epoch = host_slots.epoch_of(seq, place)
        self.db.execute("INSERT INTO queue VALUES (?, ?, ?, ?, ?)", (lane, epoch, host_id, place, seq))
        slot = host_slots.slot_by_id(self.db, host_id)
        self.save(slot.pushed(lane, epoch), slot)

    def _pull(self, item: sqlite_database.ItemLocation) -> bool:
        """Remove an item from its host's queue; False when it is not in there."""
        if not sqlite_database.remove_from_queue(self.db, item.lane, item.host_id, item.place, item.seq):
            return False
        slot = host_slots.slot_by_id(self.db, item.host_id)
        self.save(slot.pulled(base.Lane(item.lane), slot.heads[item.lane]), slot)
        return True

    def discard(self, identity: bytes, reason: str) -> bool:
        """Skip a queued item, or delete a done one's due date; False when neither applies."""
        old = sqlite_database.locate_item(self.db, identity)
        if old is None:
            return False
        if old.ended:
            return self._undue(old.seq)
        if not self._pull(old):
            removed = self.db.execute("DELETE FROM later WHERE seq = ?", (old.seq,)).rowcount
            if not removed:
                return False
            self.changes.count("later", -1)
        self._end_item(old.seq, sqlite_database.SKIPPED, reason)
        self.changes.moved(old.job_id, base.ItemState.QUEUED, base.ItemState.SKIPPED)
        return True

    def first_ready(self, token: int) -> tuple[str, host_slots.HostSlot, base.Lane] | None:
        """Return host, slot and lane that the claim with that token takes from."""
        order = host_slots.lane_order(
            token, high_every=self.settings.high_every, standard_every=self.settings.standard_every
        )
        while (ready := host_slots.first_ready(self.db, order, self.now_ms, token)) is not None:
            host, slot = ready
            latest_ms = self.now_ms + self._longest_back_off_ms
            if slot.down_ms > latest_ms + _MARGIN_MS:
                slot = slot._replace(down_ms=latest_ms)
                host_slots.save_refusals(self.db, slot)
            if not 0 < slot.down_ms <= self.now_ms:
                lane = slot.first_lane(order)
                if lane is None:
                    raise InvariantError(f"{host} is ready, but nothing waits for it.")
                return host, slot, lane
            # "Down" is over but not processed yet: the host is delayed as any other.
            host_slots.save_refusals(self.db, slot.revived())
            self.save(slot.revived(), slot)
        return None

    def take(self, ready: tuple[str, host_slots.HostSlot, base.Lane], token: int, worker: str) -> base.FrontierItem:
        """Claim the host's first item in that lane."""
        host, slot, lane = ready
        place, seq = sqlite_database.first_in_queue(self.db, lane, slot.heads[lane], slot.id)
        sqlite_database.remove_from_queue(self.db, lane, slot.id, place, seq)
        self.save(slot.pulled(lane, host_slots.epoch_of(seq, place)).taken(), slot)
        self.db.execute(
            "INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?, ?)",
            (token, seq, slot.id, worker, self.now_ms, self.now_ms, self.lease_end_ms),
        )
        is_down = slot.down_ms > self.now_ms
        query = "SELECT blocked_reason FROM hosts WHERE id = ?"
        down = self.db.execute(query, (slot.id,)).fetchone()[0] or "down" if is_down else ""
        *row, job_id = self.db.execute(_CLAIMED_ITEM, (host, seq)).fetchone()
        self.changes.moved(job_id, base.ItemState.QUEUED, base.ItemState.CLAIMED)
        return sqlite_database.frontier_item(row, token, down)

    def held(self, item: base.FrontierItem) -> ClaimRow | None:
        """Return the claim of the item's token; None when it is void."""
        row = self.db.execute(f"{_CLAIM_ROW} WHERE c.token = ?", (item.token,)).fetchone()
        held = None if row is None else ClaimRow._make(row)
        return held if held is not None and held.id == UUID(item.id).bytes else None

    def finish(self, held: ClaimRow, use: base.HostUse, *, completed: bool = False, stored_bytes: int = 0) -> None:
        """End a claim that counts as an attempt; add the visit to the host's statistics."""
        took = self.free(held, use, self.now, answered=completed)
        if took is not None:
            host_slots.count_visit(self.db, held.host_id, took, done=int(completed), stored_bytes=stored_bytes)
        self._count_attempt(held.seq)

    def free(
        self, held: ClaimRow, use: base.HostUse, finished: datetime, *, answered: bool = False
    ) -> timedelta | None:
        """End a claim: void its token, delay its host; return how long that was busy, None without a request."""
        slot = host_slots.slot_by_id(self.db, held.host_id)
        freed = slot.freed()
        took = None
        delay = use.get("delay")
        if delay is None or delay > timedelta(0):
            took = use.get("duration")
            if took is None:
                took = finished - to_moment(held.claimed_ms)
            if delay is None:
                delay = host_slots.host_delay(took, self.politeness)
            freed = self._rested(freed, finished + min(delay, host_slots.longest_rest(self.politeness)))
            if answered and (freed.refusals or freed.down_ms):
                freed = freed._replace(down_ms=0, refusals=0)  # the host is up, and a row of refusals is over
                host_slots.save_refusals(self.db, freed)
        self.save(freed, slot)
        self.db.execute("DELETE FROM claims WHERE token = ?", (held.token,))
        return took

    def rest(self, host: str, moment: datetime) -> None:
        """Delay a host that has a slot until its moment."""
        slot = host_slots.slot_by_name(self.db, host)
        if slot is not None:
            latest = self.now + host_slots.longest_rest(self.politeness)
            self.save(self._rested(slot, min(moment, latest)), slot)

    def _rested(self, slot: host_slots.HostSlot, until: datetime) -> host_slots.HostSlot:
        until_ms = unix_milliseconds_ceil(until)
        self.changes.rested(until_ms)
        return slot.rested(until_ms)

    def requeue(self, held: ClaimRow, not_before: datetime | None) -> None:
        """Return a freed item to its queue, or delay it until its moment, at most `longest_wait`."""
        if not_before is None:
            self.push(held.seq, held.host_id, base.Lane(held.lane), held.place)
        else:
            latest = self.now + host_slots.longest_wait(self.politeness)
            due_ms = unix_milliseconds_ceil(min(not_before, latest))
            self.db.execute("INSERT INTO later VALUES (?, ?, ?)", (due_ms, held.seq, held.host_id))
            self.changes.count("later")
        self.changes.moved(held.job_id, base.ItemState.CLAIMED, base.ItemState.QUEUED)

    def end(self, held: ClaimRow, state: base.ItemState, outcome: str) -> None:
        """Write that a claimed item is done, skipped or dead, with its outcome."""
        self._end_item(held.seq, sqlite_database.ENDED_CODES[state], outcome)
        self.changes.moved(held.job_id, base.ItemState.CLAIMED, state)

    def _end_item(self, seq: int, ended: int, outcome: str) -> None:
        self.db.execute(
            "UPDATE items SET ended = ?, ended_ms = ?, outcome = ? WHERE seq = ?", (ended, self.now_ms, outcome, seq)
        )

    def _count_attempt(self, seq: int) -> None:
        self.db.execute("UPDATE items SET attempts = attempts + 1 WHERE seq = ?", (seq,))

    def log_attempt(self, held: ClaimRow, ending: str, reason: str) -> None:
        """Write a claim that did not complete its item into the log."""
        self.db.execute(
            "INSERT INTO attempts (seq, id, ending, reason, worker, claimed_ms, ended_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (held.seq, held.id, ending, reason, held.worker, held.claimed_ms, self.now_ms),
        )

    # Tidying up

    def tidy(self) -> None:
        """Queue items whose moment has come; cut waits that are too long since the clock was put back."""
        # Limit the wait to its maximum: the clock may have been set back since it began.
        limit_ms = self.now_ms + rest_limit_ms(self.politeness)
        if self.db.execute("SELECT rest_ms FROM totals").fetchone()[0] > limit_ms:
            longest_ms = host_slots.longest_rest(self.politeness) // _MILLISECOND
            self.db.execute(
                "UPDATE hosts SET next_ms = :cut, "
                "ready_ms = CASE WHEN down_ms > 0 THEN blocked_ms ELSE max(:cut, blocked_ms) END "
                "WHERE next_ms > :limit",
                {"cut": self.now_ms + longest_ms, "limit": limit_ms},
            )
            self.db.execute("UPDATE totals SET rest_ms = ?", (limit_ms,))
        # No process's own lease reaches so far, unless the clock did: its worker may be long dead.
        self.db.execute(
            "UPDATE claims SET lease_ms = ? WHERE lease_ms > ?", (self.lease_end_ms, self.lease_end_ms + _MARGIN_MS)
        )
        latest_ms = self.now_ms + self._longest_back_off_ms
        far = "SELECT host_id FROM back_offs WHERE until_ms > ? LIMIT ?"
        for (host_id,) in self.db.execute(far, (latest_ms + _MARGIN_MS, TIDY_LIMIT)).fetchall():
            slot = host_slots.slot_by_id(self.db, host_id)
            until_ms = min(slot.blocked_ms, latest_ms)
            self.db.execute("UPDATE hosts SET blocked_ms = ? WHERE id = ?", (until_ms, slot.id))
            host_slots.save_back_off(self.db, slot.id, until_ms)
            self.save(slot._replace(blocked_ms=until_ms), slot)
        latest_ms = self.now_ms + host_slots.longest_wait(self.politeness) // _MILLISECOND
        self.db.execute(
            "UPDATE later SET due_ms = :latest WHERE seq IN "
            "(SELECT seq FROM later WHERE due_ms > :limit ORDER BY due_ms LIMIT :most)",
            {"latest": latest_ms, "limit": latest_ms + _MARGIN_MS, "most": TIDY_LIMIT},
        )
        self._expire_leases()
        rows = self.db.execute(
            "SELECT i.seq, i.host_id, i.lane, i.place FROM later AS l "
            "JOIN items AS i ON i.seq = l.seq WHERE l.due_ms <= ? ORDER BY l.due_ms LIMIT ?",
            (self.now_ms, TIDY_LIMIT),
        ).fetchall()
        for seq, host_id, lane, place in rows:
            self.db.execute("DELETE FROM later WHERE seq = ?", (seq,))
            self.push(seq, host_id, base.Lane(lane), place)
        self.changes.count("later", -len(rows))
        self._queue_due()

    def _expire_leases(self) -> None:
        """Requeue items whose leases expired; end those whose leases expired repeatedly."""
        rows = self.db.execute(
            f"{_CLAIM_ROW} WHERE c.lease_ms <= ? ORDER BY c.lease_ms LIMIT ?", (self.now_ms, TIDY_LIMIT)
        ).fetchall()
        for held in map(ClaimRow._make, rows):
            # The host was last requested when its worker last renewed its lease.
            self.free(held, {}, to_moment(min(held.renewed_ms, self.now_ms)))
            self._count_attempt(held.seq)
            self.log_attempt(held, "expired", "the worker's lease expired")
            if held.attempts + 1 >= base.CLAIMS_PER_ATTEMPT * max(self.settings.attempts, 1):
                self.end(held, base.ItemState.DEAD, "its leases expired repeatedly")
            else:
                self.requeue(held, None)

    def _queue_due(self) -> None:
        """Queue the done items that are due again, as new items in lane HIGH."""
        rows = self.db.execute(
            "SELECT i.seq, i.url, h.host, i.hops, i.via, j.job, i.hops_off, i.memo, i.job_id "
            "FROM due AS d JOIN items AS i ON i.seq = d.seq JOIN hosts AS h ON h.id = i.host_id "
            "JOIN jobs AS j ON j.id = i.job_id WHERE d.due_ms <= ? ORDER BY d.due_ms LIMIT ?",
            (self.now_ms, TIDY_LIMIT),
        ).fetchall()
        offers = []
        for seq, row in enumerate(rows, start=sqlite_database.last_seq(self.db) + 1):
            old, url, host, hops, via, job, hops_off, memo, job_id = row
            identity = sqlite_database.identity_of(url)
            self._supersede(identity, old, seq)
            self.changes.moved(job_id, base.ItemState.DONE, None)
            again = base.NewItem(url, base.Lane.HIGH, hops, via, job, hops_off)
            offers.append(IncomingItem(seq, identity, again, host, memo))
        if offers:
            self.enqueue(offers)
