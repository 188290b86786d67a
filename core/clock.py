"""System clock, the only module that reads the time."""

import os
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from core.timestamps import parse_duration

CLOCK_OFFSET = "WEBOID_CLOCK_OFFSET"  # how far the clock is moved, on the copy of a trial: 10d


class Clock(Protocol):
    """What tells the time."""

    def now(self) -> datetime:
        """The current moment, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; for durations and deadlines."""
        ...


class SystemClock:
    """The machine's own clock, moved by `CLOCK_OFFSET` where that is set."""

    def now(self) -> datetime:
        """The current moment, aware, in UTC."""
        return datetime.now(UTC) + clock_offset()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()


def clock_offset() -> timedelta:
    """Return how far the environment moves the clock.

    Raises:
        InputError: it names no duration.
    """
    return _parsed(os.environ.get(CLOCK_OFFSET, ""))


@lru_cache(maxsize=8)
def _parsed(text: str) -> timedelta:
    return parse_duration(text) if text else timedelta(0)
