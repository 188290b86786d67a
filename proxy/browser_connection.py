"""Browser's side of an exchange: blocking socket read by heads and pieces, and request targets (RFC 9112, 3.2).

Targets are validated before origin or URL are used (C-12); escapes and quotes in a path stay as the origin gets them.
"""

import ipaddress
import re
import socket
import ssl

from core.errors import TransientError
from core.urls import MAX_URL_LENGTH
from net.http1 import HEAD_LIMIT_BYTES, MalformedMessageError, find_head_end

Origin = tuple[str, int, bool]  # host, port, whether TLS

# RFC 9112 3.2.2. The part before "@" is credentials, which are neither forwarded nor stored.
_ABSOLUTE = re.compile(r"http://(?:[^/?#@\\]*@)?([^/?#@\\]*)(/[^#]*|\?[^#]*|)(?:#.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::(\d{1,5})?)?", re.IGNORECASE)
_MAX_HOST_LENGTH = 254  # RFC 1035 2.3.4, with a dot at the end


class TargetTooLongError(MalformedMessageError):
    """URL over the length limit (RFC 9110, 15.5.15)."""


def parse_absolute(target: str) -> tuple[Origin, str, str]:
    """Parse an absolute-form target into (origin, request target in origin form, URL), or MalformedMessageError.

    >>> parse_absolute("http://user:secret@Example.org:80/a?b#c")
    (('example.org', 80, False), '/a?b', 'http://example.org/a?b')
    """
    _check_length(target)
    if (match := _ABSOLUTE.fullmatch(target)) is None:
        raise MalformedMessageError("This is a proxy: give it absolute http:// URLs.")
    origin = (*parse_authority(match[1], 80), False)
    path = match[2] if match[2].startswith("/") else f"/{match[2]}"
    return origin, path, f"http://{host_header(origin)}{path}"


def parse_tunnelled(target: str, origin: Origin) -> tuple[str, str]:
    """Parse an origin-form target in a tunnel into (request target, URL); else MalformedMessageError."""
    _check_length(target)
    if not target.startswith("/") and target != "*":
        raise MalformedMessageError("A tunnelled request has an origin-form target.")
    path = target.partition("#")[0]
    site = f"{'https' if origin[2] else 'http'}://{host_header(origin)}"
    return path, f"{site}{'/' if path == '*' else ''}{path}"


def parse_authority(text: str, default_port: int) -> tuple[str, int]:
    """Parse host (lower case, IPv6 in brackets) and port; else MalformedMessageError."""
    match = _AUTHORITY.fullmatch(text)
    if match is None or len(match[1]) > _MAX_HOST_LENGTH:
        raise MalformedMessageError(f"Not a valid host: {text[:80]!r}.")
    host, port = match[1].lower(), int(match[2] or default_port)
    if not 0 < port < 65_536:
        raise MalformedMessageError(f"Not a valid port: {text[:80]!r}.")
    if host.startswith("["):
        try:
            host = f"[{ipaddress.IPv6Address(host[1:-1]).compressed}]"
        except ValueError as error:
            raise MalformedMessageError(f"Not an IPv6 address: {text[:80]!r}.") from error
    return host, port


def host_header(origin: Origin) -> str:
    """Return the origin's host and port as in its Host header and URLs."""
    host, port, tls = origin
    return host if port == (443 if tls else 80) else f"{host}:{port}"


def _check_length(target: str) -> None:
    if len(target) > MAX_URL_LENGTH:
        raise TargetTooLongError(f"A URL of {len(target):,} characters.")


PIECE_BYTES = 1 << 16
TLS_PIECE_BYTES = 1 << 14  # OpenSSL returns one record at a time, of at most this length


class ConnectionLostError(TransientError):
    """Peer disconnected or timed out."""


class BrowserConnection:
    """Reader and writer of one browser socket, owned by one thread; raises ConnectionLostError."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._unread = bytearray()
        self._piece_bytes = TLS_PIECE_BYTES if isinstance(sock, ssl.SSLSocket) else PIECE_BYTES

    def speaks_tls(self) -> bool:
        """Return whether a TLS handshake follows; waits for its first byte without consuming it."""
        try:
            first = bytes(self._unread[:1]) or self.sock.recv(1, socket.MSG_PEEK)
        except OSError as error:
            raise ConnectionLostError(f"The peer disconnected: {error}.") from error
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
            if not (piece := self._receive()):
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
            raise ConnectionLostError(f"The peer disconnected: {error}.") from error

    def _receive(self) -> bytes:
        try:
            return self.sock.recv(self._piece_bytes)
        except (OSError, ValueError) as error:
            raise ConnectionLostError(f"The peer disconnected: {error}.") from error
