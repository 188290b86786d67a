"""Pages that are held back until they are whole."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator

from hypothesis import given, settings
from hypothesis import strategies as st

from core.clock import SystemClock
from tests.support.examples import examples
from wiki.embed.proxy_message import BodyMemory, BufferedBody, buffer_body, decode_body, gzip_body

PARTS = [b"one", b"two", b"three"]


async def body(*, forever: bool = False) -> AsyncIterator[bytes]:
    """Yield the parts; then end, or wait forever."""
    for part in PARTS:
        yield part
    if forever:
        await asyncio.Event().wait()


async def held(
    parts: AsyncIterator[bytes], room: BodyMemory, *, limit: int = 100, patience_s: float = 60
) -> tuple[BufferedBody, bytes]:
    """Return the buffered body, and all bytes that leave the buffer."""
    clock, before = SystemClock(), room.used
    async with buffer_body(parts, limit=limit, patience_s=patience_s, clock=clock, room=room) as buffer:
        assert room.used - before == sum(map(len, buffer.parts))
        if buffer.pending is not None:
            return buffer, b"".join(buffer.parts)
        return buffer, b"".join([part async for part in buffer.rest(parts)])


async def test_a_body_is_held_until_it_is_whole() -> None:
    """And its room is given back."""
    room = BodyMemory(1_000)

    buffer, all_of_it = await held(body(), room)

    assert (buffer.is_whole, all_of_it, room.used) == (True, b"onetwothree", 0)


async def test_a_body_that_is_too_large_is_let_go_without_loss() -> None:
    """The part that was read comes first, then the rest."""
    buffer, all_of_it = await held(body(), BodyMemory(1_000), limit=4)

    assert (buffer.is_whole, buffer.is_crowded, all_of_it) == (False, False, b"onetwothree")


async def test_where_too_much_is_held_already_nothing_more_is() -> None:
    """Many slow pages at once do not fill the memory."""
    room = BodyMemory(10, used=11)

    buffer, all_of_it = await held(body(), room)

    assert (buffer.is_crowded, all_of_it, room.used) == (True, b"onetwothree", 11)


async def test_a_body_that_does_not_end_is_let_go_after_a_while() -> None:
    """The read that goes on is not lost, nor left behind."""
    buffer, so_far = await held(body(forever=True), BodyMemory(1_000), patience_s=0.05)

    assert (buffer.is_whole, so_far) == (False, b"onetwothree")
    assert buffer.pending is not None
    await asyncio.wait({buffer.pending})
    assert buffer.pending.cancelled()


@settings(max_examples=examples(100))
@given(st.binary(max_size=2_000))
def test_what_is_packed_is_unpacked(data: bytes) -> None:
    """In every coding that is asked for; and the same bytes for the same body."""
    assert decode_body(gzip_body(data), b"gzip", limit=2_000) == data
    assert decode_body(gzip.compress(data), b" X-GZIP", limit=2_000) == data
    assert decode_body(zlib.compress(data), b"deflate", limit=2_000) == data
    assert decode_body(data, b"", limit=0) == data
    assert gzip_body(data) == gzip_body(data)


@settings(max_examples=examples(100))
@given(st.binary(max_size=200), st.sampled_from((b"gzip", b"deflate", b"br", b"gzip, gzip")))
def test_what_cannot_be_unpacked_is_nothing(data: bytes, coding: bytes) -> None:
    """Never an error, and never more than the limit."""
    content = decode_body(data, coding, limit=100)

    assert content is None or len(content) <= 100


def test_a_bomb_of_many_members_is_not_unpacked() -> None:
    """Each member costs a copy of the rest."""
    assert decode_body(gzip.compress(b"") * 10_000, b"gzip", limit=1 << 20) is None
