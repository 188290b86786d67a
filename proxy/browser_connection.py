"""Blocking socket to a browser, read by heads, lengths and pieces."""

import socket
import ssl

from core.errors import TransientError
from net.http1 import HEAD_LIMIT_BYTES, MalformedMessageError, find_head_end
from net.upstream_proxy import shut_socket

PIECE_BYTES = 1 << 16
TLS_PIECE_BYTES = 1 << 14  # OpenSSL hands out a record at a time, and none is longer


class ConnectionLostError(TransientError):
    """Peer disconnected or timed out."""


class BrowserConnection:
    """Reader and writer of one browser socket, owned by one thread; raises ConnectionLostError."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._unread = bytearray()
        self._piece_bytes = TLS_PIECE_BYTES if isinstance(sock, ssl.SSLSocket) else PIECE_BYTES

    def abort(self) -> None:
        """Cancel blocked reads and sends from another thread; never raises."""
        shut_socket(self.sock)

    def speaks_tls(self) -> bool:
        """Return whether a TLS handshake follows; waits for its first byte without consuming it."""
        try:
            first = bytes(self._unread[:1]) or self.sock.recv(1, socket.MSG_PEEK)
        except OSError as error:
            raise ConnectionLostError(f"The peer went away: {error}.") from error
        return first == b"\x16"  # RFC 8446, 5.1: the content type of a handshake

    @property
    def has_unread(self) -> bool:
        """Return whether received data has not been read yet."""
        return bool(self._unread)

    def read_head(self) -> bytes | None:
        """Read the next head with its blank line; None: closed; MalformedMessageError: too long."""
        unread, searched = self._unread, 0
        while (end := find_head_end(unread, searched)) < 0:
            searched = len(unread)
            if searched > HEAD_LIMIT_BYTES:
                raise MalformedMessageError("The head is longer than 1 MiB.")
            piece = self._receive()
            if not piece:
                if unread.strip():
                    raise ConnectionLostError("The peer disconnected within a head.")
                return None
            unread += piece
        head = bytes(unread[:end])
        del unread[:end]
        return head

    def read_piece(self) -> bytes:
        """Read the data that comes next; empty at the end."""
        if self._unread:
            piece = bytes(self._unread)
            self._unread.clear()
            return piece
        return self._receive()

    def unread(self, data: bytes) -> None:
        """Put back data that belongs to the next message."""
        self._unread[:0] = data

    def send(self, data: bytes | bytearray) -> None:
        """Send all of the data."""
        try:
            self.sock.sendall(data)
        except (OSError, ValueError) as error:
            raise ConnectionLostError(f"The peer went away: {error}.") from error

    def _receive(self) -> bytes:
        try:
            return self.sock.recv(self._piece_bytes)
        except (OSError, ValueError) as error:
            raise ConnectionLostError(f"The peer went away: {error}.") from error
