"""Content codings made by hand, and bodies that no coding can shrink."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator

MEGABYTE = 1_000_000


def gzipped(data: bytes) -> bytes:
    """Return `data` in gzip (RFC 1952), the same bytes on every day."""
    return gzip.compress(data, mtime=0)


def deflated(data: bytes) -> bytes:
    """Return `data` in zlib's format, which is what HTTP calls deflate (RFC 9110, 8.4.1.2)."""
    return zlib.compress(data)


def raw_deflated(data: bytes) -> bytes:
    """Return `data` in bare deflate (RFC 1951), which some servers send under the name deflate."""
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def brotli_stored(data: bytes) -> bytes:
    """Return `data` as a valid brotli stream of uncompressed meta-blocks (RFC 7932, 9.2).

    The standard library has no brotli; stored blocks need none, and every decoder reads them.
    """
    bits = _BitStream()
    bits.put(0, 1)  # WBITS: a window of 16 bits
    for start in range(0, len(data), 0xFFFF):
        block = data[start : start + 0xFFFF]
        bits.put(0, 1)  # ISLAST
        bits.put(0, 2)  # MNIBBLES: four
        bits.put(len(block) - 1, 16)  # MLEN
        bits.put(1, 1)  # ISUNCOMPRESSED
        bits.append(block)
    bits.put(1, 1)  # ISLAST
    bits.put(1, 1)  # ISLASTEMPTY
    return bits.bytes()


def incompressible(size: int, seed: str = "large") -> Iterator[bytes]:
    """Yield `size` bytes that no coding shrinks, in blocks of at most 64 KiB; the same for the same seed."""
    counter = 0
    left = size
    while left > 0:
        block = hashlib.shake_128(f"{seed}:{counter}".encode()).digest(min(left, 65_536))
        yield block
        left -= len(block)
        counter += 1


class _BitStream:
    """A stream of bits, least significant first."""

    def __init__(self) -> None:
        self._out = bytearray()
        self._held = 0
        self._count = 0

    def put(self, value: int, width: int) -> None:
        self._held |= value << self._count
        self._count += width
        while self._count >= 8:
            self._out.append(self._held & 0xFF)
            self._held >>= 8
            self._count -= 8

    def append(self, data: bytes) -> None:
        """Append whole bytes, from the next byte boundary on."""
        if self._count:
            self.put(0, 8 - self._count)
        self._out += data

    def bytes(self) -> bytes:
        """Return everything, filled up with zero bits."""
        if self._count:
            self.put(0, 8 - self._count)
        return bytes(self._out)
