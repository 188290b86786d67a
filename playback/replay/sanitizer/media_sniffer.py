"""Media types of images and drawings, detected from their bytes (P-16); pure.

PNG, JPEG, GIF, WebP and AVIF are sent unchanged, unless their header has no size, or more pixels than a browser should
allocate, in one picture or in all frames. SVG, BMP and ICO are drawn as PNG.
"""

import re
import struct
import zlib
from enum import StrEnum

_PNG = b"\x89PNG\r\n\x1a\n"
_MOST_PIXELS = 100_000_000  # 400 MB decoded; the largest of our screenshots has 20 million
_MOST_FRAME_PIXELS = 2_000_000_000  # a minute of film at 1280x720 and 30 frames a second has 1.7
_MOST_FRAMES = 20_000
_AVIF_BRANDS = {b"avif", b"avis"}

# Width and height, and the pixels of all frames together.
_Extent = tuple[int, int, int]


def image_type(data: bytes) -> str | None:
    """Return the media type of a PNG, JPEG, GIF, WebP or AVIF image; None for others, and bombs."""
    for matches, media_type, measure in (
        (data.startswith(_PNG), "image/png", _png),
        (data.startswith(b"\xff\xd8\xff"), "image/jpeg", _jpeg),
        (data.startswith((b"GIF87a", b"GIF89a")), "image/gif", _gif),
        (data[:4] == b"RIFF" and data[8:12] == b"WEBP", "image/webp", _webp),
        (data[4:8] == b"ftyp", "image/avif", _avif),
    ):
        if matches:
            try:
                width, height, total = measure(data)
            except (struct.error, IndexError):
                return None  # cut short before its size
            is_bearable = 0 < width * height <= _MOST_PIXELS and total <= _MOST_FRAME_PIXELS
            return media_type if is_bearable else None
    return None


def _png(data: bytes) -> _Extent:
    """Read size and frames from IHDR, which comes first (PNG, 5.6), and acTL."""
    width, height = struct.unpack_from(">II", data, 16)
    if data[12:16] != b"IHDR":
        return 0, 0, 0
    frames, at = 1, 33
    while at + 12 <= len(data):  # acTL precedes the first IDAT
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IDAT":
            break
        if kind == b"acTL":
            frames = struct.unpack_from(">I", data, at + 8)[0]
        at += 12 + length
    return width, height, width * height * frames


def _jpeg(data: bytes) -> _Extent:
    """Read the size from the first SOF marker; bytes between segments are skipped (libjpeg's next_marker)."""
    at = 2
    while (at := data.find(b"\xff", at)) >= 0:
        marker = data[at + 1]
        if marker in {0x00, 0xFF, 0x01, 0xD8} or 0xD0 <= marker <= 0xD7:  # no segment
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height, width * height
        if marker in {0xD9, 0xDA}:  # the end, or the picture before its header
            return 0, 0, 0
        at += 2 + max(2, struct.unpack_from(">H", data, at + 2)[0])
    return 0, 0, 0


def _gif(data: bytes) -> _Extent:
    """Return the logical screen, or the extent of larger frames; each frame counts as a screen."""
    width, height = struct.unpack_from("<HH", data, 6)
    frames, at, size = 0, 13 + _palette(data[10]), len(data)
    while at < size and data[at] in {0x2C, 0x21}:
        if data[at] == 0x21:  # an extension
            at += 2
        elif at + 10 < size:
            left, top, frame_width, frame_height = struct.unpack_from("<HHHH", data, at + 1)
            width, height = max(width, left + frame_width), max(height, top + frame_height)
            frames += 1
            if frames > _MOST_FRAMES:
                return 0, 0, 0
            at += 11 + _palette(data[at + 9])
        else:
            break
        while at < size and data[at]:  # sub-blocks, up to an empty one
            at += 1 + data[at]
        at += 1
    return width, height, width * height * frames


def _palette(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _webp(data: bytes) -> _Extent:
    """Return the largest size in VP8X, VP8, VP8L, and one frame for each ANMF."""
    width = height = frames = 0
    at = 12
    while at + 8 <= len(data):
        kind, length = struct.unpack_from("<4sI", data, at)
        one = 0, 0
        if kind == b"VP8X":
            one = 1 + _u24(data, at + 12), 1 + _u24(data, at + 15)
        elif kind == b"VP8 ":  # RFC 6386, 9.1: 14 bits each, behind the start code
            one = struct.unpack_from("<HH", data, at + 14)
            one = one[0] & 0x3FFF, one[1] & 0x3FFF
        elif kind == b"VP8L":
            bits = struct.unpack_from("<I", data, at + 9)[0]  # behind the signature byte
            one = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        elif kind == b"ANMF":
            frames += 1
            one = 1 + _u24(data, at + 14), 1 + _u24(data, at + 17)
        width, height = max(width, one[0]), max(height, one[1])
        if frames > _MOST_FRAMES:
            return 0, 0, 0
        at += 8 + length + (length & 1)
    return width, height, width * height * max(frames, 1)


def _u24(data: bytes, at: int) -> int:
    if at + 3 > len(data):
        raise IndexError
    return int.from_bytes(data[at : at + 3], "little")


def _avif(data: bytes) -> _Extent:
    """Read sizes from ``ispe`` properties (ISO/IEC 23008-12, 6.5.3), all of which count, and tracks."""
    end = min(int.from_bytes(data[:4], "big"), 256)
    if not any(data[at : at + 4] in _AVIF_BRANDS for at in range(8, end, 4)):
        return 0, 0, 0
    width = height = 0
    at = 0
    while (at := data.find(b"ispe", at) + 4) > 3:
        one = struct.unpack_from(">II", data, at + 4)
        if one[0] * one[1] > width * height:
            width, height = one
    frames, at = 1, 0
    if b"avis" in data[:64]:
        while (at := data.find(b"stsz", at) + 4) > 3:
            frames = max(frames, struct.unpack_from(">I", data, at + 8)[0])
    return width, height, width * height * frames


_HEAD = 32_768  # bytes; drawing programs write long comments
_SOLID = re.compile(r"\S")
_ROOT = re.compile(r"<(?:[A-Za-z]{1,20}:)?svg(?=[\s>/])")
_DOCTYPE = re.compile(r"<!doctype\s+(?:[a-z]{1,20}:)?svg\b", re.IGNORECASE)
_LATIN = re.compile(rb"\s*<\?xml[^>]{0,200}encoding=[\"'](?:iso-8859-1|windows-1252)", re.IGNORECASE)


class RasterKind(StrEnum):
    """Picture format by Pillow's name."""

    SVG = "SVG"
    BMP = "BMP"
    ICO = "ICO"


def raster_kind(data: bytes) -> RasterKind | None:
    """Return the format of a picture that is re-encoded; None for others."""
    if data.startswith(b"\x00\x00\x01\x00") and len(data) > 22:
        return RasterKind.ICO
    if data.startswith(b"BM") and data[14:18] in {b"\x28\0\0\0", b"\x6c\0\0\0", b"\x7c\0\0\0"}:
        return RasterKind.BMP
    return RasterKind.SVG if _is_svg(data) else None


def decode_xml(data: bytes) -> str:
    """Decode an XML document by byte order mark or declaration, else as UTF-8."""
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if data.startswith(mark):
            return data[2:].decode(encoding, "replace")
    return data.decode("windows-1252" if _LATIN.match(data) else "utf-8", "replace")


def _is_svg(data: bytes) -> bool:
    """Return True for the beginning of an SVG document, plain or gzipped."""
    head = data[:_HEAD]
    if head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(31).decompress(head, _HEAD)
        except zlib.error:
            return False
    text = decode_xml(head).removeprefix("\ufeff")
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
