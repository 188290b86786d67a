"""Captures index in PostgreSQL, and its snapshot as a SQLite file.

The right to write a payload is assigned by the dedup index, which all machines that share this index share as well, so
transactions do not block each other. Verification reads a local copy, taken in one transaction.
"""

# ruff: noqa: S608 only names of ours and marks go into the statements

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import reduce
from pathlib import Path
from typing import Any

from core.config.database_urls import IndexAddress, parse_index_url
from core.errors import CollectionVersionError, WeboidError
from core.page_manifest import VisitOutcome
from net.postgres_client import LOCK_NAME, PostgresConnection
from warc.dedup.payloads import OriginalRecord
from warc.index.database import KEY_CHARACTERS, SCHEMA_VERSION
from warc.index.protocol import (
    CAPTURES_DDL,
    MARK_LOGINS,
    ROW_TYPES,
    CaptureIndex,
    CaptureRow,
    PageIndexRow,
    PayloadRow,
    QualityRow,
    RowType,
    columns,
)

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


_DDL = f"""{reduce(lambda text, pair: text.replace(*pair), _SPELLINGS, CAPTURES_DDL)}
CREATE INDEX captures_orphaned ON captures (digest) WHERE record_type = 'revisit' AND orig_filename IS NULL;
CREATE INDEX payloads_by_file ON payloads (filename);
CREATE TABLE version (number BIGINT NOT NULL);
INSERT INTO version (number) VALUES ({SCHEMA_VERSION});
"""


def _insertion(table: str, row: RowType) -> str:
    """Return SQL that adds rows given as one array per column; a record that is there or coming stays (ON CONFLICT)."""
    hints = map(str, row.__annotations__.values())
    kinds = ("text" if "str" in h else "float8" if "float" in h else "bigint" for h in hints)
    marks = ", ".join(f"%s::{kind}[]" for kind in kinds)
    return f"INSERT INTO {table} ({columns(row)}) SELECT * FROM unnest({marks}) ON CONFLICT DO NOTHING"


_INSERTIONS = {table: _insertion(table, row) for table, row in ROW_TYPES.items()}


class PostgresCaptureIndex(CaptureIndex):
    """Captures index in a PostgreSQL database. Thread-safe; `close` it."""

    shared = True

    def __init__(self, address: IndexAddress) -> None:
        """Connect, and create missing tables; raises CollectionVersionError or IndexUnavailableError."""
        self._server = PostgresConnection(address)
        self._address = address
        try:
            self._prepare(address.index)
        except WeboidError:
            self.close()
            raise

    def _prepare(self, schema: str) -> None:
        version = self._version(schema)
        if version is None:
            with self._server.transaction():
                self._server.execute(
                    "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"weboid.make.{schema}",)
                )
                if self._version(schema) is None:  # no other process was faster
                    # A role without the right to create schemas may use an existing one.
                    if not self._one("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = ?)", (schema,)):
                        self._server.execute(f'CREATE SCHEMA "{schema}"')
                    self._server.execute(_DDL)
            version = self._version(schema)
        if version != SCHEMA_VERSION:
            raise CollectionVersionError(
                f"The captures index at {self._address} has schema {version}, this version reads"
                f" {SCHEMA_VERSION}; run `weboid collection rebuild`."
            )

    def _version(self, schema: str) -> int | None:
        """Return the version of the tables; None when there are none."""
        # The catalogue is read as it is now; a name would be looked up in what was seen before.
        query = "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = ? AND tablename = 'version')"
        if not self._one(query, (schema,)):
            return None
        return int(self._one("SELECT max(number) FROM version") or 0)

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def check(self) -> None:
        """Check that the server answers."""
        self._server.execute("SELECT 1")

    def transaction(self) -> AbstractContextManager[None]:
        """Commit at the end of the block, or roll back on any error."""
        return self._server.transaction()

    def _run(self, query: str, values: Sequence[Any] = (), *, patient: bool = False) -> Any:
        parameters = [_storable(value) for value in values] or None
        return self._server.execute(query.replace("?", "%s"), parameters, patient=patient)

    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._add(_INSERTIONS[table], rows)

    def _add(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            values = [[_storable(value) for value in column] for column in zip(*rows, strict=True)]
            self._server.execute(statement, values)

    def adopt(self, originals: Mapping[int, OriginalRecord]) -> None:
        """Set the payload locations of those revisits."""
        rows = [(row, each.filename, each.offset, each.length) for row, each in originals.items()]
        self._add(
            "UPDATE captures SET orig_filename = f.name, orig_offset = f.at, orig_length = f.long"
            " FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bigint[])"
            " AS f (id, name, at, long) WHERE captures.id = f.id",
            rows,
        )

    def settle(self, filenames: Collection[str] | None = None) -> None:
        """Resolve references between files added one by one; other processes may be writing."""
        with self.transaction():
            self._server.execute(
                "UPDATE captures SET orig_filename = found.filename, orig_offset = found.start,"
                " orig_length = found.length FROM ("
                ' SELECT o.id, p.filename, p."offset" AS start, p.length FROM captures AS o'
                ' CROSS JOIN LATERAL (SELECT filename, "offset", length FROM payloads'
                "  WHERE spelled = o.digest ORDER BY bucket, digest LIMIT 1) AS p"
                " WHERE o.record_type = 'revisit' AND o.orig_filename IS NULL) AS found"
                " WHERE captures.id = found.id",
                patient=True,
            )
            self._server.execute(
                "DELETE FROM captures USING pages WHERE pages.page_id = captures.page_id"
                " AND captures.captured_ms < pages.captured_ms"
                " AND (%s::text[] IS NULL OR captures.filename = ANY(%s::text[]))",
                (names := None if filenames is None else list(filenames), names),
                patient=True,
            )
            self._server.execute(
                "DELETE FROM captures USING pages WHERE pages.page_id = captures.page_id"
                " AND pages.outcome = %s AND NOT starts_with(captures.url, 'urn:pageinfo:')"
                " AND (%s::text[] IS NULL OR captures.filename = ANY(%s::text[]))",
                (str(VisitOutcome.SKIPPED), names, names),
                patient=True,
            )
            self._server.execute(MARK_LOGINS, patient=True)


def _storable(value: Any) -> Any:
    """Convert the value for PostgreSQL, whose text type allows no NUL; page titles may have one."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


_COLUMNS = {
    "captures": f'"id", {columns(CaptureRow)}',
    "pages": columns(PageIndexRow),
    "payloads": columns(PayloadRow),
    "qualities": columns(QualityRow),
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
        file.executescript(CAPTURES_DDL)
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
