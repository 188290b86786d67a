"""The frontier that several machines share: Redis, one Lua script a verb.

An answer that was lost is asked for again. To add, block or give an order twice changes nothing; a
claim that is lost runs out of its lease; whoever ends a claim says, the second time, that it is the
second, and is told yes when the first had come through.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Self

from core.redis_url import RedisAddress
from core.settings import FrontierSettings, PolitenessSettings
from core.timestamps import microseconds, milliseconds
from core.timestamps import moment as to_moment
from crawler.frontier import packing
from crawler.frontier.base import (
    AddResult,
    FrontierItem,
    ItemState,
    NewItem,
)
from crawler.frontier.offers import pack_offers
from crawler.frontier.packing import unpack
from crawler.frontier.redis_reports import AT_ONCE, RedisReports
from crawler.frontier.redis_store import RedisStore
from crawler.frontier.server_clock import ServerClock
from crawler.politeness import LONGEST_RETRY, longest_back_off, longest_rest, longest_wait

# A lease that runs out counts for less than a failure; see the SQLite frontier's moves.
CLAIMS_PER_ATTEMPT = 3
_MICROSECOND = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)


class RedisFrontier(RedisReports):
    """A `Frontier` in the Redis at `address`, made when there is none.

    An addition of more than a thousand URLs is several transactions; bad URLs are noticed before
    the first.

    Args:
        address: where (`core.redis_url`).
        politeness: how gently hosts are asked.
        settings: attempts, leases, retry delays, order and shares of lanes.
        server_time: reckon in the server's time, so that machines whose clocks differ agree.
        salt: what page identifiers of a new frontier are made with, 16 bytes.
        monotonic: a clock that nobody sets.

    Raises:
        CollectionVersionError: what is there is another program's or another version's.
        TransientError: the server does not answer.
        UnavailableError: it cannot be used.
    """

    def __init__(
        self,
        address: RedisAddress,
        *,
        politeness: PolitenessSettings | None = None,
        settings: FrontierSettings | None = None,
        server_time: bool = True,
        salt: bytes | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._politeness = politeness or PolitenessSettings()
        self._settings = settings or FrontierSettings()
        salt = salt or secrets.token_bytes(16)
        store = RedisStore(address, self._politeness, self._settings, salt)
        super().__init__(store, ServerClock(store.time if server_time else None, monotonic))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections."""
        self._store.close()

    def save(self, wait: Callable[[float], object] | None = None) -> str:
        """Let Redis write a copy of one moment (BGSAVE); return its file, empty when it does not tell.

        Raises:
            UnavailableError: the user may not, or Redis could not write it.
        """
        return self._store.save(wait or threading.Event().wait)

    def check(self) -> list[str]:
        """What in the server's configuration may lose the frontier, as sentences."""
        return self._store.warnings()

    def add(
        self, items: Iterable[NewItem], *, now: datetime, again: timedelta | None = None
    ) -> AddResult:
        """See `Frontier.add`."""
        now_ms = milliseconds(now + self._clock.offset(now))
        age_ms = None if again is None else -(-again // _MILLISECOND)
        offered = added = requeued = 0
        for batch in pack_offers(items, AT_ONCE):
            fresh, anew = self._store.ask("add", now_ms, age_ms, *batch)
            offered += batch.offered
            added, requeued = added + fresh, requeued + anew
        return AddResult(added, offered - added - requeued, requeued)

    def claim(self, *, now: datetime, worker: str, limit: int = 1) -> list[FrontierItem]:
        """See `Frontier.claim`."""
        now_ms = milliseconds(now + self._clock.offset(now))
        every = self._settings.high_every, self._settings.standard_every
        most = CLAIMS_PER_ATTEMPT * max(self._settings.attempts, 1)
        items: list[FrontierItem] = []
        there_is_more = True
        while there_is_more and len(items) < limit:
            wanted = limit - len(items)
            said = self._store.ask("claim", now_ms, worker, wanted, *every, most)
            there_is_more, rows = unpack(said)
            items += [packing.item_of(row, self._salt) for row in rows]
        return items

    def renew(self, item: FrontierItem, *, now: datetime) -> bool:
        """See `Frontier.renew`."""
        now_ms = milliseconds(now + self._clock.offset(now))
        identity = packing.identity_of(item.url)
        return bool(self._store.ask("renew", item.token, identity, now_ms))

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
        how = outcome, stored_bytes, self._up(due, now), memo
        return bool(self._end("complete", item, now, duration, delay, *how))

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
        waits = round(self._settings.retry_delay_s * 1e6), LONGEST_RETRY // _MICROSECOND
        how = reason, self._not_before(not_before, now), *waits, self._settings.attempts
        return packing.STATES.get(self._end("retry", item, now, duration, delay, *how))

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
        return bool(self._end("bury", item, now, duration, delay, packing.DEAD, reason))

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
        return bool(self._end("bury", item, now, duration, delay, packing.SKIPPED, reason))

    def release(
        self,
        item: FrontierItem,
        *,
        now: datetime,
        reason: str = "",
        not_before: datetime | None = None,
    ) -> bool:
        """See `Frontier.release`."""
        how = reason, self._not_before(not_before, now)
        return bool(self._end("release", item, now, None, None, *how))

    def discard(self, urls: Iterable[str], *, now: datetime, reason: str) -> int:
        """See `Frontier.discard`. A thousand URLs are one transaction."""
        now_ms = milliseconds(now + self._clock.offset(now))
        ids = [packing.identity_of(url) for url in urls]
        return sum(
            self._store.ask("discard", now_ms, reason, b"".join(ids[first : first + AT_ONCE]))
            for first in range(0, len(ids), AT_ONCE)
        )

    def rest(self, hosts: Mapping[str, datetime], *, now: datetime) -> None:
        """See `Frontier.rest`. A thousand hosts are one transaction."""
        now_ms = milliseconds(now + self._clock.offset(now))
        latest = now + longest_rest(self._politeness)
        moments = [(host, self._up(min(moment, latest), now)) for host, moment in hosts.items()]
        for first in range(0, len(moments), AT_ONCE):
            pairs = (each for pair in moments[first : first + AT_ONCE] for each in pair)
            self._store.ask("rest", now_ms, *pairs)

    def block_until(self, host: str, moment: datetime, reason: str, *, now: datetime) -> None:
        """See `Frontier.block_until`."""
        now_ms = milliseconds(now + self._clock.offset(now))
        # A moment that is `now` must not become a later one by rounding.
        until_ms = self._up(moment, now) if moment > now else now_ms
        self._store.ask("block", now_ms, host, until_ms, reason)

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
        offset = self._clock.offset(now)
        p = self._politeness
        if at_least is not None:
            at_least = min(at_least, now + longest_back_off(p))
        until_ms = self._store.ask(
            "back_off",
            microseconds(now + offset),
            host,
            reason,
            self._up(at_least, now) or 0,
            down,
            round(p.host_retry_s * 1e6),
            round(p.host_retry_limit_s * 1e6),
            p.host_failures,
            round(p.host_down_s * 1e6),
        )
        return to_moment(until_ms) - offset

    def pause(self, reason: str) -> None:
        """See `Frontier.pause`."""
        self._store.ask("pause", reason)

    def resume(self) -> None:
        """See `Frontier.resume`."""
        self._store.ask("pause", None)

    def _not_before(self, moment: datetime | None, now: datetime) -> int | None:
        """Return the earliest moment of an attempt as scripts take it, at most `longest_wait` away."""
        latest = now + longest_wait(self._politeness)
        return self._up(None if moment is None else min(moment, latest), now)

    def _end(
        self,
        verb: str,
        item: FrontierItem,
        now: datetime,
        duration: timedelta | None,
        delay: timedelta | None,
        *how: object,
    ) -> Any:
        """End the item's claim with a verb; what its script answers."""
        claim = item.token, packing.identity_of(item.url)
        took = None if duration is None else duration // _MICROSECOND
        rest = None if delay is None else max(delay // _MICROSECOND, 0)
        visit = microseconds(now + self._clock.offset(now)), took, rest
        first, second = ([*claim, *visit, resent, *how] for resent in (0, 1))
        return self._store.ask(verb, *first, resent=second)
