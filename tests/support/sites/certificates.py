"""A certificate authority for the test web, and certificates good and bad."""

import base64
import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.sites import hosts

_Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class SiteCertificates:
    """Paths of the certificates.

    Attributes:
        ca_file: the authority's certificate, PEM; trust it to trust the good hosts.
        spki: base64 of the SHA-256 of the good hosts' public key, as Chromium takes it in
            ``--ignore-certificate-errors-spki-list``.
        good: key and certificate chain of every good host, PEM.
        bad: the same for each host with bad TLS.
    """

    ca_file: Path
    spki: str
    good: Path
    bad: dict[str, Path]


def make_certificates(folder: Path, *, now: datetime) -> SiteCertificates:
    """Make the authority and all certificates in `folder`, valid around `now`."""
    week = timedelta(days=7)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("Test web authority")
    ca = _certificate(ca_name, ca_name, ca_key, ca_key, (now - week, now + 8 * week), ())
    ca_file = folder / "ca.pem"
    ca_file.write_bytes(_pem(ca))

    def issue(file: str, names: tuple[str, ...], span: tuple[datetime, datetime]) -> _Key:
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = _certificate(_name(names[0]), ca_name, key, ca_key, span, names)
        (folder / file).write_bytes(_key_pem(key) + _pem(leaf) + _pem(ca))
        return key

    span = (now - week, now + 4 * week)
    good_key = issue("good.pem", hosts.GOOD, span)
    issue("expired.pem", (hosts.EXPIRED,), (now - 2 * week, now - timedelta(days=1)))
    issue("wrongname.pem", (f"another.{hosts.DOMAIN}",), span)
    own_key = ec.generate_private_key(ec.SECP256R1())
    own_name = _name(hosts.SELFSIGNED)
    own = _certificate(own_name, own_name, own_key, own_key, span, (hosts.SELFSIGNED,))
    (folder / "selfsigned.pem").write_bytes(_key_pem(own_key) + _pem(own))
    return SiteCertificates(
        ca_file=ca_file,
        spki=_spki(good_key),
        good=folder / "good.pem",
        bad={
            hosts.EXPIRED: folder / "expired.pem",
            hosts.WRONGNAME: folder / "wrongname.pem",
            hosts.SELFSIGNED: folder / "selfsigned.pem",
        },
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: _Key,
    signer: _Key,
    span: tuple[datetime, datetime],
    names: tuple[str, ...],
) -> x509.Certificate:
    """Sign a certificate; it is an authority's when it has no names."""
    authority = not names
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(span[0])
        .not_valid_after(span[1])
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if authority:
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
    else:
        alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(signer, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: _Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _spki(key: _Key) -> str:
    der = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(der).digest()).decode()
