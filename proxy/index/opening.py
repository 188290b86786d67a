"""Which captures index a collection uses."""

from contextlib import closing

from core.index_url import IndexAddress, parse_index_url
from core.layout import Layout
from core.settings import IndexSettings
from proxy.index.protocol import CaptureIndex
from proxy.index.sqlite import SqliteCaptureIndex


def open_index(layout: Layout, settings: IndexSettings) -> CaptureIndex:
    """The index that `[index] url` names; without one the collection's own.

    Raises:
        ConfigError: `url` names none.
        CollectionVersionError: the index was made by another version.
        IndexUnavailableError: its server does not answer.
    """
    if settings.url:
        from proxy.index.postgres import PostgresCaptureIndex  # a sixth of a run's start

        return PostgresCaptureIndex(parse_index_url(settings.url))
    return SqliteCaptureIndex(layout.captures_db)


def ask_index(address: IndexAddress) -> None:
    """Ask the index there whether it answers; nothing is made.

    Raises:
        IndexUnavailableError: it does not.
    """
    from proxy.index.server import PostgresServer

    with closing(PostgresServer(address, holds=False)) as server:
        server.execute("SELECT 1")
