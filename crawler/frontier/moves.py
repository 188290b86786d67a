"""How items and hosts of the SQLite frontier move: the steps that verbs are made of.

Every step runs within the verb's transaction, keeps the slots as the queues are, and tells the
verb's `Tally` what it changed.
"""

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from core.errors import InvariantError
from core.settings import FrontierSettings, PolitenessSettings
from core.timestamps import milliseconds_up
from core.timestamps import moment as to_moment
from crawler.frontier import books, slot_rows
from crawler.frontier.base import CLOCK_SLACK, FrontierItem, ItemState, Lane, NewItem
from crawler.frontier.books import Offer, Wanted
from crawler.frontier.slots import HostSlot, epoch_of, lane_order
from crawler.frontier.tally import Tally, job_id
from crawler.politeness import host_delay

# A lease that runs out tells of a dead worker, not of a bad page, so it counts for less than a
# failure; but a page that kills every worker must not be handed out for ever.
CLAIMS_PER_ATTEMPT = 3
# What one claim tidies up of a kind at most, so that it stays short after a long pause; the rest
# follows.
TIDY_LIMIT = 1_000
_MILLISECOND = timedelta(milliseconds=1)
_PLACE_BITS = 31


class Held(NamedTuple):
    """A claim as the books have it."""

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


_HELD = """
SELECT c.token, c.seq, i.id, i.host_id, i.job_id, i.lane, i.place, c.worker, c.claimed_ms,
       c.renewed_ms, i.attempts, i.failures
FROM claims AS c JOIN items AS i ON i.seq = c.seq
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """How a visit used its host; see `Frontier`."""

    duration: timedelta | None = None
    delay: timedelta | None = None
    stored_bytes: int = 0


NOT_ASKED = Usage(delay=timedelta(0))


@dataclass(frozen=True, slots=True)
class Moves:
    """The steps, by these settings; randomness comes from `new_id` and `rng`."""

    politeness: PolitenessSettings
    settings: FrontierSettings
    new_id: Callable[[], UUID]
    rng: random.Random

    @property
    def longest_rest(self) -> timedelta:
        """No host rests for longer than that."""
        p = self.politeness
        return timedelta(seconds=max(p.min_delay_s, p.max_delay_s, p.crawl_delay_limit_s))

    @property
    def rest_limit_ms(self) -> int:
        """How far off a rest's end may be, in milliseconds, unless the clock was put back."""
        return (self.longest_rest + CLOCK_SLACK) // _MILLISECOND

    def lease_end(self, now_ms: int) -> int:
        """When a lease that begins now runs out."""
        return now_ms + round(self.settings.lease_s * 1000)

    def save(self, db: sqlite3.Connection, slot: HostSlot, old: HostSlot) -> HostSlot:
        """Settle a slot and write what changed."""
        settled = slot.settled(self.politeness.visits_per_host)
        slot_rows.save(db, settled, old)
        return settled

    def slot_of(self, db: sqlite3.Connection, host: str, tally: Tally) -> HostSlot:
        """The host's slot, a new one if need be."""
        slot = slot_rows.by_name(db, host)
        if slot is None:
            tally.count("hosts")
            slot = slot_rows.create(db, host, -self._place())
        return slot

    # Adding

    def again(
        self,
        db: sqlite3.Connection,
        known: Iterable[books.Candidate],
        age: timedelta,
        now_ms: int,
        tally: Tally,
    ) -> list[Wanted]:
        """Of the known URLs those that ended so long ago; open ones move up."""
        latest_ms = now_ms - -(-age // _MILLISECOND)
        requeued = []
        for candidate in known:
            old = books.located(db, candidate.identity)
            if old is None:
                raise InvariantError("The filter of unique URLs knows a URL that has no item.")
            if not old.ended:
                self._move_up(db, old, candidate.offer.item.lane)
            elif age <= timedelta(0) or (old.ended_ms or 0) <= latest_ms:
                books.supersede(db, candidate.identity, old.seq, candidate.seq)
                self.undue(db, old.seq, tally)
                tally.moved(old.job_id, books.ENDED[old.ended], None)
                requeued.append(Wanted(candidate.seq, candidate.offer, old.memo))
        return requeued

    @staticmethod
    def undue(db: sqlite3.Connection, seq: int, tally: Tally) -> bool:
        """Let a done item be due no longer; False when it was not."""
        gone = db.execute("DELETE FROM due WHERE seq = ?", (seq,)).rowcount
        tally.count("due", -gone)
        return gone == 1

    def _move_up(self, db: sqlite3.Connection, old: books.Located, lane: Lane) -> None:
        """Move an open item to a higher lane; a claimed or delayed one when it comes back."""
        if lane >= old.lane:
            return
        db.execute("UPDATE items SET lane = ? WHERE seq = ?", (lane, old.seq))
        if self.pull(db, old):
            self.push(db, old.seq, old.host_id, lane, old.place)

    def enqueue(
        self,
        db: sqlite3.Connection,
        offers: list[Wanted],
        now_ms: int,
        tally: Tally,
    ) -> None:
        """Let new items, each with its number and memo, wait for their hosts."""
        groups = Counter((offer.host, offer.item.lane) for _, offer, _ in offers)
        hosts: dict[str, int] = {}
        for (host, lane), count in groups.items():
            grown = slot_rows.grow(db, host, lane, count)
            if grown is None:
                slot = self.slot_of(db, host, tally)
                epoch = 0 if self._random else epoch_of(offers[0][0])
                self.save(db, slot.pushed(lane, epoch, count), slot)
                grown = slot.id
            hosts[host] = grown
        jobs: dict[str, int] = {}
        for job, count in Counter(offer.item.job for _, offer, _ in offers).items():
            jobs[job] = job_id(db, job, now_ms)
            tally.moved(jobs[job], None, ItemState.QUEUED, count)
        books.write_items(
            db,
            [
                books.Entry(
                    seq,
                    self.new_id().bytes,
                    item.url,
                    hosts[host],
                    jobs[item.job],
                    item.lane,
                    self._place(),
                    item.hops,
                    item.hops_off,
                    item.via,
                    memo,
                )
                for seq, (item, host), memo in offers
            ],
            now_ms,
        )

    # Waiting

    def push(self, db: sqlite3.Connection, seq: int, host_id: int, lane: Lane, place: int) -> None:
        """Put an item back into its place in its host's queue."""
        books.enqueue(db, lane, host_id, place, seq)
        slot = slot_rows.by_id(db, host_id)
        self.save(db, slot.pushed(lane, epoch_of(seq, place)), slot)

    def pull(self, db: sqlite3.Connection, item: books.Located) -> bool:
        """Take an item out of its host's queue; False when it is not in there."""
        if not books.unqueue(db, item.lane, item.host_id, item.place, item.seq):
            return False
        slot = slot_rows.by_id(db, item.host_id)
        self.save(db, slot.pulled(Lane(item.lane), slot.heads[item.lane]), slot)
        return True

    def discard(
        self, db: sqlite3.Connection, identity: bytes, now_ms: int, reason: str, tally: Tally
    ) -> bool:
        """Let a queued item be skipped, or a done one no longer be due; False when it is neither."""
        old = books.located(db, identity)
        if old is None:
            return False
        if old.ended:
            return self.undue(db, old.seq, tally)
        if not self.pull(db, old):
            gone = db.execute("DELETE FROM later WHERE seq = ?", (old.seq,)).rowcount
            if not gone:
                return False
            tally.count("later", -1)
        books.end(db, old.seq, books.SKIPPED, now_ms, reason)
        tally.moved(old.job_id, ItemState.QUEUED, ItemState.SKIPPED)
        return True

    def delay(self, db: sqlite3.Connection, held: Held, moment: datetime, tally: Tally) -> None:
        """Let an item that is no longer claimed wait for its moment."""
        db.execute(
            "INSERT INTO later VALUES (?, ?, ?)", (milliseconds_up(moment), held.seq, held.host_id)
        )
        tally.count("later")

    # Claiming

    def first_ready(
        self, db: sqlite3.Connection, token: int, now_ms: int
    ) -> tuple[str, HostSlot, Lane] | None:
        """From which host, and which of its lanes, the claim with that token takes."""
        order = lane_order(
            token,
            high_every=self.settings.high_every,
            standard_every=self.settings.standard_every,
        )
        while (found := slot_rows.first_ready(db, order, now_ms)) is not None:
            host, slot = found
            if not 0 < slot.down_ms <= now_ms:
                lane = slot.first_lane(order)
                if lane is None:
                    raise InvariantError(f"{host} is ready, but nothing waits for it.")
                return host, slot, lane
            # "Down" is over, and nobody noticed yet: the host rests and waits as any other.
            slot_rows.save_refusals(db, slot.revived())
            self.save(db, slot.revived(), slot)
        return None

    def take(
        self,
        db: sqlite3.Connection,
        found: tuple[str, HostSlot, Lane],
        token: int,
        worker: str,
        now_ms: int,
        tally: Tally,
    ) -> FrontierItem:
        """Claim the host's first item in that lane."""
        host, slot, lane = found
        place, seq = books.first_in_queue(db, lane, slot.heads[lane], slot.id)
        books.unqueue(db, lane, slot.id, place, seq)
        self.save(db, slot.pulled(lane, epoch_of(seq, place)).taken(), slot)
        db.execute(
            "INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?, ?)",
            (token, seq, slot.id, worker, now_ms, now_ms, self.lease_end(now_ms)),
        )
        down = (slot_rows.reason(db, slot.id) or "down") if slot.down_ms > now_ms else ""
        item, job = books.item(db, seq, host, token=token, host_down=down)
        tally.moved(job, ItemState.QUEUED, ItemState.CLAIMED)
        return item

    def held(self, db: sqlite3.Connection, item: FrontierItem) -> Held | None:
        """The claim that the item was handed out under; None when it is void."""
        row = db.execute(f"{_HELD} WHERE c.token = ?", (item.token,)).fetchone()
        held = None if row is None else Held._make(row)
        return held if held is not None and held.id == UUID(item.id).bytes else None

    def free(
        self,
        db: sqlite3.Connection,
        held: Held,
        usage: Usage,
        finished: datetime,
        tally: Tally,
    ) -> bool:
        """End a claim: its token is void, its host rests; False when the host was not asked."""
        slot = slot_rows.by_id(db, held.host_id)
        freed = slot.freed()
        asked = usage.delay is None or usage.delay > timedelta(0)
        if asked:
            rest = usage.delay
            if rest is None:
                rest = host_delay(self.took(held, usage, finished), self.politeness)
            next_ms = milliseconds_up(finished + min(rest, self.longest_rest))
            freed = freed.rested(next_ms)
            tally.rested(next_ms)
        self.save(db, freed, slot)
        db.execute("DELETE FROM claims WHERE token = ?", (held.token,))
        return asked

    @staticmethod
    def took(held: Held, usage: Usage, finished: datetime) -> timedelta:
        """How long the visit kept its host busy."""
        if usage.duration is not None:
            return usage.duration
        return finished - to_moment(held.claimed_ms)

    def finish(
        self,
        db: sqlite3.Connection,
        held: Held,
        usage: Usage,
        now: datetime,
        tally: Tally,
        *,
        completed: bool = False,
    ) -> None:
        """End a claim that counts as an attempt; a visit counts for its host."""
        if self.free(db, held, usage, now, tally):
            took = self.took(held, usage, now)
            slot_rows.visited(
                db, held.host_id, took, done=int(completed), stored_bytes=usage.stored_bytes
            )
            if completed:
                slot_rows.end_refusals(db, held.host_id)
        db.execute("UPDATE items SET attempts = attempts + 1 WHERE seq = ?", (held.seq,))

    # Tidying up

    def tidy(self, db: sqlite3.Connection, now_ms: int, tally: Tally) -> None:
        """Queue what waited for this moment; cut rests when the clock was put back."""
        limit_ms = now_ms + self.rest_limit_ms
        if db.execute("SELECT rest_ms FROM totals").fetchone()[0] > limit_ms:
            slot_rows.cut_rests(db, limit_ms, now_ms + self.longest_rest // _MILLISECOND)
            db.execute("UPDATE totals SET rest_ms = ?", (limit_ms,))
        self._reap(db, now_ms, tally)
        self._promote(db, now_ms, tally)
        self._queue_due(db, now_ms, tally)

    def _reap(self, db: sqlite3.Connection, now_ms: int, tally: Tally) -> None:
        """Queue the items whose leases ran out again, or bury those that keep doing so."""
        rows = db.execute(
            f"{_HELD} WHERE c.lease_ms <= ? ORDER BY c.lease_ms LIMIT ?", (now_ms, TIDY_LIMIT)
        ).fetchall()
        for held in map(Held._make, rows):
            # The host was last asked when its worker last gave a sign of life.
            self.free(db, held, Usage(), to_moment(held.renewed_ms), tally)
            db.execute("UPDATE items SET attempts = attempts + 1 WHERE seq = ?", (held.seq,))
            log(db, held, "expired", "the worker gave no sign of life", now_ms)
            if held.attempts + 1 >= CLAIMS_PER_ATTEMPT * max(self.settings.attempts, 1):
                books.end(db, held.seq, books.DEAD, now_ms, "its workers keep vanishing")
                tally.moved(held.job_id, ItemState.CLAIMED, ItemState.DEAD)
            else:
                self.push(db, held.seq, held.host_id, Lane(held.lane), held.place)
                tally.moved(held.job_id, ItemState.CLAIMED, ItemState.QUEUED)

    def _promote(self, db: sqlite3.Connection, now_ms: int, tally: Tally) -> None:
        """Let items wait for their hosts that waited for their moment."""
        rows = db.execute(
            "SELECT i.seq, i.host_id, i.lane, i.place FROM later AS l "
            "JOIN items AS i ON i.seq = l.seq WHERE l.due_ms <= ? ORDER BY l.due_ms LIMIT ?",
            (now_ms, TIDY_LIMIT),
        ).fetchall()
        for seq, host_id, lane, place in rows:
            db.execute("DELETE FROM later WHERE seq = ?", (seq,))
            self.push(db, seq, host_id, Lane(lane), place)
        tally.count("later", -len(rows))

    def _queue_due(self, db: sqlite3.Connection, now_ms: int, tally: Tally) -> None:
        """Queue the done items that are due again, as new items in lane HIGH."""
        rows = db.execute(
            "SELECT i.seq, i.url, h.host, i.hops, i.via, j.job, i.hops_off, i.memo, i.job_id "
            "FROM due AS d JOIN items AS i ON i.seq = d.seq JOIN hosts AS h ON h.id = i.host_id "
            "JOIN jobs AS j ON j.id = i.job_id WHERE d.due_ms <= ? ORDER BY d.due_ms LIMIT ?",
            (now_ms, TIDY_LIMIT),
        ).fetchall()
        if not rows:
            return
        offers = []
        for seq, row in enumerate(rows, start=books.last_seq(db) + 1):
            old, url, host, hops, via, job, hops_off, memo, job_number = row
            self.undue(db, old, tally)
            books.supersede(db, books.identity_of(url), old, seq)
            tally.moved(job_number, ItemState.DONE, None)
            again = NewItem(url, Lane.HIGH, hops, via, job, hops_off)
            offers.append(Wanted(seq, Offer(again, host), memo))
        self.enqueue(db, offers, now_ms, tally)

    @property
    def _random(self) -> bool:
        return self.settings.order == "random"

    def _place(self) -> int:
        """Where a new item or host stands in random order; 0: where it comes."""
        return self.rng.getrandbits(_PLACE_BITS) + 1 if self._random else 0


def log(db: sqlite3.Connection, held: Held, ending: str, reason: str, now_ms: int) -> None:
    """Write a claim that did not complete its item into the log."""
    db.execute(
        "INSERT INTO attempts (seq, id, ending, reason, worker, claimed_ms, ended_ms) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (held.seq, held.id, ending, reason, held.worker, held.claimed_ms, now_ms),
    )
