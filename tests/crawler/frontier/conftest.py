"""The implementations that the contract is held against, and moments to hold it at."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.settings import FrontierSettings, PolitenessSettings
from crawler.frontier.base import Frontier
from crawler.frontier.sqlite import SqliteFrontier

OpenFrontier = Callable[..., Frontier]


@pytest.fixture
def now() -> datetime:
    """A moment; tests reckon from here."""
    return datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture(params=["sqlite"])
def open_frontier(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenFrontier]:
    """Opens the same frontier as often as it is called, as processes would; closes all."""
    with ExitStack() as stack:

        def opened(
            politeness: PolitenessSettings | None = None, settings: FrontierSettings | None = None
        ) -> Frontier:
            assert request.param == "sqlite"
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
