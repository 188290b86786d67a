"""Fonts of the machine, wrapped as sites wrap them."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

SERIF = Path("/usr/share/fonts/truetype/dejavu/DejaVuSerif-Bold.ttf")


def tables_of(ttf: bytes) -> list[tuple[bytes, int, bytes]]:
    """Tag, checksum and content of each table."""
    tables = []
    for number in range(struct.unpack_from(">H", ttf, 4)[0]):
        tag, checksum, offset, length = struct.unpack_from(">4sIII", ttf, 12 + 16 * number)
        tables.append((tag, checksum, ttf[offset : offset + length]))
    return tables


def sfnt(tables: list[tuple[bytes, int, bytes]]) -> bytes:
    """Build a TrueType font from (tag, checksum, content) of its tables; the checksums are computed again."""
    tables = sorted(tables)
    power = len(tables).bit_length() - 1
    reach = 16 << power
    head = b"\0\1\0\0" + struct.pack(">HHHH", len(tables), reach, power, 16 * len(tables) - reach)
    directory, body, at = b"", b"", 12 + 16 * len(tables)
    for tag, _, content in tables:
        padded = content + b"\0" * (-len(content) % 4)
        checksum = sum(struct.unpack(f">{len(padded) // 4}I", padded)) & 0xFFFFFFFF
        directory += struct.pack(">4sIII", tag, checksum, at + len(body), len(content))
        body += padded
    return head + directory + body


def woff(ttf: bytes) -> bytes:
    """Convert the font to WOFF (W3C, 2012)."""
    tables = tables_of(ttf)
    directory, body, at = b"", b"", 44 + 20 * len(tables)
    for tag, checksum, content in tables:
        packed = zlib.compress(content, 1)
        packed = packed if len(packed) < len(content) else content
        directory += struct.pack(">4sIIII", tag, at + len(body), len(packed), len(content), checksum)
        body += packed + b"\0" * (-len(packed) % 4)
    length = at + len(body)
    head = struct.pack(">4s4sIHHIHHIIIII", b"wOFF", ttf[:4], length, len(tables), 0, len(ttf), 1, 0, 0, 0, 0, 0, 0)
    return head + directory + body


def woff2(ttf: bytes, compress: Callable[[bytes], bytes]) -> bytes:
    """Convert the font to WOFF2 (W3C, 2022) without table transforms; `compress` is Brotli."""
    tables = tables_of(ttf)
    directory = b""
    for tag, _, content in tables:
        flags = 0xFF if tag in (b"glyf", b"loca") else 0x3F  # 3: no transform of these two
        directory += bytes([flags]) + tag + _base128(len(content))
    packed = compress(b"".join(content for _, _, content in tables))
    body = directory + packed
    body += b"\0" * (-(48 + len(body)) % 4)
    head = struct.pack(
        ">4s4sIHHIIHHIIIII", b"wOF2", ttf[:4], 48 + len(body), len(tables), 0, len(ttf), len(packed),
        1, 0, 0, 0, 0, 0, 0,
    )  # fmt: skip
    return head + body


def _base128(number: int) -> bytes:
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(number & 0x7F | 0x80)
    return bytes(reversed(digits))
