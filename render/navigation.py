"""Going to a URL, and what the first response makes of it: a page, a file, or nothing."""

import asyncio
import contextlib
from dataclasses import dataclass

from render.page import Page

# Between the answer that a navigation became a download and the first word of that download.
DOWNLOAD_STARTS_S = 2.0
ABORTED = "net::ERR_ABORTED"


@dataclass(frozen=True, slots=True)
class Arrival:
    """How a navigation ended.

    Attributes:
        loader: the browser's name for the document.
        shown: True when there is a page to look at.
        error: the browser's reason when nothing came, e.g. ``net::ERR_CONNECTION_REFUSED``.
        shortfall: why what came is not whole; empty when it is.
    """

    loader: str
    shown: bool
    error: str = ""
    shortfall: str = ""


async def arrive(page: Page, url: str) -> Arrival:
    """Go to the URL, until its document is there or it is clear that none will be.

    A response that the browser saves instead of showing (a PDF, an archive) is pulled whole, so
    that all of it passes through the proxy: the first response decides, and is the only one.

    Raises:
        PageGoneError, CommandError, BrowserUnavailableError: as `Page.send`.
    """
    try:
        answer = await page.send("Page.navigate", {"url": url})
    finally:
        page.login.stop()
    loader = answer.get("loaderId", "")
    error = answer.get("errorText", "")
    if not error:
        return Arrival(loader, shown=True)
    document = page.log.documents.get(loader)
    if document is None and page.log.documents:
        loader, document = list(page.log.documents.items())[-1]
    if document is None:
        return Arrival(loader, shown=False, error=error)
    if error != ABORTED or not may_have_body(document.status):
        # An HTTP error without a body: the browser would show a page of its own.
        return Arrival(loader, shown=False)
    return Arrival(loader, shown=False, shortfall=await _pull(page))


def may_have_body(status: int) -> bool:
    """Whether a response of that status may bring one (RFC 9110, 15.3.5, 15.3.6, 15.4.5)."""
    return status not in (204, 205, 304)


async def _pull(page: Page) -> str:
    """Wait for the download to end; why it is not whole, or nothing."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DOWNLOAD_STARTS_S):
            while page.downloads.main is None and not page.gone:
                await page.wait_changed()
    download = page.downloads.main
    if download is None:
        return ABORTED
    while download.state == "inProgress" and not page.gone:
        await page.wait_changed()
    return "" if download.state == "completed" else "download: canceled"
