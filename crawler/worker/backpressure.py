"""Back-pressure on visits: limits of memory and disk space, and detection of network outages.

The memory of a visit is a slowly decaying maximum, so that one heavy page counts for a while.

When the machine loses its network every host is unreachable, and a crawl that counted this as failures would soon mark
its items dead. So when a host cannot be reached, the proxy opens connections (without requests) to hosts that answered
recently. If none of them can be reached either, items are released, and work waits.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from core.clock import Clock
from core.errors import TransientError
from core.page_manifest import PageInfo, VisitOutcome
from crawler.worker.crawl_events import DiskSpaceLow, DiskSpaceRestored
from net.backoff import WaitEnded, WaitStarted
from net.connect_errors import UNREACHABLE
from net.stop_signals import wait_for_any
from warc.local_storage import DiskReserve

PROC_FOLDER = Path("/proc")
CGROUP_FOLDER = Path("/sys/fs/cgroup")


def free_bytes(proc: Path = PROC_FOLDER, groups: Path = CGROUP_FOLDER) -> int | None:
    """Return the memory available before the OOM killer acts; None where the system does not report it.

    The minimum of the machine's MemAvailable (proc(5)) and of each control group's allowance (cgroup v2:
    memory.max less memory.current, plus its inactive file pages, which are reclaimed first).
    """
    machine_kib = _field(proc / "meminfo", "MemAvailable:")
    known = [_cgroup_bytes(folder) for folder in _cgroup_folders(proc, groups)]
    known += [None if machine_kib is None else machine_kib * 1024]
    return min((each for each in known if each is not None), default=None)


def _cgroup_folders(proc: Path, groups: Path) -> list[Path]:
    """Return our control group's folder and those above it; in a container often only ours is visible."""
    with contextlib.suppress(OSError):
        for line in (proc / "self" / "cgroup").read_text().splitlines():
            hierarchy, _, path = line.partition("::")
            if hierarchy == "0" and ".." not in path:
                own = groups / path.strip("/")
                return [own, *(each for each in own.parents if each.is_relative_to(groups))]
    return []


def _cgroup_bytes(folder: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        limit = (folder / "memory.max").read_text().strip()
        if limit != "max":
            current = int((folder / "memory.current").read_text())
            return max(0, int(limit) - current + (_field(folder / "memory.stat", "inactive_file") or 0))
    return None


def _field(file: Path, name: str) -> int | None:
    """Return the number behind a name in a file of such lines; None when there is none."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in file.read_text().splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return None


MEMORY_POLL_S = 0.5
FIRST_VISIT_BYTES = 150_000_000  # estimate for a visit before one has run
FADING = 0.99
GROWN_S = 8.0  # after which a visit has reached its memory use
CALM_S = 60.0  # without a shortage for so long, it is over


@dataclass(eq=False, repr=False)
class MemoryLimit:
    """Memory limit, checked by every worker before it claims."""

    free_bytes: Callable[[], int | None]  # None: unknown, which disables the limit
    visits_bytes: Callable[[], int]  # of those under way
    _: KW_ONLY
    reserve_bytes: int
    clock: Clock
    report: Callable[[WaitStarted | WaitEnded], None]
    _begun: list[float] = field(default_factory=list, init=False)
    _ended: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _short_since: float | None = field(default=None, init=False)
    _short_last: float = field(default=0.0, init=False)
    visit_bytes: float = field(default=float(FIRST_VISIT_BYTES), init=False)

    @asynccontextmanager
    async def take(self, stopping: asyncio.Event) -> AsyncIterator[None]:
        """Wait for memory, or until `stopping` is set, and reserve it to the end of the block."""
        while not self._suffices() and not stopping.is_set():
            self._short_last = self.clock.monotonic()
            if self._short_since is None:
                self._short_since = self._short_last
                free = self.free_bytes() or 0
                text = (
                    f"There is memory for {len(self._begun)} visits at a time: {free / 1e6:,.0f} MB are free, "
                    f"{self.reserve_bytes / 1e6:,.0f} MB are reserved, a visit takes about {self.visit_bytes / 1e6:,.0f} MB."
                )
                self.report(WaitStarted("memory", text))
            # Until a visit ends, or another process may have freed memory.
            self._ended.clear()
            await wait_for_any(self._ended, timeout_s=MEMORY_POLL_S)
        began = self.clock.monotonic()
        if self._short_since is not None and began - self._short_last > CALM_S:
            since, self._short_since = self._short_since, None
            self.report(WaitEnded("memory", began - since))
        self._begun.append(began)
        try:
            yield
        finally:
            visits = len(self._begun)
            self._begun.remove(began)
            self._ended.set()
            # Update the estimate by the mean of the visits under way.
            mean_bytes = self.visits_bytes() / visits
            if mean_bytes > 0:
                self.visit_bytes = max(mean_bytes, FADING * self.visit_bytes + (1 - FADING) * mean_bytes)

    def _suffices(self) -> bool:
        if not self._begun:
            return True
        free = self.free_bytes()
        if free is None:
            return True
        now = self.clock.monotonic()
        # Visits that have just begun have not allocated their memory yet.
        growing = sum(now - began < GROWN_S for began in self._begun)
        return free - self.reserve_bytes >= (growing + 1) * self.visit_bytes


DISK_POLL_S = 2.0
DISK_MARGIN = 1.05  # more than the reserve must be free before a run continues, or it would stop at the next page


@dataclass(eq=False, repr=False)
class DiskLimit:
    """Disk space limit, checked by every worker before a visit; one polls while the others wait."""

    disk: DiskReserve
    _: KW_ONLY
    patience_s: float
    clock: Clock
    report: Callable[[DiskSpaceLow | DiskSpaceRestored], None]
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def is_low(self) -> bool:
        """Return True when less than the reserve is free."""
        return self.disk.free_bytes < self.disk.reserve_bytes

    async def wait(self, stopping: asyncio.Event) -> None:
        """Wait for enough space, or `stopping`; DiskFullError when there was none within the patience."""
        async with self._looking:
            if stopping.is_set() or not self.is_low():
                return
            since = self.clock.monotonic()
            wanted = int(self.disk.reserve_bytes * DISK_MARGIN)
            if self.patience_s:
                self.report(DiskSpaceLow(self.disk.free_bytes, wanted))
            while self.disk.free_bytes < wanted:
                if self.clock.monotonic() - since >= self.patience_s:
                    self.disk.require_reserve(DISK_MARGIN)
                if await wait_for_any(stopping, timeout_s=DISK_POLL_S):
                    return
            self.report(DiskSpaceRestored(self.clock.monotonic() - since))


REMEMBERED_HOSTS = 5
BELIEVED_S = 5.0  # one answer serves all visits that fail at about the same time
NETWORK_POLL_S = 5.0
NETWORK_AWAY = "No host can be reached, not even hosts that answered recently."

Reach = Callable[[str, int], Awaitable[bool]]


class NetworkAwayError(TransientError):
    """Network outage; see `NETWORK_AWAY`."""


@dataclass(eq=False, repr=False)
class NetworkMonitor:
    """Detection of network outages. `reach` opens a connection as visits do."""

    reach: Reach
    clock: Clock
    report: Callable[[WaitStarted | WaitEnded], None]
    _answered: dict[str, int] = field(default_factory=dict, init=False)  # host -> port, the latest last
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _seen_at: float = field(default=float("-inf"), init=False)
    _there: bool = field(default=True, init=False)

    async def judge(self, page: PageInfo) -> None:
        """Record a visit's result; NetworkAwayError if no host can be reached: it does not count for the page."""
        if not (page.outcome is VisitOutcome.FAILED and page.reason.startswith(UNREACHABLE)):
            if page.status is not None:
                self._remember(page.final_url)
        elif self._answered:
            async with self._looking:
                if self.clock.monotonic() - self._seen_at > BELIEVED_S:
                    await self._probe()
                is_there = self._there
            if not is_there:
                raise NetworkAwayError(f"The network cannot be reached: {page.reason}")

    async def wait(self, stopping: asyncio.Event) -> None:
        """Wait until the network is reachable, as far as known, or `stopping` is set."""
        if not self._is_away():
            return
        async with self._looking:
            if not self._is_away():
                return
            since = self.clock.monotonic()
            self.report(WaitStarted("network", NETWORK_AWAY))
            while not stopping.is_set() and not await self._probe():
                await wait_for_any(stopping, timeout_s=NETWORK_POLL_S)
            if not self._is_away():
                self.report(WaitEnded("network", self.clock.monotonic() - since))

    def _is_away(self) -> bool:
        return not self._there

    async def _probe(self) -> bool:
        self._there = False
        for host, port in reversed(self._answered.items()):
            if await self.reach(host, port):
                self._there = True
                break
        self._seen_at = self.clock.monotonic()
        return self._there

    def _remember(self, url: str) -> None:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or (80 if parts.scheme == "http" else 443)
        if host is None:
            return
        self._answered.pop(host, None)
        self._answered[host] = port
        if len(self._answered) > REMEMBERED_HOSTS:
            del self._answered[next(iter(self._answered))]
