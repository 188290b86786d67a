"""WebSockets through the proxy: led to checked addresses, limited, noted, never recorded."""

import asyncio
import hashlib
import logging
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from core.clock import SystemClock
from core.config.settings import BrowserSettings, Settings, VisitSettings
from core.hosts import ProxyEndpoint
from core.layout import Layout
from net.http1 import forwarded_request, parse_request_head
from proxy.control.client import ProxyVisit
from proxy.request_log import RequestLogEntry
from proxy.websocket import SocketRelay
from render.browser import Browser as RealBrowser
from render.chromium import find_browser
from render.visit import VisitRequest, visit
from tests.support.proxy_fixtures import BrowserResponse, ProxyBrowser, ProxyInProcess, ScriptedOrigin, ok, records

pytestmark = pytest.mark.proxy

Talk = Callable[[ServerConnection], Awaitable[None]]


async def echo(connection: ServerConnection) -> None:
    """Say what is said."""
    async for message in connection:
        await connection.send(message)


async def flood(connection: ServerConnection) -> None:
    """Say more than anybody wants."""
    while True:
        await connection.send(b"x" * 100_000)


async def drain(client: ClientConnection) -> None:
    """Read until the connection breaks."""
    while True:
        await client.recv()


@pytest_asyncio.fixture
async def sockets(certificate: Path) -> AsyncIterator[Callable[..., Awaitable[int]]]:
    """Start WebSocket servers; return the port."""
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    async with AsyncExitStack() as stack:

        async def starter(talk: Talk = echo, *, tls: bool = False) -> int:
            context = None
            if tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(certificate)
            server = await stack.enter_async_context(serve(talk, "127.0.0.1", 0, ssl=context))
            return int(server.sockets[0].getsockname()[1])

        yield starter


@pytest.fixture
def start_at(layout: Layout, settings: Settings, tmp_path: Path) -> Iterator[Callable[..., ProxyInProcess]]:
    """Start a proxy for which these hosts are at these local ports."""
    started: list[ProxyInProcess] = []

    def starter(hosts: dict[str, int], **changes: Any) -> ProxyInProcess:
        resolve = {host: f"127.0.0.1:{port}" for host, port in hosts.items()}
        egress = replace(settings.egress, resolve={**settings.egress.resolve, **resolve})
        chosen = replace(settings, egress=egress, proxy=replace(settings.proxy, **changes))
        started.append(ProxyInProcess(layout, chosen, "proxy", tmp_path))
        return started[-1]

    yield starter
    for proxy in started:
        proxy.stop()


def open_socket(proxy: ProxyInProcess, visit_: ProxyVisit, url: str) -> connect:
    """Open a WebSocket as browsers do through a proxy: in a tunnel, with TLS or without."""
    scheme, _, host = url.partition("://")
    browser = ProxyBrowser(proxy.port, visit_.credentials.username, visit_.credentials.password)
    browser.ask("CONNECT", f"{host}:{443 if scheme == 'wss' else 80}")
    context = None
    if scheme == "wss":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return connect(f"{url}/chat?room=1", sock=browser.socket, ssl=context, compression=None)


def refused(proxy: ProxyInProcess, visit_: ProxyVisit, host: str, *lines: str) -> BrowserResponse:
    """Return the answer to a handshake that does not become a WebSocket."""
    browser = ProxyBrowser(proxy.port, visit_.credentials.username, visit_.credentials.password)
    browser.ask("CONNECT", f"{host}:80")
    more = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n"
    more += "".join(f"{line}\r\n" for line in lines)
    answer = browser.ask("GET", "/chat", headers=more, tunnel=True)
    browser.close()
    return answer


@pytest.mark.parametrize(
    ("url", "noted"),
    [
        ("ws://socket.example", "http://socket.example/chat?room=1"),
        ("wss://secure.example", "https://secure.example/chat?room=1"),
    ],
)
async def test_a_websocket_is_led_through_and_noted(
    start_at: Callable[..., ProxyInProcess], sockets: Callable[..., Awaitable[int]], url: str, noted: str
) -> None:
    """Every byte both ways; the ledger knows how many, and the archive holds none."""
    tls = url.startswith("wss")
    host = "secure.example:443" if tls else "socket.example"
    proxy = start_at({host: await sockets(tls=tls)})
    big = bytes(range(256)) * 4000
    async with proxy.client.visit("p", bucket="b") as opened:
        async with open_socket(proxy, opened, url) as client:
            await client.send("hello")
            assert await client.recv() == "hello"
            await client.send(big)
            assert await client.recv() == big
        (entry,) = await opened.seal(grace_s=5)
    proxy.stop()

    assert (entry.kept, entry.status, entry.reason) == ("tunnelled", 101, "")
    assert (entry.url, entry.remote_ip) == (noted, "127.0.0.1")
    assert entry.sent > len(big)
    assert entry.size > len(big)
    assert (entry.tls_version != "") is tls
    assert records(proxy.layout) == []


async def test_websockets_are_refused_when_the_profile_says_so(
    start_at: Callable[..., ProxyInProcess], sockets: Callable[..., Awaitable[int]]
) -> None:
    """With a clean answer in our own name; the server never hears of it."""
    talked: list[object] = []

    async def note(connection: ServerConnection) -> None:
        talked.append(connection)

    proxy = start_at({"socket.example": await sockets(note)}, websockets=False)
    async with proxy.client.visit("p", bucket="b") as opened:
        answer = refused(proxy, opened, "socket.example")
        (entry,) = await opened.seal(grace_s=1)

    assert (answer.status, answer.headers["weboid-proxy-error"]) == (501, "websocket")
    assert (entry.kept, entry.reason) == ("blocked", "websocket")
    assert talked == []


def test_a_handshake_has_no_framing_and_nothing_that_is_for_the_next_hop() -> None:
    """RFC 9110, 7.6.1, RFC 9112, 11.2: nothing after it can be read as another request."""
    head = parse_request_head(
        b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade, X-Hop , close\r\n"
        b"Upgrade: websocket\r\nX-Hop: 1\r\nX-Mine: 2\r\nContent-Length: 4\r\n"
        b"Sec-WebSocket-Key: k\r\n\r\n"
    )
    sent = parse_request_head(forwarded_request(head, target="/", host="a.test", length=None, connection=b"Upgrade"))

    assert [name for name, _, _ in sent.headers] == [
        *(b"host", b"connection", b"upgrade", b"x-mine", b"sec-websocket-key")
    ]
    assert sent.get(b"connection") == b"Upgrade"


@pytest.mark.parametrize("framing", ["Content-Length: 4", "Transfer-Encoding: chunked"])
async def test_a_handshake_with_a_body_is_refused(
    start_at: Callable[..., ProxyInProcess], origin: ScriptedOrigin, framing: str
) -> None:
    """The origin hears nothing of it."""
    proxy = start_at({})
    async with proxy.client.visit("p", bucket="b") as opened:
        answer = refused(proxy, opened, "origin.example", framing)
        (entry,) = await opened.seal(grace_s=1)

    assert (answer.status, entry.kept) == (400, "blocked")
    assert origin.requests == []


@pytest.mark.parametrize("status", ["403 Forbidden", "200 OK"])
async def test_a_refused_upgrade_is_a_response_like_any_other(
    start_at: Callable[..., ProxyInProcess], origin: ScriptedOrigin, status: str
) -> None:
    """It is passed on and archived; the connection can carry another request."""
    origin.answers["/chat"] = ok(b"no sockets here", status=status)
    proxy = start_at({})
    async with proxy.client.visit("p", bucket="b") as opened:
        answer = refused(proxy, opened, "origin.example")
        (entry,) = await opened.seal(grace_s=1)
    proxy.stop()

    assert answer.body == b"no sockets here"
    assert (entry.kept, entry.status) == ("response", int(status[:3]))
    (response,) = (r for r in records(proxy.layout) if r.kind == "response")
    assert response.payload == b"no sockets here"
    assert b"\r\nConnection: Upgrade\r\n" in origin.requests[0]
    assert b"\r\nUpgrade: websocket\r\n" in origin.requests[0]
    assert b"proxy-" not in origin.requests[0].lower()


@pytest.mark.parametrize("host", ["private.example", "169.254.169.254", "localhost"])
async def test_a_websocket_goes_only_where_a_request_may(
    layout: Layout, settings: Settings, tmp_path: Path, host: str
) -> None:
    """C-03: the metadata service speaks no WebSocket, but who knows what does."""
    proxy = ProxyInProcess(layout, replace(settings, egress=replace(settings.egress, allow=())), "p", tmp_path)
    async with proxy.client.visit("p", bucket="b") as opened:
        answer = refused(proxy, opened, host)
        (entry,) = await opened.seal(grace_s=1)
    proxy.stop()

    assert answer.status == 403
    assert entry.kept == "blocked"
    assert entry.reason.startswith("address: ")


async def test_the_seal_ends_a_websocket_and_gives_it_no_grace(
    start_at: Callable[..., ProxyInProcess], sockets: Callable[..., Awaitable[int]]
) -> None:
    """It would never end by itself: a grace of an hour is not waited for."""
    proxy = start_at({"socket.example": await sockets()})
    async with (
        proxy.client.visit("p", bucket="b") as opened,
        open_socket(proxy, opened, "ws://socket.example") as client,
    ):
        await client.send("still there?")
        assert await client.recv() == "still there?"
        async with asyncio.timeout(120):
            (entry,) = await opened.seal(grace_s=3600)
        with pytest.raises(ConnectionClosed):
            await client.recv()

    assert (entry.kept, entry.reason) == ("tunnelled", "cut: the visit ended")


async def test_a_websockets_bytes_count_against_the_visit(
    start_at: Callable[..., ProxyInProcess], sockets: Callable[..., Awaitable[int]]
) -> None:
    """C-08: a stream without end is ended by the visit's limit."""
    proxy = start_at({"socket.example": await sockets(flood)}, visit_limit_bytes=1_000_000)
    async with proxy.client.visit("p", bucket="b") as opened:
        async with open_socket(proxy, opened, "ws://socket.example") as client:
            with pytest.raises(ConnectionClosed):
                await drain(client)
        (entry,) = await opened.seal(grace_s=5)

    assert (entry.kept, entry.reason) == ("tunnelled", "limit: visit_limit_bytes")
    assert 1_000_000 <= entry.size < 2_000_000


def test_a_relay_ends_when_neither_side_says_a_word() -> None:
    """Whatever is left open by both."""
    ours, theirs = socket.socketpair(), socket.socketpair()
    reason = SocketRelay(ours[0], theirs[0], lambda _sent, _received: "", idle_s=0.05).run()
    for end in (*ours, *theirs):
        end.close()

    assert reason.startswith("silence")


def test_a_relay_loses_nothing_when_one_side_reads_slowly() -> None:
    """It holds a quarter of a megabyte, and then the other side has to wait."""
    ours, theirs = socket.socketpair(), socket.socketpair()
    data = bytes(range(251)) * 40_000
    got = hashlib.sha256()
    received = 0

    def say() -> None:
        with theirs[1]:
            theirs[1].sendall(data)

    relay = SocketRelay(ours[0], theirs[0], lambda _sent, _received: "", idle_s=20)
    running = [threading.Thread(target=say), threading.Thread(target=relay.run)]
    for thread in running:
        thread.start()
    while received < len(data) and (piece := ours[1].recv(1000)):
        got.update(piece)
        received += len(piece)
    for thread in running:
        thread.join(120)
    for end in (*ours, theirs[0]):
        end.close()

    assert received == len(data)
    assert got.digest() == hashlib.sha256(data).digest()


PAGE = b"""<!doctype html><title>waiting</title><script>
const said = []
for (const url of ["ws://socket.example/plain", "wss://secure.example/secret"]) {
  const socket = new WebSocket(url)
  socket.onopen = () => socket.send(url)
  socket.onmessage = message => { said.push(message.data); document.title = said.sort().join(" ") }
}
</script><p>A page that talks."""


@pytest.mark.browser
async def test_a_real_page_talks_through_websockets(
    start_at: Callable[..., ProxyInProcess], sockets: Callable[..., Awaitable[int]], origin: ScriptedOrigin
) -> None:
    """Chromium asks for a tunnel for ws:// and for wss://; both are in the ledger."""
    origin.answers["/"] = ok(PAGE)
    proxy = start_at({"socket.example": await sockets(), "secure.example:443": await sockets(tls=True)})
    clock = SystemClock()
    quick = VisitSettings(settle_s=1.0, full_page=False, thumbnail=False)
    async with (
        await RealBrowser.launch(BrowserSettings(), find_browser(), ca_spki=proxy.spki, clock=clock) as browser,
        proxy.client.visit("p", bucket="b") as opened,
    ):
        credentials = opened.credentials
        endpoint = ProxyEndpoint("127.0.0.1", proxy.port, credentials.username, credentials.password)
        request = VisitRequest("http://origin.example/", endpoint)
        seen = await visit(browser, request, quick, clock=clock)
        entries = await opened.seal(grace_s=1)

    assert seen.title == "ws://socket.example/plain wss://secure.example/secret"
    assert tunnelled(entries) == ["http://socket.example/plain", "https://secure.example/secret"]


def tunnelled(entries: list[RequestLogEntry]) -> list[str]:
    """Return the URLs that were tunnelled, sorted."""
    return sorted(entry.url for entry in entries if entry.kept == "tunnelled")
