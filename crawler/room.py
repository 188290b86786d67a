"""Room in memory: a visit is begun when it will leave enough; one may always run.

What a visit needs is learned from those that ran: a maximum that fades slowly, so that one heavy page
is remembered for a while and not for ever. Without room fewer visits run at a time; none is refused,
and no page is to blame.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from core.clock import Clock
from crawler.waiting import GoingOn, Waiting

LOOK_S = 0.5
FIRST_VISIT_BYTES = 150_000_000  # what a visit is believed to need before one has run
FADING = 0.99
GROWN_S = 8.0  # by then a visit holds what it needs
CALM_S = 60.0  # without a shortage for so long, it is over


class Room:
    """Asked by every worker before it claims."""

    def __init__(
        self,
        free_bytes: Callable[[], int | None],
        visits_bytes: Callable[[], int],
        *,
        reserve_bytes: int,
        clock: Clock,
        report: Callable[[Waiting | GoingOn], None],
    ) -> None:
        """All visits of a process.

        Args:
            free_bytes: memory that can be had; None when nobody knows, and then nobody waits.
            visits_bytes: memory that the visits under way hold.
            reserve_bytes: so much stays free.
            clock: the time.
            report: told once when there is no room, and once when there is again.
        """
        self._free_bytes = free_bytes
        self._visits_bytes = visits_bytes
        self._reserve_bytes = reserve_bytes
        self._clock = clock
        self._report = report
        self._begun: list[float] = []
        self._ended = asyncio.Event()
        self._short_since: float | None = None
        self._short_last = 0.0
        self.visit_bytes = float(FIRST_VISIT_BYTES)

    def __repr__(self) -> str:
        return f"<Room [{len(self._begun)} visits, {self.visit_bytes / 1e6:.0f} MB each]>"

    @asynccontextmanager
    async def take(self, stopping: asyncio.Event) -> AsyncIterator[None]:
        """Wait for room, or until `stopping` is set, and hold it to the end of the block."""
        while not self._suffices() and not stopping.is_set():
            self._note_short()
            await self._wait()
        began = self._clock.monotonic()
        self._note_enough(began)
        self._begun.append(began)
        try:
            yield
        finally:
            visits = len(self._begun)
            self._begun.remove(began)
            self._ended.set()
            self._learn(visits)

    def _suffices(self) -> bool:
        if not self._begun:
            return True
        free = self._free_bytes()
        if free is None:
            return True
        now = self._clock.monotonic()
        # What has just begun will take what it needs, and does not hold it yet.
        growing = sum(now - began < GROWN_S for began in self._begun)
        return free - self._reserve_bytes >= (growing + 1) * self.visit_bytes

    def _learn(self, visits: int) -> None:
        """Take in what one of so many visits holds."""
        seen = self._visits_bytes() / visits
        if seen > 0:
            self.visit_bytes = max(seen, FADING * self.visit_bytes + (1 - FADING) * seen)

    async def _wait(self) -> None:
        """Until a visit ends, or somebody else may have given memory back."""
        self._ended.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), LOOK_S)

    def _note_short(self) -> None:
        self._short_last = self._clock.monotonic()
        if self._short_since is None:
            self._short_since = self._short_last
            free = self._free_bytes() or 0
            self._report(
                Waiting(
                    "memory",
                    f"There is memory for {len(self._begun)} visits at a time:"
                    f" {free / 1e6:,.0f} MB are free, {self._reserve_bytes / 1e6:,.0f} MB are to stay"
                    f" free, a visit takes some {self.visit_bytes / 1e6:,.0f} MB.",
                )
            )

    def _note_enough(self, now: float) -> None:
        if self._short_since is not None and now - self._short_last > CALM_S:
            since, self._short_since = self._short_since, None
            self._report(GoingOn("memory", now - since))
