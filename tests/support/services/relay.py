"""A TCP relay that stands between a client and its Redis, and can hold either's words back."""

import socket
import threading
from contextlib import suppress

# What only the requests of these scripts hold: how long a claim lasts, the name of a file.
CLAIM, SETTLE = b"86400000", b".warc.gz"


class ControlledRelay:
    """Passes everything on, until a request holds a pattern that it was told to wait for."""

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._pattern = b""
        self._passes_requests = False
        self._gate = threading.Event()
        self._gate.set()
        self._is_away = False
        self.held = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Return the URL for `dedup_url`."""
        return f"redis://127.0.0.1:{self.port}/0"

    def hold_request(self, pattern: bytes) -> None:
        """Hold everything from the next request with the pattern on; the server never receives that request."""
        self._passes_requests, self._pattern = False, pattern
        self.held.clear()

    def hold_answer(self, pattern: bytes) -> None:
        """Hold everything after the next request with the pattern; the server receives it, its answer is held."""
        self._passes_requests, self._pattern = True, pattern
        self.held.clear()

    def cut(self) -> None:
        """End the connections that are open, and what was held back is lost; new ones pass."""
        self._pattern = b""
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._gate.set()

    def leave(self) -> None:
        """End every connection, new ones too, until `come_back`: a server that is down."""
        self._is_away = True
        self.cut()

    def come_back(self) -> None:
        """Take connections again."""
        self._is_away = False

    def go_on(self) -> None:
        """Let through what was held back, and all that follows."""
        self._pattern = b""
        self._gate.set()

    def close(self) -> None:
        """End every connection."""
        self.cut()
        with suppress(OSError):  # it may be closed already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_away:
                client.close()
                continue
            try:
                server = socket.create_connection(self._to)
            except OSError:
                client.close()
                continue
            self._open += [client, server]
            for pump in (self._requests, self._answers):
                threading.Thread(target=pump, args=(client, server), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := client.recv(1 << 20):
                if self._pattern and self._pattern in data:
                    self._pattern = b""
                    self._gate.clear()
                    if self._passes_requests:
                        server.sendall(data)
                        self.held.set()
                        continue
                    self.held.set()
                self._gate.wait()
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := server.recv(1 << 20):
                self._gate.wait()
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
        except OSError:
            return
