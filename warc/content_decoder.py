"""Content decoding of stored bodies (gzip, deflate, Brotli) in bounded steps: a bomb costs no more than the limit."""

import zlib
from collections.abc import Callable, Iterator

import brotlicffi

from core.errors import BodyTooLargeError, PermanentError

_BLOCK = 64 * 1024
_MOST_CODINGS = 2
# Real pages reach about 30; deflate ends at 1032, brotli nowhere.
_MOST_EXPANSION = 250
_EXPANSION_COUNTS_FROM = 1024 * 1024


def codings_of(text: str) -> list[str]:
    """Return the content codings in a head, outermost last (RFC 9110, 8.4); PermanentError: unsupported."""
    if not text:
        return []
    names = [name.strip().lower() for name in text.split(",")]
    names = [name for name in names if name not in {"", "identity"}]
    if len(names) > _MOST_CODINGS:
        raise PermanentError("A body under more codings than any server uses.")
    if any(name not in _DECODERS for name in names):
        raise PermanentError("A body in a coding that playback cannot undo.")
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
    pending = data
    while pending and not decoder.eof:
        yield decoder.decompress(pending, _BLOCK)
        pending = decoder.unconsumed_tail
    if not decoder.eof:
        yield decoder.decompress(b"", _BLOCK)


def _gunzip(data: bytes) -> Iterator[bytes]:
    return _inflate(data, zlib.MAX_WBITS | 16)


def _undeflate(data: bytes) -> Iterator[bytes]:
    """Decode deflate with the zlib wrapper (RFC 9110, 8.4.1.2) or, as browsers do, without."""
    has_wrapper = len(data) >= 2 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
    return _inflate(data, zlib.MAX_WBITS if has_wrapper else -zlib.MAX_WBITS)


def _unbrotli(data: bytes) -> Iterator[bytes]:
    decoder = brotlicffi.Decompressor()
    yield decoder.process(data, output_buffer_limit=_BLOCK)
    while not decoder.is_finished() and (block := decoder.process(b"", output_buffer_limit=_BLOCK)):
        yield block


_DECODERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "br": _unbrotli,
}
