"""The collection's disk, and the reserve that is kept free on it (C-10)."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from core.errors import DiskFullError

LOOK_S = 0.5


class Disk:
    """Asked before a visit begins, and while its bytes come. Thread-safe."""

    def __init__(
        self,
        folder: Path,
        reserve_bytes: int,
        *,
        free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reserve_bytes = reserve_bytes
        self._folder = folder
        self._free_bytes = free_bytes
        self._monotonic = monotonic
        self._looked = float("-inf")
        self._low = False

    @property
    def free_bytes(self) -> int:
        """What is free now."""
        return self._free_bytes(self._folder)

    def require_reserve(self, margin: float = 1.0) -> None:
        """Check that a visit may begin.

        Raises:
            DiskFullError: less than `margin` times the reserve is free.
        """
        free = self.free_bytes
        if free < int(self.reserve_bytes * margin):
            raise DiskFullError(
                f"{free:,} bytes are free, the reserve is {self.reserve_bytes:,}: free some space, "
                "or lower [proxy] disk_reserve_bytes."
            )

    def is_low(self) -> bool:
        """Whether visits that have begun have used up half of the reserve; looks twice a second."""
        now = self._monotonic()
        if now - self._looked > LOOK_S:
            self._looked = now
            self._low = self.free_bytes < self.reserve_bytes // 2
        return self._low
