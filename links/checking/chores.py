"""What else a checker does between passes: proposals are tested, and what nobody sees is forgotten.

Replacements that readers proposed are looked at as any URL is (W17): by turns at their hosts, and only
at hosts of the checker's own part. Once a day the checker of the first part clears the registry of what
no page has had for long (W39).
"""

import asyncio
import logging

from core.errors import BadUrlError, TransientError, WeboidError
from core.urls import host_of
from links.books.retention import Purged, purge
from links.checking.parts import Part
from links.checking.plans import Means
from links.days import day_of
from links.findings import Finding
from links.limits import forget_acts
from links.locator import bucket_of
from links.marking import settle
from links.replacements import Replacement, Surroundings, book_test, replacements_to_test
from links.trying import Examiner, examine

_LOG = logging.getLogger(__name__)
_MOST = 500  # of one round


class Chores:
    """The chores of one checker; `run` them after each pass."""

    def __init__(self, means: Means, part: Part, *, keep_days: int) -> None:
        """Forget what was not seen for so many days."""
        self._means = means
        self._part = part
        self._keep_days = keep_days
        self._purged_day = -1

    async def run(self, stop: asyncio.Event) -> None:
        """Do what is to be done today. A database that goes away ends it: tomorrow is another day."""
        try:
            await self.test_replacements(stop)
            if not stop.is_set():
                await self.forget()
        except TransientError as error:
            _LOG.warning("%s What was to be cleared up waits.", error)
        except WeboidError:
            raise
        except Exception:  # noqa: BLE001 the checks go on
            _LOG.exception("What was to be cleared up waits: an internal error.")

    async def test_replacements(self, stop: asyncio.Event) -> int:
        """Look at the addresses that somebody proposed for dead links; how many."""
        today = day_of(self._means.clock.now())
        found = await self._means.desk.read(lambda rows: replacements_to_test(rows, today, _MOST))
        decided = await self._means.desk.do(self._means.marks.current)
        around = Surroundings(refuses=decided.refuses)
        mine = [each for each in found if self._is_mine(each.address)]

        async def keep(each: Replacement, finding: Finding) -> None:
            await self._means.desk.write(lambda rows: book_test(rows, each, finding, today, around))

        examiner = Examiner(self._means.looks, self._means.turns, self._means.clock)
        await examine(mine, examiner, keep, stop=stop)
        return len(mine)

    async def forget(self) -> Purged | None:
        """Forget what is over, once a day, by the checker of the first part; None: not today."""
        today = day_of(self._means.clock.now())
        if self._part.number != 1 or self._purged_day == today:
            return None
        self._purged_day = today
        store = self._means.desk.store
        now = self._means.clock.now()
        await self._means.desk.write(lambda rows: forget_acts(rows, now))
        await asyncio.to_thread(settle, store, self._means.clock)  # marks that have expired
        return await asyncio.to_thread(purge, store, day=today, keep_days=self._keep_days)

    def _is_mine(self, address: str) -> bool:
        try:
            return self._part.has(bucket_of(host_of(address)))
        except BadUrlError:
            return False
