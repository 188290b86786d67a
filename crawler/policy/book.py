"""The policy entries as they are now, read again when an order was given or taken back.

Reading costs time in proportion to the entries, so it is done at most every `LOOK_S`, and so seldom
that it takes no more than a tenth of the time however many entries there are.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from core.clock import Clock
from core.urls import host_of
from crawler.frontier.base import Frontier
from crawler.policy.entries import (
    CRAWL,
    ORDERS,
    Entries,
    Kind,
    PolicyEntry,
    read_entries,
)

LOOK_S = 0.4
SHARE = 10.0  # reading takes at most one part in so many of the time
PRUNED_AFTER = timedelta(days=1)  # an entry that expired so long ago is taken out
PRUNED_AT_ONCE = 1_000
IN_A_THREAD = 1_000  # more entries than these are not read on the event loop

Ask = Callable[[Callable[[], Any]], Awaitable[Any]]


class PolicyBook:
    """The entries of a frontier. Used from one event loop.

    Args:
        frontier: where they are orders.
        clock: the time.
        ask: calls a verb of the frontier (`crawler.patience.Patience.ask`).
    """

    def __init__(self, frontier: Frontier, *, clock: Clock, ask: Ask) -> None:
        self._frontier = frontier
        self._clock = clock
        self._ask = ask
        self._version = -1
        self._orders: dict[str, str] | None = None
        self._look_at = float("-inf")
        self._reading = asyncio.Lock()
        self.entries = Entries()

    async def refresh(self) -> None:
        """Read the entries when they may have changed; a change is seen within a second."""
        if self._clock.monotonic() < self._look_at:
            return
        async with self._reading:
            began = self._clock.monotonic()
            if began < self._look_at:
                return
            now = self._clock.now()
            stats = await self._ask(lambda: self._frontier.stats(now))
            if stats.version != self._version:
                orders: dict[str, str] = await self._ask(lambda: self._frontier.orders(ORDERS))
                if orders != self._orders:
                    await self._read(orders)
                    await self._prune(now)
                self._version = stats.version
            ended = self._clock.monotonic()
            self._look_at = ended + max(LOOK_S, (ended - began) * SHARE)

    async def _read(self, orders: dict[str, str]) -> None:
        if len(orders) > IN_A_THREAD:
            self.entries = await asyncio.to_thread(read_entries, orders, known=self.entries)
        else:
            self.entries = read_entries(orders, known=self.entries)
        self._orders = orders

    async def _prune(self, now: datetime) -> None:
        """Take out what expired long ago."""
        over = [
            key
            for key, entry in self.entries.by_id.items()
            if entry.expires_at is not None and entry.expires_at + PRUNED_AFTER <= now
        ]
        for key in over[:PRUNED_AT_ONCE]:
            await self._ask(partial(self._frontier.take_back, ORDERS, key))

    async def ban(
        self, url: str, reason: str, *, seconds: float, now: datetime, key: str = ""
    ) -> None:
        """Leave the URL's site, which is its host, alone for a while (A05; with `FAILING` A07)."""
        if seconds <= 0:
            return
        entry = PolicyEntry(
            kind=Kind.AUTOBLACKLIST,
            pattern=f"={host_of(url)}",
            reason=reason[:500],
            actor=CRAWL,
            made_at=now,
            expires_at=now + timedelta(seconds=min(seconds, 1e9)),
            key=key,
        )
        there = self.entries.by_id.get(entry.id)
        if there is not None and there.holds(now):
            return
        value = entry.to_json()
        await self._ask(lambda: self._frontier.give_order(ORDERS, entry.id, value))
        self._look_at = float("-inf")
