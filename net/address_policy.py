"""Policy of outgoing connections by `[egress]`: refused hosts and ports, given and permitted addresses."""

import errno
import ipaddress
import socket
from collections.abc import Callable, Iterable

from core.config.settings import EgressSettings
from core.hosts import BAD_PORTS, HostPatterns, is_local_name, parse_endpoint, parse_upstream_proxy, resolve_key
from net.connect_errors import BlockedAddressError, BlockedHostError, BlockedPortError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Addresses = tuple[Address, ...]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052; the private one, RFC 8215, is not on the web
_ALLOCATED = ipaddress.IPv6Network("2000::/3")  # IANA: the only global unicast; is_global ignores unallocated space
_ISATAP = (0x00005EFE, 0x02005EFE)  # RFC 5214 6.1: the upper half of the interface identifier
_LOW = 0xFFFFFFFF
_LOOPBACK: Addresses = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))
_NEVER: tuple[Network, ...] = tuple(  # is_global is true for some of these, but none is a web server
    ipaddress.ip_network(text)
    for text in (
        "100.64.0.0/10",  # carriers' own, RFC 6598; Alibaba Cloud's metadata, 100.100.100.200
        "168.63.129.16/32",  # Azure's WireServer: secrets of the requesting virtual machine
        "192.0.0.0/24",  # protocol assignments, RFC 6890; Oracle Cloud's metadata, 192.0.0.192
        "192.88.99.0/24",  # 6to4 relays, RFC 7526
        "198.18.0.0/15",  # benchmarks, RFC 2544
        "224.0.0.0/4",  # multicast
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation, RFC 3849
        "2002::/16",  # 6to4, deprecated by RFC 7526; Python versions disagree about it
        "3fff::/20",  # documentation, RFC 9637
    )
)


def unmap_ipv4(address: Address) -> Address:
    """Return the IPv4 address of `::ffff:a.b.c.d`; other addresses unchanged."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def destinations(address: Address) -> tuple[Address, ...]:
    """Return the possible destinations of packets: itself, and embedded (mapped, NAT64, tunnelled) addresses."""
    address = unmap_ipv4(address)
    if not isinstance(address, ipaddress.IPv6Address):
        return (address,)
    low = ipaddress.IPv4Address(int(address) & _LOW)
    if address in _NAT64:
        return (low,)
    addresses: list[Address] = [address]
    if address.sixtofour is not None:
        addresses.append(address.sixtofour)
    if address.teredo is not None:
        addresses.extend(address.teredo)
    if (int(address) >> 32) & _LOW in _ISATAP:
        addresses.append(low)
    return tuple(addresses)


def is_public(address: Address) -> bool:
    """Return True if the address and all embedded ones are globally reachable."""
    return all(_is_public_itself(each) for each in destinations(address))


_NO_ROUTE = frozenset((errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EAFNOSUPPORT))


def is_own(address: Address) -> bool:
    """Return True for an address of this machine, even a public one, by the kernel's routes, or if unknown."""
    try:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 443))
            source = ipaddress.ip_address(probe.getsockname()[0].partition("%")[0])
    except OSError as error:
        return error.errno not in _NO_ROUTE
    return source == address or source.is_loopback


class EgressPolicy:
    """Decision on hosts, ports and addresses by `[egress]`."""

    def __init__(self, settings: EgressSettings, *, is_own: Callable[[Address], bool] = is_own) -> None:
        """Parse the settings; `is_own` is the predicate for this machine's own addresses."""
        self._allow = tuple(ipaddress.ip_network(network) for network in settings.allow)
        self._refuse = tuple(ipaddress.ip_network(network) for network in settings.refuse)
        self._block = HostPatterns(dict.fromkeys(settings.block, True))
        self._endpoints = {resolve_key(name): parse_endpoint(text) for name, text in settings.resolve.items()}
        self.via = HostPatterns({host: parse_upstream_proxy(text) for host, text in settings.via.items()})
        self._is_own = is_own

    def check_target(self, host: str, port: int | None) -> None:
        """Raise BlockedHostError or BlockedPortError for a canonical host or a port that is refused."""
        if self._block.of(host):
            raise BlockedHostError(f"[egress] block contains {host}.")
        if port in BAD_PORTS:
            raise BlockedPortError(f"{host}:{port} is refused, as in browsers.")

    def known_addresses(self, host: str, port: int) -> tuple[Addresses, int] | None:
        """Return addresses and port that need no look-up: given, literal, or by RFC 6761."""
        endpoint = self._endpoints.get(f"{host}:{port}") or self._endpoints.get(host)
        if endpoint is not None:
            return (ipaddress.ip_address(endpoint[0]),), endpoint[1] or port
        if is_local_name(host):
            return tuple(filter(self.allows, _LOOPBACK)) or _LOOPBACK, port
        literal = literal_address(host)
        return None if literal is None else ((literal,), port)

    def allows(self, address: Address) -> bool:
        """Return True if a setting allows the address and none refuses it."""
        return _within(address, self._allow) and not _within(address, self._refuse)

    def against(self, host: str, address: Address) -> str:
        """Return the reason for refusing the address or an embedded one, a sentence; empty: permitted."""
        ends = destinations(address)
        for end in (unmap_ipv4(address), *ends):
            if _within(end, self._refuse):
                return f"{host} is at {end}, which [egress] refuse contains."
        for end in ends:
            if _within(end, self._allow):
                continue
            if not _is_public_itself(end):
                return f"{host} is at {address}, which is not public; if that is intended, add its network to [egress] allow."
            if self._is_own(end):
                return f"{host} is at {address}, an address of this machine; if that is intended, add it to [egress] allow."
        return ""

    def check(self, host: str, address: Address) -> Address:
        """Return the address to connect to; BlockedAddressError if it, or an embedded one, is refused."""
        if reason := self.against(host, address):
            raise BlockedAddressError(reason)
        return unmap_ipv4(address)


def literal_address(host: str) -> Address | None:
    """Return the address that the host is, IPv6 also in brackets; None for a name."""
    if ":" not in host and not host[-1:].isdigit():  # most are names, and an exception costs more
        return None
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _is_public_itself(address: Address) -> bool:
    if not address.is_global or address.is_multicast or _within(address, _NEVER):
        return False
    return address.version == 4 or address in _ALLOCATED


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address.version == net.version and address in net for net in networks)


def rate_limit_prefix(address: Address) -> str:
    """Return the network that an address is throttled with: IPv4 /24, IPv6 /48 (W23)."""
    if isinstance(address, ipaddress.IPv4Address):
        return str(ipaddress.IPv4Network((int(address), 24), strict=False))
    return str(ipaddress.IPv6Network((int(address), 48), strict=False))
