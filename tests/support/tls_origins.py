"""Origins that speak TLS well and badly, with certificates made for the test."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class CertificateIssuer:
    """Issuer of certificates."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def make_issuer(name: str) -> CertificateIssuer:
    """Create a self-signed root."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 9 * DAY)
        .not_valid_after(NOW + 9 * DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return CertificateIssuer(subject, key, certificate)


def write_leaf(
    path: Path,
    host: str,
    issuer: CertificateIssuer | None,
    *,
    begins: datetime = NOW - DAY,
    ends: datetime = NOW + DAY,
    key: Key | None = None,
) -> bytes:
    """Write key and certificate for the host; return its DER. Self-signed without an issuer."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    try:
        name: x509.GeneralName = x509.IPAddress(ip_address(host))
    except ValueError:
        name = x509.DNSName(host)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.name if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectAlternativeName([name]), critical=False)
        .sign(issuer.key if issuer else key, hashes.SHA256())
    )
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return certificate.public_bytes(serialization.Encoding.DER)


@dataclass
class TlsOrigin:
    """Answers ``HTTP/1.1 200`` to each head; remembers what the client said in its handshake."""

    context: ssl.SSLContext
    names: list[str | None] = field(default_factory=list)
    resumed: list[bool] = field(default_factory=list)
    alpn: list[str | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin to listen."""
        self.context.sni_callback = self._named
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _named(self, _socket: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        self.names.append(name)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ssl.SSLError), connection:
            connection.settimeout(120)
            with self.context.wrap_socket(connection, server_side=True) as secured:
                self.resumed.append(bool(secured.session_reused))
                self.alpn.append(secured.selected_alpn_protocol())
                while secured.recv(65536):
                    secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def server_context(certificate: Path, configure: Callable[[ssl.SSLContext], None] | None = None) -> ssl.SSLContext:
    """Return a server context for the key and certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    if configure is not None:
        configure(context)
    context.load_cert_chain(certificate)
    return context
