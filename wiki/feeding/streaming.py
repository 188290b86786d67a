"""A stream of changes as a bell: Wikimedia's EventStreams, or another wiki farm's.

It rings for wikis that are watched, and names pages where it knows them (``page-links-change`` does,
also those that a template has changed). What it tells is not needed: a feed goes on at its own cursor,
so a stream that ends, lies or skips costs nothing but time.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator

from core.errors import WeboidError
from wiki.api.client import Timing
from wiki.api.http import Wire
from wiki.api.streams import listen
from wiki.feeding.bell import Ring

AGAIN_S = 300.0  # after a stream that would not have us

log = logging.getLogger(__name__)


async def ring_from(
    wire: Wire,
    url: str,
    *,
    ring: Ring,
    watched: Callable[[], Collection[str]],
    stop: asyncio.Event,
    timing: Timing | None = None,
) -> None:
    """Ring for what the stream tells, until `stop` is set.

    Args:
        wire: to its server; its owner closes it.
        url: of the stream.
        ring: rings for a wiki.
        watched: tells the databases of the wikis that are watched now.
        stop: ends it.
        timing: what passes the time between attempts.
    """
    timing = timing or Timing()
    hearing = asyncio.create_task(_hear(wire, url, ring, watched, timing))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([hearing, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        hearing.cancel()
        stopping.cancel()
        await asyncio.gather(hearing, stopping, return_exceptions=True)


async def _hear(
    wire: Wire, url: str, ring: Ring, watched: Callable[[], Collection[str]], timing: Timing
) -> None:
    last_id = ""
    while True:
        try:
            async for told in listen(
                wire, url, wikis=_Live(watched), last_id=last_id, timing=timing
            ):
                last_id = told.last_id
                if told.links is not None and told.links.page_id > 0:
                    ring(told.wiki, None, (told.links.page_id,))
                elif told.wiki:
                    ring(told.wiki, None, ())
        except WeboidError as error:
            log.warning("the stream %s: %s It is tried again in %s s.", url, error, AGAIN_S)
        await timing.sleep(AGAIN_S)


class _Live(Collection[str]):
    """The databases of the wikis that are watched at each moment."""

    def __init__(self, watched: Callable[[], Collection[str]]) -> None:
        self._watched = watched

    def __contains__(self, name: object) -> bool:
        return name in self._watched()

    def __iter__(self) -> Iterator[str]:
        return iter(self._watched())

    def __len__(self) -> int:
        return len(self._watched())
