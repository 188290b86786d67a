"""Clocks that tests set: one that stands until it is moved, and one that runs with an offset."""

import asyncio
from datetime import UTC, datetime, timedelta

from core.clock import SystemClock

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """Clock that stands until a test moves it; `moment` and `seconds` are one time in two forms."""

    def __init__(self, moment: datetime = NEW_YEAR, seconds: float = 0.0) -> None:
        """Create a clock at a moment, whose monotonic time is `seconds`."""
        self.moment = moment
        self.slept: list[float] = []  # arguments of `sleep`
        self._zero = moment - timedelta(seconds=seconds)

    @property
    def seconds(self) -> float:
        """Return the monotonic seconds."""
        return (self.moment - self._zero).total_seconds()

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self.moment = self._zero + timedelta(seconds=seconds)

    def now(self) -> datetime:
        """Return the moment."""
        return self.moment

    def monotonic(self) -> float:
        """Return the seconds."""
        return self.seconds

    def advance(self, **span: float) -> None:
        """Move the clock, by arguments of `timedelta`."""
        self.moment += timedelta(**span)

    async def sleep(self, seconds: float) -> None:
        """Move the clock instead of waiting; other tasks run."""
        self.slept.append(seconds)
        self.advance(seconds=seconds)
        await asyncio.sleep(0)


class ShiftedClock(SystemClock):
    """Running clock that is ahead of the machine's by `offset`; monotonic seconds are not."""

    def __init__(self, offset: timedelta = timedelta(0)) -> None:
        """Set the offset."""
        self.offset = offset

    def now(self) -> datetime:
        """Return the shifted moment."""
        return super().now() + self.offset
