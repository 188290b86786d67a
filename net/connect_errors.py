"""Errors of outgoing connections, each with the constant of its reason."""

from typing import ClassVar

from core.errors import PermanentError, TransientError


class BlockedError(PermanentError):
    """Connection refused by policy: a retry changes nothing."""

    reason: ClassVar[str] = "blocked"


class BlockedHostError(BlockedError):
    """Host named by `[egress] block`, or invalid host."""

    reason = "host"


class BlockedPortError(BlockedError):
    """Port that browsers refuse, too (Fetch, 2.9)."""

    reason = "port"


class BlockedAddressError(BlockedError):
    """Host with an address that is not public, and that no setting allows."""

    reason = "address"


class BlockedTlsError(BlockedError):
    """Unverified certificate, where `[egress] enforce_tls` or a login requires verification."""

    reason = "tls"


class UnknownHostError(TransientError):
    """Name that does not resolve."""

    reason: ClassVar[str] = "dns"


class NoSuchHostError(UnknownHostError):
    """Name that does not exist (NXDOMAIN) or has no address, as its name servers say: no time-out, no SERVFAIL."""


class ConnectError(TransientError):
    """Failure to connect to all addresses of the host, or to the upstream proxy."""

    reason: ClassVar[str] = "connect"


class TunnelRefusedError(ConnectError):
    """Refusal of the upstream HTTP proxy to open a tunnel to that host or port."""


class TlsError(ConnectError):
    """TLS handshake failure for another reason than verification."""

    reason = "tls"


NO_SUCH_HOST = f"{UnknownHostError.reason}: no such host"  # prefix of reasons
# Prefixes of reasons without a request to the host; a TLS fault is the host's answer.
UNREACHABLE = (f"{UnknownHostError.reason}:", f"{ConnectError.reason}:")
