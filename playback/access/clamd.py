"""Client of clamd, ClamAV's daemon (INSTREAM protocol).

The protocol is clamd(8)'s: a command that begins with ``z`` and ends with NUL, ``INSTREAM`` followed by
chunks that each have their length before them, and one answer. A connection carries one command, so
that a daemon that restarts costs at most the payload under way.

    >>> parse_clamd_address("unix:/run/clamav/clamd.ctl")
    UnixAddress(path='/run/clamav/clamd.ctl')
    >>> parse_clamd_address("scanner.example:3310")
    TcpAddress(host='scanner.example', port=3310)
"""

import re
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.errors import ConfigError, PermanentError, TransientError, UnavailableError

VARIABLE = "WEBOID_CLAMD"
DEFAULT_ADDRESS = "unix:/run/clamav/clamd.ctl"  # where Debian's package listens
TIMEOUT_S = 120.0  # clamd's own ReadTimeout
_PORT = 3310
_CHUNK = 64 * 1024
_LONGEST_ANSWER = 4096
_LENGTH = struct.Struct(">I")
_FOUND = re.compile(r"(?:stream|instream\([^)]*\)): (.{1,400}) FOUND", re.ASCII)
# What `AlertExceedsMax yes` reports: the file was not looked at, which is no threat.
_TOO_LARGE = re.compile(r"Heuristics\.Limits\.Exceeded", re.ASCII)


class TooLargeToScanError(PermanentError):
    """The payload is larger than the scanner takes."""


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket on this machine."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A daemon on the network; clamd knows neither passwords nor TLS."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


Address = UnixAddress | TcpAddress


def parse_clamd_address(text: str) -> Address:
    """The address that ``unix:/path``, ``host``, ``host:port`` or ``[::1]:port`` names.

    Raises:
        ConfigError: it names none.
    """
    if text.startswith(("unix:", "/")):
        path = text.removeprefix("unix:")
        if not path.startswith("/") or "\0" in path:
            raise ConfigError("clamd's socket is a whole path: unix:/run/clamav/clamd.ctl.")
        return UnixAddress(path)
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?", text)
    port = int(match[3] or _PORT) if match else 0
    if match is None or not 0 < port < 65_536:
        raise ConfigError(f"{text[:100]!r} is no address of clamd: write unix:/path or host:port.")
    return TcpAddress(match[1] or match[2], port)


def find_clamd(environment: Mapping[str, str]) -> str:
    """Return the address of the clamd that there is: a named one, or a socket where Debian's listens.

    Empty when there is none. A named one may be away for the moment.
    """
    named = environment.get(VARIABLE, "")
    if named:
        return named
    return DEFAULT_ADDRESS if Path(DEFAULT_ADDRESS.removeprefix("unix:")).is_socket() else ""


class ClamdClient:
    """One daemon; each question has a connection of its own. From any thread."""

    def __init__(self, address: Address, *, timeout_s: float = TIMEOUT_S) -> None:
        self._address = address
        self._timeout_s = timeout_s

    def version(self) -> str:
        """The program with its signatures' version, e.g. ``ClamAV 1.4.3/27700``.

        The day that ClamAV adds to it is left out: it is the database's, as is the number before it.

        Raises:
            UnavailableError: the daemon does not answer.
        """
        with self._connected() as connection:
            connection.sendall(b"zVERSION\0")
            said = _answer(connection)
        if not said.startswith("ClamAV "):
            raise UnavailableError(f"What listens at {self._address} is not clamd.")
        return "/".join(said.split("/")[:2])

    def scan(self, body: bytes) -> str:
        """The name of the threat in `body`; empty when no signature matches.

        Raises:
            TooLargeToScanError: it is larger than ``StreamMaxLength`` or another limit of clamd's.
            TransientError: clamd could not look into it now, e.g. its temporary files have no room.
            UnavailableError: the daemon does not answer.
        """
        with self._connected() as connection:
            said = _streamed(connection, body)
        if said is None:
            self.version()  # raises when it is the daemon that is gone
            raise TooLargeToScanError("clamd hung up before the end, as it does above its limit")
        if said.endswith(" OK"):
            return ""
        found = _FOUND.fullmatch(said)
        if "size limit exceeded" in said or (found and _TOO_LARGE.match(found[1])):
            raise TooLargeToScanError("larger than clamd takes")
        if found:
            return found[1]
        if not said:
            raise UnavailableError(f"clamd at {self._address} closed the connection: is it ending?")
        raise TransientError(f"clamd could not scan: {said[:200]}")

    @contextmanager
    def _connected(self) -> Iterator[socket.socket]:
        try:
            with self._connect() as connection:
                yield connection
        except TimeoutError as error:
            raise UnavailableError(
                f"clamd at {self._address} gave no answer within {self._timeout_s:.0f} s."
            ) from error
        except OSError as error:
            raise UnavailableError(
                f"clamd cannot be reached at {self._address}: {error}. Start it"
                " (`systemctl start clamav-daemon`), or say with --clamd where it is."
            ) from error

    def _connect(self) -> socket.socket:
        if isinstance(self._address, TcpAddress):
            return socket.create_connection(
                (self._address.host, self._address.port), self._timeout_s
            )
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(self._timeout_s)
            connection.connect(self._address.path)
        except BaseException:
            connection.close()
            raise
        return connection


def _streamed(connection: socket.socket, body: bytes) -> str | None:
    """What clamd says of the body, maybe before its end; None when it hung up without a word."""
    view = memoryview(body)
    try:
        connection.sendall(b"zINSTREAM\0")
        for start in range(0, len(view), _CHUNK):
            part = view[start : start + _CHUNK]
            connection.sendall(_LENGTH.pack(len(part)) + part)
        connection.sendall(_LENGTH.pack(0))
    except (BrokenPipeError, ConnectionResetError):
        # Over its limit clamd answers and hangs up; the answer may still be there to read.
        try:
            return _answer(connection) or None
        except ConnectionResetError:
            return None
    return _answer(connection)


def _answer(connection: socket.socket) -> str:
    """What clamd says, without the NUL at its end."""
    said = b""
    while len(said) < _LONGEST_ANSWER and not said.endswith(b"\0"):
        part = connection.recv(_LONGEST_ANSWER)
        if not part:
            break
        said += part
    return said.rstrip(b"\0\n").decode("ascii", "replace")
