"""Client of the ClamAV daemon clamd (clamd(8), INSTREAM), one connection for each command.

>>> parse_clamd_address("unix:/run/clamav/clamd.ctl")
ClamdAddress(host='/run/clamav/clamd.ctl', port=0)
>>> parse_clamd_address("scanner.example:3310")
ClamdAddress(host='scanner.example', port=3310)
"""

import re
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from core.errors import ConfigError, PermanentError, TransientError, UnavailableError

CLAMD_VARIABLE = "WEBOID_CLAMD"
CLAMD_ADDRESS = "unix:/run/clamav/clamd.ctl"  # where Debian's package listens
TIMEOUT_S = 120.0  # clamd's own ReadTimeout
_PORT = 3310
_CHUNK = 64 * 1024
_LONGEST_ANSWER = 4096
_LENGTH = struct.Struct(">I")
_FOUND = re.compile(r"(?:stream|instream\([^)]*\)): (.{1,400}) FOUND", re.ASCII)
# Reported with `AlertExceedsMax yes`: the file was not scanned, which is not a threat.
_TOO_LARGE = re.compile(r"Heuristics\.Limits\.Exceeded", re.ASCII)


def find_clamd(environment: Mapping[str, str]) -> str:
    """Return the configured clamd address, else Debian's default socket if it exists, else ""."""
    if named := environment.get(CLAMD_VARIABLE, ""):
        return named
    return CLAMD_ADDRESS if Path(CLAMD_ADDRESS.removeprefix("unix:")).is_socket() else ""


class TooLargeToScanError(PermanentError):
    """Payload above a size limit of the scanner."""


class ClamdAddress(NamedTuple):
    """TCP address of a clamd, whose protocol has no TLS; without a port, path of its Unix socket."""

    host: str
    port: int = 0

    def __str__(self) -> str:
        if not self.port:
            return f"unix:{self.host}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_clamd_address(text: str) -> ClamdAddress:
    """Parse ``unix:/path``, ``host``, ``host:port`` or ``[::1]:port``; else raise ConfigError."""
    if text.startswith(("unix:", "/")):
        path = text.removeprefix("unix:")
        if not path.startswith("/") or "\0" in path:
            raise ConfigError("clamd's socket is a whole path: unix:/run/clamav/clamd.ctl.")
        return ClamdAddress(path)
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?", text)
    port = int(match[3] or _PORT) if match else 0
    if match is None or not 0 < port < 65_536:
        raise ConfigError(f"{text[:100]!r} is no address of clamd: write unix:/path or host:port.")
    return ClamdAddress(match[1] or match[2], port)


class ClamdClient:
    """Client of one clamd. Thread-safe. All methods raise UnavailableError when the daemon does not answer."""

    def __init__(self, address: ClamdAddress, *, timeout_s: float = TIMEOUT_S) -> None:
        self._address = address
        self._timeout_s = timeout_s

    def version(self) -> str:
        """Return the engine and signature version without its date, e.g. ``ClamAV 1.4.3/27700``."""
        with self._connected() as connection:
            connection.sendall(b"zVERSION\0")
            answer = _answer(connection)
        if not answer.startswith("ClamAV "):
            raise UnavailableError(f"What listens at {self._address} is not clamd.")
        return "/".join(answer.split("/")[:2])

    def scan(self, body: bytes) -> str:
        """Return the name of the matching signature, or an empty string.

        Raises TooLargeToScanError beyond a limit of clamd; TransientError: not now, e.g. no space for temporary files.
        """
        with self._connected() as connection:
            view, is_cut_short = memoryview(body), False
            try:
                connection.sendall(b"zINSTREAM\0")
                for start in range(0, len(view), _CHUNK):
                    part = view[start : start + _CHUNK]
                    connection.sendall(_LENGTH.pack(len(part)) + part)
                connection.sendall(_LENGTH.pack(0))
            except (BrokenPipeError, ConnectionResetError):
                is_cut_short = True
            # Over its limit clamd answers and hangs up; the answer may still be there to read.
            try:
                answer = _answer(connection)
            except ConnectionResetError:
                if not is_cut_short:
                    raise
                answer = ""
        if is_cut_short and not answer:
            self.version()  # raises if the daemon is down
            raise TooLargeToScanError("clamd hung up before the end, as it does above its limit")
        if answer.endswith(" OK"):
            return ""
        match = _FOUND.fullmatch(answer)
        if "size limit exceeded" in answer or (match and _TOO_LARGE.match(match[1])):
            raise TooLargeToScanError("larger than clamd takes")
        if match:
            return match[1]
        if not answer:
            raise UnavailableError(f"clamd at {self._address} closed the connection: is it ending?")
        raise TransientError(f"clamd could not scan: {answer[:200]}")

    @contextmanager
    def _connected(self) -> Iterator[socket.socket]:
        host, port = self._address
        try:
            if port:
                connection = socket.create_connection((host, port), self._timeout_s)
            else:
                connection = socket.socket(socket.AF_UNIX)
            with connection:
                if not port:
                    connection.settimeout(self._timeout_s)
                    connection.connect(host)
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


def _answer(connection: socket.socket) -> str:
    data = b""
    while len(data) < _LONGEST_ANSWER and not data.endswith(b"\0"):
        part = connection.recv(_LONGEST_ANSWER)
        if not part:
            break
        data += part
    return data.rstrip(b"\0\n").decode("ascii", "replace")
