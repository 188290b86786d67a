"""The reverse proxy over real connections: what it changes, and all that it does not."""

import contextlib
import gzip
import http.client
import re
import socket
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from isal import igzip

from tests.support.embed_fixtures import Running
from tests.support.embed_front import StubFront, answer_of
from tests.support.embed_upstream import EmbedUpstream, page, running_upstream
from wiki.embed import reverse_proxy
from wiki.embed.page_marker import remove_marks
from wiki.embed.proxy_message import PrivatePages

pytestmark = pytest.mark.slow

URL = "https://cited.example.com/x"
HTML = f'<p>A page &amp; <a class="external" href="{URL}">a link</a>.</p>'.encode()
LIMIT_S = 120.0


@pytest.fixture
def upstream() -> Iterator[EmbedUpstream]:
    """Yield a wiki whose answers tests can set."""
    with running_upstream() as running:
        running.answer = lambda _: page(HTML)
        yield running


class ProxyAnswer:
    """An answer: its status, its fields as they came, and its body."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.fields = answer.getheaders()
        self.body = answer.read()

    def get(self, name: str) -> str | None:
        """Return the field of that name, in lower case; None when there is none."""
        return next((text for key, text in self.fields if key.lower() == name), None)


def ask(port: int, target: str = "/", *, method: str = "GET", body: bytes | None = None, **fields: Any) -> ProxyAnswer:
    """Send one request; underscores in field names become hyphens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        named = {key.replace("_", "-"): text for key, text in fields.items()}
        connection.request(method, target, body=body, headers=named)
        return ProxyAnswer(connection.getresponse())
    finally:
        connection.close()


def test_a_page_gains_the_copies_of_what_it_cites(upstream: EmbedUpstream, front: StubFront, proxied: Running) -> None:
    """Its links are asked for in one question, and nothing else of it changes."""
    answer = ask(proxied(upstream.origin), "/wiki/Page?x=1")

    assert b'<sup class="weboid-cached weboid-copy">' in answer.body
    assert remove_marks(answer.body) == HTML
    assert answer.get("content-length") == str(len(answer.body))
    assert answer.get("weboid-embed") == "marked; links=1; answers=1"
    assert front.queries == [{"wiki": "me@me", "urls": [URL], "lang": None}]


def test_a_second_view_asks_nothing(upstream: EmbedUpstream, front: StubFront, proxied: Running) -> None:
    """Answers of the front are reused for as long as it allows."""
    port = proxied(upstream.origin)

    assert ask(port).body == ask(port).body
    assert len(front.queries) == 1


def test_a_front_that_is_away_changes_nothing_and_is_left_alone(
    upstream: EmbedUpstream, front: StubFront, proxied: Running
) -> None:
    """The page comes as it was, and the next one does not wait."""
    front.status = 503
    port = proxied(upstream.origin)

    assert [ask(port).body for _ in range(3)] == [HTML] * 3
    assert len(front.queries) == 1


def test_a_front_that_hangs_costs_one_page_its_time_out(
    upstream: EmbedUpstream, front: StubFront, proxied: Running
) -> None:
    """Nobody waits for an archive."""
    front.released.clear()
    port = proxied(upstream.origin, timeout_s_front=0.2)

    assert [ask(port).body for _ in range(3)] == [HTML] * 3
    assert len(front.queries) == 1


PLAIN = {
    "css": page(b'a{x:"<a href=https://a.example.com>"}', kind="text/css"),
    "json": page(b'{"html":"<a href=https://a.example.com/>"}', kind="application/json"),
    "xhtml": page(HTML, kind="application/xhtml+xml"),
    "no-type": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(HTML) + HTML,
    "download": page(HTML, "Content-Disposition: attachment; filename=x.html"),
    "no-transform": page(HTML, "Cache-Control: public, no-transform"),
    "brotli": page(HTML, "Content-Encoding: br"),
    "new-cookie": page(HTML, "Set-Cookie: a=b"),
    "utf-16": page(HTML.decode().encode("utf-16"), kind="text/html; charset=utf-16"),
}


@pytest.mark.parametrize("response", PLAIN.values(), ids=PLAIN.keys())
def test_what_is_no_page_to_mark_passes_as_it_is(response: bytes, upstream: EmbedUpstream, proxied: Running) -> None:
    """To the byte, with its own fields."""
    upstream.answer = lambda _: response

    answer = ask(proxied(upstream.origin))

    assert answer.body == response.partition(b"\r\n\r\n")[2]


PROGRAMS = {
    "script": {"sec_fetch_dest": "empty", "accept": "text/html"},
    "old-script": {"x_requested_with": "XMLHttpRequest", "accept": "text/html"},
    "picture": {"accept": "image/avif,image/*"},
    "account": {"authorization": "Basic eDp5"},
}


@pytest.mark.parametrize("fields", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_what_a_program_or_an_account_asks_for_passes_as_it_is(
    fields: dict[str, Any], upstream: EmbedUpstream, front: StubFront, proxied: Running
) -> None:
    """An editor would save the marks; a private page's links are nobody's business."""
    assert ask(proxied(upstream.origin), **fields).body == HTML
    assert front.queries == []


@pytest.mark.parametrize("target", ["/rest.php/v1/page/X/html", "/w/rest.php/x", "/api.php?action=x", "/own/x"])
def test_paths_for_programs_are_never_marked(target: str, upstream: EmbedUpstream, proxied: Running) -> None:
    """Parsoid's HTML is read and written back."""
    port = proxied(upstream.origin, skip_paths=("/rest.php/", "/w/rest.php/", "/api.php", "/own/"))

    assert ask(port, target).body == HTML


def test_private_pages_are_asked_about_where_the_operator_says_so(upstream: EmbedUpstream, proxied: Running) -> None:
    """Some wikis give everybody a cookie."""
    upstream.answer = lambda _: page(HTML, "Set-Cookie: a=b", "Set-Cookie: c=d; HttpOnly")

    answer = ask(proxied(upstream.origin, private=PrivatePages.ASK), authorization="Basic eDp5")

    assert b"weboid-cached" in answer.body
    assert [text for name, text in answer.fields if name == "set-cookie"] == ["a=b", "c=d; HttpOnly"]


@pytest.mark.parametrize("coding", ["gzip", "deflate", "bare-deflate", "two-members"])
def test_a_packed_page_is_marked_and_sent_packed(coding: str, upstream: EmbedUpstream, proxied: Running) -> None:
    """Never twice, and only to who reads it."""
    bare = zlib.compressobj(wbits=-15)
    packed = {
        "gzip": gzip.compress(HTML),
        "deflate": zlib.compress(HTML),
        "bare-deflate": bare.compress(HTML) + bare.flush(),
        "two-members": gzip.compress(HTML[:9]) + gzip.compress(HTML[9:]),
    }[coding]
    name = "deflate" if "deflate" in coding else "gzip"
    upstream.answer = lambda _: page(packed, f"Content-Encoding: {name}")
    port = proxied(upstream.origin)

    plain, small = ask(port), ask(port, accept_encoding="gzip, br")

    assert remove_marks(plain.body) == HTML
    assert plain.get("content-encoding") is None
    assert remove_marks(gzip.decompress(small.body)) == HTML
    assert small.get("content-encoding") == "gzip"
    assert "accept-encoding" in (small.get("vary") or "").lower()
    assert upstream.fields()["accept-encoding"] == "gzip"


@pytest.mark.parametrize(
    "packed",
    [b"no gzip", gzip.compress(HTML)[:-9], igzip.compress(bytes(9 << 20), 1)],
    ids=["damaged", "cut-short", "bomb"],
)
def test_a_page_that_cannot_be_unpacked_passes_as_it_is(
    packed: bytes, upstream: EmbedUpstream, proxied: Running
) -> None:
    """Damaged, cut short, or a bomb."""
    upstream.answer = lambda _: page(packed, "Content-Encoding: gzip")

    answer = ask(proxied(upstream.origin), accept_encoding="gzip")

    assert answer.body == packed
    assert answer.get("weboid-embed") == "passed; why=damaged"


def test_a_page_over_the_limit_passes_as_it_is(upstream: EmbedUpstream, proxied: Running) -> None:
    """The part that was read comes first, then the rest."""
    upstream.answer = lambda _: page(HTML + b"x" * 300_000)

    answer = ask(proxied(upstream.origin, page_limit=100_000))

    assert answer.body == HTML + b"x" * 300_000
    assert answer.get("weboid-embed") == "passed; why=too-large"


def test_a_page_that_comes_slowly_streams(upstream: EmbedUpstream, proxied: Running) -> None:
    """A reader sees its beginning before its end exists."""
    more = threading.Event()

    def slowly(_: str) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + HTML
        more.wait(120)
        yield b"the end"

    upstream.answer = slowly
    port = proxied(upstream.origin, patience_s=0.2)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    connection.request("GET", "/")
    answer = connection.getresponse()

    assert answer.read(len(HTML)) == HTML
    more.set()
    assert answer.read() == b"the end"
    assert answer.headers["weboid-embed"] == "passed; why=too-slow"
    connection.close()


def test_a_reader_who_has_the_page_gets_304_until_what_is_known_changes(
    upstream: EmbedUpstream, front: StubFront, proxied: Running
) -> None:
    """The page's validator is of what the reader got, marks included."""
    front.fresh_s = 0
    upstream.answer = lambda _: page(HTML, 'ETag: "upstream"', "Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT")
    port = proxied(upstream.origin)
    first = ask(port)
    tag = first.get("etag") or ""

    again = ask(port, if_none_match=tag)
    front.link_answer = lambda url: answer_of(url, front.origin, dead=True)
    later = ask(port, if_none_match=f'"other", {tag}')

    assert tag.startswith('W/"weboid-')
    assert (first.get("last-modified"), first.get("accept-ranges")) == (None, None)
    assert (again.status, again.body, again.get("etag")) == (304, b"", tag)
    assert later.status == 200
    assert "if-none-match" not in upstream.fields()


def test_of_what_is_no_page_the_wiki_s_own_validators_count(upstream: EmbedUpstream, proxied: Running) -> None:
    """A document that a reader opens again is not sent again."""
    response = page(b"%PDF", 'ETag: "v1"', kind="application/pdf")
    upstream.answer = lambda _: response
    port = proxied(upstream.origin)

    assert ask(port).get("etag") == '"v1"'
    assert ask(port, if_none_match='"v1"').status == 304
    assert ask(port, if_none_match='"v2"').body == b"%PDF"
    upstream.answer = lambda _: b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\n\r\n'
    assert ask(port, accept="image/*", if_none_match='"v1"').status == 304
    assert upstream.fields()["if-none-match"] == '"v1"'


def test_a_part_of_a_page_is_answered_with_the_whole(upstream: EmbedUpstream, proxied: Running) -> None:
    """Parts of another page would not fit together; of files they pass."""

    def answer(_: str) -> bytes:
        is_part = "range" in upstream.fields()
        return page(HTML[:5], "Content-Range: bytes 0-4/99", status="206 Partial Content") if is_part else page(HTML)

    upstream.answer = answer
    port = proxied(upstream.origin)

    assert remove_marks(ask(port, range="bytes=0-4").body) == HTML
    part = ask(port, accept="video/*", range="bytes=0-4")
    assert (part.status, part.body) == (206, HTML[:5])


def test_a_head_says_nothing_of_a_length_that_nobody_knows(upstream: EmbedUpstream, proxied: Running) -> None:
    """The page is marked when it is asked for."""
    upstream.answer = lambda _: page(HTML, 'ETag: "x"').partition(b"<p>")[0]

    answer = ask(proxied(upstream.origin), method="HEAD")

    assert (answer.status, answer.body) == (200, b"")
    assert (answer.get("content-length"), answer.get("etag")) == (None, None)


def test_the_wiki_is_told_who_asks(upstream: EmbedUpstream, proxied: Running) -> None:
    """The host as the reader asked for it; what a reader says of itself is not believed."""
    port = proxied(upstream.origin)
    ask(port, "/a%2Fb?c=%20d&&", host="wiki.example", x_forwarded_for="9.9.9.9", forwarded="for=9.9.9.9",
        cookie="a=b; c=d", connection="x-one-hop", x_one_hop="1", te="trailers", proxy_authorization="x")  # fmt: skip

    fields = upstream.fields()

    assert upstream.requests[-1].startswith(b"GET /a%2Fb?c=%20d&& HTTP/1.1")
    assert fields["host"] == fields["x-forwarded-host"] == "wiki.example"
    assert (fields["x-forwarded-for"], fields["x-forwarded-proto"]) == ("127.0.0.1", "http")
    assert fields["cookie"] == "a=b; c=d"
    assert not {"forwarded", "x-one-hop", "te", "proxy-authorization", "connection"} & set(fields)


def test_a_proxy_before_us_is_believed_when_it_is_known(upstream: EmbedUpstream, proxied: Running) -> None:
    """Then its word of the reader is passed on, with its own address behind it."""
    import ipaddress

    port = proxied(upstream.origin, behind=(ipaddress.ip_network("127.0.0.0/8"),), keeps_host=False)
    ask(port, x_forwarded_for="9.9.9.9", x_forwarded_proto="https", host="wiki.example")

    fields = upstream.fields()

    assert fields["x-forwarded-for"] == "9.9.9.9, 127.0.0.1"
    assert fields["x-forwarded-proto"] == "https"
    assert fields["host"] == f"127.0.0.1:{upstream.port}"


def test_redirects_and_refusals_are_the_wiki_s(upstream: EmbedUpstream, proxied: Running) -> None:
    """They are not followed; an address of the wiki's own origin becomes the reader's."""
    upstream.answer = lambda _: page(b"", f"Location: {upstream.origin}/x?y", status="302 Found")
    port = proxied(upstream.origin)

    moved = ask(port)
    upstream.answer = lambda _: page(b"", "Location: https://elsewhere.example/", status="302 Found")
    away = ask(port)
    upstream.answer = lambda _: page(HTML, status="404 Not Found")
    missing = ask(port)

    assert (moved.status, moved.get("location")) == (302, f"http://127.0.0.1:{port}/x?y")
    assert away.get("location") == "https://elsewhere.example/"
    assert (missing.status, remove_marks(missing.body)) == (404, HTML)
    assert missing.body != HTML


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"])
def test_every_method_passes_with_its_body(method: str, upstream: EmbedUpstream, proxied: Running) -> None:
    """And its answer, unmarked: a preview's links are nobody's yet."""
    answer = ask(proxied(upstream.origin), "/x", method=method, body=b"a=b")

    assert upstream.requests[-1].startswith(f"{method} /x HTTP/1.1".encode())
    assert upstream.bodies[-1] == 3
    assert answer.body == HTML


def test_an_upload_of_a_hundred_megabytes_streams(upstream: EmbedUpstream, proxied: Running) -> None:
    """With its length when it says one, in chunks when it does not."""
    port = proxied(upstream.origin)
    part = bytes(1 << 20)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)

    for fields in ({"Content-Length": str(100 << 20)}, {"Transfer-Encoding": "chunked"}):
        connection.request(
            "POST", "/up", body=(part for _ in range(100)), headers=fields, encode_chunked="Transfer-Encoding" in fields
        )
        assert connection.getresponse().read() == HTML
    connection.close()

    assert upstream.bodies[0] == 100 << 20
    assert upstream.bodies[1] > 100 << 20
    assert "content-length" not in upstream.fields(1)


def test_a_download_of_a_hundred_megabytes_streams(upstream: EmbedUpstream, proxied: Running) -> None:
    """It is not held, whatever its type."""
    size = 100 << 20

    def large(_: str) -> Iterator[bytes]:
        yield f"HTTP/1.1 200 OK\r\nContent-Type: video/webm\r\nContent-Length: {size}\r\n\r\n".encode()
        for _part in range(100):
            yield bytes(1 << 20)

    upstream.answer = large

    assert len(ask(proxied(upstream.origin)).body) == size


def test_idle_connections_hold_up_no_reader(
    upstream: EmbedUpstream, proxied: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than it takes at once: those that ask nothing make room."""
    monkeypatch.setattr(reverse_proxy, "_MOST_CONNECTIONS", 16)
    port = proxied(upstream.origin)
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        answer = ask(port)

    assert answer.status == 200


def test_a_wiki_that_is_away_is_said_to_be(proxied: Running) -> None:
    """With a status that caches and monitors understand, and no word about where it is."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    answer = ask(proxied(f"http://127.0.0.1:{port}"))

    assert answer.status == 502
    assert b"The wiki does not answer" in answer.body
    assert str(port).encode() not in answer.body
    assert answer.get("cache-control") == "no-store"


BROKEN = {
    "nothing": b"",
    "no-http": b"SSH-2.0-x\r\n\r\n",
    "half-a-head": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "half-a-page": page(HTML)[:-10],
    "bad-chunks": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
}


@pytest.mark.parametrize("response", BROKEN.values(), ids=BROKEN.keys())
def test_a_wiki_that_breaks_off_is_a_bad_gateway(response: bytes, upstream: EmbedUpstream, proxied: Running) -> None:
    """A page is held until it is whole, so that nobody takes half of one for all."""
    upstream.answer = lambda _: response

    assert ask(proxied(upstream.origin)).status == 502


def test_a_file_that_breaks_off_breaks_off_for_the_reader(upstream: EmbedUpstream, proxied: Running) -> None:
    """Nobody takes half of a file for all of it."""
    upstream.answer = lambda _: page(b"x" * 99_999, kind="image/png")[:-9]

    with pytest.raises(http.client.IncompleteRead):
        ask(proxied(upstream.origin))


def test_a_wiki_that_takes_too_long_is_a_gateway_time_out(upstream: EmbedUpstream, proxied: Running) -> None:
    """After the time that the operator gives it."""
    hold = threading.Event()

    def never(_: str) -> Iterator[bytes]:
        hold.wait(120)
        yield b""

    upstream.answer = never
    answer = ask(proxied(upstream.origin, timeout_s=0.3))
    hold.set()

    assert answer.status == 504


def raw(port: int, data: bytes, *, ends: bool = True) -> bytes:
    """Send those bytes and nothing more; return all that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as client:
        client.sendall(data)
        if ends:
            client.shutdown(socket.SHUT_WR)
        response = b""
        while more := client.recv(65_536):
            response += more
        return response


REFUSED = {
    "both-lengths": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "two-lengths": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", 400),
    "two-hosts": (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
    "absolute": (b"GET http://169.254.169.254/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "connect": (b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n", 405),
    "trace": (b"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", 405),
    "folded": (b"GET / HTTP/1.1\r\nHost: x\r\nX:\r\n Transfer-Encoding: chunked\r\nX : y\r\n\r\n", 400),
    "websocket": (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", 501),
}  # fmt: skip


@pytest.mark.parametrize(("data", "status"), REFUSED.values(), ids=REFUSED.keys())
def test_a_request_that_two_readers_could_read_differently_goes_no_further(
    data: bytes, status: int, upstream: EmbedUpstream, proxied: Running
) -> None:
    """Nothing is smuggled past us, and nothing led elsewhere."""
    answer = raw(proxied(upstream.origin), data)

    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert upstream.requests == []


def test_one_connection_carries_many_requests(upstream: EmbedUpstream, proxied: Running) -> None:
    """Of pages and of everything else, in turns."""
    upstream.answer = lambda target: page(HTML) if "page" in target else page(b"x", kind="image/png")
    connection = http.client.HTTPConnection("127.0.0.1", proxied(upstream.origin), timeout=LIMIT_S)
    bodies = []

    for target in ("/page", "/x", "/page", "/x"):
        connection.request("GET", target)
        bodies.append(connection.getresponse().read())
    connection.close()

    assert bodies[0] == bodies[2] != HTML
    assert bodies[1] == bodies[3] == b"x"


def test_the_reader_s_own_origin_is_no_citation(upstream: EmbedUpstream, front: StubFront, proxied: Running) -> None:
    """Whatever host the wiki is reached by."""
    html = b'<a href="https://wiki.example/x">x</a><a href="http://wiki.example:8080/y">y</a>' + HTML
    upstream.answer = lambda _: page(html)

    ask(proxied(upstream.origin), host="wiki.example")

    assert front.queries[0]["urls"] == [URL]


@pytest.mark.parametrize("host", ["", "[", "a b", "x:99999", "%", "::1", "ü", "a,b", "@", "a/b"])
def test_a_host_that_is_none_harms_nobody(host: str, upstream: EmbedUpstream, proxied: Running) -> None:
    """It is the wiki's to say what becomes of it; relative links stay what they are."""
    upstream.answer = lambda _: page(b'<a href="/x">own</a>' + HTML)

    answer = raw(
        proxied(upstream.origin), f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode(), ends=False
    )

    assert answer.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 400 "))


def test_a_thousand_links_of_a_page_are_asked_for_and_no_more(
    upstream: EmbedUpstream, front: StubFront, proxied: Running
) -> None:
    """In one question; the others stay as they are."""
    html = b"".join(b'<a href="https://a.example.com/%d">x</a>' % n for n in range(1_500))
    upstream.answer = lambda _: page(html)

    answer = ask(proxied(upstream.origin))

    assert [len(each["urls"]) for each in front.queries] == [1_000]
    assert len(re.findall(b"<sup", answer.body)) == 1_000
