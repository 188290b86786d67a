"""Which captures index a collection uses, and which of its WARCs that does not cover."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from core.index_url import IndexAddress, parse_index_url
from core.layout import Layout
from core.settings import IndexSettings
from proxy.checksums import closed_warcs
from proxy.index.protocol import CaptureIndex
from proxy.index.sqlite import SqliteCaptureIndex, covered_by_file

OWN_PREFIXES = ("weboid-", "artifacts-")  # of the WARCs that our recorder names


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


def unindexed(layout: Layout) -> list[Path]:
    """Return the closed WARCs of ours that the collection's own index does not wholly cover."""
    covered = covered_by_file(layout.captures_db)
    return not_covered(layout, lambda name: covered.get(name, 0))


def not_covered(layout: Layout, indexed_to: Callable[[str], int]) -> list[Path]:
    """Return the closed WARCs of ours that are longer than `indexed_to` says of their names."""
    return [
        path
        for path in closed_warcs(layout)
        if path.name.startswith(OWN_PREFIXES) and indexed_to(path.name) < path.stat().st_size
    ]
