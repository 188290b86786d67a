"""Tests of `crawler.frontier.backend`."""

from pathlib import Path

from core.config.settings import FrontierSettings, PolitenessSettings
from core.layout import Layout
from crawler.frontier.backend import open_frontier
from crawler.frontier.redis_frontier import RedisFrontier
from crawler.frontier.sqlite_frontier import SqliteFrontier
from tests.support.services.redis_server import RedisServer


def test_the_settings_say_where_the_frontier_is(redis_server: RedisServer, tmp_path: Path) -> None:
    """Without an address it is the collection's own file."""
    shared = FrontierSettings(url=f"{redis_server.url}?frontier=of-settings")
    layout = Layout(tmp_path)
    layout.databases.mkdir(parents=True)

    with open_frontier(layout, shared, PolitenessSettings()) as frontier:
        assert isinstance(frontier, RedisFrontier)
    with open_frontier(layout, FrontierSettings(), PolitenessSettings()) as frontier:
        assert isinstance(frontier, SqliteFrontier)
