"""Certificate authority of the recorder and its per-host TLS contexts.

Keys are on P-256 (a signature costs a tenth of RSA's), one leaf key serves all hosts so that the browser can trust
exactly that key (`spki`), and each host's TLS context is cached, so that browser sessions can be resumed.
"""

import fcntl
import ipaddress
import ssl
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from core.errors import ConfigError
from core.layout import CA_FILE
from net.tls_client import public_key_pin
from warc.local_storage import replace_file

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
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._making = threading.Lock()

    def context_for(self, host: str) -> ssl.SSLContext:
        """Return the TLS context for `host`, made once; for its parent domain and children, as warcprox's."""
        # The parent domain when it still has a dot, else the host itself.
        parent = host.partition(".")[2]
        is_address = host.startswith("[") or host.replace(".", "").isdigit()
        domain = parent if "." in parent and not is_address else host
        context = self._contexts.get(domain)
        if context is None:
            with self._making:
                context = self._contexts.get(domain)
                if context is None:
                    context = self._make(domain)
                    if len(self._contexts) >= CONTEXT_LIMIT:
                        self._contexts.pop(next(iter(self._contexts)))
                    self._contexts[domain] = context
        return context

    def _make(self, domain: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        certificate = self._leaf(domain).public_bytes(serialization.Encoding.PEM)
        # OpenSSL's binding loads keys from files only; this one is removed before the first connection.
        with tempfile.NamedTemporaryFile(dir=self.folder) as file:
            file.write(_pem(self._leaf_key) + certificate)
            file.flush()
            context.load_cert_chain(file.name)
        return context

    def _leaf(self, domain: str) -> x509.Certificate:
        names: list[x509.GeneralName]
        try:
            names = [x509.IPAddress(ipaddress.ip_address(domain.strip("[]")))]
        except ValueError:
            names = [x509.DNSName(domain), x509.DNSName(f"*.{domain}")]
        now = datetime.now(UTC)  # noqa: TID251 see above
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, domain[:64])]))
            .issuer_name(self.cert.subject)
            .public_key(self._leaf_key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + timedelta(days=LEAF_DAYS))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self.key, hashes.SHA256())
        )


def _authority(path: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Load or create the root certificate and its key, in a file readable by the owner only."""
    if path.exists():
        text = path.read_bytes()
        key = serialization.load_pem_private_key(text, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"{path} holds no P-256 key: move it away, and the next start makes a new authority.")
        return x509.load_pem_x509_certificate(text), key
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Weboid archiving proxy")])
    now = datetime.now(UTC)  # noqa: TID251 validity is the one thing here that is about time
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    replace_file(path, _pem(key) + certificate.public_bytes(serialization.Encoding.PEM), mode=0o600)
    return certificate, key


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
