"""Which dedup index a collection uses."""

from core.dedup_url import parse_dedup_url
from core.layout import Layout
from core.settings import ProxySettings
from proxy.index import CaptureIndex
from proxy.payloads.protocol import Payloads
from proxy.payloads.redis import RedisPayloads
from proxy.payloads.sqlite import SqlitePayloads


def open_payloads(layout: Layout, settings: ProxySettings, index: CaptureIndex) -> Payloads:
    """The dedup index that `dedup_url` names; without one the collection's own.

    Raises:
        ConfigError: `dedup_url` names none.
        DedupUnavailableError: it does not answer.
    """
    if not settings.dedup_url:
        return SqlitePayloads(index)
    return RedisPayloads(parse_dedup_url(settings.dedup_url), layout.owners)
