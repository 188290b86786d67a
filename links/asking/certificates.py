"""TLS as browsers speak it, and what is asked of a server whose certificate does not verify (W47).

A broken certificate does not kill a link: readers click through it. So a fault leads to one more
connection that does not mind, and stands in the finding beside what that brought. Nothing secret is
ever sent over either.
"""

import ssl
from functools import lru_cache

from core.errors import ConfigError
from links.asking.troubles import Trouble

_OP_LEGACY_SERVER_CONNECT = 0x4  # SSL_OP_LEGACY_SERVER_CONNECT, in Python's ssl since 3.12
_VERIFY_CODES = {  # X509_V_ERR_*, openssl/x509_vfy.h
    9: "not yet valid",
    10: "expired",
    18: "self-signed",
    23: "revoked",
    62: "wrong host",
    64: "wrong host",
    66: "weak key",
    67: "weak key",
    68: "weak key",
}
_UNKNOWN_ISSUER = "unknown issuer"
_WORDS = (  # parts of OpenSSL's reasons for hanging up
    ("PROTOCOL_VERSION", "old protocol"),
    ("UNSUPPORTED_PROTOCOL", "old protocol"),
    ("UNSAFE_LEGACY_RENEGOTIATION", "old protocol"),
    ("TOO_SMALL", "weak key"),
    ("TOO_WEAK", "weak key"),
    ("SIGNATURE", "weak key"),
)
HANDSHAKE = "handshake"
_REFUSALS = (
    ("CERTIFICATE_REQUIRED", Trouble.WANTS_CERTIFICATE),
    ("ALERT_BAD_CERTIFICATE", Trouble.WANTS_CERTIFICATE),  # its word for it before TLS 1.3
    ("NO_APPLICATION_PROTOCOL", Trouble.OTHER_PROTOCOL),
)


@lru_cache(maxsize=8)
def strict_context(ca_file: str) -> ssl.SSLContext:
    """Verifies as browsers do; trusts the file's certificates besides the system's.

    Raises:
        ConfigError: the file cannot be read, or has no certificates.
    """
    context = ssl.create_default_context()
    if ca_file:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            raise ConfigError(
                f"[egress] ca_file {ca_file!r} has no certificates: {error}."
            ) from error
    return _for_http1(context)


@lru_cache(maxsize=1)
def lenient_context() -> ssl.SSLContext:
    """Takes whatever an old or misconfigured server offers; only after the strict one failed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.options |= _OP_LEGACY_SERVER_CONNECT
    return _for_http1(context)


def fault_of(error: Exception) -> str:
    """What the strict context minded, in a word or two."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _VERIFY_CODES.get(error.verify_code, _UNKNOWN_ISSUER)
    reason = _reason(error)
    return next((word for part, word in _WORDS if part in reason), HANDSHAKE)


def refusal_of(error: Exception) -> Trouble | None:
    """What the server minded about us, when it told; the host is there."""
    reason = _reason(error)
    return next((trouble for part, trouble in _REFUSALS if part in reason), None)


def _reason(error: Exception) -> str:
    """OpenSSL's reason as its constants are spelled; Python knows only some of them by name."""
    if not isinstance(error, ssl.SSLError):
        return ""
    return (getattr(error, "reason", None) or str(error)).upper().replace(" ", "_")


def _for_http1(context: ssl.SSLContext) -> ssl.SSLContext:
    context.set_alpn_protocols(["http/1.1"])
    # A body that ends with the connection often ends without TLS's farewell.
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
    return context
