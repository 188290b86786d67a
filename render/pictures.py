"""Pictures of a page: what the viewport shows, the whole page, and a small one for lists.

The browser can draw the page beyond its viewport, but no more of it at once than fits a texture or
its memory: what is higher is drawn in tiles and joined. The page is not scrolled meanwhile, so what
is fixed to the window is in the first tile alone, and tiles meet where they should.
"""

import asyncio
import binascii
import io
from dataclasses import dataclass, field

from PIL import Image

from core.settings import VisitSettings
from render.cdp import CommandError
from render.dressing import dressed
from render.page import Page
from render.tiles import BadPngError, Joiner

# A hundred times what a picture takes when nothing is in its way.
VIEW_PATIENCE_S = 4.0
TILE_PATIENCE_S = 20.0
# Of the picture, not of the page: what graphics can hold, and what keeps a tile's memory small.
SIDE_LIMIT_PX = 16_384
TILE_LIMIT_PX = 24_000_000
# A lossy picture of a page that had to be joined is packed anew, and for that held unpacked.
REPACK_LIMIT_PX = 100_000_000
WEBP_SIDE_LIMIT_PX = 16_383
THUMBNAIL_WIDTH_PX = 320
THUMBNAIL_QUALITY = 80


@dataclass(frozen=True, slots=True)
class FullPage:
    """A picture of the whole page.

    Attributes:
        data: the picture.
        cut_from: how high the page is in the picture's pixels when it ends before; else None.
        note: what is not right about it, as a sentence; empty when all is.
    """

    data: bytes = field(repr=False)
    cut_from: int | None = None
    note: str = ""


async def picture_view(page: Page, settings: VisitSettings) -> bytes:
    """A picture of the viewport.

    Raises:
        CommandError, PageGoneError, BrowserUnavailableError: as `Page.send`.
    """
    return await _capture(page, _packing(settings), VIEW_PATIENCE_S)


async def picture_full_page(
    page: Page, height: int, scale: float, settings: VisitSettings
) -> FullPage:
    """A picture of the page from its top, `height` CSS pixels or up to the settings' limit.

    `scale` is how many pixels of the picture a CSS pixel takes.

    A page that becomes higher or lower meanwhile is pictured again, once.

    Raises:
        CommandError, PageGoneError, BrowserUnavailableError: as `Page.send`.
    """
    full = await _full_page(page, height, scale, settings)
    now = await _height(page)
    if _same(height, now, settings):
        return full
    again = await _full_page(page, now, scale, settings)
    last = await _height(page)
    if _same(now, last, settings):
        return again
    note = f"fullPage: the page was {now} px high and then {last} px."
    return FullPage(again.data, again.cut_from, note)


def thumbnail(view: bytes) -> bytes:
    """A JPEG of `THUMBNAIL_WIDTH_PX`, made from the viewport's picture."""
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
    """Its Content-Type, width and height, read from its first bytes."""
    if data.startswith(b"\x89PNG"):
        return "image/png", int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    with Image.open(io.BytesIO(data)) as image:
        return Image.MIME[image.format or ""], *image.size


async def _full_page(page: Page, height: int, scale: float, settings: VisitSettings) -> FullPage:
    width = settings.viewport_width
    shown = min(height, settings.full_page_limit_px)
    cut_from = round(height * scale) if shown < height else None
    tile = _tile_height(width, scale)
    if shown <= tile:
        packing = _packing(settings)
        if shown * scale > WEBP_SIDE_LIMIT_PX and packing["format"] == "webp":
            packing = _PNG
        return FullPage(await _clip(page, packing, width, 0, shown), cut_from)
    joiner = Joiner()
    for top in range(0, shown, tile):
        part = await _clip(page, _PNG, width, top, min(tile, shown - top))
        try:
            # Packing takes as long as drawing: others' visits go on meanwhile.
            await asyncio.to_thread(joiner.add, part)
        except BadPngError as error:
            raise CommandError("Page.captureScreenshot", str(error)) from error
    whole = await asyncio.to_thread(_finish, joiner, settings)
    return FullPage(whole, cut_from)


def _finish(joiner: Joiner, settings: VisitSettings) -> bytes:
    png = joiner.picture()
    kind = settings.picture_format
    tall = kind == "webp" and joiner.height > WEBP_SIDE_LIMIT_PX
    if kind == "png" or tall or joiner.height > 65_535:
        return png
    if joiner.width * joiner.height > REPACK_LIMIT_PX:
        return png
    out = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").save(out, kind.upper(), quality=settings.picture_quality)
    return out.getvalue()


def _tile_height(width: int, scale: float) -> int:
    """CSS pixels of a tile; whole pixels of the picture, too, when the scale is a whole number."""
    most = min(SIDE_LIMIT_PX, TILE_LIMIT_PX / (width * scale)) / scale
    return max(int(most) // 100 * 100, 100)


async def _height(page: Page) -> int:
    return max(int((await page.call("measure"))["height"]), 1)


def _same(one: int, other: int, settings: VisitSettings) -> bool:
    return one == other or min(one, other) >= settings.full_page_limit_px


async def _clip(page: Page, packing: dict[str, object], width: int, top: int, height: int) -> bytes:
    clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
    return await _capture(
        page, {**packing, "captureBeyondViewport": True, "clip": clip}, TILE_PATIENCE_S
    )


# optimizeForSpeed: zlib's fastest level, a quarter of the time for a third more bytes.
_PNG: dict[str, object] = {"format": "png", "optimizeForSpeed": True}


def _packing(settings: VisitSettings) -> dict[str, object]:
    if settings.picture_format == "png":
        return _PNG
    return {"format": settings.picture_format, "quality": settings.picture_quality}


async def _capture(page: Page, params: dict[str, object], patience_s: float) -> bytes:
    async with dressed(page):
        try:
            async with asyncio.timeout(patience_s):
                answer = await page.send("Page.captureScreenshot", params)
        except TimeoutError:
            # The browser forgets the question when the page navigates at that moment: ask again.
            answer = await page.send("Page.captureScreenshot", params)
    return binascii.a2b_base64(answer["data"])
