"""What kind of image bytes are, by the bytes alone (research 1.5, P-16).

Five raster formats are shown; SVG is a document, and a document is not shown as an image. An image
whose header announces more pixels than a browser should be asked to hold is none of them.
"""

import struct

_PNG = b"\x89PNG\r\n\x1a\n"
_MOST_PIXELS = 100_000_000  # 400 MB decoded; the largest screenshot of ours has 20 million
_AVIF_BRANDS = {b"avif", b"avis"}


def image_type(data: bytes) -> str | None:
    """The media type of a PNG, JPEG, GIF, WebP or AVIF image; None for all else, and for bombs."""
    for matches, media_type, size in (
        (data.startswith(_PNG), "image/png", _png_size),
        (data.startswith(b"\xff\xd8\xff"), "image/jpeg", _jpeg_size),
        (data.startswith((b"GIF87a", b"GIF89a")), "image/gif", _gif_size),
        (data[:4] == b"RIFF" and data[8:12] == b"WEBP", "image/webp", _webp_size),
        (data[4:8] == b"ftyp" and _has_avif_brand(data), "image/avif", _avif_size),
    ):
        if matches:
            try:
                width, height = size(data)
            except (struct.error, IndexError):
                width, height = 0, 0  # cut short before its size: harmless
            return media_type if width * height <= _MOST_PIXELS else None
    return None


def _png_size(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _gif_size(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _webp_size(data: bytes) -> tuple[int, int]:
    if data[12:16] == b"VP8X":  # two 24-bit numbers, each less one
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    return 0, 0  # VP8 and VP8L end at 16,384 pixels a side, which Chromium refuses by itself


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """From the frame header: the first marker SOF0 to SOF15 that is no table."""
    at = 2
    while at + 9 < len(data):
        marker, length = data[at + 1], struct.unpack_from(">H", data, at + 2)[0]
        if data[at] != 0xFF:
            return 0, 0
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + max(length, 2)
    return 0, 0


def _avif_size(data: bytes) -> tuple[int, int]:
    """From the largest of the first ``ispe`` properties (ISO/IEC 23008-12, 6.5.3)."""
    head, at, largest = data[:65_536], 0, (0, 0)
    while (at := head.find(b"ispe", at) + 4) > 3:
        width, height = struct.unpack_from(">II", head, at + 4)
        if width * height > largest[0] * largest[1]:
            largest = width, height
    return largest


def _has_avif_brand(data: bytes) -> bool:
    end = min(int.from_bytes(data[:4], "big"), 256)
    return any(data[at : at + 4] in _AVIF_BRANDS for at in range(8, end, 4))
