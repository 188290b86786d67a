"""How items of the SQLite frontier come to wait for their hosts, and cease to.

Every step runs within a verb's transaction, keeps the slots as the queues are, and tells the verb's
`Tally` what it changed.
"""

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from core.errors import InvariantError
from core.settings import FrontierSettings, PolitenessSettings
from core.timestamps import milliseconds_up
from crawler.frontier import books, slot_rows
from crawler.frontier.base import CLOCK_MARGIN, CLOCK_SLACK, ItemState, Lane
from crawler.frontier.books import Wanted
from crawler.frontier.slots import HostSlot, epoch_of
from crawler.frontier.tally import Tally, job_id
from crawler.politeness import longest_rest, longest_wait

_MILLISECOND = timedelta(milliseconds=1)
_PLACE_BITS = 31
_MARGIN_MS = CLOCK_MARGIN // _MILLISECOND


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
        return longest_rest(self.politeness)

    @property
    def rest_limit_ms(self) -> int:
        """How far off a rest's end may be, in milliseconds, unless the clock was put back."""
        return (self.longest_rest + CLOCK_SLACK) // _MILLISECOND

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
        """Of the known URLs those that ended so long ago; open ones move up.

        One that ended in the future did so before the clock was put back, so it is old enough.
        """
        latest_ms = now_ms - -(-age // _MILLISECOND)
        requeued = []
        for candidate in known:
            old = books.located(db, candidate.identity)
            if old is None:
                raise InvariantError("The filter of unique URLs knows a URL that has no item.")
            if not old.ended:
                self._move_up(db, old, candidate.offer.item.lane)
            elif age <= timedelta(0) or not latest_ms < (old.ended_ms or 0) <= now_ms + _MARGIN_MS:
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

    def delay(
        self,
        db: sqlite3.Connection,
        seq: int,
        host_id: int,
        moment: datetime,
        tally: Tally,
        *,
        now: datetime,
    ) -> None:
        """Let an item that is no longer claimed wait for its moment, at most `longest_wait`."""
        due_ms = milliseconds_up(min(moment, now + longest_wait(self.politeness)))
        db.execute("INSERT INTO later VALUES (?, ?, ?)", (due_ms, seq, host_id))
        tally.count("later")

    @property
    def _random(self) -> bool:
        return self.settings.order == "random"

    def _place(self) -> int:
        """Where a new item or host stands in random order; 0: where it comes."""
        return self.rng.getrandbits(_PLACE_BITS) + 1 if self._random else 0
