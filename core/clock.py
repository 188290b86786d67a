"""System clock, the only module that reads the time."""

import os
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from core.timestamps import parse_duration

CLOCK_OFFSET = "WEBOID_CLOCK_OFFSET"  # how far the clock is moved, on the copy of a trial: 10d


class Clock(Protocol):
    """Source of the time."""

    def now(self) -> datetime:
        """Return the current moment, aware, in UTC."""

    def monotonic(self) -> float:
        """Return monotonic seconds, for durations and deadlines."""


class SystemClock:
    """Machine's clock, shifted by `CLOCK_OFFSET` where that is set."""

    def now(self) -> datetime:
        """Return the current moment, aware, in UTC."""
        return datetime.now(UTC) + clock_offset()

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()


def clock_offset() -> timedelta:
    """Return the clock's offset set in the environment. Raises InputError if it is not a duration."""
    return _parsed(os.environ.get(CLOCK_OFFSET, ""))


@lru_cache(maxsize=8)
def _parsed(text: str) -> timedelta:
    return parse_duration(text) if text else timedelta(0)
