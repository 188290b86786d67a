"""A small web of our own, a proxy that demands credentials, and a real browser."""

import asyncio
import base64
import contextlib
import hashlib
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from core.clock import SystemClock
from core.config.settings import BrowserSettings, VisitSettings
from core.hosts import ProxyEndpoint
from render.browser import Browser
from render.chromium import find_browser
from render.visit import Visit, VisitRequest, visit

PAGES = Path(__file__).parent / "pages"
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css"}
PDF = b"%PDF-1.4\n" + b"%" * 300_000 + b"\n%%EOF\n"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="90" height="90"></svg>'
# Two seconds of silence: 8,000 samples a second, 8 bits, one channel.
WAV = (
    b"RIFF" + struct.pack("<I", 36 + 16_000) + b"WAVEfmt "
    + struct.pack("<IHHIIHH", 16, 1, 1, 8_000, 8_000, 1, 8)
    + b"data" + struct.pack("<I", 16_000) + b"\x80" * 16_000
)  # fmt: skip
# Nobody tells the guardian that the browser is well while the tests of others run.
HOURS = 86_400.0
USER, PASSWORD = "visit-1", "secret"


@dataclass
class SeenRequest:
    """A request as a server saw it."""

    method: str
    host: str
    path: str
    headers: dict[str, str]
    scheme: str = "http"
    user: str = ""

    @property
    def url(self) -> str:
        """Return the full URL of the request."""
        return f"{self.scheme}://{self.host}{self.path}"


Answer = tuple[int, dict[str, str], bytes]


class RenderSite:
    """The web: every host answers the same paths."""

    def __init__(self) -> None:
        self.requests: list[SeenRequest] = []
        self.port = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self.arrived = asyncio.Condition()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        """Return the URL of a path on this site."""
        return f"http://{host}:{self.port}{path}"

    def paths(self) -> list[str]:
        """Return every requested path, in order."""
        return [request.path for request in self.requests]

    async def until_asked(self, path: str) -> SeenRequest:
        """Wait for the first request for that path and return it."""
        async with asyncio.timeout(120), self.arrived:
            await self.arrived.wait_for(lambda: path in self.paths())
        return next(request for request in self.requests if request.path == path)

    async def serve(self, request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        """Write the answer to one request."""
        self.requests.append(request)
        async with self.arrived:
            self.arrived.notify_all()
        path = request.path.partition("?")[0]
        special = getattr(self, "serve_" + path.strip("/").replace("-", "_"), None)
        if special is not None:
            await special(writer)
            return
        status, headers, body = self.answer(path)
        lines = [f"HTTP/1.1 {status} Because"]
        lines += [f"{k}: {v}" for k, v in {**headers, "Content-Length": str(len(body))}.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()

    def answer(self, path: str) -> Answer:
        """Return status, headers and body of an ordinary path."""
        html = {"Content-Type": TYPES[".html"]}
        if path.startswith("/status/"):
            return int(path.split("/")[2]), html, b"<title>Error page</title><h1>Sorry</h1>"
        if path.startswith("/empty/"):
            return int(path.split("/")[2]), html, b""
        if path.startswith("/hop/"):
            left = int(path.split("/")[2])
            return 302, {"Location": f"/hop/{left - 1}" if left else "/plain.html"}, b""
        fixed: dict[str, Answer] = {
            "/loop": (302, {"Location": "/loop"}, b""),
            "/to-dead": (302, {"Location": "http://127.0.0.1:1/"}, b""),
            "/nothing": (204, {}, b""),
            "/sandboxed": (
                200,
                {**html, "Content-Security-Policy": "sandbox"},
                b"<title>Sandboxed</title><iframe src=/text.txt></iframe>" + b"<p>tall" * 500,
            ),
            "/file.pdf": (200, {"Content-Type": "application/pdf"}, PDF),
            "/file.zip": (200, {"Content-Type": "application/zip"}, PDF),
            "/image.png": (200, {"Content-Type": "image/png"}, PNG),
            "/wide.svg": (200, {"Content-Type": "image/svg+xml"}, SVG),
            "/tone.wav": (200, {"Content-Type": "audio/wav"}, WAV),
            "/text.vtt": (200, {"Content-Type": "text/vtt"}, b"WEBVTT\n"),
            "/text.txt": (200, {"Content-Type": "text/plain"}, b"only <text>"),
            "/proxy-error": (502, {**html, "Weboid-Proxy-Error": "dns"}, b"<p>no such host"),
            "/login": (401, {**html, "WWW-Authenticate": "Basic realm=x"}, b"<h1>Log in"),
            "/cookie": (200, {**html, "Set-Cookie": "a=1; Max-Age=99999"}, b"<p>set"),
        }
        if path in fixed:
            return fixed[path]
        file = PAGES / path.strip("/")
        if file.is_file() and file.resolve().is_relative_to(PAGES):
            return 200, {"Content-Type": TYPES.get(file.suffix, "text/plain")}, file.read_bytes()
        return 404, html, b"<p>not here"

    async def serve_silent(self, writer: asyncio.StreamWriter) -> None:
        """Never answer."""
        await writer.drain()
        await asyncio.Event().wait()

    async def serve_endless(self, writer: asyncio.StreamWriter) -> None:
        """Answer for ever."""
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + b"<title>Endless</title><h1>It goes on</h1>")
        while True:
            writer.write(b"<p>and on" * 10)
            await writer.drain()
            await asyncio.sleep(0.05)  # a slow drip is what this route is

    async def serve_endless_sound(self, writer: asyncio.StreamWriter) -> None:
        """Sound for ever, of no stated length."""
        head = "HTTP/1.1 200 OK\r\nContent-Type: audio/wav\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + WAV[:4] + b"\xff\xff\xff\xff" + WAV[8:40] + b"\xff" * 4)
        while True:
            writer.write(b"\x80" * 8_000)
            await writer.drain()
            await asyncio.sleep(0.02)  # fifty times as fast as it is heard

    async def serve_reload_slowly(self, writer: asyncio.StreamWriter) -> None:
        """Send a page that reloads itself, and whose body comes 0.1 s after its head."""
        head, body = (b"<!doctype html><title>Again</title>", b"<p>again<script>location.reload()</script>")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(head + body))
        writer.write(head)
        await writer.drain()
        await asyncio.sleep(0.1)  # the gap is what this route is
        writer.write(body)
        await writer.drain()

    async def serve_cut(self, writer: asyncio.StreamWriter) -> None:
        """Break off in the middle."""
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 99999\r\n\r\n"
        writer.write(head.encode() + b"<title>Cut</title><h1>The first half</h1>")
        await writer.drain()
        writer.close()
        raise ConnectionError

    async def serve_events(self, writer: asyncio.StreamWriter) -> None:
        """Send one event, and then nothing."""
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + b"data: hello\n\n")
        await writer.drain()
        await asyncio.Event().wait()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        await self.converse(reader, writer, self.serve)

    async def converse(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handle: Callable[[SeenRequest, asyncio.StreamWriter], Any],
    ) -> None:
        """Answer the requests of one connection until it closes."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            while (request := await read_request(reader)) is not None:
                await handle(request, writer)
        except (ConnectionError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(task)
            writer.close()

    async def stop(self) -> None:
        """End every conversation."""
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> SeenRequest | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *rest = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in rest)}
    await reader.readexactly(int(headers.get("content-length", "0")))
    return SeenRequest(method, headers.get("host", ""), target, headers)


@dataclass(frozen=True)
class TlsAuthority:
    """A certificate authority and what it signed."""

    spki: str
    context: ssl.SSLContext


def make_authority(folder: Path) -> TlsAuthority:
    """Create an authority with one certificate for every host of the tests."""
    key, leaf_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Test CA {folder.name}")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "secure.test")])
    now = datetime.now(UTC)

    def build(subject: x509.Name, public: Any) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=30))
        )

    root = (
        build(name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    hosts = [x509.DNSName("secure.test"), x509.DNSName("*.secure.test")]
    leaf = (
        build(subject, leaf_key.public_key())
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "leaf.pem"
    encoding = serialization.Encoding.PEM
    pem.write_bytes(
        leaf.public_bytes(encoding)
        + root.public_bytes(encoding)
        + leaf_key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    der = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return TlsAuthority(base64.b64encode(hashlib.sha256(der).digest()).decode(), context)


@dataclass
class StrictProxy:
    """A proxy that asks for credentials and then answers for every host of `site`."""

    site: RenderSite
    context: ssl.SSLContext
    port: int = 0
    requests: list[SeenRequest] = field(default_factory=list)
    refused: list[SeenRequest] = field(default_factory=list)

    def endpoint(self, user: str = USER, password: str = PASSWORD) -> ProxyEndpoint:
        """Return the endpoint of the proxy for a visit."""
        return ProxyEndpoint("127.0.0.1", self.port, user, password)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the browser."""

        async def handle(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
            user = credentials(request.headers.get("proxy-authorization", ""))
            if user is None:
                self.refused.append(request)
                writer.write(b"HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=weboid\r\nContent-Length: 0\r\n\r\n")
                return
            if request.method == "CONNECT":
                await self.tunnel(request, user, reader, writer)
                return
            path = "/" + request.path.split("/", 3)[3]
            await self.forward(replace(request, path=path, user=user), writer)

        await self.site.converse(reader, writer, handle)

    async def tunnel(
        self, connect: SeenRequest, user: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Take over the tunnel, as the site itself."""
        if connect.path.startswith("refused."):
            writer.write(b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n")
            return
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await writer.start_tls(self.context)
        while (request := await read_request(reader)) is not None:
            await self.forward(replace(request, scheme="https", user=user), writer)

    async def forward(self, request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        """Note the request and have the site answer it."""
        self.requests.append(request)
        await self.site.serve(request, writer)


def credentials(header: str) -> str | None:
    with contextlib.suppress(ValueError):
        user, _, password = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
        if password == PASSWORD:
            return user
    return None


@pytest.fixture(scope="session")
def clock() -> SystemClock:
    return SystemClock()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TlsAuthority:
    return make_authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> TlsAuthority:
    """Return an authority that the browser does not trust."""
    return make_authority(tmp_path_factory.mktemp("stranger"))


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[RenderSite]:
    """Yield a site that listens during the block."""
    site = RenderSite()
    server = await asyncio.start_server(site.connected, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    yield site
    server.close()
    await site.stop()
    await server.wait_closed()


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[RenderSite]:
    async with serving() as site:
        yield site


@contextlib.asynccontextmanager
async def proxying(site: RenderSite, authority: TlsAuthority) -> AsyncIterator[StrictProxy]:
    """Yield a proxy that answers for every host of the site during the block."""
    proxy = StrictProxy(site, authority.context)
    server = await asyncio.start_server(proxy.connected, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    yield proxy
    server.close()
    await site.stop()
    await server.wait_closed()


@pytest_asyncio.fixture(loop_scope="session")
async def proxy(site: RenderSite, authority: TlsAuthority) -> AsyncIterator[StrictProxy]:
    async with proxying(site, authority) as proxy:
        yield proxy


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(authority: TlsAuthority, clock: SystemClock) -> AsyncIterator[Browser]:
    """Yield one browser for all tests of a run; each visit has a context of its own."""
    executable = find_browser()
    async with await Browser.launch(
        BrowserSettings(hang_limit_s=HOURS), executable, ca_spki=authority.spki, clock=clock
    ) as browser:
        yield browser


@pytest.fixture(scope="session")
def settings() -> VisitSettings:
    """Return settings with a long deadline, because machines are busy, and short waits, because pages are small."""
    return VisitSettings(timeout_s=40.0, settle_s=0.2, settle_limit_s=5.0, favicon=False)


@pytest.fixture
def look(
    browser: Browser, site: RenderSite, settings: VisitSettings, clock: SystemClock
) -> Callable[..., Awaitable[Visit]]:
    """Visit a path of the site, or a URL through a proxy, with some settings changed."""

    async def look(target: str, proxy: ProxyEndpoint | None = None, **changes: Any) -> Visit:
        url = site.url(target) if target.startswith("/") else target
        return await visit(browser, VisitRequest(url, proxy), replace(settings, **changes), clock=clock)

    return look
