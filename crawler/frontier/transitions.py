"""State transitions of items in the SQLite frontier: queueing, claiming, ending, expiry.

Every step runs within the transaction of a `Frontier` method, keeps the slots consistent with the
queues, and records its changes in that method's `CountChanges`.
"""

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from core.config.settings import FrontierSettings, PolitenessSettings
from core.errors import InvariantError
from core.timestamps import from_unix_milliseconds as to_moment
from core.timestamps import unix_milliseconds_ceil
from crawler.frontier import host_slots, item_rows
from crawler.frontier.base import CLOCK_MARGIN, CLOCK_SLACK, FrontierItem, ItemState, Lane, NewItem
from crawler.frontier.host_slots import HostSlot, epoch_of, lane_order
from crawler.frontier.item_rows import AcceptedOffer, UrlOffer
from crawler.frontier.politeness import host_delay, longest_back_off, longest_rest, longest_wait
from crawler.frontier.sqlite_database import CountChanges, ensure_job_id

_MILLISECOND = timedelta(milliseconds=1)
_PLACE_BITS = 31
_MARGIN_MS = CLOCK_MARGIN // _MILLISECOND


@dataclass(frozen=True, slots=True)
class QueueTransitions:
    """Transitions of the queues; randomness comes from `new_id` and `rng`."""

    politeness: PolitenessSettings
    settings: FrontierSettings
    new_id: Callable[[], UUID]
    rng: random.Random

    @property
    def longest_rest(self) -> timedelta:
        """Return the longest delay of a host."""
        return longest_rest(self.politeness)

    @property
    def rest_limit_ms(self) -> int:
        """Return how far off a delay's end may be, in milliseconds, unless the clock was put back."""
        return (self.longest_rest + CLOCK_SLACK) // _MILLISECOND

    def save(self, db: sqlite3.Connection, slot: HostSlot, old: HostSlot) -> HostSlot:
        """Settle a slot and write its changes."""
        settled = slot.settled(self.politeness.visits_per_host)
        host_slots.save_slot(db, settled, old)
        return settled

    def slot_of(self, db: sqlite3.Connection, host: str, tally: CountChanges) -> HostSlot:
        """Return the host's slot, created if need be."""
        slot = host_slots.slot_by_name(db, host)
        if slot is None:
            tally.count("hosts")
            slot = host_slots.create_slot(db, host, -self._place())
        return slot

    # Adding

    def again(
        self,
        db: sqlite3.Connection,
        known: Iterable[item_rows.OfferCandidate],
        age: timedelta,
        now_ms: int,
        tally: CountChanges,
    ) -> list[AcceptedOffer]:
        """Return offers for known URLs that ended at least `age` ago; open ones move to a higher lane.

        One that ended in the future did so before the clock was put back, so it is old enough.
        """
        latest_ms = now_ms - -(-age // _MILLISECOND)
        requeued = []
        for candidate in known:
            old = item_rows.locate_item(db, candidate.identity)
            if old is None:
                raise InvariantError("The filter of unique URLs knows a URL that has no item.")
            if not old.ended:
                self._move_up(db, old, candidate.offer.item.lane)
            elif age <= timedelta(0) or not latest_ms < (old.ended_ms or 0) <= now_ms + _MARGIN_MS:
                item_rows.supersede(db, candidate.identity, old.seq, candidate.seq)
                self.undue(db, old.seq, tally)
                tally.moved(old.job_id, item_rows.ENDED[old.ended], None)
                requeued.append(AcceptedOffer(candidate.seq, candidate.offer, old.memo))
        return requeued

    @staticmethod
    def undue(db: sqlite3.Connection, seq: int, tally: CountChanges) -> bool:
        """Delete the due date of a done item; False when it had none."""
        gone = db.execute("DELETE FROM due WHERE seq = ?", (seq,)).rowcount
        tally.count("due", -gone)
        return gone == 1

    def _move_up(self, db: sqlite3.Connection, old: item_rows.ItemLocation, lane: Lane) -> None:
        """Move an open item to a higher lane; a claimed or delayed one when it is queued next."""
        if lane >= old.lane:
            return
        db.execute("UPDATE items SET lane = ? WHERE seq = ?", (lane, old.seq))
        if self.pull(db, old):
            self.push(db, old.seq, old.host_id, lane, old.place)

    def enqueue(
        self,
        db: sqlite3.Connection,
        offers: list[AcceptedOffer],
        now_ms: int,
        tally: CountChanges,
    ) -> None:
        """Queue new items, each with its number and memo, for their hosts."""
        groups = Counter((offer.host, offer.item.lane) for _, offer, _ in offers)
        hosts: dict[str, int] = {}
        for (host, lane), count in groups.items():
            grown = host_slots.extend_lane(db, host, lane, count)
            if grown is None:
                slot = self.slot_of(db, host, tally)
                epoch = 0 if self._random else epoch_of(offers[0][0])
                self.save(db, slot.pushed(lane, epoch, count), slot)
                grown = slot.id
            hosts[host] = grown
        jobs: dict[str, int] = {}
        for job, count in Counter(offer.item.job for _, offer, _ in offers).items():
            jobs[job] = ensure_job_id(db, job, now_ms)
            tally.moved(jobs[job], None, ItemState.QUEUED, count)
        item_rows.write_items(
            db,
            [
                item_rows.QueueEntry(
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
        """Return an item to its place in its host's queue."""
        item_rows.enqueue(db, lane, host_id, place, seq)
        slot = host_slots.slot_by_id(db, host_id)
        self.save(db, slot.pushed(lane, epoch_of(seq, place)), slot)

    def pull(self, db: sqlite3.Connection, item: item_rows.ItemLocation) -> bool:
        """Remove an item from its host's queue; False when it is not in there."""
        if not item_rows.remove_from_queue(db, item.lane, item.host_id, item.place, item.seq):
            return False
        slot = host_slots.slot_by_id(db, item.host_id)
        self.save(db, slot.pulled(Lane(item.lane), slot.heads[item.lane]), slot)
        return True

    def discard(
        self, db: sqlite3.Connection, identity: bytes, now_ms: int, reason: str, tally: CountChanges
    ) -> bool:
        """Skip a queued item, or delete a done one's due date; False when neither applies."""
        old = item_rows.locate_item(db, identity)
        if old is None:
            return False
        if old.ended:
            return self.undue(db, old.seq, tally)
        if not self.pull(db, old):
            gone = db.execute("DELETE FROM later WHERE seq = ?", (old.seq,)).rowcount
            if not gone:
                return False
            tally.count("later", -1)
        item_rows.end_item(db, old.seq, item_rows.SKIPPED, now_ms, reason)
        tally.moved(old.job_id, ItemState.QUEUED, ItemState.SKIPPED)
        return True

    def delay(
        self,
        db: sqlite3.Connection,
        seq: int,
        host_id: int,
        moment: datetime,
        tally: CountChanges,
        *,
        now: datetime,
    ) -> None:
        """Delay an item that is no longer claimed until its moment, at most `longest_wait`."""
        due_ms = unix_milliseconds_ceil(min(moment, now + longest_wait(self.politeness)))
        db.execute("INSERT INTO later VALUES (?, ?, ?)", (due_ms, seq, host_id))
        tally.count("later")

    @property
    def _random(self) -> bool:
        return self.settings.order == "random"

    def _place(self) -> int:
        """Return the place of a new item or host: random in random order, else 0."""
        return self.rng.getrandbits(_PLACE_BITS) + 1 if self._random else 0


# A lease that runs out tells of a dead worker, not of a bad page, so it counts for less than a
# failure; but a page that kills every worker must not be handed out for ever.
CLAIMS_PER_ATTEMPT = 3
# What one claim tidies up of a kind at most, so that it stays short after a long pause; the rest
# follows.
TIDY_LIMIT = 1_000


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


@dataclass(frozen=True, slots=True)
class HostUsage:
    """Use of a host by a visit; see `Frontier`."""

    duration: timedelta | None = None
    delay: timedelta | None = None
    stored_bytes: int = 0


HOST_NOT_ASKED = HostUsage(delay=timedelta(0))


@dataclass(frozen=True, slots=True)
class ClaimTransitions:
    """Transitions of claims; items are moved by `QueueTransitions`."""

    moves: QueueTransitions

    def lease_end(self, now_ms: int) -> int:
        """Return when a lease that begins now runs out."""
        return now_ms + round(self.moves.settings.lease_s * 1000)

    def first_ready(
        self, db: sqlite3.Connection, token: int, now_ms: int
    ) -> tuple[str, HostSlot, Lane] | None:
        """Return host, slot and lane that the claim with that token takes from."""
        order = lane_order(
            token,
            high_every=self.moves.settings.high_every,
            standard_every=self.moves.settings.standard_every,
        )
        while (found := host_slots.first_ready(db, order, now_ms)) is not None:
            host, slot = found
            slot = self._cut_down(db, slot, now_ms)
            if not 0 < slot.down_ms <= now_ms:
                lane = slot.first_lane(order)
                if lane is None:
                    raise InvariantError(f"{host} is ready, but nothing waits for it.")
                return host, slot, lane
            # "Down" is over but not processed yet: the host is delayed as any other.
            host_slots.save_refusals(db, slot.revived())
            self.moves.save(db, slot.revived(), slot)
        return None

    def take(
        self,
        db: sqlite3.Connection,
        found: tuple[str, HostSlot, Lane],
        token: int,
        worker: str,
        now_ms: int,
        tally: CountChanges,
    ) -> FrontierItem:
        """Claim the host's first item in that lane."""
        host, slot, lane = found
        place, seq = item_rows.first_in_queue(db, lane, slot.heads[lane], slot.id)
        item_rows.remove_from_queue(db, lane, slot.id, place, seq)
        self.moves.save(db, slot.pulled(lane, epoch_of(seq, place)).taken(), slot)
        db.execute(
            "INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?, ?)",
            (token, seq, slot.id, worker, now_ms, now_ms, self.lease_end(now_ms)),
        )
        down = (host_slots.block_reason(db, slot.id) or "down") if slot.down_ms > now_ms else ""
        item, job = item_rows.read_claimed_item(db, seq, host, token=token, host_down=down)
        tally.moved(job, ItemState.QUEUED, ItemState.CLAIMED)
        return item

    def held(self, db: sqlite3.Connection, item: FrontierItem) -> ClaimRow | None:
        """Return the claim of the item's token; None when it is void."""
        row = db.execute(f"{_CLAIM_ROW} WHERE c.token = ?", (item.token,)).fetchone()
        held = None if row is None else ClaimRow._make(row)
        return held if held is not None and held.id == UUID(item.id).bytes else None

    def free(
        self,
        db: sqlite3.Connection,
        held: ClaimRow,
        usage: HostUsage,
        finished: datetime,
        tally: CountChanges,
        *,
        answered: bool = False,
    ) -> bool:
        """End a claim: void its token, delay its host; False when the host received no request."""
        slot = host_slots.slot_by_id(db, held.host_id)
        freed = slot.freed()
        asked = usage.delay is None or usage.delay > timedelta(0)
        if asked:
            rest = usage.delay
            if rest is None:
                rest = host_delay(self.took(held, usage, finished), self.moves.politeness)
            next_ms = unix_milliseconds_ceil(finished + min(rest, self.moves.longest_rest))
            freed = freed.rested(next_ms)
            tally.rested(next_ms)
            if answered and (freed.refusals or freed.down_ms):
                freed = freed.answered()
                host_slots.save_refusals(db, freed)
        self.moves.save(db, freed, slot)
        db.execute("DELETE FROM claims WHERE token = ?", (held.token,))
        return asked

    @staticmethod
    def took(held: ClaimRow, usage: HostUsage, finished: datetime) -> timedelta:
        """Return how long the visit kept its host busy."""
        if usage.duration is not None:
            return usage.duration
        return finished - to_moment(held.claimed_ms)

    def finish(
        self,
        db: sqlite3.Connection,
        held: ClaimRow,
        usage: HostUsage,
        now: datetime,
        tally: CountChanges,
        *,
        completed: bool = False,
    ) -> None:
        """End a claim that counts as an attempt; add the visit to the host's statistics."""
        if self.free(db, held, usage, now, tally, answered=completed):
            took = self.took(held, usage, now)
            host_slots.count_visit(
                db, held.host_id, took, done=int(completed), stored_bytes=usage.stored_bytes
            )
        db.execute("UPDATE items SET attempts = attempts + 1 WHERE seq = ?", (held.seq,))

    # Tidying up

    def tidy(self, db: sqlite3.Connection, now_ms: int, tally: CountChanges) -> None:
        """Queue items whose moment has come; cut waits that are too long since the clock was put back."""
        # Let nothing wait for longer than it ever may: the clock was put back since it began.
        limit_ms = now_ms + self.moves.rest_limit_ms
        if db.execute("SELECT rest_ms FROM totals").fetchone()[0] > limit_ms:
            host_slots.cut_rests(db, limit_ms, now_ms + self.moves.longest_rest // _MILLISECOND)
            db.execute("UPDATE totals SET rest_ms = ?", (limit_ms,))
        # No process's own lease reaches so far, unless the clock did: its worker may be long dead.
        db.execute(
            "UPDATE claims SET lease_ms = ? WHERE lease_ms > ?",
            (self.lease_end(now_ms), self.lease_end(now_ms) + _MARGIN_MS),
        )
        latest_ms = now_ms + self._longest_back_off_ms
        far = host_slots.far_back_offs(db, latest_ms + _MARGIN_MS, TIDY_LIMIT)
        for host_id in far:
            slot = host_slots.slot_by_id(db, host_id)
            self.moves.save(db, host_slots.cut_block(db, slot, latest_ms), slot)
        latest_ms = now_ms + longest_wait(self.moves.politeness) // _MILLISECOND
        db.execute(
            "UPDATE later SET due_ms = :latest WHERE seq IN "
            "(SELECT seq FROM later WHERE due_ms > :limit ORDER BY due_ms LIMIT :most)",
            {"latest": latest_ms, "limit": latest_ms + _MARGIN_MS, "most": TIDY_LIMIT},
        )
        # Queue the items whose leases ran out again, or bury those that keep doing so.
        rows = db.execute(
            f"{_CLAIM_ROW} WHERE c.lease_ms <= ? ORDER BY c.lease_ms LIMIT ?", (now_ms, TIDY_LIMIT)
        ).fetchall()
        for held in map(ClaimRow._make, rows):
            # The host was last asked when its worker last gave a sign of life.
            self.free(db, held, HostUsage(), to_moment(min(held.renewed_ms, now_ms)), tally)
            db.execute("UPDATE items SET attempts = attempts + 1 WHERE seq = ?", (held.seq,))
            log_attempt(db, held, "expired", "the worker gave no sign of life", now_ms)
            if held.attempts + 1 >= CLAIMS_PER_ATTEMPT * max(self.moves.settings.attempts, 1):
                item_rows.end_item(
                    db, held.seq, item_rows.DEAD, now_ms, "its workers keep vanishing"
                )
                tally.moved(held.job_id, ItemState.CLAIMED, ItemState.DEAD)
            else:
                self.moves.push(db, held.seq, held.host_id, Lane(held.lane), held.place)
                tally.moved(held.job_id, ItemState.CLAIMED, ItemState.QUEUED)
        self._promote(db, now_ms, tally)
        self._queue_due(db, now_ms, tally)

    @property
    def _longest_back_off_ms(self) -> int:
        return longest_back_off(self.moves.politeness) // _MILLISECOND

    def _cut_down(self, db: sqlite3.Connection, slot: HostSlot, now_ms: int) -> HostSlot:
        """Return the slot with "down" cut to its longest duration."""
        latest_ms = now_ms + self._longest_back_off_ms
        if slot.down_ms <= latest_ms + _MARGIN_MS:
            return slot
        cut = slot._replace(down_ms=latest_ms)
        host_slots.save_refusals(db, cut)
        return cut

    def _promote(self, db: sqlite3.Connection, now_ms: int, tally: CountChanges) -> None:
        """Queue items whose not-before moment has come."""
        rows = db.execute(
            "SELECT i.seq, i.host_id, i.lane, i.place FROM later AS l "
            "JOIN items AS i ON i.seq = l.seq WHERE l.due_ms <= ? ORDER BY l.due_ms LIMIT ?",
            (now_ms, TIDY_LIMIT),
        ).fetchall()
        for seq, host_id, lane, place in rows:
            db.execute("DELETE FROM later WHERE seq = ?", (seq,))
            self.moves.push(db, seq, host_id, Lane(lane), place)
        tally.count("later", -len(rows))

    def _queue_due(self, db: sqlite3.Connection, now_ms: int, tally: CountChanges) -> None:
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
        for seq, row in enumerate(rows, start=item_rows.last_seq(db) + 1):
            old, url, host, hops, via, job, hops_off, memo, job_number = row
            self.moves.undue(db, old, tally)
            item_rows.supersede(db, item_rows.identity_of(url), old, seq)
            tally.moved(job_number, ItemState.DONE, None)
            again = NewItem(url, Lane.HIGH, hops, via, job, hops_off)
            offers.append(AcceptedOffer(seq, UrlOffer(again, host), memo))
        self.moves.enqueue(db, offers, now_ms, tally)


def log_attempt(
    db: sqlite3.Connection, held: ClaimRow, ending: str, reason: str, now_ms: int
) -> None:
    """Write a claim that did not complete its item into the log."""
    db.execute(
        "INSERT INTO attempts (seq, id, ending, reason, worker, claimed_ms, ended_ms) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (held.seq, held.id, ending, reason, held.worker, held.claimed_ms, now_ms),
    )
