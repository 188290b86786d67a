"""Store of access decisions (SQLite or PostgreSQL, ``decisions.sql``), and values that follow its changes.

A decision takes effect when it is written, on every route and in every process (P-22): servers check a `WatchedValue`'s
version before each response. A store that exists but cannot be read is an error, never an empty store.
"""

import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import fields
from enum import EnumType, StrEnum
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from core.config.database_urls import IndexAddress, error_words, parse_index_url
from core.errors import DiskFullError, TransientError, is_disk_full
from core.layout import Layout, is_frozen
from core.timestamps import from_unix_milliseconds, unix_milliseconds
from warc.local_storage import enable_wal

TABLES = Path(__file__).with_name("decisions.sql").read_text("utf-8")

Values = Mapping[str, Any]
T = TypeVar("T")

_BUSY_TIMEOUT_S = 5.0
_MOST_ATTEMPTS = 5
_COPIED = [name for name in re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", TABLES) if name != "decision_version"]


class DecisionStore(Protocol):
    """Store of one archive's access decisions. Thread-safe; `close` it. All methods raise TransientError."""

    def version(self) -> int:
        """Return a number that changes with each write; 0 for an empty store."""

    def rows(self, query: str, values: Values) -> list[Any]:
        """Run a query and return rows with columns accessible by name; empty without a store."""

    def change(self, changes: Iterable[tuple[str, Values]]) -> None:
        """Apply all changes in one transaction and increment the version."""

    def close(self) -> None:
        """Close the store."""


def open_decisions(layout: Layout, url: str = "") -> DecisionStore:
    """Return the decision store next to a collection's index, or next to the one `url` names."""
    return PostgresDecisionStore(parse_index_url(url)) if url else SqliteDecisionStore(layout.decisions_db)


def copy_decisions(source: DecisionStore, path: Path) -> None:
    """Copy all decisions into a new file; no file is created while there are none."""
    queries = ((table, f"SELECT * FROM {table}") for table in _COPIED)  # noqa: S608 constants of ours
    changes = [insert_row(table, dict(row)) for table, query in queries for row in source.rows(query, {})]
    if changes:
        with closing(SqliteDecisionStore(path)) as target:
            target.change(changes)


def row_values(record: Any) -> dict[str, Any]:
    """Return a dataclass as column values: a field ``x_at`` is the column ``x_ms``, enums are text."""
    values: dict[str, Any] = {}
    for each in fields(record):
        value = getattr(record, each.name)
        if each.name.endswith("_at"):
            column = f"{each.name.removesuffix('at')}ms"
            values[column] = None if value is None else unix_milliseconds(value)
        else:
            values[each.name] = str(value) if isinstance(value, StrEnum) else value
    return values


def record_of(kind: type[T], row: Any) -> T:
    """Return the row as an instance of a dataclass; the inverse of `row_values`."""
    values: dict[str, Any] = {}
    for each in fields(kind):  # type: ignore[arg-type]  # callers pass dataclasses
        if each.name.endswith("_at"):
            at_ms = row[f"{each.name.removesuffix('at')}ms"]
            values[each.name] = None if at_ms is None else from_unix_milliseconds(int(at_ms))
        else:
            value = row[each.name]
            values[each.name] = each.type(value) if isinstance(each.type, EnumType) else value
    return kind(**values)


def insert_row(table: str, values: Values, *, then: str = "") -> tuple[str, Values]:
    """Return the change that inserts a row; `then` ends the statement, e.g. ``ON CONFLICT …``."""
    names, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
    return f"INSERT INTO {table} ({names}) VALUES ({marks}) {then}", values  # noqa: S608 constants of ours


def numbered_row(table: str, values: Values) -> tuple[str, Values]:
    """Return the change that inserts a row under the next `number`; writers are serialised."""
    values = {name: value for name, value in values.items() if name != "number"}
    names, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
    number = f"(SELECT coalesce(max(number), 0) + 1 FROM {table})"  # noqa: S608 constants of ours
    return f"INSERT INTO {table} (number, {names}) VALUES ({number}, {marks})", values  # noqa: S608 as above


class SqliteDecisionStore:
    """Decision store in a SQLite file, created by the first change; immutable in a read-only directory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._opened: tuple[int, ...] | None = None
        self._is_frozen = False

    def version(self) -> int:
        """Return the version of the last change."""
        rows = self.rows("SELECT n FROM decision_version", {})
        return int(rows[0]["n"]) if rows else 0

    def rows(self, query: str, values: Values) -> list[Any]:
        """Run a query and return its rows."""
        with self._lock:
            try:
                for _ in range(_MOST_ATTEMPTS):
                    if (connection := self._connected()) is None:
                        return []
                    try:
                        rows = connection.execute(query, values).fetchall()
                    except sqlite3.OperationalError as error:
                        if "no such table" not in str(error):
                            raise
                        rows = []  # written by an older release: it has no decisions of that kind
                    except sqlite3.DatabaseError:
                        if not self._is_frozen or self._identity() == self._opened:
                            raise
                        continue  # it was written to under a reader who takes no lock
                    if not self._is_frozen or self._identity() == self._opened:
                        return rows
            except (sqlite3.Error, OSError) as error:
                self._close()
                raise TransientError(f"The decisions cannot be read: {error}.") from error
        raise TransientError("The decisions change faster than they can be read.")

    def change(self, changes: Iterable[tuple[str, Values]]) -> None:
        """Apply the changes in one transaction."""
        with self._lock:
            try:
                self._connected()  # closes what belongs to another file
                connection = self._writer = self._writer or self._open_writer()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    for query, values in changes:
                        connection.execute(query, values)
                    connection.execute("UPDATE decision_version SET n = n + 1")
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:  # SQLite itself rolls back when the disk is full
                        connection.execute("ROLLBACK")
                    raise
            except (sqlite3.Error, OSError) as error:
                self._close()
                failure = DiskFullError if is_disk_full(error) else TransientError
                raise failure(f"The decision was not stored: {error}.") from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._writer = self._opened = None

    def _connected(self) -> sqlite3.Connection | None:
        if (identity := self._identity()) is None:
            self._close()
            return None
        if self._reader is None or identity != self._opened:
            self._close()
            # Without locks SQLite can only read files declared immutable: changes are detected here.
            self._is_frozen = is_frozen(self._path)
            self._reader = self._open("?mode=ro&immutable=1" if self._is_frozen else "?mode=ro")
            self._opened = self._identity()
        return self._reader

    def _identity(self) -> tuple[int, ...] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        if not self._is_frozen:
            return (status.st_dev, status.st_ino)
        log = self._path.with_name(f"{self._path.name}-wal")
        return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size, log.exists())

    def _open_writer(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if not self._path.exists():
            # Under another name until it is complete: a file without a version is not a store (fail closed).
            fresh = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
            try:
                with closing(sqlite3.connect(fresh, isolation_level=None)) as new_connection:
                    new_connection.executescript(TABLES)
                with suppress(FileExistsError):
                    self._path.hardlink_to(fresh)
            finally:
                fresh.unlink(missing_ok=True)
        connection = self._open("?mode=rw")
        enable_wal(connection, self._path)
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(TABLES)
        return connection

    def _open(self, uri_query: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}{uri_query}",
            uri=True,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.row_factory = sqlite3.Row
        try:
            if connection.execute("SELECT count(*) FROM decision_version").fetchone()[0] != 1:
                raise sqlite3.DatabaseError("it has no version")
        except sqlite3.Error:
            connection.close()
            raise
        return connection


class WatchedValue(Generic[T]):
    """Value that `load` computes from a store, recomputed after every change. Thread-safe."""

    def __init__(self, store: DecisionStore, load: Callable[[DecisionStore], T]) -> None:
        self._store = store
        self._load = load
        self._cached: tuple[int, T] | None = None

    def now(self) -> T:
        """Return the current value."""
        version = self._store.version()
        cached = self._cached
        if cached is None or cached[0] != version:
            # The version first: data read afterwards is at least as new.
            cached = self._cached = (version, self._load(self._store))
        return cached[1]


HELD_S = 0.1  # lifetime of a version: a decision takes effect within a second, and this is well below
_OPTIONS = {"application_name": "weboid-decisions", "connect_timeout": "3"}
_RELATIONS = re.findall(r"CREATE (?:TABLE|INDEX) IF NOT EXISTS (\w+)", TABLES)
_LOCK = 7_130_223  # advisory lock for table creation; any otherwise unused number


class PostgresDecisionStore:
    """Decision store in PostgreSQL, created by the first change. Thread-safe; `close` after use."""

    def __init__(self, address: IndexAddress, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        from warc.index.postgres import PostgresDatabase  # needs a library

        self._address = address
        self._reading = PostgresDatabase(address)
        self._monotonic = monotonic
        self._cached: tuple[float, int] | None = None
        self._lock = threading.Lock()
        self._has_tables = False

    def version(self) -> int:
        """Return the version of the last change, at most `HELD_S` seconds old."""
        now = self._monotonic()
        cached = self._cached
        if cached is None or now - cached[0] >= HELD_S:
            rows = self.rows("SELECT n FROM decision_version", {})
            cached = self._cached = (now, int(rows[0]["n"]) if rows else 0)
        return cached[1]

    def rows(self, query: str, values: Values) -> list[Any]:
        """Run a query and return its rows."""
        return self._reading.rows(query, values)

    def change(self, changes: Iterable[tuple[str, Values]]) -> None:
        """Apply the changes in one transaction."""
        import psycopg
        from psycopg.conninfo import make_conninfo

        from warc.index.postgres import storable_values, translate_query

        with self._lock:
            try:
                with closing(psycopg.connect(make_conninfo(**self._address.parameters, **_OPTIONS))) as connection:
                    if not self._has_tables:
                        # An existing schema is used if the role may not create one.
                        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                        schema = self._address.index
                        query = "SELECT count(*) FROM pg_namespace WHERE nspname = %s"
                        if connection.execute(query, (schema,)).fetchone() != (1,):
                            connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
                        query = (
                            "SELECT count(*) FROM pg_class JOIN pg_namespace AS n ON n.oid ="
                            " relnamespace WHERE nspname = %s AND relname = ANY(%s)"
                        )
                        if connection.execute(query, (schema, _RELATIONS)).fetchone() != (len(_RELATIONS),):
                            connection.execute(TABLES.encode())
                        connection.commit()  # before anything else is locked
                        self._has_tables = True
                    # Serialises writers, so that numbers and versions are consistent.
                    connection.execute("SELECT n FROM decision_version FOR UPDATE")
                    for query, values in changes:
                        connection.execute(translate_query(query), storable_values(values))
                    connection.execute("UPDATE decision_version SET n = n + 1")
                    connection.commit()
            except psycopg.Error as error:
                words = error_words(error, self._address.password)
                raise TransientError(f"The decision was not stored at {self._address}: {words}.") from None
            self._cached = None

    def close(self) -> None:
        """Close the connections."""
        self._reading.close()
