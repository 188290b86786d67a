"""The captures index, read while other processes write it.

Questions are SQL that both databases understand, with values as ``:name``; what differs is said by
attributes of the database. A collection without an index is empty.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from core.errors import TransientError
from core.index_schema import KEY_CHARACTERS
from core.index_url import parse_index_url
from core.layout import Layout

_BUSY_TIMEOUT_S = 2.0
INDEX_URL = "WEBOID_DATABASE"  # the environment variable that tells replay the index


class Database(Protocol):
    """A captures index for reading. From any thread, unless it is said otherwise; `close` it.

    Attributes:
        shared: whether it is a server, which may keep us waiting.
        has_key: the condition that a row's urlkey is `key`; see `key_values`.
        key: the beginning of a row's urlkey (`core.index_schema.KEY_CHARACTERS`), which is indexed.
        contains: LIKE, whatever the case of ASCII letters.
        in_range: the condition that a row's urlkey is from `low` on and below `high`; see
            `playback.captures_queries`.
        by_key: the terms by which rows come in the order of their urlkeys, from an index.
    """

    shared: bool
    has_key: str
    key: str
    contains: str
    in_range: str
    by_key: tuple[str, ...]

    def rows(self, query: str, values: Mapping[str, Any]) -> list[Any]:
        """The answer's rows, whose columns are found by name; none when there is no index yet.

        Raises:
            TransientError: the index is there and cannot be read.
        """
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...


def key_values(key: str) -> dict[str, str]:
    """The values that `Database.has_key` needs."""
    return {"key": key, "key_start": key[:KEY_CHARACTERS]}


def escape_like(words: str) -> str:
    """The words as LIKE takes them literally, a backslash being its escape."""
    return words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def open_database(layout: Layout, url: str) -> Database:
    """The index that `url` names; when it is empty the collection's own. Nothing is connected yet.

    Raises:
        ConfigError: `url` names none.
    """
    if not url:
        return SqliteDatabase(layout.captures_db)
    from playback.postgres import PostgresDatabase  # whoever has no server needs no library

    return PostgresDatabase(parse_index_url(url))


class SqliteDatabase:
    """The index of one collection, opened for each question. From any thread."""

    shared = False
    has_key = "urlkey = :key"
    key = "urlkey"
    contains = "LIKE"
    in_range = "urlkey >= :low AND urlkey < :high"
    by_key: tuple[str, ...] = ("urlkey",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self, query: str, values: Mapping[str, Any]) -> list[Any]:
        """The answer's rows."""
        connection = _open(self._path)
        if connection is None:
            return []
        with closing(connection):
            return _ask(connection, query, values)

    def close(self) -> None:
        """Nothing: no connection outlives its question."""


class KeptSqliteDatabase(SqliteDatabase):
    """The same with a connection that is kept. From one thread; `close` it.

    An index that was replaced by another file is opened anew at the next question.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None

    def rows(self, query: str, values: Mapping[str, Any]) -> list[Any]:
        """The answer's rows."""
        connection = self._connected()
        if connection is None:
            return []
        try:
            return _ask(connection, query, values)
        except TransientError:
            self.close()
            raise

    def close(self) -> None:
        """Close the database."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._opened = None, None

    def _connected(self) -> sqlite3.Connection | None:
        try:
            found = self._path.stat()
            identity = (found.st_dev, found.st_ino)
        except OSError:
            identity = None
        if self._connection is None or identity != self._opened:
            self.close()
            self._connection = _open(self._path)
            self._opened = identity if self._connection is not None else None
        return self._connection


def _open(path: Path) -> sqlite3.Connection | None:
    """A read-only connection; None when there is no index there yet."""
    if not path.exists():
        return None
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro",
            uri=True,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
        )
    except sqlite3.Error as error:
        raise TransientError(f"The captures index cannot be opened: {error}.") from error
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA query_only = ON")
        tables = connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE name IN ('captures', 'pages')"
        ).fetchone()[0]
    except sqlite3.Error as error:
        connection.close()
        raise TransientError(f"The captures index cannot be read: {error}.") from error
    if tables != 2:  # its writer has created the file, not yet the schema
        connection.close()
        return None
    return connection


def _ask(connection: sqlite3.Connection, query: str, values: Mapping[str, Any]) -> list[Any]:
    try:
        return connection.execute(query, values).fetchall()
    except sqlite3.Error as error:
        raise TransientError(f"The captures index cannot be read: {error}.") from error
