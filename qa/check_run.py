"""Run over many pages: concurrent checks, each stored as soon as it is complete.

Stored checks stay stored, however the run ends; the next run skips them. A run that is asked to
stop finishes the checks in progress; copies that playback does not serve from then on are left to
the next run.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from core.clock import Clock
from core.playback_check import PlaybackFault, QaVerdict
from links.registry.database import RegistryStore
from net.stop_signals import first_error
from qa.check_pictures import delete_pictures, store_pictures
from qa.check_store import store_checks
from qa.check_table import CheckedPage
from qa.checker import CheckOutcome, PlaybackChecker
from qa.sample import SampledPage


def store_check(
    store: RegistryStore, folder: Path, checked: CheckOutcome, *, now: datetime
) -> None:
    """Store the check in place of the previous one; of a withheld page nothing is stored.

    Pictures are written into `folder` before the row that refers to them.

    Raises:
        TransientError: the registry cannot be written.
        OSError: the pictures cannot be written.
    """
    check, page = checked.check, checked.page
    if checked.is_withheld:
        delete_pictures(folder, check.page_id, check.level)
        return
    store_pictures(folder, check, checked.pictures)
    with store.writing() as rows:
        store_checks(rows, [CheckedPage(check, page.host, page.page_class)], now)


@dataclass(slots=True)
class CheckRunTally:
    """Pages by verdict, and the duration so far."""

    verdicts: Counter[QaVerdict] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """Return the number of pages checked."""
        return self.verdicts.total()

    @property
    def per_minute(self) -> float:
        """Return the pages checked per minute; 0 at the start."""
        return self.done / self.seconds * 60 if self.seconds > 0 else 0.0


async def check_pages(  # noqa: PLR0913 each is a hand of its own
    pages: Iterable[SampledPage],
    checker: PlaybackChecker,
    *,
    jobs: int,
    clock: Clock,
    keep: Callable[[CheckOutcome], None],
    told: Callable[[CheckOutcome, CheckRunTally], None] = lambda _checked, _tally: None,
    tally: CheckRunTally | None = None,
    stopping: asyncio.Event | None = None,
) -> CheckRunTally:
    """Check the pages in order, `jobs` at a time, until the end or `stopping`; return the tally.

    `keep` stores a check, from any thread; the page counts as done when it returns.

    Raises:
        UnavailableError: browser or playback are gone.
        TransientError: index, registry or decisions cannot be read or written.
        OSError: a check cannot be stored.
    """
    tally = tally or CheckRunTally()
    run = _CheckRun(checker, clock, keep, told, tally)
    turns = _CheckQueue(pages, stopping or asyncio.Event())
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(jobs):
                group.create_task(run.work(turns))
    except BaseExceptionGroup as error:
        raise first_error(error) from error
    return tally


class _CheckQueue:
    """Queue of pages for concurrent workers."""

    def __init__(self, pages: Iterable[SampledPage], stopping: asyncio.Event) -> None:
        self._pages = iter(pages)
        self._stopping = stopping
        self._lock = asyncio.Lock()
        self._begun: set[str] = set()

    @property
    def stopping(self) -> bool:
        """Return whether no other page is to be started."""
        return self._stopping.is_set()

    async def next(self) -> SampledPage | None:
        """Return the next page that no worker is checking; None at the end."""
        async with self._lock:
            while not self._stopping.is_set():
                chosen = await asyncio.to_thread(next, self._pages, None)
                if chosen is None:
                    return None
                if chosen.page.page_id not in self._begun:
                    self._begun.add(chosen.page.page_id)
                    return chosen
            return None

    def done(self, chosen: SampledPage) -> None:
        """Mark the page as no longer in progress."""
        self._begun.discard(chosen.page.page_id)


class _CheckRun:
    """Run in progress."""

    def __init__(
        self,
        checker: PlaybackChecker,
        clock: Clock,
        keep: Callable[[CheckOutcome], None],
        told: Callable[[CheckOutcome, CheckRunTally], None],
        tally: CheckRunTally,
    ) -> None:
        self._checker = checker
        self._clock = clock
        self._keep = keep
        self._told = told
        self._tally = tally
        self._last = clock.monotonic()

    async def work(self, turns: _CheckQueue) -> None:
        """Check pages, one after the other, until there is none left."""
        while (chosen := await turns.next()) is not None:
            checked = await self._checker.check(chosen.page)
            if turns.stopping and PlaybackFault.NOT_SHOWN in checked.check.faults:
                # A signal to the whole process group stops playback, too: no fault of a copy.
                return
            await asyncio.to_thread(self._keep, checked)
            turns.done(chosen)
            now = self._clock.monotonic()
            self._tally.seconds, self._last = self._tally.seconds + now - self._last, now
            self._tally.verdicts[checked.check.verdict] += 1
            self._told(checked, self._tally)
