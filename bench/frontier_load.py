"""The load that `bench.frontier` puts on every frontier: what is added, claimed and completed."""

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Protocol

from crawler.frontier.base import Frontier, FrontierItem, NewItem

HOSTS = 10_000
BATCH = 1_000
KNOWN_SHARE = 0.45
CLAIMS = 50
# URLs that duplicates are drawn from; their hashes lie all over the filter, as all hashes do.
KNOWN = 100_000
START = datetime(2026, 1, 1, tzinfo=UTC)
VIA = "https://wiki.example.org/wiki/Some_page"
JOB = "bench"


def host_of_number(number: int) -> int:
    """Return the number of the host that the URL with that number is of, when the frontier is filled."""
    return number * 7919 % HOSTS


def url_of(number: int, host: int | None = None) -> str:
    """Return a URL of usual length; URLs that a frontier is filled with have numbers from 1 on."""
    host = host_of_number(number) if host is None else host
    return f"https://www.host{host}.example.org/some/path/of/usual/length/page-{number}.html?section=1"


class FrontierUnderLoad(Protocol):
    """A frontier, and how its store is filled and measured."""

    @property
    def frontier(self) -> Frontier:
        """Return the frontier that is measured."""
        ...

    def fill(self, size: int, *, done: bool = False) -> None:
        """Bring an empty store into the state that the verbs would leave it in.

        Items 1 to `size` of job `JOB` and lane STANDARD, one hop off, linked from `VIA`: all queued,
        or all done. The first `KNOWN` at least are found by their URLs (`url_of`); the filter may
        hold any hashes in place of the others'.
        """
        ...

    def bytes(self) -> int:
        """Return the bytes that the store takes, on disk or in memory."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class MeasuredFrontier:
    """A frontier that is measured."""

    def __init__(self, backend: FrontierUnderLoad, size: int) -> None:
        self.backend = backend
        self.size = size
        backend.fill(size)
        self.bytes = backend.bytes()
        self.known = [url_of(number) for number in range(1, min(size, KNOWN) + 1)]
        self.numbers = count(10 * size)
        self.random = random.Random(size)
        self.now = START
        self.held: list[FrontierItem] = []
        self.seconds: dict[str, list[float]] = {"add": [], "claim": [], "complete": []}

    def batch(self) -> list[NewItem]:
        """Return the next URLs to add."""
        known = round(BATCH * KNOWN_SHARE)
        urls = self.random.sample(self.known, known)
        urls += [url_of(next(self.numbers), self.random.randrange(HOSTS)) for _ in range(BATCH - known)]
        self.random.shuffle(urls)
        return [NewItem(url, hops=1, via=VIA, job=JOB) for url in urls]

    def add(self) -> None:
        """Add a batch."""
        batch = self.batch()
        self._timed("add", lambda: self.backend.frontier.add(batch, now=self.now))

    def claim(self) -> None:
        """Claim a batch."""
        self.now += timedelta(milliseconds=50)
        self._timed("claim", self._claim)

    def _claim(self) -> None:
        items = self.backend.frontier.claim(now=self.now, worker="bench", limit=CLAIMS)
        assert len(items) == CLAIMS
        self.held += items

    def complete(self) -> None:
        """Complete what is held."""
        items, self.held = self.held, []
        self._timed("complete", lambda: self._complete(items))

    def _complete(self, items: list[FrontierItem]) -> None:
        for item in items:
            assert self.backend.frontier.complete(
                item, now=self.now, outcome="ok", duration=timedelta(seconds=1), stored_bytes=1_000_000
            )

    def _timed(self, what: str, work: Callable[[], object]) -> None:
        started = time.perf_counter()
        work()
        self.seconds[what].append(time.perf_counter() - started)

    def rate(self, what: str, each: int) -> float:
        """Return the items a second, over all turns."""
        return each * len(self.seconds[what]) / sum(self.seconds[what])
