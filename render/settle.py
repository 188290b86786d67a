"""Is the page quiet yet?"""

import asyncio
import contextlib

from core.clock import Clock
from render.page import COMMIT_LIMIT, Page


async def settle(page: Page, *, quiet_s: float, limit_s: float, clock: Clock) -> bool:
    """Wait until the page has loaded and asked for nothing for `quiet_s`, or `limit_s` are over.

    Returns:
        True when it became quiet.

    Raises:
        PageGoneError: it crashed or closed; raised by the next command, not from here.
    """
    end = clock.monotonic() + limit_s
    quiet_since: float | None = None
    while not page.gone and not page.log.overflowed and len(page.commits) <= COMMIT_LIMIT:
        now = clock.monotonic()
        if now >= end:
            return False
        wake, quiet_since = next_look(page, now=now, quiet_since=quiet_since, quiet_s=quiet_s)
        if wake <= now:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(wake, end) - now):
                await page.wait_changed()
    return False


def next_look(
    page: Page, *, now: float, quiet_since: float | None, quiet_s: float
) -> tuple[float, float | None]:
    """When to look again, and since when it has been quiet; `now` itself when it is quiet enough."""
    if not page.loaded:
        return float("inf"), None
    held = page.log.holding_until(now)
    if held is not None:
        return held, None
    since = now if quiet_since is None else quiet_since
    return max(now, since + quiet_s), since
