"""Pooled connections to origins, with recorded TLS facts.

Idle ones are lent first. When an origin has as many as it may (`[egress] connections_per_host`)
whoever wants one waits, and is served in the order of asking.

A certificate that does not verify is a fact about the origin, not a reason to keep nothing: the
connection is made again without verification and remembers why (`Connection.tls`), unless
`[egress] enforce_tls` insists, or the visit has a login, whose session must reach nobody else.
"""

import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from core.config.settings import EgressSettings, ProxySettings
from core.hosts import UpstreamProxy
from net.connect_errors import BlockedTlsError, ConnectError
from net.egress import Egress
from net.http1 import ResponseHead
from net.timeouts import CancellableTimeout, CancelSignal, WaitCancelledError
from net.tls_client import TlsClient, TlsFacts, UnverifiedError
from net.upstream_proxy import absolute_request, proxy_fault, shut_socket

READ_BYTES = 1 << 16
TLS_READ_BYTES = 1 << 14  # OpenSSL hands out a record at a time, and none is longer

Origin = tuple[str, int, bool]  # host, port, whether TLS


@dataclass(slots=True, eq=False)
class OriginConnection:
    """One open connection to an origin; owned by one exchange at a time.

    Its owner gives it back or closes it, whatever happens: until then it counts.

    Attributes:
        remote_ip: the origin's address; empty when only a proxy on the way knows it.
        tls: what was spoken; empty values for plain http.
        via: the proxy on the way.
        absolute: whether requests are in absolute form, because `via` speaks HTTP for us.
        reused: whether it has served an earlier exchange, so that a silent close means little.
        on_close: called once, when it is closed.
    """

    sock: socket.socket
    origin: Origin
    remote_ip: str
    tls: TlsFacts = field(default_factory=TlsFacts)
    via: UpstreamProxy | None = None
    absolute: bool = False
    reused: bool = False
    idle_since: float = 0.0
    poller: "select.poll | None" = None
    on_close: Callable[["OriginConnection"], None] | None = None

    @property
    def read_bytes(self) -> int:
        """How much is worth asking for at once."""
        return TLS_READ_BYTES if self.origin[2] else READ_BYTES

    def send(self, request: bytes) -> None:
        """Send a request that is in origin form, as the next hop wants it.

        Raises:
            OSError: the peer went away.
        """
        if self.absolute and self.via is not None:
            host, port, _ = self.origin
            authority = host if port == 80 else f"{host}:{port}"
            request = absolute_request(request, self.via, authority)
        self.sock.sendall(request)

    def fault_of(self, head: ResponseHead) -> str:
        """Why the response is not the origin's but a proxy's on the way; empty when it is."""
        if self.absolute and self.via is not None:
            return proxy_fault(head, self.via)
        return ""

    def close(self) -> None:
        """Close it; never raises."""
        try:
            self.sock.close()
        except OSError:
            pass
        finally:
            on_close, self.on_close = self.on_close, None
            if on_close is not None:
                on_close(self)

    def abort(self) -> None:
        """Wake whoever reads from it, from another thread; never raises."""
        shut_socket(self.sock)

    def readable(self) -> bool:
        """Whether something has come; for an idle connection, that it was closed or spoke early."""
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            return True
        poller = self.poller
        if poller is None:
            self.poller = poller = select.poll()
            poller.register(self.sock, select.POLLIN | select.POLLHUP | select.POLLERR)
        return bool(poller.poll(0))


IDLE_S = 20.0
IDLE_TOTAL = 512


@dataclass(slots=True, eq=False)
class _PoolWaiter:
    """Somebody who waits; `served` once it has a connection, or the right to open one."""

    fresh: bool
    woken: threading.Event = field(default_factory=threading.Event)
    served: bool = False
    connection: OriginConnection | None = None


@dataclass(slots=True)
class _OriginSlots:
    """What is open to one origin: `count` of all, lent or idle."""

    count: int = 0
    idle: list[OriginConnection] = field(default_factory=list)
    waiters: deque[_PoolWaiter] = field(default_factory=deque)


class ConnectionPool:
    """Who may have which connection. Thread-safe; closes outside its lock."""

    def __init__(self, limit: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._hosts: dict[Origin, _OriginSlots] = {}
        self._idle: dict[OriginConnection, None] = {}  # all of them, the oldest first
        self._lock = threading.Lock()

    def borrow(
        self, origin: Origin, patience: CancellableTimeout, *, fresh: bool, strict: bool = False
    ) -> OriginConnection | None:
        """An idle connection; None when the caller may open a new one, and then must.

        What was opened by that right comes back by `give_back` or `release`, and the right itself
        by `release`. With `fresh` it is always a new one; with `strict` one whose certificate
        verified, or a new one.

        Raises:
            ConnectError: no turn came in time.
            CutError: the patience was ended.
        """
        while True:
            connection, waiter = self._take(origin, fresh=fresh, strict=strict)
            if waiter is not None:
                connection = self._wait(origin, waiter, patience)
            if connection is None:
                return None
            unfit = fresh or not _suits(connection, strict=strict)
            if not unfit and not (
                self._monotonic() - connection.idle_since > IDLE_S or connection.readable()
            ):
                return connection
            connection.sock.close()  # its place is ours now
            if unfit:
                return None
            self.release(origin)

    def give_back(self, connection: OriginConnection) -> None:
        """Take back a connection that can serve another exchange."""
        now = connection.idle_since = self._monotonic()
        with self._lock:
            host = self._hosts[connection.origin]
            waiter = _first_waiter(host)
            if waiter is not None:
                _serve_waiter(waiter, connection)
                return
            host.idle.append(connection)
            self._idle[connection] = None
            spent = self._spent(now)
        self._drop(spent)

    def release(self, origin: Origin) -> None:
        """Say that a connection was closed, or could not be opened."""
        with self._lock:
            host = self._hosts[origin]
            waiter = _first_waiter(host)
            if waiter is not None:
                _serve_waiter(waiter, None)
                return
            host.count -= 1
            if host.count == 0:
                del self._hosts[origin]

    def close(self) -> None:
        """Close every idle connection."""
        with self._lock:
            idle = list(self._idle)
            for connection in idle:
                self._forget(connection)
        self._drop(idle)

    def _take(
        self, origin: Origin, *, fresh: bool, strict: bool
    ) -> tuple[OriginConnection | None, _PoolWaiter | None]:
        with self._lock:
            host = self._hosts.setdefault(origin, _OriginSlots())
            fit = [] if fresh else [each for each in host.idle if _suits(each, strict=strict)]
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

    def _wait(
        self, origin: Origin, waiter: _PoolWaiter, patience: CancellableTimeout
    ) -> OriginConnection | None:
        try:
            with patience.cut.waking(waiter.woken.set):
                waiter.woken.wait(patience.left_s)
        except WaitCancelledError:
            self._leave(origin, waiter)
            raise
        with self._lock:
            if waiter.served:
                return waiter.connection
            self._hosts[origin].waiters.remove(waiter)
        host, port, _ = origin
        raise ConnectError(
            f"{host}:{port} has its {self._limit} connections, and none came free in time "
            "([egress] connections_per_host)."
        )

    def _leave(self, origin: Origin, waiter: _PoolWaiter) -> None:
        """Stop waiting; what was served meanwhile goes on to the next."""
        with self._lock:
            if not waiter.served:
                self._hosts[origin].waiters.remove(waiter)
                return
        if waiter.connection is None:
            self.release(origin)
        else:
            self.give_back(waiter.connection)

    def _spent(self, now: float) -> list[OriginConnection]:
        """The oldest idle ones, as far as they idled too long or there are too many; forgotten."""
        spent: list[OriginConnection] = []
        for connection in self._idle:
            if now - connection.idle_since <= IDLE_S and len(self._idle) - len(spent) <= IDLE_TOTAL:
                break
            spent.append(connection)
        for connection in spent:
            self._forget(connection)
        return spent

    def _drop(self, connections: list[OriginConnection]) -> None:
        for connection in connections:
            connection.sock.close()
            self.release(connection.origin)

    def _forget(self, connection: OriginConnection) -> None:
        self._hosts[connection.origin].idle.remove(connection)
        del self._idle[connection]


def _suits(connection: OriginConnection, *, strict: bool) -> bool:
    return not (strict and connection.tls.error)


def _first_waiter(host: _OriginSlots) -> _PoolWaiter | None:
    return host.waiters.popleft() if host.waiters else None


def _serve_waiter(waiter: _PoolWaiter, connection: OriginConnection | None) -> None:
    waiter.served, waiter.connection = True, connection
    waiter.woken.set()


class UpstreamConnector:
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
        self._connect_timeout_s = settings.connect_timeout_s
        self._read_timeout_s = settings.read_timeout_s
        self._enforce_tls = egress_settings.enforce_tls
        self._monotonic = monotonic
        self._tls = TlsClient(egress_settings.ca_file)
        self._pool = ConnectionPool(egress_settings.connections_per_host, monotonic=monotonic)

    def lend(
        self,
        origin: Origin,
        *,
        fresh: bool = False,
        tunnel: bool = False,
        strict: bool = False,
        cut: CancelSignal | None = None,
    ) -> OriginConnection:
        """A connection to the origin: an idle one, or a new one (always when `fresh`).

        Waiting for a turn may take the connect time-out, and so may connecting.

        Args:
            origin: where to.
            fresh: for what must not be sent twice, since an idle connection may be closing.
            tunnel: bytes will be relayed: a proxy on the way must not read them. Implies `fresh`.
            strict: the certificate must verify, whatever the settings say.
            cut: ends the waiting from another thread.

        Raises:
            BlockedError, UnknownHostError, ConnectError: as `Egress.open`; also when no turn came,
                and when TLS cannot be spoken (TlsError) or does not verify and must
                (BlockedTlsError).
            CutError: `cut` was set.
        """
        cut = cut or CancelSignal()
        patience = CancellableTimeout(self._connect_timeout_s, cut=cut, monotonic=self._monotonic)
        connection = self._pool.borrow(origin, patience, fresh=fresh or tunnel, strict=strict)
        if connection is not None:
            connection.reused = True
            return connection
        try:
            return self._open(origin, cut, tunnel=tunnel, strict=strict)
        except BaseException:
            self._pool.release(origin)
            raise

    def give_back(self, connection: OriginConnection) -> None:
        """Keep a connection whose response was read to its end."""
        if not connection.reused and isinstance(connection.sock, ssl.SSLSocket):
            host, port, _ = connection.origin
            strict = not connection.tls.error
            self._tls.remember(connection.sock, host, port, strict=strict)
        self._pool.give_back(connection)

    def close(self) -> None:
        """Close every idle connection."""
        self._pool.close()

    def _open(
        self, origin: Origin, cut: CancelSignal, *, tunnel: bool, strict: bool
    ) -> OriginConnection:
        try:
            return self._opened(origin, cut, verdict="", tunnel=tunnel)
        except UnverifiedError as error:
            verdict = str(error)
            if strict or self._enforce_tls:
                raise BlockedTlsError(verdict) from error
        return self._opened(origin, cut, verdict=verdict, tunnel=tunnel)

    def _opened(
        self, origin: Origin, cut: CancelSignal, *, verdict: str, tunnel: bool
    ) -> OriginConnection:
        host, port, tls = origin
        patience = CancellableTimeout(self._connect_timeout_s, cut=cut, monotonic=self._monotonic)
        way = self._egress.open(host, port, patience=patience, tunnel=tls or tunnel)
        connection = OriginConnection(
            way.sock, origin, way.remote_ip, via=way.via, absolute=way.absolute
        )
        if tls:
            connection.sock, connection.tls = self._tls.secure(
                way.sock, host, port, verdict=verdict, patience=patience
            )
        connection.sock.settimeout(self._read_timeout_s)
        connection.on_close = self._closed
        return connection

    def _closed(self, connection: OriginConnection) -> None:
        self._pool.release(connection.origin)
