"""Registry access from an event loop: one thread, FIFO, retried while the database is down.

Reads and writes run in the order in which they were submitted. During an outage they wait, and run
when the database is back.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from core.errors import TransientError
from links.registry.database import RegistryStore

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 10.0


@dataclass(eq=False)
class RegistryThread:
    """Thread for the reads and writes of one checker. Must be closed; it does not own the store."""

    store: RegistryStore
    _: KW_ONLY
    monotonic: Callable[[], float]
    patience_s: float = math.inf  # maximum wait for an unavailable database
    first_delay_s: float = FIRST_DELAY_S
    away_since: float | None = field(default=None, init=False)  # monotonic; None: it answers

    def __post_init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="links-desk")

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a reading connection; retry until it answers, or raise TransientError at last."""
        return await self._patiently(partial(self._read, work))

    async def read_aside(self, work: Callable[[Connection], T]) -> T:
        """Run `read` in a separate thread, so that long reads do not delay a lease's renewal."""
        return await self._patiently(partial(self._read, work), aside=True)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a writing connection; retry until its changes are committed.

        It may be repeated after a commit whose confirmation was lost, so `work` must be idempotent.
        """
        return await self._patiently(partial(self._write, work))

    async def do(self, work: Callable[[], T]) -> T:
        """Run `work`, which opens its own connections, with the same retries."""
        return await self._patiently(work)

    async def try_write(self, work: Callable[[Connection], T]) -> T:
        """Run `write` without retries; TransientError when the database does not answer."""
        return await self._in_thread(partial(self._write, work))

    def close(self) -> None:
        """Stop the thread after its current work."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _read(self, work: Callable[[Connection], T]) -> T:
        with self.store.reading() as rows:
            return work(rows)

    def _write(self, work: Callable[[Connection], T]) -> T:
        with self.store.writing() as rows:
            return work(rows)

    async def _patiently(self, ask: Callable[[], T], *, aside: bool = False) -> T:
        delay = self.first_delay_s
        while True:
            try:
                done = await (asyncio.to_thread(ask) if aside else self._in_thread(ask))
            except TransientError as error:
                now = self.monotonic()
                if self.away_since is None:
                    self.away_since = now
                    _LOG.warning("%s The checker waits for it.", error)
                if now - self.away_since > self.patience_s:
                    raise
                await asyncio.sleep(delay)
                delay = min(delay * 2, LONGEST_DELAY_S)
            else:
                if self.away_since is not None:
                    _LOG.warning("The link registry answers again.")
                    self.away_since = None
                return done

    async def _in_thread(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, ask)
