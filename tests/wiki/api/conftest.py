"""Fixtures: API clients that do not wait, and a proxy that can change the wiki's responses."""

import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest

from net.tls_client import strict_context
from tests.support.sites.mediawiki import RunningWiki
from tests.support.wiki_proxy import WikiProxy, running_wiki_proxy
from wiki.api.client import ApiSettings, ApiTiming, WikiApi
from wiki.api.credentials import WikiCredentials
from wiki.api.transport import ServerRoute


@cache
def _context() -> ssl.SSLContext:
    """Return a shared context: reading the system's certificates takes longer than most tests."""
    return strict_context("")


@dataclass
class PauseRecorder:
    """Records waiting times instead of waiting."""

    slept: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        """Record a waiting time."""
        self.slept.append(seconds)


@pytest.fixture(scope="module")
def module_proxy(wiki: RunningWiki) -> Iterator[WikiProxy]:
    with running_wiki_proxy(wiki.base) as running:
        yield running


@pytest.fixture
def proxy(module_proxy: WikiProxy) -> Iterator[WikiProxy]:
    """Yield the same proxy, in its initial state."""
    module_proxy.reset()
    yield module_proxy
    module_proxy.reset()


@pytest.fixture
def pauses() -> PauseRecorder:
    """Return a recorder of waiting times."""
    return PauseRecorder()


ApiAt = Callable[..., WikiApi]


@pytest.fixture
def api_at(pauses: PauseRecorder) -> ApiAt:
    """Return a function that opens an API client that does not wait; the caller closes it."""

    def opened(address: str, account: WikiCredentials | None = None, **limits: Any) -> WikiApi:
        settings = replace(ApiSettings(gap_s=0), **limits)
        route, timing = ServerRoute(_context()), ApiTiming(sleep=pauses)
        return WikiApi(address, account, settings=settings, route=route, timing=timing)

    return opened
