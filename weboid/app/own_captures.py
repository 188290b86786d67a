"""Own captures of a link, as copies that are offered beside those of other archives."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Final

from core.clock import SystemClock
from core.config.settings import Settings
from core.errors import BadUrlError
from core.layout import Layout
from links.archives.archive_answers import ArchiveMemento
from links.archives.archive_services import WEBOID
from links.archives.copy_store import copies_of_url, urls_without_copy
from links.check_history import day_of
from links.registry.database import RegistryStore
from playback.access.control import AccessControl
from playback.access.decision_store import open_decisions
from playback.url_paths import page_path
from playback.web.copy_lookup import UrlSpellings
from playback.web.page_store import CapturedPage, PageStore
from warc.index.database import open_database

_CLOCK = SystemClock()
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
        store = PageStore(database, AccessControl(decisions, database.rows, _CLOCK.now))
        yield OwnCaptures(store, front)


def own_copy(layout: Layout, url: str, front: str, wanted: str) -> ArchiveMemento | None:
    """Return our own copy of a URL as readers of the front's origin are offered it; None without one."""
    with open_own_captures(layout, url, front) as own:
        return own.newest(wanted)


def no_archives_notice(count: int) -> str:
    """Return a notice for the operator: links are lost and no archive is configured for copies."""
    links = "1 dead link has" if count == 1 else f"{count:,} dead links have"
    return f"{links} no copy; no archive is configured: [links] archives (docs/how-to/archives.md)."


def count_without_copy(store: RegistryStore, layout: Layout, settings: Settings) -> int:
    """Count lost links, of `COUNTED_MOST` at most, that have neither a copy in an archive nor one of ours."""
    with store.reading() as rows:
        candidates = urls_without_copy(rows, day_of(_CLOCK.now()), COUNTED_MOST)
        lost = [each for each in candidates if not any(copy.address for copy in copies_of_url(rows, each.id))]
    with open_own_captures(layout, settings.index.url, "") as own:
        return sum(own(each.url, None) is None for each in lost)
