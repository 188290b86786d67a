"""Connections to origins: TLS with a recorded verdict, kept alive and lent again.

A certificate that does not verify is a fact about the origin, not a reason to keep nothing: the
connection is made again without verification and remembers why (`Connection.tls_error`).
"""

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from core.settings import EgressSettings, ProxySettings
from proxy.egress import ConnectError, Egress

IDLE_S = 20.0
IDLE_PER_HOST = 8
IDLE_TOTAL = 512
READ_BYTES = 1 << 16
TLS_READ_BYTES = 1 << 14  # OpenSSL hands out a record at a time, and none is longer

Origin = tuple[str, int, bool]  # host, port, whether TLS


@dataclass(slots=True, eq=False)
class Connection:
    """One open connection to an origin; owned by one exchange at a time.

    Attributes:
        tls_error: why its certificate did not verify; empty when it did, or for plain http.
        reused: whether it has served an earlier exchange, so that a silent close means little.
    """

    sock: socket.socket
    origin: Origin
    remote_ip: str
    tls_error: str = ""
    reused: bool = False
    idle_since: float = 0.0
    poller: "select.poll | None" = None

    @property
    def read_bytes(self) -> int:
        """How much is worth asking for at once."""
        return TLS_READ_BYTES if self.origin[2] else READ_BYTES

    def close(self) -> None:
        """Close it; never raises."""
        try:
            self.sock.close()
        except OSError:
            return

    def abort(self) -> None:
        """Wake whoever reads from it, from another thread; never raises."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def readable(self) -> bool:
        """Whether something has come; for an idle connection, that it was closed or spoke early."""
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            return True
        poller = self.poller
        if poller is None:
            self.poller = poller = select.poll()
            poller.register(self.sock, select.POLLIN | select.POLLHUP | select.POLLERR)
        return bool(poller.poll(0))


class Upstream:
    """Lends connections to origins. Thread-safe."""

    def __init__(
        self,
        egress: Egress,
        settings: ProxySettings,
        egress_settings: EgressSettings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._egress = egress
        self._read_timeout_s = settings.read_timeout_s
        self._monotonic = monotonic
        self._idle: dict[Origin, list[Connection]] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._strict = _strict_context(egress_settings.ca_file)
        self._lenient = _lenient_context()

    def lend(self, origin: Origin, *, fresh: bool = False) -> Connection:
        """A connection to the origin: an idle one, or a new one (always when `fresh`).

        Raises:
            UnknownHostError, BlockedAddressError, ConnectError: as `Egress.connect`; a TLS
                handshake that fails for another reason than verification is a ConnectError.
        """
        while not fresh:
            connection = self._take(origin)
            if connection is None:
                break
            if not connection.readable():
                connection.reused = True
                return connection
            connection.close()
        return self._open(origin)

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose response was read to its end."""
        connection.idle_since = self._monotonic()
        with self._lock:
            pool = self._idle.setdefault(connection.origin, [])
            if len(pool) < IDLE_PER_HOST:
                pool.append(connection)
                self._count += 1
                crowded = self._drop_oldest() if self._count > IDLE_TOTAL else None
            else:
                crowded = connection
        if crowded is not None:
            crowded.close()

    def close(self) -> None:
        """Close every idle connection."""
        with self._lock:
            idle, self._idle, self._count = self._idle, {}, 0
        for pool in idle.values():
            for connection in pool:
                connection.close()

    def _take(self, origin: Origin) -> Connection | None:
        now = self._monotonic()
        with self._lock:
            pool = self._idle.get(origin)
            while pool:
                connection = pool.pop()
                self._count -= 1
                if not pool:
                    del self._idle[origin]
                if now - connection.idle_since <= IDLE_S:
                    return connection
                connection.close()
        return None

    def _drop_oldest(self) -> Connection:
        origin = min(self._idle, key=lambda each: self._idle[each][0].idle_since)
        oldest = self._idle[origin].pop(0)
        if not self._idle[origin]:
            del self._idle[origin]
        self._count -= 1
        return oldest

    def _open(self, origin: Origin) -> Connection:
        host, _, tls = origin
        if not tls:
            return self._wrapped(origin, None, "")
        try:
            return self._wrapped(origin, self._strict, "")
        except ssl.SSLCertVerificationError as error:
            verdict = error.verify_message or str(error)
        except ssl.SSLError as error:  # old TLS, weak keys: archived all the same, and said so
            verdict = error.reason or str(error)
        try:
            return self._wrapped(origin, self._lenient, verdict)
        except ssl.SSLError as error:
            raise ConnectError(f"TLS with {host} failed: {error.reason or error}.") from error

    def _wrapped(self, origin: Origin, context: ssl.SSLContext | None, verdict: str) -> Connection:
        host, port, _ = origin
        sock = self._egress.connect(host, port)
        try:
            remote_ip = str(sock.getpeername()[0])
            sock.settimeout(self._read_timeout_s)
            if context is not None:
                sock = context.wrap_socket(sock, server_hostname=host.strip("[]"))
        except ssl.SSLError:
            sock.close()
            raise
        except (OSError, ValueError) as error:
            sock.close()
            raise ConnectError(f"TLS with {host} failed: {error}.") from error
        return Connection(sock, origin, remote_ip, verdict)


def _strict_context(ca_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file:
        context.load_verify_locations(ca_file)
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
    return context


def _lenient_context() -> ssl.SSLContext:
    """Takes whatever an old or misconfigured origin offers; used only after the strict one failed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF | 0x4  # OP_LEGACY_SERVER_CONNECT
    return context
