"""Locations of frontiers in Redis, for tests."""

from uuid import uuid4

import redis

from core.config.database_urls import RedisAddress, RedisUse, parse_redis_url
from core.config.settings import FrontierSettings, PolitenessSettings
from crawler.frontier.base import Frontier
from crawler.frontier.redis_frontier import RedisFrontier
from tests.support.services.redis_server import RedisServer


def redis_address(server: RedisServer) -> RedisAddress:
    """Return an address under which no frontier exists yet."""
    return parse_redis_url(f"{server.url}?frontier={uuid4()}", RedisUse.FRONTIER)


class RedisPlace:
    """A name on a server; it reckons in the time that it is told."""

    cuts_rests_at_once = False

    def __init__(self, address: RedisAddress) -> None:
        self._address = address

    def open(self, politeness: PolitenessSettings | None = None, settings: FrontierSettings | None = None) -> Frontier:
        """See `Place`."""
        return RedisFrontier(self._address, politeness=politeness, settings=settings, server_time=False)

    def age(self, items: int) -> None:
        """See `Place`."""
        with redis.Redis(host=self._address.host, port=self._address.port) as client:
            client.hincrby(self._address.tag, "number", items)
