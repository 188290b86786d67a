"""What a visit borrows: a proxy and a browser that knows how to reach it.

Whoever lends proxies is one of two: `crawler.proxies.LocalProxies` starts its own processes,
`crawler.remote.RemoteProxies` finds those that others have started.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from proxy.client import ProxyClient


@dataclass(frozen=True, slots=True)
class Needs:
    """What a browser must know to work with the proxies that there are.

    Attributes:
        spki: of their authority's leaf key, as `render.flags` wants it.
        hosts: "host:port" of each that is not on a loopback address, with its "address:port".
    """

    spki: str = ""
    hosts: Mapping[str, str] = field(default_factory=dict)

    def are_met_by(self, known: "Needs") -> bool:
        """Whether a browser that was started for `known` will do."""
        return self.spki == known.spki and self.hosts.items() <= known.hosts.items()


class LentProxy(Protocol):
    """A proxy, for one visit."""

    @property
    def client(self) -> ProxyClient:
        """Talks to it."""
        ...


class Proxies(Protocol):
    """Lends proxies."""

    async def start(self) -> None:
        """Begin.

        Raises:
            ProxyUnavailableError: there will be none.
        """
        ...

    async def stop(self) -> None:
        """End what was started; everything is written then."""
        ...

    def lend(self) -> AbstractAsyncContextManager[LentProxy]:
        """The proxy that has least to do, for one visit.

        Raises:
            ProxyUnavailableError: there is none, or it went during the visit.
        """
        ...

    @property
    def needs(self) -> Needs:
        """What a browser must know to reach each of them."""
        ...
