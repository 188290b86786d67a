"""A real proxy process, and an origin that says exactly the bytes a test wants."""

import base64
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from bench.certificate import write_certificate
from core.config.settings import EgressSettings, ProxySettings, Settings
from core.layout import Layout
from proxy.control.client import ProxyClient
from proxy.limits import ByteCounter
from proxy.process import run_proxy
from tests.support.stored_records import run_warcio_check

ROOT = Path(__file__).resolve().parents[2]
Answer = Callable[[socket.socket, bytes], None]


class ScriptedOrigin:
    """Answers each path with what the test gave it; remembers every request's head and body."""

    def __init__(self, certificate: Path | None = None, *, address: str = "127.0.0.1") -> None:
        self.answers: dict[str, bytes | Answer] = {}
        self.requests: list[bytes] = []
        self.connections = 0
        self.arrived = threading.Event()
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate)
        self._listener = socket.create_server((address, 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening and end every connection."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            self.connections += 1
            self._converse(connection)
        except OSError:
            return
        finally:
            connection.close()

    def _converse(self, connection: socket.socket) -> None:
        unread = b""
        while True:
            while b"\r\n\r\n" not in unread:
                piece = connection.recv(65536)
                if not piece:
                    return
                unread += piece
            head, _, unread = unread.partition(b"\r\n\r\n")
            length = 0
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            while len(unread) < length:
                unread += connection.recv(65536)
            self.requests.append(head + b"\r\n\r\n" + unread[:length])
            self.arrived.set()
            unread = unread[length:]
            path = head.split(b" ")[1].decode().partition("?")[0]
            answer = self.answers.get(path, ok(b"nothing here"))
            if callable(answer):
                answer(connection, head)
                return
            connection.sendall(answer)


def ok(body: bytes, *, mime: str = "text/html", status: str = "200 OK", more: str = "") -> bytes:
    """Return a plain response with its Content-Length."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {mime}\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@dataclass
class BrowserResponse:
    """Response that a browser got through the proxy."""

    status: int
    headers: dict[str, str]
    body: bytes
    raw: bytes


class ProxyBrowser:
    """A client that speaks to the proxy as a browser does, one connection at a time."""

    def __init__(self, port: int, username: str = "", password: str = "") -> None:
        self._address = ("127.0.0.1", port)
        token = base64.b64encode(f"{username}:{password}".encode()).decode()
        self.authorization = f"Proxy-Authorization: Basic {token}\r\n" if username else ""
        self.socket: socket.socket | None = None
        self._unread = b""

    def close(self) -> None:
        """End the connection."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
            self._unread = b""

    def get(self, url: str, **more: Any) -> BrowserResponse:
        """GET a plain URL."""
        return self.ask("GET", url, **more)

    def ask(
        self, method: str, url: str, *, headers: str = "", body: bytes = b"", tunnel: bool = False
    ) -> BrowserResponse:
        """Send a request on the open connection, or on a new one; read its response."""
        if self.socket is None:
            self.socket = socket.create_connection(self._address, timeout=120)
        host = url.split("/")[2] if "://" in url else "tunnelled"
        authorization = "" if tunnel else self.authorization
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        head = f"{method} {url} HTTP/1.1\r\nHost: {host}\r\n{authorization}{headers}{length}\r\n"
        self.socket.sendall(head.encode() + body)
        return self._response(method)

    def tunnel(self, authority: str) -> BrowserResponse:
        """CONNECT, and speak TLS inside; the certificate is not verified."""
        answer = self.ask("CONNECT", authority)
        if answer.status == 200:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            assert self.socket is not None
            self.socket = context.wrap_socket(self.socket, server_hostname=authority.partition(":")[0])
        return answer

    def send_only(self, data: bytes) -> None:
        """Send raw bytes."""
        if self.socket is None:
            self.socket = socket.create_connection(self._address, timeout=120)
        self.socket.sendall(data)

    def rest(self) -> bytes:
        """Return everything that arrives until the proxy ends the connection."""
        assert self.socket is not None
        data = self._unread
        self._unread = b""
        while piece := self._receive():
            data += piece
        return data

    def _receive(self) -> bytes:
        assert self.socket is not None
        try:
            return self.socket.recv(65536)
        except (ConnectionResetError, ssl.SSLError):
            return b""

    def _response(self, method: str) -> BrowserResponse:
        data = self._unread
        while b"\r\n\r\n" not in data:
            piece = self._receive()
            if not piece:
                raise ConnectionError(f"closed without a response: {data!r}")
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        status = int(first.split(" ")[1])
        if "content-length" in headers and method != "HEAD":
            length = int(headers["content-length"])
            while len(rest) < length and (piece := self._receive()):
                rest += piece
            rest, self._unread = rest[:length], rest[length:]
        elif method in ("CONNECT", "HEAD") or status in (204, 304):
            rest, self._unread = b"", rest
        elif headers.get("transfer-encoding") == "chunked":
            while not rest.endswith(b"0\r\n\r\n") and (piece := self._receive()):
                rest += piece
            self._unread = b""
        else:
            while piece := self._receive():
                rest += piece
            self._unread = b""
        if headers.get("connection") == "close":
            self.close()
        return BrowserResponse(status, headers, rest, head)


class ProxyInProcess:
    """A running proxy on a collection, within the test's process."""

    def __init__(
        self, layout: Layout, settings: Settings, name: str, folder: Path, *, tally: tuple[Path, int] | None = None
    ) -> None:
        self.layout = layout
        self.control = folder / f"{name}.sock"
        self.client = ProxyClient(self.control)
        self._stack = ExitStack()
        started = self._stack.enter_context(
            run_proxy(layout, settings, control=self.control, tally=lambda: ByteCounter(*(tally or ())))
        )
        self.secrets = started.proxy.secrets
        self.port = started.proxy.server_address[1]
        self.spki = started.proxy.ca.spki
        self.recovered = [each.to_dict() for each in started.recovered]

    def stop(self) -> int:
        """Stop it gently; return its exit status."""
        self._stack.close()
        return 0


class ProxyCommand(ProxyInProcess):
    """A running proxy process: for what is killed, traced or measured."""

    def __init__(
        self, layout: Layout, settings: Settings, name: str, folder: Path, *, tally: tuple[Path, int] | None = None
    ) -> None:
        self.layout = layout
        self.control = folder / f"{name}.sock"
        command = [sys.executable, "-m", "proxy", "--collection", str(layout.root)]
        command += ["--control", str(self.control)]
        if tally is not None:
            command += ["--tally", str(tally[0]), "--slot", str(tally[1])]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asdict(settings)) + "\n")
        self.process.stdin.flush()
        ready = json.loads(self.process.stdout.readline())
        self.client = ProxyClient(self.control)
        self.port, self.spki, self.recovered = ready["port"], ready["spki"], ready["recovered"]

    def stop(self) -> int:
        """Stop it gently; return its exit status."""
        if self.process.returncode is None:
            self._close(signal_number=None)
        return self.process.returncode

    def kill(self) -> None:
        """End it as a crash would."""
        self._close(signal.SIGKILL)

    def _close(self, signal_number: int | None) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if signal_number is not None:
            self.process.send_signal(signal_number)
        self.process.stdin.close()
        self.process.wait(120)
        self.process.stdout.close()


@dataclass
class WarcioRecord:
    """A WARC record as warcio reads it."""

    kind: str
    url: str
    headers: dict[str, str]
    status: str | None
    payload: bytes
    filename: str


def records(layout: Layout) -> list[WarcioRecord]:
    """Return every record of the collection's WARCs, in file order."""
    warc_records = []
    for path in sorted(layout.archive.glob("*.warc.gz*")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                http = record.http_headers
                # warcio decodes Brotli with brotlipy only, and fails with the package brotli.
                coding = http.get_header("Content-Encoding", "") if http else ""
                body = record.raw_stream if coding == "br" else record.content_stream()
                warc_records.append(
                    WarcioRecord(
                        record.rec_type,
                        record.rec_headers.get_header("WARC-Target-URI") or "",
                        dict(record.rec_headers.headers),
                        http.get_statuscode() if http else None,
                        body.read(),
                        path.name,
                    )
                )
    return warc_records


def check(layout: Layout) -> None:
    """Assert that `warcio check` finds no fault in any WARC."""
    run_warcio_check([str(path) for path in sorted(layout.archive.glob("*.warc.gz*"))])


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Write key and certificate of the TLS origin, which is its own CA."""
    return write_certificate(tmp_path / "origin.pem", "secure.example")


@pytest.fixture
def origin() -> Iterator[ScriptedOrigin]:
    """Run a plain HTTP origin, known as origin.example and other.example."""
    server = ScriptedOrigin()
    yield server
    server.close()


@pytest.fixture
def secure_origin(certificate: Path) -> Iterator[ScriptedOrigin]:
    """Run a TLS origin, known as secure.example (verifies) and wrong.example (does not)."""
    server = ScriptedOrigin(certificate)
    yield server
    server.close()


@pytest.fixture
def settings(origin: ScriptedOrigin, secure_origin: ScriptedOrigin, certificate: Path) -> Settings:
    """Return settings under which the origins are reachable by their names."""
    return Settings(
        egress=EgressSettings(
            allow=("127.0.0.0/8",),
            resolve={
                "origin.example": f"127.0.0.1:{origin.port}",
                "other.example": f"127.0.0.1:{origin.port}",
                "application.localhost": f"127.0.0.1:{origin.port}",
                "secure.example:443": f"127.0.0.1:{secure_origin.port}",
                "wrong.example:443": f"127.0.0.1:{secure_origin.port}",
                "refused.example": "127.0.0.1:1",
                "private.example": "169.254.169.254:80",
            },
            ca_file=str(certificate),
        ),
        proxy=ProxySettings(disk_reserve_bytes=0, seal_grace_s=1.0, connect_timeout_s=60.0),
    )


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Return the layout of an empty collection."""
    root = tmp_path / "collection"
    root.mkdir()
    return Layout(root)


@pytest.fixture
def start(layout: Layout, settings: Settings, tmp_path: Path) -> Iterator[Callable[..., ProxyInProcess]]:
    """Yield a function that starts proxies on the collection; keyword arguments change `[proxy]` settings."""
    with ExitStack() as stack:

        def starter(
            name: str = "proxy",
            *,
            kind: type[ProxyInProcess] = ProxyInProcess,
            tally: tuple[Path, int] | None = None,
            **changes: Any,
        ) -> ProxyInProcess:
            chosen = replace(settings, proxy=replace(settings.proxy, **changes))
            proxy = kind(layout, chosen, name, tmp_path, tally=tally)
            stack.callback(proxy.stop)
            return proxy

        yield starter


@pytest.fixture
def proxy(start: Callable[..., ProxyInProcess]) -> ProxyInProcess:
    """Return one running proxy."""
    return start()


@pytest.fixture
def start_process(start: Callable[..., ProxyCommand]) -> Callable[..., ProxyCommand]:
    """Return a function that starts proxies in processes of their own, as `start` does within the test's."""
    return partial(start, kind=ProxyCommand)
