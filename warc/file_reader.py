"""Sequential WARC reader that checks members, headers, lengths and digests.

A record is one gzip member (WARC/1.1, Annex D), never held in memory as a whole. Unreadable data is reported with its
offset, and reading resumes at the next member that holds a WARC record.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import partial
from io import RawIOBase
from pathlib import Path
from typing import Any

from isal import isal_zlib

from core.captures import CONFIRMED_HEADER
from core.digests import BASE32_TO_DIGITS, TRUSTED_DIGESTS, Digest, sha256_digest
from core.errors import InputError
from core.timestamps import parse_warc_date
from net import http1

_GZIP = 31  # wbits for a gzip member
_MAGIC = b"\x1f\x8b\x08"  # RFC 1952, 2.3.1: deflate is the only method
_VERSION = b"WARC/"
_BARE_LINE = re.compile(rb"WARC/[0-9.]+\n")  # a header whose lines end in LF alone
_SHA256_LENGTH = len("sha256:") + 64  # how our own digests are spelled
_SHA1 = re.compile("sha1:[A-Z2-7]{32}")  # how most tools spell theirs
_TYPE_NAME = re.compile(rb"\n[ \t]*content-type", re.IGNORECASE)
# As most tools write it, on one line.
_USUAL_TYPE = re.compile(
    rb"\ncontent-type: ?([!-:<-~]{1,60}/[!-:<-~]{1,60})(?:;[^\r\n]*)?\r?\n(?![ \t])", re.IGNORECASE
)
_HASHES: dict[str, Any] = {"sha1": partial(hashlib.sha1, usedforsecurity=False), "sha256": hashlib.sha256}
_READ_BYTES = 1 << 20
_FEED_BYTES = 1 << 11  # of the packed file: few records are smaller; doubled while a record continues
_PIECE_BYTES = 4 << 20  # of compressed data: a site may send a gigabyte of zeros, compressed to a thousandth
_HEADER_LIMIT_BYTES = 1 << 20
_HEAD_LIMIT_BYTES = 2 << 20  # the proxy takes heads of 1 MiB
_FOLD = re.compile(rb"\r\n[ \t]+")
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,18})[ \t]*\r$", re.IGNORECASE | re.MULTILINE)
_LINE_ENDS = 64  # bytes after a record that are not another record
_SOUND_BYTES = 64 << 20  # of a gzip member, after which its form is believed without its checksum
REPLAYED = frozenset({"response", "revisit", "resource"})  # the types that an index has rows of
_MANIFEST = "urn:pageinfo:"


class FaultKind(StrEnum):
    """Kinds of faults, and of notes, which are informational."""

    CHECKSUM = "checksum"
    SIZE = "size"
    GZIP = "gzip"  # no gzip member, or it does not inflate with a good checksum
    WARC = "warc"  # the member contains no WARC record
    LENGTH = "length"  # its Content-Length is not the block's
    BLOCK_DIGEST = "block-digest"
    PAYLOAD_DIGEST = "payload-digest"
    UNREADABLE = "unreadable"
    MISSING = "missing"
    UNKNOWN = "unknown"
    NO_CHECKSUM = "no-checksum"
    BAD_LINE = "bad-line"
    CHAIN = "chain"
    ROW = "row"
    NO_ROW = "no-row"
    ORIGINAL = "original"
    PAYLOAD = "payload"
    INDEX = "index"
    # notes
    INTERRUPTED = "interrupted"
    OPEN = "open"
    PENDING = "pending"
    SET_ASIDE = "set-aside"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class DamagedSpan:
    """Bytes that are not a record."""

    offset: int
    end: int  # offset of the next record, or the end of the file
    problem: FaultKind
    text: str
    torn: bool = False  # whether the file ends within the record


class Reading(Enum):
    """What is computed of each record."""

    STRUCTURE = "structure"  # members, headers and lengths
    CONTENT = "content"  # for the index: media types, payloads without chunks, manifests
    DIGESTS = "digests"  # for verification: digests, against the headers too
    FOREIGN = "foreign"  # of imported files: both, manifests unread, a payload's digest only as computed


@dataclass(slots=True)
class WarcMember:
    """Readable record."""

    offset: int
    length: int  # of the gzip member
    headers: dict[str, str]  # by lower-case name; of repeated ones the first
    status: int | None = None  # of the HTTP response
    content: str = ""  # digest of the payload without its chunks; empty when it has none
    problems: list[tuple[FaultKind, str]] = field(default_factory=list)
    mime: str = ""  # of the HTTP response (`Reading.CONTENT`, `FOREIGN`)
    payload_size: int = 0  # bytes of the payload without its chunks
    data: bytearray | None = None  # block of a manifest (`Reading.CONTENT`)
    kind: str = field(init=False)  # its WARC-Type
    url: str = field(init=False)  # its WARC-Target-URI, without the brackets of WARC/1.0

    def __post_init__(self) -> None:
        self.kind = self.headers.get("warc-type", "")
        self.url = self.headers.get("warc-target-uri", "").strip("<>")

    @property
    def is_sound(self) -> bool:
        """Return whether the record can be indexed: no problems, and a date if it needs one."""
        if not self.problems and self.kind in REPLAYED:
            try:
                parse_warc_date(self.headers.get("warc-date", ""))
            except InputError:
                return False
        return not self.problems


class FileDigest:
    """SHA-256 of a file, computed from data that is read for another purpose."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._to = 0

    def see(self, base: int, data: bytes) -> None:
        """Update the digest with data read at `base`, as far as it continues the hashed part."""
        if base <= self._to < base + len(data):
            self._hash.update(memoryview(data)[self._to - base :])
            self._to = base + len(data)

    def finish(self, path: Path) -> str:
        """Read the parts not hashed yet; return the digest in hexadecimal."""
        with path.open("rb", buffering=0) as file:
            file.seek(self._to)
            while data := file.read(_READ_BYTES):
                self._hash.update(data)
        return self._hash.hexdigest()


def walk_records(
    path: Path,
    *,
    start: int = 0,
    end: int | None = None,
    reading: Reading = Reading.DIGESTS,
    whole: FileDigest | None = None,
) -> Iterator[WarcMember | DamagedSpan]:
    """Yield records and damaged spans from `start`, where a record begins, to `end`; `whole` gets everything read."""
    with path.open("rb", buffering=0) as file:
        source = _MemberSource(file, start, end, whole)
        while source.at < source.end:
            offset = source.at
            try:
                yield _read(source, reading)
            except _UnreadableError as unreadable:
                if unreadable.problem is FaultKind.GZIP:
                    source.at = _next_member(source, offset + 1)
                torn = unreadable.torn and source.at == source.end
                yield DamagedSpan(offset, source.at, unreadable.problem, str(unreadable), torn)


class _UnreadableError(Exception):
    def __init__(self, problem: FaultKind, text: str, *, torn: bool = False) -> None:
        super().__init__(text)
        self.problem = problem
        self.torn = torn


class _MemberSource:
    """Part of a file, read forwards in large blocks and returned in small pieces."""

    def __init__(
        self, file: RawIOBase, start: int = 0, end: int | None = None, whole: FileDigest | None = None
    ) -> None:
        self._file, self._whole = file, whole
        size = file.seek(0, os.SEEK_END)
        self.end = size if end is None else min(end, size)
        self._buffer = b""
        self._view = memoryview(b"")
        self._base = start  # where the buffer begins
        self.at = start

    def take(self, count: int) -> memoryview:
        """Return the next bytes, at most `count`; empty at the end."""
        within = self.at - self._base
        if not 0 <= within < len(self._buffer):
            wanted = min(_READ_BYTES, self.end - self.at)
            self._file.seek(self.at)
            self._buffer = self._file.read(wanted) or b"" if wanted > 0 else b""
            self._view = memoryview(self._buffer)
            self._base, within = self.at, 0
            if self._whole is not None:
                self._whole.see(self._base, self._buffer)
        piece = self._view[within : within + count]
        self.at += len(piece)
        return piece


def _inflated(source: _MemberSource) -> Iterator[bytes]:
    """Yield the member's decompressed data; afterwards the source is at the member's end."""
    inflater = isal_zlib.decompressobj(_GZIP)
    feed, piece = _FEED_BYTES, b""
    while not inflater.eof:
        data: bytes | memoryview = inflater.unconsumed_tail
        if not data and len(piece) < _PIECE_BYTES:
            data = source.take(feed)
            feed = min(2 * feed, _READ_BYTES)
            if not data:
                raise _UnreadableError(FaultKind.GZIP, "The file ends within a record.", torn=True)
        try:
            piece = inflater.decompress(data, _PIECE_BYTES)
        except isal_zlib.IsalError as error:  # type: ignore[misc] # the stub makes it an instance
            raise _UnreadableError(FaultKind.GZIP, f"Not a whole gzip member: {error}.") from error
        if piece:
            yield piece
    source.at -= len(inflater.unused_data)


def has_member_per_record(path: Path) -> bool:
    """Return whether each gzip member of a file holds one record, up to the first that is damaged.

    Nor does one with line ends that no reader of ours takes. A member of another form counts when its checksum has shown that it is sound, or it has `_SOUND_BYTES`.
    """
    with path.open("rb", buffering=0) as file, suppress(_UnreadableError):
        source = _MemberSource(file)
        while source.at < source.end:
            head, total, end, is_other = b"", 0, -1, False
            for piece in _inflated(source):
                total += len(piece)
                if end < 0 and not is_other:
                    head += piece
                    is_other = not head.startswith(_VERSION[: len(head)]) or _BARE_LINE.match(head) is not None
                    size, length = head.find(_END), _LENGTH.search(head)
                    if size >= 0 and length is not None:
                        end = size + len(_END) + int(length[1])
                    elif len(head) > _HEADER_LIMIT_BYTES:
                        break
                is_other |= 0 <= end < total - _LINE_ENDS
                if is_other and total > _SOUND_BYTES:
                    break
            if is_other:
                return False
    return True


def _next_member(source: _MemberSource, at: int) -> int:
    """Find the next member that holds a WARC record; return its offset, or the end."""
    source.at = at
    tail = b""
    while data := source.take(_READ_BYTES):
        window = tail + bytes(data)
        after = source.at
        at = window.find(_MAGIC)
        while at >= 0:
            candidate = after - len(window) + at
            source.at = candidate
            with suppress(_UnreadableError):
                if next(_inflated(source), b"").startswith(_VERSION):
                    return candidate
            at = window.find(_MAGIC, at + 1)
        source.at = after
        tail = window[-(len(_MAGIC) - 1) :]
    return source.end


def _read(source: _MemberSource, reading: Reading) -> WarcMember:
    offset = source.at
    pieces = _inflated(source)
    begun, size = b"", -1
    for piece in pieces:
        begun = begun + piece if begun else piece
        size = begun.find(_END)
        if size >= 0 or len(begun) > _HEADER_LIMIT_BYTES:
            break
    wrong = ""
    headers: dict[str, str] = {}
    if size < 0 or not begun.startswith(_VERSION):
        wrong = "The member does not begin with the header of a WARC record."
    else:
        text = begun[:size]
        if b"\r\n " in text or b"\r\n\t" in text:  # WARC/1.0, 4: a folded line
            text = _FOLD.sub(b" ", text)
        for line in reversed(text.decode("utf-8", "replace").split("\r\n")):
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()  # of repeated ones the first stays
        if not (headers.get("content-length", "").isdecimal() and headers.get("warc-type")):
            wrong = "The record has no WARC-Type or no Content-Length."
    if wrong:
        for _ in pieces:  # to the member's end, where the next begins
            pass
        raise _UnreadableError(FaultKind.WARC, wrong)
    member = WarcMember(offset, 0, headers)
    block = _BlockCheck(member, reading)
    block.feed(memoryview(begun)[size + len(_END) :])
    for piece in pieces:
        block.feed(memoryview(piece))
    member.length = source.at - offset
    block.finish()
    status, _, mime = headers.get(CONFIRMED_HEADER.lower(), "").partition(" ")
    if member.kind == "revisit" and member.status is None and status == "200":
        member.status, member.mime = 200, mime or "application/octet-stream"
    return member


def _parse_digest(text: str) -> tuple[str, str] | None:
    """Parse a digest into (algorithm, digest in hexadecimal); None for unsupported algorithms."""
    if len(text) == _SHA256_LENGTH and text.startswith("sha256:"):
        return "sha256", text[7:].lower()
    if _SHA1.fullmatch(text):
        return "sha1", f"{int(text[5:].translate(BASE32_TO_DIGITS), 32):040x}"
    if not text:
        return None
    try:
        digest = Digest.parse(text)
    except InputError:
        return None
    return digest.algorithm, digest.value


class _BlockCheck:
    def __init__(self, member: WarcMember, reading: Reading) -> None:
        self._member = member
        headers = member.headers
        self._left = int(headers["content-length"])
        self._after = b""
        self._body: http1.BodyParser | None = None
        self._content: Any = None
        self._hash_block = self._hash_payload = None
        self._hash_plain: Any = None  # of the payload without chunks
        self._head: bytes | None = None  # of HTTP, until it is whole; most are within the first piece
        is_looked_into = reading is not Reading.FOREIGN or member.kind != "request"
        if is_looked_into and headers.get("content-type", "").lower().startswith("application/http"):
            self._head = b""
        self._block_digest: tuple[str, str] | None = None
        self._payload_digest: tuple[str, str] | None = None
        self._reading = reading
        is_manifest = member.kind == "resource" and member.url.startswith(_MANIFEST)
        if reading is Reading.CONTENT and is_manifest:
            member.data = bytearray()
        if reading in (Reading.DIGESTS, Reading.FOREIGN):
            self._block_digest = _parse_digest(headers.get("warc-block-digest", ""))
            if is_looked_into and member.kind != "revisit":  # it has another record's payload
                self._payload_digest = _parse_digest(headers.get("warc-payload-digest", ""))
            if self._block_digest is not None:
                self._hash_block = _HASHES.get(self._block_digest[0], partial(hashlib.new, self._block_digest[0]))()
            same = self._block_digest == self._payload_digest and self._head is None
            if self._payload_digest is not None and not same:
                name = self._payload_digest[0]
                self._hash_payload = _HASHES.get(name, partial(hashlib.new, name))()

    def feed(self, piece: memoryview) -> None:
        """Take the next piece of the block."""
        if len(piece) > self._left:
            self._after = (self._after + bytes(piece[self._left :][:8]))[:8]
            piece = piece[: self._left]
        if not piece:
            return
        self._left -= len(piece)
        if self._hash_block is not None:
            self._hash_block.update(piece)
        if self._head is not None:
            self._head += bytes(piece)
            end = http1.find_head_end(self._head)
            if end >= 0:
                head, self._head = self._head, None
                self._note_head(head[:end])
                self._feed_payload(memoryview(head)[end:])
            elif len(self._head) > _HEAD_LIMIT_BYTES:
                self._head = None  # not HTTP: nothing is known about its payload
                self._hash_payload = None
        else:
            self._feed_payload(piece)

    def _note_head(self, head: bytes) -> None:
        if self._member.kind not in ("response", "revisit"):
            return
        words = head.split(None, 2)
        if len(words) > 1 and words[1].isdigit():
            self._member.status = int(words[1])
        if self._reading in (Reading.CONTENT, Reading.FOREIGN):
            named = _TYPE_NAME.search(head)
            usual = None if named is None else _USUAL_TYPE.match(head, named.start())
            parsed = None if usual is not None else http1.parse_head(head)
            mime = usual[1].decode().lower() if usual is not None else parsed and parsed.mime
            self._member.mime = mime or "application/octet-stream"
        is_read = self._reading is not Reading.STRUCTURE and self._member.kind == "response"
        if is_read and b"transfer-encoding" in head.lower():
            with suppress(http1.MalformedMessageError):  # of another tool: its payload is the block as stored
                if http1.ends_chunked(http1.parse_response_head(head).headers):
                    self._body, self._content = http1.BodyParser(http1.BodyFraming.CHUNKED), hashlib.sha256()
                    if self._hash_payload is not None:
                        self._hash_plain = hashlib.new(self._hash_payload.name)
        if is_read and self._content is None and self._reading is Reading.FOREIGN:
            self._content = hashlib.sha256()

    def _feed_payload(self, piece: memoryview) -> None:
        if self._hash_payload is not None:
            self._hash_payload.update(piece)
        if self._member.data is not None:
            self._member.data += piece
        payload = piece if self._body is None else self._body.feed(bytes(piece))[1]
        if self._content is not None:
            self._content.update(payload)
        if self._hash_plain is not None:
            self._hash_plain.update(payload)
        self._member.payload_size += len(payload)

    def finish(self) -> None:
        """Compare length and digests with the headers."""
        problems, headers = self._member.problems, self._member.headers
        if self._left:
            problems.append((FaultKind.LENGTH, f"Its block is {self._left} bytes shorter than its Content-Length."))
        elif self._after != _END and (self._reading is not Reading.FOREIGN or self._after.strip(_END)):
            problems.append((FaultKind.LENGTH, "Its block is not followed by two line ends."))
        for problem, name, wanted, computed in (
            (FaultKind.BLOCK_DIGEST, "block", self._block_digest, self._hash_block),
            (FaultKind.PAYLOAD_DIGEST, "payload", self._payload_digest, self._hash_payload),
        ):
            digests = [computed.hexdigest()] if computed is not None else []
            if problem is FaultKind.PAYLOAD_DIGEST and self._hash_plain is not None:
                digests.append(self._hash_plain.hexdigest())  # most tools hash what a browser would get
            if digests and wanted is not None and wanted[1] not in digests:
                problems.append((problem, f"Its {name} does not match its WARC-{name.title()}-Digest."))
        if self._reading is Reading.FOREIGN:
            # Dedup knows payloads that have the digest which they claim, by one that cannot be forged.
            is_known = self._payload_digest is not None and self._payload_digest[0] in TRUSTED_DIGESTS
            is_whole = self._body is None or self._body.done
            if self._content is not None and is_known and is_whole and not problems:
                self._member.content = sha256_digest(self._content)
        elif self._body is not None:
            self._member.content = sha256_digest(self._content) if self._body.done else ""
        elif self._member.kind == "response" and self._reading is not Reading.STRUCTURE:
            self._member.content = headers.get("warc-payload-digest", "")
