"""Who asks: a reader's address, and what counts as one address and one neighbourhood.

The address is the socket's. ``X-Forwarded-For`` is believed only when a configured proxy sends it
(RFC 7239, 8.1: anybody else may write what he likes), and then read from its end: each proxy adds
the address that it saw, so the last one that is no proxy of ours is the reader's.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from starlette.requests import Request

from core.errors import ConfigError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NOWHERE = IPv4Address("0.0.0.0")  # noqa: S104 who asks over a socket without addresses
_MOST_HOPS = 20
_HOST_BITS_V6 = 64  # one customer's network: its host half is anybody's to choose
_RANGE_BITS = {4: 24, 6: 48}  # W23


@dataclass(frozen=True, slots=True)
class Readers:
    """How a reader's address is found.

    Attributes:
        proxies: whose ``X-Forwarded-For`` is believed; none by default.
    """

    proxies: tuple[Network, ...] = ()

    def address_of(self, request: Request) -> Address:
        """The reader's address; what is no address ends the way back at the proxy that said it."""
        address = _parsed(request.client.host if request.client else "") or NOWHERE
        said = ",".join(request.headers.getlist("x-forwarded-for")).rsplit(",", _MOST_HOPS)
        for text in reversed(said[-_MOST_HOPS:]):
            if not within(address, self.proxies):
                break
            further = _parsed(text.strip())
            if further is None:
                break
            address = further
        return address


def within(address: Address, networks: Iterable[Network]) -> bool:
    """Whether the address is in one of them."""
    return any(address.version == each.version and address in each for each in networks)


def one_reader(address: Address) -> str:
    """What is counted as one reader: an IPv4 address, or an IPv6 /64.

    >>> one_reader(IPv6Address("2001:db8:1:2::3"))
    '2001:db8:1:2::/64'
    """
    return str(address) if address.version == 4 else _network(address, _HOST_BITS_V6)


def neighbourhood(address: Address) -> str:
    """The range that an address is throttled with: IPv4 /24, IPv6 /48 (W23).

    >>> neighbourhood(IPv4Address("192.0.2.77")), neighbourhood(IPv6Address("2001:db8:1:2::3"))
    ('192.0.2.0/24', '2001:db8:1::/48')
    """
    return _network(address, _RANGE_BITS[address.version])


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks as settings name them: ``10.0.0.0/8``, ``2001:db8::/32``, or a single address.

    Raises:
        ConfigError: one of them is none.
    """
    found = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text.strip()))
        except ValueError as error:
            raise ConfigError(
                f"{text!r} is no network; write an address, or one like 10.0.0.0/8: {error}."
            ) from error
    return tuple(found)


def _network(address: Address, bits: int) -> str:
    kind = IPv4Network if address.version == 4 else IPv6Network
    return str(kind((int(address), bits), strict=False))


def _parsed(text: str) -> Address | None:
    """The address that the text names, IPv4 inside IPv6 taken out; a port is left out."""
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
