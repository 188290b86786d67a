"""Where the proxy may connect to: names resolved once, every address checked, the checked one used.

A page can name any host, and a host's name server can answer any address (C-03, C-04). So the
address that was checked is the address connected to, on every new connection, and an address that
is not globally reachable is refused unless a setting allows its network.
"""

import ipaddress
import socket
import time
from collections.abc import Callable, Iterable

from core.errors import PermanentError, TransientError
from core.settings import EgressSettings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Lookup = Callable[[str, int], list[str]]

_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052
_NEVER = tuple(  # is_global calls some of these global; none is a web server
    ipaddress.ip_network(text)
    for text in ("224.0.0.0/4", "ff00::/8", "192.0.0.0/24", "198.18.0.0/15", "100.64.0.0/10")
)
DNS_CACHE_S = 60.0
DNS_CACHE_SIZE = 4096


class BlockedAddressError(PermanentError):
    """The host's address is not public, and no setting allows it."""


class UnknownHostError(TransientError):
    """The name does not resolve."""


class ConnectError(TransientError):
    """No address of the host takes the connection."""


def system_lookup(host: str, port: int) -> list[str]:
    """The host's addresses as the system resolves them.

    Raises:
        UnknownHostError: it has none, or no server answered.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnknownHostError(f"{host} does not resolve: {error}.") from error
    return [str(info[4][0]) for info in found]


def embedded(address: Address) -> Iterable[Address]:
    """The address, and every IPv4 address that it carries inside (mapped, NAT64, 6to4, Teredo)."""
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            yield address.ipv4_mapped
        if address.sixtofour is not None:
            yield address.sixtofour
        if address.teredo is not None:
            yield from address.teredo
        if address in _NAT64:
            yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def is_public(address: Address) -> bool:
    """Whether the address, and whatever it carries inside, is reachable by anybody."""
    carried = list(embedded(address))
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address in _NAT64):
        carried = carried[1:]  # the outer form is only a spelling of the inner
    return all(
        each.is_global
        and not each.is_multicast
        and not any(each.version == net.version and each in net for net in _NEVER)
        for each in carried
    )


class Egress:
    """Opens connections to the web, and to nothing else.

    Thread-safe: the cache is a dict of whole entries.
    """

    def __init__(
        self,
        settings: EgressSettings,
        *,
        connect_timeout_s: float,
        lookup: Lookup = system_lookup,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._resolve = settings.resolve
        self._allow = tuple(ipaddress.ip_network(network) for network in settings.allow)
        self._connect_timeout_s = connect_timeout_s
        self._lookup = lookup
        self._monotonic = monotonic
        self._cache: dict[str, tuple[float, list[str]]] = {}

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to the host, made to an address that was checked.

        Raises:
            UnknownHostError: the name does not resolve.
            BlockedAddressError: one of its addresses is not allowed.
            ConnectError: none of its addresses answers.
        """
        addresses, port = self._addresses(host, port)
        checked = [self._checked(host, text) for text in addresses]
        failure: OSError | None = None
        for address in checked:
            try:
                connection = socket.create_connection(
                    (str(address), port), timeout=self._connect_timeout_s
                )
            except OSError as error:
                failure = error
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        raise ConnectError(f"{host}:{port} cannot be reached: {failure}.") from failure

    def _addresses(self, host: str, port: int) -> tuple[list[str], int]:
        override = self._resolve.get(f"{host}:{port}") or self._resolve.get(host)
        if override is not None:
            address, colon, other_port = override.rpartition(":")
            if colon and "]" not in other_port and ":" not in address.strip("[]"):
                return [address], int(other_port)
            if override.startswith("[") and "]:" in override:
                return [override[1 : override.index("]")]], int(override.rpartition(":")[2])
            return [override.strip("[]")], port
        return self._looked_up(host, port), port

    def _looked_up(self, host: str, port: int) -> list[str]:
        now = self._monotonic()
        hit = self._cache.get(host)
        if hit is not None and hit[0] > now:
            return hit[1]
        addresses = list(dict.fromkeys(self._lookup(host.strip("[]"), port)))
        if len(self._cache) >= DNS_CACHE_SIZE:
            self._cache.clear()
        self._cache[host] = (now + DNS_CACHE_S, addresses)
        return addresses

    def _checked(self, host: str, text: str) -> Address:
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError as error:
            raise UnknownHostError(f"{host} resolves to {text!r}, no address.") from error
        for each in embedded(address):
            if any(each.version == net.version and each in net for net in self._allow):
                return address
        if not is_public(address):
            raise BlockedAddressError(
                f"{host} is at {address}, which is not public; "
                "allow its network in [egress] allow if you mean it."
            )
        return address
