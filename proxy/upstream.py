"""Pooled connections to origins, with recorded TLS facts; waiting callers are served in order.

An invalid certificate is recorded rather than fatal (`OriginConnection.tls`), unless `[egress] enforce_tls` is set or
the visit has a login, whose session must not reach a third party.
"""

import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from core.config.settings import EgressSettings, ProxySettings
from core.hosts import UpstreamProxy
from net.connect_errors import BlockedTlsError, ConnectError
from net.egress import Egress
from net.http1 import ResponseHead
from net.timeouts import CancellableTimeout, CancelSignal, WaitCancelledError
from net.tls_client import TlsClient, TlsFacts, UnverifiedError
from net.upstream_proxy import absolute_request, proxy_fault
from proxy.browser_connection import PIECE_BYTES, TLS_PIECE_BYTES, Origin, host_header


@dataclass(slots=True, eq=False)
class OriginConnection:
    """Open connection of one exchange, which must give it back or close it: until then it counts against the limit."""

    sock: socket.socket
    origin: Origin
    remote_ip: str  # the origin's address; empty when only an upstream proxy knows it
    tls: TlsFacts = field(default_factory=TlsFacts)  # negotiated TLS parameters; empty values for plain http
    via: UpstreamProxy | None = None
    absolute: bool = False  # whether requests are in absolute form, because `via` is an HTTP proxy
    reused: bool = False  # whether it has served an earlier exchange, so that a close without a response is expected
    idle_since: float = 0.0
    poller: "select.poll | None" = None
    on_close: Callable[["OriginConnection"], None] | None = None  # called once, when it is closed

    @property
    def read_bytes(self) -> int:
        """Return the best size for one read."""
        return TLS_PIECE_BYTES if self.origin[2] else PIECE_BYTES

    def send(self, request: bytes) -> None:
        """Send a request given in origin form, in the form that the next hop needs."""
        if self.absolute and self.via is not None:
            request = absolute_request(request, self.via, host_header(self.origin))
        self.sock.sendall(request)

    def fault_of(self, head: ResponseHead) -> str:
        """Return the error if the response is an upstream proxy's, not the origin's; else empty."""
        return proxy_fault(head, self.via) if self.absolute and self.via is not None else ""

    def close(self) -> None:
        """Close it; never raises."""
        with suppress(OSError):
            self.sock.close()
        on_close, self.on_close = self.on_close, None
        if on_close is not None:
            on_close(self)

    def readable(self) -> bool:
        """Return whether data is available; on an idle connection: closed, or out of sync."""
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            return True
        if (poller := self.poller) is None:
            self.poller = poller = select.poll()
            poller.register(self.sock, select.POLLIN | select.POLLHUP | select.POLLERR)
        return bool(poller.poll(0))


IDLE_S = 20.0
IDLE_TOTAL = 512


@dataclass(slots=True, eq=False)
class _PoolWaiter:
    """Waiting caller; `served` once it has a connection, or the right to open one."""

    fresh: bool
    woken: threading.Event = field(default_factory=threading.Event)
    served: bool = False
    connection: OriginConnection | None = None


@dataclass(slots=True)
class _OriginSlots:
    """Open connections to one origin: `count` of all, lent or idle."""

    count: int = 0
    idle: list[OriginConnection] = field(default_factory=list)
    waiters: deque[_PoolWaiter] = field(default_factory=deque)


class ConnectionPool:
    """Pool of connections with a limit for each origin. Thread-safe; closes outside its lock."""

    def __init__(self, limit: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._hosts: dict[Origin, _OriginSlots] = {}
        self._idle: dict[OriginConnection, None] = {}  # all of them, the oldest first
        self._lock = threading.Lock()

    def borrow(
        self, origin: Origin, patience: CancellableTimeout, *, fresh: bool, strict: bool = False
    ) -> OriginConnection | None:
        """Take an idle connection; None when the caller may open a new one, and then must, until `release`.

        `fresh`: a new one; `strict`: with a verified certificate, or a new one. Raises ConnectError if no slot became
        free in time, or WaitCancelledError.
        """
        while True:
            connection, waiter = self._take(origin, fresh=fresh, strict=strict)
            if waiter is not None:
                connection = self._wait(origin, waiter, patience)
            if connection is None:
                return None
            unfit = fresh or (strict and bool(connection.tls.error))
            if not unfit and not (self._monotonic() - connection.idle_since > IDLE_S or connection.readable()):
                return connection
            connection.sock.close()  # its slot is reused
            if unfit:
                return None
            self.release(origin)

    def give_back(self, connection: OriginConnection) -> None:
        """Take back a connection that can serve another exchange."""
        now = connection.idle_since = self._monotonic()
        with self._lock:
            host = self._hosts[connection.origin]
            if _served_waiter(host, connection):
                return
            host.idle.append(connection)
            self._idle[connection] = None
            # Take out those over the age or count limit, the oldest first.
            spent: list[OriginConnection] = []
            for each in self._idle:
                if now - each.idle_since <= IDLE_S and len(self._idle) - len(spent) <= IDLE_TOTAL:
                    break
                spent.append(each)
            for each in spent:
                self._forget(each)
        self._drop(spent)

    def release(self, origin: Origin) -> None:
        """Release the slot of a connection that was closed or could not be opened."""
        with self._lock:
            host = self._hosts[origin]
            if _served_waiter(host, None):
                return
            host.count -= 1
            if host.count == 0:
                del self._hosts[origin]

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            idle = list(self._idle)
            for connection in idle:
                self._forget(connection)
        self._drop(idle)

    def _take(self, origin: Origin, *, fresh: bool, strict: bool) -> tuple[OriginConnection | None, _PoolWaiter | None]:
        with self._lock:
            host = self._hosts.setdefault(origin, _OriginSlots())
            fit = [] if fresh else [each for each in host.idle if not (strict and each.tls.error)]
            if fit:
                connection = fit[-1]  # the warmest
                self._forget(connection)
                return connection, None
            if host.count < self._limit:
                host.count += 1
                return None, None
            if host.idle:
                connection = host.idle[0]
                self._forget(connection)
                return connection, None
            waiter = _PoolWaiter(fresh)
            host.waiters.append(waiter)
            return None, waiter

    def _wait(self, origin: Origin, waiter: _PoolWaiter, patience: CancellableTimeout) -> OriginConnection | None:
        try:
            with patience.cut.waking(waiter.woken.set):
                waiter.woken.wait(patience.left_s)
        except WaitCancelledError:
            # A slot that was assigned meanwhile passes to the next waiter.
            with self._lock:
                if not waiter.served:
                    self._hosts[origin].waiters.remove(waiter)
                    raise
            if waiter.connection is None:
                self.release(origin)
            else:
                self.give_back(waiter.connection)
            raise
        with self._lock:
            if waiter.served:
                return waiter.connection
            self._hosts[origin].waiters.remove(waiter)
        host, port, _ = origin
        raise ConnectError(
            f"{host}:{port} is at its limit of {self._limit} connections, and none was freed in time "
            "([egress] connections_per_host)."
        )

    def _drop(self, connections: list[OriginConnection]) -> None:
        for connection in connections:
            connection.sock.close()
            self.release(connection.origin)

    def _forget(self, connection: OriginConnection) -> None:
        self._hosts[connection.origin].idle.remove(connection)
        del self._idle[connection]


def _served_waiter(host: _OriginSlots, connection: OriginConnection | None) -> bool:
    """Give the connection, or the right to open one, to the caller that waits longest; False: there is none."""
    if not host.waiters:
        return False
    waiter = host.waiters.popleft()
    waiter.served, waiter.connection = True, connection
    waiter.woken.set()
    return True


class UpstreamConnector:
    """Connector to origins, with a pool. Thread-safe."""

    def __init__(self, egress: Egress, settings: ProxySettings, egress_settings: EgressSettings) -> None:
        self._egress = egress
        self._connect_timeout_s = settings.connect_timeout_s
        self._read_timeout_s = settings.read_timeout_s
        self._enforce_tls = egress_settings.enforce_tls
        self._tls = TlsClient(egress_settings.ca_file)
        self._pool = ConnectionPool(egress_settings.connections_per_host)

    def lend(
        self,
        origin: Origin,
        *,
        fresh: bool = False,
        tunnel: bool = False,
        strict: bool = False,
        cut: CancelSignal | None = None,
    ) -> OriginConnection:
        """Connect to the origin: an idle connection, or a new one; waiting and connecting may take the time-out each.

        `fresh`: for requests that must not be sent twice, since an idle connection may be closing; `tunnel`, which
        implies it: for relays; `strict`: the certificate must verify. Raises as `Egress.open`, TlsError,
        BlockedTlsError.
        """
        cut = cut or CancelSignal()
        patience = CancellableTimeout(self._connect_timeout_s, cut=cut)
        connection = self._pool.borrow(origin, patience, fresh=fresh or tunnel, strict=strict)
        if connection is not None:
            connection.reused = True
            return connection
        try:
            try:
                return self._opened(origin, cut, verdict="", tunnel=tunnel)
            except UnverifiedError as error:
                verdict = str(error)
                if strict or self._enforce_tls:
                    raise BlockedTlsError(verdict) from error
            return self._opened(origin, cut, verdict=verdict, tunnel=tunnel)
        except BaseException:
            self._pool.release(origin)
            raise

    def give_back(self, connection: OriginConnection) -> None:
        """Return a connection whose response was read to its end to the pool."""
        if not connection.reused and isinstance(connection.sock, ssl.SSLSocket):
            host, port, _ = connection.origin
            strict = not connection.tls.error
            self._tls.remember(connection.sock, host, port, strict=strict)
        self._pool.give_back(connection)

    def close(self) -> None:
        """Close all idle connections."""
        self._pool.close()

    def _opened(self, origin: Origin, cut: CancelSignal, *, verdict: str, tunnel: bool) -> OriginConnection:
        host, port, tls = origin
        patience = CancellableTimeout(self._connect_timeout_s, cut=cut)
        way = self._egress.open(host, port, patience=patience, tunnel=tls or tunnel)
        connection = OriginConnection(way.sock, origin, way.remote_ip, via=way.via, absolute=way.absolute)
        if tls:
            connection.sock, connection.tls = self._tls.secure(way.sock, host, port, verdict=verdict, patience=patience)
        connection.sock.settimeout(self._read_timeout_s)
        connection.on_close = lambda closed: self._pool.release(closed.origin)
        return connection
