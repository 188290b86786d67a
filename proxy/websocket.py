"""WebSocket relay to a checked address, logged but not recorded (RFC 6455): WARC/1.1 has no form for it.

An origin that answers the upgrade with an ordinary response is recorded like any other.
"""

import select
import socket
import ssl
import time
from collections.abc import Callable
from typing import ClassVar

from net.http1 import RequestHead
from proxy.browser_connection import PIECE_BYTES, BrowserConnection, ConnectionLostError, Origin
from proxy.exchange import Exchange
from proxy.request_log import RequestOutcome

# Servers ping every 20 to 60 s; who keeps silent longer has gone.
IDLE_S = 120.0
BUFFER_BYTES = 1 << 18  # what one side sends faster than the other reads; then it has to wait
_READ, _WRITE = select.POLLIN, select.POLLOUT


def asks_for_websocket(head: RequestHead) -> bool:
    """Return whether the request is a WebSocket's opening handshake (RFC 6455, 4.1)."""
    upgrade = (head.get(b"upgrade") or b"").lower()
    return (
        head.method == "GET"
        and b"websocket" in (option.strip() for option in upgrade.split(b","))
        and head.get(b"sec-websocket-key") is not None
    )


class WebSocketExchange(Exchange):
    """Handshake and relay, until either side or a limit ends it."""

    switches: ClassVar[bool] = True

    def run(self, origin: Origin, request: bytes, browser: BrowserConnection | None, *, keep_alive: bool) -> bool:
        """Run handshake and relay; an answer other than 101 is delivered and recorded as usual."""
        self._browser = browser
        head, connection, rest = self._ask(origin, request)
        if head.status != 101 or browser is None:
            return self._deliver((head, connection, rest), request, keep_alive=keep_alive)
        entry = self.entry
        entry.kept, entry.status = RequestOutcome.TUNNELLED, head.status
        entry.size = len(head.raw)
        try:
            # The answer 101 as received, except for headers reserved for the proxy.
            lines = [b"HTTP/1.1 101 Switching Protocols"]
            lines += [name + b": " + value for key, name, value in head.headers if key != b"weboid-proxy-error"]
            browser.send(b"\r\n".join(lines) + b"\r\n\r\n")
            relay = SocketRelay(browser.sock, connection.sock, self._count_both, monotonic=self._tools.monotonic)
            reason = relay.run(early=browser.read_piece() if browser.has_unread else b"", rest=rest)
            entry.reason = "cut: the visit ended" if self._cut_for else reason
        except ConnectionLostError:
            pass  # normal end: a side has closed
        finally:
            connection.close()
            entry.seconds = round(self._tools.monotonic() - self._started, 6)
        return False

    def _count_both(self, sent: bytes, received: bytes) -> str:
        """Count what is about to pass; return the limit that it reaches, or empty."""
        self.entry.sent += len(sent)
        self.entry.size += len(received)
        self.count(len(received))
        excess = self._tools.limits.excess(self.visit, self.entry.size, self._tools.monotonic() - self._started)
        return "" if excess is None else excess.reason


class SocketRelay:
    """Relay between two sockets until one ends; one thread, since a TLS object allows no two."""

    def __init__(
        self,
        browser: socket.socket,
        origin: socket.socket,
        count: Callable[[bytes, bytes], str],
        *,
        idle_s: float = IDLE_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up the sides; `count`, given the data of each, returns why the relay ends before it is passed on; or empty."""
        self._browser = _RelaySide(browser)
        self._origin = _RelaySide(origin)
        self._count = count
        self._idle_s = idle_s
        self._monotonic = monotonic

    @property
    def is_left(self) -> bool:
        """Return whether the browser has closed its side, and the origin has not."""
        return self._browser.ended and not self._origin.ended

    def run(self, *, early: bytes = b"", rest: bytes = b"") -> str:
        """Run the relay to its end, after data received already; return the limit that ended it."""
        self._origin.unsent += early
        self._browser.unsent += rest
        reason = self._count(early, rest)
        active_at = self._monotonic()
        while not reason:
            now = self._monotonic()
            if now - active_at > self._idle_s:
                return "silence: neither side sends anything"
            if self._wait(min(self._idle_s - (now - active_at), 1.0)):
                active_at = now
            from_browser = self._browser.read(self._origin)
            from_origin = self._origin.read(self._browser)
            if reason := self._count(from_browser, from_origin):
                break
            self._origin.unsent += from_browser
            self._browser.unsent += from_origin
            self._origin.flush()
            self._browser.flush()
            # Data received before a side closed is still sent to the other.
            if (self._browser.ended and not self._origin.unsent) or (self._origin.ended and not self._browser.unsent):
                break
        return reason

    def _wait(self, timeout_s: float) -> bool:
        """Wait until a socket is ready; return whether one is."""
        poller = select.poll()
        for side, other in ((self._browser, self._origin), (self._origin, self._browser)):
            if side.ended:
                continue
            if other.has_room and side.has_more:
                return True
            wanted = (_READ if other.has_room else 0) | (_WRITE if side.unsent else 0)
            if wanted:  # poll reports a hang-up repeatedly even without events
                poller.register(side.sock, wanted)
        return bool(poller.poll(timeout_s * 1000 + 1))


class _RelaySide:
    """One socket of a relay, with its unsent data."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(0)
        self.sock = sock
        self.unsent = bytearray()
        self.ended = False

    @property
    def has_room(self) -> bool:
        """Return whether its send buffer has room."""
        return len(self.unsent) < BUFFER_BYTES

    @property
    def has_more(self) -> bool:
        """Return whether TLS holds decrypted data that was not read."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0

    def read(self, other: "_RelaySide") -> bytes:
        """Read data for the other side; empty when there is none, or when this side has ended."""
        if self.ended or not other.has_room:
            return b""
        try:
            piece = self.sock.recv(PIECE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return b""
        except OSError:
            piece = b""
        self.ended = not piece
        return piece

    def flush(self) -> None:
        """Send as much as possible without blocking; nothing to a closed peer."""
        while self.unsent:
            try:
                sent = self.sock.send(self.unsent[:PIECE_BYTES])
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError:
                self.ended, sent = True, len(self.unsent)
            del self.unsent[:sent]
