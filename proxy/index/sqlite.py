"""The captures index of one collection: a SQLite file.

Schema: `core.index_schema`. Several processes write; SQLite's write lock, taken before a digest is
looked up and released after its record is on disk, is what makes one `response` of many.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from core.captures import Capture
from core.errors import CollectionVersionError
from core.index_schema import CAPTURES_DDL, MARK_LOGINS, SCHEMA_VERSION
from core.pages import Outcome, PageInfo
from core.sqlite_uri import is_frozen, read_only_uri
from proxy.builder import Original
from proxy.index.rows import CaptureRow, PageRow, QualityRow, columns, page_row, row_of
from proxy.payloads.protocol import PayloadKey

BUSY_TIMEOUT_MS = 60_000

_PAYLOADS = (
    "INSERT OR IGNORE INTO payloads (digest, bucket, spelled, filename, offset, length, url,"
    " captured_ms) VALUES "
)
_ORIGINAL = "spelled, url, captured_ms, filename, offset, length"  # in the order of `Original`
# A statement a row costs more than the row: so many rows go into one.
_ROWS_AT_ONCE = (64, 8, 1)


_CAPTURES = f"INSERT OR IGNORE INTO captures ({columns(CaptureRow)}) VALUES "  # noqa: S608 constants
_PAGES = f"INSERT INTO pages ({columns(PageRow)}) VALUES "  # noqa: S608 constants
_QUALITIES = f"INSERT OR IGNORE INTO qualities ({columns(QualityRow)}) VALUES "  # noqa: S608 constants
_LATEST_PAGE = (
    " ON CONFLICT (page_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in PageRow._fields[1:])
    + " WHERE excluded.captured_ms >= pages.captured_ms"
)


_MARK_LOGIN = "UPDATE captures SET login = ? WHERE page_id = ? AND login IS NULL"


class SqliteCaptureIndex:
    """The index of one collection. Used from one thread; `close` it."""

    shared = False

    def __init__(self, path: Path) -> None:
        """Open the index, making it when it is not there.

        Raises:
            CollectionVersionError: it was made by another version.
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
        """Nothing: it is a file."""

    def settle(self, filenames: Collection[str] | None = None) -> None:
        """Bring together what was added file by file; all of it, for there is but one writer."""
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
                (str(Outcome.SKIPPED),),
            )
            self._db.execute(MARK_LOGINS)

    def checkpoint(self) -> None:
        """Move everything into the database's one file, so that it can be renamed."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the write lock; commit at the end, or roll back on any error."""
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

    def originals(self, keys: Iterable[PayloadKey]) -> dict[PayloadKey, Original]:
        """The records that hold the payloads, of those that are known."""
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
                found[PayloadKey(digest, bucket)] = Original(*original)
        return found

    def payloads_of(self, filename: str) -> dict[PayloadKey, Original]:
        """The payloads whose records lie in that WARC."""
        query = f"SELECT digest, bucket, {_ORIGINAL} FROM payloads WHERE filename = ?"  # noqa: S608 constants
        return {
            PayloadKey(digest, bucket): Original(*original)
            for digest, bucket, *original in self._db.execute(query, (filename,))
        }

    def orphans(self) -> dict[int, str]:
        """Revisits whose payload lies in no WARC here: row id -> WARC-Payload-Digest."""
        query = (
            "SELECT id, digest FROM captures"
            " WHERE record_type = 'revisit' AND orig_filename IS NULL"
        )
        return dict(self._db.execute(query))

    def adopt(self, originals: Mapping[int, Original]) -> None:
        """Say where the payloads of those revisits lie."""
        self._db.executemany(
            "UPDATE captures SET (orig_filename, orig_offset, orig_length) = (?, ?, ?) WHERE id = ?",
            ((each.filename, each.offset, each.length, row) for row, each in originals.items()),
        )

    def original_spelled(self, spelled: str, bucket: str) -> Original | None:
        """The record whose WARC-Payload-Digest that is; None when there is none in the bucket."""
        query = f"SELECT {_ORIGINAL} FROM payloads WHERE spelled = ? AND bucket = ?"  # noqa: S608 constants
        row = self._db.execute(query, (spelled, bucket)).fetchone()
        return None if row is None else Original(*row)

    def add_payloads(self, originals: Mapping[PayloadKey, Original]) -> None:
        """Remember which records hold the payloads; the first one stays."""
        rows = [
            (*key, each.digest, each.filename, each.offset, each.length, each.url, each.captured_ms)
            for key, each in originals.items()
        ]
        self._insert(_PAYLOADS, rows)

    def add_captures(self, captures: Iterable[Capture]) -> None:
        """Add the rows; a record that is there already stays as it is."""
        self.add_rows([row_of(each) for each in captures])

    def add_rows(self, rows: Sequence[CaptureRow]) -> None:
        """The same for rows that are made already."""
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

        What an interrupted attempt at the same page left in the index goes: its records stay in
        the WARCs, but the page was captured once, by the visit that its manifest describes. A page
        that was skipped was not captured at all: of it only the manifest stays in the index, which
        says why, so that nobody is offered what its site does not want to be archived.
        """
        row = page_row(page)
        if page.outcome is Outcome.SKIPPED:
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
        """Add what checks found; a record that is there already stays as it is."""
        self._insert(_QUALITIES, sorted(rows))  # in the order in which PostgreSQL takes them

    def page_outcome(self, page_id: str) -> Outcome | None:
        """How the page's visit ended; None when its manifest is not in the index."""
        query = "SELECT outcome FROM pages WHERE page_id = ?"
        row = self._db.execute(query, (page_id,)).fetchone()
        return None if row is None else Outcome(row[0])

    def manifest_place(self, page_id: str) -> tuple[str, int, int] | None:
        """The WARC, offset and length of the page's manifest, the latest; None: not in the index."""
        query = (
            "SELECT filename, offset, length FROM captures WHERE page_id = ?"
            " AND url LIKE 'urn:pageinfo:%' ORDER BY captured_ms DESC LIMIT 1"
        )
        found: tuple[str, int, int] | None = self._db.execute(query, (page_id,)).fetchone()
        return found

    def outcomes(self) -> dict[str, int]:
        """Pages by outcome."""
        query = "SELECT outcome, count(*) FROM pages GROUP BY outcome"
        return {str(outcome): int(count) for outcome, count in self._db.execute(query)}

    def classes(self) -> dict[str, int]:
        """Pages by class; those that were not judged have the empty name."""
        query = "SELECT page_class, count(*) FROM pages GROUP BY page_class"
        return {str(name): int(count) for name, count in self._db.execute(query)}

    def indexed_to(self, filename: str) -> int:
        """How many bytes of the WARC the index covers."""
        query = "SELECT indexed_to FROM files WHERE filename = ?"
        row = self._db.execute(query, (filename,)).fetchone()
        return 0 if row is None else int(row[0])

    def cover(self, filename: str, end: int) -> None:
        """Say that the index covers the WARC up to `end`; an empty one, which goes, is forgotten."""
        if not end:
            self._db.execute("DELETE FROM files WHERE filename = ?", (filename,))
            return
        self._db.execute(
            "INSERT INTO files (filename, indexed_to) VALUES (?, ?)"
            " ON CONFLICT (filename) DO UPDATE SET indexed_to = excluded.indexed_to",
            (filename, end),
        )

    def close_file(self, filename: str, *, size: int, sha256: str, closed_ms: int) -> None:
        """Remember what the WARC was when it was closed; one that is unknown stays unknown."""
        self._db.execute(
            "UPDATE files SET size = ?, sha256 = ?, closed_ms = ? WHERE filename = ?",
            (size, sha256, closed_ms, filename),
        )

    def forget(self, filename: str, start: int, end: int = 1 << 62) -> int:
        """Take out what refers to the WARC's records there: they are lost; how many captures.

        A page whose manifest is among them is no longer known to be finished.
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
        """Rows by table, and captures by record type."""
        found = {}
        for table in ("captures", "pages", "payloads", "qualities", "files"):
            (found[table],) = self._db.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 constants
        query = "SELECT record_type, count(*) FROM captures GROUP BY record_type"
        return found | {f"captures.{kind}": count for kind, count in self._db.execute(query)}


def covered_by_file(database: Path) -> dict[str, int]:
    """Return up to where the index in that file covers which WARC; {} when it cannot be read."""
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(read_only_uri(database), uri=True)) as old,
    ):
        return dict(old.execute("SELECT filename, indexed_to FROM files"))
    return {}
