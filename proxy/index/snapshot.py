"""The captures index of several machines as it is at one moment, in a SQLite file.

Whoever holds every row against every record asks for all of it, one file after the other: that is
better asked here than there, and one moment is what a crawl that goes on leaves no other way to see.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from core.index_schema import CAPTURES_DDL, SCHEMA_VERSION
from core.index_url import parse_index_url
from proxy.index.postgres import PostgresCaptureIndex
from proxy.index.rows import CaptureRow, PageRow, QualityRow, columns
from proxy.index.server import LOCK_NAME, PostgresServer

_COLUMNS = {
    "captures": f'"id", {columns(CaptureRow)}',
    "pages": columns(PageRow),
    "payloads": 'digest, bucket, spelled, filename, "offset", length, url, captured_ms',
    "qualities": columns(QualityRow),
    "files": "filename, indexed_to, size, sha256, closed_ms",
}
_AT_ONE_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def take_snapshot(url: str, path: Path) -> None:
    """Copy the index that `[index] url` names into a new file.

    Raises:
        CollectionVersionError: it was made by another version.
        IndexUnavailableError: its server does not answer.
        sqlite3.Error: the file cannot be written.
    """
    address = parse_index_url(url)
    PostgresCaptureIndex(address).close()  # there is one, and of our version
    with (
        closing(PostgresServer(address)) as server,
        closing(sqlite3.connect(path, isolation_level=None)) as file,
    ):
        file.execute("PRAGMA journal_mode = OFF")
        file.execute("PRAGMA synchronous = OFF")
        file.executescript(CAPTURES_DDL)
        file.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        file.execute("BEGIN")
        with server.transaction(_AT_ONE_MOMENT):
            for table, names in _COLUMNS.items():
                marks = ", ".join("?" * (names.count(",") + 1))
                file.executemany(
                    f"INSERT INTO {table} ({names}) VALUES ({marks})",  # noqa: S608 constants
                    server.copy_out(f"SELECT {names} FROM {table}"),  # noqa: S608 constants
                )
        file.execute("COMMIT")


def covers(url: str, filename: str) -> bool:
    """Whether the index knows the file by now."""
    with closing(PostgresCaptureIndex(parse_index_url(url))) as index:
        return bool(index.indexed_to(filename))


def is_used(url: str) -> bool:
    """Whether another process, here or elsewhere, has the index open."""
    query = (
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND (classid::bigint << 32) | objid::bigint = hashtextextended(%s, 0)"
    )
    address = parse_index_url(url)
    with closing(PostgresServer(address, holds=False)) as server:
        row = server.execute(query, (LOCK_NAME + address.index,)).fetchone()
    return row is not None and bool(row[0])
