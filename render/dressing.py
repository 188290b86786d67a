"""Rules that hold while a picture is taken, and never in the page that is kept.

A banner that nobody could dismiss would cover the picture, but it belongs to the page: the copy of
the DOM keeps it.
"""

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from render.cdp import CommandError
from render.page import Page

# A sheet of our own is no concern of the page's Content-Security-Policy, as a <style> would be.
_PUT_ON = """(css) => {
  const { get, set } = Object.getOwnPropertyDescriptor(Document.prototype, "adoptedStyleSheets");
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  set.call(document, [...get.call(document), sheet]);
  globalThis.weboidDress = sheet;
}"""
_TAKE_OFF = """() => {
  const { get, set } = Object.getOwnPropertyDescriptor(Document.prototype, "adoptedStyleSheets");
  set.call(document, [...get.call(document)].filter((each) => each !== globalThis.weboidDress));
}"""


@asynccontextmanager
async def dressed(page: Page) -> AsyncIterator[None]:
    """Inside, the page looks as `page.picture_css` says; a page that cannot be changed stays as it is.

    Raises:
        PageGoneError, BrowserUnavailableError: as `Page.send`.
    """
    if not page.picture_css:
        yield
        return
    with contextlib.suppress(CommandError):
        await page.run("put-on", _PUT_ON, page.picture_css)
    try:
        yield
    finally:
        if not page.gone:
            with contextlib.suppress(CommandError):
                await page.run("take-off", _TAKE_OFF)
