"""Frontier shared by several machines: Redis, one Lua script per method.

A call whose answer was lost is repeated: twice it changes nothing, leases expire, and a repeated end is marked.
"""

import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack

from core.config.database_urls import RedisAddress
from core.config.settings import FrontierSettings, PolitenessSettings
from core.timestamps import from_unix_milliseconds as to_moment
from core.timestamps import unix_microseconds, unix_milliseconds, unix_milliseconds_ceil
from crawler.frontier import base, redis_store
from crawler.frontier.host_slots import LONGEST_RETRY, longest_back_off, longest_rest, longest_wait
from crawler.frontier.redis_store import RedisStore, ServerClock, pack_offers, to_text, unpack

LIST_BATCH = 1_000  # a script blocks all other clients
FIND_BATCH = 250  # each with the log of its attempts
_MINUTE_MS = 60_000

_Answer = TypeVar("_Answer")
_MICROSECOND = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)


class RedisFrontier(base.Frontier):
    """`Frontier` in the Redis at `address`, created when there is none; errors as `RedisStore`.

    Over a thousand URLs are added in several transactions; with `server_time` machines whose clocks differ agree.
    """

    def __init__(
        self,
        address: RedisAddress,
        *,
        politeness: PolitenessSettings | None = None,
        settings: FrontierSettings | None = None,
        server_time: bool = True,
    ) -> None:
        self._politeness = politeness or PolitenessSettings()
        self._settings = settings or FrontierSettings()
        self._store = RedisStore(address, self._politeness, self._settings, secrets.token_bytes(16))
        self._clock = ServerClock(self._store.time if server_time else None, time.monotonic)
        self._salt = self._store.salt

    def close(self) -> None:
        self._store.close()

    def save(self) -> str:
        """See `RedisStore.save`."""
        return self._store.save(threading.Event().wait)

    def add(self, items: Iterable[base.NewItem], *, now: datetime, again: timedelta | None = None) -> base.AddResult:
        now_ms = self._ms(now)
        age_ms = None if again is None else -(-again // _MILLISECOND)
        offered = added = requeued = 0
        for count, batch in pack_offers(items, LIST_BATCH):
            fresh, retried = self._store.ask("add", now_ms, age_ms, *batch)
            offered += count
            added, requeued = added + fresh, requeued + retried
        return base.AddResult(added, offered - added - requeued, requeued)

    def claim(self, *, now: datetime, worker: str, limit: int = 1) -> list[base.FrontierItem]:
        now_ms = self._ms(now)
        arguments = self._settings.high_every, self._settings.standard_every, base.AFFINITY_HOSTS
        most = base.CLAIMS_PER_ATTEMPT * max(self._settings.attempts, 1)
        items: list[base.FrontierItem] = []
        there_is_more = True
        while there_is_more and len(items) < limit:
            wanted = limit - len(items)
            answer = self._store.ask("claim", now_ms, worker, wanted, *arguments, most)
            there_is_more, rows = unpack(answer)
            items += [redis_store.unpack_item(row, self._salt) for row in rows]
        return items

    def renew(self, item: base.FrontierItem, *, now: datetime) -> bool:
        return bool(self._store.ask("renew", item.token, redis_store.identity_of(item.url), self._ms(now)))

    def complete(
        self, item: base.FrontierItem, *, now: datetime, outcome: str, **visit: Unpack[base.CompletedVisit]
    ) -> bool:
        arguments = outcome, visit.get("stored_bytes", 0), self._up(visit.get("due"), now), visit.get("memo", "")
        return bool(self._end("complete", item, now, visit, *arguments))

    def retry(
        self, item: base.FrontierItem, *, now: datetime, reason: str, **visit: Unpack[base.FailedVisit]
    ) -> base.ItemState | None:
        waits = round(self._settings.retry_delay_s * 1e6), LONGEST_RETRY // _MICROSECOND
        arguments = reason, self._not_before(visit.get("not_before"), now), *waits, self._settings.attempts
        return redis_store.STATES.get(self._end("retry", item, now, visit, *arguments))

    def _bury(
        self, item: base.FrontierItem, state: base.ItemState, now: datetime, reason: str, use: base.HostUse
    ) -> bool:
        return bool(self._end("bury", item, now, use, redis_store.CODES[state], reason))

    def release(
        self, item: base.FrontierItem, *, now: datetime, reason: str = "", not_before: datetime | None = None
    ) -> bool:
        return bool(self._end("release", item, now, {}, reason, self._not_before(not_before, now)))

    def discard(self, urls: Iterable[str], *, now: datetime, reason: str) -> int:
        """See `Frontier.discard`. A thousand URLs are one transaction."""
        now_ms = self._ms(now)
        ids = [redis_store.identity_of(url) for url in urls]
        return sum(
            self._store.ask("discard", now_ms, reason, b"".join(ids[first : first + LIST_BATCH]))
            for first in range(0, len(ids), LIST_BATCH)
        )

    def rest(self, hosts: Mapping[str, datetime], *, now: datetime) -> None:
        """See `Frontier.rest`. A thousand hosts are one transaction."""
        now_ms = self._ms(now)
        latest = now + longest_rest(self._politeness)
        moments = [(host, self._up(min(moment, latest), now)) for host, moment in hosts.items()]
        for first in range(0, len(moments), LIST_BATCH):
            pairs = (each for pair in moments[first : first + LIST_BATCH] for each in pair)
            self._store.ask("rest", now_ms, *pairs)

    def block_until(self, host: str, moment: datetime, reason: str, *, now: datetime) -> None:
        now_ms = self._ms(now)
        # A moment that is `now` must not become a later one by rounding.
        until_ms = self._up(moment, now) if moment > now else now_ms
        self._store.ask("block", now_ms, host, until_ms, reason)

    def back_off(self, failure: base.HostBackOff, *, now: datetime) -> datetime:
        host, reason, at_least, down, blocks = failure
        offset = self._clock.offset(now)
        p = self._politeness
        if at_least is not None:
            at_least = min(at_least, now + longest_back_off(p))
        until_ms = self._store.ask(
            "back_off",
            unix_microseconds(now + offset),
            host,
            reason,
            self._up(at_least, now) or 0,
            down,
            round(p.host_retry_s * 1e6) if blocks else 0,
            round(p.host_retry_limit_s * 1e6),
            p.host_failures,
            round(p.host_down_s * 1e6),
        )
        return to_moment(until_ms) - offset

    def pause(self, reason: str) -> None:
        self._store.ask("pause", reason)

    def resume(self) -> None:
        self._store.ask("pause", None)

    def next_wakeup(self, now: datetime) -> datetime | None:
        offset = self._clock.offset(now)
        wakeup = self._store.ask("wakeup", unix_milliseconds(now + offset))
        return None if wakeup < 0 else max(now, to_moment(wakeup) - offset)

    def stats(self, now: datetime) -> base.FrontierStats:
        *numbers, later, due, expired, paused = unpack(self._store.ask("stats", self._ms(now)))
        queued, claimed, done, skipped, dead, duplicates, hosts, stored, version = numbers
        return base.FrontierStats(
            queued + expired,
            claimed - expired,
            *(done, skipped, dead, later, due, duplicates, hosts, stored, version),
            paused=to_text(paused) if paused is not False else None,
        )

    def counts(self) -> dict[base.ItemState, int]:
        return dict(zip(base.ItemState, unpack(self._store.ask("stats", 0))[:5], strict=True))

    def job_counts(self, job: str) -> base.JobCounts:
        answer = self._store.ask("job", job)
        if not answer:
            return base.JobCounts(0, 0, 0, 0, 0, 0, None)
        queued, claimed, done, skipped, dead, stored, began = (int(each or 0) for each in answer)
        return base.JobCounts(queued, claimed, done, skipped, dead, stored, to_moment(began) - self._clock.last)

    def minutes(self, now: datetime, *, count: int = 60) -> Sequence[base.MinuteCounts]:
        """See `Frontier.minutes`; with the server's time they are the server's minutes."""
        offset = self._clock.offset(now)
        rows = {row[0]: row[1:] for row in map(unpack, self._store.ask("minutes"))}
        last = unix_milliseconds(now + offset) // _MINUTE_MS
        return [
            base.MinuteCounts(to_moment(minute * _MINUTE_MS) - offset, *rows.get(minute, (0, 0, 0, 0)))
            for minute in range(last - min(count, 60) + 1, last + 1)
        ]

    def ls(self, state: base.ItemState, *, limit: int = 100, host: str | None = None) -> Sequence[base.ItemRecord]:
        """See `Frontier.ls`. For one host's ended items all items in that state are read."""
        records: list[base.ItemRecord] = []
        place: int | None = None
        while place != -1 and len(records) < limit:
            wanted = min(limit - len(records), LIST_BATCH)
            place, rows = unpack(self._store.ask("ls", redis_store.CODES[state], wanted, host, place))
            records += map(self._record, rows)
        return records

    def scan(
        self, state: base.ItemState, *, cursor: str = "", limit: int = 1000
    ) -> tuple[Sequence[base.ItemRecord], str]:
        shard, place = redis_store.parse_cursor(cursor)
        code, wanted = redis_store.CODES[state], max(min(limit, LIST_BATCH), 1)
        answer = self._store.ask("scan", code, shard, place, wanted)
        reached, place_there, rows = unpack(answer)
        after = "" if reached > redis_store.LAST_SHARD else f"{reached}:{place_there.decode()}"
        return [self._record(row) for row in rows], after

    def find_all(self, urls: Sequence[str]) -> list[base.ItemRecord | None]:
        records: list[base.ItemRecord | None] = []
        identities = [redis_store.identity_of(url) for url in urls]
        for start in range(0, len(identities), FIND_BATCH):
            answer = self._store.ask("find_all", identities[start : start + FIND_BATCH])
            records += [self._record(row) if row else None for row in unpack(answer)]
        return records

    def blocks(self, *, now: datetime, limit: int = 100) -> Sequence[base.HostBlock]:
        offset = self._clock.offset(now)
        rows = unpack(self._store.ask("blocks", unix_milliseconds(now + offset), limit))
        return [base.HostBlock(to_text(host), to_moment(until) - offset, to_text(why)) for host, until, why in rows]

    def host(self, host: str, *, now: datetime) -> base.HostReport | None:
        offset = self._clock.offset(now)
        rows = unpack(self._store.ask("hosts", None, host))
        return redis_store.unpack_report(rows[0], now, offset) if rows else None

    def hosts(self, order: base.HostOrder, *, now: datetime, limit: int = 20) -> Sequence[base.HostReport]:
        offset = self._clock.offset(now)
        rows = unpack(self._store.ask("hosts", order.value, limit)) if limit > 0 else []
        return [redis_store.unpack_report(row, now, offset) for row in rows]

    def give_order(self, kind: str, key: str, value: str) -> int:
        version: int = self._store.ask("order", kind, key, value)
        return version

    def take_back(self, kind: str, key: str) -> bool:
        return bool(self._store.ask("order", kind, key, None))

    def orders(self, kind: str) -> dict[str, str]:
        return dict(sorted(_pairs(map(to_text, self._store.ask("orders", kind)))))

    def put_note(
        self, kind: str, key: str, value: str, *, now: datetime, until: datetime | None = None, is_claim: bool = False
    ) -> bool:
        return bool(self._store.ask("put_note", self._ms(now), kind, key, value, self._up(until, now), is_claim))

    def note(self, kind: str, key: str, *, now: datetime) -> str | None:
        now_ms = self._ms(now)
        stored = self._store.ask("notes", kind, key)
        return None if stored is None else _note(stored, now_ms)

    def notes(self, kind: str, *, now: datetime) -> dict[str, str]:
        now_ms = self._ms(now)
        stored = _pairs(iter(self._store.ask("notes", kind, None)))
        values = ((to_text(key), _note(value, now_ms)) for key, value in stored)
        return dict(sorted((key, value) for key, value in values if value is not None))

    def erase_note(self, kind: str, key: str) -> None:
        self._store.ask("put_note", 0, kind, key, None, None)

    def _ms(self, now: datetime) -> int:
        """Return the present moment in the server's time, in milliseconds."""
        return unix_milliseconds(now + self._clock.offset(now))

    def _up(self, moment: datetime | None, now: datetime) -> int | None:
        """Return a not-before moment in the server's time, in milliseconds, rounded up."""
        return None if moment is None else unix_milliseconds_ceil(moment + self._clock.offset(now))

    def _record(self, row: list[Any]) -> base.ItemRecord:
        return redis_store.unpack_record(row, self._salt, self._clock.last)

    def _not_before(self, moment: datetime | None, now: datetime) -> int | None:
        """Return the earliest moment of an attempt for scripts, at most `longest_wait` away."""
        latest = now + longest_wait(self._politeness)
        return self._up(None if moment is None else min(moment, latest), now)

    def _end(self, verb: str, item: base.FrontierItem, now: datetime, use: base.HostUse, *arguments: object) -> Any:
        """End the item's claim with a script; return its answer."""
        claim = item.token, redis_store.identity_of(item.url)
        duration, delay = use.get("duration"), use.get("delay")
        took = None if duration is None else duration // _MICROSECOND
        rest = None if delay is None else max(delay // _MICROSECOND, 0)
        visit = unix_microseconds(now + self._clock.offset(now)), took, rest
        first, second = ([*claim, *visit, resent, *arguments] for resent in (0, 1))
        return self._store.ask(verb, *first, resent=second)


def _pairs(flat: Iterator[_Answer]) -> Iterator[tuple[_Answer, _Answer]]:
    return zip(flat, flat, strict=True)


def _note(note: bytes, now_ms: int) -> str | None:
    until_ms, value = unpack(note)
    return to_text(value) if until_ms == 0 or until_ms > now_ms else None
