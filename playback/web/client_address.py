"""Client address behind trusted proxies, and its network for rate limits.

``X-Forwarded-For`` is trusted only from a configured proxy (RFC 7239, 8.1) and read from its end: the last address
that is not a configured proxy is the reader's.
"""

import ipaddress
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from starlette.requests import Request

from core.errors import ConfigError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NO_ADDRESS = IPv4Address("0.0.0.0")  # noqa: S104 client of a socket without addresses
_MOST_HOPS = 20
_RELAYED = ("forwarded", "x-forwarded-for", "via")
_LOG = logging.getLogger(__name__)
_HOST_BITS_V6 = 64  # one customer's network; its hosts choose the lower half freely


@dataclass(frozen=True, slots=True)
class ClientAddresses:
    """Determination of client addresses."""

    proxies: tuple[Network, ...] = ()  # whose ``X-Forwarded-For`` is trusted

    def address_of(self, request: Request) -> Address:
        """Return the reader's address; an invalid entry ends the evaluation at the proxy that sent it."""
        address = _parsed(request.client.host if request.client else "") or NO_ADDRESS
        hops = ",".join(request.headers.getlist("x-forwarded-for")).rsplit(",", _MOST_HOPS)
        for text in reversed(hops[-_MOST_HOPS:]):
            if not within(address, self.proxies):
                break
            further = _parsed(text.strip())
            if further is None:
                break
            address = further
        return address

    def is_relayed(self, request: Request) -> bool:
        """Return True for an untrusted proxy, whose clients must not share its exemptions."""
        if not any(name in request.headers for name in _RELAYED):
            return False
        peer = _parsed(request.client.host if request.client else "") or NO_ADDRESS
        if within(peer, self.proxies):
            return False
        _warn_of_proxy(peer)
        return True


@lru_cache(maxsize=64)
def _warn_of_proxy(peer: Address) -> None:
    _LOG.warning(
        "front.unknown_proxy: address=%s: its readers have no rights by their network; name it with --behind.", peer
    )


def within(address: Address, networks: Iterable[Network]) -> bool:
    """Return True when the address is in one of the networks."""
    return any(address.version == each.version and address in each for each in networks)


def reader_prefix(address: Address) -> str:
    """Return the network that counts as one reader: an IPv4 address, or an IPv6 /64.

    >>> reader_prefix(IPv6Address("2001:db8:1:2::3"))
    '2001:db8:1:2::/64'
    """
    if address.version == 4:
        return str(address)
    return str(IPv6Network((int(address), _HOST_BITS_V6), strict=False))


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse networks from settings: ``10.0.0.0/8``, ``2001:db8::/32``, or a single address."""
    found = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text.strip()))
        except ValueError as error:
            raise ConfigError(f"{text!r} is no network; write an address, or one like 10.0.0.0/8: {error}.") from error
    return tuple(found)


def _parsed(text: str) -> Address | None:
    """Parse an address, unwrapping IPv4-mapped IPv6 and dropping a port; None if invalid."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
