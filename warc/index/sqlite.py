"""Captures index in a SQLite file, and the dedup index within it.

Tables: `warc.index.schema`. Several processes write. SQLite's write lock is the claim: it is taken
before a digest is looked up and held until the rows are committed, after the record is on disk. So
of many equal payloads one becomes a `response`, no process ever sees another's claim, and a crash
leaves none (docs/decisions/004-one-lock.md).
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path

from core.captures import Capture
from core.config.database_urls import is_frozen, read_only_uri
from core.errors import CollectionVersionError
from core.page_manifest import PageInfo, VisitOutcome
from warc.dedup.payloads import Claim, PayloadKey
from warc.index.protocol import CaptureRow, PageIndexRow, QualityRow, capture_row, columns, page_row
from warc.index.schema import CAPTURES_DDL, MARK_LOGINS, SCHEMA_VERSION
from warc.record_builder import OriginalRecord

BUSY_TIMEOUT_MS = 60_000

_PAYLOADS = (
    "INSERT OR IGNORE INTO payloads (digest, bucket, spelled, filename, offset, length, url,"
    " captured_ms) VALUES "
)
_ORIGINAL = "spelled, url, captured_ms, filename, offset, length"  # in the order of `Original`
# A statement a row costs more than the row: so many rows go into one.
_ROWS_AT_ONCE = (64, 8, 1)


_CAPTURES = f"INSERT OR IGNORE INTO captures ({columns(CaptureRow)}) VALUES "  # noqa: S608 constants
_PAGES = f"INSERT INTO pages ({columns(PageIndexRow)}) VALUES "  # noqa: S608 constants
_QUALITIES = f"INSERT OR IGNORE INTO qualities ({columns(QualityRow)}) VALUES "  # noqa: S608 constants
_LATEST_PAGE = (
    " ON CONFLICT (page_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in PageIndexRow._fields[1:])
    + " WHERE excluded.captured_ms >= pages.captured_ms"
)


_MARK_LOGIN = "UPDATE captures SET login = ? WHERE page_id = ? AND login IS NULL"


class SqliteCaptureIndex:
    """Captures index of one collection. For use from one thread; `close` it."""

    shared = False

    def __init__(self, path: Path) -> None:
        """Open the index; create it if missing.

        Raises CollectionVersionError if it has another schema version.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        frozen = path.exists() and is_frozen(path)
        self._db = sqlite3.connect(
            read_only_uri(path) if frozen else path,
            uri=frozen,
            isolation_level=None,
            check_same_thread=False,
        )
        self._db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        if not frozen:
            self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")  # it can be made again from the WARCs
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version not in (0, SCHEMA_VERSION):
            self._db.close()
            raise CollectionVersionError(
                f"{path} has schema {version}, this version reads {SCHEMA_VERSION}; "
                "run `weboid index rebuild`."
            )
        if version == 0:
            with self.transaction():
                for statement in CAPTURES_DDL.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def check(self) -> None:
        """Return at once: a file is always available."""

    def settle(self, filenames: Collection[str] | None = None) -> None:
        """Resolve references between files added one by one; always for all files."""
        del filenames
        with self.transaction():
            self._db.execute(
                "UPDATE captures SET (orig_filename, orig_offset, orig_length) ="
                " (SELECT filename, offset, length FROM payloads"
                " WHERE payloads.spelled = captures.digest ORDER BY bucket, digest LIMIT 1)"
                " WHERE record_type = 'revisit' AND orig_filename IS NULL"
            )
            self._db.execute(
                "DELETE FROM captures WHERE captured_ms <"
                " (SELECT captured_ms FROM pages WHERE pages.page_id = captures.page_id)"
            )
            self._db.execute(
                "DELETE FROM captures WHERE url NOT LIKE 'urn:pageinfo:%' AND page_id IN"
                " (SELECT page_id FROM pages WHERE outcome = ?)",
                (str(VisitOutcome.SKIPPED),),
            )
            self._db.execute(MARK_LOGINS)

    def checkpoint(self) -> None:
        """Move all data into the database's main file, so that it can be renamed."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Lock the index for writing; commit at the end, or roll back on any error."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error:
            if self._db.in_transaction:  # most errors have ended it
                self._db.execute("ROLLBACK")
            raise

    def originals(self, keys: Iterable[PayloadKey]) -> dict[PayloadKey, OriginalRecord]:
        """Return the records of those payloads that are known."""
        wanted = list(keys)
        found = {}
        for start in range(0, len(wanted), 500):
            some = wanted[start : start + 500]
            values = ",".join(["(?,?)"] * len(some))
            query = (  # the join's order is fixed: a look-up for each, never a scan of payloads
                f"WITH wanted (digest, bucket) AS (VALUES {values})"  # noqa: S608 marks only
                f" SELECT digest, bucket, {_ORIGINAL}"
                " FROM wanted CROSS JOIN payloads USING (digest, bucket)"
            )
            arguments = [text for key in some for text in key]
            for digest, bucket, *original in self._db.execute(query, arguments):
                found[PayloadKey(digest, bucket)] = OriginalRecord(*original)
        return found

    def payloads_of(self, filename: str) -> dict[PayloadKey, OriginalRecord]:
        """Return the payloads whose records are in that WARC."""
        query = f"SELECT digest, bucket, {_ORIGINAL} FROM payloads WHERE filename = ?"  # noqa: S608 constants
        return {
            PayloadKey(digest, bucket): OriginalRecord(*original)
            for digest, bucket, *original in self._db.execute(query, (filename,))
        }

    def orphans(self) -> dict[int, str]:
        """Return revisits whose payload is in no local WARC: row id -> WARC-Payload-Digest."""
        query = (
            "SELECT id, digest FROM captures"
            " WHERE record_type = 'revisit' AND orig_filename IS NULL"
        )
        return dict(self._db.execute(query))

    def adopt(self, originals: Mapping[int, OriginalRecord]) -> None:
        """Set the payload locations of those revisits."""
        self._db.executemany(
            "UPDATE captures SET (orig_filename, orig_offset, orig_length) = (?, ?, ?) WHERE id = ?",
            ((each.filename, each.offset, each.length, row) for row, each in originals.items()),
        )

    def original_spelled(self, spelled: str, bucket: str) -> OriginalRecord | None:
        """Find a record by its WARC-Payload-Digest; None when the bucket has none."""
        query = f"SELECT {_ORIGINAL} FROM payloads WHERE spelled = ? AND bucket = ?"  # noqa: S608 constants
        row = self._db.execute(query, (spelled, bucket)).fetchone()
        return None if row is None else OriginalRecord(*row)

    def add_payloads(self, originals: Mapping[PayloadKey, OriginalRecord]) -> None:
        """Add the records of payloads; the first one of each payload stays."""
        rows = [
            (*key, each.digest, each.filename, each.offset, each.length, each.url, each.captured_ms)
            for key, each in originals.items()
        ]
        self._insert(_PAYLOADS, rows)

    def add_captures(self, captures: Iterable[Capture]) -> None:
        """Add captures; an existing record is not changed."""
        self.add_rows([capture_row(each) for each in captures])

    def add_rows(self, rows: Sequence[CaptureRow]) -> None:
        """Add captures that are rows already; see `add_captures`."""
        self._insert(_CAPTURES, rows)

    def _insert(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        start = 0
        for size in _ROWS_AT_ONCE:
            while len(rows) - start >= size:
                some = rows[start : start + size]
                start += size
                marks = f"({','.join('?' * len(some[0]))})"
                values = [value for row in some for value in row]
                self._db.execute(statement + ",".join([marks] * size), values)

    def add_page(self, page: PageInfo) -> None:
        """Add or replace the page's row; an earlier visit's manifest never replaces a later one's.

        Rows of interrupted attempts and of skipped pages are removed: see `CaptureIndex.add_page`.
        """
        row = page_row(page)
        if page.outcome is VisitOutcome.SKIPPED:
            self._db.execute(
                "DELETE FROM captures WHERE page_id = ? AND url NOT LIKE 'urn:pageinfo:%'",
                (row.page_id,),
            )
        self._db.execute(
            "DELETE FROM captures WHERE page_id = ? AND captured_ms < ?",
            (row.page_id, row.captured_ms),
        )
        self._db.execute(f"{_PAGES}({','.join('?' * len(row))}){_LATEST_PAGE}", row)
        if row.login:
            self._db.execute(_MARK_LOGIN, (row.login, row.page_id))

    def add_qualities(self, rows: Sequence[QualityRow]) -> None:
        """Add check results; an existing record is not changed."""
        self._insert(_QUALITIES, sorted(rows))  # in the order in which PostgreSQL takes them

    def page_outcome(self, page_id: str) -> VisitOutcome | None:
        """Return the outcome of the page's visit; None when its manifest is not in the index."""
        query = "SELECT outcome FROM pages WHERE page_id = ?"
        row = self._db.execute(query, (page_id,)).fetchone()
        return None if row is None else VisitOutcome(row[0])

    def manifest_place(self, page_id: str) -> tuple[str, int, int] | None:
        """Return WARC, offset and length of the page's latest manifest; None: not in the index."""
        query = (
            "SELECT filename, offset, length FROM captures WHERE page_id = ?"
            " AND url LIKE 'urn:pageinfo:%' ORDER BY captured_ms DESC LIMIT 1"
        )
        found: tuple[str, int, int] | None = self._db.execute(query, (page_id,)).fetchone()
        return found

    def outcomes(self) -> dict[str, int]:
        """Count pages by outcome."""
        query = "SELECT outcome, count(*) FROM pages GROUP BY outcome"
        return {str(outcome): int(count) for outcome, count in self._db.execute(query)}

    def classes(self) -> dict[str, int]:
        """Count pages by class; the empty name counts pages without one."""
        query = "SELECT page_class, count(*) FROM pages GROUP BY page_class"
        return {str(name): int(count) for name, count in self._db.execute(query)}

    def indexed_to(self, filename: str) -> int:
        """Return the number of bytes of the WARC that the index covers."""
        query = "SELECT indexed_to FROM files WHERE filename = ?"
        row = self._db.execute(query, (filename,)).fetchone()
        return 0 if row is None else int(row[0])

    def cover(self, filename: str, end: int) -> None:
        """Set the number of bytes of the WARC that the index covers; 0 removes the file's row."""
        if not end:
            self._db.execute("DELETE FROM files WHERE filename = ?", (filename,))
            return
        self._db.execute(
            "INSERT INTO files (filename, indexed_to) VALUES (?, ?)"
            " ON CONFLICT (filename) DO UPDATE SET indexed_to = excluded.indexed_to",
            (filename, end),
        )

    def close_file(self, filename: str, *, size: int, sha256: str, closed_ms: int) -> None:
        """Store size, checksum and time of the closed WARC; an unknown file is ignored."""
        self._db.execute(
            "UPDATE files SET size = ?, sha256 = ?, closed_ms = ? WHERE filename = ?",
            (size, sha256, closed_ms, filename),
        )

    def forget(self, filename: str, start: int, end: int = 1 << 62) -> int:
        """Remove rows that refer to lost records of the WARC; return the number of captures.

        A page whose manifest is among them no longer counts as finished.
        """
        lost = (filename, start, end)
        with self.transaction():
            self._db.execute(
                "DELETE FROM pages WHERE page_id IN (SELECT page_id FROM captures"
                " WHERE filename = ? AND offset >= ? AND offset < ? AND url LIKE 'urn:pageinfo:%')",
                lost,
            )
            self._db.execute(
                "DELETE FROM payloads WHERE filename = ? AND offset >= ? AND offset < ?", lost
            )
            self._db.execute(
                "DELETE FROM qualities WHERE filename = ? AND offset >= ? AND offset < ?", lost
            )
            self._db.execute(
                "UPDATE captures SET (orig_filename, orig_offset, orig_length) = (NULL, NULL, NULL)"
                " WHERE orig_filename = ? AND orig_offset >= ? AND orig_offset < ?",
                lost,
            )
            query = "DELETE FROM captures WHERE filename = ? AND offset >= ? AND offset < ?"
            count = self._db.execute(query, lost).rowcount
            if start == 0 and end == 1 << 62:
                self._db.execute("DELETE FROM files WHERE filename = ?", (filename,))
        return count

    def counts(self) -> dict[str, int]:
        """Count rows by table, and captures by record type."""
        found = {}
        for table in ("captures", "pages", "payloads", "qualities", "files"):
            (found[table],) = self._db.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 constants
        query = "SELECT record_type, count(*) FROM captures GROUP BY record_type"
        return found | {f"captures.{kind}": count for kind, count in self._db.execute(query)}


def covered_by_file(database: Path) -> dict[str, int]:
    """Return the bytes that the index in that file covers, by WARC; {} when it cannot be read."""
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(read_only_uri(database), uri=True)) as old,
    ):
        return dict(old.execute("SELECT filename, indexed_to FROM files"))
    return {}


class SqlitePayloadIndex:
    """Dedup index in a captures index; claim and settle in one `SqliteCaptureIndex.transaction`.

    The captures index stays the caller's.
    """

    shared = False

    def __init__(self, index: SqliteCaptureIndex) -> None:
        self._index = index

    def check(self) -> None:
        """Return at once: a file is always available."""

    def claim(
        self, keys: Collection[PayloadKey], also: Sequence[str] = ()
    ) -> dict[PayloadKey, OriginalRecord | Claim]:
        """Return for each key its original, or `Claim.YOURS` until the transaction ends."""
        found = self.find(keys, also)
        return {key: found.get(key, Claim.YOURS) for key in keys}

    def find(
        self, keys: Collection[PayloadKey], also: Sequence[str] = ()
    ) -> dict[PayloadKey, OriginalRecord]:
        """Return the known originals."""
        if not also:
            return self._index.originals(keys)
        places = {
            key: [PayloadKey(key.digest, each) for each in (key.bucket, *also)] for key in keys
        }
        known = self._index.originals(dict.fromkeys(chain.from_iterable(places.values())))
        found = {}
        for key, wanted in places.items():
            original = next((known[place] for place in wanted if place in known), None)
            if original is not None:
                found[key] = original
        return found

    def settle(self, originals: Mapping[PayloadKey, OriginalRecord]) -> frozenset[PayloadKey]:
        """Add the originals; the lock excludes other processes, so no claim is ever lost."""
        self.add(originals)
        return frozenset()

    def release(self, keys: Collection[PayloadKey]) -> None:
        """Return at once: the end of the transaction releases the lock."""

    def wait(self, keys: Collection[PayloadKey], timeout_s: float) -> None:
        """Return at once: no key is ever busy."""

    def add(self, originals: Mapping[PayloadKey, OriginalRecord]) -> None:
        """Add the originals; the first of each key stays."""
        self._index.add_payloads(originals)

    def bury(self) -> None:
        """Return at once: SQLite has rolled back the transactions of dead processes."""

    def close(self) -> None:
        """Return at once: the caller closes the captures index."""
