"""What can be said against a host and its port by looking at them: no name is looked up here.

It saves a visit, no more: where a connection may go is decided by the proxy, which checks the address
that it connects to (`proxy.egress`). Reasons begin with the same constants as the proxy's.
"""

import ipaddress
from urllib.parse import urlsplit

from core.errors import BadUrlError
from core.hosts import BAD_PORTS, HostPatterns, is_local_name, parse_endpoint, resolve_key
from core.settings import EgressSettings
from core.url_patterns import Target
from proxy.addresses import Address, AddressRules
from proxy.ways_out import BlockedAddressError

_LOCAL: tuple[Address, ...] = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))


class AddressCheck:
    """The check under these settings.

    Attributes:
        settings: where the proxy may connect to.
    """

    def __init__(self, settings: EgressSettings) -> None:
        self.settings = settings
        self._block = HostPatterns(dict.fromkeys(settings.block, True))
        self._given = {resolve_key(name): to for name, to in settings.resolve.items()}
        # Whether an address is this machine's own is for the proxy to find out: it may be another.
        self._rules = AddressRules(
            allow=settings.allow, refuse=settings.refuse, is_own=lambda _address: False
        )

    def against(self, target: Target) -> str:
        """Why it is not to be asked, a constant first; empty when nothing is known against it."""
        try:
            port = urlsplit(target.text).port or (443 if target.scheme == "https" else 80)
            if self._block.of(target.host):
                return f"host: [egress] block names {target.host}"
            if port in BAD_PORTS:
                return f"port: {port} is refused, as browsers refuse it"
            address = self._literal(target.host, port)
            if address is not None:
                self._rules.check(target.host, address)
        except (BlockedAddressError, BadUrlError, ValueError) as error:
            return f"address: {error}".removesuffix(".")
        return ""

    def _literal(self, host: str, port: int) -> Address | None:
        """The address that the host is, or that a setting gives it; None when it must be looked up."""
        endpoint = self._given.get(f"{host}:{port}") or self._given.get(host)
        if endpoint is not None:
            return ipaddress.ip_address(parse_endpoint(endpoint)[0])
        if is_local_name(host):  # the proxy takes whichever is allowed
            return None if any(self._rules.allows(each) for each in _LOCAL) else _LOCAL[0]
        try:
            return ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            return None
