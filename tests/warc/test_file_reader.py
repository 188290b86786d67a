"""Records read one by one: what is packed a thousand to one is taken in small pieces."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from net.http1 import parse_head
from tests.support.warc_damage import resource
from warc.file_reader import Reading, WarcMember, walk_records
from warc.record_builder import header_block

PACKED_BYTES = 200_000_000
MOST_BYTES = 40_000_000


@pytest.mark.slow
def test_a_record_that_packs_much_into_little_needs_little_memory(tmp_path: Path) -> None:
    """A site may send as much of nothing as a visit may receive; whoever verifies it holds a part."""
    file = tmp_path / "bomb.warc.gz"
    file.write_bytes(resource("https://example.org/", bytes(PACKED_BYTES)))
    assert file.stat().st_size < 2_000_000
    tracemalloc.start()
    try:
        readings = list(walk_records(file))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [type(each) for each in readings] == [WarcMember]
    assert [each.problems for each in readings if isinstance(each, WarcMember)] == [[]]
    assert peak < MOST_BYTES


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Type: text/html; charset=utf-8", b"content-type:TEXT/Html", b"Content-Type: text/html\r\n\tx; q=1",
        b"Content-Type : text/css", b"Content-Type: a b/c", b"Content-Type: nonsense\r\nContent-Type: text/html",
        b" Content-Type: text/html", b"X: 1\nContent-Type: image/png \nY: 2", b"Content-Type: \xff/x", b"X: 1",
        b"Content-Type-Options: a/b\r\nContent-Type: text/plain",
    ],
)  # fmt: skip
def test_the_media_type_is_that_of_the_tolerant_parser(tmp_path: Path, lines: bytes) -> None:
    """However the line is written; most are read without it."""
    head = b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n\r\n"
    block = head + b"body"
    fields = {
        "WARC-Type": "response", "WARC-Target-URI": "https://a.example/", "WARC-Date": "2026-01-31T12:00:00Z",
        "Content-Type": "application/http", "Content-Length": str(len(block)),
    }  # fmt: skip
    file = tmp_path / "a.warc.gz"
    file.write_bytes(gzip.compress(header_block([*fields.items()]) + block + b"\r\n\r\n"))
    (member,) = walk_records(file, reading=Reading.FOREIGN)
    parsed = parse_head(head)

    assert isinstance(member, WarcMember)
    assert parsed is not None
    assert member.mime == (parsed.mime or "application/octet-stream")
