"""Telling a dead host from a dead network.

When a cable is pulled every host is unreachable. A crawl that believed that would bury what it could
not reach within the hour. So when a host cannot be reached, the proxy is asked for a connection, and
no more, to hosts that answered a while ago. If none of them can be reached either, nothing is held
against anybody: items are given back, and work waits until one of those hosts can be reached. Where
no host has answered yet there is nothing to compare with, and failures count.
"""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from core.clock import Clock
from core.errors import TransientError
from core.pages import Outcome, PageInfo
from crawler.waiting import GoingOn, Waiting
from proxy.ways_out import UNREACHABLE

REMEMBERED = 5
BELIEVED_S = 5.0  # one answer serves all visits that fail at about the same time
LOOK_S = 5.0
AWAY = "No host can be reached, also none that answered a while ago."

Reach = Callable[[str, int], Awaitable[bool]]


class NetworkAwayError(TransientError):
    """See `AWAY`."""


class Network:
    """What a process knows of the network. `reach` opens a connection as visits do."""

    def __init__(
        self, reach: Reach, clock: Clock, report: Callable[[Waiting | GoingOn], None]
    ) -> None:
        self._reach = reach
        self._clock = clock
        self._report = report
        self._answered: dict[str, int] = {}  # host -> port, the latest last
        self._looking = asyncio.Lock()
        self._seen_at = float("-inf")
        self._there = True

    async def judge(self, page: PageInfo) -> None:
        """Learn from a visit.

        Raises:
            NetworkAwayError: the host could not be reached, and neither can any other: the visit
                says nothing about the page.
        """
        if not (page.outcome is Outcome.FAILED and page.reason.startswith(UNREACHABLE)):
            if page.status is not None:
                self._remember(page.final_url)
            return
        if self._answered and not await self._is_there():
            raise NetworkAwayError(f"The network is away: {page.reason}")

    async def wait(self, stopping: asyncio.Event) -> None:
        """Return when the network is there, as far as we know, or when `stopping` is set."""
        if not self._is_away():
            return
        async with self._looking:
            if not self._is_away():
                return
            since = self._clock.monotonic()
            self._report(Waiting("network", AWAY))
            while not stopping.is_set() and not await self._look():
                try:
                    await asyncio.wait_for(stopping.wait(), LOOK_S)
                except TimeoutError:
                    continue
            if not self._is_away():
                self._report(GoingOn("network", self._clock.monotonic() - since))

    def _is_away(self) -> bool:
        return not self._there

    async def _is_there(self) -> bool:
        async with self._looking:
            if self._clock.monotonic() - self._seen_at > BELIEVED_S:
                await self._look()
            return self._there

    async def _look(self) -> bool:
        self._there = False
        for host, port in reversed(self._answered.items()):
            if await self._reach(host, port):
                self._there = True
                break
        self._seen_at = self._clock.monotonic()
        return self._there

    def _remember(self, url: str) -> None:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or (80 if parts.scheme == "http" else 443)
        if host is None:
            return
        self._answered.pop(host, None)
        self._answered[host] = port
        if len(self._answered) > REMEMBERED:
            del self._answered[next(iter(self._answered))]
