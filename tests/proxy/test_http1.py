"""HTTP/1.1 as bytes: heads, framing, and bodies cut into payload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.http1 import (
    Body,
    Framing,
    MalformedMessageError,
    find_head_end,
    forwarded_request,
    forwarded_response_head,
    keeps_alive,
    parse_request_head,
    parse_response_head,
    response_framing,
)


def chunked(payload: bytes, sizes: list[int]) -> bytes:
    """The payload in chunks of the given sizes, the rest in one."""
    out = b""
    for size in [*sizes, len(payload)]:
        piece, payload = payload[:size], payload[size:]
        if piece:
            out += b"%x;ext=1\r\n%s\r\n" % (len(piece), piece)
    return out + b"0\r\nTrailer: x\r\n\r\n"


@given(
    st.binary(max_size=2000),
    st.lists(st.integers(1, 300), max_size=8),
    st.lists(st.integers(1, 50), min_size=1, max_size=20),
    st.binary(max_size=20),
)
def test_a_chunked_body_gives_its_payload_however_it_is_cut(
    payload: bytes, sizes: list[int], cuts: list[int], after: bytes
) -> None:
    """The payload and the body's end do not depend on where reads happen to end."""
    wire = chunked(payload, sizes)
    stream, body, got, taken_in_all = wire + after, Body(Framing.CHUNKED), b"", 0
    at = 0
    while at < len(stream) and not body.done:
        size = cuts[at % len(cuts)]
        taken, piece = body.feed(stream[at : at + size])
        got += piece
        at += size
        taken_in_all += taken

    assert got == payload
    assert body.done
    assert taken_in_all == len(wire)


@pytest.mark.parametrize("wire", [b"zz\r\nabc", b"5\r\nabcdeXX\r\n", b"\r\n\r\n", b"-1\r\n"])
def test_a_broken_chunk_is_malformed_and_never_done(wire: bytes) -> None:
    """A size that is no number, or data that overruns it, ends the payload."""
    body = Body(Framing.CHUNKED)
    body.feed(wire)

    assert body.malformed
    assert not body.done


def test_a_body_of_known_length_leaves_the_next_message_alone() -> None:
    """What follows Content-Length bytes is not the body's."""
    body = Body(Framing.LENGTH, 3)

    assert body.feed(b"abcdef") == (3, b"abc")
    assert body.done


@pytest.mark.parametrize(
    ("head", "method", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "GET", (Framing.LENGTH, 5)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD", (Framing.NONE, 0)),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET", (Framing.NONE, 0)),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "GET", (Framing.NONE, 0)),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n",
            "GET",
            (Framing.CHUNKED, 0),
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n", "GET", (Framing.CLOSE, 0)),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "GET",
            (Framing.LENGTH, 5),
        ),
        (b"HTTP/1.1 200\r\nContent-Length: 5, 5\r\n\r\n", "GET", (Framing.LENGTH, 5)),
    ],
)
def test_the_end_of_a_response_is_known_by_rfc_9112_6_3(
    head: bytes, method: str, expected: tuple[Framing, int]
) -> None:
    """Method, status, Transfer-Encoding and Content-Length decide, in that order."""
    assert response_framing(parse_response_head(head), method) == expected


def test_contradicting_lengths_are_refused() -> None:
    """Two different Content-Lengths could smuggle a second message."""
    head = parse_response_head(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n")
    with pytest.raises(MalformedMessageError):
        response_framing(head, "GET")


@pytest.mark.parametrize(
    "raw",
    [
        b"garbage\r\n\r\n",
        b"GET / HTTP/2\r\n\r\n",
        b"GET /a b HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
        b"GET /a\rWARC-Type:\tresponse HTTP/1.1\r\n\r\n",
        b"GET /a\x00b HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(raw: bytes) -> None:
    """Only HTTP/1 request lines pass."""
    with pytest.raises(MalformedMessageError):
        parse_request_head(raw)


@given(st.binary(max_size=300))
def test_no_bytes_from_an_origin_crash_the_parser(data: bytes) -> None:
    """A head is parsed or refused, whatever it holds."""
    try:
        head = parse_response_head(data + b"\r\n\r\n")
    except MalformedMessageError:
        return
    forwarded = forwarded_response_head(head, keep_alive=True)
    assert find_head_end(forwarded) == len(forwarded)


def test_a_folded_header_becomes_one_line() -> None:
    """RFC 9112 5.2: obs-fold is replaced by a space, so no line smuggles a header (C-12)."""
    head = parse_response_head(b"HTTP/1.1 200 OK\r\nX: a\r\n WARC-Type: response\r\n\r\n")

    assert head.get(b"x") == b"a WARC-Type: response"
    assert head.get(b"warc-type") is None


def test_this_hops_headers_stay_on_this_hop() -> None:
    """Credentials for us, and what Connection names, do not reach the origin."""
    head = parse_request_head(
        b"GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\nProxy-Authorization: Basic eA==\r\n"
        b"Proxy-Connection: keep-alive\r\nConnection: X-Secret\r\nX-Secret: 1\r\nX-Kept: 2\r\n\r\n"
    )
    sent = forwarded_request(head, target="/x", host="a.example", length=None)

    assert sent == (
        b"GET /x HTTP/1.1\r\nHost: a.example\r\nX-Kept: 2\r\nConnection: keep-alive\r\n\r\n"
    )


def test_zstd_is_never_offered() -> None:
    """No WARC reader decodes it (design 4)."""
    head = parse_request_head(
        b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\r\n"
    )
    sent = forwarded_request(head, target="/", host="a", length=None)

    assert b"Accept-Encoding: gzip, deflate, br\r\n" in sent


def test_an_origin_cannot_speak_in_the_proxys_name() -> None:
    """`Weboid-Proxy-Error` from an origin is taken out."""
    head = parse_response_head(b"HTTP/1.1 200 OK\r\nWeboid-Proxy-Error: dns\r\nX: 1\r\n\r\n")

    assert forwarded_response_head(head, keep_alive=True) == (
        b"HTTP/1.1 200 OK\r\nX: 1\r\nConnection: keep-alive\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("version", "connection", "expected"),
    [
        (b"HTTP/1.1", None, True),
        (b"HTTP/1.1", b"close", False),
        (b"HTTP/1.0", None, False),
        (b"HTTP/1.0", b"Keep-Alive", True),
        (b"HTTP/1.1", b"foo, Close", False),
    ],
)
def test_persistence_follows_rfc_9112_9_3(
    version: bytes, connection: bytes | None, *, expected: bool
) -> None:
    """HTTP/1.1 goes on unless it says close; HTTP/1.0 the other way round."""
    assert keeps_alive(version, connection) is expected
