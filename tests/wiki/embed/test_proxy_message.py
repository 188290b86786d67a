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
    """The parts; then nothing, for ever or not."""
    for part in PARTS:
        yield part
    if forever:
        await asyncio.Event().wait()


async def held(
    parts: AsyncIterator[bytes], room: BodyMemory, *, limit: int = 100, patience_s: float = 60
) -> tuple[BufferedBody, bytes]:
    """What was held, and all that comes of it when it is let go."""
    clock, before = SystemClock(), room.used
    async with buffer_body(parts, limit=limit, patience_s=patience_s, clock=clock, room=room) as found:
        assert room.used - before == sum(map(len, found.parts))
        if found.pending is not None:
            return found, b"".join(found.parts)
        return found, b"".join([part async for part in found.rest(parts)])


async def test_a_body_is_held_until_it_is_whole() -> None:
    """And its room is given back."""
    room = BodyMemory(1_000)

    found, all_of_it = await held(body(), room)

    assert (found.is_whole, all_of_it, room.used) == (True, b"onetwothree", 0)


async def test_a_body_that_is_too_large_is_let_go_without_loss() -> None:
    """What was read comes first."""
    found, all_of_it = await held(body(), BodyMemory(1_000), limit=4)

    assert (found.is_whole, found.is_crowded, all_of_it) == (False, False, b"onetwothree")


async def test_where_too_much_is_held_already_nothing_more_is() -> None:
    """Many slow pages at once do not fill the memory."""
    room = BodyMemory(10, used=11)

    found, all_of_it = await held(body(), room)

    assert (found.is_crowded, all_of_it, room.used) == (True, b"onetwothree", 11)


async def test_a_body_that_does_not_end_is_let_go_after_a_while() -> None:
    """The read that goes on is not lost, nor left behind."""
    found, so_far = await held(body(forever=True), BodyMemory(1_000), patience_s=0.05)

    assert (found.is_whole, so_far) == (False, b"onetwothree")
    assert found.pending is not None
    await asyncio.wait({found.pending})
    assert found.pending.cancelled()


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
    found = decode_body(data, coding, limit=100)

    assert found is None or len(found) <= 100


def test_a_bomb_of_many_members_is_not_unpacked() -> None:
    """Each member costs a copy of the rest."""
    assert decode_body(gzip.compress(b"") * 10_000, b"gzip", limit=1 << 20) is None
