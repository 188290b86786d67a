"""How items of the SQLite frontier are claimed, and how claims end: by their holders, or by time.

Every step runs within a verb's transaction, keeps the slots as the queues are, and tells the verb's
`Tally` what it changed.
"""

import sqlite3
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from core.errors import InvariantError
from core.timestamps import milliseconds_up
from core.timestamps import moment as to_moment
from crawler.frontier import books, slot_rows
from crawler.frontier.base import CLOCK_MARGIN, FrontierItem, ItemState, Lane, NewItem
from crawler.frontier.books import Offer, Wanted
from crawler.frontier.moves import Moves
from crawler.frontier.slots import HostSlot, epoch_of, lane_order
from crawler.frontier.tally import Tally
from crawler.politeness import host_delay, longest_back_off, longest_wait

# A lease that runs out tells of a dead worker, not of a bad page, so it counts for less than a
# failure; but a page that kills every worker must not be handed out for ever.
CLAIMS_PER_ATTEMPT = 3
# What one claim tidies up of a kind at most, so that it stays short after a long pause; the rest
# follows.
TIDY_LIMIT = 1_000
_MILLISECOND = timedelta(milliseconds=1)
_MARGIN_MS = CLOCK_MARGIN // _MILLISECOND


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
class Claims:
    """The steps; items go by these moves."""

    moves: Moves

    def lease_end(self, now_ms: int) -> int:
        """When a lease that begins now runs out."""
        return now_ms + round(self.moves.settings.lease_s * 1000)

    def first_ready(
        self, db: sqlite3.Connection, token: int, now_ms: int
    ) -> tuple[str, HostSlot, Lane] | None:
        """From which host, and which of its lanes, the claim with that token takes."""
        order = lane_order(
            token,
            high_every=self.moves.settings.high_every,
            standard_every=self.moves.settings.standard_every,
        )
        while (found := slot_rows.first_ready(db, order, now_ms)) is not None:
            host, slot = found
            slot = self._cut_down(db, slot, now_ms)
            if not 0 < slot.down_ms <= now_ms:
                lane = slot.first_lane(order)
                if lane is None:
                    raise InvariantError(f"{host} is ready, but nothing waits for it.")
                return host, slot, lane
            # "Down" is over, and nobody noticed yet: the host rests and waits as any other.
            slot_rows.save_refusals(db, slot.revived())
            self.moves.save(db, slot.revived(), slot)
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
        self.moves.save(db, slot.pulled(lane, epoch_of(seq, place)).taken(), slot)
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
        *,
        answered: bool = False,
    ) -> bool:
        """End a claim: its token is void, its host rests; False when the host was not asked."""
        slot = slot_rows.by_id(db, held.host_id)
        freed = slot.freed()
        asked = usage.delay is None or usage.delay > timedelta(0)
        if asked:
            rest = usage.delay
            if rest is None:
                rest = host_delay(self.took(held, usage, finished), self.moves.politeness)
            next_ms = milliseconds_up(finished + min(rest, self.moves.longest_rest))
            freed = freed.rested(next_ms)
            tally.rested(next_ms)
            if answered and (freed.refusals or freed.down_ms):
                freed = freed.answered()
                slot_rows.save_refusals(db, freed)
        self.moves.save(db, freed, slot)
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
        if self.free(db, held, usage, now, tally, answered=completed):
            took = self.took(held, usage, now)
            slot_rows.visited(
                db, held.host_id, took, done=int(completed), stored_bytes=usage.stored_bytes
            )
        db.execute("UPDATE items SET attempts = attempts + 1 WHERE seq = ?", (held.seq,))

    # Tidying up

    def tidy(self, db: sqlite3.Connection, now_ms: int, tally: Tally) -> None:
        """Queue what waited for this moment; cut what waits too long since the clock was put back."""
        self._cut_waits(db, now_ms)
        self._reap(db, now_ms, tally)
        self._promote(db, now_ms, tally)
        self._queue_due(db, now_ms, tally)

    def _cut_waits(self, db: sqlite3.Connection, now_ms: int) -> None:
        """Let nothing wait for longer than it ever may: the clock was put back since it began."""
        limit_ms = now_ms + self.moves.rest_limit_ms
        if db.execute("SELECT rest_ms FROM totals").fetchone()[0] > limit_ms:
            slot_rows.cut_rests(db, limit_ms, now_ms + self.moves.longest_rest // _MILLISECOND)
            db.execute("UPDATE totals SET rest_ms = ?", (limit_ms,))
        # No process's own lease reaches so far, unless the clock did: its worker may be long dead.
        db.execute(
            "UPDATE claims SET lease_ms = ? WHERE lease_ms > ?",
            (self.lease_end(now_ms), self.lease_end(now_ms) + _MARGIN_MS),
        )
        latest_ms = now_ms + self._longest_back_off_ms
        far = slot_rows.far_back_offs(db, latest_ms + _MARGIN_MS, TIDY_LIMIT)
        for host_id in far:
            slot = slot_rows.by_id(db, host_id)
            self.moves.save(db, slot_rows.cut_block(db, slot, latest_ms), slot)
        latest_ms = now_ms + longest_wait(self.moves.politeness) // _MILLISECOND
        db.execute(
            "UPDATE later SET due_ms = :latest WHERE seq IN "
            "(SELECT seq FROM later WHERE due_ms > :limit ORDER BY due_ms LIMIT :most)",
            {"latest": latest_ms, "limit": latest_ms + _MARGIN_MS, "most": TIDY_LIMIT},
        )

    @property
    def _longest_back_off_ms(self) -> int:
        return longest_back_off(self.moves.politeness) // _MILLISECOND

    def _cut_down(self, db: sqlite3.Connection, slot: HostSlot, now_ms: int) -> HostSlot:
        """Return the slot, down for no longer than a host ever is."""
        latest_ms = now_ms + self._longest_back_off_ms
        if slot.down_ms <= latest_ms + _MARGIN_MS:
            return slot
        cut = slot._replace(down_ms=latest_ms)
        slot_rows.save_refusals(db, cut)
        return cut

    def _reap(self, db: sqlite3.Connection, now_ms: int, tally: Tally) -> None:
        """Queue the items whose leases ran out again, or bury those that keep doing so."""
        rows = db.execute(
            f"{_HELD} WHERE c.lease_ms <= ? ORDER BY c.lease_ms LIMIT ?", (now_ms, TIDY_LIMIT)
        ).fetchall()
        for held in map(Held._make, rows):
            # The host was last asked when its worker last gave a sign of life.
            self.free(db, held, Usage(), to_moment(min(held.renewed_ms, now_ms)), tally)
            db.execute("UPDATE items SET attempts = attempts + 1 WHERE seq = ?", (held.seq,))
            log(db, held, "expired", "the worker gave no sign of life", now_ms)
            if held.attempts + 1 >= CLAIMS_PER_ATTEMPT * max(self.moves.settings.attempts, 1):
                books.end(db, held.seq, books.DEAD, now_ms, "its workers keep vanishing")
                tally.moved(held.job_id, ItemState.CLAIMED, ItemState.DEAD)
            else:
                self.moves.push(db, held.seq, held.host_id, Lane(held.lane), held.place)
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
            self.moves.push(db, seq, host_id, Lane(lane), place)
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
            self.moves.undue(db, old, tally)
            books.supersede(db, books.identity_of(url), old, seq)
            tally.moved(job_number, ItemState.DONE, None)
            again = NewItem(url, Lane.HIGH, hops, via, job, hops_off)
            offers.append(Wanted(seq, Offer(again, host), memo))
        self.moves.enqueue(db, offers, now_ms, tally)


def log(db: sqlite3.Connection, held: Held, ending: str, reason: str, now_ms: int) -> None:
    """Write a claim that did not complete its item into the log."""
    db.execute(
        "INSERT INTO attempts (seq, id, ending, reason, worker, claimed_ms, ended_ms) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (held.seq, held.id, ending, reason, held.worker, held.claimed_ms, now_ms),
    )
