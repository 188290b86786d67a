"""Openers of the captures index and dedup index named in the settings."""

from contextlib import closing

from core.config.database_urls import (
    IndexAddress,
    RedisAddress,
    RedisUse,
    parse_index_url,
    parse_redis_url,
)
from core.config.settings import IndexSettings, ProxySettings
from core.errors import ConfigError
from core.layout import Layout
from warc.dedup.payloads import PayloadIndex
from warc.index.protocol import CaptureIndex
from warc.index.sqlite import SqliteCaptureIndex, SqlitePayloadIndex


def open_index(layout: Layout, settings: IndexSettings) -> CaptureIndex:
    """Open the configured index; raises ConfigError, CollectionVersionError or IndexUnavailableError."""
    if settings.url:
        from warc.index.postgres import PostgresCaptureIndex  # a sixth of a run's start

        return PostgresCaptureIndex(parse_index_url(settings.url))
    return SqliteCaptureIndex(layout.captures_db)


def check_index(address: IndexAddress) -> None:
    """Check that the index at the address answers, or raise IndexUnavailableError."""
    from net.postgres_client import PostgresConnection

    with closing(PostgresConnection(address, holds=False)) as server:
        server.execute("SELECT 1")


def open_shared(layout: Layout, settings: ProxySettings) -> PayloadIndex | None:
    """Open several machines' dedup index, or None; ConfigError: another address, DedupUnavailableError."""
    if not settings.dedup_url:
        return None
    from warc.dedup.redis_payloads import RedisPayloadIndex  # loads the Redis client

    return RedisPayloadIndex(parse_redis_url(settings.dedup_url, RedisUse.DEDUP), layout.owners)


def check_shared(address: RedisAddress) -> None:
    """Check that the dedup index at the address answers, or raise DedupUnavailableError."""
    from warc.dedup.redis_payloads import dedup_server

    with closing(dedup_server(address)) as server:
        server.script("find", [f"{address.tag}:alive:".encode()], [b""])


def open_payloads(layout: Layout, settings: ProxySettings, index: CaptureIndex) -> PayloadIndex:
    """Open the dedup index at `dedup_url`; without one the collection's own. Raises as `open_shared`.

    A shared `index` needs a shared dedup index, as its transactions do not exclude each other.
    """
    shared = open_shared(layout, settings)
    if shared is not None:
        return shared
    if not isinstance(index, SqliteCaptureIndex):
        raise ConfigError(
            "[index] url needs [proxy] dedup_url: machines that share an index also share a dedup"
            " index, which is in Redis."
        )
    return SqlitePayloadIndex(index)
