"""Captures index in PostgreSQL for writers and, by a small pool of connections, for readers; its snapshot in SQLite.

The right to write a payload is assigned by the dedup index, which all machines that share this index share as well, so
transactions do not block each other. Verification reads a local copy, taken in one transaction.
"""

# ruff: noqa: S608 only constant names and placeholders go into the statements

import re
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from core.config.database_urls import IndexAddress, error_words, parse_index_url
from core.errors import CollectionVersionError, TransientError, WeboidError
from net.postgres_client import LOCK_NAME, OPTIONS, PostgresConnection, hang_up
from warc.dedup.payloads import OriginalRecord
from warc.index import protocol
from warc.index.database import KEY_CHARACTERS, LOOKUP_COLUMNS, OTHER_VERSION, SCHEMA_VERSION

MOST_CONNECTIONS = 16
ANSWER_LIMIT_S = 10.0
WATCH_S = 1.0
_OPTIONS = OPTIONS | {"application_name": "weboid-playback", "connect_timeout": "3", "tcp_user_timeout": "10000"}
_SESSION = f"-c default_transaction_read_only=on -c statement_timeout={ANSWER_LIMIT_S:.0f}s"
# A table is missing among those that are there.
_IS_OLDER = "SELECT 1 WHERE to_regclass('pages') IS NOT NULL AND to_regclass('qualities') IS NULL"
_NAMES = re.compile(r"'[^']*'|:([a-z_]\w*)")
_Connection = psycopg.Connection[dict[str, Any]]


_LOOKUP_SELECT = ", ".join(
    f"CAST(item.value ->> {number} AS bigint) AS {name}"
    if name in ("place", "until_ms")
    else f"item.value ->> {number} AS {name}"
    for number, name in enumerate(LOOKUP_COLUMNS)
)
_LOOKUP_TABLE = f"(SELECT {_LOOKUP_SELECT} FROM json_array_elements(CAST(:asked AS json)) AS item (value)) AS asked"


class PostgresDatabase:
    """Read-only index in a PostgreSQL database. Thread-safe; `close` it."""

    shared = True
    # The index is of the key's beginning (`warc.index.database`).
    has_key = f"left(urlkey, {KEY_CHARACTERS}) = :key_start AND urlkey = :key"
    key = f"left(urlkey, {KEY_CHARACTERS})"
    contains = "ILIKE"
    in_range = (
        f"left(urlkey, {KEY_CHARACTERS}) >= :low_start AND left(urlkey, {KEY_CHARACTERS}) <= :high_start"
        " AND urlkey >= :low AND urlkey < :high"
    )
    by_key: tuple[str, ...] = (f"left(urlkey, {KEY_CHARACTERS})", "urlkey")
    lookup_table = _LOOKUP_TABLE
    joined_first = "CROSS JOIN LATERAL (SELECT * FROM pages WHERE {where}) AS pages"

    def __init__(self, address: IndexAddress, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._monotonic = monotonic
        parameters = address.parameters
        options = f"{parameters.pop('options')} {_SESSION}"
        self._conninfo = make_conninfo(**parameters, **_OPTIONS, options=options)
        self._idle: list[_Connection] = []
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        self._asking: dict[_Connection, float] = {}  # until when an answer is waited for
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._watching: threading.Thread | None = None

    def rows(self, query: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a query; TransientError if the server does not answer in time."""
        if not self._free.acquire(timeout=ANSWER_LIMIT_S):
            raise TransientError(f"The captures index at {self._address} has too many queries.")
        try:
            if (pooled := self._take_idle()) is not None:
                try:
                    return self._ask(pooled, query, values)
                except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                    if isinstance(error, errors.QueryCanceled):  # it was slow, not broken
                        raise
            connection = psycopg.connect(self._conninfo, autocommit=True, row_factory=dict_row)
            with self._lock:
                if self._watching is None:
                    self._watching = threading.Thread(target=self._watch, daemon=True)
                    self._watching.start()
            return self._ask(connection, query, values)
        except (psycopg.Error, OSError) as error:
            words = error_words(error, self._address.password)
            raise TransientError(f"The captures index at {self._address} cannot be read: {words}.") from None
        finally:
            self._free.release()

    def close(self) -> None:
        """Close the connections."""
        self._over.set()
        while (connection := self._take_idle()) is not None:
            connection.close()
        if self._watching is not None:
            self._watching.join()

    def _take_idle(self) -> _Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _ask(self, connection: _Connection, query: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self._lock:
            self._asking[connection] = self._monotonic() + ANSWER_LIMIT_S + WATCH_S
        try:
            rows = connection.execute(translate_query(query), storable_values(values)).fetchall()
        except errors.UndefinedTable:
            if connection.execute(_IS_OLDER).fetchall():
                connection.close()
                raise TransientError(f"The captures index at {self._address} {OTHER_VERSION}") from None
            rows = []  # its writers have not come yet
        except BaseException:
            connection.close()
            raise
        finally:
            with self._lock:
                del self._asking[connection]
        with self._lock:
            self._idle.append(connection)
        return rows

    def _watch(self) -> None:
        """Close connections whose queries take too long: the server is stuck."""
        while not self._over.wait(WATCH_S):
            now = self._monotonic()
            with self._lock:
                late = [each for each, until in self._asking.items() if until < now]
            for connection in late:
                hang_up(connection)


@lru_cache(maxsize=64)
def translate_query(query: str) -> bytes:
    """Convert named parameters to the library's form; quoted text is unchanged."""
    return _NAMES.sub(lambda match: f"%({match[1]})s" if match[1] else match[0], query.replace("%", "%%")).encode()


def storable_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the values as they were stored: no text in PostgreSQL contains NUL."""
    return {name: _storable(value) for name, value in values.items()}


# What PostgreSQL spells differently. Its integers and texts are as wide and as ordered as SQLite's.
_SPELLINGS = (
    (" IF NOT EXISTS", ""),
    (" WITHOUT ROWID", ""),
    ("id INTEGER PRIMARY KEY", "id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
    ("INTEGER", "BIGINT"),
    ("REAL", "DOUBLE PRECISION"),
    (" TEXT", ' TEXT COLLATE "C"'),
    (" offset ", ' "offset" '),
    ("(filename, offset)", '(filename, "offset")'),
    ("(urlkey, captured_ms)", f"(left(urlkey, {KEY_CHARACTERS}), captured_ms)"),
)


_DDL = f"""{reduce(lambda text, pair: text.replace(*pair), _SPELLINGS, protocol.CAPTURES_DDL)}
CREATE INDEX captures_orphaned ON captures (digest) WHERE record_type = 'revisit' AND orig_filename IS NULL;
CREATE INDEX payloads_by_file ON payloads (filename);
CREATE TABLE version (number BIGINT NOT NULL);
INSERT INTO version (number) VALUES ({SCHEMA_VERSION});
"""


def _insertion(table: str, row: protocol.RowType) -> str:
    """Return SQL that adds rows given as one array per column; a record that is there or coming stays (ON CONFLICT)."""
    hints = map(str, row.__annotations__.values())
    kinds = ("text" if "str" in h else "float8" if "float" in h else "bigint" for h in hints)
    marks = ", ".join(f"%s::{kind}[]" for kind in kinds)
    return f"INSERT INTO {table} ({protocol.columns(row)}) SELECT * FROM unnest({marks}) ON CONFLICT DO NOTHING"


_INSERTIONS = {table: _insertion(table, row) for table, row in protocol.ROW_TYPES.items()}


class PostgresCaptureIndex(protocol.CaptureIndex):
    """Captures index in a PostgreSQL database. Thread-safe; `close` it."""

    shared = True
    _db: PostgresConnection

    def __init__(self, address: IndexAddress) -> None:
        """Connect, and create missing tables; raises CollectionVersionError or IndexUnavailableError."""
        self._db = PostgresConnection(address)
        self._address = address
        try:
            self._prepare(address.index)
        except WeboidError:
            self.close()
            raise

    def _prepare(self, schema: str) -> None:
        if (version := self._version(schema)) is None:
            with self._db.transaction():
                self._db.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"weboid.make.{schema}",))
                if self._version(schema) is None:  # no other process was faster
                    # A role without the right to create schemas may use an existing one.
                    if not self._one("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = ?)", (schema,)):
                        self._db.execute(f'CREATE SCHEMA "{schema}"')
                    self._db.execute(_DDL)
            version = self._version(schema)
        if version != SCHEMA_VERSION:
            raise CollectionVersionError(
                f"The captures index at {self._address} has schema {version}, this version reads"
                f" {SCHEMA_VERSION}; run `weboid collection rebuild`."
            )

    def _version(self, schema: str) -> int | None:
        # The catalogue is read in its present state; a name would be resolved in the earlier snapshot.
        query = "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = ? AND tablename = 'version')"
        if not self._one(query, (schema,)):
            return None
        return int(self._one("SELECT max(number) FROM version") or 0)

    def transaction(self) -> AbstractContextManager[None]:
        """Commit at the end of the block, or roll back on any error."""
        return self._db.transaction()

    def _run(self, query: str, values: Sequence[Any] = (), *, patient: bool = False) -> Any:
        parameters = [_storable(value) for value in values] or None
        return self._db.execute(query.replace("?", "%s"), parameters, patient=patient)

    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._add(_INSERTIONS[table], rows)

    def _add(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            values = [[_storable(value) for value in column] for column in zip(*rows, strict=True)]
            self._db.execute(statement, values)

    def adopt(self, originals: Mapping[int, OriginalRecord]) -> None:
        """Set the payload locations of those revisits."""
        rows = [(row, each.filename, each.offset, each.length) for row, each in originals.items()]
        self._add(
            "UPDATE captures SET orig_filename = f.name, orig_offset = f.at, orig_length = f.long"
            " FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bigint[])"
            " AS f (id, name, at, long) WHERE captures.id = f.id",
            rows,
        )


def _storable(value: Any) -> Any:
    """Convert the value for PostgreSQL, whose text type allows no NUL; page titles may have one."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


_COLUMNS = {
    "captures": f'"id", {protocol.columns(protocol.CaptureRow)}',
    "pages": protocol.columns(protocol.PageIndexRow),
    "payloads": protocol.columns(protocol.PayloadRow),
    "qualities": protocol.columns(protocol.QualityRow),
    "files": "filename, indexed_to, size, sha256, closed_ms",
}
_AT_ONE_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def take_snapshot(url: str, path: Path) -> None:
    """Copy the index at `[index] url` into a new SQLite file; raises as `PostgresCaptureIndex`."""
    address = parse_index_url(url)
    PostgresCaptureIndex(address).close()  # there is one, and of our version
    with closing(PostgresConnection(address)) as server, closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA journal_mode = OFF")
        file.execute("PRAGMA synchronous = OFF")
        file.executescript(protocol.CAPTURES_DDL)
        file.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        file.execute("BEGIN")
        with server.transaction(_AT_ONE_MOMENT):
            for table, names in _COLUMNS.items():
                marks = ", ".join("?" * (names.count(",") + 1))
                file.executemany(
                    f"INSERT INTO {table} ({names}) VALUES ({marks})", server.copy_out(f"SELECT {names} FROM {table}")
                )
        file.execute("COMMIT")


def is_indexed(url: str, filename: str) -> bool:
    """Return whether the index contains the file by now."""
    with closing(PostgresCaptureIndex(parse_index_url(url))) as index:
        return bool(index.indexed_to(filename))


def is_index_in_use(url: str) -> bool:
    """Return whether another process, on any machine, has the index open."""
    query = (
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND (classid::bigint << 32) | objid::bigint = hashtextextended(%s, 0)"
    )
    address = parse_index_url(url)
    with closing(PostgresConnection(address, holds=False)) as server:
        row = server.execute(query, (LOCK_NAME + address.index,)).fetchone()
    return row is not None and bool(row[0])
