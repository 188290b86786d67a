"""Screenshots of the viewport and the full page, thumbnails, and the PDF of a page.

A banner that could not be dismissed is hidden in pictures, but it belongs to the page: the copy of the DOM keeps it.

The browser can draw only as much at once as fits a texture or its memory: a higher page is drawn in tiles, which are
joined. It is not scrolled meanwhile, so that elements fixed to the window are in the first tile alone.
"""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from PIL import Image

from core.config.settings import VisitSettings
from render.cdp import CommandError, stretched
from render.page import BrowserPage

if TYPE_CHECKING:
    from render.png_joiner import PngJoiner

# A sheet of our own is no concern of the page's Content-Security-Policy, as a <style> would be.
PUT_ON = """(css) => {
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
async def picture_styles(page: BrowserPage) -> AsyncIterator[None]:
    """Apply `page.picture_css` inside the block; a page that cannot be changed stays as it is."""
    if not page.picture_css:
        yield
        return
    with contextlib.suppress(CommandError):
        await page.run("put-on", PUT_ON, page.picture_css)
    try:
        yield
    finally:
        if not page.gone:
            with contextlib.suppress(CommandError):
                await page.run("take-off", _TAKE_OFF)


# A hundred times the usual duration of a screenshot.
VIEW_PATIENCE_S = 4.0
TILE_PATIENCE_S = 20.0
# Of the picture, not of the page: what graphics can hold, and what keeps a tile's memory small.
SIDE_LIMIT_PX = 16_384
TILE_LIMIT_PX = 24_000_000
# A joined picture is encoded again as a lossy one, which needs it decoded in memory.
REPACK_LIMIT_PX = 100_000_000
WEBP_SIDE_LIMIT_PX = 16_383
THUMBNAIL_WIDTH_PX = 320
THUMBNAIL_QUALITY = 80


@dataclass(frozen=True, slots=True)
class FullPage:
    """Picture of the whole page."""

    data: bytes = field(repr=False)
    # Height of the page in pixels of the picture when the picture was cut; else None
    cut_from: int | None = None
    note: str = ""  # defect of the picture, as a sentence; empty when there is none


async def capture_view(page: BrowserPage, settings: VisitSettings) -> bytes:
    """Capture the viewport."""
    return await _capture(page, _packing(settings), VIEW_PATIENCE_S)


async def capture_full_page(
    page: BrowserPage, height: int, scale: float, settings: VisitSettings, *, is_again: bool = False
) -> FullPage:
    """Capture the page from its top, `height` CSS pixels or up to the settings' limit, at `scale` pixels for each.

    A page whose height changes meanwhile is captured again, once.
    """
    full = await _full_page(page, height, scale, settings)
    now = max(int((await page.call("measure"))["height"]), 1)
    if height == now or min(height, now) >= settings.full_page_limit_px:
        return full
    if not is_again:
        return await capture_full_page(page, now, scale, settings, is_again=True)
    return replace(full, note=f"fullPage: the page was {height} px high and then {now} px.")


def thumbnail(view: bytes) -> bytes:
    """Make a JPEG of `THUMBNAIL_WIDTH_PX` from the viewport's picture."""
    with Image.open(io.BytesIO(view)) as image:
        width, height = image.size
        whole = image if image.mode == "RGB" else image.convert("RGB")
        small = whole.resize(
            (THUMBNAIL_WIDTH_PX, max(1, round(height * THUMBNAIL_WIDTH_PX / width))),
            Image.Resampling.BILINEAR,
            reducing_gap=1.0,
        )
    out = io.BytesIO()
    small.save(out, "JPEG", quality=THUMBNAIL_QUALITY)
    return out.getvalue()


def picture_size(data: bytes) -> tuple[str, int, int]:
    """Return the Content-Type, width and height, read from the first bytes."""
    if data.startswith(b"\x89PNG"):
        return "image/png", int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    with Image.open(io.BytesIO(data)) as image:
        return Image.MIME[image.format or ""], *image.size


async def _full_page(page: BrowserPage, height: int, scale: float, settings: VisitSettings) -> FullPage:
    width = settings.viewport_width
    shown = min(height, settings.full_page_limit_px)
    cut_from = round(height * scale) if shown < height else None
    # CSS pixels of a tile; whole pixels of the picture, too, when the scale is a whole number.
    most = min(SIDE_LIMIT_PX, TILE_LIMIT_PX / (width * scale)) / scale
    tile = max(int(most) // 100 * 100, 100)
    if shown <= tile:
        packing = _packing(settings)
        if shown * scale > WEBP_SIDE_LIMIT_PX and packing["format"] == "webp":
            packing = _PNG
        return FullPage(await _clip(page, packing, width, 0, shown), cut_from)
    from render.png_joiner import BadPngError, PngJoiner

    joiner = PngJoiner()
    for top in range(0, shown, tile):
        part = await _clip(page, _PNG, width, top, min(tile, shown - top))
        try:
            # Packing takes as long as drawing: others' visits go on meanwhile.
            await asyncio.to_thread(joiner.add, part)
        except BadPngError as error:
            raise CommandError("Page.captureScreenshot", str(error)) from error
    return FullPage(await asyncio.to_thread(_finish, joiner, settings), cut_from)


def _finish(joiner: PngJoiner, settings: VisitSettings) -> bytes:
    png = joiner.picture()
    kind = settings.picture_format
    tallest = WEBP_SIDE_LIMIT_PX if kind == "webp" else 65_535
    is_large = joiner.height > tallest or joiner.width * joiner.height > REPACK_LIMIT_PX
    if kind == "png" or is_large:
        return png
    out = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").save(out, kind.upper(), quality=settings.picture_quality)
    return out.getvalue()


async def _clip(page: BrowserPage, packing: dict[str, object], width: int, top: int, height: int) -> bytes:
    clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
    return await _capture(page, {**packing, "captureBeyondViewport": True, "clip": clip}, TILE_PATIENCE_S)


# optimizeForSpeed: zlib's fastest level, a quarter of the time for a third more bytes.
_PNG: dict[str, object] = {"format": "png", "optimizeForSpeed": True}


def _packing(settings: VisitSettings) -> dict[str, object]:
    if settings.picture_format == "png":
        return _PNG
    return {"format": settings.picture_format, "quality": settings.picture_quality}


async def _capture(page: BrowserPage, params: dict[str, object], patience_s: float) -> bytes:
    async with picture_styles(page):
        try:
            async with asyncio.timeout(stretched(patience_s)):
                answer = await page.send("Page.captureScreenshot", params)
        except TimeoutError:
            # The browser forgets the question when the page navigates at that moment: ask again.
            answer = await page.send("Page.captureScreenshot", params)
    return binascii.a2b_base64(answer["data"])


PDF_LIMIT_BYTES = 100_000_000
_PART_BYTES = 4_000_000
_PRINT = {
    "printBackground": True,
    "preferCSSPageSize": True,
    "generateTaggedPDF": True,
    "generateDocumentOutline": True,
    "transferMode": "ReturnAsStream",
}


async def print_pdf(page: BrowserPage) -> bytes:
    """Print the page with its print styles; CommandError: that is not possible, or over `PDF_LIMIT_BYTES`."""
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
                raise CommandError("Page.printToPDF", "The PDF is larger than the limit.")
            if part["eof"]:
                return b"".join(parts)
    finally:
        page.post("IO.close", {"handle": handle})
