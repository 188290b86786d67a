"""Days on which pages cite a link (B06): as written, else from the page's history, else first seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from core.errors import ConfigError, WeboidError
from core.settings import Settings
from crawler.cli.wiki.opening import api_of
from links.archives.choosing import days_that_matter
from links.books.citing import CitedUse, cited_uses
from links.books.pages import MAX_PAGE_ID, PAGE_BITS, Ref
from links.books.wikis import Wiki, all_wikis
from links.store.store import Store
from wiki.feeding.dating import cited_day

_HISTORIES_MOST: Final = 3  # pages whose history is asked for one link


@dataclass
class CitationDays:
    """Finds when links were cited; asks wikis only about links whose access date nobody wrote.

    Attributes:
        store: the registry.
        settings: how wikis are asked.
        asks_wikis: whether they are.
    """

    store: Store
    settings: Settings
    asks_wikis: bool
    _wikis: dict[int, Wiki] = field(default_factory=dict)

    async def of(self, url_id: int, now: datetime) -> Sequence[datetime]:
        """Return the days that matter, the one for the link's readers in general first.

        That is the earliest access date that a page tells, else the day on which the link came onto a
        page, else the day on which it was first seen there. Then those of other pages that differ.
        """
        with self.store.reading() as reader:
            uses = cited_uses(reader, url_id)
            if not self._wikis:
                self._wikis = {wiki.id: wiki for wiki in all_wikis(reader)}
        written = {each.access_day for each in uses if each.access_day is not None}
        undated = [each for each in uses if each.access_day is None]
        added = {each.link: each.first_day for each in undated}
        if not written and self.asks_wikis:
            added |= await self._from_histories(undated[:_HISTORIES_MOST])
        return days_that_matter(written, added.values(), now)

    async def _from_histories(self, uses: Sequence[CitedUse]) -> Mapping[Ref, int]:
        """Return on which days the pages got the link, of those whose wiki answers."""
        found = {}
        for use in uses:
            wiki = self._wikis.get(use.link.page >> PAGE_BITS)
            if wiki is None or not wiki.url:
                continue
            try:
                async with api_of(wiki, self.settings) as api:
                    cited = await cited_day(api, self.store, use.link, use.link.page & MAX_PAGE_ID)
            except (WeboidError, ConfigError):
                continue  # first seen is the next best
            if cited is not None:
                found[use.link] = cited.day
        return found
