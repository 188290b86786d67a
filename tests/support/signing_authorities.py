"""Certificate authority and time-stamp authority for signatures; OpenSSL makes the time stamps."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.support.http_listener import HttpListener, StubResponse

_Key = ec.EllipticCurvePrivateKey
_CONFIG = """
[tsa]
default_tsa = authority
[authority]
serial = {folder}/serial
signer_cert = {folder}/stamp.pem
certs = {folder}/root.pem
signer_key = {folder}/stamp.key
signer_digest = sha256
default_policy = 1.3.6.1.4.1.99999.1
digests = sha256
ess_cert_id_chain = no
ess_cert_id_alg = sha256
"""


class SigningAuthority:
    """Authority that certifies domains and time stamps; its files are in a folder.

    Attributes:
        root: PEM file of the authority's certificate.
    """

    def __init__(self, folder: Path, now: datetime) -> None:
        """Make the authority and the key for time stamps, valid for a year around `now`."""
        folder.mkdir()
        self._folder, self._now = folder, now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Authority {folder.name}")])
        self.root = folder / "root.pem"
        self._root = self._certificate(self._name, self._key, (-180, 180))
        self.root.write_bytes(_pem(self._root))
        self.issue("stamp", usage=ExtendedKeyUsageOID.TIME_STAMPING)
        (folder / "serial").write_text("01\n")
        (folder / "ts.cnf").write_text(_CONFIG.format(folder=folder))

    def issue(
        self,
        name: str,
        *,
        days: tuple[int, int] = (-30, 30),
        usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
    ) -> tuple[Path, Path]:
        """Certify a name; return the PEM files of key and chain. `days`: validity, from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        leaf = self._certificate(subject, key, days, name, usage)
        key_file, chain_file = self._folder / f"{name}.key", self._folder / f"{name}.pem"
        write_key(key_file, key)
        chain_file.write_bytes(_pem(leaf) + _pem(self._root))
        return key_file, chain_file

    def stamp(self, query: bytes) -> bytes:
        """Answer a time-stamp query with the present time."""
        (self._folder / "query").write_bytes(query)
        words = ["openssl", "ts", "-reply", "-config", "ts.cnf", "-queryfile", "query", "-out", "reply"]
        subprocess.run(words, cwd=self._folder, check=True, capture_output=True)
        return (self._folder / "reply").read_bytes()

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Answer queries by HTTP; yield the URL."""
        with HttpListener.running(lambda request: StubResponse(200, self.stamp(request.body))) as listener:
            yield f"{listener.address}/tsa"

    def _certificate(
        self,
        subject: x509.Name,
        key: _Key,
        days: tuple[int, int],
        name: str = "",
        usage: x509.ObjectIdentifier | None = None,
    ) -> x509.Certificate:
        """Sign a certificate; without a name it is the authority's own."""
        start, end = (self._now + timedelta(days=each) for each in days)
        public = key.public_key()
        builder = (
            x509.CertificateBuilder(self._name, subject, public, x509.random_serial_number(), start, end)
            .add_extension(x509.BasicConstraints(ca=not name, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        flags = dict.fromkeys(
            ["content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"], False
        )
        roles = {"digital_signature": bool(name), "key_cert_sign": not name, "crl_sign": not name}
        own = x509.KeyUsage(**flags, **roles, decipher_only=False)
        builder = builder.add_extension(own, critical=True)
        if usage is not None:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            is_stamp = usage == ExtendedKeyUsageOID.TIME_STAMPING  # critical by RFC 3161, 2.3
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=is_stamp)
        return builder.sign(self._key, hashes.SHA256())


def write_key(path: Path, key: _Key) -> None:
    """Write the private key, PEM."""
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(key.private_bytes(*form))


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
