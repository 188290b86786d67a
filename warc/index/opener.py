"""Openers of the captures index and dedup index named in the settings."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

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
from warc.index.schema import SCHEMA_VERSION
from warc.index.sqlite import (
    SqliteCaptureIndex,
    SqlitePayloadIndex,
    covered_by_file,
    schema_version,
)
from warc.local_storage import closed_warcs

OWN_PREFIXES = ("weboid-", "artifacts-")  # of the WARCs that our recorder names


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


def is_complete(layout: Layout) -> bool:
    """Return True when the collection's own index is of this version, and covers our closed WARCs."""
    if not layout.captures_db.exists():
        return not any(each.name.startswith(OWN_PREFIXES) for each in closed_warcs(layout))
    return schema_version(layout.captures_db) == SCHEMA_VERSION and not unindexed_warcs(layout)


def unindexed_warcs(layout: Layout) -> list[Path]:
    """Return our closed WARCs that the collection's own index does not cover completely."""
    covered = covered_by_file(layout.captures_db)
    return not_covered(layout, lambda name: covered.get(name, 0))


def not_covered(layout: Layout, indexed_to: Callable[[str], int]) -> list[Path]:
    """Return our closed WARCs that are longer than their `indexed_to`."""
    return [
        path
        for path in closed_warcs(layout)
        if path.name.startswith(OWN_PREFIXES) and indexed_to(path.name) < path.stat().st_size
    ]


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
