"""Errors of outgoing connections, each with the constant of its reason.

BlockedError            refused by us: asking again changes nothing
├── BlockedHostError     a rule names the host, or it is no host
├── BlockedPortError     a port that is no web
├── BlockedAddressError  the host is at an address that is not public
└── BlockedTlsError      its certificate does not verify, and a setting or a login insists
UnknownHostError        its name does not resolve
ConnectError            no address of it takes the connection
├── TunnelRefusedError   the HTTP proxy on the way opens no tunnel there
└── TlsError             it does not speak TLS that we can speak
"""

from typing import ClassVar

from core.errors import PermanentError, TransientError


class BlockedError(PermanentError):
    """We refuse to go there."""

    reason: ClassVar[str] = "blocked"


class BlockedHostError(BlockedError):
    """`[egress] block` names the host, or it is no host."""

    reason = "host"


class BlockedPortError(BlockedError):
    """A port that browsers refuse, too (Fetch, 2.9)."""

    reason = "port"


class BlockedAddressError(BlockedError):
    """The host's address is not public, and no setting allows it."""

    reason = "address"


class BlockedTlsError(BlockedError):
    """The origin's certificate does not verify, and `[egress] enforce_tls` or a login insists."""

    reason = "tls"


class UnknownHostError(TransientError):
    """The name does not resolve."""

    reason: ClassVar[str] = "dns"


class ConnectError(TransientError):
    """No address of the host takes the connection, or the proxy on the way does not."""

    reason: ClassVar[str] = "connect"


class TunnelRefusedError(ConnectError):
    """The HTTP proxy on the way does not allow a tunnel to that host or port."""


class TlsError(ConnectError):
    """The TLS handshake failed for another reason than verification."""

    reason = "tls"


# How a reason begins that says that no request reaches the host; a TLS fault is the host's answer.
UNREACHABLE = (f"{UnknownHostError.reason}:", f"{ConnectError.reason}:")
