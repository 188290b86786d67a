"""Proxy server that browsers connect to, on warcprox."""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from http.server import HTTPServer
from pathlib import Path

import warcprox
from warcprox.mitmproxy import PooledMitmProxy
from warcprox.warcproxy import WarcProxy

from core.config.settings import Settings
from core.errors import PermanentError, TransientError, UnavailableError
from core.layout import Layout
from core.timestamps import from_unix_milliseconds
from net.egress import Egress
from net.tls_decoder import TlsSecrets
from proxy.archivist import Archivist
from proxy.certificate_authority import RecorderAuthority
from proxy.exchange import ExchangeContext
from proxy.handler import ArchivingHandler
from proxy.limits import ByteCounter, ReceiveLimits, SpoolSpace
from proxy.stored_responses import StoredResponses
from proxy.upstream import UpstreamConnector
from proxy.visit_registry import VisitRegistry
from warc.index.database import open_database
from warc.local_storage import DiskReserve
from warc.record_builder import warcinfo_facts

# One thread a browser connection; idle ones cost a stack. Chromium opens at most 32 to a proxy
# from one context.
MAX_CONNECTIONS = 1024


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Listening address for browsers."""

    host: str = "127.0.0.1"
    port: int = 0  # the TCP port; 0 selects a free one
    advertise: str = ""  # the host that browsers are given; empty: the address listened on


LOOPBACK = ListenAddress()


class ArchivingProxy(WarcProxy):  # type: ignore[misc]
    """Proxy server for browsers. Run `serve_forever` in a thread, then `shutdown` and `close`."""

    daemon_threads = True
    server_address: tuple[str, int]

    def __init__(  # noqa: PLR0913 each is a dependency owned by the caller
        self,
        layout: Layout,
        settings: Settings,
        *,
        now_ms: Callable[[], int],
        spool_folder: Path,
        tally: ByteCounter,
        egress: Egress | None = None,
        listen: ListenAddress = LOOPBACK,
    ) -> None:
        """Open the stores and listen, or raise UnavailableError; `spool_folder`: for bodies beyond the memory."""
        # warcprox's own constructor makes its RSA authority, connection pool and caches; of all
        # that only the pooled server is wanted.
        self.options = warcprox.Options(max_threads=MAX_CONNECTIONS)
        self.stats_db = None
        PooledMitmProxy.__init__(self, self.options)
        self.visits = VisitRegistry()
        self.secrets = TlsSecrets()  # of connections that browsers make themselves
        layout.archive.mkdir(parents=True, exist_ok=True)
        self.disk = DiskReserve(layout.archive, settings.proxy.disk_reserve_bytes)
        self.limits = ReceiveLimits(settings.proxy, tally, self.disk)
        self.open_handlers: set[ArchivingHandler] = set()
        self.ca = RecorderAuthority(layout.ca)
        self.archivist = Archivist(
            layout,
            settings.proxy,
            settings.index,
            now=lambda: from_unix_milliseconds(now_ms()),
            facts=warcinfo_facts(settings),
        )
        if egress is None:
            egress = Egress(settings.egress, connect_timeout_s=settings.proxy.connect_timeout_s)
        self._egress = egress
        self._upstream = UpstreamConnector(egress, settings.proxy, settings.egress)
        self._captures = open_database(layout, settings.index.url)
        self.exchanges = ExchangeContext(
            upstream=self._upstream,
            settings=settings.proxy,
            limits=self.limits,
            space=SpoolSpace(spool_folder),
            stored=StoredResponses(layout.archive, self._captures),
            hand_over=self.archivist.hand_over,
            now_ms=now_ms,
        )
        self.leaving = False  # event; once set, no new visit is opened
        self.address_family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        try:
            HTTPServer.__init__(self, (listen.host, listen.port), ArchivingHandler)
        except OSError as error:
            raise UnavailableError(f"The proxy cannot listen on {listen.host} port {listen.port}: {error}.") from error
        # Host and port at which browsers reach it.
        self.reached_at = (listen.advertise or self.server_address[0], self.server_address[1])
        self.keep_from(self.server_address)

    def keep_from(self, listener: tuple[str, int]) -> None:
        """Block connections to that listener of this process, regardless of the settings (C-01)."""
        self._egress.refuse_listener(*listener[:2])

    def server_bind(self) -> None:
        """Set up the listening socket without HTTPServer's DNS look-up of its own name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address[:2]

    def reaches(self, host: str, port: int) -> bool:
        """Return whether a connection to the host can be opened; it is closed at once."""
        try:
            self._egress.connect(host, port).close()
        except (PermanentError, TransientError):
            return False
        return True

    def close(self) -> None:
        """Write what is pending and release all resources; call after `shutdown`."""
        self.socket.close()
        for handler in list(self.open_handlers):
            handler.abort()  # an idle connection must not hold up the end
        self.pool.shutdown()
        self.archivist.close()
        self._upstream.close()
        self._captures.close()
