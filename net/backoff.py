"""Exponential back-off, and retries of store calls while a store is unreachable.

Redis or PostgreSQL may be restarted while a crawl runs for months. Nothing is lost by waiting: what
was begun is finished, and its end is told when there is somebody to tell it to. A verb may be sent
twice; every verb of the frontier and of the index allows for that.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from core.clock import Clock
from core.errors import TransientError


@dataclass(frozen=True, slots=True)
class WaitStarted:
    """Work waits.

    Attributes:
        reason: for what, a constant: ``store``, ``network``, ``memory``, ``host``.
        text: a sentence for people.
    """

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class WaitEnded:
    """It goes on, after so many seconds."""

    reason: str
    seconds: float


class ExponentialBackoff:
    """Pauses that double with each failure, up to a limit.

    >>> pauses = ExponentialBackoff(1.0, 5.0)
    >>> [pauses.next_s() for _ in range(4)]
    [1.0, 2.0, 4.0, 5.0]
    >>> pauses.reset()
    >>> pauses.next_s()
    1.0
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        """Begin with the first pause; none is longer than the longest."""
        self._first_s = first_s
        self._longest_s = longest_s
        self._pause_s = first_s

    def next_s(self) -> float:
        """Return the pause after one more failure, in seconds."""
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Begin anew: an attempt worked."""
        self._pause_s = self._first_s


_T = TypeVar("_T")

STORE_FIRST_PAUSE_S = 0.2
STORE_LONGEST_PAUSE_S = 5.0


class StoreRetry:
    """Asks stores on behalf of everyone in a process. One event for all who wait."""

    def __init__(self, clock: Clock, report: Callable[[WaitStarted | WaitEnded], None]) -> None:
        self._clock = clock
        self._report = report
        self._away_since: float | None = None

    async def ask(self, verb: Callable[[], _T]) -> _T:
        """What the verb returns, asked in a thread, again and again while the store is away.

        Raises:
            WeboidError: the store answers and cannot do it, or cannot be used at all.
        """
        pause_s = STORE_FIRST_PAUSE_S
        while True:
            try:
                answer = await asyncio.to_thread(verb)
            except TransientError as error:
                if self._away_since is None:
                    self._away_since = self._clock.monotonic()
                    self._report(WaitStarted("store", str(error)))
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, STORE_LONGEST_PAUSE_S)
            else:
                if self._away_since is not None:
                    away_s, self._away_since = self._clock.monotonic() - self._away_since, None
                    self._report(WaitEnded("store", away_s))
                return answer
