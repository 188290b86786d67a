"""Writer of check results in batches, each exactly once, and holder of the leases they are written under."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial

from sqlalchemy import Connection

from core.clock import Clock
from core.errors import InvariantError, TransientError, WeboidError
from links.checker import due_urls
from links.checker.check_schedule import CheckRunRow
from links.checker.due_urls import CheckLease, HostShare
from links.checker.result_store import (
    CheckRules,
    RecordedResult,
    UrlCheckResult,
    advance_run,
    delay_hosts,
    postpone_urls,
    record_results,
)
from links.registry.database import RegistryThread
from links.registry.urls import UrlRow

_LOG = logging.getLogger(__name__)
LEASE_S = 90
BATCH = 500
INTERNAL_ERRORS = 20  # results in a row that cannot be kept: then no link is at fault
_LINGER_S = 0.1  # a small batch waits so long for more


@dataclass(eq=False)
class LeaseHolder:
    """Leases of one checker, renewed while it works."""

    desk: RegistryThread
    parts: Sequence[HostShare]
    holder: str  # the unique name of the checker
    _: KW_ONLY
    clock: Clock
    length_s: int = LEASE_S
    leases: list[CheckLease] = field(default_factory=list, init=False)
    _valid_until: float = field(default=0.0, init=False)

    @property
    def is_valid(self) -> bool:
        """Return True while no other checker can have our hosts."""
        return self.clock.monotonic() < self._valid_until

    async def take(self) -> None:
        """Claim all leases or none; LeaseHeldError when another checker has one of them."""
        began, now = self.clock.monotonic(), int(self.clock.now().timestamp())

        take = partial(due_urls.take_check_lease, holder=self.holder, now=now, length_s=self.length_s)
        self.leases = await self.desk.try_write(lambda rows: [take(rows, part) for part in self.parts])
        self._valid_until = began + self.length_s

    async def run(self) -> None:
        """Renew them until cancelled; LeaseLostError when another checker has one: store nothing more."""
        while True:
            await asyncio.sleep(self.length_s / 3)
            await self.renew()

    @asynccontextmanager
    async def renewed(self) -> AsyncIterator[None]:
        """Renew them during the block, which LeaseLostError cancels when another checker has one."""
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self.run())
                yield
                renewing.cancel()
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several

    async def renew(self) -> None:
        """Renew them once, if the database answers."""
        began, now = self.clock.monotonic(), int(self.clock.now().timestamp())

        def all_of_them(rows: Connection) -> None:
            for lease in self.leases:
                due_urls.renew_check_lease(rows, lease, now=now, length_s=self.length_s)

        try:
            await self.desk.try_write(all_of_them)
        except TransientError:
            return  # they run on for a while; then no look begins until the database is back
        self._valid_until = began + self.length_s

    async def give_back(self) -> None:
        """Release the leases; when the database is unavailable they expire."""

        def all_of_them(rows: Connection) -> None:
            for lease in self.leases:
                due_urls.release_check_lease(rows, lease)

        with suppress(TransientError):
            await self.desk.try_write(all_of_them)


@dataclass(frozen=True, slots=True)
class ResultBatch:
    """Batch of results, host delays, and URLs whose results cannot be stored."""

    number: int
    results: list[tuple[UrlRow, UrlCheckResult]] = field(default_factory=list)
    later: list[tuple[UrlRow, int]] = field(default_factory=list)  # with the day asked for
    broken: list[UrlRow] = field(default_factory=list)

    @property
    def urls(self) -> list[UrlRow]:
        """Return the URLs that it settles."""
        looked = [url for url, _ in self.results]
        return [*looked, *(url for url, _ in self.later), *self.broken]


class ResultWriter:
    """Queue and writer of a run's results; `run` it beside the run, then `close` it."""

    def __init__(
        self,
        desk: RegistryThread,
        rules: CheckRules,
        tenure: LeaseHolder,
        made: CheckRunRow,
        *,
        horizon: int,
        on_kept: Callable[[ResultBatch, list[RecordedResult]], None],
    ) -> None:
        """Set the run and its horizon; `on_kept` is called with stored results."""
        self._desk = desk
        self._rules = rules
        self._tenure = tenure
        self._pass_id = made.id
        self._number = made.batch
        self._horizon = horizon
        self._on_kept = on_kept
        self._results: deque[tuple[UrlRow, UrlCheckResult]] = deque()
        self._later: deque[tuple[UrlRow, int]] = deque()
        self._broken_urls: deque[UrlRow] = deque()
        self._under_way = 0
        self._closing = False
        self._broken = 0  # results in a row that could not be kept
        self._some = asyncio.Event()
        self._many = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Count the results that are not stored yet."""
        waiting = len(self._results) + len(self._later) + len(self._broken_urls)
        return waiting + self._under_way

    def put(self, url: UrlRow, result: UrlCheckResult) -> None:
        """Add a result of the URL."""
        self._results.append((url, result))
        self._wake()

    def put_later(self, url: UrlRow, due_day: int) -> None:
        """Schedule the URL, and its host's others, for that day."""
        self._later.append((url, due_day))
        self._wake()

    def put_broken(self, url: UrlRow) -> None:
        """Schedule a URL for the next day after an internal error lost its result."""
        self._broken_urls.append(url)
        self._wake()

    def close(self) -> None:
        """Stop `run` when all results are stored."""
        self._closing = True
        self._some.set()
        self._many.set()

    async def run(self) -> None:
        """Store results until `close`; LeaseLostError discards them, TransientError follows too long an outage."""
        while True:
            await self._some.wait()
            if not self._closing and self.waiting < BATCH:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LINGER_S):
                        await self._many.wait()
            if not (self._results or self._later or self._broken_urls):
                if self._closing:
                    return
                self._some.clear()
                self._many.clear()
                continue
            batch = ResultBatch(self._number + 1)
            while self._results and len(batch.results) < BATCH:
                batch.results.append(self._results.popleft())
            batch.later.extend(self._later)
            batch.broken.extend(self._broken_urls)
            self._later.clear()
            self._broken_urls.clear()
            self._under_way = len(batch.urls)
            booked = await self._write(batch)
            self._under_way = 0
            self._on_kept(batch, booked)

    async def _write(self, batch: ResultBatch) -> list[RecordedResult]:
        """Store a batch; on an internal error one by one, postponing what cannot be stored by a day."""
        try:
            booked = await self._desk.write(lambda rows: self._book(rows, batch))
        except WeboidError:
            raise
        except Exception as error:
            if len(batch.results) > 1:
                booked, rest = [], batch
                for each in batch.results:
                    number = self._number + 1
                    booked += await self._write(replace(rest, number=number, results=[each]))
                    rest = ResultBatch(self._number)
                return booked
            if not batch.results:
                raise
            # Postpone the URL whose result cannot be stored, and store the rest of its batch.
            url = batch.results[0][0]
            self._broken += 1
            _LOG.error("The result of %r cannot be stored.", url.url, exc_info=error)
            if self._broken >= INTERNAL_ERRORS:
                raise InvariantError(
                    f"{self._broken} results in a row could not be stored, the last: {error}. The log has each "
                    "with its traceback: please report it. Due links remain due."
                ) from error
            return await self._write(replace(batch, results=[], broken=[*batch.broken, url]))
        self._number = batch.number
        self._broken = 0 if batch.results else self._broken
        return booked

    def _wake(self) -> None:
        self._some.set()
        if self.waiting >= BATCH:
            self._many.set()

    def _book(self, rows: Connection, batch: ResultBatch) -> list[RecordedResult]:
        for lease in self._tenure.leases:
            due_urls.hold_check_lease(rows, lease)
        if not advance_run(rows, self._pass_id, batch.number, len(batch.results)):
            return []  # it was already stored: the confirmation was lost with the connection
        hosts = {url.host_id: due_day for url, due_day in batch.later}
        delay_hosts(rows, hosts, horizon=self._horizon)
        postpone_urls(rows, [url.id for url in batch.broken], due_day=self._horizon + 1)
        return record_results(rows, [result for _, result in batch.results], self._rules)
