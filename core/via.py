"""The proxies that a profile puts between us and some hosts (`[egress] via`)."""

from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import unquote, urlsplit

from core.errors import BadUrlError, ConfigError
from core.hosts import canonical_host

DIRECT = "direct"
_REMEDY = "write socks5://host:port, socks5h://host:port, http://host:port or direct."


class ViaScheme(StrEnum):
    """How a proxy is spoken to, and who resolves names."""

    SOCKS5 = "socks5"  # RFC 1928; we resolve, and the proxy gets an address that was checked
    SOCKS5H = "socks5h"  # the proxy resolves
    HTTP = "http"  # CONNECT to a checked address (RFC 9110); absolute form by setting (RFC 9112)


@dataclass(frozen=True, slots=True)
class Via:
    """A proxy on the way out. Its text never shows the password."""

    scheme: ViaScheme
    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


def parse_via(text: str) -> Via | None:
    """The proxy that ``[egress] via`` names; None for ``direct``.

    Raises:
        ConfigError: it names none; the text holds no password.
    """
    if text == DIRECT:
        return None
    try:
        parts = urlsplit(text)
        scheme, host, port = ViaScheme(parts.scheme), parts.hostname or "", parts.port
        if parts.path.strip("/") or parts.query or parts.fragment or not host or not port:
            raise ConfigError(f"[egress] via: host and port and nothing more: {_REMEDY}")
        via = Via(
            scheme,
            canonical_host(host),
            port,
            unquote(parts.username or ""),
            unquote(parts.password or ""),
        )
    except (ValueError, BadUrlError):
        # No cause is kept: its text could show the password.
        raise ConfigError(f"[egress] via: that is no proxy: {_REMEDY}") from None
    if not via.username and via.password:
        raise ConfigError("[egress] via: a password needs a user name.")
    if max(len(via.username.encode()), len(via.password.encode())) > 255:  # RFC 1929
        raise ConfigError("[egress] via: user name and password have at most 255 bytes each.")
    return via
