"""TLS client: strict handshake as in browsers, lenient fallback, resumed sessions, and the facts of the connection."""

import base64
import hashlib
import re
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache, cached_property, partial
from ipaddress import ip_address
from pathlib import Path

import certifi
from cachetools import FIFOCache
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509 import verification

from core.errors import ConfigError
from core.hosts import canonical_host
from net.connect_errors import TlsError
from net.timeouts import CancellableTimeout
from net.upstream_proxy import shut_socket

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_DER = serialization.Encoding.DER
SESSIONS_KEPT = 2048
# Of cryptography, for what it cannot read in a certificate, such as a key of an unknown kind.
_CERTIFICATE_ERRORS = (
    *(x509.ExtensionNotFound, x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType),
    UnsupportedAlgorithm,
)
RSA_BITS = 2048  # as OpenSSL's default level of security
SESSION_S = 3600.0  # interval after which the certificate is checked again
# Chromium's own list (BoringSSL's default) for TLS 1.2, in its order; the suites of TLS 1.3 come
# first and are not ours to order.
_CIPHERS = ":".join(
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-CHACHA20-POLY1305",
        "ECDHE-RSA-AES128-SHA",
        "ECDHE-RSA-AES256-SHA",
        "AES128-GCM-SHA256",
        "AES256-GCM-SHA384",
        "AES128-SHA",
        "AES256-SHA",
    )
)
OLD_VERSIONS = ("SSLv3", "TLSv1", "TLSv1.1")  # RFC 8996
_OP_LEGACY_SERVER_CONNECT = 0x4  # named in Python 3.12


class TlsFault(StrEnum):
    """Fault that makes the connection untrusted; a `tls_error` begins with it."""

    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    WRONG_HOST = "wrong-host"
    SELF_SIGNED = "self-signed"
    UNKNOWN_ISSUER = "unknown-issuer"
    WEAK_KEY = "weak-key"
    OLD_PROTOCOL = "old-protocol"
    HANDSHAKE = "handshake"  # no cipher in common that a browser would take, or it just hung up
    OTHER = "other"


_VERIFY_CODES = {  # X509_V_ERR_*, openssl/x509_vfy.h
    9: TlsFault.NOT_YET_VALID,
    10: TlsFault.EXPIRED,
    18: TlsFault.SELF_SIGNED,
    **dict.fromkeys((2, 19, 20, 21, 27), TlsFault.UNKNOWN_ISSUER),  # 19: a root in the chain that is not trusted here
    **dict.fromkeys((62, 64), TlsFault.WRONG_HOST),
    **dict.fromkeys((66, 67, 68), TlsFault.WEAK_KEY),
}
_HANDSHAKE_FAULTS = {
    **dict.fromkeys(("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "UNSAFE_LEGACY_RENEGOTIATION"), TlsFault.OLD_PROTOCOL),
    **dict.fromkeys(("TOO_SMALL", "TOO_WEAK", "SIGNATURE"), TlsFault.WEAK_KEY),
}


@dataclass(frozen=True, slots=True)
class TlsFacts:
    """Parameters of a TLS connection."""

    version: str = ""  # as OpenSSL spells it, e.g. ``TLSv1.3``.
    cipher: str = ""
    certificate: str = ""  # SHA-256 of the leaf certificate (DER), in hex
    error: str = ""  # verification error, a `TlsFault` and OpenSSL's text; empty when verified


class UnverifiedError(Exception):
    """Failure of the strict handshake that the lenient one may accept."""


class TlsClient:
    """TLS client for open sockets. Thread-safe."""

    def __init__(self, ca_file: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._strict = _verifying_context(ca_file)
        self._strict.set_ciphers(_CIPHERS)
        self._lenient = lenient_context()
        self._sessions: FIFOCache[tuple[str, int, bool], tuple[float, ssl.SSLSession]] = FIFOCache(SESSIONS_KEPT)
        self._lock = threading.Lock()

    def secure(
        self, sock: socket.socket, host: str, port: int, *, verdict: str, patience: CancellableTimeout
    ) -> tuple[ssl.SSLSocket, TlsFacts]:
        """Perform a handshake on the socket, closed on failure; with `verdict`, a strict one's fault, it is lenient.

        An IP literal is verified but not sent (RFC 6066, 3). Raises UnverifiedError with a `verdict`, TlsError if it
        failed or timed out; or WaitCancelledError.
        """
        strict = not verdict
        context = self._strict if strict else self._lenient
        secured: ssl.SSLSocket | None = None
        try:
            name, session = canonical_host(host).strip("[]"), self._session(host, port, strict=strict)
            secured = context.wrap_socket(sock, server_hostname=name, do_handshake_on_connect=False, session=session)
            with patience.cut.waking(partial(shut_socket, secured)):
                secured.settimeout(max(patience.left_s, 0.001))
                secured.do_handshake()
            return secured, _facts(secured, verdict)
        except (OSError, ValueError) as error:
            (secured or sock).close()
            fault = tls_fault(error) if strict else None
            if fault is None:
                raise TlsError(f"TLS with {host}:{port} failed: {_words(error)}.") from error
            raise UnverifiedError(f"{fault}: {_words(error)}") from error
        except BaseException:
            (secured or sock).close()
            raise

    def remember(self, sock: ssl.SSLSocket, host: str, port: int, *, strict: bool) -> None:
        """Store the session, best after the first response: TLS 1.3 sends its tickets late (RFC 8446, 4.6.1)."""
        session = sock.session
        if session is None or not (session.has_ticket or session.id):
            return
        key = (host, port, strict)
        with self._lock:
            since, _ = self._sessions.pop(key, (self._monotonic(), None))
            if not sock.session_reused:  # its age is that of the handshake that looked
                since = self._monotonic()
            self._sessions[key] = (since, session)

    def _session(self, host: str, port: int, *, strict: bool) -> ssl.SSLSession | None:
        key = (host, port, strict)
        with self._lock:
            if (entry := self._sessions.get(key)) is None:
                return None
            since, session = entry
            if self._monotonic() - since > SESSION_S:
                del self._sessions[key]
                return None
            return session


def _facts(sock: ssl.SSLSocket, verdict: str) -> TlsFacts:
    certificate = sock.getpeercert(binary_form=True)
    cipher = sock.cipher()
    version = sock.version() or ""
    if version in OLD_VERSIONS and verdict.startswith(TlsFault.HANDSHAKE):
        verdict = verdict.replace(TlsFault.HANDSHAKE, TlsFault.OLD_PROTOCOL, 1)
    digest = hashlib.sha256(certificate).hexdigest() if certificate else ""
    return TlsFacts(version, "" if cipher is None else cipher[0], digest, error=verdict)


def tls_fault(error: OSError | ValueError) -> TlsFault | None:
    """Return the fault found by the strict context; None when the lenient one would fail, too."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _VERIFY_CODES.get(error.verify_code, TlsFault.OTHER)
    if isinstance(error, TimeoutError | ValueError):
        return None
    if isinstance(error, ConnectionError):  # old servers hang up on a hello that is new to them
        return TlsFault.HANDSHAKE
    if isinstance(error, ssl.SSLError):
        reason = openssl_reason(error)
        faults = (fault for part, fault in _HANDSHAKE_FAULTS.items() if part in reason)
        return next(faults, TlsFault.HANDSHAKE)
    return None


def openssl_reason(error: Exception) -> str:
    """Return OpenSSL's reason as its constants are spelled; Python knows only some of them by name."""
    if not isinstance(error, ssl.SSLError):
        return ""
    return (getattr(error, "reason", None) or str(error)).upper().replace(" ", "_")


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message or str(error)
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return str(error)


def _verifying_context(ca_file: str) -> ssl.SSLContext:
    """Create a context that verifies as browsers do, with the file's certificates besides (ConfigError)."""
    context = ssl.create_default_context()
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13 sets it; browsers accept what it refuses
    if ca_file:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            raise ConfigError(f"[egress] ca_file {ca_file!r} has no certificates: {error}.") from error
    return for_http1(context)


strict_context = cache(_verifying_context)  # shared, as nothing changes it


@cache
def lenient_context() -> ssl.SSLContext:
    """Create a context for old or misconfigured origins; used only after the strict one failed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.options |= _OP_LEGACY_SERVER_CONNECT
    return for_http1(context)


def for_http1(context: ssl.SSLContext) -> ssl.SSLContext:
    """Set the context up for HTTP/1.1 alone, with bodies that end as the connection does."""
    context.set_alpn_protocols(["http/1.1"])
    # A body that ends with the connection often ends without TLS's farewell.
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
    return context


def _check_authority(_: verification.Policy, __: x509.Certificate, limits: x509.BasicConstraints) -> None:
    if not limits.ca:
        raise ValueError("It is not the certificate of an authority.")


class CertificateVerifier:
    """Verifier of certificate chains whose handshake another program made. Thread-safe."""

    def __init__(self, ca_file: str) -> None:
        self._ca_file = ca_file

    @cached_property
    def _roots(self) -> tuple[verification.Store, frozenset[bytes]]:
        """Return the system's authorities, and the DER of those of `ca_file`."""
        own = certificates_in(self._ca_file)
        system = ssl.get_default_verify_paths()
        folder = Path(system.capath or "/nowhere") / "ca-certificates.crt"
        roots = certificates_in(system.cafile or str(folder)) or certificates_in(certifi.where())
        return verification.Store([*own, *roots]), frozenset(each.public_bytes(_DER) for each in own)

    def fault(self, chain: Sequence[bytes], host: str, *, now: datetime) -> str:
        """Return why the chain does not verify for the host, a `TlsFault` first; empty when it does."""
        name = canonical_host(host).strip("[]")
        try:
            leaf, *others = (x509.load_der_x509_certificate(each) for each in chain)
            if now > leaf.not_valid_after_utc:
                return f"{TlsFault.EXPIRED}: certificate has expired"
            if now < leaf.not_valid_before_utc:
                return f"{TlsFault.NOT_YET_VALID}: certificate is not yet valid"
            names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            subject: x509.IPAddress | x509.DNSName
            try:
                subject = x509.IPAddress(ip_address(name))
                is_named = subject.value in names.get_values_for_type(x509.IPAddress)
            except ValueError:
                subject, (_, _, parent) = x509.DNSName(name), name.partition(".")
                is_named = not {name, f"*.{parent}"}.isdisjoint(map(str.lower, names.get_values_for_type(x509.DNSName)))
            if not is_named:
                return f"{TlsFault.WRONG_HOST}: Hostname mismatch, certificate is not valid for '{name}'."
            key = leaf.public_key()
            if isinstance(key, rsa.RSAPublicKey) and key.key_size < RSA_BITS:
                return f"{TlsFault.WEAK_KEY}: EE certificate key too weak"
            store, own = self._roots
            if chain[0] in own:
                return ""
            # Not all rules of the web's authorities: operators' own, and OpenSSL, are less strict.
            accepts = verification.ExtensionPolicy.permit_all()
            named = accepts.require_present(x509.SubjectAlternativeName, verification.Criticality.AGNOSTIC, None)
            signing = accepts.require_present(
                x509.BasicConstraints, verification.Criticality.AGNOSTIC, _check_authority
            )
            policy = verification.PolicyBuilder().store(store).time(now)
            verifier = policy.extension_policies(ee_policy=named, ca_policy=signing).build_server_verifier(subject)
            try:
                verifier.verify(leaf, others)
            except verification.VerificationError as error:
                fault = TlsFault.SELF_SIGNED if leaf.issuer == leaf.subject else TlsFault.UNKNOWN_ISSUER
                return f"{fault}: {str(error).splitlines()[0]}"
        except (ValueError, TypeError, *_CERTIFICATE_ERRORS) as error:
            return f"{TlsFault.OTHER}: {type(error).__name__}"
        return ""


def certificates_in(file: str, *, strict: bool = False) -> list[x509.Certificate]:
    """Return the well-formed certificates of a PEM file, with `strict` those that RFC 5280 allows.

    Empty without a file, or when it cannot be read.
    """
    certificates: list[x509.Certificate] = []
    with suppress(OSError), warnings.catch_warnings():
        # Old authorities have odd serial numbers.
        warnings.simplefilter("error" if strict else "ignore", CryptographyDeprecationWarning)
        for block in _PEM.findall(Path(file).read_bytes()):
            with suppress(ValueError, CryptographyDeprecationWarning):
                certificates.append(x509.load_pem_x509_certificate(block))
    return certificates


def public_key_pin(key: PublicKeyTypes) -> str:
    """Return the base64 SHA-256 of a public key, as browsers take it."""
    encoded = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(encoded).digest()).decode()


def trusted_pins(ca_file: str) -> tuple[str, ...]:
    """Return the pins of the file's certificates; empty when it cannot be read, which the proxy has reported."""
    return tuple(public_key_pin(each.public_key()) for each in certificates_in(ca_file))
