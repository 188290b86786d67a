"""Captures index in PostgreSQL, and its snapshot as a SQLite file.

Tables: `warc.index.schema`, in a schema of the database that the address names. Transactions do not
block each other: the right to write a payload is assigned by the dedup index, which all machines
that share this index share as well. Rows are inserted with one statement for each table.

Verification compares every row with every record, one file after the other. It reads a local copy,
taken in one transaction, which is both faster and consistent while a crawl is running.
"""

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

from core.captures import Capture
from core.config.database_urls import IndexAddress, parse_index_url
from core.errors import CollectionVersionError, WeboidError
from core.page_manifest import PageInfo, VisitOutcome
from net.postgres_client import LOCK_NAME, PostgresConnection
from warc.dedup.payloads import PayloadKey
from warc.index.protocol import CaptureRow, PageIndexRow, QualityRow, capture_row, columns, page_row
from warc.index.schema import CAPTURES_DDL, MARK_LOGINS, POSTGRES_DDL, SCHEMA_VERSION
from warc.record_builder import OriginalRecord

_ORIGINAL = 'spelled, url, captured_ms, filename, "offset", length'  # in the order of `Original`


def _unnested(row: type[CaptureRow | PageIndexRow | QualityRow]) -> str:
    """Return SQL for the rows as a table, from one array per column: one plan for any number."""
    hints = map(str, row.__annotations__.values())
    kinds = ("text" if "str" in h else "float8" if "float" in h else "bigint" for h in hints)
    marks = (f"%s::{kind}[]" for kind in kinds)
    return f"SELECT * FROM unnest({', '.join(marks)})"  # noqa: S608 constants


# A record that is there already stays. One that another transaction, of a connection that was lost,
# is about to add is waited for (ON CONFLICT), so none is ever there twice.
_ADD_CAPTURES = (
    f"INSERT INTO captures ({columns(CaptureRow)}) {_unnested(CaptureRow)} ON CONFLICT DO NOTHING"
)
_ADD_PAGE = (
    f"INSERT INTO pages ({columns(PageIndexRow)}) {_unnested(PageIndexRow)}"
    " ON CONFLICT (page_id) DO UPDATE SET "
    + ", ".join(f'"{name}" = excluded."{name}"' for name in PageIndexRow._fields[1:])
    + " WHERE excluded.captured_ms >= pages.captured_ms"
)
_ADD_QUALITIES = (
    f"INSERT INTO qualities ({columns(QualityRow)}) {_unnested(QualityRow)} ON CONFLICT DO NOTHING"
)
_ADD_PAYLOADS = (
    'INSERT INTO payloads (digest, bucket, spelled, filename, "offset", length, url, captured_ms)'
    " SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[],"
    " %s::bigint[], %s::text[], %s::bigint[]) ON CONFLICT DO NOTHING"
)


class PostgresCaptureIndex:
    """Captures index in a PostgreSQL database. Thread-safe; `close` it."""

    shared = True

    def __init__(self, address: IndexAddress) -> None:
        """Connect, and create missing tables; safe in several processes at once.

        Raises CollectionVersionError if the tables have another schema version;
        IndexUnavailableError if the server does not answer, or refuses.
        """
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
                    "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
                    (f"weboid.make.{schema}",),
                )
                if self._version(schema) is None:  # no other process was faster
                    # A role without the right to create schemas may use an existing one.
                    if not self._one(
                        "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)", (schema,)
                    ):
                        self._server.execute(f'CREATE SCHEMA "{schema}"')
                    self._server.execute(POSTGRES_DDL)
            version = self._version(schema)
        if version != SCHEMA_VERSION:
            raise CollectionVersionError(
                f"The captures index at {self._address} has schema {version}, this version reads"
                f" {SCHEMA_VERSION}; run `weboid index rebuild`."
            )

    def _version(self, schema: str) -> int | None:
        """Return the version of the tables; None when there are none."""
        # The catalogue is read as it is now; a name would be looked up in what was seen before.
        query = (
            "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'version')"
        )
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

    def add_rows(self, rows: Sequence[CaptureRow]) -> None:
        """Add the rows; an existing record is not changed."""
        self._add(_ADD_CAPTURES, rows)

    def add_captures(self, captures: Iterable[Capture]) -> None:
        """Add captures; see `add_rows`."""
        self.add_rows([capture_row(each) for each in captures])

    def add_page(self, page: PageInfo) -> None:
        """Add or replace the page's row; remove rows of interrupted attempts at it.

        For a skipped page all rows but the manifest are removed, too.
        """
        row = page_row(page)
        if page.outcome is VisitOutcome.SKIPPED:
            self._server.execute(
                "DELETE FROM captures WHERE page_id = %s AND NOT starts_with(url, 'urn:pageinfo:')",
                (_storable(row.page_id),),
            )
        self._server.execute(
            "DELETE FROM captures WHERE page_id = %s AND captured_ms < %s",
            (_storable(row.page_id), row.captured_ms),
        )
        self._add(_ADD_PAGE, [row])
        if row.login:
            self._server.execute(
                "UPDATE captures SET login = %s WHERE page_id = %s AND login IS NULL",
                (_storable(row.login), _storable(row.page_id)),
            )

    def add_qualities(self, rows: Sequence[QualityRow]) -> None:
        """Add check results; an existing record is not changed."""
        self._add(_ADD_QUALITIES, sorted(rows))  # in one order, as below

    def add_payloads(self, originals: Mapping[PayloadKey, OriginalRecord]) -> None:
        """Add the records of payloads; the first one of each payload stays."""
        rows = (
            (*key, each.digest, each.filename, each.offset, each.length, each.url, each.captured_ms)
            for key, each in originals.items()
        )
        self._add(_ADD_PAYLOADS, sorted(rows))  # in one order, so that no two wait for each other

    def _add(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            values = [[_storable(value) for value in column] for column in zip(*rows, strict=True)]
            self._server.execute(statement, values)

    def payloads_of(self, filename: str) -> dict[PayloadKey, OriginalRecord]:
        """Return the payloads whose records are in that WARC."""
        query = f"SELECT digest, bucket, {_ORIGINAL} FROM payloads WHERE filename = %s"  # noqa: S608 constants
        return {
            PayloadKey(digest, bucket): OriginalRecord(*original)
            for digest, bucket, *original in self._server.execute(query, (filename,))
        }

    def original_spelled(self, spelled: str, bucket: str) -> OriginalRecord | None:
        """Find a record by its WARC-Payload-Digest; None when the bucket has none."""
        query = f"SELECT {_ORIGINAL} FROM payloads WHERE spelled = %s AND bucket = %s"  # noqa: S608 constants
        values = (_storable(spelled), bucket)
        row = self._server.execute(query, values).fetchone()
        return None if row is None else OriginalRecord(*row)

    def orphans(self) -> dict[int, str]:
        """Return revisits whose payload is in no local WARC: row id -> WARC-Payload-Digest."""
        query = (
            "SELECT id, digest FROM captures"
            " WHERE record_type = 'revisit' AND orig_filename IS NULL"
        )
        return dict(self._server.execute(query, patient=True).fetchall())

    def adopt(self, originals: Mapping[int, OriginalRecord]) -> None:
        """Set the payload locations of those revisits."""
        rows = [(row, each.filename, each.offset, each.length) for row, each in originals.items()]
        self._add(
            "UPDATE captures SET orig_filename = f.name, orig_offset = f.at, orig_length = f.long"
            " FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bigint[])"
            " AS f (id, name, at, long) WHERE captures.id = f.id",
            rows,
        )

    def page_outcome(self, page_id: str) -> VisitOutcome | None:
        """Return the outcome of the page's visit; None when its manifest is not in the index."""
        found = self._one("SELECT outcome FROM pages WHERE page_id = %s", (_storable(page_id),))
        return None if found is None else VisitOutcome(found)

    def manifest_place(self, page_id: str) -> tuple[str, int, int] | None:
        """Return WARC, offset and length of the page's latest manifest; None: not in the index."""
        query = (
            'SELECT filename, "offset", length FROM captures WHERE page_id = %s'
            " AND starts_with(url, 'urn:pageinfo:') ORDER BY captured_ms DESC LIMIT 1"
        )
        found = self._server.execute(query, (_storable(page_id),), patient=True).fetchone()
        return None if found is None else (found[0], found[1], found[2])

    def outcomes(self) -> dict[str, int]:
        """Count pages by outcome."""
        query = "SELECT outcome, count(*) FROM pages GROUP BY outcome"
        return dict(self._server.execute(query, patient=True).fetchall())

    def classes(self) -> dict[str, int]:
        """Count pages by class; the empty name counts pages without one."""
        query = "SELECT page_class, count(*) FROM pages GROUP BY page_class"
        return dict(self._server.execute(query, patient=True).fetchall())

    def counts(self) -> dict[str, int]:
        """Count rows by table, and captures by record type."""
        found = {}
        for table in ("captures", "pages", "payloads", "qualities", "files"):
            query = f"SELECT count(*) FROM {table}"  # noqa: S608 constants
            found[table] = int(self._one(query, patient=True))
        query = "SELECT record_type, count(*) FROM captures GROUP BY record_type"
        kinds = self._server.execute(query, patient=True).fetchall()
        return found | {f"captures.{kind}": count for kind, count in kinds}

    def indexed_to(self, filename: str) -> int:
        """Return the number of bytes of the WARC that the index covers."""
        query = "SELECT indexed_to FROM files WHERE filename = %s"
        return int(self._one(query, (filename,)) or 0)

    def cover(self, filename: str, end: int) -> None:
        """Set the number of bytes of the WARC that the index covers; 0 removes the file's row."""
        if not end:
            self._server.execute("DELETE FROM files WHERE filename = %s", (filename,))
            return
        self._server.execute(
            "INSERT INTO files (filename, indexed_to) VALUES (%s, %s)"
            " ON CONFLICT (filename) DO UPDATE SET indexed_to = excluded.indexed_to",
            (filename, end),
        )

    def close_file(self, filename: str, *, size: int, sha256: str, closed_ms: int) -> None:
        """Store size, checksum and time of the closed WARC; an unknown file is ignored."""
        self._server.execute(
            "UPDATE files SET size = %s, sha256 = %s, closed_ms = %s WHERE filename = %s",
            (size, sha256, closed_ms, filename),
        )

    def forget(self, filename: str, start: int, end: int = 1 << 62) -> int:
        """Remove rows that refer to lost records of the WARC; return the number of captures."""
        lost = (filename, start, end)
        with self.transaction():
            for statement in (
                "DELETE FROM pages WHERE page_id IN (SELECT page_id FROM captures WHERE"
                ' filename = %s AND "offset" >= %s AND "offset" < %s'
                " AND starts_with(url, 'urn:pageinfo:'))",
                'DELETE FROM payloads WHERE filename = %s AND "offset" >= %s AND "offset" < %s',
                'DELETE FROM qualities WHERE filename = %s AND "offset" >= %s AND "offset" < %s',
                "UPDATE captures SET orig_filename = NULL, orig_offset = NULL, orig_length = NULL"
                " WHERE orig_filename = %s AND orig_offset >= %s AND orig_offset < %s",
            ):
                self._server.execute(statement, lost, patient=True)
            query = 'DELETE FROM captures WHERE filename = %s AND "offset" >= %s AND "offset" < %s'
            count = self._server.execute(query, lost, patient=True).rowcount
            if start == 0 and end == 1 << 62:
                self._server.execute("DELETE FROM files WHERE filename = %s", (filename,))
        return count

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

    def _one(
        self, query: str, values: Sequence[Any] | None = None, *, patient: bool = False
    ) -> Any:
        """Return the first value of the answer; None when it has no row."""
        row = self._server.execute(query, values, patient=patient).fetchone()
        return None if row is None else row[0]


def _storable(value: Any) -> Any:
    """Convert the value for PostgreSQL, whose text type allows no NUL; page titles may have one."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


_COLUMNS = {
    "captures": f'"id", {columns(CaptureRow)}',
    "pages": columns(PageIndexRow),
    "payloads": 'digest, bucket, spelled, filename, "offset", length, url, captured_ms',
    "qualities": columns(QualityRow),
    "files": "filename, indexed_to, size, sha256, closed_ms",
}
_AT_ONE_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def take_snapshot(url: str, path: Path) -> None:
    """Copy the index at `[index] url` into a new SQLite file.

    Raises:
        CollectionVersionError: it has another schema version.
        IndexUnavailableError: its server does not answer.
        sqlite3.Error: the file cannot be written.
    """
    address = parse_index_url(url)
    PostgresCaptureIndex(address).close()  # there is one, and of our version
    with (
        closing(PostgresConnection(address)) as server,
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
