"""A store that is away for a while: ask again until it answers, and say so once.

Redis or PostgreSQL may be restarted while a crawl runs for months. Nothing is lost by waiting: what
was begun is finished, and its end is told when there is somebody to tell it to. A verb may be sent
twice; every verb of the frontier and of the index allows for that.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from core.clock import Clock
from core.errors import TransientError
from crawler.waiting import GoingOn, Waiting

_T = TypeVar("_T")

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0


class Patience:
    """Asks stores on behalf of everyone in a process. One event for all who wait."""

    def __init__(self, clock: Clock, report: Callable[[Waiting | GoingOn], None]) -> None:
        self._clock = clock
        self._report = report
        self._away_since: float | None = None

    async def ask(self, verb: Callable[[], _T]) -> _T:
        """What the verb returns, asked in a thread, again and again while the store is away.

        Raises:
            WeboidError: the store answers and cannot do it, or cannot be used at all.
        """
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                answer = await asyncio.to_thread(verb)
            except TransientError as error:
                self._note_away(error)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            else:
                self._note_back()
                return answer

    def _note_away(self, error: TransientError) -> None:
        if self._away_since is None:
            self._away_since = self._clock.monotonic()
            self._report(Waiting("store", str(error)))

    def _note_back(self) -> None:
        if self._away_since is not None:
            away_s, self._away_since = self._clock.monotonic() - self._away_since, None
            self._report(GoingOn("store", away_s))
