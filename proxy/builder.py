"""WARC/1.1 records as gzip members: one prepared buffer, one compressor call.

warcprox builds records from many small writes through zlib at level 9; that was 43 % of its time.
Here a record that fits in memory is one join and one call of ISA-L's deflate, which makes the same
format ten times faster at 4 % more bytes (docs/decisions/003-isal.md). Longer ones are streamed.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from isal import isal_zlib

from core.digests import sha256_digest
from core.records import RecordType
from core.timestamps import moment, warc_date
from proxy.exchange import Recorded
from proxy.spool import MEMORY_LIMIT_BYTES

LEVEL = 2
_GZIP = 31  # wbits for a gzip member
_END = b"\r\n\r\n"

# WARC/1.1, 6.7.2
REVISIT_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
RESPONSE_TYPE = "application/http; msgtype=response"
REQUEST_TYPE = "application/http; msgtype=request"

Headers = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Original:
    """What a revisit refers to: the record that holds the payload; `digest` as that one spells it."""

    digest: str
    url: str
    captured_ms: int
    filename: str
    offset: int
    length: int


def new_record_id() -> str:
    """A fresh WARC-Record-ID: a version 4 UUID (RFC 9562)."""
    text = os.urandom(16).hex()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"<urn:uuid:{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}>"


def header_block(headers: Headers) -> bytes:
    """The record's header lines and the blank line after them.

    Callers give no CR or LF: URLs come from a parsed request line, the rest is ours.
    """
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"WARC/1.1\r\n{lines}\r\n".encode()


def member(headers: Headers, block: bytes) -> bytes:
    """The whole record as one gzip member."""
    return bytes(isal_zlib.compress(b"".join((header_block(headers), block, _END)), LEVEL, _GZIP))


def member_pieces(headers: Headers, block: Iterable[bytes]) -> Iterator[bytes]:
    """The same, in pieces, for blocks that should not be held in memory."""
    compressor = isal_zlib.compressobj(LEVEL, isal_zlib.DEFLATED, _GZIP)
    yield compressor.compress(header_block(headers))
    for piece in block:
        yield compressor.compress(piece)
    yield compressor.compress(_END) + compressor.flush()


def response_members(recorded: Recorded, page_id: str) -> tuple[Iterator[bytes], bytes]:
    """The gzip members of a `response` and of its `request`."""
    headers = _common(RecordType.RESPONSE, recorded, page_id)
    headers += [
        ("Content-Type", RESPONSE_TYPE),
        ("WARC-Block-Digest", sha256_digest(recorded.block)),
        ("Content-Length", str(recorded.spool.size)),
    ]
    if recorded.spool.size <= MEMORY_LIMIT_BYTES:
        principal = iter((member(headers, b"".join(recorded.spool.pieces())),))
    else:
        principal = member_pieces(headers, recorded.spool.pieces())
    return principal, _request_member(recorded, page_id)


def revisit_members(
    recorded: Recorded, page_id: str, original: Original
) -> tuple[Iterator[bytes], bytes]:
    """The gzip members of a `revisit` that refers to `original`, and of its `request`.

    The block is the response's head: what differs from the original is kept (WARC/1.1, 6.7.2).
    """
    block = next(recorded.spool.pieces())[: recorded.head_size]
    headers = _common(RecordType.REVISIT, recorded, page_id)
    headers += [
        ("WARC-Profile", REVISIT_PROFILE),
        ("WARC-Refers-To-Target-URI", original.url),
        ("WARC-Refers-To-Date", warc_date(moment(original.captured_ms))),
        ("Content-Type", RESPONSE_TYPE),
        ("WARC-Block-Digest", sha256_digest(block)),
        ("Content-Length", str(len(block))),
    ]
    return iter((member(headers, block),)), _request_member(recorded, page_id)


def _common(kind: RecordType, recorded: Recorded, page_id: str) -> Headers:
    entry = recorded.entry
    entry.record_id = new_record_id()
    headers = [
        ("WARC-Type", str(kind)),
        ("WARC-Record-ID", entry.record_id),
        ("WARC-Date", warc_date(recorded.started_at)),
        ("WARC-Target-URI", entry.url),
        ("WARC-IP-Address", recorded.remote_ip),
    ]
    if page_id:
        headers.append(("WARC-Page-ID", page_id))
    if entry.digest:
        headers.append(("WARC-Payload-Digest", entry.digest))
    if entry.truncated and kind is RecordType.RESPONSE:
        headers.append(("WARC-Truncated", entry.truncated))
    if entry.tls_error:
        headers.append(("WARC-TLS-Verification", _one_line(f"failed; {entry.tls_error}")))
    return headers


def _request_member(recorded: Recorded, page_id: str) -> bytes:
    headers = [
        ("WARC-Type", str(RecordType.REQUEST)),
        ("WARC-Record-ID", new_record_id()),
        ("WARC-Date", warc_date(recorded.started_at)),
        ("WARC-Target-URI", recorded.entry.url),
        ("WARC-Concurrent-To", recorded.entry.record_id),
    ]
    if page_id:
        headers.append(("WARC-Page-ID", page_id))
    headers += [
        ("Content-Type", REQUEST_TYPE),
        ("WARC-Block-Digest", sha256_digest(recorded.request)),
        ("Content-Length", str(len(recorded.request))),
    ]
    return member(headers, recorded.request)


def warcinfo_member(filename: str, *, date: str, software: str) -> bytes:
    """The first record of a file: what wrote it, and in which format."""
    block = (
        f"software: {software}\r\nformat: WARC File Format 1.1\r\n"
        "conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n"
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
    return member(headers, block)


def _one_line(text: str) -> str:
    return " ".join(text.split())
