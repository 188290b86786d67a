"""Origins on raw sockets that say whatever they like: one listener a behaviour, one thread a connection."""

import base64
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

from isal import igzip

Behaviour = Callable[[socket.socket], None]

MEGABYTE = 1 << 20
BOMB_BYTES = 100 * MEGABYTE


class RawOrigin:
    """Listens on loopback; each connection is handed to `behave`, then closed."""

    def __init__(self, behave: Behaviour, *, context: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self._behave = behave
        self._context = context
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening and end every connection."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError):
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            self._behave(connection)
        connection.close()


def read_request(connection: socket.socket) -> bytes:
    """Return one request without a body; empty when the peer has closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return b""
        data += piece
    return data


def says(data: bytes) -> Behaviour:
    """Answer every request of a connection with the same bytes."""

    def behave(connection: socket.socket) -> None:
        while read_request(connection):
            connection.sendall(data)

    return behave


def says_then(data: bytes, after: Behaviour) -> Behaviour:
    """Answer one request, then continue with `after`."""

    def behave(connection: socket.socket) -> None:
        if read_request(connection):
            connection.sendall(data)
            after(connection)

    return behave


def closes(connection: socket.socket) -> None:
    """Close the connection in good order."""


def resets(connection: socket.socket) -> None:
    """End the connection with a RST."""
    raw = socket.socket(fileno=connection.detach())
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


def half_closes(connection: socket.socket) -> None:
    """Close the sending side, and read on until the peer is gone."""
    connection.shutdown(socket.SHUT_WR)
    holds(connection)


def holds(connection: socket.socket) -> None:
    """Send nothing more until the peer is gone."""
    while connection.recv(65536):
        continue


def repeats(piece: bytes) -> Behaviour:
    """Send the same for ever, as fast as it is read."""

    def behave(connection: socket.socket) -> None:
        block = piece * max(1, 65536 // len(piece))
        while True:
            connection.sendall(block)

    return behave


def drips(data: bytes, *, every_s: float, then: bytes = b"") -> Behaviour:
    """Send one byte at a time, `then` for ever, until the peer is gone."""

    def bytes_of() -> Iterator[bytes]:
        for at in range(len(data)):
            yield data[at : at + 1]
        while then:
            yield then

    def behave(connection: socket.socket) -> None:
        connection.settimeout(every_s)
        for piece in bytes_of():
            connection.sendall(piece)
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                continue

    return behave


@cache
def gzip_bomb(layers: int = 1) -> bytes:
    """Return 100 MB of zeros, compressed `layers` times."""
    data = bytes(BOMB_BYTES) if layers == 1 else gzip_bomb(layers - 1)
    packed: bytes = igzip.compress(data, 1)
    return packed


def brotli_bomb() -> bytes:
    """Return a Brotli body of 93 bytes that unpacks to 100 MB."""
    return base64.b64decode(
        "z///f/gnAOKxQCD3/p/////wTwDEYQGA7v0/////4Z8AiMMiAN37f/7//8M/ARCHBQC69//8//+HfwIgDgsA"
        "dO//+f//D/8EQBwWAOje/+f//w/+CYA4LADQvf8B"
    )


def zstd_bomb() -> bytes:
    """Return 100 MB of zeros in run-length blocks of 128 KiB (RFC 8878, 3.1.1.2)."""
    blocks = BOMB_BYTES >> 17
    run = b"".join(((1 << 20) | 2 | (number == blocks - 1)).to_bytes(3, "little") + b"\0" for number in range(blocks))
    return b"\x28\xb5\x2f\xfd\x00\x58" + run
