"""Hosts, canonical before any comparison: registrable domain, patterns, endpoints, blocked ports, proxies."""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, lru_cache
from typing import Generic, TypeVar
from urllib.parse import unquote, urlsplit

from publicsuffixlist import PublicSuffixList

from core.errors import BadUrlError, ConfigError, InputError
from core.urls import MAX_HOST_LENGTH, UrlFault, host_of

_FORM = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})")


def split_host_port(text: str) -> tuple[str, int]:
    """Split host and port (0: any free one); IPv6 is in brackets. Raises ConfigError.

    >>> split_host_port("proxy-1:8000"), split_host_port("[::1]:0")
    (('proxy-1', 8000), ('::1', 0))
    """
    match = _FORM.fullmatch(text)
    if match is None or int(match[3]) > 65_535:
        raise ConfigError(f"{text!r} is not a host and port: write 192.0.2.7:8000 or [::1]:8000.")
    return match[1] or match[2], int(match[3])


def join_host_port(host: str, port: int) -> str:
    """Join host and port; the inverse of `split_host_port`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


T = TypeVar("T")

# What would end the host inside a URL, and what parsers silently drop.
_NO_HOST = re.compile(r"[\x00-\x20\x7f/\\?#@\[\]:]")
_BRACKETED = re.compile(r"\[[0-9A-Fa-f:.]+\]")

# Fetch, 2.9 "port blocking": services that an HTTP request could make do something.
# fmt: off
BAD_PORTS = frozenset((
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
    103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
    512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
    995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668,
    6669, 6679, 6697, 10080,
))
# fmt: on


@lru_cache(maxsize=4096)
def canonical_host(host: str) -> str:
    """Normalize the host as the WHATWG URL Standard does, without a final dot; else BadUrlError.

    >>> canonical_host("0x7F.1."), canonical_host("[0:0::0:1]")
    ('127.0.0.1', '[::1]')
    """
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    if not _BRACKETED.fullmatch(host) and _NO_HOST.search(host):
        raise _no_host(host)
    canonical = host_of(f"http://{host}/")
    labels = canonical.split(".")
    too_long = len(canonical) > MAX_HOST_LENGTH or any(len(label) > 63 for label in labels)
    if too_long or not all(labels):
        raise _no_host(host)
    return canonical


def is_local_name(host: str) -> bool:
    """Return True when the canonical host is a name of this machine (RFC 6761, 6.3)."""
    return host == "localhost" or host.endswith(".localhost")


def domains_of(host: str) -> Iterator[str]:
    """Yield the canonical host and its parent domains, the longest first; of an IPv6 address itself alone."""
    yield host
    while not host.startswith("[") and (host := host.partition(".")[2]):
        yield host


class HostPatterns(Generic[T]):
    """Values by host pattern: ``example.org`` alone, ``*.example.org`` with all hosts below it, or ``*``.

    The most specific decides: an exact host, then longer domains before shorter ones, then ``*``.
    """

    def __init__(self, patterns: Mapping[str, T]) -> None:
        """Parse the patterns. Raises ConfigError if one of them is not a pattern."""
        self._exact: dict[str, T] = {}
        self._domains: dict[str, T] = {}
        self._every: list[T] = []
        for pattern, value in patterns.items():
            if pattern == "*":
                self._every = [value]
            elif pattern.startswith("*."):
                self._domains[_pattern_host(pattern, pattern[2:])] = value
            else:
                self._exact[_pattern_host(pattern, pattern)] = value

    def of(self, host: str) -> T | None:
        """Return the value for the canonical host; None when no pattern matches."""
        if host in self._exact:
            return self._exact[host]
        for domain in domains_of(host) if self._domains else ():
            if domain in self._domains:
                return self._domains[domain]
        return self._every[0] if self._every else None

    def covers(self, url: str) -> bool:
        """Return whether a pattern matches the host of the URL; False for text that has none."""
        try:
            return self.of(canonical_host(urlsplit(url).hostname or "")) is not None
        except (BadUrlError, ValueError):
            return False


def parse_endpoint(text: str) -> tuple[str, int | None]:
    """Parse (address, port or None) of ``address``, ``address:port``, ``[address]:port``, IPv6; raises ConfigError."""
    match = re.fullmatch(r"(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?", text)
    address = (match[1] or match[2]) if match else text
    port = int(match[3]) if match and match[3] else None
    try:
        return str(ipaddress.ip_address(address)), port
    except ValueError as error:
        raise ConfigError(f"{text!r} is not an address: write 192.0.2.7:8080 or [::1]:80.") from error


def resolve_key(name: str) -> str:
    """Normalize ``host`` or ``host:port``, a key of `[egress] resolve`; else ConfigError.

    >>> resolve_key("Example.org.:80"), resolve_key("[::0:1]:80"), resolve_key("::1")
    ('example.org:80', '[::1]:80', '[::1]')
    """
    host, colon, port = name.rpartition(":")
    alone = not colon or "]" in port or (":" in host and not host.startswith("["))
    try:
        if alone:
            return canonical_host(name)
        return f"{canonical_host(host)}:{int(port)}"
    except (BadUrlError, ValueError) as error:
        raise ConfigError(f"{name!r} is not a host: write example.org or example.org:80.") from error


def _pattern_host(pattern: str, host: str) -> str:
    try:
        if "*" not in host:
            return canonical_host(host)
    except BadUrlError:
        pass
    raise ConfigError(f"{pattern!r} is not a host pattern: write example.org, *.example.org for its subdomains, or *.")


def _no_host(host: str) -> BadUrlError:
    return BadUrlError(f"{host[:200]!r} is not a host.", reason=UrlFault.LABEL.value)


DIRECT = "direct"
_REMEDY = "write socks5://host:port, socks5h://host:port, http://host:port or direct."


class UpstreamProxyScheme(StrEnum):
    """Protocol of an upstream proxy, and the place of name resolution."""

    SOCKS5 = "socks5"  # RFC 1928; we resolve, and the proxy gets an address that was checked
    SOCKS5H = "socks5h"  # the proxy resolves
    HTTP = "http"  # CONNECT to a checked address (RFC 9110); absolute form by setting (RFC 9112)


@dataclass(frozen=True, slots=True)
class UpstreamProxy:
    """Upstream proxy of outgoing connections. Its text never shows the password."""

    scheme: UpstreamProxyScheme
    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


def parse_upstream_proxy(text: str) -> UpstreamProxy | None:
    """Parse a proxy of ``[egress] via``; None for ``direct``; a ConfigError holds no password."""
    if text == DIRECT:
        return None
    try:
        parts = urlsplit(text)
        scheme, host, port = UpstreamProxyScheme(parts.scheme), parts.hostname or "", parts.port
        if parts.path.strip("/") or parts.query or parts.fragment or not host or not port:
            raise ConfigError(f"[egress] via: only host and port are allowed: {_REMEDY}")
        via = UpstreamProxy(
            scheme, canonical_host(host), port, unquote(parts.username or ""), unquote(parts.password or "")
        )
    except (ValueError, BadUrlError):
        # No cause is kept: its text could show the password.
        raise ConfigError(f"[egress] via: that is not a proxy: {_REMEDY}") from None
    if not via.username and via.password:
        raise ConfigError("[egress] via: a password needs a user name.")
    if max(len(via.username.encode()), len(via.password.encode())) > 255:  # RFC 1929
        raise ConfigError("[egress] via: user name and password have at most 255 bytes each.")
    return via


@dataclass(frozen=True, slots=True)
class ProxyEndpoint:
    """Proxy of a visit's requests, with its credentials or none."""

    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)  # of the visit, in a browser context that visits share
    direct: tuple[str, ...] = ()  # "host:port" that are connected to without the proxy

    @property
    def server(self) -> str:
        """Return the proxy server in the form that the browser expects."""
        return f"http://{join_host_port(self.host, self.port)}"


@lru_cache(maxsize=8192)
def registrable(host: str) -> str:
    """Return the host's registrable domain; the host itself without one, and an address."""
    if host.startswith("[") or host.rpartition(".")[2].isdigit():
        return host  # an address has no suffix that others share
    return _suffixes().privatesuffix(host) or host


def warm_up() -> None:
    """Load the list of public suffixes now, which takes a fraction of a second."""
    _suffixes()


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def host_name(text: str) -> str:
    """Return a host's name as the frontier stores it; a URL means its host.

    >>> host_name("WWW.Example.ORG"), host_name("https://a.example:8443/x"), host_name("[::1]")
    ('www.example.org', 'a.example', '[::1]')
    """
    text = text.strip()
    try:
        return host_of(text if "://" in text else f"http://{text}/")
    except BadUrlError as error:
        raise InputError(f"{text[:80]!r} is not a host: {error}") from error
