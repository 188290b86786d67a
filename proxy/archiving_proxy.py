"""Proxy server that browsers connect to."""

import errno
import logging
import socket
import socketserver
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
ACCEPT_WAIT_S = 0.2


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Listening address for browsers."""

    host: str = "127.0.0.1"
    port: int = 0  # the TCP port; 0 selects a free one
    advertise: str = ""  # the host that browsers are given; empty: the address listened on


LOOPBACK = ListenAddress()
log = logging.getLogger(__name__)


class RecorderServer(socketserver.TCPServer):
    """Server of recorder connections, a pooled thread each; at its limit no more are accepted.

    Run `serve_forever` in a thread, then `shutdown` and `end_connections`.
    """

    # What handlers use, set before `__init__`.
    visits: VisitRegistry
    limits: ReceiveLimits
    ca: RecorderAuthority
    secrets: TlsSecrets  # of connections that browsers make themselves
    exchanges: ExchangeContext

    allow_reuse_address = True
    request_queue_size = 4096  # connections wait in the backlog while all threads are taken

    def __init__(self, listen: ListenAddress, handler: type[ArchivingHandler]) -> None:
        """Listen, or raise UnavailableError."""
        self._handler = handler
        self._threads = ThreadPoolExecutor(MAX_CONNECTIONS)
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self.open_handlers: set[ArchivingHandler] = set()
        self.address_family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        try:
            super().__init__((listen.host, listen.port), handler)
        except OSError as error:
            raise UnavailableError(f"The proxy cannot listen on {listen.host} port {listen.port}: {error}.") from error

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept the next connection when a thread is free."""
        if not self._free.acquire(timeout=ACCEPT_WAIT_S):
            raise OSError(errno.EAGAIN, "All threads are taken.")  # the server looks whether it is to end
        try:
            return super().get_request()
        except BaseException:
            self._free.release()
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve the connection in a thread."""
        self._threads.submit(self._serve, request, client_address)

    def _serve(self, request: Any, client_address: Any) -> None:
        try:
            # A tunnel's socket takes the place of the one that was accepted.
            request = self._handler(request, client_address, self).request
        except Exception:  # the connection ends, the server does not
            log.warning("connection.failed", exc_info=True)
        finally:
            self._free.release()
            self.shutdown_request(request)

    def end_connections(self) -> None:
        """Close the listening socket and all connections."""
        self.socket.close()
        for handler in list(self.open_handlers):
            handler.abort()  # an idle connection must not hold up the end
        self._threads.shutdown()


class ArchivingProxy(RecorderServer):
    """Proxy server for browsers. Run `serve_forever` in a thread, then `shutdown` and `close`."""

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
        self.visits = VisitRegistry()
        self.secrets = TlsSecrets()  # of connections that browsers make themselves
        layout.archive.mkdir(parents=True, exist_ok=True)
        self.disk = DiskReserve(layout.archive, settings.proxy.disk_reserve_bytes)
        self.limits = ReceiveLimits(settings.proxy, tally, self.disk)
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
        super().__init__(listen, ArchivingHandler)
        # Host and port at which browsers reach it.
        self.reached_at = (listen.advertise or self.server_address[0], self.server_address[1])
        self.keep_from(self.server_address)

    def keep_from(self, listener: tuple[str, int]) -> None:
        """Block connections to that listener of this process, regardless of the settings (C-01)."""
        self._egress.refuse_listener(*listener[:2])

    def reaches(self, host: str, port: int) -> bool:
        """Return whether a connection to the host can be opened; it is closed at once."""
        try:
            self._egress.connect(host, port).close()
        except (PermanentError, TransientError):
            return False
        return True

    def close(self) -> None:
        """Write what is pending and release all resources; call after `shutdown`."""
        self.end_connections()
        self.archivist.close()
        self._upstream.close()
        self._captures.close()
