"""What kind of font bytes are, by the bytes alone, and whether their directory holds (P-16).

WOFF2, WOFF, TrueType and OpenType are handed on as they are; what a browser makes of them it checks once
more. Collections, EOT, SVG fonts and fonts with SVG glyphs are none of them (P-02), nor is a font that
names no glyphs, places a table outside of the file, or unpacks to more than a browser should be asked to
hold (P-21). Pure.
"""

import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from types import MappingProxyType
from typing import Any

_PLAIN = MappingProxyType(
    {
        b"\0\1\0\0": "font/ttf",
        b"true": "font/ttf",
        b"OTTO": "font/otf",
    }  # OpenType, "Table directory"
)
_WOFF, _WOFF2 = b"wOFF", b"wOF2"
FONT_TYPES = ("font/woff2", "font/woff", "font/ttf", "font/otf")  # RFC 8081, 4.4

_MOST_TABLES = 128  # OpenType names about seventy
_MOST_UNPACKED = 30_000_000  # bytes; the largest fonts of China and Japan have twenty million
# Without these no browser takes it for a font.
_NEEDED = {b"cmap", b"head", b"hhea", b"maxp"}
_SVG_GLYPHS = b"SVG "
_TAG = re.compile(rb"[ -~]{4}")

# WOFF2, 4.1: the tags that a directory entry can name by a number, in their order.
_KNOWN_TAGS = tuple(
    tag.ljust(4).encode()
    for tag in """
    cmap head hhea hmtx maxp name OS/2 post cvt fpgm glyf loca prep CFF VORG EBDT EBLC gasp hdmx kern
    LTSH PCLT VDMX vhea vmtx BASE GDEF GPOS GSUB EBSC JSTF MATH CBDT CBLC COLR CPAL SVG sbix acnt avar
    bdat bloc bsln cvar fdsc feat fmtx fvar gvar hsty just lcar mort morx opbd prop trak Zapf Silf Glat
    Gloc Feat Sill
    """.split()  # noqa: SIM905 a table in rows can be read and compared
)
_SPELLED_OUT = 63
_TRANSFORMED = {b"glyf", b"loca"}  # by default; of any other table only the default is plain

# A table's tag and where it lies: its beginning and its end.
_Table = tuple[bytes, int, int]


class _BrokenError(Exception):
    """The directory contradicts itself or the file."""


def font_type(data: bytes) -> str | None:
    """The media type of a font that a browser may be handed; None for all else."""
    magic = data[:4]
    try:
        if magic in _PLAIN:
            _check(_plain_tables(data))
            return _PLAIN[magic]
        if magic == _WOFF:
            _check(_woff_tables(data))
            return "font/woff"
        if magic == _WOFF2:
            _check(_woff2_tables(data))
            return "font/woff2"
    except (_BrokenError, struct.error, IndexError):  # the latter two: cut short
        return None
    return None


def _check(tables: list[_Table]) -> None:
    """Return when the tables are those of a font, and none lies in another."""
    tags = {tag for tag, _, _ in tables}
    _demand(len(tags) == len(tables) and tags >= _NEEDED and _SVG_GLYPHS not in tags)
    _demand(all(_TAG.fullmatch(tag) for tag in tags))
    places = sorted((start, end) for _, start, end in tables if start < end)
    _demand(all(end <= start for (_, end), (start, _) in pairwise(places)))


def _demand(holds: bool) -> None:  # noqa: FBT001 a statement of what must hold
    if not holds:
        raise _BrokenError


def _plain_tables(data: bytes) -> list[_Table]:
    """OpenType, "Table directory": entries of tag, checksum, offset and length."""
    count = struct.unpack_from(">H", data, 4)[0]
    _demand(0 < count <= _MOST_TABLES)
    tables = []
    for tag, _, offset, length in _entries(data, ">4sIII", 12, count):
        _demand(12 + 16 * count <= offset and offset + length <= len(data))
        tables.append((tag, offset, offset + length))
    return tables


def _woff_tables(data: bytes) -> list[_Table]:
    """WOFF, 3 and 4: a header, then entries of tag, offset, packed length, length and checksum."""
    flavour, length, count, reserved, _ = struct.unpack_from(">4sIHHI", data, 4)
    # How large it says it gets is not asked: what its tables say counts.
    _demand(flavour in _PLAIN and length == len(data) and reserved == 0)
    _demand(0 < count <= _MOST_TABLES)
    end_of_directory, unpacked, tables = 44 + 20 * count, 0, []
    for tag, offset, packed, original, _ in _entries(data, ">4sIIII", 44, count):
        _demand(end_of_directory <= offset and offset + packed <= length and packed <= original)
        unpacked += original
        tables.append((tag, offset, offset + packed))
    _demand(unpacked <= _MOST_UNPACKED)
    _check_block(data, 24, end_of_directory)  # metadata
    _check_block(data, 36, end_of_directory)  # private data
    return tables


def _woff2_tables(data: bytes) -> list[_Table]:
    """WOFF2, 4: a header, then entries of flags, maybe a tag, and lengths; one stream holds all tables.

    The places are those in the unpacked stream.
    """
    flavour, length, count, reserved, _, packed = struct.unpack_from(">4sIHHII", data, 4)
    _demand(flavour in _PLAIN and length == len(data) and reserved == 0)
    _demand(0 < count <= _MOST_TABLES)
    at, place, unpacked, tables = 48, 0, 0, []
    for _ in range(count):
        flags = data[at]
        at += 1
        if flags & 0x3F == _SPELLED_OUT:
            tag = struct.unpack_from(">4s", data, at)[0]
            at += 4
        else:
            tag = _KNOWN_TAGS[flags & 0x3F]
        original, at = _base128(data, at)
        size = original
        if (flags >> 6 != 3) if tag in _TRANSFORMED else (flags >> 6 != 0):
            size, at = _base128(data, at)
        unpacked += max(size, original)
        tables.append((tag, place, place + size))
        place += size
    _demand(unpacked <= _MOST_UNPACKED and packed > 0 and at + packed <= length)
    _check_block(data, 28, at + packed)  # metadata
    _check_block(data, 40, at + packed)  # private data
    return tables


def _entries(data: bytes, layout: str, at: int, count: int) -> Iterator[Any]:
    """The entries of a directory of fixed size."""
    return struct.iter_unpack(layout, _exactly(data, at, struct.calcsize(layout) * count))


def _exactly(data: bytes, at: int, size: int) -> bytes:
    _demand(at + size <= len(data))
    return data[at : at + size]


def _check_block(data: bytes, at: int, begin: int) -> None:
    """Return when the block whose offset and length stand at `at` is empty or within the file."""
    offset, length = struct.unpack_from(">II", data, at)
    _demand(length == 0 or (begin <= offset and offset + length <= len(data)))


def _base128(data: bytes, at: int) -> tuple[int, int]:
    """WOFF2, 4.1, UIntBase128: the number, and where it ends."""
    _demand(data[at] != 0x80)  # leading zeros
    number = 0
    for place in range(at, at + 5):
        number = number << 7 | data[place] & 0x7F
        if not data[place] & 0x80:
            _demand(number < 1 << 32)
            return number, place + 1
    raise _BrokenError
