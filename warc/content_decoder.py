"""Content decoding of stored bodies (gzip, deflate, Brotli) within a size limit.

Every step takes at most so many bytes at a time from its decoder, so a bomb costs its limit and
nothing more: warcio's own readers let a decoder give all that it has.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import brotli

from core.errors import BodyTooLargeError, PermanentError

_BLOCK = 64 * 1024
_MOST_CODINGS = 2
# Real pages reach about 30; deflate ends at 1032, brotli nowhere.
_MOST_EXPANSION = 250
_EXPANSION_COUNTS_FROM = 1024 * 1024


def codings_of(text: str) -> list[str]:
    """The content codings that a head names, outermost last (RFC 9110, 8.4).

    Raises:
        PermanentError: one that nobody here can undo, or too many of them.
    """
    if not text:
        return []
    names = [name.strip().lower() for name in text.split(",")]
    names = [name for name in names if name not in {"", "identity"}]
    if len(names) > _MOST_CODINGS:
        raise PermanentError("A body under more codings than any server uses.")
    if any(name not in _DECODERS for name in names):
        raise PermanentError("A body in a coding that playback cannot undo.")
    return names


class ByteStream(Protocol):
    """What is read in blocks."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; empty at the end."""
        ...


def decode_body(stream: ByteStream, codings: str, *, limit: int) -> bytes:
    """As `decode_blocks`, of what is in `stream`."""
    return decode_blocks(iter(lambda: stream.read(_BLOCK), b""), codings, limit=limit)


def decode_blocks(blocks: Iterator[bytes], codings: str, *, limit: int) -> bytes:
    """The body in `blocks` without its content codings.

    A body that is not what its coding says comes back as it is: archives hold decoded bodies
    under the headers of encoded ones. One that breaks off comes back as far as it goes.

    Raises:
        BodyTooLargeError: it is longer than `limit`, or expands like no page does.
        PermanentError: a coding that nobody here can undo, or too many of them.
    """
    stored = body = _join(blocks, limit)
    for name in reversed(codings_of(codings)):
        try:
            body = _join(_DECODERS[name](body), limit, encoded_size=len(stored))
        except (zlib.error, brotli.error):
            continue
    return body


def _join(blocks: Iterator[bytes], limit: int, *, encoded_size: int | None = None) -> bytes:
    parts, size = [], 0
    for block in blocks:
        size += len(block)
        expands = (
            encoded_size is not None
            and size > _EXPANSION_COUNTS_FROM
            and size > encoded_size * _MOST_EXPANSION
        )
        if size > limit or expands:
            raise BodyTooLargeError(f"A body of more than {size - 1} bytes is not shown.")
        parts.append(block)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _inflate(data: bytes, window_bits: int) -> Iterator[bytes]:
    decoder = zlib.decompressobj(window_bits)
    pending = data
    while pending and not decoder.eof:
        yield decoder.decompress(pending, _BLOCK)
        pending = decoder.unconsumed_tail
    if not decoder.eof:
        yield decoder.decompress(b"", _BLOCK)


def _gunzip(data: bytes) -> Iterator[bytes]:
    return _inflate(data, zlib.MAX_WBITS | 16)


def _undeflate(data: bytes) -> Iterator[bytes]:
    """RFC 9110, 8.4.1.2 wants the zlib wrapper; browsers take the bare stream, too."""
    has_wrapper = len(data) >= 2 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
    return _inflate(data, zlib.MAX_WBITS if has_wrapper else -zlib.MAX_WBITS)


def _unbrotli(data: bytes) -> Iterator[bytes]:
    decoder = brotli.Decompressor()
    yield decoder.process(data, output_buffer_limit=_BLOCK)
    while not decoder.is_finished() and (block := decoder.process(b"", output_buffer_limit=_BLOCK)):
        yield block


_DECODERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "br": _unbrotli,
}
