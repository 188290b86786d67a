"""What the commands about copies open: archives to ask, a registry, our own captures."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final

from core.clock import SystemClock
from core.errors import BadUrlError, ConfigError
from core.layout import Layout
from core.settings import Settings
from links.archives.adapters import Copy
from links.archives.asking import Asker
from links.archives.copies import kept_of, without_copy
from links.archives.directory import adapters_of
from links.archives.finding import Archives, OwnCopies
from links.archives.http import HttpFetch
from links.archives.saving import SavePageNow
from links.archives.services import WEBOID
from links.asking.requests import user_agent
from links.days import day_of
from links.store.store import Store
from playback.addresses import page_path
from playback.database import open_database
from playback.decisions.store import open_decisions
from playback.front.offering import Spelled
from playback.front.pages import Page, PageStore
from playback.permits import Permits
from proxy.addresses import is_own

CLOCK = SystemClock()
_LOOKED_AT: Final = 500  # captures of a URL's equals by replay key, for one of that very URL
COUNTED_MOST = 1_000  # lost links that are looked at to tell how many lack a copy


@asynccontextmanager
async def opened_archives(
    settings: Settings, own: OwnCopies = lambda _url, _at: None, origins: tuple[str, ...] = ()
) -> AsyncIterator[Archives]:
    """The archives that the settings name, for the block.

    Raises:
        ConfigError: they name one that there is not, or the key cannot be read.
    """
    links = settings.links
    fetch = HttpFetch(
        settings.egress,
        is_own=is_own,
        user_agent=user_agent(links),
        limit_s=links.timeout_s,
        origins=origins,
    )
    async with fetch:
        asker = Asker(fetch, now=CLOCK.now, monotonic=time.monotonic, sleep=asyncio.sleep)
        adapters = adapters_of(links.archives, asker)
        key = _key(links.save_key_file)
        yield Archives(
            asker,
            adapters,
            tuple(each.name for each in adapters),
            SavePageNow(asker, key, monotonic=time.monotonic) if key else None,
            own,
            origins,
            links.verify_copies,
        )


@dataclass
class OwnCaptures:
    """Our own captures as copies, by the address of their page on the front.

    Attributes:
        store: which there are.
        front: the origin that readers know; empty: addresses are paths.
        titles: of the copies that were found, by address.
    """

    store: PageStore
    front: str
    titles: dict[str, str] = field(default_factory=dict)

    def __call__(self, url: str, at: datetime | None) -> Copy | None:
        """Return the good copy nearest to the moment; None without one.

        One that shows a wall or that a check found broken may be shown to readers, but is not cited and
        ends no search in other archives.
        """
        found = self.usable(url, at)
        return None if found is None or found.rank else self._copy(found)

    def newest(self, url: str) -> Copy | None:
        """Return the copy that readers are offered, good or not; None without one."""
        found = self.usable(url, None)
        return None if found is None else self._copy(found)

    def usable(self, url: str, at: datetime | None) -> Page | None:
        """Return the best usable copy of that very URL; None without one."""
        try:
            asked = Spelled.of(url)
        except BadUrlError:
            return None
        pages = islice(self.store.usable(asked.fetch, at), _LOOKED_AT)
        return next((page for page in pages if asked.is_of(page.url)), None)

    def title(self, copy: Copy) -> str:
        """Return the title of a copy that was found here; empty for others."""
        return self.titles.get(copy.address, "")

    def _copy(self, page: Page) -> Copy:
        address = f"{self.front.rstrip('/')}{page_path(page.timestamp, page.url)}"
        self.titles[address] = page.title
        return Copy(WEBOID, address, page.timestamp, page.status, page.mime or "")


@contextmanager
def opened_captures(layout: Layout, url: str, front: str) -> Iterator[OwnCaptures]:
    """Open our own captures for the block."""
    with (
        closing(open_database(layout, url)) as database,
        closing(open_decisions(layout, url)) as decisions,
    ):
        store = PageStore(database, Permits(decisions, database.rows, CLOCK.now))
        yield OwnCaptures(store, front)


def own_copy(layout: Layout, url: str, front: str, wanted: str) -> Copy | None:
    """Return our own copy of a URL as readers are offered it; None without one.

    Args:
        layout: the collection's.
        url: of the captures index; empty: the collection's own file.
        front: the origin that readers know; empty: the address is a path.
        wanted: of which URL.
    """
    with opened_captures(layout, url, front) as own:
        return own.newest(wanted)


def unasked(count: int) -> str:
    """Return a sentence for who runs this: links are lost, and nobody is asked for copies."""
    links = "1 dead link has" if count == 1 else f"{count:,} dead links have"
    return f"{links} no copy; no archive is configured: [links] archives (docs/archives.md)."


def count_lacking(store: Store, layout: Layout, settings: Settings) -> int:
    """Return how many lost links have neither a copy in an archive nor one of ours.

    No more than `COUNTED_MOST` are looked at.
    """
    with store.reading() as rows:
        found = without_copy(rows, day_of(CLOCK.now()), COUNTED_MOST)
        lost = [each for each in found if not any(kept.address for kept in kept_of(rows, each.id))]
    with opened_captures(layout, settings.index.url, "") as own:
        return sum(own(each.url, None) is None for each in lost)


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
