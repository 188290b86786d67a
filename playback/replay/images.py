"""What kind of image bytes are, by the bytes alone (research 1.5, P-16, P-21).

Five raster formats are handed on as they are: PNG, JPEG, GIF, WebP and AVIF. An image whose header
does not say its size is none of them, and neither is one that announces more pixels than a browser
should be asked to hold, in one picture or in all of its frames. What may be drawn anew as a PNG (SVG,
BMP, ICO) is for `playback.replay.raster`.
"""

import struct
from collections.abc import Callable, Iterator

_PNG = b"\x89PNG\r\n\x1a\n"
_MOST_PIXELS = 100_000_000  # 400 MB decoded; the largest screenshot of ours has 20 million
_MOST_FRAME_PIXELS = 2_000_000_000  # a minute of film at 1280x720 and 30 frames a second has 1.7
_MOST_FRAMES = 20_000
_AVIF_BRANDS = {b"avif", b"avis"}

# Width and height, and the pixels of all frames together.
_Extent = tuple[int, int, int]


def image_type(data: bytes) -> str | None:
    """The media type of a PNG, JPEG, GIF, WebP or AVIF image; None for all else, and for bombs."""
    for matches, media_type, measure in (
        (data.startswith(_PNG), "image/png", _png),
        (data.startswith(b"\xff\xd8\xff"), "image/jpeg", _jpeg),
        (data.startswith((b"GIF87a", b"GIF89a")), "image/gif", _gif),
        (data[:4] == b"RIFF" and data[8:12] == b"WEBP", "image/webp", _webp),
        (data[4:8] == b"ftyp" and _has_avif_brand(data), "image/avif", _avif),
    ):
        if matches:
            return media_type if _is_bearable(data, measure) else None
    return None


def _is_bearable(data: bytes, measure: Callable[[bytes], _Extent]) -> bool:
    try:
        width, height, total = measure(data)
    except (struct.error, IndexError):
        return False  # cut short before its size
    return 0 < width * height <= _MOST_PIXELS and total <= _MOST_FRAME_PIXELS


def _png(data: bytes) -> _Extent:
    """From IHDR, which comes first (PNG, 5.6), and from the number of frames in acTL."""
    width, height = struct.unpack_from(">II", data, 16)
    if data[12:16] != b"IHDR":
        return 0, 0, 0
    frames, at = 1, 33
    while at + 12 <= len(data):  # acTL stands before the first IDAT
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IDAT":
            break
        if kind == b"acTL":
            frames = struct.unpack_from(">I", data, at + 8)[0]
        at += 12 + length
    return width, height, width * height * frames


def _jpeg(data: bytes) -> _Extent:
    """From the frame header: the first marker SOF0 to SOF15 that is no table.

    What stands between segments is passed over, as decoders do (libjpeg's next_marker).
    """
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
    """The logical screen, or what frames reach beyond it; every frame fills a screen."""
    width, height = struct.unpack_from("<HH", data, 6)
    frames = 0
    for left, top, frame_width, frame_height in _gif_frames(data):
        width, height = max(width, left + frame_width), max(height, top + frame_height)
        frames += 1
        if frames > _MOST_FRAMES:
            return 0, 0, 0
    return width, height, width * height * frames


def _gif_frames(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    at = 13 + _palette(data[10])
    size = len(data)
    while at < size:
        kind = data[at]
        if kind == 0x2C and at + 10 < size:
            yield struct.unpack_from("<HHHH", data, at + 1)
            at += 11 + _palette(data[at + 9])
        elif kind == 0x21:
            at += 2
        else:
            return
        while at < size and data[at]:  # sub-blocks, up to an empty one
            at += 1 + data[at]
        at += 1


def _palette(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _webp(data: bytes) -> _Extent:
    """The largest of what its chunks say: VP8X, VP8, VP8L, and a frame for each ANMF."""
    width = height = frames = 0
    at = 12
    while at + 8 <= len(data):
        kind, length = struct.unpack_from("<4sI", data, at)
        if kind in {b"VP8X", b"VP8 ", b"VP8L"}:
            one = _webp_size(data, kind, at + 8)
            width, height = max(width, one[0]), max(height, one[1])
        elif kind == b"ANMF":
            frames += 1
            one = 1 + _u24(data, at + 14), 1 + _u24(data, at + 17)
            width, height = max(width, one[0]), max(height, one[1])
        if frames > _MOST_FRAMES:
            return 0, 0, 0
        at += 8 + length + (length & 1)
    return width, height, width * height * max(frames, 1)


def _webp_size(data: bytes, kind: bytes, at: int) -> tuple[int, int]:
    if kind == b"VP8X":
        return 1 + _u24(data, at + 4), 1 + _u24(data, at + 7)
    if kind == b"VP8 ":  # RFC 6386, 9.1: 14 bits each, behind the start code
        width, height = struct.unpack_from("<HH", data, at + 6)
        return width & 0x3FFF, height & 0x3FFF
    bits = struct.unpack_from("<I", data, at + 1)[0]  # behind the signature byte
    return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)


def _u24(data: bytes, at: int) -> int:
    if at + 3 > len(data):
        raise IndexError
    return int.from_bytes(data[at : at + 3], "little")


def _avif(data: bytes) -> _Extent:
    """From its ``ispe`` properties (ISO/IEC 23008-12, 6.5.3) and, of a film, its tracks.

    Each property must be bearable: which item it is for would take a parser. A grid has a property
    for itself beside that of its cells.
    """
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


def _has_avif_brand(data: bytes) -> bool:
    end = min(int.from_bytes(data[:4], "big"), 256)
    return any(data[at : at + 4] in _AVIF_BRANDS for at in range(8, end, 4))
