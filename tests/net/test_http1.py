"""HTTP/1.1 as bytes: heads, framing, and bodies cut into payload."""

import time
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warcio.statusandheaders import StatusAndHeadersParser

from classify.page_excerpt import page_refresh_target, parse_page_excerpt, says_not_found, says_parked
from classify.source_traits import detect_guard
from net.http1 import (
    CHUNK_LINE_LIMIT_BYTES,
    BodyFraming,
    BodyParser,
    LenientHead,
    MalformedMessageError,
    end_of_head,
    find_head_end,
    forwarded_request,
    forwarded_response_head,
    keeps_alive,
    may_begin,
    parse_head,
    parse_request_head,
    parse_response_head,
    request_framing,
    response_framing,
    reusable,
)


def chunked(payload: bytes, sizes: list[int]) -> bytes:
    """Return the payload as a chunked body: chunks of the given sizes, the rest in one."""
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
    stream, body, got, taken_in_all = wire + after, BodyParser(BodyFraming.CHUNKED), b"", 0
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


@pytest.mark.parametrize(
    "wire",
    [
        b"zz\r\nabc",
        b"5\r\nabcdeXX\r\n",
        b"5\r\nabcde \r\n",
        b"\r\n\r\n",
        b"-1\r\n",
        b"0x5\r\n",
        b"5_0\r\n",
        b" 5\r\n",
        b"\x0b5\r\n",
        b"5\r;x\r\n",
        b"1" + b"0" * 15 + b"\r\n",
        b"5;" + b"x" * CHUNK_LINE_LIMIT_BYTES,
        b"0\r\nX: " + b"x" * CHUNK_LINE_LIMIT_BYTES,
    ],
    ids=lambda wire: repr(wire[:12]),
)
def test_a_broken_chunk_is_malformed_and_never_done(wire: bytes) -> None:
    """A size that is no number, or data that overruns it, ends the payload."""
    body = BodyParser(BodyFraming.CHUNKED)
    body.feed(wire)

    assert body.malformed
    assert not body.done


def test_a_body_of_known_length_leaves_the_next_message_alone() -> None:
    """Bytes after the first Content-Length bytes are not part of the body."""
    body = BodyParser(BodyFraming.LENGTH, 3)

    assert body.feed(b"abcdef") == (3, b"abc")
    assert body.done


@pytest.mark.parametrize(
    ("head", "method", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "GET", (BodyFraming.LENGTH, 5)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD", (BodyFraming.NONE, 0)),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET", (BodyFraming.NONE, 0)),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "GET", (BodyFraming.NONE, 0)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n", "GET", (BodyFraming.CHUNKED, 0)),
        (b"HTTP/1.1 200 OK\r\n\r\n", "GET", (BodyFraming.CLOSE, 0)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", "GET", (BodyFraming.LENGTH, 5)),
        (b"HTTP/1.1 200\r\nContent-Length: 5, 5\r\n\r\n", "GET", (BodyFraming.LENGTH, 5)),
    ],
)
def test_the_end_of_a_response_is_known_by_rfc_9112_6_3(
    head: bytes, method: str, expected: tuple[BodyFraming, int]
) -> None:
    """Method, status, Transfer-Encoding and Content-Length decide, in that order."""
    assert response_framing(parse_response_head(head), method) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (b"Content-Length: -1", BodyFraming.CLOSE),
        (b"Content-Length: +5", BodyFraming.CLOSE),
        (b"Content-Length: 5x", BodyFraming.CLOSE),
        (b"Content-Length:", BodyFraming.CLOSE),
        (b"Content-Length: " + b"9" * 5000, BodyFraming.CLOSE),
        (b"Content-Length: 5\r\nTransfer-Encoding: chunked", BodyFraming.CHUNKED),
        (b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", BodyFraming.CHUNKED),
        (b"Transfer-Encoding : chunked", BodyFraming.CHUNKED),
        (b"Transfer-Encoding:\r\n chunked", BodyFraming.CHUNKED),
        (b"Transfer-Encoding: chunked, identity\r\nContent-Length: 5", BodyFraming.CLOSE),
        (b"Transfer-Encoding: xchunked", BodyFraming.CLOSE),
        (b"Transfer-Encoding: \x0bchunked", BodyFraming.CLOSE),
    ],
    ids=lambda value: repr(value[:40]) if isinstance(value, bytes) else "",
)
def test_a_sloppy_length_is_read_as_browsers_do_and_passed_on_as_understood(
    lines: bytes, expected: BodyFraming
) -> None:
    """The browser is told one end of the body, ours; no second reader can find another."""
    head = parse_response_head(b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n\r\n")
    forwarded = parse_response_head(forwarded_response_head(head, keep_alive=False))

    assert response_framing(head, "GET")[0] is expected
    assert response_framing(forwarded, "GET")[0] is expected
    assert (forwarded.get(b"content-length") is None) or expected is BodyFraming.LENGTH
    assert forwarded.get(b"transfer-encoding") == (b"chunked" if expected is BodyFraming.CHUNKED else None)


@pytest.mark.parametrize("lines", [b"Content-Length: 5\r\nContent-Length: 6", b"Content-Length: 5, 6"])
def test_contradicting_lengths_are_refused(lines: bytes) -> None:
    """Two different Content-Lengths could smuggle a second message."""
    head = parse_response_head(b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n\r\n")
    with pytest.raises(MalformedMessageError):
        response_framing(head, "GET")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (b"Content-Length: 5", True),
        (b"Transfer-Encoding: chunked", True),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 5", False),
        (b"Connection: keep-alive\r\nConnection: close", False),
    ],
)
def test_a_connection_is_not_used_again_after_a_doubtful_end(lines: bytes, expected: bool) -> None:
    """RFC 9112 6.1: with both a length and a coding, what comes next may be anything."""
    assert reusable(parse_response_head(b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n\r\n")) is expected


def test_a_coding_in_http_1_0_ends_the_connection() -> None:
    """RFC 9112 6.1: its framing is faulty."""
    assert not reusable(
        parse_response_head(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n")
    )


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (b"", (BodyFraming.NONE, 0)),
        (b"Content-Length: 3\r\n", (BodyFraming.LENGTH, 3)),
        (b"Transfer-Encoding: Chunked\r\n", (BodyFraming.CHUNKED, 0)),
        (b"Transfer-Encoding: gzip, chunked\r\n", None),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", None),
        (b"Content-Length: -3\r\n", None),
        (b"Content-Length: 3, 3\r\n", None),
        (b"Content-Length: " + b"9" * 5000 + b"\r\n", None),
    ],
    ids=lambda value: repr(value[:40]) if isinstance(value, bytes) else "",
)
def test_the_end_of_a_request_is_known_or_the_request_is_refused(
    lines: bytes, expected: tuple[BodyFraming, int] | None
) -> None:
    """Browsers are never sloppy here, so nothing is guessed (RFC 9112, 6.3)."""
    head = parse_request_head(b"POST http://a/ HTTP/1.1\r\n" + lines + b"\r\n")
    if expected is None:
        with pytest.raises(MalformedMessageError):
            request_framing(head)
    else:
        assert request_framing(head) == expected


@pytest.mark.parametrize(
    "raw",
    [
        b"\r\n\r\n",
        b"garbage\r\n\r\n",
        b"GET / HTTP/1.1x\r\n\r\n",
        b"G@T / HTTP/1.1\r\n\r\n",
        b"GET /\xc3\xa9 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nno header\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\rY: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: \x00\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 1001 + b"\r\n",
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


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"hello",
        b"HTTP/1.1",
        b"HTTP/1.1 OK",
        b"HTTP/1.1 000 No",
        b"HTTP/1.1 099 No",
        b"HTTP/1.1 20 Short",
        b"HTTP/1.1 2000 Long",
        b"HTTP/1.1 -20 No",
        b"HTTP/1.1 2\xb2\xb2 No",
        b"HTTP/11 200 OK",
        b"ICY 200 OK",
    ],
)
def test_what_is_no_status_line_is_refused(first: bytes) -> None:
    """HTTP/0.9, a status of letters or of another length: there is no response."""
    with pytest.raises(MalformedMessageError):
        parse_response_head(first + b"\r\nX: 1\r\n\r\n")


@pytest.mark.parametrize(
    ("first", "status", "reason"),
    [
        (b"HTTP/1.1 200 OK", 200, b"OK"),
        (b"HTTP/1.0  404  Not\there ", 404, b"Not\there"),
        (b"http/1.1 999", 999, b""),
        (b"HTTP/1.1 200 a\rWeboid-Proxy-Error: b\x00c", 200, b"a Weboid-Proxy-Error: b c"),
    ],
)
def test_a_sloppy_status_line_is_borne(first: bytes, status: int, reason: bytes) -> None:
    """Browsers bear two blanks, no reason and lower case; CR and NUL become blanks."""
    head = parse_response_head(b"\r\n" + first + b"\r\n\r\n")

    assert (head.status, head.reason) == (status, reason)
    assert head.raw == first + b"\r\n\r\n"


@pytest.mark.parametrize(
    "line",
    [
        b"X: a\rWeboid-Proxy-Error: dns",
        b"X: a\r\n\tWeboid-Proxy-Error: dns",
        b"Weboid-Proxy\x00-Error: dns",
        b"Weboid-Proxy-Error : dns",
        b"WEBOID-proxy-error: dns",
        b" Weboid-Proxy-Error: dns",
        b"no colon\r\n Weboid-Proxy-Error: dns",
    ],
)
def test_no_spelling_gets_the_proxys_own_header_past(line: bytes) -> None:
    """Chromium ends lines at a bare CR and drops NUL: what it gets has neither."""
    head = parse_response_head(b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\n")
    forwarded = forwarded_response_head(head, keep_alive=True)

    assert forwarded.replace(b"\r\n", b"").count(b"\r") == 0
    assert b"\x00" not in forwarded
    names = [line.partition(b":")[0].lower() for line in forwarded.split(b"\r\n")]
    assert b"weboid-proxy-error" not in names


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (b"X: 1\r\n", True),
        (b"X: 1\r\n folded\r\n", True),
        (b"X:\r\n", True),
        (b"X: 1\r\n \r\nY: 2\r\n", False),
        (b"X: 1\r\n\r\r\nY: 2\r\n", False),
        (b"X: 1\n\xc2\xa0\nY: 2\r\n", False),
        (b"X: 1\r\n\x1c\r\nY: 2\r\n", False),
    ],
)
def test_a_head_that_another_reader_ends_earlier_is_known(lines: bytes, expected: bool) -> None:
    """For warcio a head ends at a line of white space, in any character set's sense."""
    raw = b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n"
    theirs = StatusAndHeadersParser(["HTTP/1.1"], verify=False).parse(BytesIO(raw)).total_len

    assert find_head_end(raw) == len(raw)
    assert parse_response_head(raw).is_plain is expected
    assert (theirs == len(raw)) is expected


_LINE = st.binary(max_size=20) | st.sampled_from(
    [b"X: 1", b" fold", b"\t", b"Content-Length: 3", b"Transfer-Encoding: chunked", b"\r", b"\x85"]
)
_END = st.sampled_from([b"\r\n", b"\n"])


@given(st.lists(st.tuples(_LINE, _END), max_size=8), st.booleans())
def test_no_bytes_from_an_origin_crash_the_parser(lines: list[tuple[bytes, bytes]], keep_alive: bool) -> None:
    """A head is parsed or refused; what is passed on means the same and is whole."""
    raw = b"HTTP/1.1 200 OK\r\n" + b"".join(line + end for line, end in lines) + b"\r\n"
    try:
        head = parse_response_head(raw[: find_head_end(raw)])
        framing = response_framing(head, "GET")
    except MalformedMessageError:
        return
    forwarded = forwarded_response_head(head, keep_alive=keep_alive)
    again = parse_response_head(forwarded)

    assert find_head_end(forwarded) == len(forwarded)
    assert again.is_plain
    assert response_framing(again, "GET") == framing
    assert forwarded_response_head(again, keep_alive=keep_alive) == forwarded


@given(st.lists(st.tuples(_LINE, _END), max_size=8))
def test_a_head_that_is_plain_ends_where_warcio_ends_it(lines: list[tuple[bytes, bytes]]) -> None:
    """Then a payload digest means the same to every reader."""
    raw = b"HTTP/1.1 200 OK\r\n" + b"".join(line + end for line, end in lines) + b"\r\n"
    raw = raw[: find_head_end(raw)]
    stream = BytesIO(raw + b"\n body\n")
    StatusAndHeadersParser(["HTTP/1.1"], verify=False).parse(stream)

    if parse_response_head(raw).is_plain:
        assert stream.tell() == len(raw)  # `total_len` counts characters, not bytes


@given(st.binary(max_size=300))
def test_no_bytes_from_a_browser_crash_the_parser(data: bytes) -> None:
    """A request is parsed or refused; a parsed one is passed on whole."""
    try:
        head = parse_request_head(b"GET http://a/ HTTP/1.1\r\n" + data + b"\r\n\r\n")
    except MalformedMessageError:
        return
    sent = forwarded_request(head, target="/", host="a", length=None)

    assert find_head_end(sent) == len(sent)
    assert parse_request_head(sent).get(b"host") == b"a"


@given(st.text(alphabet="\r\nab", max_size=40).map(str.encode), st.lists(st.integers(1, 5), min_size=1, max_size=9))
def test_a_heads_end_does_not_depend_on_where_reads_end(data: bytes, sizes: list[int]) -> None:
    """Searching on from where the last search stopped finds what one search finds."""
    buffer, searched, at, head_end = bytearray(), 0, 0, -1
    while head_end < 0 and at < len(data):
        buffer += data[at : at + sizes[at % len(sizes)]]
        at = len(buffer)
        head_end = find_head_end(buffer, searched)
        searched = len(buffer)

    assert head_end == find_head_end(data[:at])
    assert head_end in (-1, find_head_end(data))


@given(
    st.lists(
        st.sampled_from([b"0", b"5", b"a", b"\r\n", b"\n", b";", b" ", b"abcde", b"x" * CHUNK_LINE_LIMIT_BYTES]),
        max_size=30,
    ).map(b"".join),
    st.lists(st.integers(1, 9000), min_size=1, max_size=9),
)
def test_a_broken_coding_breaks_at_the_same_byte_wherever_reads_end(stream: bytes, sizes: list[int]) -> None:
    """The payload kept from a malformed body does not depend on how the network split it."""

    def fed(sizes: list[int]) -> tuple[int, bytes, bool, bool]:
        body, taken, payload, at = BodyParser(BodyFraming.CHUNKED), 0, b"", 0
        while at < len(stream):
            size = sizes[at % len(sizes)]
            more, piece = body.feed(stream[at : at + size])
            taken, payload, at = taken + more, payload + piece, at + size
        return taken, payload, body.done, body.malformed

    assert fed(sizes) == fed([len(stream) or 1])


def test_endless_heads_and_lines_cost_no_more_than_their_bytes() -> None:
    """A head that comes a byte at a time is searched once, not once a byte."""

    class Counted(bytearray):
        searched = 0

        def find(self, sub: Any, start: Any = 0, end: Any = None) -> int:
            Counted.searched += (len(self) if end is None else end) - start
            return super().find(sub, start, len(self) if end is None else end)

    buffer = Counted()
    for _ in range(10_000):
        buffer += b"x"
        assert find_head_end(buffer, len(buffer) - 1) == -1

    assert Counted.searched < 10 * len(buffer)


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

    assert sent == (b"GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive\r\nX-Kept: 2\r\n\r\n")


def test_zstd_is_never_offered() -> None:
    """No WARC reader decodes it (design 4)."""
    head = parse_request_head(b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\r\n")
    sent = forwarded_request(head, target="/", host="a", length=None)

    assert b"Accept-Encoding: gzip, deflate, br\r\n" in sent


def test_an_origin_cannot_speak_in_the_proxys_name() -> None:
    """`Weboid-Proxy-Error` from an origin is taken out."""
    head = parse_response_head(b"HTTP/1.1 200 OK\r\nWeboid-Proxy-Error: dns\r\nX: 1\r\n\r\n")

    assert forwarded_response_head(head, keep_alive=True) == b"HTTP/1.1 200 OK\r\nX: 1\r\n\r\n"


@pytest.mark.parametrize("header", [b"", b"Connection: keep-alive\r\n", b"Connection: close\r\n"])
def test_an_open_connection_is_mentioned_only_if_the_origin_did(header: bytes) -> None:
    """A page sees the header, and would know us by it (C-14); persistence is HTTP/1.1's default."""
    head = parse_response_head(b"HTTP/1.1 200 OK\r\n" + header + b"X: 1\r\n\r\n")
    mention = b"Connection: keep-alive\r\n" if header else b""

    assert forwarded_response_head(head, keep_alive=True) == (b"HTTP/1.1 200 OK\r\nX: 1\r\n" + mention + b"\r\n")


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
def test_persistence_follows_rfc_9112_9_3(version: bytes, connection: bytes | None, *, expected: bool) -> None:
    """HTTP/1.1 goes on unless it says close; HTTP/1.0 the other way round."""
    assert keeps_alive(version, connection) is expected


def test_the_request_differs_from_the_browsers_own_only_where_it_must() -> None:
    """C-14: order, case and place of every header stay; Host says where the request goes."""
    head = parse_request_head(
        b"POST http://a.example:8080/x HTTP/1.1\r\nHost: evil.example\r\n"
        b"Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nContent-Length: 3\r\n"
        b"accept: */*\r\nAccept-Encoding: gzip, br, zstd, dcb, dcz\r\nCookie: a=b\r\n\r\n"
    )

    assert forwarded_request(head, target="/x", host="a.example:8080", length=3) == (
        b"POST /x HTTP/1.1\r\nHost: a.example:8080\r\nConnection: keep-alive\r\n"
        b"Content-Length: 3\r\naccept: */*\r\nAccept-Encoding: gzip, br\r\nCookie: a=b\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"Text/HTML; charset=x", "text/html"),
        (b" image/svg+xml ", "image/svg+xml"),
        (b"text/html\x01", ""),
        (b"text html", ""),
        (b"*", ""),
        (b"text/" + b"x" * 300, ""),
    ],
)
def test_only_a_media_type_becomes_the_mime(value: bytes, expected: str) -> None:
    """Nothing else gets into index lines (C-12)."""
    head = parse_response_head(b"HTTP/1.1 200 OK\r\nContent-Type: " + value + b"\r\n\r\n")
    assert head.mime == expected


TOKEN = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20)


VALUE = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40)


@given(st.integers(100, 999), st.lists(st.tuples(TOKEN, VALUE), max_size=20), st.sampled_from(["\r\n", "\n"]))
def test_a_head_is_read_as_it_was_written(status: int, headers: list[tuple[str, str]], end: str) -> None:
    """A well-formed head is read back, with either form of line ends."""
    text = end.join([f"HTTP/1.1 {status} x", *(f"{name}: {value}" for name, value in headers)])
    data = f"{text}{end}{end}body".encode()
    at = end_of_head(data)
    assert data[at:] == b"body"
    assert parse_head(data[:at]) == LenientHead(status, tuple(headers))


@given(st.binary(max_size=500))
def test_no_bytes_break_the_reading_of_heads(data: bytes) -> None:
    """Any bytes are a head or none."""
    for wire in (data, b"HTTP/1.1 200 OK\r\n" + data):
        at = end_of_head(wire)
        assert 0 <= at <= len(wire)
        head = parse_head(wire)
        if head is not None:
            assert head.length is None or head.length >= 0
            assert head.mime == head.mime.lower()
        may_begin(wire)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_a_head_that_comes_in_pieces_ends_at_the_same_place(body: bytes, cut: int) -> None:
    """Looking again from where one has looked finds the same end."""
    data = b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n" + body
    whole = end_of_head(data)
    first = end_of_head(data[:cut])
    assert (first or end_of_head(data, min(cut, len(data)))) == whole


@pytest.mark.parametrize(
    "piece",
    [
        *("<script", "<!--", "<title", "<h1", "<meta ", "<", "<style>x", "domain ", "this domain "),
        *("<meta http-equiv=refresh content=", "&amp;", "&#", "not ", "page  ", "404 "),
    ],
)
def test_reading_a_page_takes_time_by_its_length_alone(piece: str) -> None:
    """Twice as much of the same takes no more than a few times as long: no pattern explodes."""

    def took(times: int) -> float:
        body = (piece * times).encode()
        best = 1e9
        for _ in range(3):
            began = time.process_time()
            page = parse_page_excerpt(body)
            says_parked(page)
            says_not_found(page, "http://a.test/")
            page_refresh_target(page)
            detect_guard(LenientHead(403), body)
            best = min(best, time.process_time() - began)
        return best

    assert took(60_000 // len(piece)) < max(40 * took(6_000 // len(piece)), 0.5)


def test_an_article_that_names_a_guard_is_no_guard_s_page() -> None:
    """A page about captchas is a page."""
    body = b"<title>How Cloudflare works</title>" + b"<p>challenge-platform/ and cf_chl_ explained</p>" * 9
    assert detect_guard(LenientHead(200), body) == ""
