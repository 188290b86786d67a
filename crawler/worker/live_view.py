"""Live pictures of the pages in the workers, made only while someone looks.

A viewer renews a note in the frontier (`ask_for_pictures`), which each process of workers reads when it polls for
orders; while there is one, it stores the newest picture of each page as a note that expires as well.
"""

import base64
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

from core.clock import Clock
from core.timestamps import unix_milliseconds
from crawler.frontier.base import Frontier
from net.backoff import StoreRetry

if TYPE_CHECKING:
    from crawler.pools.resource_pool import BrowserPool

VIEWER_S, PICTURE_S = 10.0, 20.0
PAGES_SHOWN = 16  # of one process
PICTURE_LIMIT_CHARS = 400_000  # of base64
_VIEWER, _PICTURE = "live-viewer", "live-picture"


def ask_for_pictures(frontier: Frontier, *, now: datetime) -> None:
    """Let the workers make pictures for the next `VIEWER_S`; raises as the frontier does."""
    frontier.put_note(_VIEWER, "", "", now=now, until=now + timedelta(seconds=VIEWER_S))


def live_pictures(frontier: Frontier, *, now: datetime) -> dict[str, int]:
    """Return the times of the current pictures in Unix milliseconds, by `picture_key`."""
    return {key: int(text.partition(" ")[0]) for key, text in frontier.notes(_PICTURE, now=now).items()}


def live_picture(frontier: Frontier, key: str, *, now: datetime) -> bytes | None:
    """Return the current picture of that `picture_key`, a JPEG; None without one."""
    text = frontier.note(_PICTURE, key, now=now)
    return None if text is None else base64.b64decode(text.partition(" ")[2])


def picture_key(url: str) -> str:
    """Return the key of the pictures of a page in progress."""
    return sha256(url.encode()).hexdigest()[:32]


async def store_pictures(frontier: Frontier, browsers: "BrowserPool", patience: StoreRetry, clock: Clock) -> None:
    """Store new pictures of the pages in these browsers if someone looks; else end them. Raises as the frontier does."""
    is_watched = await patience.ask(lambda: frontier.note(_VIEWER, "", now=clock.now())) is not None
    pictures: dict[str, str] = {}
    for url, page in list(browsers.pages().items())[:PAGES_SHOWN]:
        if not is_watched:
            page.end_live_pictures()
        elif 0 < len(picture := page.take_live_picture()) < PICTURE_LIMIT_CHARS:
            pictures[picture_key(url)] = picture

    def put() -> None:
        now = clock.now()
        for key, picture in pictures.items():
            value = f"{unix_milliseconds(now)} {picture}"
            frontier.put_note(_PICTURE, key, value, now=now, until=now + timedelta(seconds=PICTURE_S))

    if pictures:
        await patience.ask(put)
