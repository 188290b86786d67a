"""A page's body as it comes: held until it is whole, or let go when it is too large or too slow."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from isal import igzip

from core.clock import Clock

_GZIP_LEVEL = 2
_MEMBERS = 16  # each costs a copy of what follows


@dataclass(slots=True)
class Room:
    """Memory for all pages that are held at once, in bytes."""

    limit: int
    used: int = 0


@dataclass(slots=True)
class Held:
    """What was read of a body.

    Attributes:
        parts: all of it so far, as it came.
        is_whole: it has ended.
        pending: the read that was going on when patience ended; None otherwise.
        size: of the parts.
        is_crowded: there was no room for more.
    """

    parts: list[bytes]
    is_whole: bool
    pending: "asyncio.Future[bytes] | None" = None
    size: int = 0
    is_crowded: bool = False

    async def rest(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """All of the body: what was read, then what comes."""
        for part in self.parts:
            yield part
        self.parts.clear()
        if self.is_whole:
            return
        if self.pending is not None:
            try:
                yield await self.pending
            except _Ended:
                return
        async for part in body:
            yield part


@asynccontextmanager
async def hold(
    body: AsyncIterator[bytes], *, limit: int, patience_s: float, clock: Clock, room: Room
) -> AsyncIterator[Held]:
    """Read a body to its end, or until it is too large or too slow; it is held as long as the block runs.

    Args:
        body: its parts.
        limit: bytes that are held at most.
        patience_s: how long it may take.
        clock: tells how long it took.
        room: shared by all that are held.
    """
    held = Held([], is_whole=False)
    try:
        await _fill(held, body, limit, clock.monotonic() + patience_s, clock, room)
        yield held
    finally:
        room.used -= held.size
        if held.pending is not None:
            held.pending.cancel()


async def _fill(
    held: Held, body: AsyncIterator[bytes], limit: int, until: float, clock: Clock, room: Room
) -> None:
    while held.size <= limit:
        if room.used > room.limit:
            held.is_crowded = True
            return
        pending = asyncio.ensure_future(_next(body))
        try:
            done, _ = await asyncio.wait({pending}, timeout=max(0.0, until - clock.monotonic()))
        except asyncio.CancelledError:
            pending.cancel()
            raise
        if not done:
            held.pending = pending
            return
        try:
            part = pending.result()
        except _Ended:
            held.is_whole = True
            return
        held.parts.append(part)
        held.size += len(part)
        room.used += len(part)


class _Ended(Exception):  # noqa: N818 a future cannot carry StopAsyncIteration
    pass


async def _next(body: AsyncIterator[bytes]) -> bytes:
    try:
        return await anext(body)
    except StopAsyncIteration as error:
        raise _Ended from error


def decoded(body: bytes, coding: bytes, *, limit: int) -> bytes | None:
    """The body without its content coding; None when it is damaged, unknown or larger than `limit`."""
    coding = coding.strip().lower()
    if coding in (b"", b"identity"):
        return body
    if coding in (b"gzip", b"x-gzip"):
        return _inflated(body, 16 + zlib.MAX_WBITS, limit)
    if coding == b"deflate":
        # RFC 9110, 8.4.1.2 means zlib's format; some servers send the bare one.
        found = _inflated(body, zlib.MAX_WBITS, limit)
        return _inflated(body, -zlib.MAX_WBITS, limit) if found is None else found
    return None


def _inflated(body: bytes, bits: int, limit: int) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    for _ in range(_MEMBERS):
        stream = zlib.decompressobj(bits)
        try:
            part = stream.decompress(body, limit + 1 - size)
        except zlib.error:
            return None
        size += len(part)
        if size > limit or not stream.eof:
            return None
        parts.append(part)
        body = stream.unused_data if bits > zlib.MAX_WBITS else b""  # gzip may have members
        if not body:
            return b"".join(parts)
    return None


def gzipped(body: bytes) -> bytes:
    """The body in gzip; the same bytes for the same body."""
    return bytes(igzip.compress(body, _GZIP_LEVEL, mtime=0))
