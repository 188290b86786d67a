"""Gzip members (RFC 1952) for WARC records: deflated where that saves something, stored where not.

Most bytes of the web are pictures, video and archives, which no compressor shortens: they are put
into stored blocks (RFC 1951, 3.2.4) as they lie in memory, which costs a checksum and no copy.
Everything else goes through ISA-L's deflate in one call (docs/decisions/003-isal.md).
"""

import struct
from collections.abc import Iterable, Iterator

from isal import isal_zlib

Bytes = bytes | bytearray
Part = bytes | bytearray | memoryview

LEVEL = 2
_GZIP = 31  # wbits for a gzip member
_RAW = -15
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_STORED_BYTES = 65_535
_STORED = struct.Struct("<BHH")
_TRAILER = struct.Struct("<II")

# Sampled once they are longer than that, whatever their type says of them.
_TRUSTED_BYTES = 1 << 16
_SAMPLE_BYTES = 1 << 13
_PACKED_CODINGS = (b"gzip", b"br", b"deflate", b"zstd", b"compress", b"x-gzip")
_PACKED_TYPES = frozenset(
    [
        "application/gzip",
        "application/vnd.rar",
        "application/x-7z-compressed",
        "application/x-bzip2",
        "application/x-gzip",
        "application/x-xz",
        "application/zip",
        "application/zstd",
        "audio/aac",
        "audio/flac",
        "audio/mp4",
        "audio/mpeg",
        "audio/ogg",
        "audio/opus",
        "audio/webm",
        "font/woff",
        "font/woff2",
        "application/font-woff",
        "application/font-woff2",
        "image/apng",
        "image/avif",
        "image/gif",
        "image/heic",
        "image/jpeg",
        "image/jxl",
        "image/png",
        "image/webp",
        "video/mp4",
        "video/mpeg",
        "video/ogg",
        "video/quicktime",
        "video/webm",
        "video/x-flv",
        "video/x-matroska",
    ]
)
_TEXT = ("text/", "application/json", "application/javascript", "application/xml", "image/svg")


def compress(data: bytes) -> bytes:
    """One member that holds `data`."""
    return bytes(isal_zlib.compress(data, LEVEL, _GZIP))


def compress_pieces(pieces: Iterable[Bytes]) -> Iterator[bytes]:
    """The same in pieces, for what should not be held in memory."""
    compressor = isal_zlib.compressobj(LEVEL, isal_zlib.DEFLATED, _GZIP)
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()


def store_pieces(head: bytes, pieces: Iterable[Bytes], end: bytes) -> Iterator[Part]:
    """One member that holds `head` deflated, then `pieces` and `end` stored.

    `end` is at most 65,535 bytes long.
    """
    deflate = isal_zlib.compressobj(LEVEL, isal_zlib.DEFLATED, _RAW)
    yield _HEADER + deflate.compress(head) + deflate.flush(isal_zlib.Z_SYNC_FLUSH)
    checksum, size = isal_zlib.crc32(head), len(head)
    for piece in pieces:
        checksum = isal_zlib.crc32(piece, checksum)
        size += len(piece)
        if len(piece) <= _STORED_BYTES:
            yield _STORED.pack(0, len(piece), len(piece) ^ 0xFFFF)
            yield piece
            continue
        view = memoryview(piece)
        for start in range(0, len(piece), _STORED_BYTES):
            part = view[start : start + _STORED_BYTES]
            yield _STORED.pack(0, len(part), len(part) ^ 0xFFFF)
            yield part
    checksum = isal_zlib.crc32(end, checksum)
    last = _STORED.pack(1, len(end), len(end) ^ 0xFFFF) + end
    yield last + _TRAILER.pack(checksum, (size + len(end)) & 0xFFFFFFFF)


def is_packed(mime: str, coding: bytes | None, size: int, beginning: Bytes) -> bool:
    """Whether deflating a body would save next to nothing.

    Args:
        mime: its bare media type, in lower case.
        coding: its Content-Encoding.
        size: its length in bytes.
        beginning: its first bytes, of which long bodies are judged.
    """
    if size < 256:
        return False
    named = mime in _PACKED_TYPES or (coding or b"").lower() in _PACKED_CODINGS
    if named and size <= _TRUSTED_BYTES:
        return True
    if mime.startswith(_TEXT) and not named:
        return False
    sample = beginning[-_SAMPLE_BYTES:]
    return len(isal_zlib.compress(sample, 1, _RAW)) > len(sample) * 0.95
