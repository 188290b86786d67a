"""Politeness arithmetic (host delays, retry back-off), and host slots: assignment, state transitions, rows in SQLite.

Thousands of host names may share one server (heritrix3#754): with `politeness.per_address` a URL uses the slot of its
host's address, unless the host does not resolve, or only by a remote proxy.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from core.config.settings import PolitenessSettings
from core.errors import InvariantError, WeboidError
from core.timestamps import from_unix_milliseconds
from core.urls import host_of
from crawler.frontier.base import AFFINITY_HOSTS, HostReport, Lane, NewItem

LONGEST_RETRY = timedelta(days=7)  # limit of a doubling delay, which must not exceed the range of datetime
RETRY_AFTER_LIMIT = timedelta(hours=24)  # RFC 9110 10.2.3; a site cannot send us away for longer
_DOUBLINGS = 40


def host_delay(duration: timedelta, settings: PolitenessSettings) -> timedelta:
    """Return the host's delay after a visit, as in Heritrix: a multiple of its duration, cut to the limits."""
    wanted = max(duration.total_seconds(), 0.0) * settings.delay_factor
    return timedelta(seconds=max(min(wanted, settings.max_delay_s), settings.min_delay_s))


def longest_rest(settings: PolitenessSettings) -> timedelta:
    """Return the longest delay of a host, whatever a visit or a robots.txt requests."""
    return timedelta(seconds=max(settings.min_delay_s, settings.max_delay_s, settings.crawl_delay_limit_s))


def longest_back_off(settings: PolitenessSettings) -> timedelta:
    """Return the longest back-off of a host that refused us or cannot be reached."""
    configured = max(settings.host_retry_limit_s, settings.host_down_s)
    return max(timedelta(seconds=configured), RETRY_AFTER_LIMIT)


def longest_wait(settings: PolitenessSettings) -> timedelta:
    """Return the longest wait of a queued URL for its next attempt."""
    return max(LONGEST_RETRY, longest_back_off(settings))


def retry_at(now: datetime, failures: int, first_s: float, limit_s: float = LONGEST_RETRY.total_seconds()) -> datetime:
    """Return when a URL or host is tried again after `failures` (1 or more): doubling (A04), up to the limit."""
    doublings = min(max(failures - 1, 0), _DOUBLINGS)
    return now + timedelta(seconds=min(first_s * 2.0**doublings, limit_s))


PARALLEL_LOOKUPS = 32


class SlotAssigner:
    """Assigns slot keys to URLs."""

    def __init__(self, resolve: Callable[[str], str] | None = None) -> None:
        """Use `resolve`, which returns a host's first address or raises `WeboidError`; None: the host."""
        self._resolve = resolve
        self._free = asyncio.Semaphore(PARALLEL_LOOKUPS)

    async def assign(self, items: Iterable[NewItem]) -> list[NewItem]:
        """Return the items, each with its slot key."""
        assigned, resolve = list(items), self._resolve
        if resolve is None:
            return assigned

        async def slot_key(host: str) -> str:
            async with self._free:
                try:
                    return await asyncio.to_thread(resolve, host)
                except WeboidError:
                    return host

        hosts = sorted({host_of(item.url) for item in assigned})
        names = await asyncio.gather(*map(slot_key, hosts))
        turns = dict(zip(hosts, names, strict=True))
        return [replace(item, host=turns[host_of(item.url)]) for item in assigned]


# Items are numbered as they come, and queues are kept by epochs of 2^16 numbers: additions then
# touch a small young part of the store instead of every host's own page in a large one.
EPOCH_BITS = 16

_Lanes = tuple[int, ...]  # one number for each
_LANES = tuple(Lane)
_STANDARD_FIRST = (Lane.STANDARD, Lane.HIGH, Lane.NOW)
_HIGH_FIRST = (Lane.HIGH, Lane.NOW, Lane.STANDARD)


def epoch_of(seq: int, place: int = 0) -> int:
    """Return the epoch of an item's number; items with a random place share the first."""
    return 0 if place else seq >> EPOCH_BITS


def lane_order(token: int, *, high_every: int, standard_every: int) -> tuple[Lane, ...]:
    """Return the order in which the claim with that token searches the lanes (U15)."""
    if standard_every and token % standard_every == 0:
        return _STANDARD_FIRST
    if high_every and token % high_every == 0:
        return _HIGH_FIRST
    return _LANES


def is_longest_turn(token: int) -> bool:
    """Check whether the claim takes the host that has been ready longest, however many are: two of 17 tokens.

    17 is prime: the claims that search a lane first have such turns, whatever the lanes' shares are.
    """
    return token % 17 % 9 == 0


class HostSlot(NamedTuple):
    """Host slot as stored; moments are whole milliseconds since 1970 UTC."""

    id: int  # the host's number
    next_ms: int = 0  # when the delay after the last visit is over
    blocked_ms: int = 0  # when the block is over
    down_ms: int = 0  # end of "down"; 0: up; a past one is not processed yet, see `revived`
    refusals: int = 0  # how often in a row it failed or refused us as a whole
    active: int = 0  # current claims of this host
    waiting: _Lanes = (0, 0, 0)  # queued items by lane, without those that wait for their moment
    heads: _Lanes = (0, 0, 0)  # by lane, an epoch before which none of them lies
    # The lane that the host is listed in; None while it cannot be claimed from at any time: nothing
    # waits, or the limit of concurrent visits is reached.
    lane: int | None = None
    ready_ms: int = 0  # the earliest moment of the next visit; a host that is down needs no delay
    size: int = 0  # the bit length of the number of waiting items: changes seldom, so it is indexed

    def first_lane(self, order: tuple[Lane, ...] = _LANES) -> Lane | None:
        """Return the first of these lanes that has waiting items."""
        return next((lane for lane in order if self.waiting[lane]), None)

    def pushed(self, lane: Lane, epoch: int, count: int = 1) -> "HostSlot":
        """Return the slot after `count` items joined the lane, none from before that epoch."""
        head = min(self.heads[lane], epoch) if self.waiting[lane] else epoch
        return self._replace(
            waiting=_with(self.waiting, lane, self.waiting[lane] + count), heads=_with(self.heads, lane, head)
        )

    def pulled(self, lane: Lane, head: int) -> "HostSlot":
        """Return the slot after one item left the lane; `head` is the new lower bound of its epochs."""
        if self.waiting[lane] < 1:
            raise InvariantError(f"Host {self.id} gave an item of lane {lane}, which was empty.")
        return self._replace(
            waiting=_with(self.waiting, lane, self.waiting[lane] - 1), heads=_with(self.heads, lane, head)
        )

    def taken(self) -> "HostSlot":
        """Return the slot after a claim began."""
        return self._replace(active=self.active + 1)

    def freed(self) -> "HostSlot":
        """Return the slot after a claim ended."""
        if self.active < 1:
            raise InvariantError(f"Host {self.id} was freed more often than taken.")
        return self._replace(active=self.active - 1)

    def rested(self, next_ms: int) -> "HostSlot":
        """Return the slot delayed until `next_ms` at least."""
        return self._replace(next_ms=max(self.next_ms, next_ms))

    def blocked(self, until_ms: int, now_ms: int) -> "HostSlot":
        """Return the slot blocked until then, or longer; a moment not after `now_ms` lifts the block and "down"."""
        if until_ms <= now_ms:
            return self._replace(blocked_ms=0, down_ms=0, refusals=0)
        return self._replace(blocked_ms=until_ms) if until_ms > self.blocked_ms else self

    def refused(self, until_ms: int) -> "HostSlot":
        """Return the slot after one more refusal in a row, blocked until then at least, and not down."""
        return self._replace(blocked_ms=max(until_ms, self.blocked_ms), refusals=self.refusals + 1, down_ms=0)

    def downed(self, until_ms: int) -> "HostSlot":
        """Return the slot after the refusal that made it down until then at least; the block is lifted."""
        return self._replace(blocked_ms=0, refusals=self.refusals + 1, down_ms=max(until_ms, self.down_ms))

    def revived(self) -> "HostSlot":
        """Return the slot no longer down."""
        return self._replace(down_ms=0)

    def settled(self, visits_per_host: int) -> "HostSlot":
        """Return the slot with the derived `lane`, `ready_ms` and `size` recomputed."""
        # In random order a new host's moment is below zero, which is "not blocked" otherwise.
        rested_ms = max(self.next_ms, self.blocked_ms) if self.blocked_ms else self.next_ms
        return self._replace(
            lane=self.first_lane() if self.active < max(visits_per_host, 1) else None,
            ready_ms=self.blocked_ms if self.down_ms else rested_ms,
            size=sum(self.waiting).bit_length(),
        )


def _with(lanes: _Lanes, lane: Lane, value: int) -> _Lanes:
    return (*lanes[:lane], value, *lanes[lane + 1 :])


# ruff: noqa: S608 - only constants of this file are pieced together; values are parameters


SLOT_COLUMNS = (
    "id, next_ms, blocked_ms, down_ms, refusals, active, "
    "waiting_now, waiting_high, waiting_standard, "
    "head_now, head_high, head_standard, lane, ready_ms, size"
)
_SET = (
    "next_ms = ?, active = ?, waiting_now = ?, waiting_high = ?, waiting_standard = ?, "
    "head_now = ?, head_high = ?, head_standard = ?"
)
# Most changes leave the indexes alone; naming their columns would rewrite them.
_SAVE = {
    (moved, resized): f"UPDATE hosts SET {_SET}{', lane = ?, ready_ms = ?' * moved}"
    f"{', size = ?' * resized} WHERE id = ?"
    for moved in (False, True)
    for resized in (False, True)
}
# New items at the end of a lane where others wait change nothing but the number that waits, unless it grows a digit.
_GROW = {
    lane: f"UPDATE hosts SET waiting_{name} = waiting_{name} + :count "
    f"WHERE host = :host AND waiting_{name} > 0 "
    "AND waiting_now + waiting_high + waiting_standard + :count < 1 << size RETURNING id"
    for lane, name in ((Lane.NOW, "now"), (Lane.HIGH, "high"), (Lane.STANDARD, "standard"))
}

# Host for a claim at the moment `now` that searches three lanes; `visited` is the moment again, or 0: without affinity.
# New hosts have no moment above zero. Ready hosts are counted for the row found: not where no visited host is ready.
_FIRST_IN_LANE = f"""
    (SELECT id FROM hosts WHERE lane = {{0}} AND ready_ms BETWEEN 1 AND :visited AND EXISTS (
        SELECT 1 FROM hosts AS every WHERE every.lane = hosts.lane AND every.ready_ms <= :now
        LIMIT 1 OFFSET {AFFINITY_HOSTS}) ORDER BY ready_ms DESC LIMIT 1),
    (SELECT id FROM hosts WHERE lane = {{0}} AND ready_ms <= :now ORDER BY ready_ms LIMIT 1)"""
_CHOICES = ",".join(map(_FIRST_IN_LANE.format, (":first", ":second", ":third")))
_FIRST_READY = f"SELECT host, {SLOT_COLUMNS} FROM hosts WHERE id = coalesce({_CHOICES})"


def extend_lane(db: sqlite3.Connection, host: str, lane: Lane, count: int) -> int | None:
    """Add items behind others of a lane, a fast path; return the host's number, None if more would change."""
    row = db.execute(_GROW[lane], {"host": host, "count": count}).fetchone()
    return None if row is None else int(row[0])


def slot_by_id(db: sqlite3.Connection, host_id: int) -> HostSlot:
    """Read the slot of that number."""
    row = db.execute(f"SELECT {SLOT_COLUMNS} FROM hosts WHERE id = ?", (host_id,)).fetchone()
    if row is None:
        raise InvariantError(f"An item names host {host_id}, which has no slot.")
    return slot_of_row(row)


def slot_by_name(db: sqlite3.Connection, host: str) -> HostSlot | None:
    """Read the host's slot; None when it has none."""
    row = db.execute(f"SELECT {SLOT_COLUMNS} FROM hosts WHERE host = ?", (host,)).fetchone()
    return None if row is None else slot_of_row(row)


def create_slot(db: sqlite3.Connection, host: str, next_ms: int = 0) -> HostSlot:
    """Create a slot for a host that has none."""
    cursor = db.execute("INSERT INTO hosts (host, next_ms, ready_ms) VALUES (?, ?, ?)", (host, next_ms, next_ms))
    return HostSlot(id=cursor.lastrowid or 0, next_ms=next_ms, ready_ms=next_ms)


def save_slot(db: sqlite3.Connection, slot: HostSlot, old: HostSlot) -> None:
    """Write the changes since `old` was read, except those of `save_block`."""
    moved = (slot.lane, slot.ready_ms) != (old.lane, old.ready_ms)
    resized = slot.size != old.size
    values: list[int | None] = [slot.next_ms, slot.active, *slot.waiting, *slot.heads]
    values += [slot.lane, slot.ready_ms] * moved
    values += [slot.size] * resized
    db.execute(_SAVE[moved, resized], (*values, slot.id))


def save_block(db: sqlite3.Connection, slot: HostSlot, reason: str) -> None:
    """Write the slot's block and down moments and their reason."""
    db.execute(
        "UPDATE hosts SET blocked_ms = ?, down_ms = ?, refusals = ?, blocked_reason = ? WHERE id = ?",
        (slot.blocked_ms, slot.down_ms, slot.refusals, reason, slot.id),
    )


def save_back_off(db: sqlite3.Connection, host_id: int, until_ms: int) -> None:
    """Store until when a refusal blocks the host; 0: none does, an operator's block may."""
    db.execute("DELETE FROM back_offs WHERE host_id = ?", (host_id,))
    if until_ms:
        db.execute("INSERT INTO back_offs VALUES (?, ?)", (until_ms, host_id))


def save_refusals(db: sqlite3.Connection, slot: HostSlot) -> None:
    """Write the number of refusals in a row, and the down moment."""
    db.execute("UPDATE hosts SET refusals = ?, down_ms = ? WHERE id = ?", (slot.refusals, slot.down_ms, slot.id))


def count_visit(db: sqlite3.Connection, host_id: int, duration: timedelta, *, done: int, stored_bytes: int) -> None:
    """Add a visit to the host's statistics; see `HostReport`."""
    took = max(duration // timedelta(milliseconds=1), 0)
    db.execute(
        "UPDATE hosts SET done = done + ?, bytes = bytes + ?, busy_ms = busy_ms + ?, "
        "mean_ms = ifnull(mean_ms + (? - mean_ms) / 5.0, ?) WHERE id = ?",
        (done, stored_bytes, took, took, took, host_id),
    )


def first_ready(db: sqlite3.Connection, order: Sequence[Lane], now_ms: int, token: int) -> tuple[str, HostSlot] | None:
    """Return name and slot of the host that the claim takes from: in the order of lanes, the one ready longest.

    While more than `AFFINITY_HOSTS` are, the one visited last, except in the turns of `is_longest_turn`.
    """
    first, second, third = map(int, order)
    visited = 0 if is_longest_turn(token) else now_ms
    values = {"first": first, "second": second, "third": third, "now": now_ms, "visited": visited}
    row = db.execute(_FIRST_READY, values).fetchone()
    return None if row is None else (row[0], slot_of_row(row[1:]))


def slot_of_row(row: tuple[Any, ...]) -> HostSlot:
    """Return the slot with the values of `SLOT_COLUMNS`."""
    lane, ready_ms, size = row[12:]
    return HostSlot(*row[:6], row[6:9], row[9:12], lane, ready_ms, size)  # type: ignore[call-arg]


def host_report(row: Sequence[Any], now: datetime, offset: timedelta = timedelta(0)) -> HostReport:
    """Return a host's report at a moment, from the values named here; the store's clock is ahead of ours by `offset`."""
    host, waiting, active, next_ms, blocked_ms, down_ms, reason, done, stored, busy_ms, mean_ms, failures = row

    def future(count: float) -> datetime | None:
        moment = from_unix_milliseconds(round(count)) - offset
        return moment if moment > now else None

    blocked, down = future(blocked_ms), future(down_ms)
    ready = blocked if down else max(blocked or now, future(next_ms) or now)
    return HostReport(
        *(host, waiting, active, ready or now, done, stored),
        busy=timedelta(milliseconds=busy_ms),
        mean=timedelta(milliseconds=mean_ms),
        failures=failures,
        blocked_until=blocked,
        blocked_reason=reason if blocked or down else "",
        down_until=down,
    )
