"""Registry access from an event loop: one thread, FIFO, retried while the database is down.

A database that goes away is waited for: what was to be read is read when it is back, what was to be
written is written then. Reads and writes are done in the order in which they were asked for.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection

from core.errors import TransientError
from links.registry.database import RegistryStore

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 10.0


class RegistryThread:
    """Reads and writes for one checker. `close` it; the store stays its owner's."""

    def __init__(
        self,
        store: RegistryStore,
        *,
        monotonic: Callable[[], float],
        patience_s: float = math.inf,
        first_delay_s: float = FIRST_DELAY_S,
    ) -> None:
        """Wait for a database that is away for so many seconds at most."""
        self.store = store
        self._monotonic = monotonic
        self._first_delay_s = first_delay_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="links-desk")
        self.patience_s = patience_s
        self.away_since: float | None = None  # by the monotonic clock; None: it answers

    async def read(self, work: Callable[[Connection], T]) -> T:
        """What the work makes of a reading connection; done again until the database answers.

        Raises:
            TransientError: it did not answer for longer than the patience.
        """

        def ask() -> T:
            with self.store.reading() as rows:
                return work(rows)

        return await self._patiently(ask)

    async def read_aside(self, work: Callable[[Connection], T]) -> T:
        """As `read`, but in a thread of its own: what takes minutes must not hold up a lease's renewal."""

        def ask() -> T:
            with self.store.reading() as rows:
                return work(rows)

        return await self._patiently(ask, aside=True)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """What the work makes of a writing connection; done again until its changes are kept.

        It may be done again although they were kept, when the answer was lost: the work must be one
        that finds out.

        Raises:
            TransientError: the database did not answer for longer than the patience.
        """
        return await self._patiently(lambda: self._write(work))

    async def do(self, work: Callable[[], T]) -> T:
        """What the work, which asks the database by itself, makes of it; as patiently.

        Raises:
            TransientError: the database did not answer for longer than the patience.
        """
        return await self._patiently(work)

    async def try_write(self, work: Callable[[Connection], T]) -> T:
        """As `write`, but once.

        Raises:
            TransientError: the database does not answer.
        """
        return await self._in_thread(lambda: self._write(work))

    def close(self) -> None:
        """End the thread, once what it does is done."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _write(self, work: Callable[[Connection], T]) -> T:
        with self.store.writing() as rows:
            return work(rows)

    async def _patiently(self, ask: Callable[[], T], *, aside: bool = False) -> T:
        delay = self._first_delay_s
        while True:
            try:
                done = await (asyncio.to_thread(ask) if aside else self._in_thread(ask))
            except TransientError as error:
                now = self._monotonic()
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
