"""Connections to origins: checked addresses, TLS with a recorded verdict, kept alive, lent again.

A certificate that does not verify is a fact about the origin, not a reason to keep nothing: the
connection is made again without verification and remembers why (`Connection.tls`), unless
`[egress] enforce_tls` insists, or the visit has a login, whose session must reach nobody else.
"""

import ssl
import time
from collections.abc import Callable

from core.settings import EgressSettings, ProxySettings
from proxy.connection import Connection, Origin
from proxy.cuts import Cut, Patience
from proxy.egress import Egress
from proxy.pool import Pool
from proxy.tls import TlsClient, UnverifiedError
from proxy.ways_out import BlockedTlsError

__all__ = ["Connection", "Origin", "Upstream"]


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
        self._connect_timeout_s = settings.connect_timeout_s
        self._read_timeout_s = settings.read_timeout_s
        self._enforce_tls = egress_settings.enforce_tls
        self._monotonic = monotonic
        self._tls = TlsClient(egress_settings.ca_file)
        self._pool = Pool(egress_settings.connections_per_host, monotonic=monotonic)

    def lend(
        self,
        origin: Origin,
        *,
        fresh: bool = False,
        tunnel: bool = False,
        strict: bool = False,
        cut: Cut | None = None,
    ) -> Connection:
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
        cut = cut or Cut()
        patience = Patience(self._connect_timeout_s, cut=cut, monotonic=self._monotonic)
        connection = self._pool.borrow(origin, patience, fresh=fresh or tunnel, strict=strict)
        if connection is not None:
            connection.reused = True
            return connection
        try:
            return self._open(origin, cut, tunnel=tunnel, strict=strict)
        except BaseException:
            self._pool.release(origin)
            raise

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose response was read to its end."""
        if not connection.reused:
            self._remember(connection)
        self._pool.give_back(connection)

    def close(self) -> None:
        """Close every idle connection."""
        self._pool.close()

    def _open(self, origin: Origin, cut: Cut, *, tunnel: bool, strict: bool) -> Connection:
        try:
            return self._opened(origin, cut, verdict="", tunnel=tunnel)
        except UnverifiedError as error:
            verdict = str(error)
            if strict or self._enforce_tls:
                raise BlockedTlsError(verdict) from error
        return self._opened(origin, cut, verdict=verdict, tunnel=tunnel)

    def _opened(self, origin: Origin, cut: Cut, *, verdict: str, tunnel: bool) -> Connection:
        host, port, tls = origin
        patience = Patience(self._connect_timeout_s, cut=cut, monotonic=self._monotonic)
        way = self._egress.open(host, port, patience=patience, tunnel=tls or tunnel)
        connection = Connection(way.sock, origin, way.remote_ip, via=way.via, absolute=way.absolute)
        if tls:
            connection.sock, connection.tls = self._tls.secure(
                way.sock, host, port, verdict=verdict, patience=patience
            )
        connection.sock.settimeout(self._read_timeout_s)
        connection.on_close = self._closed
        return connection

    def _remember(self, connection: Connection) -> None:
        if isinstance(connection.sock, ssl.SSLSocket):
            host, port, _ = connection.origin
            strict = not connection.tls.error
            self._tls.remember(connection.sock, host, port, strict=strict)

    def _closed(self, connection: Connection) -> None:
        self._pool.release(connection.origin)
