"""Proxy server that browsers connect to; its certificate authority, and TLS contexts of hosts.

Keys are on P-256 (a signature costs a tenth of RSA's), one leaf key serves all hosts so that the browser can trust
exactly that key (`spki`), and each host's TLS context is cached, so that browser sessions can be resumed.
"""

import errno
import fcntl
import ipaddress
import logging
import socket
import socketserver
import ssl
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

from cachetools import FIFOCache, cachedmethod
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from core.config.settings import Settings
from core.errors import ConfigError, ListenError
from core.layout import CA_FILE, Layout
from core.timestamps import from_unix_milliseconds
from net.egress import Egress
from net.tls_client import CertificateVerifier, public_key_pin
from net.tls_decoder import TlsSecrets
from net.upstream_proxy import shut_socket
from proxy.archivist import Archivist
from proxy.exchange import ExchangeContext
from proxy.handler import ArchivingHandler
from proxy.limits import ByteCounter, ReceiveLimits, SpoolSpace
from proxy.stored_responses import StoredResponses
from proxy.upstream import UpstreamConnector
from proxy.visit_registry import VisitRegistry
from warc.index.database import open_database
from warc.local_storage import DiskReserve, replace_file
from warc.record_builder import warcinfo_facts

# One thread a browser connection; idle ones cost a stack. Chromium opens at most 32 to a proxy from one context.
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


CONTEXT_LIMIT = 2000
LEAF_DAYS = 390  # Chromium refuses leaves valid for longer than 398 days
_CLOCK_SKEW = timedelta(days=1)  # clocks differ


class RecorderAuthority:
    """Certificate authority whose key file, in the folder ``ca``, is readable by the owner only."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # proxies that start together make one authority
            self.cert, self.key = _authority(folder / CA_FILE)
            self._leaf_key = _leaf_key(folder / "weboid-leaf.pem")
        self.spki = public_key_pin(self._leaf_key.public_key())
        self.certificate = self.cert.public_bytes(serialization.Encoding.PEM).decode()
        self.folder = folder
        self._contexts: FIFOCache[str, ssl.SSLContext] = FIFOCache(CONTEXT_LIMIT)
        self._making = threading.Lock()

    def context_for(self, host: str) -> ssl.SSLContext:
        """Return the TLS context for `host`, made once; for its parent domain and children, as warcprox's."""
        # The parent domain when it still has a dot, else the host itself.
        parent = host.partition(".")[2]
        is_address = host.startswith("[") or host.replace(".", "").isdigit()
        domain = parent if "." in parent and not is_address else host
        with self._making:
            return self._make(domain)

    @cachedmethod(attrgetter("_contexts"))
    def _make(self, domain: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        names: list[x509.GeneralName]
        try:
            names = [x509.IPAddress(ipaddress.ip_address(domain.strip("[]")))]
        except ValueError:
            names = [x509.DNSName(domain), x509.DNSName(f"*.{domain}")]
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = _unsigned(domain, self.cert.subject, self._leaf_key, LEAF_DAYS)
        builder = builder.add_extension(authority, critical=False)
        leaf = builder.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(self.key, hashes.SHA256())
        # OpenSSL's binding loads keys from files only; this one is removed before the first connection.
        with tempfile.NamedTemporaryFile(dir=self.folder) as file:
            file.write(_pem(self._leaf_key) + leaf.public_bytes(serialization.Encoding.PEM))
            file.flush()
            context.load_cert_chain(file.name)
        return context


# Python 3.13 demands this, and the identifiers of keys (RFC 5280, 4.2.1.1 to 4.2.1.3).
_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _authority(path: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Load or create the root certificate and its key, in a file readable by the owner only."""
    key: Any = None
    if path.exists():
        text = path.read_bytes()
        key = serialization.load_pem_private_key(text, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"{path} has no P-256 key: move it away, and the next start creates a new authority.")
        certificate = x509.load_pem_x509_certificate(text)
        if any(isinstance(each.value, x509.KeyUsage) for each in certificate.extensions):
            return certificate, key
    key = key or ec.generate_private_key(ec.SECP256R1())  # of an earlier release, whose certificate had less
    certificate = (
        _unsigned("Weboid archiving proxy", None, key, 3650)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_SIGNS, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    replace_file(path, _pem(key) + certificate.public_bytes(serialization.Encoding.PEM), mode=0o600)
    return certificate, key


def _unsigned(
    name: str, issuer: x509.Name | None, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    """Return a certificate to extend and sign; without an issuer it is its own."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    now = datetime.now(UTC)  # noqa: TID251 validity is the one thing here that is about time
    return x509.CertificateBuilder(
        issuer_name=issuer or subject,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _CLOCK_SKEW,
        not_valid_after=now + timedelta(days=days),
    )


def _leaf_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Load or create the key of all host certificates, so that browsers need one pin only."""
    if path.exists():
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return key
    key = ec.generate_private_key(ec.SECP256R1())
    replace_file(path, _pem(key), mode=0o600)
    return key


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class RecorderServer(socketserver.TCPServer):
    """Server of recorder connections, a pooled thread each; at its limit no more are accepted."""

    # What handlers use, set before `__init__`.
    visits: VisitRegistry
    ca: RecorderAuthority
    secrets: TlsSecrets  # of connections that browsers make themselves
    exchanges: ExchangeContext

    allow_reuse_address = True
    request_queue_size = 4096  # connections wait in the backlog while all threads are taken

    def __init__(self, listen: ListenAddress, handler: type[ArchivingHandler]) -> None:
        """Listen, or raise ListenError."""
        self._handler = handler
        self._threads = ThreadPoolExecutor(MAX_CONNECTIONS)
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self.open_handlers: set[ArchivingHandler] = set()
        self.address_family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        try:
            super().__init__((listen.host, listen.port), handler)
        except OSError as error:
            raise ListenError(listen.host, listen.port, error) from error

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept the next connection when a thread is free."""
        if not self._free.acquire(timeout=ACCEPT_WAIT_S):
            raise OSError(errno.EAGAIN, "All threads are in use.")  # the server looks whether it is to end
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
            shut_socket(handler.wire.sock)  # an idle connection must not delay shutdown
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
        """Open the stores and listen, or raise ListenError; `spool_folder`: for bodies beyond the memory."""
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
        self.egress = egress
        self._upstream = UpstreamConnector(egress, settings.proxy, settings.egress)
        self._captures = open_database(layout, settings.index.url)
        self.exchanges = ExchangeContext(
            upstream=self._upstream,
            settings=settings.proxy,
            limits=self.limits,
            space=SpoolSpace(spool_folder),
            stored=StoredResponses(layout.archive, self._captures),
            certificates=CertificateVerifier(settings.egress.ca_file),
            hand_over=self.archivist.hand_over,
            now_ms=now_ms,
        )
        self.leaving = False  # event; once set, no new visit is opened
        super().__init__(listen, ArchivingHandler)
        # Host and port at which browsers reach it.
        self.reached_at = (listen.advertise or self.server_address[0], self.server_address[1])
        egress.refuse_listener(*self.server_address[:2])  # whatever the settings allow (C-01)

    def close(self) -> None:
        """Write pending data and release all resources; call after `shutdown`."""
        self.end_connections()
        self.archivist.close()
        self._upstream.close()
        self._captures.close()
