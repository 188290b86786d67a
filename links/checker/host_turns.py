"""Per-host turns of requests, and the limit of open connections.

The timetable spaces checks; redirects and further requests are limited here. A check holds one host at a time: the
gap begins when it takes another or ends, so that two requests cannot come closer in transit. A check that waits
holds no connection, and is cancelled when it would wait too long (`ActiveCheck.is_crowded`).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from links.checker.timetable import HostGaps

T = TypeVar("T")

LONGEST_WAIT_S = 300.0
_TIMER_S = 0.001  # a timer may be early by its clock's resolution
_FORGET_AT = 20_000  # hosts remembered before those are forgotten that are free again


@dataclass(eq=False, slots=True)
class ActiveCheck:
    """Running check."""

    task: "asyncio.Task[object]"
    host: str = ""  # the host that it holds; empty before the first
    is_crowded: bool = False  # cancelled: too many wait for a host, or the limiter closed
    is_asking: bool = False  # it has one of the connections


@dataclass(eq=False, slots=True)
class _HostQueue:
    free_at: float = 0.0
    is_taken: bool = False
    waiting: "deque[tuple[ActiveCheck, asyncio.Future[None]]]" = field(default_factory=deque)


_ACTIVE_CHECK: ContextVar[ActiveCheck] = ContextVar("active_check")


class HostTurns:
    """Limiter of the requests of one checker to each host. Bound to one event loop."""

    def __init__(self, gap_s: float, *, monotonic: Callable[[], float], longest_wait_s: float = LONGEST_WAIT_S) -> None:
        """Set the general gap."""
        self.gaps = HostGaps(gap_s)
        self.parked = 0
        self.on_parked: Callable[[], None] = lambda: None
        self._connections: int | None = None
        self._asking = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._monotonic = monotonic
        self._longest_wait_s = longest_wait_s
        self._hosts: dict[str, _HostQueue] = {}
        self._waiting: set[ActiveCheck] = set()
        self._closed = False

    @contextmanager
    def active_check(self) -> Iterator[ActiveCheck]:
        """Register a check by the current task; release its host at the end."""
        task = asyncio.current_task()
        assert task is not None
        active = ActiveCheck(task)
        token = _ACTIVE_CHECK.set(active)
        try:
            yield active
        finally:
            _ACTIVE_CHECK.reset(token)
            self._let_go(active)

    async def run(self, check: Awaitable[T]) -> T | None:
        """Return the result of a check; None when a wait would be too long, or the limiter closed."""
        with self.active_check() as active:
            try:
                return await check
            except asyncio.CancelledError:
                if not active.is_crowded:
                    raise
                active.task.uncancel()
                return None

    async def take(self, host: str) -> None:
        """Wait until a request to the canonical host is allowed. Only within `run`."""
        active = _ACTIVE_CHECK.get()
        self._let_go(active)
        queue = self._hosts.get(host)
        if queue is None:
            if len(self._hosts) >= _FORGET_AT:
                now = self._monotonic()
                self._hosts = {
                    name: each
                    for name, each in self._hosts.items()
                    if each.is_taken or each.waiting or each.free_at > now
                }
            queue = self._hosts[host] = _HostQueue()
        ahead = len(queue.waiting) + queue.is_taken
        wait_s = max(queue.free_at - self._monotonic(), 0.0) + ahead * self.gaps.of(host)
        if self._closed or wait_s > self._longest_wait_s:
            self._end(active)
            await asyncio.sleep(0)  # it is cancelled here
        self._waiting.add(active)
        self.parked += 1
        try:
            if queue.is_taken:
                handed = asyncio.get_running_loop().create_future()
                queue.waiting.append((active, handed))
                self.on_parked()
                await handed
            else:
                queue.is_taken, active.host = True, host
            left = queue.free_at - self._monotonic()
            if left > 0:
                self.on_parked()
                await asyncio.sleep(left + _TIMER_S)
        finally:
            self.parked -= 1
            self._waiting.discard(active)
        await self._connect(active)

    def allow(self, connections: int) -> None:
        """Set the number of concurrent connections."""
        self._connections = connections
        self._grant()

    def ask_fewer(self) -> int:
        """Limit concurrent connections to three quarters, at least one; return the number."""
        now = self._asking if self._connections is None else self._connections
        self._connections = max(now * 3 // 4, 1)
        return self._connections

    def close(self) -> None:
        """Cancel every waiting check, now and from now on."""
        self._closed = True
        for active in list(self._waiting):
            self._end(active)

    async def _connect(self, active: ActiveCheck) -> None:
        if self._queue or not self._is_free:
            granted = asyncio.get_running_loop().create_future()
            self._queue.append(granted)
            try:
                await granted
            except asyncio.CancelledError:
                if granted.done() and not granted.cancelled():
                    self._asking -= 1
                    self._grant()
                raise
        else:
            self._asking += 1
        active.is_asking = True

    @property
    def _is_free(self) -> bool:
        return self._connections is None or self._asking < self._connections

    def _grant(self) -> None:
        while self._queue and self._is_free:
            granted = self._queue.popleft()
            if not granted.done():
                self._asking += 1
                granted.set_result(None)

    def _let_go(self, active: ActiveCheck) -> None:
        if active.is_asking:
            active.is_asking = False
            self._asking -= 1
            self._grant()
        host, active.host = active.host, ""
        if not host:
            return
        queue = self._hosts[host]
        queue.free_at = self._monotonic() + self.gaps.of(host)
        while queue.waiting:
            following, handed = queue.waiting.popleft()
            if not handed.done():
                following.host = host
                handed.set_result(None)
                return
        queue.is_taken = False

    def _end(self, active: ActiveCheck) -> None:
        active.is_crowded = True
        active.task.cancel()
