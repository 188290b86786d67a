"""What a wiki's pages cite, into the frontier: the archive of `weboid wiki watch` and `sweep`."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from core.clock import Clock
from core.layout import Layout
from core.settings import Settings
from crawler.cli.links.archives_asked import opened_captures
from crawler.composing import turns_for
from crawler.frontier.base import Frontier, Lane, NewItem
from crawler.stored_levels import announce_wikis
from links.books.wanted import Priority
from wiki.feeding.wanting import Wanted

_LANES = {
    Priority.SAVED: Lane.NOW,
    Priority.CROWD: Lane.HIGH,
    Priority.REVIVED: Lane.HIGH,
    Priority.SWEPT: Lane.STANDARD,
    Priority.LACKING: Lane.STANDARD,
}


class FrontierArchive:
    """Hands links to a frontier, which knows what it has visited (A02) and whose rules decide then."""

    def __init__(
        self, frontier: Frontier, settings: Settings, *, clock: Clock, layout: Layout
    ) -> None:
        """Take the frontier, the profile whose politeness its workers have, and the collection."""
        self._frontier = frontier
        self._settings = settings
        self._turns = turns_for(settings)
        self._clock = clock
        self._layout = layout

    async def archived(self, urls: Sequence[str], since: datetime) -> Collection[str]:
        """Return those of the URLs of which there is a capture since then that shows the page."""

        def look() -> Collection[str]:
            with opened_captures(self._layout, self._settings.index.url, "") as own:
                found = {url: own.usable(url, None) for url in urls}
            return [
                url
                for url, page in found.items()
                if page is not None and not page.rank and page.captured_at >= since
            ]

        return await asyncio.to_thread(look)

    async def take(self, urls: Sequence[Wanted]) -> None:
        """Queue the links; those that somebody has just saved first.

        What is visited too lately is left alone, whatever came of it; not what has just come back to
        life, or what nobody has a copy of.

        Raises:
            WeboidError: the frontier does not answer.
        """
        addresses = {each.wiki.in_levels: each.pages_url for each in urls if each.pages_url}
        await asyncio.to_thread(announce_wikis, self._frontier, addresses)
        ages: dict[int, list[NewItem]] = {}
        for each in urls:
            days = 0 if each.priority is Priority.REVIVED else each.archived_days
            item = NewItem(each.url, _LANES[each.priority], via=each.page_url)
            ages.setdefault(days, []).append(item)
        for days, items in sorted(ages.items()):
            assigned = await self._turns.assign(items)
            await asyncio.to_thread(
                self._frontier.add, assigned, now=self._clock.now(), again=timedelta(days=days)
            )
