"""Small files through a real proxy: what comes back, what is kept, and where it ends."""

import asyncio
import gzip
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from core.layout import CA_FILE, Layout
from crawler.capture.proxy_fetcher import ProxyFetcher
from proxy.control.client import ProxyVisit
from tests.support.proxy_fixtures import ProxyInProcess, ScriptedOrigin, check, ok, records

pytestmark = pytest.mark.proxy
URL = "http://origin.example/robots.txt"
AGENT = "Mozilla/5.0 (test)"


@pytest.fixture
def fetcher(proxy: ProxyInProcess, layout: Layout) -> ProxyFetcher:
    """Build a fetcher that uses the one proxy."""

    @asynccontextmanager
    async def visits(page_id: str) -> AsyncIterator[ProxyVisit]:
        async with proxy.client.visit(page_id, bucket="default") as visit:
            yield visit

    async def agent() -> str:
        return AGENT

    return ProxyFetcher(visits, ca=layout.ca / CA_FILE, agent=agent)


async def test_a_file_is_read_and_lies_in_the_warc(
    fetcher: ProxyFetcher, origin: ScriptedOrigin, proxy: ProxyInProcess, layout: Layout
) -> None:
    """The WARC has the whole file that the crawl read, with a page id of its own."""
    origin.answers["/robots.txt"] = ok(b"User-agent: *\n", mime="text/plain", more="X-A: 1\r\nX-A: 2\r\n")
    response = await fetcher.get(URL, limit_bytes=1000, timeout_s=60)
    assert (response.status, response.body, response.error, response.truncated) == (200, b"User-agent: *\n", "", False)
    assert response.headers["x-a"] == "1\n2"
    assert response.final_url == URL
    proxy.stop()
    check(layout)
    captures = [each for each in records(layout) if each.kind == "response"]
    assert [(each.url, each.payload) for each in captures] == [(URL, b"User-agent: *\n")]
    assert captures[0].headers["WARC-Page-ID"]


async def test_https_is_trusted_by_the_proxys_authority(fetcher: ProxyFetcher, secure_origin: ScriptedOrigin) -> None:
    """The client trusts the proxy's certificates and reads what the origin said."""
    secure_origin.answers["/robots.txt"] = ok(b"Disallow:")
    response = await fetcher.get("https://secure.example/robots.txt", limit_bytes=99, timeout_s=60)
    assert (response.status, response.body) == (200, b"Disallow:")


async def test_the_request_is_spelled_as_the_fetch_key(fetcher: ProxyFetcher, origin: ScriptedOrigin) -> None:
    """The target is sent byte by byte, with the page's User-Agent and nothing that names a robot."""
    await fetcher.get("http://origin.example/a|b?c=[d]^%7e", limit_bytes=99, timeout_s=60)
    head = origin.requests[0]
    assert head.startswith(b"GET /a|b?c=[d]^%7e HTTP/1.1\r\n")
    assert b"user-agent: " + AGENT.encode() + b"\r\n" in head.replace(b"User-Agent", b"user-agent")
    assert b"httpx" not in head.lower()


async def test_redirects_are_followed_to_other_hosts(fetcher: ProxyFetcher, origin: ScriptedOrigin) -> None:
    """Five redirects are followed, relative ones and those to other hosts (RFC 9309, 2.3.1.2)."""
    hops = ["/1", "//other.example/2", "http://origin.example/3", "4", "/5"]
    for at, to in zip(["/robots.txt", "/1", "/2", "/3", "/4"], hops, strict=True):
        origin.answers[at] = ok(b"", status="302 Found", more=f"Location: {to}\r\n")
    origin.answers["/5"] = ok(b"arrived")
    response = await fetcher.get(URL, limit_bytes=99, timeout_s=60)
    assert (response.status, response.body, response.final_url) == (200, b"arrived", "http://origin.example/5")


async def test_a_redirect_loop_ends(fetcher: ProxyFetcher, origin: ScriptedOrigin) -> None:
    """Redirects without end are an error after so many requests."""
    origin.answers["/robots.txt"] = ok(b"", status="301 Moved", more=f"Location: {URL}\r\n")
    response = await fetcher.get(URL, limit_bytes=99, timeout_s=60)
    assert response.error == "redirects: more than 5"
    assert len(origin.requests) == 6


@pytest.mark.parametrize("to", ["ftp://origin.example/", "http://[", "javascript:1", "http://a b/"])
async def test_a_redirect_to_nowhere_is_an_error(fetcher: ProxyFetcher, origin: ScriptedOrigin, to: str) -> None:
    """A Location that is no web URL is named, and not followed."""
    origin.answers["/robots.txt"] = ok(b"", status="301 Moved", more=f"Location: {to}\r\n")
    response = await fetcher.get(URL, limit_bytes=99, timeout_s=60)
    assert response.error.startswith("redirects: to ")
    assert len(origin.requests) == 1


def endless(piece: bytes, head: str = "") -> Callable[[socket.socket, bytes], None]:
    """Return an origin's answer whose body never ends."""

    def answer(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(f"HTTP/1.1 200 OK\r\n{head}\r\n".encode())
        while True:
            connection.sendall(piece)

    return answer


async def test_a_body_without_end_is_cut_at_the_limit(fetcher: ProxyFetcher, origin: ScriptedOrigin) -> None:
    """No more than the limit is read, and what was read counts."""
    origin.answers["/robots.txt"] = endless(b"x" * 65536)
    response = await fetcher.get(URL, limit_bytes=500_000, timeout_s=60)
    assert (response.status, len(response.body), response.truncated) == (200, 500_000, True)


async def test_a_gzip_bomb_is_cut_at_the_limit(fetcher: ProxyFetcher, origin: ScriptedOrigin) -> None:
    """A body that decodes to a thousand times its size is decoded up to the limit."""
    bomb = gzip.compress(b"a" * 50_000_000)
    origin.answers["/robots.txt"] = ok(bomb, more="Content-Encoding: gzip\r\n")
    response = await fetcher.get(URL, limit_bytes=100_000, timeout_s=60)
    assert (len(response.body), response.truncated, response.error) == (100_000, True, "")


async def test_a_gzip_body_is_decoded(fetcher: ProxyFetcher, origin: ScriptedOrigin) -> None:
    origin.answers["/robots.txt"] = ok(gzip.compress(b"hello"), more="Content-Encoding: gzip\r\n")
    response = await fetcher.get(URL, limit_bytes=100, timeout_s=60)
    assert (response.body, response.truncated) == (b"hello", False)
    assert b"gzip, identity" in origin.requests[0]


@pytest.mark.parametrize("encoding", ["gzip", "br"])
async def test_an_encoding_that_cannot_be_read_is_an_error(
    fetcher: ProxyFetcher, origin: ScriptedOrigin, encoding: str
) -> None:
    """A body that is not what it says, or coded as we did not ask for, is no body to go by."""
    origin.answers["/robots.txt"] = ok(b"plain", more=f"Content-Encoding: {encoding}\r\n")
    response = await fetcher.get(URL, limit_bytes=100, timeout_s=60)
    assert response.error.startswith("encoding: ")


async def test_a_drip_ends_at_the_deadline(fetcher: ProxyFetcher, origin: ScriptedOrigin) -> None:
    """A server that sends a byte now and then is left at the deadline, what it said is kept."""
    over = threading.Event()

    def drip(connection: socket.socket, _head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not over.wait(0.05):
            connection.sendall(b"x")

    origin.answers["/robots.txt"] = drip
    response = await fetcher.get(URL, limit_bytes=100_000, timeout_s=1.0)
    over.set()
    assert (response.status, response.truncated, response.error) == (200, True, "timeout")
    assert response.body


@pytest.mark.parametrize(
    ("url", "constant"), [("http://refused.example/robots.txt", "connect"), ("http://private.example/", "address")]
)
async def test_no_answer_is_told_in_the_proxys_words(fetcher: ProxyFetcher, url: str, constant: str) -> None:
    """A host that does not answer, or may not be asked, has no status but a reason."""
    response = await fetcher.get(url, limit_bytes=99, timeout_s=60)
    assert response.status == 0
    assert response.error.startswith(constant)


async def test_many_at_once(fetcher: ProxyFetcher, origin: ScriptedOrigin) -> None:
    """Fetches at the same time do not mix."""
    for number in range(20):
        origin.answers[f"/{number}"] = ok(str(number).encode())
    urls = [f"http://origin.example/{number}" for number in range(20)]
    responses = await asyncio.gather(*(fetcher.get(url, limit_bytes=99, timeout_s=30) for url in urls))
    assert [each.body for each in responses] == [str(number).encode() for number in range(20)]
