"""What the commands about copies open: archives to ask, a registry, our own captures."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import datetime
from pathlib import Path

from core.clock import SystemClock
from core.errors import ConfigError
from core.layout import Layout
from core.settings import Settings
from links.archives.adapters import Copy
from links.archives.asking import Asker
from links.archives.directory import adapters_of
from links.archives.finding import Archives, OwnCopies
from links.archives.http import HttpFetch
from links.archives.saving import SavePageNow
from links.archives.services import WEBOID
from links.asking.requests import user_agent
from playback.addresses import page_path
from playback.database import open_database
from playback.decisions.store import open_decisions
from playback.mementos import Mementos
from playback.permits import Permits
from proxy.addresses import is_own

CLOCK = SystemClock()


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
        settings.egress, is_own=is_own, user_agent=user_agent(links), limit_s=links.timeout_s
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
        )


@contextmanager
def opened_captures(layout: Layout, url: str, front: str) -> Iterator[OwnCopies]:
    """Our own captures as copies, by the address of their page on the front; ours have the last word.

    What was taken down is none.
    """
    with (
        closing(open_database(layout, url)) as database,
        closing(open_decisions(layout, url)) as decisions,
    ):
        mementos = Mementos(database, Permits(decisions, database.rows, CLOCK.now))

        def nearest(wanted: str, at: datetime | None) -> Copy | None:
            found = mementos.nearest(wanted, at)
            if found is None:
                return None
            address = f"{front.rstrip('/')}{page_path(found.timestamp, found.url)}"
            return Copy(WEBOID, address, found.timestamp)

        yield nearest


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
