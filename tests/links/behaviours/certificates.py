"""Certificates and contexts for servers that speak TLS well and badly, by kind."""

import ssl
import warnings
from datetime import timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.tls_origins import NOW, make_issuer, server_context, write_leaf


class CertificateKinds:
    """An authority that the prober trusts, and contexts of every kind for ``site.test``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._issuer = make_issuer("Trusted")
        self._stranger = make_issuer("Stranger")
        self.ca_file = str(folder / "ca.pem")
        pem = self._issuer.certificate.public_bytes(serialization.Encoding.PEM)
        Path(self.ca_file).write_bytes(pem)

    def context(self, kind: str, host: str) -> ssl.SSLContext:
        """Return the server's TLS context of that kind for the host."""
        day = timedelta(days=1)
        name = "elsewhere.test" if kind == "wrong-host" else host
        issuer = {"self-signed": None, "unknown-issuer": self._stranger}.get(kind, self._issuer)
        begins, ends = NOW - day, NOW + day
        if kind == "expired":
            begins, ends = NOW - 5 * day, NOW - day
        if kind == "not-yet-valid":
            begins, ends = NOW + day, NOW + 5 * day
        key = rsa.generate_private_key(65537, 1024) if kind == "weak-key" else None
        path = self._folder / f"{kind}-{host}.pem"
        write_leaf(path, name, issuer, begins=begins, ends=ends, key=key)
        context = server_context(path)
        if kind == "old-protocol":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                context.minimum_version = ssl.TLSVersion.TLSv1
                context.maximum_version = ssl.TLSVersion.TLSv1
        if kind == "sni":
            context.sni_callback = _wants_name(host)
        if kind.startswith("client"):
            wants = ssl.CERT_OPTIONAL if kind == "client-optional" else ssl.CERT_REQUIRED
            context.verify_mode = wants
            context.load_verify_locations(self.ca_file)
        return context


def _wants_name(host: str):  # type: ignore[no-untyped-def]
    def named(_socket: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> int | None:
        return None if name == host else ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    return named
