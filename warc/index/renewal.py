"""Fresh captures index that replaces the old one when complete.

While it is filled, readers use the old one. No other process writes: the caller holds the
collection, and an index of several machines is locked here.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from core.config.database_urls import IndexAddress, parse_index_url
from core.config.settings import IndexSettings
from core.errors import CollectionInUseError, IndexUnavailableError
from core.layout import Layout
from net.postgres_client import LOCK_NAME, PostgresConnection
from warc.index.postgres import PostgresCaptureIndex
from warc.index.protocol import CaptureIndex
from warc.index.sqlite import SqliteCaptureIndex, covered_by_file
from warc.local_storage import sync_folder

TABLES = ("captures", "pages", "payloads", "qualities", "files", "version")
LOCK_TRIES = 50  # a look at the status, or a checksum that is noted, is over in a moment
LOCK_PAUSE_S = 0.1


# The fresh index, the bytes that the old one covers by file (none when it cannot be read), and a
# function that replaces the old one by the fresh one; no writes may follow.
IndexRenewal = tuple[CaptureIndex, Mapping[str, int], Callable[[], None]]


@contextmanager
def renew_index(layout: Layout, settings: IndexSettings) -> Iterator[IndexRenewal]:
    """Create a renewal of the configured index; if it is not published it is discarded.

    Raises CollectionInUseError or IndexUnavailableError for an index of several machines.
    """
    chosen = _renew_server(parse_index_url(settings.url)) if settings.url else _renew_file(layout)
    with chosen as found:
        yield found


@contextmanager
def _renew_file(layout: Layout) -> Iterator[IndexRenewal]:
    path = layout.captures_db
    fresh = path.with_suffix(".rebuilding")
    _remove(fresh)
    index = SqliteCaptureIndex(fresh)

    def publish() -> None:
        index.checkpoint()
        index.close()
        _remove(path)
        fresh.rename(path)
        sync_folder(layout.databases)

    with closing(index):
        yield index, covered_by_file(path), publish


def _remove(database: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)


@contextmanager
def _renew_server(address: IndexAddress) -> Iterator[IndexRenewal]:
    name, fresh = address.index, f"{address.index}_rebuilding"
    drop = f'DROP SCHEMA IF EXISTS "{fresh}" CASCADE'
    with closing(PostgresConnection(address, holds=False)) as server:
        _lock(server, address)
        server.execute(drop)

        def publish() -> None:
            for table in TABLES:  # else the first questions are planned for empty tables
                server.execute(f'ANALYZE "{fresh}"."{table}"', patient=True)
            # The schema stays: there may be more in it than is ours.
            with server.transaction():
                server.execute(f'CREATE SCHEMA IF NOT EXISTS "{name}"')
                for table in TABLES:
                    server.execute(f'DROP TABLE IF EXISTS "{name}"."{table}"')
                    server.execute(f'ALTER TABLE "{fresh}"."{table}" SET SCHEMA "{name}"')

        try:
            with closing(PostgresCaptureIndex(replace(address, index=fresh))) as index:
                yield index, _covered_on_server(server, name), publish
        finally:
            with suppress(IndexUnavailableError):  # else the next renewal drops it
                server.execute(drop)
                # The server may be late in seeing that the connection has ended.
                server.execute("SELECT pg_advisory_unlock_all()")


def _lock(server: PostgresConnection, address: IndexAddress) -> None:
    """Lock the index for exclusive use, for the lifetime of the connection."""
    query = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
    for _ in range(LOCK_TRIES):
        row = server.execute(query, (LOCK_NAME + address.index,)).fetchone()
        if row is not None and row[0]:
            return
        threading.Event().wait(LOCK_PAUSE_S)
    raise CollectionInUseError(
        f"The captures index at {address} is in use: end the crawl on every machine, then try again."
    )


def _covered_on_server(server: PostgresConnection, name: str) -> dict[str, int]:
    query = "SELECT count(*) FROM pg_tables WHERE schemaname = %s AND tablename = 'files'"
    row = server.execute(query, (name,)).fetchone()
    if row is None or not row[0]:
        return {}
    return dict(server.execute("SELECT filename, indexed_to FROM files").fetchall())
