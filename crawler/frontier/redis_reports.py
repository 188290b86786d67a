"""What the frontier in Redis tells, and the orders and notes that travel through it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from core.timestamps import milliseconds, milliseconds_up
from core.timestamps import moment as to_moment
from crawler.frontier import packing
from crawler.frontier.base import (
    FrontierStats,
    HostBlock,
    HostOrder,
    HostReport,
    ItemRecord,
    ItemState,
    JobCounts,
    Minute,
)
from crawler.frontier.packing import to_text, unpack
from crawler.frontier.redis_store import RedisStore
from crawler.frontier.server_clock import ServerClock

# A script keeps everyone else waiting.
AT_ONCE = 1_000
FOUND_AT_ONCE = 250  # each with the log of its attempts
_MINUTE_MS = 60_000

T = TypeVar("T")


class RedisReports:
    """The verbs of a frontier that move no item; `RedisFrontier` adds the others.

    Args:
        store: where the frontier is.
        clock: how far the store's clock is ahead.
    """

    def __init__(self, store: RedisStore, clock: ServerClock) -> None:
        self._store = store
        self._clock = clock
        self._salt = store.salt

    def next_wakeup(self, now: datetime) -> datetime | None:
        """See `Frontier.next_wakeup`."""
        offset = self._clock.offset(now)
        wakeup = self._store.ask("wakeup", milliseconds(now + offset))
        return None if wakeup < 0 else max(now, to_moment(wakeup) - offset)

    def unfinished(self, now: datetime) -> int:
        """See `Frontier.unfinished`."""
        stats = self.stats(now)
        return stats.queued + stats.claimed

    def stats(self, now: datetime) -> FrontierStats:
        """See `Frontier.stats`."""
        now_ms = milliseconds(now + self._clock.offset(now))
        *numbers, later, due, expired, paused = unpack(self._store.ask("stats", now_ms))
        queued, claimed, done, skipped, dead, duplicates, hosts, stored, version = numbers
        return FrontierStats(
            queued=queued + expired,
            claimed=claimed - expired,
            done=done,
            skipped=skipped,
            dead=dead,
            later=later,
            due=due,
            duplicates=duplicates,
            hosts=hosts,
            bytes=stored,
            version=version,
            paused=to_text(paused) if paused is not False else None,
        )

    def counts(self) -> dict[ItemState, int]:
        """See `Frontier.counts`."""
        queued, claimed, done, skipped, dead = unpack(self._store.ask("stats", 0))[:5]
        return {
            ItemState.QUEUED: queued,
            ItemState.CLAIMED: claimed,
            ItemState.DONE: done,
            ItemState.SKIPPED: skipped,
            ItemState.DEAD: dead,
        }

    def job_counts(self, job: str) -> JobCounts:
        """See `Frontier.job_counts`."""
        said = self._store.ask("job", job)
        if not said:
            return JobCounts(0, 0, 0, 0, 0, 0, None)
        queued, claimed, done, skipped, dead, stored, began = (int(each or 0) for each in said)
        began_at = to_moment(began) - self._clock.last
        return JobCounts(queued, claimed, done, skipped, dead, stored, began_at)

    def minutes(self, now: datetime, *, count: int = 60) -> Sequence[Minute]:
        """See `Frontier.minutes`; with the server's time they are the server's minutes."""
        offset = self._clock.offset(now)
        rows = {row[0]: row[1:] for row in map(unpack, self._store.ask("minutes"))}
        last = milliseconds(now + offset) // _MINUTE_MS
        return [
            Minute(to_moment(minute * _MINUTE_MS) - offset, *rows.get(minute, (0, 0, 0, 0)))
            for minute in range(last - min(count, 60) + 1, last + 1)
        ]

    def ls(
        self, state: ItemState, *, limit: int = 100, host: str | None = None
    ) -> Sequence[ItemRecord]:
        """See `Frontier.ls`. For one host's ended items all of that state are looked through."""
        found: list[ItemRecord] = []
        place: int | None = None
        while place != -1 and len(found) < limit:
            wanted = min(limit - len(found), AT_ONCE)
            place, rows = unpack(self._store.ask("ls", packing.CODES[state], wanted, host, place))
            found += map(self._record, rows)
        return found

    def scan(
        self, state: ItemState, *, cursor: str = "", limit: int = 1000
    ) -> tuple[Sequence[ItemRecord], str]:
        """See `Frontier.scan`."""
        shard, place = packing.cursor_of(cursor)
        code, wanted = packing.CODES[state], max(min(limit, AT_ONCE), 1)
        said = self._store.ask("scan", code, shard, place, wanted)
        reached, place_there, rows = unpack(said)
        after = "" if reached > packing.LAST_SHARD else f"{reached}:{place_there.decode()}"
        return [self._record(row) for row in rows], after

    def find(self, url: str) -> ItemRecord | None:
        """See `Frontier.find`."""
        said = self._store.ask("find", packing.identity_of(url))
        return None if said is None else self._record(unpack(said))

    def find_all(self, urls: Sequence[str]) -> list[ItemRecord | None]:
        """See `Frontier.find_all`."""
        found: list[ItemRecord | None] = []
        identities = [packing.identity_of(url) for url in urls]
        for start in range(0, len(identities), FOUND_AT_ONCE):
            said = self._store.ask("find_all", identities[start : start + FOUND_AT_ONCE])
            found += [self._record(row) if row else None for row in unpack(said)]
        return found

    def blocks(self, *, now: datetime, limit: int = 100) -> Sequence[HostBlock]:
        """See `Frontier.blocks`."""
        offset = self._clock.offset(now)
        rows = unpack(self._store.ask("blocks", milliseconds(now + offset), limit))
        return [
            HostBlock(to_text(host), to_moment(until) - offset, to_text(reason))
            for host, until, reason in rows
        ]

    def host(self, host: str, *, now: datetime) -> HostReport | None:
        """See `Frontier.host`."""
        offset = self._clock.offset(now)
        rows = unpack(self._store.ask("hosts", None, host))
        return packing.report_of(rows[0], now, offset) if rows else None

    def hosts(self, order: HostOrder, *, now: datetime, limit: int = 20) -> Sequence[HostReport]:
        """See `Frontier.hosts`."""
        offset = self._clock.offset(now)
        rows = unpack(self._store.ask("hosts", order.value, limit)) if limit > 0 else []
        return [packing.report_of(row, now, offset) for row in rows]

    def give_order(self, kind: str, key: str, value: str) -> int:
        """See `Frontier.give_order`."""
        version: int = self._store.ask("order", kind, key, value)
        return version

    def take_back(self, kind: str, key: str) -> bool:
        """See `Frontier.take_back`."""
        return bool(self._store.ask("order", kind, key, None))

    def orders(self, kind: str) -> dict[str, str]:
        """See `Frontier.orders`."""
        texts = map(to_text, self._store.ask("orders", kind))
        return dict(sorted(_pairs(texts)))

    def put_note(
        self, kind: str, key: str, value: str, *, now: datetime, until: datetime | None = None
    ) -> None:
        """See `Frontier.put_note`."""
        now_ms = milliseconds(now + self._clock.offset(now))
        self._store.ask("put_note", now_ms, kind, key, value, self._up(until, now))

    def note(self, kind: str, key: str, *, now: datetime) -> str | None:
        """See `Frontier.note`."""
        now_ms = milliseconds(now + self._clock.offset(now))
        kept = self._store.ask("notes", kind, key)
        return None if kept is None else _note(kept, now_ms)

    def notes(self, kind: str, *, now: datetime) -> dict[str, str]:
        """See `Frontier.notes`."""
        now_ms = milliseconds(now + self._clock.offset(now))
        kept = _pairs(iter(self._store.ask("notes", kind, None)))
        values = ((to_text(key), _note(value, now_ms)) for key, value in kept)
        return dict(sorted((key, value) for key, value in values if value is not None))

    def erase_note(self, kind: str, key: str) -> None:
        """See `Frontier.erase_note`."""
        self._store.ask("put_note", 0, kind, key, None, None)

    def _up(self, moment: datetime | None, now: datetime) -> int | None:
        """A moment before which nothing may happen, as the server reckons."""
        return None if moment is None else milliseconds_up(moment + self._clock.offset(now))

    def _record(self, row: list[Any]) -> ItemRecord:
        return packing.record_of(row, self._salt, self._clock.last)


def _pairs(flat: Iterator[T]) -> Iterator[tuple[T, T]]:
    return zip(flat, flat, strict=True)


def _note(kept: bytes, now_ms: int) -> str | None:
    until_ms, value = unpack(kept)
    return to_text(value) if until_ms == 0 or until_ms > now_ms else None
