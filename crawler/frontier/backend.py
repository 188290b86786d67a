"""Choice of the frontier backend: the collection's SQLite file or a shared Redis."""

from core.config.settings import FrontierSettings, PolitenessSettings
from core.layout import Layout
from crawler.frontier.base import Frontier
from crawler.frontier.sqlite_frontier import SqliteFrontier


def open_frontier(
    layout: Layout,
    settings: FrontierSettings,
    politeness: PolitenessSettings,
    *,
    server_time: bool = True,
) -> Frontier:
    """Open the frontier that `settings.url` names; without one the collection's own.

    Raises:
        CollectionVersionError: it was made by another version.
        ConfigError: `url` is not valid.
        TransientError: it does not answer.
        UnavailableError: it cannot be opened.
    """
    if not settings.url:
        return SqliteFrontier(layout.frontier_db, politeness=politeness, settings=settings)
    from core.config.database_urls import RedisUse, parse_redis_url
    from crawler.frontier.redis_frontier import RedisFrontier  # loads the Redis client

    address = parse_redis_url(settings.url, RedisUse.FRONTIER)
    return RedisFrontier(address, politeness=politeness, settings=settings, server_time=server_time)
