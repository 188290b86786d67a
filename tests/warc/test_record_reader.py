"""Records, request heads and ranges as they are read: strict, bounded, and whole (P-20, P-21)."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import PermanentError
from playback.replay.replay_server import BadRequestHeadError, parse_head
from playback.replay.resource_routes import UnsatisfiableRangeError, parse_range
from tests.support.examples import examples
from warc.record_reader import LONGEST_HEAD, Record, dechunked, read_record

BODY = b"\r\n\r\nWARC/1.1 a body may say anything \x00\xff"
HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Folded: a\r\n  b\r\nno colon\r\n\r\n"


def warc(block: bytes, kind: str = "response", *, more: bytes = b"", size: int | None = None) -> bytes:
    """Return a record as stored in a WARC without gzip."""
    media = b"application/http; msgtype=response" if kind != "resource" else b"text/html"
    head = b"WARC/1.1\r\nWARC-Type: %s\r\nWARC-Target-URI: <https://a.example/>\r\n" % kind.encode()
    head += b"Content-Type: %s\r\n%s" % (media, more)
    return head + b"Content-Length: %d\r\n\r\n" % (len(block) if size is None else size) + block + b"\r\n\r\n"


def read(stored: bytes, *, before: bytes = b"", length: int | None = None) -> Record:
    """Read the record from a file that has other bytes around it."""
    file = before + stored + b"another record"

    def pread(offset: int, size: int) -> bytes:
        return file[offset : offset + size]

    return read_record(pread, len(before), len(stored) if length is None else length)


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("kind", ["response", "resource"])
def test_a_record_is_its_fields_and_its_content(kind: str, is_packed: bool) -> None:
    """In a gzip member of its own or plain, wherever it lies in the file."""
    stored = warc((HTTP if kind == "response" else b"") + BODY, kind)
    record = read(gzip.compress(stored) if is_packed else stored, before=b"x" * 999)

    assert record.warc.get("warc-target-uri") == "<https://a.example/>"
    assert (record.size, b"".join(record.content)) == (len(BODY), BODY)
    if kind == "response":
        assert record.http is not None
        assert record.http.values == {"content-type": "text/html", "x-folded": "a b"}
    else:
        assert record.http is None


@settings(max_examples=examples(60))
@given(body=st.binary(max_size=3_000), repeat=st.integers(1, 400), level=st.sampled_from([0, 1, 9]))
def test_any_body_comes_back_byte_for_byte(body: bytes, repeat: int, level: int) -> None:
    """However it was packed, whatever its size is to our blocks."""
    whole = body * repeat
    stored = gzip.compress(warc(HTTP + whole), level)

    assert b"".join(read(stored).content) == whole


GOOD = gzip.compress(warc(HTTP + BODY))
DAMAGED = {
    "nothing": b"",
    "another file": b"<html>",
    "no version": gzip.compress(warc(HTTP + BODY).replace(b"WARC/1.1", b"WARC/9.9", 1)),
    "a damaged checksum": GOOD[:-6] + bytes([GOOD[-6] ^ 1]) + GOOD[-5:],
    "a damaged body": GOOD[:120] + bytes([GOOD[120] ^ 255]) + GOOD[121:],
    "cut short": GOOD[:-9],
    "cut short in its head": GOOD[:40],
    "shorter than it says": gzip.compress(warc(HTTP + BODY, size=9_999)),
    "no length": gzip.compress(warc(HTTP + BODY).replace(b"Content-Length: ", b"X: ")),
    "a negative length": gzip.compress(warc(HTTP + BODY, size=-1)),
    "two lengths": gzip.compress(warc(HTTP + BODY, more=b"Content-Length: 3\r\n")),
    "a head without end": gzip.compress(b"WARC/1.1\r\n" + b"a: b\r\n" * 400_000),
    "a head that is longer than its record": gzip.compress(warc(HTTP, size=len(HTTP) - 2)),
    "no head of HTTP": gzip.compress(warc(b"HTTP/1.1 200 OK\r\nX: y")),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_no_whole_record_is_refused(name: str) -> None:
    """Nothing of it is shown as if it were all."""
    with pytest.raises(PermanentError):
        list(read(DAMAGED[name], length=len(DAMAGED[name]) or 1).content)


@pytest.mark.parametrize(("offset", "length"), [(-1, 10), (0, 0), (0, -5)])
def test_a_place_that_no_record_has_is_refused(offset: int, length: int) -> None:
    """The index may say anything."""
    with pytest.raises(PermanentError):
        read_record(lambda _offset, _size: GOOD, offset, length)


def test_a_bomb_is_read_no_faster_than_it_is_taken() -> None:
    """A gigabyte in a megabyte: who takes one block has had one block inflated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    stored = packer.compress(warc(b"", "resource", size=1 << 30)[:-4])
    stored += b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    record = read(stored)

    block = next(record.content)

    assert 0 < len(block) <= 1 << 20


def test_a_head_of_http_that_never_ends_costs_its_limit() -> None:
    """The blocks of a head are bounded before they are joined."""
    stored = gzip.compress(warc(b"HTTP/1.1 200 OK\r\n" + b"a" * 3 * LONGEST_HEAD))

    with pytest.raises(PermanentError, match="too long"):
        read(stored)


def blocks_of(data: bytes, size: int) -> Iterator[bytes]:
    """Split the data into blocks of `size` bytes."""
    return (data[at : at + size] for at in range(0, len(data), size))


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=60), max_size=30),
    size=st.integers(1, 70),
    end=st.sampled_from([b"\r\n", b"\n"]),
    extension=st.sampled_from([b"", b";a=b", b" "]),
)
def test_chunks_are_undone_wherever_blocks_end(chunks: list[bytes], size: int, end: bytes, extension: bytes) -> None:
    """RFC 9112, 7.1."""
    coded = b"".join(b"%X%s%s%s%s" % (len(each), extension, end, each, end) for each in chunks)
    coded += b"0" + end + b"Trailer: x" + end + end

    assert b"".join(dechunked(blocks_of(coded, size))) == b"".join(chunks)


@pytest.mark.parametrize("body", [b"", b"<html>no chunks", b"zz\r\nx", b"\n", b"g" * 9_000])
def test_what_has_no_chunks_comes_as_it_is(body: bytes) -> None:
    """Archives hold dechunked bodies under the heads of chunked ones."""
    assert b"".join(dechunked(blocks_of(body, 7))) == body


@pytest.mark.parametrize("cut", [b"5\r\nhel", b"5\r\nhello", b"5\r\nhello\r\nxx", b"5\r\nhello\r\n9\r\n"])
def test_chunks_that_break_off_come_as_far_as_they_go(cut: bytes) -> None:
    """A connection that was lost while it was archived."""
    assert b"hello".startswith(b"".join(dechunked(iter([cut]))))


def test_a_body_of_a_million_tiny_chunks_is_refused() -> None:
    """Each costs a step, and together they would cost a minute (P-21)."""
    with pytest.raises(PermanentError, match="chunks"):
        list(dechunked(blocks_of(b"1\r\na\r\n" * 1_000_000, 65_536)))


@settings(max_examples=examples(100))
@given(st.binary(max_size=300))
def test_a_head_of_any_bytes_is_a_request_or_refused(data: bytes) -> None:
    """Never anything else, whatever a client sends."""
    with suppress(BadRequestHeadError):
        assert parse_head(data).environ["REQUEST_URI"].isascii()


def test_of_a_head_only_what_the_gate_reads_is_kept() -> None:
    """Nothing of the rest can reach anything (P-19)."""
    request = parse_head(
        b"GET /x HTTP/1.1\r\nHost: a.example:80\r\nCookie: a=b\r\nX-Forwarded-Host: evil\r\n"
        b'Range: bytes=0-1\r\nRANGE: bytes=5-6\r\nIf-None-Match: "e" \t'
    )

    assert request.keeps
    assert request.environ == {
        "REQUEST_METHOD": "GET", "REQUEST_URI": "/x", "HTTP_HOST": "a.example:80",
        "HTTP_RANGE": "bytes=0-1", "HTTP_IF_NONE_MATCH": '"e"',
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("bytes=0-", (0, 10)), ("bytes=3-", (3, 10)), ("bytes=3-5", (3, 6)), ("bytes=3-99", (3, 10)),
        ("bytes=9-9", (9, 10)), ("bytes=-4", (6, 10)), ("bytes=-99", (0, 10)),
        ("", None), ("bytes=5-3", None), ("bytes=-", None), ("bytes=a-b", None), ("items=0-1", None),
        ("bytes=0-1,3-4", None), ("bytes=+1-2", None), ("bytes=0-1 ", None), ("bytes=٣-", None),
    ],
)  # fmt: skip
def test_a_range_is_what_it_says_or_all(text: str, span: tuple[int, int] | None) -> None:
    """RFC 9110, 14.1.2; what is not understood counts as not said."""
    assert parse_range(text, "", '"e"', 10) == span


@pytest.mark.parametrize("text", ["bytes=10-", "bytes=99-100", "bytes=-0"])
def test_a_range_behind_the_end_cannot_be_had(text: str) -> None:
    """RFC 9110, 15.5.17."""
    with pytest.raises(UnsatisfiableRangeError):
        parse_range(text, "", '"e"', 10)


def test_a_range_of_another_version_is_all_of_this_one() -> None:
    """RFC 9110, 13.1.5."""
    assert parse_range("bytes=1-2", '"e"', '"e"', 10) == (1, 3)
    assert parse_range("bytes=1-2", '"old"', '"e"', 10) is None
    assert parse_range("bytes=99-", '"old"', '"e"', 10) is None


@given(first=st.integers(0, 99), last=st.integers(0, 200), size=st.integers(1, 100))
def test_a_range_is_never_outside(first: int, last: int, size: int) -> None:
    """Whatever is asked for, what is sent is part of the body."""
    try:
        span = parse_range(f"bytes={first}-{last}", "", "", size)
    except UnsatisfiableRangeError:
        assert first >= size
    else:
        assert span is None or 0 <= span[0] < span[1] <= size
