"""Pool of one proxy and one browser that a test owns, for captures without a supervisor."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from crawler.pools.resource_pool import ResourcePool
from crawler.pools.shared_contexts import SharedContextPool
from proxy.control.client import ProxyClient
from render.browser import Browser


@dataclass
class _FixedResource:
    value: ProxyClient | Browser

    @asynccontextmanager
    async def lend(self, *_prefer: object) -> AsyncIterator[ProxyClient | Browser]:
        yield self.value


def fixed_pool(client: ProxyClient, browser: Browser, contexts: SharedContextPool | None = None) -> ResourcePool:
    """Return a pool that lends this proxy and this browser to everyone."""
    lent = _FixedResource(client), _FixedResource(browser)
    return ResourcePool(*lent, contexts)  # type: ignore[arg-type] # lends as both pools do
