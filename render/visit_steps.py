"""Time budget of a visit: one deadline, a share of the rest for each step."""

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
    """The steps of one visit.

    Attributes:
        current: the step being made.
        timings: seconds by step; a step that is made twice counts together.
        shortfall: why the visit is not COMPLETE, a constant first; empty when it is.
    """

    def __init__(self, timeout_s: float, clock: Clock) -> None:
        """Begin now.

        Args:
            timeout_s: all steps together may take so long.
            clock: the time.
        """
        self._timeout_s = timeout_s
        self._clock = clock
        self._began = clock.monotonic()
        self.current = "open"
        self.timings: dict[str, float] = {}
        self.shortfall = ""

    @property
    def spent_s(self) -> float:
        """Seconds since the beginning."""
        return self._clock.monotonic() - self._began

    @property
    def left_s(self) -> float:
        """Seconds up to the deadline."""
        return max(0.0, self._timeout_s - self.spent_s)

    def share_s(self, limit_s: float = float("inf")) -> float:
        """What one step may take: `limit_s`, but no more than its share of what is left."""
        return min(limit_s, self.left_s * STEP_SHARE)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Note how long the step takes, and that it is the one being made."""
        self.current = name
        began = self._clock.monotonic()
        try:
            yield
        finally:
            spent = self._clock.monotonic() - began
            self.timings[name] = self.timings.get(name, 0.0) + spent

    def fall_short(self, reason: str) -> None:
        """The visit is not COMPLETE; the first reason is the one that counts."""
        self.shortfall = self.shortfall or reason

    async def make(
        self, name: str, making: Awaitable[_T], *, limit_s: float = float("inf")
    ) -> _T | None:
        """What `making` returns; None, and a shortfall, when it cannot be made in its share of time."""
        with self.step(name):
            made = await self.attempt(making, self.share_s(limit_s))
        if made is None:
            self.fall_short(f"missing: {name}")
        return made

    async def attempt(self, making: Awaitable[_T], limit_s: float) -> _T | None:
        """What `making` returns; None when it fails or takes longer."""
        try:
            async with asyncio.timeout(limit_s):
                return await making
        except (TimeoutError, CommandError):
            return None
