"""Archives in which copies of a link are looked up, and citation dates."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from core.clock import SystemClock
from core.config.profile import link_user_agent
from core.config.settings import Settings
from core.errors import ConfigError, WeboidError
from links.archives.adapters import adapters_of
from links.archives.archive_client import ArchiveClient
from links.archives.copy_search import CopySources, OwnCopies, citation_days
from links.archives.http_fetch import HttpFetch
from links.archives.save_page_now import SavePageNow
from links.registry.citations import CitingPageUse, cited_uses
from links.registry.database import RegistryStore
from links.registry.pages import MAX_PAGE_ID, PAGE_BITS, LinkRef
from links.registry.wikis import Wiki, all_wikis
from net.address_policy import is_own
from weboid.app.wiki_clients import open_wiki_api
from wiki.sync.page_import import find_cited_day

CLOCK = SystemClock()


@asynccontextmanager
async def open_archives(
    settings: Settings, own: OwnCopies = lambda _url, _at: None, origins: tuple[str, ...] = ()
) -> AsyncIterator[CopySources]:
    """Yield the archives that the settings name."""
    links = settings.links
    fetch = HttpFetch(
        settings.egress, is_own=is_own, user_agent=link_user_agent(links), limit_s=links.timeout_s, origins=origins
    )
    async with fetch:
        client = ArchiveClient(fetch, now=CLOCK.now, monotonic=time.monotonic, sleep=asyncio.sleep)
        adapters = adapters_of(links.archives, client)
        key = _key(links.save_key_file)
        yield CopySources(
            client,
            adapters,
            tuple(each.name for each in adapters),
            SavePageNow(client, key, monotonic=time.monotonic) if key else None,
            own,
            origins,
            links.verify_copies,
        )


def _key(place: str) -> str:
    if not place:
        return ""
    try:
        key = Path(place).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"[links] save_key_file {place!r} cannot be read: {error}.") from error
    name, colon, secret = key.partition(":")
    if not (name and colon and secret) or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"[links] save_key_file {place!r} must hold one line, key:secret, as "
            "https://archive.org/account/s3.php gives it."
        )
    return key


_HISTORIES_MOST: Final = 3  # pages whose history is asked for one link


@dataclass
class CitationDays:
    """Citation dates of links; wikis are queried only for links without an access date."""

    store: RegistryStore
    settings: Settings
    asks_wikis: bool  # whether they are queried
    _wikis: dict[int, Wiki] = field(default_factory=dict)

    async def of(self, url_id: int, now: datetime) -> Sequence[datetime]:
        """Return the relevant days; the first is the one for the link's readers in general.

        It is the earliest access date, else the day of addition, else the one on which the link was first seen.
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
        return citation_days(written, added.values(), now)

    async def _from_histories(self, uses: Sequence[CitingPageUse]) -> Mapping[LinkRef, int]:
        days = {}
        for use in uses:
            wiki = self._wikis.get(use.link.page >> PAGE_BITS)
            if wiki is None or not wiki.url:
                continue
            try:
                async with open_wiki_api(wiki, self.settings) as api:
                    cited = await find_cited_day(api, self.store, use.link, use.link.page & MAX_PAGE_ID)
            except (WeboidError, ConfigError):
                continue  # first seen is the next best
            if cited is not None:
                days[use.link] = cited
        return days
