"""Strict reader of one WARC record, a gzip member or uncompressed, at an offset, within size limits.

A head, also the HTTP head within, that is too long, truncated or repeats a unique field is damaged. The digest in a
header is not trusted: the payload itself is hashed before it may replace another. Content codings (gzip, deflate,
Brotli) are undone in bounded steps: a bomb costs no more than the limit.
"""

import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import brotlicffi
from isal import isal_zlib

from core.captures import Capture
from core.digests import TRUSTED_DIGESTS, Digest
from core.errors import BodyTooLargeError, InputError, PermanentError
from core.layout import OPEN_SUFFIX, is_warc_name
from net.http1 import WINDOW_GZIP, inflated
from warc.local_storage import stored_warc

LONGEST_HEAD = 256 * 1024  # bytes of a WARC head and an HTTP head together, inflated
_BLOCK = 256 * 1024
_INFLATED = 64 * 1024
_GZIP = b"\x1f\x8b"
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_FOLDED = re.compile(rb"\r?\n[ \t]+")
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

Read = Callable[[int, int], bytes]
Request = Callable[[], bytes]
Run = Callable[[Request], bytes]
"""Runs a request to object storage, so that a caller with an event loop can do it in a thread."""


@dataclass(frozen=True, slots=True)
class HeaderFields:
    """Named fields of a head; names in lower case."""

    first_line: str  # the version, or the status line
    values: dict[str, str]
    raw: bytes = b""  # without its blank line

    def get(self, name: str) -> str:
        """Return the value; empty when there is none; several, as in HTTP, joined by commas."""
        return self.values.get(name, "")


@dataclass(frozen=True, slots=True)
class Record:
    """A record's heads, and its content as a stream."""

    warc: HeaderFields  # the record's own fields
    http: HeaderFields | None  # the fields of the response in it; None when it holds none
    size: int  # bytes of content
    content: Iterator[bytes]  # the content in blocks, readable once; errors are PermanentError


@contextmanager
def open_record(
    folder: Path | str, filename: str, offset: int, length: int, *, run: Run = lambda request: request()
) -> Iterator[Record]:
    """Yield the record at that place of a WARC, also an open one (P-20); PermanentError, also while reading.

    The data of a WARC that is in the bucket alone is requested by `run`; TransientError: not available.
    """
    if not is_warc_name(filename):
        raise PermanentError("The index names a file that is not a WARC of this collection.")
    # As text: paths as objects cost more than opening the file.
    closed = f"{folder}{os.sep}{filename}"
    stored, file = None, -1
    for path in (closed, closed + OPEN_SUFFIX, closed):  # it may be closed between the two
        try:
            file = os.open(path, _FLAGS)
            break
        except FileNotFoundError:
            if (stored := stored_warc(closed)) is not None:
                break
        except OSError as error:
            raise PermanentError(f"A WARC cannot be opened: {error}.") from error
    else:
        raise PermanentError("A WARC that the index names does not exist.")
    if stored is not None:
        from warc.object_storage import StoredReader

        yield read_record(StoredReader(str(folder), stored, run).read, offset, length)
        return
    try:
        yield read_record(lambda at, size: os.pread(file, size, at), offset, length)
    except (OSError, OverflowError) as error:
        raise PermanentError(f"A record cannot be read: {error}.") from error
    finally:
        os.close(file)


def read_record(read: Read, offset: int, length: int) -> Record:
    """Read the heads of the record at `offset`, `length` stored bytes long, or PermanentError."""
    if offset < 0 or length <= 0:
        raise PermanentError("The index has an offset that is not valid.")
    block = ByteSource(_inflated(read, offset, length))
    warc = _fields(block.head())
    if not warc.first_line.startswith("WARC/1."):
        raise PermanentError("There is no record at the offset in the index.")
    number = warc.get("content-length")
    if not _NUMBER.fullmatch(number):
        raise PermanentError("A record has no length.")
    size = int(number)
    http = None
    if warc.get("warc-type") != "resource" and warc.get("content-type").startswith("application/http"):
        before = block.at
        http = _fields(block.head()) if size else None
        size -= block.at - before
        if size < 0:
            raise PermanentError("A response's head extends beyond its record.")
    return Record(warc, http, size, _content(block, size))


def _inflated(read: Read, offset: int, length: int) -> Iterator[bytes]:
    """Yield the record without its gzip member, block by block."""
    end = offset + length
    stored = read(offset, min(length, _BLOCK))
    offset += len(stored)
    if not stored.startswith(_GZIP):
        while stored:
            yield stored
            stored = read(offset, min(end - offset, _BLOCK)) if offset < end else b""
            offset += len(stored)
        return
    inflater = isal_zlib.decompressobj(31)
    try:
        while not inflater.eof:
            if not stored and offset < end:
                stored = read(offset, min(end - offset, _BLOCK))
                offset = offset + len(stored) if stored else end
            # Most records are read at once, longer ones in parts.
            piece = inflater.decompress(stored, max(_INFLATED, 2 * len(stored)))
            stored = inflater.unconsumed_tail
            if piece:
                yield piece
            elif not stored and offset >= end:
                break
    except isal_zlib.error as error:  # type: ignore[misc] # the stub makes it an instance
        raise PermanentError(f"A record is damaged: {error}.") from error
    if not inflater.eof:
        raise PermanentError("A record is truncated.")


class ByteSource:
    """Bytes that come in pieces, read forwards; what is held is not copied for short reads."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._held, self._start = pieces, b"", 0
        self.at = 0  # number of bytes read

    def more(self) -> bool:
        """Hold the next piece, too; return False at the end."""
        piece = next(self._pieces, b"")
        self._held, self._start = self._held[self._start :] + piece, 0
        return bool(piece)

    def skip(self, count: int) -> None:
        """Move forward by bytes that are held."""
        self._start += count
        self.at += count

    def begins_with(self, text: bytes, after: int = 0) -> bool:
        """Return whether the text follows, behind that many bytes."""
        while len(self._held) - self._start < after + len(text) and self.more():
            pass
        return self._held.startswith(text, self._start + after)

    def find(self, mark: bytes, limit: int) -> int:
        """Return the number of bytes up to the mark's end; -1: it is not within about `limit`."""
        while (at := self._held.find(mark, self._start)) < 0:
            if len(self._held) - self._start > limit or not self.more():
                return -1
        return at + len(mark) - self._start

    def take(self, size: int) -> Iterator[bytes]:
        """Yield that many bytes, or all that there are."""
        while size and (self._start < len(self._held) or self.more()):
            piece = self._held[self._start : self._start + size]
            self.skip(len(piece))
            size -= len(piece)
            yield piece

    def match(self, pattern: re.Pattern[bytes], size: int) -> re.Match[bytes] | None:
        """Match the pattern with the next bytes, at most that many."""
        return pattern.match(self._held, self._start, self._start + size)

    def head(self) -> bytes:
        """Read up to the first blank line, which is dropped; or PermanentError."""
        while (end := _HEAD_END.search(self._held, self._start)) is None:
            if len(self._held) - self._start > LONGEST_HEAD:
                raise PermanentError("A record's head is too long.")
            if not self.more():
                raise PermanentError("A record's head does not end.")
        head = self._held[self._start : end.start()]
        self.skip(end.end() - self._start)
        return head

    def rest(self) -> Iterator[bytes]:
        """Yield all remaining data."""
        if self._start < len(self._held):
            yield self._held[self._start :]
        yield from self._pieces


def _content(source: ByteSource, size: int) -> Iterator[bytes]:
    """Yield exactly `size` bytes. Raises PermanentError if there are fewer."""
    for piece in source.take(size):
        size -= len(piece)
        yield piece
    if size:
        raise PermanentError("A record is shorter than its length.")
    for _ in source.rest():  # the member's checksum follows the blank lines that end the record
        pass


def _fields(raw: bytes) -> HeaderFields:
    head = raw
    if b"\n " in head or b"\n\t" in head:
        head = _FOLDED.sub(b" ", head)
    try:
        first, *lines = head.decode().split("\n")
    except UnicodeDecodeError:  # then each line is read as what it is
        first, *lines = map(_text, head.split(b"\n"))
    values: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            continue  # some servers send it; it carries no information
        key, text = name.strip().lower(), value.strip()
        if key not in values:
            values[key] = text
        elif key in _JOINED:
            values[key] += f", {text}"
        elif key == "content-length" and values[key] != text:
            raise PermanentError("A head has two lengths.")
    return HeaderFields(first.strip(), values, raw)


_JOINED = {"content-encoding", "transfer-encoding"}


def _text(value: bytes) -> str:
    try:
        return value.decode().strip()
    except UnicodeDecodeError:
        return value.decode("latin-1").strip()


_LONGEST_CHUNK_LINE = 4096
_MOST_CHUNKS, _LEAST_CHUNK = 20_000, 64  # average bytes, from this many on
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]{0,4000})?\r?\n")


def dechunked(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield content without its chunked coding (RFC 9112, 7.1), if any, decoded as far as possible.

    Archives hold bodies that were dechunked under the heads of chunked ones. PermanentError: implausibly many chunks.
    """
    source, chunks, total = ByteSource(blocks), 0, 0
    while (length := source.find(b"\n", _LONGEST_CHUNK_LINE)) > 0:
        if (match := source.match(_CHUNK_SIZE, length)) is None:
            break
        source.skip(length)
        size = int(match[1], 16)
        if size == 0:
            return
        chunks, total = chunks + 1, total + size
        if chunks > _MOST_CHUNKS and total < chunks * _LEAST_CHUNK:
            raise PermanentError("A body with too many chunks.")
        yield from source.take(size)
        source.skip(2 if source.begins_with(b"\r\n") else int(source.begins_with(b"\n")))
    if chunks == 0:
        yield from source.rest()


FindTwins = Callable[[str], Sequence[Capture]]
"""Captures that the index files under that digest, a few of them, which may be shown."""


def holds_payload(record: Record, digest: str, by_turns: Callable[[Iterator[bytes]], Iterable[bytes]]) -> bool:
    """Check whether the payload, chunked or not, has that digest by reading it; or PermanentError."""
    try:
        wanted = Digest.parse(digest)
    except InputError:
        return False
    if wanted.algorithm not in TRUSTED_DIGESTS:
        return False
    hashes = [hashlib.new(wanted.algorithm, usedforsecurity=False)]

    def tapped() -> Iterator[bytes]:
        for block in by_turns(record.content):
            hashes[0].update(block)
            yield block

    blocks = tapped()
    if record.http is not None and record.http.get("transfer-encoding").lower() == "chunked":
        hashes.append(hashlib.new(wanted.algorithm, usedforsecurity=False))
        for block in dechunked(blocks):
            hashes[1].update(block)
    for _ in blocks:  # all, or the data after the last chunk
        pass
    return wanted.value in [each.hexdigest() for each in hashes]


_DECODED = 64 * 1024
_MOST_CODINGS = 2
# Real pages reach about 30; deflate ends at 1032, brotli nowhere.
_MOST_EXPANSION = 250
_EXPANSION_COUNTS_FROM = 1024 * 1024


def codings_of(text: str) -> list[str]:
    """Return the content codings in a head, outermost last (RFC 9110, 8.4); PermanentError: unsupported."""
    names = [name for each in text.split(",") if (name := each.strip().lower()) not in {"", "identity"}]
    if len(names) > _MOST_CODINGS:
        raise PermanentError("A body with too many content codings.")
    if any(name not in _DECODERS for name in names):
        raise PermanentError("A body in an unsupported content coding.")
    return names


def decode_blocks(blocks: Iterator[bytes], codings: str, *, limit: int) -> bytes:
    """Decode the body in `blocks`, a truncated one as far as possible.

    A body that does not match its coding is returned unchanged: archives hold decoded bodies under the headers of
    encoded ones. Raises BodyTooLargeError, also for an implausible compression ratio; PermanentError as `codings_of`.
    """
    stored = body = _join(blocks, limit)
    for name in reversed(codings_of(codings)):
        try:
            body = _join(_DECODERS[name](body), limit, encoded_size=len(stored))
        except (zlib.error, brotlicffi.error):
            continue
    return body


def decoded_body(record: Record, *, limit: int) -> bytes:
    """Return the body of a response without its codings; raises as `decode_blocks`, PermanentError without a head."""
    if record.http is None:
        raise PermanentError("A response without a head.")
    is_chunked = record.http.get("transfer-encoding").lower() == "chunked"
    content = dechunked(record.content) if is_chunked else record.content
    return decode_blocks(content, record.http.get("content-encoding"), limit=limit)


def _join(blocks: Iterator[bytes], limit: int, *, encoded_size: int | None = None) -> bytes:
    parts, size = [], 0
    for block in blocks:
        size += len(block)
        expands = encoded_size is not None and size > _EXPANSION_COUNTS_FROM and size > encoded_size * _MOST_EXPANSION
        if size > limit or expands:
            raise BodyTooLargeError(f"A body of more than {size - 1} bytes is not shown.")
        parts.append(block)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _inflate(data: bytes, window_bits: int) -> Iterator[bytes]:
    decoder = zlib.decompressobj(window_bits)
    yield from inflated(decoder, data)
    if not decoder.eof:
        yield decoder.decompress(b"", _DECODED)


def _undeflate(data: bytes) -> Iterator[bytes]:
    """Decode deflate with the zlib wrapper (RFC 9110, 8.4.1.2) or, as browsers do, without."""
    has_wrapper = len(data) >= 2 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
    return _inflate(data, zlib.MAX_WBITS if has_wrapper else -zlib.MAX_WBITS)


def _unbrotli(data: bytes) -> Iterator[bytes]:
    decoder = brotlicffi.Decompressor()
    yield decoder.process(data, output_buffer_limit=_DECODED)
    while not decoder.is_finished() and (block := decoder.process(b"", output_buffer_limit=_DECODED)):
        yield block


_gunzip = partial(_inflate, window_bits=WINDOW_GZIP)
_DECODERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _gunzip, "x-gzip": _gunzip, "deflate": _undeflate, "br": _unbrotli,
}  # fmt: skip
