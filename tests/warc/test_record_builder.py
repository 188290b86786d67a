"""Gzip members: what goes in comes out, and what cannot be shortened is not tried."""

import gzip
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warc.record_builder import compress, compress_pieces, is_packed, store_pieces

PIECES = st.lists(st.binary(max_size=300) | st.sampled_from((bytes(65_535), bytes(65_536))))


@given(st.binary(), PIECES, st.binary(min_size=1, max_size=50))
def test_every_way_to_make_a_member_can_be_read_back(head: bytes, pieces: list[bytes], end: bytes) -> None:
    """RFC 1952: stored or deflated, at once or in pieces, any reader gives the same bytes."""
    whole = b"".join((head, *pieces, end))

    assert gzip.decompress(compress(whole)) == whole
    assert gzip.decompress(b"".join(compress_pieces((head, *pieces, end)))) == whole
    assert gzip.decompress(b"".join(store_pieces(head, pieces, end))) == whole


def test_stored_bytes_are_not_copied() -> None:
    """A body lies in the file as it lies in memory, with five bytes before each 65,535."""
    body = bytearray(os.urandom(200_000))

    parts = [part for part in store_pieces(b"head", [body], b"end") if isinstance(part, memoryview)]

    assert [len(part) for part in parts] == [65_535, 65_535, 65_535, 3_395]
    assert all(part.obj is body for part in parts)


@pytest.mark.parametrize(
    ("mime", "coding", "body", "packed"),
    [
        ("image/png", None, os.urandom(20_000), True),
        ("image/png", None, bytes(2_000_000), False),  # it only says that it is a picture
        ("text/html", None, b"<p>words</p>" * 1000, False),
        ("text/html", b"gzip", os.urandom(20_000), True),
        ("text/html", b"br", b"a" * 2_000_000, False),  # it only says that it is compressed
        ("application/octet-stream", None, os.urandom(20_000), True),
        ("application/octet-stream", None, b"words and words " * 1000, False),
        ("image/jpeg", None, b"tiny", False),
    ],
)
def test_what_a_compressor_cannot_shorten_is_stored(
    mime: str, coding: bytes | None, body: bytes, *, packed: bool
) -> None:
    """The type is trusted for short bodies; a sample decides on long ones and unknown types."""
    assert is_packed(mime, coding, len(body), body[:65_536]) is packed
