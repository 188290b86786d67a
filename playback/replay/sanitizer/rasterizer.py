"""Rasterizer of SVG, old picture formats and PDF pages; for makers only.

PDFs are as untrusted as pages. Only pixels and characters leave the process.
"""

import io
import json
import re
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from core.errors import PermanentError
from playback.replay.sanitizer.media_sniffer import RasterKind, image_type, raster_kind
from playback.replay.sanitizer.svg_image import raster_svg

if TYPE_CHECKING:
    from PIL.Image import Image

_MOST_RASTER_PIXELS = 16_000_000
# What is handed to whoever asks is no larger than icons are.
_MOST_MASK_PIXELS = 512 * 512
_MASKS = ("PNG", "GIF", "WEBP", "JPEG")


def raster(data: bytes, scale: float = 1.0) -> bytes:
    """Return the picture as PNG, an SVG with `scale` pixels per CSS pixel; else raise PermanentError."""
    kind = raster_kind(data)
    if kind is RasterKind.SVG:
        return raster_svg(data, scale)
    if kind is None:
        raise PermanentError("This is no picture.")
    with _picture(data, (kind.value,), _MOST_RASTER_PIXELS) as image:
        return _png(image.convert("RGBA"))


def mask(data: bytes) -> bytes:
    """Return the shape of a small picture as black PNG with its opacity; else raise PermanentError."""
    if raster_kind(data) is RasterKind.SVG:
        data = raster_svg(data)
    if image_type(data) is None:
        raise PermanentError("This is no picture.")
    from PIL import Image

    with _picture(data, _MASKS, _MOST_MASK_PIXELS) as image:
        shape = Image.new("LA", image.size)
        shape.putalpha(image.convert("RGBA").getchannel("A"))
        return _png(shape)


@contextmanager
def _picture(data: bytes, formats: tuple[str, ...], most_pixels: int) -> "Iterator[Image]":
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=formats) as image:
            if image.width * image.height > most_pixels:
                raise PermanentError("A picture that is too large.")
            yield image
    except (OSError, ValueError, SyntaxError, struct.error, Image.DecompressionBombError) as error:
        raise PermanentError("A picture that is damaged.") from error


def _png(image: "Image") -> bytes:
    with io.BytesIO() as buffer:
        image.save(buffer, "PNG")
        return buffer.getvalue()


MOST_PAGES = 200  # that are shown; the others are in the file
ENCRYPTED, BROKEN = "encrypted", "broken"
_MOST_TEXT = 1_000_000  # characters of all pages
_MOST_PAGE_TEXT = 50_000
_TEXT_S = 5.0  # for the text of all pages
_WIDTH = 1_200  # pixels of a page's picture
_MOST_SCALE = 3.0
_MOST_PDF_PIXELS = 6_000_000
_QUALITY = 80
_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")


def read_pdf(data: bytes) -> bytes:
    """Return the number of pages as JSON, size and text of the first ones, and ``error``, maybe empty."""
    import pypdfium2

    try:
        with _opened(data) as pdf:
            pages = list(_pages_of(pdf))
            return json.dumps({"error": "", "count": len(pdf), "pages": pages}).encode()
    except pypdfium2.PdfiumError as error:
        is_encrypted = getattr(error, "err_code", None) == _PASSWORD_ERROR
        reason = ENCRYPTED if is_encrypted or "assword" in str(error) else BROKEN
        return json.dumps({"error": reason, "count": 0, "pages": []}).encode()


def draw_pdf_page(data: bytes, number: int) -> bytes:
    """Return the page, counted from 1, as WebP; empty when it is missing or cannot be drawn."""
    import pypdfium2

    try:
        with _opened(data) as pdf:
            if not 1 <= number <= min(len(pdf), MOST_PAGES):
                return b""
            page = pdf[number - 1]
            width, height = page.get_size()
            if width <= 0 or height <= 0:
                return b""
            scale = min(_MOST_SCALE, _WIDTH / width, (_MOST_PDF_PIXELS / (width * height)) ** 0.5)
            picture = page.render(scale=scale).to_pil().convert("RGB")
            with io.BytesIO() as buffer:
                picture.save(buffer, "WEBP", quality=_QUALITY, method=2)
                return buffer.getvalue()
    except (pypdfium2.PdfiumError, ValueError, OSError):
        return b""


@contextmanager
def _opened(data: bytes) -> Iterator[Any]:
    import pypdfium2

    pdf = pypdfium2.PdfDocument(data)
    try:
        yield pdf
    finally:
        pdf.close()


def _pages_of(pdf: Any) -> Iterator[dict[str, Any]]:
    left, ends = _MOST_TEXT, time.monotonic() + _TEXT_S
    for number in range(min(len(pdf), MOST_PAGES)):
        page = pdf[number]
        width, height = page.get_size()
        text = ""
        if left > 0 and time.monotonic() < ends:
            text = _text_of(page)[: min(left, _MOST_PAGE_TEXT)]
            left -= len(text)
        page.close()
        yield {"width": round(width, 1), "height": round(height, 1), "text": text}


def _text_of(page: Any) -> str:
    text_page = page.get_textpage()
    try:
        text: str = text_page.get_text_bounded()
    finally:
        text_page.close()
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).strip()
