"""Which dedup index a collection uses."""

from contextlib import closing

from core.errors import ConfigError
from core.layout import Layout
from core.redis_url import RedisAddress, RedisUse, parse_redis_url
from core.settings import ProxySettings
from proxy.index.protocol import CaptureIndex
from proxy.index.sqlite import SqliteCaptureIndex
from proxy.payloads.dedup_server import dedup_server
from proxy.payloads.protocol import Payloads
from proxy.payloads.redis import RedisPayloads
from proxy.payloads.sqlite import SqlitePayloads


def open_shared(layout: Layout, settings: ProxySettings) -> Payloads | None:
    """The dedup index of several machines; None when the collection has its own.

    Raises:
        ConfigError: `dedup_url` names none.
        DedupUnavailableError: it does not answer.
    """
    if not settings.dedup_url:
        return None
    return RedisPayloads(parse_redis_url(settings.dedup_url, RedisUse.DEDUP), layout.owners)


def ask_shared(address: RedisAddress) -> None:
    """Ask the dedup index there whether it answers; nothing is left behind.

    Raises:
        DedupUnavailableError: it does not.
    """
    with closing(dedup_server(address)) as server:
        server.script("find", [f"{address.tag}:alive:".encode()], [b""])


def open_payloads(layout: Layout, settings: ProxySettings, index: CaptureIndex) -> Payloads:
    """The dedup index that `dedup_url` names; without one the collection's own.

    Raises:
        ConfigError, DedupUnavailableError: as `open_shared`.
        ConfigError: there is no `dedup_url`, and `index` is shared: it keeps nobody waiting, so
            nothing would make one `response` of many.
    """
    shared = open_shared(layout, settings)
    if shared is not None:
        return shared
    if not isinstance(index, SqliteCaptureIndex):
        raise ConfigError(
            "[index] url needs [proxy] dedup_url: machines that share an index also share a dedup"
            " index, which is in Redis."
        )
    return SqlitePayloads(index)
