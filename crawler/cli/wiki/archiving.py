"""What a wiki's pages cite, into the frontier: the archive of `weboid wiki watch` and `sweep`."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from core.clock import Clock
from core.settings import Settings
from crawler.composing import turns_for
from crawler.frontier.base import Frontier, Lane, NewItem
from links.books.wanted import Priority
from wiki.feeding.wanting import Wanted

_LANES = {
    Priority.SAVED: Lane.NOW,
    Priority.CROWD: Lane.HIGH,
    Priority.SWEPT: Lane.STANDARD,
}


class FrontierArchive:
    """Hands links to a frontier, which knows what it has visited (A02) and whose rules decide then."""

    def __init__(self, frontier: Frontier, settings: Settings, *, clock: Clock) -> None:
        """Take the frontier, and the profile whose politeness its workers have."""
        self._frontier = frontier
        self._turns = turns_for(settings)
        self._clock = clock

    async def archived(self, urls: Sequence[str], since: datetime) -> Collection[str]:  # noqa: ARG002
        """None that need to be told: the frontier leaves alone what it visited so lately."""
        return ()

    async def take(self, urls: Sequence[Wanted]) -> None:
        """Queue the links; those that somebody has just saved first.

        Raises:
            WeboidError: the frontier does not answer.
        """
        spans = sorted({each.archived_days for each in urls})
        for days in spans:
            items = [
                NewItem(each.url, _LANES[each.priority])
                for each in urls
                if each.archived_days == days
            ]
            assigned = await self._turns.assign(items)
            await asyncio.to_thread(
                self._frontier.add, assigned, now=self._clock.now(), again=timedelta(days=days)
            )
