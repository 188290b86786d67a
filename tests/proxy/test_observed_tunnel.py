"""Browsers' own TLS connections: relayed to checked addresses, decoded, and recorded like any other."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded, StreamReset

from core.config.settings import Settings
from core.layout import Layout
from net.http1 import find_head_end
from proxy.control.client import ProxyVisit
from tests.support.http2_origin import Http2Origin
from tests.support.proxy_fixtures import ProxyBrowser, ProxyInProcess, ScriptedOrigin, check, ok, records

pytestmark = pytest.mark.proxy
HOST = "secure.example"


@pytest.fixture
def http2(certificate: Path) -> Iterator[Http2Origin]:
    """Yield an origin that refuses HTTP/1.1."""
    origin = Http2Origin(certificate)
    yield origin
    origin.close()


@pytest.fixture
def in_front(layout: Layout, settings: Settings, tmp_path: Path) -> Iterator[Callable[..., ProxyInProcess]]:
    """Start a proxy in front of an origin at that port."""
    running: list[ProxyInProcess] = []

    def start(port: int, **changes: object) -> ProxyInProcess:
        egress = replace(settings.egress, resolve={f"{HOST}:443": f"127.0.0.1:{port}"})
        chosen = replace(
            settings,
            egress=egress,
            proxy=replace(settings.proxy, **changes),  # type: ignore[arg-type]
        )
        running.append(ProxyInProcess(layout, chosen, "observed", tmp_path))
        return running[-1]

    yield start
    for proxy in running:
        proxy.stop()


@asynccontextmanager
async def connected(
    proxy: ProxyInProcess, visit: ProxyVisit, folder: Path, *, alpn: str, newest: bool = True
) -> AsyncIterator[ssl.SSLSocket]:
    """Open a client's own TLS connection in a tunnel and give its secrets to the proxy."""
    client = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
    assert client.ask("CONNECT", f"{HOST}:443").status == 200
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([alpn])
    context.keylog_filename = str(folder / "keys")
    if not newest:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert client.socket is not None
    secured = context.wrap_socket(client.socket, server_hostname=HOST, do_handshake_on_connect=False)
    keys = folder / "keys"
    # By TLS 1.2 the handshake ends only when the proxy has the secrets.
    shaking = asyncio.create_task(asyncio.to_thread(secured.do_handshake))
    while not shaking.done():
        await asyncio.sleep(0.01)
        proxy.secrets.add(keys.read_text().splitlines() if keys.exists() else ())
    await shaking
    proxy.secrets.add(keys.read_text().splitlines())
    with secured:
        yield secured


def get(sock: ssl.SSLSocket, *paths: str) -> list[bytes]:
    """Return the bodies of responses by HTTP/2; of a stream that is reset, what came before."""
    spoken = H2Connection()
    spoken.initiate_connection()
    bodies = {}
    for path in paths:
        stream = spoken.get_next_available_stream_id()
        fields = {":method": "GET", ":authority": HOST, ":scheme": "https", ":path": path}
        spoken.send_headers(stream, [*fields.items(), ("cookie", "a=1"), ("cookie", "b=2")], True)
        bodies[stream] = b""
    left = set(bodies)
    while left:
        sock.sendall(spoken.data_to_send())
        data = sock.recv(65_536)
        if not data:
            break
        for event in spoken.receive_data(data):
            if isinstance(event, DataReceived):
                bodies[event.stream_id] += event.data
                spoken.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded | StreamReset):
                left.discard(event.stream_id)
    return list(bodies.values())


async def test_an_exchange_by_http2_is_recorded_in_the_form_of_http1(
    in_front: Callable[..., ProxyInProcess], http2: Http2Origin, layout: Layout, tmp_path: Path
) -> None:
    """The record names protocol, cipher and certificate; the body is that of the wire."""
    http2.answers["/a?b"] = (200, {"content-type": "text/plain", "x-odd": "1"}, b"seen")
    proxy = in_front(http2.port)
    async with proxy.client.visit("p", bucket="b", browser_hosts=[HOST]) as visit:
        async with connected(proxy, visit, tmp_path, alpn="h2") as sock:
            assert get(sock, "/a?b", "/none") == [b"seen", b"nothing here"]
        entry, other = await visit.seal(grace_s=5)
    proxy.stop()

    assert (entry.url, entry.status, entry.kept, entry.protocol) == (
        f"https://{HOST}/a?b", 200, "response", "h2",
    )  # fmt: skip
    assert (other.status, other.kept) == (404, "response")
    response, request = (r for r in records(layout) if r.url == entry.url)
    assert response.payload == b"seen"
    raw = (next(layout.archive.glob("weboid-*"))).read_bytes()
    assert raw
    assert response.headers["WARC-Protocol"] in ("h2", "tls/1.3")
    assert response.headers["WARC-Cipher-Suite"].startswith("TLS_")
    assert len(response.headers["WARC-TLS-Certificate"]) == len("sha256:") + 64
    assert request.kind == "request"
    check(layout)


@pytest.mark.parametrize("newest", [True, False])
async def test_an_exchange_by_http1_is_recorded_as_it_passed(
    in_front: Callable[..., ProxyInProcess], secure_origin: ScriptedOrigin, layout: Layout, tmp_path: Path, newest: bool
) -> None:
    """By TLS 1.3 and 1.2; two responses on one connection, one of them in chunks."""
    secure_origin.answers["/one"] = ok(b"first")
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    secure_origin.answers["/two"] = chunked
    proxy = in_front(secure_origin.port)
    async with proxy.client.visit("p", bucket="b", browser_hosts=["*"]) as visit:
        async with connected(proxy, visit, tmp_path, alpn="http/1.1", newest=newest) as sock:
            for path, ending in (("/one", b"first"), ("/two", b"0\r\n\r\n")):
                sock.sendall(f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\n".encode())
                sock.sendall(b"Content-Length: 4\r\n\r\nsent")
                data = b""
                while not data.endswith(ending):
                    data += sock.recv(65_536)
        one, two = await visit.seal(grace_s=5)
    proxy.stop()

    assert [each.url for each in (one, two)] == [f"https://{HOST}/one", f"https://{HOST}/two"]
    assert one.protocol == "http/1.1"
    assert one.tls_version == ("TLSv1.3" if newest else "TLSv1.2")
    payloads = {r.url[-3:]: r.payload for r in records(layout) if r.kind == "response"}
    assert payloads == {"one": b"first", "two": b"abc"}
    sent = [r for r in records(layout) if r.kind == "request"]
    assert all(each.payload == b"sent" for each in sent)
    assert find_head_end(secure_origin.requests[0]) > 0
    check(layout)


async def test_a_body_that_is_reset_is_marked_as_cut(
    in_front: Callable[..., ProxyInProcess], http2: Http2Origin, layout: Layout, tmp_path: Path
) -> None:
    """As with the recorder's connections."""
    http2.answers["/cut"] = (200, {"content-type": "text/plain"}, b"x" * 1000)
    http2.cut.add("/cut")
    proxy = in_front(http2.port)
    async with proxy.client.visit("p", bucket="b", browser_hosts=[HOST]) as visit:
        async with connected(proxy, visit, tmp_path, alpn="h2") as sock:
            get(sock, "/cut")
        (entry,) = await visit.seal(grace_s=5)
    proxy.stop()

    assert (entry.kept, entry.truncated) == ("response", "disconnect")
    (response,) = (r for r in records(layout) if r.kind == "response")
    assert response.headers["WARC-Truncated"] == "disconnect"
    assert response.payload == b"x" * 1000


async def test_equal_payloads_of_both_kinds_of_connection_are_stored_once(
    in_front: Callable[..., ProxyInProcess], secure_origin: ScriptedOrigin, layout: Layout, tmp_path: Path
) -> None:
    """Dedup knows no difference."""
    secure_origin.answers["/same"] = ok(b"as before")
    proxy = in_front(secure_origin.port)
    outcomes = []
    for hosts in ([], [HOST]):
        async with proxy.client.visit("p", bucket="b", browser_hosts=hosts) as visit:
            async with connected(proxy, visit, tmp_path, alpn="http/1.1") as sock:
                sock.sendall(f"GET /same HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
                data = b""
                while not data.endswith(b"as before"):
                    data += sock.recv(65_536)
            outcomes += [str(each.kept) for each in await visit.seal(grace_s=5)]

    assert outcomes == ["response", "revisit"]


async def test_no_tunnel_leads_to_a_forbidden_address(
    in_front: Callable[..., ProxyInProcess], settings: Settings, layout: Layout, tmp_path: Path
) -> None:
    """The browser gets the proxy's answer instead, and the log the reason."""
    egress = replace(settings.egress, resolve={f"{HOST}:443": "169.254.169.254:443"})
    proxy = ProxyInProcess(layout, replace(settings, egress=egress), "p", tmp_path)
    async with proxy.client.visit("p", bucket="b", browser_hosts=["*"]) as visit:
        client = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        client.tunnel(f"{HOST}:443")
        answer = client.ask("GET", "/", tunnel=True)
        client.close()
        (entry,) = await visit.seal(grace_s=1)
    proxy.stop()

    assert answer.status == 403
    assert (entry.kept, entry.reason[:8]) == ("blocked", "address:")


async def test_a_connection_that_cannot_be_decoded_is_not_passed_on(
    in_front: Callable[..., ProxyInProcess], secure_origin: ScriptedOrigin, tmp_path: Path
) -> None:
    """Without its secrets nothing could be recorded: no request reaches the origin."""
    proxy = in_front(secure_origin.port, connect_timeout_s=0.5)
    async with proxy.client.visit("p", bucket="b", browser_hosts=[HOST]) as visit:
        client = ProxyBrowser(proxy.port, visit.credentials.username, visit.credentials.password)
        with suppress(OSError):  # the handshake may end before the tunnel does
            client.tunnel(f"{HOST}:443")
            client.ask("GET", "/", tunnel=True)
        client.close()
        entries = await visit.seal(grace_s=5)

    assert not secure_origin.requests
    assert [each.reason for each in entries] == ["tls: The browser has not logged the secrets."]


async def test_a_late_request_on_an_open_tunnel_is_not_passed_on(
    in_front: Callable[..., ProxyInProcess], secure_origin: ScriptedOrigin, tmp_path: Path
) -> None:
    """The visit is sealed: whatever its connections carry belongs to no page."""
    secure_origin.answers["/"] = ok(b"first")
    proxy = in_front(secure_origin.port)
    request = f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    async with (
        proxy.client.visit("p", bucket="b", browser_hosts=[HOST]) as visit,
        connected(proxy, visit, tmp_path, alpn="http/1.1") as sock,
    ):
        sock.sendall(request)
        assert sock.recv(65_536)
        await visit.seal(grace_s=5)
        sock.sendall(request)
        with suppress(OSError):
            assert sock.recv(65_536) == b""

    assert len(secure_origin.requests) == 1
