"""Exponential back-off, and retries of idempotent store calls while a store is unreachable."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from core.clock import Clock
from core.errors import TransientError


@dataclass(frozen=True, slots=True)
class WaitStarted:
    """Start of a wait."""

    reason: str  # a constant: ``store``, ``network``, ``memory``, ``host``
    text: str  # a sentence for display


@dataclass(frozen=True, slots=True)
class WaitEnded:
    """End of a wait, with its length in seconds."""

    reason: str
    seconds: float


class ExponentialBackoff:
    """Pauses that double with each failure, up to a limit.

    >>> pauses = ExponentialBackoff(1.0, 5.0)
    >>> [pauses.next_s() for _ in range(4)]
    [1.0, 2.0, 4.0, 5.0]
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._pause_s = first_s

    def next_s(self) -> float:
        """Return the pause after one more failure, in seconds."""
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Reset to the first pause after a success."""
        self._pause_s = self._first_s


_T = TypeVar("_T")

STORE_FIRST_PAUSE_S = 0.2
STORE_LONGEST_PAUSE_S = 5.0


class StoreRetry:
    """Retry of store calls for all tasks of a process; one event per outage."""

    def __init__(self, clock: Clock, report: Callable[[WaitStarted | WaitEnded], None]) -> None:
        self._clock = clock
        self._report = report
        self._away_since: float | None = None

    async def ask(self, verb: Callable[[], _T]) -> _T:
        """Return the call's result, repeated in a thread while the store raises TransientError."""
        pauses = ExponentialBackoff(STORE_FIRST_PAUSE_S, STORE_LONGEST_PAUSE_S)
        while True:
            try:
                answer = await asyncio.to_thread(verb)
            except TransientError as error:
                if self._away_since is None:
                    self._away_since = self._clock.monotonic()
                    self._report(WaitStarted("store", str(error)))
                await asyncio.sleep(pauses.next_s())
            else:
                if self._away_since is not None:
                    away_s, self._away_since = self._clock.monotonic() - self._away_since, None
                    self._report(WaitEnded("store", away_s))
                return answer
