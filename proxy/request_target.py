"""Request targets parsed into origin and URL (RFC 9112, 3.2), validated before either is used (C-12).

Escapes and quotes in a path stay as they are, since that is what the origin receives.
"""

import ipaddress
import re

from core.urls import MAX_URL_LENGTH
from net.http1 import MalformedMessageError

Origin = tuple[str, int, bool]  # host, port, whether TLS

# RFC 9112 3.2.2. What stands before "@" are credentials: they go nowhere and are kept nowhere.
_ABSOLUTE = re.compile(r"http://(?:[^/?#@\\]*@)?([^/?#@\\]*)(/[^#]*|\?[^#]*|)(?:#.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::(\d{1,5})?)?", re.IGNORECASE)
_MAX_HOST_LENGTH = 254  # RFC 1035 2.3.4, with a dot at the end


class TargetTooLongError(MalformedMessageError):
    """URL over the length limit (RFC 9110, 15.5.15)."""


def parse_absolute(target: str) -> tuple[Origin, str, str]:
    """Parse an absolute-form target into (origin, request target in origin form, URL).

    Raises MalformedMessageError if it is not an http URL, TargetTooLongError.

    >>> parse_absolute("http://user:secret@Example.org:80/a?b#c")
    (('example.org', 80, False), '/a?b', 'http://example.org/a?b')
    """
    _check_length(target)
    match = _ABSOLUTE.fullmatch(target)
    if match is None:
        raise MalformedMessageError("This is a proxy: give it absolute http:// URLs.")
    origin = (*parse_authority(match[1], 80), False)
    path = match[2] if match[2].startswith("/") else f"/{match[2]}"
    return origin, path, f"http://{host_header(origin)}{path}"


def parse_tunnelled(target: str, origin: Origin) -> tuple[str, str]:
    """Parse an origin-form target in a tunnel into (request target, URL); else MalformedMessageError."""
    _check_length(target)
    if not target.startswith("/") and target != "*":
        raise MalformedMessageError("A tunnelled request has an origin-form target.")
    path = target.partition("#")[0]
    site = f"{'https' if origin[2] else 'http'}://{host_header(origin)}"
    return path, f"{site}{'/' if path == '*' else ''}{path}"


def parse_authority(text: str, default_port: int) -> tuple[str, int]:
    """Parse host (lower case, IPv6 in brackets) and port; else MalformedMessageError.

    >>> parse_authority("[2001:DB8::1]:8443", 443)
    ('[2001:db8::1]', 8443)
    """
    match = _AUTHORITY.fullmatch(text)
    if match is None or len(match[1]) > _MAX_HOST_LENGTH:
        raise MalformedMessageError(f"No host to ask: {text[:80]!r}.")
    host, port = match[1].lower(), int(match[2] or default_port)
    if not 0 < port < 65_536:
        raise MalformedMessageError(f"No port to ask: {text[:80]!r}.")
    if host.startswith("["):
        try:
            host = f"[{ipaddress.IPv6Address(host[1:-1]).compressed}]"
        except ValueError as error:
            raise MalformedMessageError(f"No IPv6 address: {text[:80]!r}.") from error
    return host, port


def host_header(origin: Origin) -> str:
    """Return the origin's host and port as in its Host header and URLs."""
    host, port, tls = origin
    return host if port == (443 if tls else 80) else f"{host}:{port}"


def _check_length(target: str) -> None:
    if len(target) > MAX_URL_LENGTH:
        raise TargetTooLongError(f"A URL of {len(target):,} characters.")
