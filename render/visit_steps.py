"""Time budget of a visit: one deadline, and a share of the remaining time for each step."""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from core.clock import Clock
from render.cdp import CommandError

_T = TypeVar("_T")

# No single step may use up more of the time that is left: the next ones want some too.
STEP_SHARE = 0.5


class VisitSteps:
    """Timed steps of one visit, started at once; all together have `timeout_s` seconds.

    Attributes:
        current: name of the current step.
        timings: seconds by step; repeated steps are added up.
        shortfall: reason for which the visit is not COMPLETE, a constant first; empty when it is.
    """

    def __init__(self, timeout_s: float, clock: Clock) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._began = clock.monotonic()
        self.current = "open"
        self.timings: dict[str, float] = {}
        self.shortfall = ""

    @property
    def spent_s(self) -> float:
        """Return the seconds since the start."""
        return self._clock.monotonic() - self._began

    @property
    def left_s(self) -> float:
        """Return the seconds to the deadline."""
        return max(0.0, self._timeout_s - self.spent_s)

    def share_s(self, limit_s: float = float("inf")) -> float:
        """Return the time limit of one step: `limit_s`, or less by its share of the time left."""
        return min(limit_s, self.left_s * STEP_SHARE)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure the step and mark it as the current one."""
        self.current = name
        began = self._clock.monotonic()
        try:
            yield
        finally:
            spent = self._clock.monotonic() - began
            self.timings[name] = self.timings.get(name, 0.0) + spent

    def fall_short(self, reason: str) -> None:
        """Mark the visit as not COMPLETE; the first reason counts."""
        self.shortfall = self.shortfall or reason

    async def make(
        self, name: str, making: Awaitable[_T], *, limit_s: float = float("inf")
    ) -> _T | None:
        """Await `making` and return its result; None, with a shortfall, on failure or timeout."""
        with self.step(name):
            made = await self.attempt(making, self.share_s(limit_s))
        if made is None:
            self.fall_short(f"missing: {name}")
        return made

    async def attempt(self, making: Awaitable[_T], limit_s: float) -> _T | None:
        """Await `making` and return its result; None when it fails or times out."""
        try:
            async with asyncio.timeout(limit_s):
                return await making
        except (TimeoutError, CommandError):
            return None
