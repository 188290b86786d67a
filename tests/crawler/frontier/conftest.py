"""The implementations that the contract is held against, and moments to hold it at."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.config.settings import FrontierSettings, PolitenessSettings
from crawler.frontier.base import Frontier
from tests.crawler.frontier.redis_place import RedisPlace, redis_address
from tests.crawler.frontier.support import FrontierLocation, SqlitePlace
from tests.support.services.redis_server import RedisServer

OpenFrontier = Callable[..., Frontier]
NewPlace = Callable[[], FrontierLocation]


@pytest.fixture
def now() -> datetime:
    """Return the moment from which the tests count time."""
    return datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Yield one Redis server for all tests; each frontier has a name of its own in it."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "redis"])
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> NewPlace:
    """Build places for frontiers, of every implementation in turn."""
    if request.param == "redis":
        server = request.getfixturevalue("redis_server")
        return lambda: RedisPlace(redis_address(server))
    numbers = itertools.count()
    return lambda: SqlitePlace(tmp_path / f"frontier-{next(numbers)}.sqlite")


@pytest.fixture
def open_frontier(new_place: NewPlace) -> Iterator[OpenFrontier]:
    """Open the same frontier as often as it is called, as processes would; close all at the end."""
    place = new_place()
    with ExitStack() as stack:

        def opened(politeness: PolitenessSettings | None = None, settings: FrontierSettings | None = None) -> Frontier:
            return stack.enter_context(place.open(politeness, settings))

        yield opened


@pytest.fixture
def frontier(open_frontier: OpenFrontier) -> Frontier:
    """Return an empty frontier with default settings."""
    return open_frontier()
