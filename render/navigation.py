"""Going to a URL, and what the first response makes of it: a page, a file, or nothing."""

from dataclasses import dataclass

from render.page import Page

ABORTED = "net::ERR_ABORTED"


@dataclass(frozen=True, slots=True)
class Arrival:
    """How a navigation ended.

    Attributes:
        loader: the browser's name for the document.
        shown: True when there is a page to look at.
        error: the browser's reason when nothing came, e.g. ``net::ERR_CONNECTION_REFUSED``.
    """

    loader: str
    shown: bool
    error: str = ""


async def arrive(page: Page, url: str) -> Arrival:
    """Go to the URL, until its document is there or it is clear that none will be.

    A response that the browser would save instead of showing (a PDF, an archive) is turned down:
    the first response decides, and the proxy keeps it whole without the browser.

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
    # A download, or an HTTP error without a body, for which the browser has a page of its own.
    return Arrival(loader, shown=False)
