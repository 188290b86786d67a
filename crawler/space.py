"""Room on the collection's disk: below the reserve no visit begins, and the run goes on by itself later."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from core.clock import Clock
from proxy.disk import Disk

LOOK_S = 2.0
# More than the reserve must be free before a run goes on, or it would stop at the next page.
MARGIN = 1.05


@dataclass(frozen=True, slots=True)
class Paused:
    """No page is begun: less than the reserve is free.

    Attributes:
        free_bytes: on the collection's disk.
        wanted_bytes: so many must be free before the run goes on.
    """

    free_bytes: int
    wanted_bytes: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """There is room again, after so many seconds."""

    seconds: float


class Space:
    """Asked by every worker before a visit; one of them looks, the others wait for it."""

    def __init__(
        self,
        disk: Disk,
        *,
        patience_s: float,
        clock: Clock,
        report: Callable[[Paused | Resumed], None],
    ) -> None:
        self._disk = disk
        self._patience_s = patience_s
        self._clock = clock
        self._report = report
        self._looking = asyncio.Lock()

    def is_low(self) -> bool:
        """Whether less than the reserve is free."""
        return self._disk.free_bytes < self._disk.reserve_bytes

    async def wait(self, stopping: asyncio.Event) -> None:
        """Return when there is room, or when `stopping` is set.

        Raises:
            DiskFullError: there was none for as long as the patience lasts.
        """
        async with self._looking:
            if stopping.is_set() or not self.is_low():
                return
            since = self._clock.monotonic()
            wanted = int(self._disk.reserve_bytes * MARGIN)
            if self._patience_s:
                self._report(Paused(self._disk.free_bytes, wanted))
            while self._disk.free_bytes < wanted:
                if self._clock.monotonic() - since >= self._patience_s:
                    self._disk.require_reserve(MARGIN)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), LOOK_S)
                    return
            self._report(Resumed(self._clock.monotonic() - since))
