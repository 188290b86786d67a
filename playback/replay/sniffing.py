"""Which pictures can be drawn anew: told from their first bytes, in time that grows with them."""

import re
import zlib
from enum import StrEnum

_HEAD = 32_768  # bytes; drawing programs write long comments
_SOLID = re.compile(r"\S")
_ROOT = re.compile(r"<(?:[A-Za-z]{1,20}:)?svg(?=[\s>/])")
_DOCTYPE = re.compile(r"<!doctype\s+(?:[a-z]{1,20}:)?svg\b", re.IGNORECASE)
_LATIN = re.compile(
    rb"\s*<\?xml[^>]{0,200}encoding=[\"'](?:iso-8859-1|windows-1252)", re.IGNORECASE
)


class RasterKind(StrEnum):
    """A format, as Pillow calls it."""

    SVG = "SVG"
    BMP = "BMP"
    ICO = "ICO"


def raster_kind(data: bytes) -> RasterKind | None:
    """The format; None when it is none of these."""
    if data.startswith(b"\x00\x00\x01\x00") and len(data) > 22:
        return RasterKind.ICO
    if data.startswith(b"BM") and data[14:18] in {b"\x28\0\0\0", b"\x6c\0\0\0", b"\x7c\0\0\0"}:
        return RasterKind.BMP
    return RasterKind.SVG if _is_svg(data) else None


def decoded(data: bytes) -> str:
    """The text of an XML document, by byte order mark or declaration; UTF-8 without one."""
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if data.startswith(mark):
            return data[2:].decode(encoding, "replace")
    return data.decode("windows-1252" if _LATIN.match(data) else "utf-8", "replace")


def _is_svg(data: bytes) -> bool:
    """True when it begins as an SVG document does, or as a gzipped one."""
    head = data[:_HEAD]
    if head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(31).decompress(head, _HEAD)
        except zlib.error:
            return False
    text = decoded(head).removeprefix("\ufeff")
    at = 0
    while True:
        at = start.start() if (start := _SOLID.search(text, at)) else len(text)
        if text.startswith("<?", at):
            end = text.find("?>", at) + 2
        elif text.startswith("<!--", at):
            end = text.find("-->", at + 4) + 3
        elif _DOCTYPE.match(text, at):
            inner = text.find("[", at, text.find(">", at) + 1)
            end = text.find(">", text.find("]", inner) if inner > 0 else at) + 1
        else:
            return _ROOT.match(text, at) is not None
        if end <= at + 2:
            return False
        at = end
