"""Read-only captures index: query interface and SQLite connections.

Questions are SQL that both databases understand, with values as ``:name``; what differs is said by
attributes of the database. A collection without an index is empty.
"""

import json
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from core.config.database_urls import is_frozen, parse_index_url, read_only_uri
from core.errors import TransientError
from core.layout import Layout
from warc.index.schema import KEY_CHARACTERS, SCHEMA_VERSION

_BUSY_TIMEOUT_S = 2.0
_MOST_IDLE = 4
_Identity = tuple[int, int, int] | None
OTHER_VERSION = f"is of another version than {SCHEMA_VERSION}: run `weboid index rebuild`."
INDEX_URL = "WEBOID_DATABASE"  # the environment variable that tells replay the index


class IndexDatabase(Protocol):
    """A captures index for reading. From any thread, unless it is said otherwise; `close` it.

    Attributes:
        shared: whether it is a server, which may keep us waiting.
        has_key: the condition that a row's urlkey is `key`; see `key_values`.
        key: the beginning of a row's urlkey (`warc.index.schema.KEY_CHARACTERS`), which is indexed.
        contains: LIKE, whatever the case of ASCII letters.
        in_range: the condition that a row's urlkey is from `low` on and below `high`; see
            `warc.index.queries`.
        by_key: the terms by which rows come in the order of their urlkeys, from an index.
        asked: many questions as a table, of the value `asked` (`lookup_value`).
        joined_first: joins to each row of `asked` the first pages that ``{where}`` tells, by an
            ORDER BY and a LIMIT in it.
    """

    shared: bool
    has_key: str
    key: str
    contains: str
    in_range: str
    by_key: tuple[str, ...]
    asked: str
    joined_first: str

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


LOOKUP_COLUMNS = ("place", "until_ms", "key", "key_start", "one", "two", "three", "four")


class LookupRow(NamedTuple):
    """A row of `Database.asked`: a urlkey, four URLs, and the moment before which captures count."""

    key: str
    urls: tuple[str, str, str, str]
    until_ms: int = 2**53


def lookup_value(rows: Iterable[LookupRow]) -> str:
    """The value of ``asked``; `place` counts the rows."""
    return json.dumps(
        [
            (place, each.until_ms, each.key, each.key[:KEY_CHARACTERS], *each.urls)
            for place, each in enumerate(rows)
        ]
    )


def escape_like(words: str) -> str:
    """The words as LIKE takes them literally, a backslash being its escape."""
    return words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def open_database(layout: Layout, url: str) -> IndexDatabase:
    """The index that `url` names; when it is empty the collection's own. Nothing is connected yet.

    Raises:
        ConfigError: `url` names none.
    """
    if not url:
        return PooledSqliteDatabase(layout.captures_db)
    from warc.index.postgres_database import (
        PostgresDatabase,  # whoever has no server needs no library
    )

    return PostgresDatabase(parse_index_url(url))


_LOOKUP_SELECT = ", ".join(
    f"json_extract(item.value, '$[{number}]') AS {name}"
    for number, name in enumerate(LOOKUP_COLUMNS)
)
_LOOKUP_TABLE = f"(SELECT {_LOOKUP_SELECT} FROM json_each(:asked) AS item) AS asked"  # noqa: S608 constants


class SqliteDatabase:
    """The index of one collection, opened for each question. From any thread."""

    shared = False
    has_key = "urlkey = :key"
    key = "urlkey"
    contains = "LIKE"
    in_range = "urlkey >= :low AND urlkey < :high"
    by_key: tuple[str, ...] = ("urlkey",)
    asked = _LOOKUP_TABLE
    joined_first = "CROSS JOIN pages ON pages.page_id IN (SELECT page_id FROM pages WHERE {where})"

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self, query: str, values: Mapping[str, Any]) -> list[Any]:
        """The answer's rows."""
        connection = _open(self._path)
        if connection is None:
            return []
        with closing(connection):
            return _run_query(connection, query, values)

    def close(self) -> None:
        """Nothing: no connection outlives its question."""


class PooledSqliteDatabase(SqliteDatabase):
    """The same with a few connections that are kept, each lent to one question. `close` it.

    Opening one costs more than most questions do. An index that was replaced by another file is
    opened anew at the next question.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._lock = threading.Lock()
        self._idle: list[tuple[_Identity, sqlite3.Connection]] = []
        self._is_closed = False

    def rows(self, query: str, values: Mapping[str, Any]) -> list[Any]:
        """The answer's rows."""
        identity = _identity_of(self._path)
        connection = self._kept(identity) or _open(self._path, one_thread=False)
        if connection is None:
            return []
        try:
            found = _run_query(connection, query, values)
        except BaseException:
            connection.close()
            raise
        self._give_back(identity, connection)
        return found

    def close(self) -> None:
        """Close those that are kept."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _kept(self, identity: "_Identity") -> sqlite3.Connection | None:
        """One of that file; those of another are closed."""
        with self._lock:
            old = [each for each in self._idle if each[0] != identity]
            self._idle = [each for each in self._idle if each[0] == identity]
            found = self._idle.pop()[1] if self._idle else None
        for _, connection in old:
            connection.close()
        return found

    def _give_back(self, identity: "_Identity", connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._is_closed and identity is not None and len(self._idle) < _MOST_IDLE:
                self._idle.append((identity, connection))
                return
        connection.close()


class PersistentSqliteDatabase(SqliteDatabase):
    """The same with a connection that is kept. From one thread; `close` it.

    An index that was replaced by another file is opened anew at the next question.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._connection: sqlite3.Connection | None = None
        self._opened: _Identity = None

    def rows(self, query: str, values: Mapping[str, Any]) -> list[Any]:
        """The answer's rows."""
        connection = self._connected()
        if connection is None:
            return []
        try:
            return _run_query(connection, query, values)
        except TransientError:
            self.close()
            raise

    def close(self) -> None:
        """Close the database."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._opened = None, None

    def _connected(self) -> sqlite3.Connection | None:
        identity = _identity_of(self._path)
        if self._connection is None or identity != self._opened:
            self.close()
            self._connection = _open(self._path)
            self._opened = identity if self._connection is not None else None
        return self._connection


def _identity_of(path: Path) -> _Identity:
    """Return device, inode and, of a file at rest on a read-only medium, its moment; None: no file.

    What is opened as immutable does not notice changes, so it is opened again when it is written.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns if is_frozen(path) else 0


def _open(path: Path, *, one_thread: bool = True) -> sqlite3.Connection | None:
    """A read-only connection; None when there is no index there yet."""
    if not path.exists():
        _require_new(path)
        return None
    try:
        connection = sqlite3.connect(
            read_only_uri(path),
            uri=True,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=one_thread,
        )
    except sqlite3.Error as error:
        raise TransientError(f"The captures index cannot be opened: {error}.") from error
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA query_only = ON")
        tables = connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE name IN ('captures', 'pages')"
        ).fetchone()[0]
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        connection.close()
        raise TransientError(f"The captures index cannot be read: {error}.") from error
    if tables != 2:  # its writer has created the file, not yet the schema
        connection.close()
        _require_new(path)
        return None
    if version not in (0, SCHEMA_VERSION):
        connection.close()
        raise TransientError(f"The captures index {OTHER_VERSION}")
    return connection


def _require_new(path: Path) -> None:
    """Raise TransientError where there are closed WARCs and yet no index: it was lost, not unwritten."""
    if any((path.parent.parent / "archive").glob("*.warc.gz")):
        raise TransientError(
            f"The captures index {path} is missing, though there are WARCs: run"
            " `weboid index rebuild`."
        )


def _run_query(connection: sqlite3.Connection, query: str, values: Mapping[str, Any]) -> list[Any]:
    try:
        return connection.execute(query, values).fetchall()
    except sqlite3.Error as error:
        raise TransientError(f"The captures index cannot be read: {error}.") from error
