"""Writer of check results in batches, each exactly once, and holder of the leases they are written under."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

from sqlalchemy import Connection

from core.clock import Clock
from core.errors import InvariantError, TransientError, WeboidError
from links.checker import due_urls, result_store
from links.checker.check_schedule import CheckRunRow
from links.checker.due_urls import CheckLease, HostShare
from links.checker.result_store import CheckRules, RecordedResult, UrlCheckResult
from links.registry.database import RegistryThread
from links.registry.urls import UrlRow
from net.stop_signals import first_error, wait_for_any

_LOG = logging.getLogger(__name__)
LEASE_S = 90
BATCH = 500
INTERNAL_ERRORS = 20  # results in a row that cannot be kept: then no link is at fault
_LINGER_S = 0.1  # a small batch waits so long for more


@dataclass(eq=False)
class LeaseHolder:
    """Leases of one checker, renewed while it works."""

    registry: RegistryThread
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
        self.leases = await self.registry.try_write(lambda rows: [take(rows, part) for part in self.parts])
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
            raise first_error(several) from several

    async def renew(self) -> None:
        """Renew them once, if the database answers."""
        began, now = self.clock.monotonic(), int(self.clock.now().timestamp())
        renew = partial(due_urls.renew_check_lease, now=now, length_s=self.length_s)
        try:
            await self.registry.try_write(lambda rows: [renew(rows, lease) for lease in self.leases])
        except TransientError:
            return  # they run on for a while; then no check begins until the database is back
        self._valid_until = began + self.length_s

    async def give_back(self) -> None:
        """Release the leases; when the database is unavailable they expire."""

        def release_all(rows: Connection) -> None:
            for lease in self.leases:
                due_urls.release_check_lease(rows, lease)

        with suppress(TransientError):
            await self.registry.try_write(release_all)


# A URL and its result; or the day that its host asked for; or None: an internal error lost the result.
CheckOutcome = tuple[UrlRow, UrlCheckResult | int | None]


@dataclass(eq=False)
class ResultWriter:
    """Queue and writer of a run's results; `run` it beside the run, then `close` it."""

    registry: RegistryThread
    rules: CheckRules
    lease_holder: LeaseHolder
    made: CheckRunRow
    _: KW_ONLY
    horizon: int
    on_save: Callable[[Sequence[CheckOutcome], list[RecordedResult]], None]  # is called with what was stored

    def __post_init__(self) -> None:
        self._number = self.made.batch
        self._queue: deque[CheckOutcome] = deque()
        self._under_way = 0
        self._closing = False
        self._broken = 0  # results in a row that could not be kept
        self._some, self._many = asyncio.Event(), asyncio.Event()

    @property
    def waiting(self) -> int:
        """Count the results that are not stored yet."""
        return len(self._queue) + self._under_way

    def put(self, url: UrlRow, outcome: UrlCheckResult | int | None) -> None:
        """Add a result of the URL; a day: it and its host's others are due then; None: it is due the next day."""
        self._queue.append((url, outcome))
        self._some.set()
        if self.waiting >= BATCH:
            self._many.set()

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
                await wait_for_any(self._many, timeout_s=_LINGER_S)
            if not self._queue:
                if self._closing:
                    return
                self._some.clear()
                self._many.clear()
                continue
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH))]
            self._under_way = len(batch)
            booked = await self._write(batch)
            self._under_way = 0
            self.on_save(batch, booked)

    async def _write(self, batch: Sequence[CheckOutcome]) -> list[RecordedResult]:
        """Store a batch; on an internal error one by one, postponing what cannot be stored by a day."""
        number = self._number + 1
        try:
            booked = await self.registry.write(lambda rows: self._book(rows, number, batch))
        except WeboidError:
            raise
        except Exception as error:
            if len(batch) > 1:
                return [each for outcome in batch for each in await self._write([outcome])]
            ((url, outcome),) = batch
            if not isinstance(outcome, UrlCheckResult):
                raise
            self._broken += 1
            _LOG.error("The result of %r cannot be stored.", url.url, exc_info=error)
            if self._broken >= INTERNAL_ERRORS:
                raise InvariantError(
                    f"{self._broken} results in a row could not be stored, the last: {error}. The log has each "
                    "with its traceback: please report it. Due links remain due."
                ) from error
            return await self._write([(url, None)])
        self._number = number
        if any(isinstance(outcome, UrlCheckResult) for _, outcome in batch):
            self._broken = 0
        return booked

    def _book(self, rows: Connection, number: int, batch: Sequence[CheckOutcome]) -> list[RecordedResult]:
        for lease in self.lease_holder.leases:
            due_urls.hold_check_lease(rows, lease)
        results = [outcome for _, outcome in batch if isinstance(outcome, UrlCheckResult)]
        if not result_store.advance_run(rows, self.made.id, number, len(results)):
            return []  # it was already stored: the confirmation was lost with the connection
        delays = {url.host_id: outcome for url, outcome in batch if isinstance(outcome, int)}
        result_store.delay_hosts(rows, delays, horizon=self.horizon)
        due_urls.set_due_day(rows, [url.id for url, outcome in batch if outcome is None], self.horizon + 1)
        return result_store.record_results(rows, results, self.rules)
