"""WARC/1.1 records as gzip members, deflated or stored.

Images, video and archives are put into stored blocks (RFC 1951, 3.2.4) straight from memory, which costs a checksum
and no copy. All other data goes through ISA-L's deflate in one call (docs/decisions/003-isal.md).
"""

import os
import struct
from collections.abc import Iterable, Iterator, Mapping

from isal import isal_zlib

from core.captures import LOGIN_HEADER, RecordType
from core.config.settings import Settings
from core.digests import sha256_digest

Bytes = bytes | bytearray
Part = bytes | bytearray | memoryview

LEVEL = 2
_GZIP = 31  # wbits for a gzip member
_RAW = -15
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_STORED_BYTES = 65_535
_STORED = struct.Struct("<BHH")
_TRAILER = struct.Struct("<II")

# Longer bodies are sampled, regardless of their type.
_TRUSTED_BYTES = 1 << 16
_SAMPLE_BYTES = 1 << 13
_PACKED_CODINGS = (b"gzip", b"br", b"deflate", b"zstd", b"compress", b"x-gzip")
_PACKED_TYPES = frozenset([
    "application/gzip", "application/vnd.rar", "application/x-7z-compressed",
    "application/x-bzip2", "application/x-gzip", "application/x-xz", "application/zip",
    "application/zstd", "audio/aac", "audio/flac", "audio/mp4", "audio/mpeg", "audio/ogg",
    "audio/opus", "audio/webm", "font/woff", "font/woff2", "application/font-woff",
    "application/font-woff2", "image/apng", "image/avif", "image/gif", "image/heic", "image/jpeg",
    "image/jxl", "image/png", "image/webp", "video/mp4", "video/mpeg", "video/ogg",
    "video/quicktime", "video/webm", "video/x-flv", "video/x-matroska",
])  # fmt: skip
_TEXT = ("text/", "application/json", "application/javascript", "application/xml", "image/svg")


def compress(data: bytes) -> bytes:
    """Return one gzip member that holds `data`."""
    return bytes(isal_zlib.compress(data, LEVEL, _GZIP))


def compress_pieces(pieces: Iterable[Bytes]) -> Iterator[bytes]:
    """Yield one gzip member in pieces, for data that should not be held in memory."""
    compressor = isal_zlib.compressobj(LEVEL, isal_zlib.DEFLATED, _GZIP)
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()


def store_pieces(head: bytes, pieces: Iterable[Bytes], end: bytes) -> Iterator[Part]:
    """Yield a gzip member of `head` deflated, then `pieces` and `end` (to 65,535 bytes) stored."""
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
    """Estimate from the body's `beginning` whether deflating it would save next to nothing."""
    if size < 256:
        return False
    named = mime in _PACKED_TYPES or (coding or b"").lower() in _PACKED_CODINGS
    if named and size <= _TRUSTED_BYTES:
        return True
    if mime.startswith(_TEXT) and not named:
        return False
    sample = beginning[-_SAMPLE_BYTES:]
    return len(isal_zlib.compress(sample, 1, _RAW)) > len(sample) * 0.95


RECORD_END = b"\r\n\r\n"
_NO_FACTS: Mapping[str, str] = {}


Headers = list[tuple[str, str]]


def new_record_id() -> str:
    """Return a fresh WARC-Record-ID: a version 4 UUID (RFC 9562)."""
    text = os.urandom(16).hex()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"<urn:uuid:{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}>"


def header_block(headers: Headers) -> bytes:
    """Return the record's header lines and the blank line; values must not contain CR or LF."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"WARC/1.1\r\n{lines}\r\n".encode()


def record_member(headers: Headers, block: bytes) -> bytes:
    """Return the whole record as one gzip member."""
    return compress(b"".join((header_block(headers), block, RECORD_END)))


def artifact_member(  # noqa: PLR0913 headers
    uri: str,
    data: bytes,
    *,
    date: str,
    page_id: str,
    content_type: str,
    login: str = "",
    concurrent: Iterable[str] = (),
    kind: RecordType = RecordType.RESOURCE,
) -> tuple[str, bytes]:
    """Return the digest of an artifact, and its record as a gzip member; `page_id` may be empty.

    WARC-Refers-To headers are not for `resource` records (WARC/1.1, 5.9 and 5.10): WARC-Page-ID names its page.
    """
    digest = sha256_digest(data)
    headers: Headers = [
        ("WARC-Type", str(kind)),
        ("WARC-Record-ID", new_record_id()),
        ("WARC-Date", date),
        ("WARC-Target-URI", uri),
        *((("WARC-Page-ID", page_id),) if page_id else ()),
        *(((LOGIN_HEADER, login),) if login else ()),
        *(("WARC-Concurrent-To", each) for each in concurrent),
        ("Content-Type", content_type),
        ("WARC-Payload-Digest", digest),
        ("WARC-Block-Digest", digest),
        ("Content-Length", str(len(data))),
    ]
    return digest, record_member(headers, data)


def warcinfo_facts(settings: Settings) -> dict[str, str]:
    """Return the `warcinfo` fields (WARC/1.1, 6.2) on the operator, the subject, and the method; empty ones are left out.

    `profile` is the name of the settings, and `contact` where the operator is reached; both are Weboid's own fields.
    """
    proxy, contact = settings.proxy, settings.links.contact or settings.visit.contact
    return {
        "operator": proxy.operator or contact, "contact": contact, "isPartOf": proxy.title,
        "description": proxy.description, "robots": settings.policy.robots, "profile": proxy.profile,
        "http-header-user-agent": "",
    }  # fmt: skip


def warcinfo_member(filename: str, *, date: str, software: str, facts: Mapping[str, str] = _NO_FACTS) -> bytes:
    """Return the first record of a file: software, format, and further facts by name."""
    named = "".join(f"{name}: {one_line(value)}\r\n" for name, value in facts.items() if value)
    block = (
        f"software: {software}\r\nformat: WARC File Format 1.1\r\n"
        "conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n"
        f"{named}"
    ).encode()
    headers = [
        ("WARC-Type", str(RecordType.WARCINFO)),
        ("WARC-Record-ID", new_record_id()),
        ("WARC-Date", date),
        ("WARC-Filename", filename),
        ("Content-Type", "application/warc-fields"),
        ("WARC-Block-Digest", sha256_digest(block)),
        ("Content-Length", str(len(block))),
    ]
    return record_member(headers, block)


def one_line(text: str) -> str:
    """Return the text with every run of white space as one space, valid as a header value."""
    return " ".join(text.split())
