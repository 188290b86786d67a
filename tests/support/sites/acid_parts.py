"""Parts of the acid pages: green pictures, a font of one letter, a sound, a film."""

import io
import struct
import wave
from functools import cache
from pathlib import Path

from PIL import Image

from tests.support.sites.encodings import brotli_stored, incompressible

GREEN = (0, 128, 0)
_FORMATS = {
    "png": ("PNG", "image/png"),
    "jpg": ("JPEG", "image/jpeg"),
    "gif": ("GIF", "image/gif"),
    "webp": ("WEBP", "image/webp"),
    "avif": ("AVIF", "image/avif"),
}
_FILM = Path(__file__).with_name("acid_green.webm")


def picture(path: str) -> tuple[bytes, str] | None:
    """Return a green picture of 100 by 100 pixels in the format that the path's ending names, and its type.

    Bytes that decoders leave out make each path's picture another. None: it names no picture.
    """
    extension = path.rpartition(".")[2]
    if extension == "svg":
        svg = (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 100 100'><!-- {path} -->"
            "<rect width='100' height='100' fill='#008000'/></svg>"
        )
        return svg.encode(), "image/svg+xml"
    if extension not in _FORMATS:
        return None
    name, mime = _FORMATS[extension]
    tail = b"".join(incompressible(64, path))
    return _green(name) + tail, mime


@cache
def _green(name: str) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (100, 100), GREEN).save(data, name)
    return data.getvalue()


@cache
def film() -> bytes:
    """Return a short film of green, 100 by 100 pixels, VP8 in WebM; recorded by Chromium from a canvas."""
    return _FILM.read_bytes()


@cache
def sound() -> bytes:
    """Return a fifth of a second of silence, as WAV."""
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(8_000)
        file.writeframes(b"\x80" * 1_600)
    return data.getvalue()


@cache
def typeface(seed: str) -> bytes:
    """Return a TrueType font whose every glyph fills its whole square, so that an X is a box.

    Tables as OpenType 1.9 has them; `seed` makes the bytes another font's.
    """
    return _sfnt(_tables(seed))


@cache
def typeface_woff2(seed: str) -> bytes:
    """Return the same font as WOFF2 (W3C), its tables neither transformed nor compressed."""
    tables = _tables(seed)
    directory = b""
    for tag, data in tables.items():
        # Flags: an arbitrary tag follows; glyf and loca say version 3, the null transform.
        version = 3 if tag in (b"glyf", b"loca") else 0
        directory += bytes([63 | version << 6]) + tag + _base128(len(data))
    packed = brotli_stored(b"".join(tables.values()))
    whole = len(_sfnt(tables))
    size = 48 + len(directory) + len(packed)
    padding = b"\0" * (-size % 4)
    header = b"wOF2" + struct.pack(
        ">IIHHIIHHIIIII", 0x00010000, size + len(padding), len(tables), 0, whole, len(packed), 1, 0, *(0, 0, 0, 0, 0)
    )
    return header + directory + packed + padding


def _base128(number: int) -> bytes:
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(number & 0x7F | 0x80)
    return bytes(reversed(digits))


def _tables(seed: str) -> dict[bytes, bytes]:
    # One contour, four points on the curve: the square from the descent to the ascent.
    box = struct.pack(">hhhhhHH", 1, 0, -200, 1000, 800, 3, 0) + b"\x01" * 4
    box += struct.pack(">hhhh", 0, 0, 1000, 0) + struct.pack(">hhhh", -200, 1000, 0, -1000)
    box += b"\0" * (-len(box) % 4)
    segments = struct.pack(">HHHH", 4, 4, 1, 0) + struct.pack(
        ">HHHHHhhHH", 0x58, 0xFFFF, 0, 0x58, 0xFFFF, 1 - 0x58, 1, 0, 0
    )
    cmap = struct.pack(">HHHHI", 0, 1, 3, 1, 12) + struct.pack(">HHH", 4, 6 + len(segments), 0)
    text = f"Acid {seed}".encode("utf-16-be")
    names = (1, 2, 3, 4, 6)
    name = struct.pack(">HHH", 0, len(names), 6 + 12 * len(names))
    name += b"".join(struct.pack(">HHHHHH", 3, 1, 0x409, n, len(text), 0) for n in names) + text
    os2 = struct.pack(">HhHHH", 3, 1000, 400, 5, 0) + struct.pack(">10h", *(100,) * 10)
    os2 += struct.pack(">h", 0) + b"\0" * 10 + struct.pack(">4I", 1, 0, 0, 0) + b"ACID"
    os2 += struct.pack(">HHHhhhHH", 0x40, 0x58, 0x58, 800, -200, 0, 800, 200)
    os2 += struct.pack(">II", 1, 0) + struct.pack(">hhHHH", 500, 800, 0, 0x20, 1)
    head = struct.pack(">IIIIHH", 0x00010000, 0x00010000, 0, 0x5F0F3CF5, 3, 1000)
    head += struct.pack(">qqhhhhHHhhh", 0, 0, 0, -200, 1000, 800, 0, 8, 2, 0, 0)
    hhea = struct.pack(">IhhhHhhhhhh", 0x00010000, 800, -200, 0, 1000, 0, 0, 1000, 1, 0, 0)
    hhea += struct.pack(">hhhhhH", 0, 0, 0, 0, 0, 2)
    return {
        b"OS/2": os2,
        b"cmap": cmap + segments,
        b"glyf": box * 2,
        b"head": head,
        b"hhea": hhea,
        b"hmtx": struct.pack(">HhHh", 1000, 0, 1000, 0),
        b"loca": struct.pack(">HHH", 0, len(box) // 2, len(box)),
        b"maxp": struct.pack(">IHHHHHHHHHHHHHH", 0x00010000, 2, 4, 1, 0, 0, 1, *(0,) * 8),
        b"name": name,
        b"post": struct.pack(">IIhhIIIII", 0x00030000, 0, 0, 0, 0, 0, 0, 0, 0),
    }


def _sfnt(tables: dict[bytes, bytes]) -> bytes:
    at = 12 + 16 * len(tables)
    directory, body = b"", b""
    for tag, data in tables.items():
        padded = data + b"\0" * (-len(data) % 4)
        words = struct.unpack(f">{len(padded) // 4}I", padded)
        directory += tag + struct.pack(">III", sum(words) & 0xFFFFFFFF, at, len(data))
        at += len(padded)
        body += padded
    return struct.pack(">IHHHH", 0x00010000, len(tables), 128, 3, 32) + directory + body
