"""Sources of copies of a link, other archives and own captures, and citation dates."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final

from core.clock import SystemClock
from core.config.profile import link_user_agent
from core.config.settings import Settings
from core.errors import BadUrlError, ConfigError, WeboidError
from core.layout import Layout
from links.archives.archive_answers import ArchiveMemento
from links.archives.archive_urls import WEBOID
from links.archives.copy_search import CopySources, OwnCopies, citation_days
from links.archives.copy_store import copies_of_url, urls_without_copy
from links.check_history import day_of
from links.registry.citations import CitingPageUse, cited_uses
from links.registry.database import RegistryStore
from links.registry.pages import MAX_PAGE_ID, PAGE_BITS, LinkRef
from links.registry.wikis import Wiki, all_wikis
from net.address_policy import is_own
from playback.access.control import AccessControl
from playback.access.decision_store import open_decisions
from playback.url_paths import page_path
from playback.web.copy_lookup import UrlSpellings
from playback.web.page_store import CapturedPage, PageStore
from warc.index.database import open_database

CLOCK = SystemClock()
_LOOKED_AT: Final = 500  # captures of a URL's equals by replay key, for one of that very URL
COUNTED_MOST: Final = 1_000  # upper bound of lost links examined


@dataclass
class OwnCaptures:
    """Own captures as copies, addressed by their page on the front."""

    store: PageStore
    front: str  # the public origin; empty: addresses are paths
    # titles of the copies found so far, by address
    titles: dict[str, str] = field(default_factory=dict)

    def __call__(self, url: str, at: datetime | None) -> ArchiveMemento | None:
        """Return the good copy nearest to the time, without login walls or ones that a check found broken."""
        page = self.usable(url, at)
        return None if page is None or page.rank else self._copy(page)

    def newest(self, url: str) -> ArchiveMemento | None:
        """Return the copy that readers are offered, good or not; None without one."""
        page = self.usable(url, None)
        return None if page is None else self._copy(page)

    def usable(self, url: str, at: datetime | None) -> CapturedPage | None:
        """Return the best usable copy of exactly that URL; None without one."""
        try:
            spellings = UrlSpellings.of(url)
        except BadUrlError:
            return None
        pages = islice(self.store.usable(spellings.fetch, at), _LOOKED_AT)
        return next((page for page in pages if spellings.is_of(page.url)), None)

    def title(self, copy: ArchiveMemento) -> str:
        """Return the title of a copy that was found here; empty for others."""
        return self.titles.get(copy.address, "")

    def _copy(self, page: CapturedPage) -> ArchiveMemento:
        address = f"{self.front.rstrip('/')}{page_path(page.timestamp, page.url)}"
        self.titles[address] = page.title
        return ArchiveMemento(WEBOID, address, page.timestamp, page.status, page.mime or "")


@contextmanager
def open_own_captures(layout: Layout, url: str, front: str) -> Iterator[OwnCaptures]:
    """Yield the collection's own captures."""
    with closing(open_database(layout, url)) as database, closing(open_decisions(layout, url)) as decisions:
        store = PageStore(database, AccessControl(decisions, database.rows, CLOCK.now))
        yield OwnCaptures(store, front)


def own_copy(layout: Layout, url: str, front: str, wanted: str) -> ArchiveMemento | None:
    """Return our own copy of a URL as readers of the front's origin are offered it; None without one."""
    with open_own_captures(layout, url, front) as own:
        return own.newest(wanted)


def no_archives_notice(count: int) -> str:
    """Return a notice for the operator: links have no copy, and no archive is configured."""
    links = "1 link has" if count == 1 else f"{count:,} links have"
    return f"{links} no copy; no archive is configured: name some in [links] archives (docs/how-to/archives.md)."


def count_without_copy(store: RegistryStore, layout: Layout, settings: Settings) -> int:
    """Count lost links (among at most `COUNTED_MOST`) without a copy in an archive or in our own."""
    with store.reading() as rows:
        candidates = urls_without_copy(rows, day_of(CLOCK.now()), COUNTED_MOST)
        lost = [each for each in candidates if not any(copy.address for copy in copies_of_url(rows, each.id))]
    with open_own_captures(layout, settings.index.url, "") as own:
        return sum(own(each.url, None) is None for each in lost)


@asynccontextmanager
async def open_archives(
    settings: Settings, own: OwnCopies = lambda _url, _at: None, origins: tuple[str, ...] = ()
) -> AsyncIterator[CopySources]:
    """Yield the archives that the settings name."""
    from links.archives.adapters import SavePageNow, adapters_of  # with their HTTP client, which own copies do without
    from links.archives.archive_client import ArchiveClient, HttpFetch

    links = settings.links
    agent, limit_s = link_user_agent(links), links.timeout_s
    async with HttpFetch(settings.egress, is_own=is_own, user_agent=agent, limit_s=limit_s, origins=origins) as fetch:
        client = ArchiveClient(fetch, now=CLOCK.now, monotonic=time.monotonic, sleep=asyncio.sleep)
        adapters, key = adapters_of(links.archives, client), _key(links.save_key_file)
        names, saver = tuple(each.name for each in adapters), None
        if key:
            saver = SavePageNow(client, key, monotonic=time.monotonic)
        yield CopySources(client, adapters, names, saver, own, origins, links.verify_copies)


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


_HISTORIES_MOST: Final = 3  # pages whose history is queried for one link


@dataclass
class CitationDays:
    """Citation dates of links; wikis are queried only for links without an access date."""

    store: RegistryStore
    settings: Settings
    asks_wikis: bool  # whether they are queried
    _wikis: dict[int, Wiki] = field(default_factory=dict)

    async def of(self, url_id: int, now: datetime) -> Sequence[datetime]:
        """Return the relevant days; first the earliest access date, else the day of addition, or of first sight."""
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
        from weboid.app.wiki.wiki_clients import open_wiki_api
        from wiki.sync.page_import import find_cited_day

        days: dict[LinkRef, int] = {}
        for use in uses:
            wiki = self._wikis.get(use.link.page >> PAGE_BITS)
            if wiki is None or not wiki.url:
                continue
            with suppress(WeboidError):  # first seen is the next best
                async with open_wiki_api(wiki, self.settings) as api:
                    cited = await find_cited_day(api, self.store, use.link, use.link.page & MAX_PAGE_ID)
                days |= {} if cited is None else {use.link: cited}
        return days
