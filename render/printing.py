"""A page as a PDF, as its visitor would print it."""

import binascii

from render.cdp import CommandError
from render.page import Page

PDF_LIMIT_BYTES = 100_000_000
_PART_BYTES = 4_000_000
_PRINT = {
    "printBackground": True,
    "preferCSSPageSize": True,
    "generateTaggedPDF": True,
    "generateDocumentOutline": True,
    "transferMode": "ReturnAsStream",
}


async def print_pdf(page: Page) -> bytes:
    """The page as PDF, with its print styles, on paper of its own or of the usual size.

    Raises:
        CommandError: it cannot be printed, or is larger than `PDF_LIMIT_BYTES`.
        PageGoneError, BrowserUnavailableError: as `Page.send`.
    """
    printed = await page.send("Page.printToPDF", _PRINT)
    handle = printed["stream"]
    parts: list[bytes] = []
    size = 0
    try:
        while True:
            part = await page.send("IO.read", {"handle": handle, "size": _PART_BYTES})
            text = part["data"]
            data = binascii.a2b_base64(text) if part.get("base64Encoded") else text.encode()
            parts.append(data)
            size += len(data)
            if size > PDF_LIMIT_BYTES:
                raise CommandError("Page.printToPDF", "The PDF is larger than we keep.")
            if part["eof"]:
                return b"".join(parts)
    finally:
        page.post("IO.close", {"handle": handle})
