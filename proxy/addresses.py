"""Addresses that the proxy may connect to (C-03): the rules of `core.addresses`, and our own machine."""

import errno
import ipaddress
import socket
from collections.abc import Callable, Iterable

from core import addresses
from core.addresses import Address, destinations, is_public, plain
from proxy.ways_out import BlockedAddressError

__all__ = ["Address", "AddressRules", "destinations", "is_own", "is_public"]

_NO_ROUTE = frozenset((errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EAFNOSUPPORT))


def is_own(address: Address) -> bool:
    """Whether the address is this machine's: asked of the kernel's routes, no packet is sent.

    A server that trusts its own machine listens there, public address or not. When the kernel has
    no answer the address counts as ours.
    """
    try:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 443))
            source = ipaddress.ip_address(probe.getsockname()[0].partition("%")[0])
    except OSError as error:
        return error.errno not in _NO_ROUTE
    return source == address or source.is_loopback


class AddressRules(addresses.AddressRules):
    """What `[egress] allow` and `refuse` make of an address, as an error."""

    def __init__(
        self,
        *,
        allow: Iterable[str],
        refuse: Iterable[str],
        is_own: Callable[[Address], bool] = is_own,
    ) -> None:
        super().__init__(allow=allow, refuse=refuse, is_own=is_own)

    def check(self, host: str, address: Address) -> Address:
        """The address to connect to.

        Raises:
            BlockedAddressError: it, or what it carries inside, is not public and not allowed.
        """
        said = self.against(host, address)
        if said:
            raise BlockedAddressError(said)
        return plain(address)
