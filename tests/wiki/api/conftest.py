"""An API that is asked without waiting, directly or through a server that changes its answers."""

import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

import pytest

from net.tls_client import strict_context
from tests.support.sites.mediawiki import Wiki
from tests.support.wiki_front import Front, fronting
from wiki.api.client import ApiSettings, ApiTiming, WikiApi
from wiki.api.credentials import WikiCredentials
from wiki.api.transport import ServerRoute


@cache
def _context() -> ssl.SSLContext:
    """Made once: reading the system's certificates takes longer than most tests."""
    return strict_context("")


@dataclass
class Pauses:
    """What would have been waited."""

    slept: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        """Wait not at all."""
        self.slept.append(seconds)


@pytest.fixture(scope="module")
def module_front(wiki: Wiki) -> Iterator[Front]:
    """A server in front of the module's wiki."""
    with fronting(wiki.base) as running:
        yield running


@pytest.fixture
def front(module_front: Front) -> Iterator[Front]:
    """The same, as new."""
    module_front.reset()
    yield module_front
    module_front.reset()


@pytest.fixture
def pauses() -> Pauses:
    """Notes what would have been waited."""
    return Pauses()


ApiAt = Callable[..., WikiApi]


@pytest.fixture
def api_at(pauses: Pauses) -> ApiAt:
    """Opens an API that does not wait; whoever opens it closes it."""

    def opened(address: str, account: WikiCredentials | None = None, **manners: float) -> WikiApi:
        kept = ApiSettings(**{"gap_s": 0, **manners})  # type: ignore[arg-type]
        route, timing = ServerRoute(_context()), ApiTiming(sleep=pauses)
        return WikiApi(address, account, manners=kept, route=route, timing=timing)

    return opened
