"""WARC records of an exchange: response, revisit and request members with our extension headers."""

from collections.abc import Iterable
from itertools import chain

from core.captures import CONFIRMED_HEADER, LOGIN_HEADER, RecordType
from core.digests import sha256_digest
from core.media_types import identified_type
from core.timestamps import warc_date_at
from proxy.exchange import RecordedExchange
from warc.dedup.payloads import OriginalRecord
from warc.record_builder import (
    RECORD_END,
    Part,
    compress,
    compress_pieces,
    is_packed,
    new_record_id,
    one_line,
    store_pieces,
)

# Up to here a record is joined and deflated in one call.
_ONE_CALL_BYTES = 1 << 20
_AGENT_CHARS = 1000
# WARC/1.1, 6.7.2 and 6.7.3
IDENTICAL_PAYLOAD = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
SERVER_NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
RESPONSE_TYPE = "application/http; msgtype=response"
REQUEST_TYPE = "application/http; msgtype=request"
# As OpenSSL spells them and as WARC-Protocol does.
_TLS_VERSIONS = {"TLSv1.3": "tls/1.3", "TLSv1.2": "tls/1.2", "TLSv1.1": "tls/1.1", "TLSv1": "tls/1.0", "SSLv3": "ssl/3"}


def response_members(recorded: RecordedExchange) -> tuple[Iterable[Part], bytes]:
    """Build the gzip members of a `response`, in parts, and of its `request`."""
    spool, head, entry = recorded.spool, recorded.head.raw, recorded.entry
    # WARC-Identified-Payload-Type (WARC/1.1), when the payload is unambiguous.
    mime = identified_type(entry.identified, entry.mime) if entry.digest else ""
    identified = f"WARC-Identified-Payload-Type: {mime}\r\n" if mime else ""
    front = (
        f"{_common(RecordType.RESPONSE, recorded)}"
        f"{identified}"
        f"Content-Type: {RESPONSE_TYPE}\r\n"
        f"WARC-Block-Digest: {sha256_digest(recorded.block)}\r\n"
        f"Content-Length: {len(head) + spool.size}\r\n\r\n"
    ).encode() + head
    beginning = next(spool.pieces(), b"")
    coding = recorded.head.get(b"content-encoding")
    if is_packed(entry.mime, coding, spool.size, beginning):
        principal: Iterable[Part] = store_pieces(front, spool.pieces(), RECORD_END)
    elif spool.size <= _ONE_CALL_BYTES:
        principal = (compress(b"".join((front, *spool.pieces(), RECORD_END))),)
    else:
        principal = compress_pieces(chain[bytes | bytearray]((front,), spool.pieces(), (RECORD_END,)))
    return principal, _request_member(recorded)


def revisit_members(
    recorded: RecordedExchange, original: OriginalRecord | None, original_id: str = ""
) -> tuple[Iterable[Part], bytes]:
    """Build the gzip members of a `revisit` that refers to `original`, and of its `request`.

    WARC/1.1, 6.7.2: the original's record identifier where known; WARC-Truncated, for the block is the response's head
    only. A 304 has the profile server-not-modified (6.7.3), and no original when it confirms another visit's copy;
    with `CONFIRMED_HEADER`, and without a block, the browser received what it confirms.
    """
    # Readers show a block's status and headers with the payload: of a capture these are the original's.
    head = recorded.head.raw if recorded.confirms is None else b""
    if recorded.head.status == 304:
        profile = f"WARC-Profile: {SERVER_NOT_MODIFIED}\r\n"
        if recorded.confirms is not None:
            profile += f"{CONFIRMED_HEADER}: {recorded.entry.status} {recorded.entry.mime}\r\n"
    else:
        profile = f"WARC-Profile: {IDENTICAL_PAYLOAD}\r\nWARC-Truncated: length\r\n"
    refers_to = f"WARC-Refers-To: {original_id}\r\n" if original_id else ""
    if original is not None:
        refers_to += (
            f"WARC-Refers-To-Target-URI: {original.url}\r\n"
            f"WARC-Refers-To-Date: {warc_date_at(original.captured_ms)}\r\n"
        )
    front = (
        f"{_common(RecordType.REVISIT, recorded)}"
        f"{profile}{refers_to}"
        f"Content-Type: {RESPONSE_TYPE}\r\n"
        f"WARC-Block-Digest: {sha256_digest(head)}\r\n"
        f"Content-Length: {len(head)}\r\n\r\n"
    ).encode()
    return (compress(front + head + RECORD_END),), _request_member(recorded)


def _common(kind: RecordType, recorded: RecordedExchange) -> str:
    """Return the header lines that `response` and `revisit` share; assigns the record's id."""
    entry, page_id = recorded.entry, recorded.visit.page_id
    entry.record_id = new_record_id()
    page = _page_facts(page_id, recorded.visit.login)
    digest = f"WARC-Payload-Digest: {entry.digest}\r\n" if entry.digest else ""
    # Only a proxy on the way may know where the origin is ([egress] via).
    address = f"WARC-IP-Address: {entry.remote_ip}\r\n" if entry.remote_ip else ""
    truncated = tls = ""
    if entry.truncated and kind is RecordType.RESPONSE:
        truncated = f"WARC-Truncated: {entry.truncated}\r\n"
    # The adopted extension fields WARC-Protocol, one for each protocol, and WARC-Cipher-Suite.
    http = f"WARC-Protocol: {entry.protocol or recorded.head.version.decode('ascii', 'replace').lower()}\r\n"
    if entry.tls_version:  # and the certificate (C-14)
        tls = (
            f"WARC-Protocol: {_TLS_VERSIONS.get(entry.tls_version, entry.tls_version)}\r\n"
            f"WARC-Cipher-Suite: {entry.tls_cipher}\r\n"
        )
        if entry.tls_certificate:
            tls += f"WARC-TLS-Certificate: sha256:{entry.tls_certificate}\r\n"
    if entry.tls_error:
        tls += f"WARC-TLS-Verification: failed; {one_line(entry.tls_error)}\r\n"
    return (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {entry.record_id}\r\n"
        f"WARC-Date: {warc_date_at(entry.started_ms)}\r\nWARC-Target-URI: {entry.url}\r\n"
        f"{address}{page}{digest}{truncated}{http}{tls}"
    )


def _page_facts(page_id: str, login: str) -> str:
    """Return the headers that name the visit, and the login if one was used."""
    page = f"WARC-Page-ID: {page_id}\r\n" if page_id else ""
    return f"{page}{LOGIN_HEADER}: {login}\r\n" if login else page


def _request_member(recorded: RecordedExchange) -> bytes:
    entry, page_id, request = recorded.entry, recorded.visit.page_id, recorded.request
    page = _page_facts(page_id, recorded.visit.login)
    front = (
        f"WARC/1.1\r\nWARC-Type: request\r\nWARC-Record-ID: {new_record_id()}\r\n"
        f"WARC-Date: {warc_date_at(entry.started_ms)}\r\nWARC-Target-URI: {entry.url}\r\n"
        f"WARC-Concurrent-To: {entry.record_id}\r\n{page}"
        f"Content-Type: {REQUEST_TYPE}\r\n"
        f"WARC-Block-Digest: {sha256_digest(request)}\r\n"
        f"Content-Length: {len(request)}\r\n\r\n"
    ).encode()
    return compress(front + request + RECORD_END)


def user_agent_of(request: bytes) -> str:
    """Return the User-Agent in the head of a request; empty without one."""
    for line in request.partition(RECORD_END)[0].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"user-agent":
            return one_line(value.decode("latin-1"))[:_AGENT_CHARS]
    return ""
