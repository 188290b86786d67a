"""The implementations that the contract is held against, and moments to hold it at."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from core.redis_url import RedisAddress, RedisUse, parse_redis_url
from core.settings import FrontierSettings, PolitenessSettings
from crawler.frontier.base import Frontier
from crawler.frontier.redis import RedisFrontier
from crawler.frontier.sqlite import SqliteFrontier
from tests.services.redis_server import RedisServer

OpenFrontier = Callable[..., Frontier]


@pytest.fixture
def now() -> datetime:
    """A moment; tests reckon from here."""
    return datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis for frontiers that do not meet."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture
def redis_address(redis_server: RedisServer) -> RedisAddress:
    """Where an empty frontier may be."""
    return parse_redis_url(f"{redis_server.url}?frontier={uuid4()}", RedisUse.FRONTIER)


@pytest.fixture(params=["sqlite", "redis"])
def open_frontier(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenFrontier]:
    """Opens the same frontier as often as it is called, as processes would; closes all."""
    redis = request.param == "redis"
    address = request.getfixturevalue("redis_address") if redis else None
    with ExitStack() as stack:

        def opened(
            politeness: PolitenessSettings | None = None, settings: FrontierSettings | None = None
        ) -> Frontier:
            if address is not None:
                return stack.enter_context(
                    RedisFrontier(
                        address, politeness=politeness, settings=settings, server_time=False
                    )
                )
            return stack.enter_context(
                SqliteFrontier(
                    tmp_path / "frontier.sqlite", politeness=politeness, settings=settings
                )
            )

        yield opened


@pytest.fixture
def frontier(open_frontier: OpenFrontier) -> Frontier:
    """An empty frontier with default settings."""
    return open_frontier()
