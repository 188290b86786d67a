"""A real control socket in this process, and clients of it that say what they like."""

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from core.config.settings import EgressSettings, ProxySettings, Settings
from core.layout import Layout
from proxy.archiving_proxy import ArchivingProxy
from proxy.control.frames import Message, pack_frame, receive_frame
from proxy.control.server import ControlServer
from proxy.exchange import now_ms
from proxy.limits import ByteCounter
from tests.support.proxy_fixtures import ProxyBrowser

PATIENCE_S = 60.0
CLOSED_PORT = "127.0.0.1:1"


class ControlConnection:
    """One connection to the control socket."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(str(path))

    def ask(self, message: Message, body: bytes = b"") -> Message:
        """Send one message; its answer."""
        self.socket.sendall(pack_frame(message, body))
        return self.answer()

    def answer(self) -> Message:
        """Return the next answer."""
        frame = receive_frame(self.socket, head_limit=64 << 20)
        assert frame is not None
        return frame[0]

    def say(self, data: bytes) -> list[Message]:
        """Send the bytes and no more; all that is answered until the other side has had enough."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)
            self.socket.shutdown(socket.SHUT_WR)
        answers = []
        with suppress(ConnectionResetError):
            while (frame := receive_frame(self.socket, head_limit=64 << 20)) is not None:
                answers.append(frame[0])
        return answers

    def close(self) -> None:
        """Go away."""
        self.socket.close()


def opening(page_id: object = "p", bucket: object = "default") -> Message:
    """Return a message that opens a visit."""
    return {"verb": "open", "page_id": page_id, "bucket": bucket}


def sealing(grace_s: object = 1.0) -> Message:
    """Return a message that seals a visit."""
    return {"verb": "seal", "grace_s": grace_s, "awaited": [], "await_s": 0}


def writing(*sizes: object) -> Message:
    """Return a message that writes artifacts of these sizes, in bytes."""
    described = {
        "uri": "urn:text:http://a.example/",
        "content_type": "text/plain",
        "date": "2026-11-21T00:00:00Z",
        "document": "http://a.example/",
    }
    return {"verb": "write", "artifacts": [{**described, "size": size} for size in sizes]}


class ControlHarness:
    """The control socket of a proxy that runs in this process.

    Attributes:
        escaped: what no conversation should have let go.
    """

    def __init__(self, folder: Path) -> None:
        settings = Settings(
            egress=EgressSettings(allow=("127.0.0.0/8",), resolve={"refused.example": CLOSED_PORT}, block=()),
            proxy=ProxySettings(disk_reserve_bytes=0),
        )
        self.layout = Layout(folder)
        self.path = folder / "control.sock"
        self.escaped: list[object] = []
        self._clients: list[ControlConnection] = []
        self.proxy = ArchivingProxy(self.layout, settings, now_ms=now_ms, spool_folder=folder, tally=ByteCounter())
        self._server = _ErrorNotingServer(self.path, self.proxy)
        self._server.escaped = self.escaped
        for server in (self.proxy, self._server):
            serve = server.serve_forever
            threading.Thread(target=serve, args=(0.02,), daemon=True).start()
        self.check()
        self._idle = self._held()

    def close(self) -> None:
        """Stop both servers."""
        self._server.shutdown()
        self._server.server_close()
        self.proxy.shutdown()
        self.proxy.close()

    def client(self) -> ControlConnection:
        """Open a new connection; `hang_up` closes it."""
        client = ControlConnection(self.path)
        self._clients.append(client)
        return client

    def hang_up(self) -> None:
        """Close the connections that a failed test has left."""
        while self._clients:
            self._clients.pop().close()

    def browser(self, opened: Message) -> ProxyBrowser:
        """Return a browser with the credentials from the answer to `open`."""
        return ProxyBrowser(opened["port"], opened["username"], opened["password"])

    def check(self) -> None:
        """Assert that a good client is served, and that earlier clients have left nothing behind."""
        client = self.client()
        opened = client.ask(opening())
        browser = self.browser(opened)
        assert browser.get("http://refused.example/").status == 502
        browser.close()
        assert len(client.ask(writing(3, 0), b"abc")["locations"]) == 2
        assert len(client.ask(sealing())["entries"]["rows"]) == 1
        assert client.ask({"verb": "close"}) == {"body": 0}
        client.close()
        assert self.escaped == []

    def check_no_leak(self) -> None:
        """Wait until as many descriptors, threads and visits are held as when nothing had happened."""
        tick = threading.Event()
        for _ in range(int(PATIENCE_S / 0.01)):
            if self._held() <= self._idle and not len(self.proxy.visits):
                return
            tick.wait(0.01)
        held = (self._held(), len(self.proxy.visits))
        raise AssertionError(f"held: {held}, when idle: {self._idle}")

    def _held(self) -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())


class _ErrorNotingServer(ControlServer):
    escaped: list[object]

    def handle_error(self, request: object, client_address: object) -> None:
        """Note what would have been printed."""
        self.escaped.append(sys.exc_info()[1])


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlHarness]:
    """Yield one control socket for all tests of a file."""
    running = ControlHarness(tmp_path_factory.mktemp("control"))
    yield running
    running.close()


@pytest.fixture
def after(control: ControlHarness) -> Iterator[Callable[[], None]]:
    """Yield a check of the control socket; when the test is over, check it again, and for leaks."""
    yield control.check
    control.hang_up()
    control.check()
    control.check_no_leak()
