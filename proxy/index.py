"""The captures index: rows written with their records, in one transaction a batch.

Schema: `core.index_schema`. Several processes write; SQLite's write lock, taken before a digest is
looked up and released after its record is on disk, is what makes one `response` of many.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from core.captures import Capture, RecordLocation
from core.errors import CollectionVersionError, InputError
from core.index_schema import CAPTURES_DDL, SCHEMA_VERSION
from core.pages import Outcome, PageInfo
from core.timestamps import milliseconds, moment, parse_warc_date, timestamp14
from core.urls import replay_key
from proxy.builder import Original

BUSY_TIMEOUT_MS = 60_000
DIGESTS_AT_ONCE = 500  # SQLite takes 32,766 values in a statement, and older ones 999
_ORIGINAL = "spelled, url, captured_ms, filename, offset, length"  # as `Original` takes them


class CaptureIndex:
    """The index of one collection. Used from one thread; `close` it."""

    def __init__(self, path: Path) -> None:
        """Open the index, making it when it is not there.

        Raises:
            CollectionVersionError: it was made by another version.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
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

    def settle(self) -> None:
        """Bring together what was added file by file.

        That is revisits and their payloads, pages and what interrupted attempts at them left (see
        `add_page`).
        """
        with self.transaction():
            self._db.execute(
                "UPDATE captures SET (orig_filename, orig_offset, orig_length) ="
                " (SELECT filename, offset, length FROM payloads"
                " WHERE payloads.spelled = captures.digest ORDER BY bucket LIMIT 1)"
                " WHERE record_type = 'revisit' AND orig_filename IS NULL"
            )
            self._db.execute(
                "DELETE FROM captures WHERE captured_ms <"
                " (SELECT captured_ms FROM pages WHERE pages.page_id = captures.page_id)"
            )

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
        self._db.execute("COMMIT")

    def originals(
        self, digests: Collection[str], buckets: Collection[str]
    ) -> dict[tuple[str, str], Original]:
        """(digest, bucket) -> the record that holds the payload, for all that are known."""
        found = {}
        places = ", ".join("?" * len(buckets))
        for some in _batches(digests, DIGESTS_AT_ONCE):
            query = (
                f"SELECT digest, bucket, {_ORIGINAL} FROM payloads"  # noqa: S608 constants
                f" WHERE digest IN ({', '.join('?' * len(some))}) AND bucket IN ({places})"
            )
            for digest, bucket, *original in self._db.execute(query, (*some, *buckets)):
                found[digest, bucket] = Original(*original)
        return found

    def original(self, digest: str, bucket: str) -> Original | None:
        """The record that holds the payload, None when it is new to the bucket."""
        return self.originals((digest,), (bucket,)).get((digest, bucket))

    def add_payload(self, digest: str, bucket: str, original: Original) -> None:
        """Remember which record holds the payload; the first one stays."""
        self.add_payloads(((digest, bucket, original),))

    def original_spelled(self, spelled: str, bucket: str) -> Original | None:
        """The record whose WARC-Payload-Digest that is; None when there is none in the bucket."""
        query = f"SELECT {_ORIGINAL} FROM payloads WHERE spelled = ? AND bucket = ?"  # noqa: S608 constants
        row = self._db.execute(query, (spelled, bucket)).fetchone()
        return None if row is None else Original(*row)

    def payloads_of(self, filename: str) -> list[tuple[str, str, Original]]:
        """(digest, bucket, original) of every payload whose record lies in that WARC."""
        query = f"SELECT digest, bucket, {_ORIGINAL} FROM payloads WHERE filename = ?"  # noqa: S608 constants
        rows = self._db.execute(query, (filename,))
        return [(digest, bucket, Original(*rest)) for digest, bucket, *rest in rows]

    def add_payloads(self, payloads: Iterable[tuple[str, str, Original]]) -> None:
        """Remember which records hold the payloads (digest, bucket, original); the first stays."""
        self._db.executemany(
            "INSERT OR IGNORE INTO payloads (digest, bucket, spelled, filename, offset, length, url,"
            " captured_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    digest,
                    bucket,
                    original.digest,
                    original.filename,
                    original.offset,
                    original.length,
                    original.url,
                    original.captured_ms,
                )
                for digest, bucket, original in payloads
            ),
        )

    def add_captures(self, captures: Iterable[Capture]) -> None:
        """Add the rows; a record that is there already stays as it is."""
        self._db.executemany(
            "INSERT OR IGNORE INTO captures (urlkey, timestamp, captured_ms, url, record_type, mime,"
            " status, digest, filename, offset, length, orig_filename, orig_offset, orig_length,"
            " page_id, truncated) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            map(_row, captures),
        )

    def add_page(self, page: PageInfo) -> None:
        """Add or replace the page's row.

        What an interrupted attempt at the same page left in the index goes: its records stay in
        the WARCs, but the page was captured once, by the visit that its manifest describes.
        """
        captured_ms = milliseconds(parse_warc_date(page.captured_at))
        self._db.execute(
            "DELETE FROM captures WHERE page_id = ? AND captured_ms < ?",
            (page.page_id, captured_ms),
        )
        self._db.execute(
            "INSERT OR REPLACE INTO pages (page_id, url, urlkey, timestamp, captured_ms, final_url,"
            " outcome, reason, status, mime, title, records, stored_bytes, seconds)"
            " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                page.page_id,
                page.url,
                key_or_empty(page.url),
                timestamp14(moment(captured_ms)),
                captured_ms,
                page.final_url,
                str(page.outcome),
                page.reason,
                page.status,
                page.mime,
                page.title,
                page.records,
                page.stored_bytes,
                page.seconds,
            ),
        )

    def page_outcome(self, page_id: str) -> Outcome | None:
        """How the page's visit ended; None when its manifest is not in the index."""
        query = "SELECT outcome FROM pages WHERE page_id = ?"
        row = self._db.execute(query, (page_id,)).fetchone()
        return None if row is None else Outcome(row[0])

    def outcomes(self) -> dict[str, int]:
        """Pages by outcome."""
        query = "SELECT outcome, count(*) FROM pages GROUP BY outcome"
        return {str(outcome): int(count) for outcome, count in self._db.execute(query)}

    def indexed_to(self, filename: str) -> int:
        """How many bytes of the WARC the index covers."""
        query = "SELECT indexed_to FROM files WHERE filename = ?"
        row = self._db.execute(query, (filename,)).fetchone()
        return 0 if row is None else int(row[0])

    def cover(self, filename: str, end: int) -> None:
        """Say that the index covers the WARC up to `end`."""
        self._db.execute(
            "INSERT INTO files (filename, indexed_to) VALUES (?, ?)"
            " ON CONFLICT (filename) DO UPDATE SET indexed_to = excluded.indexed_to",
            (filename, end),
        )

    def counts(self) -> dict[str, int]:
        """Rows by table, and captures by record type."""
        found = {}
        for table in ("captures", "pages", "payloads", "files"):
            (found[table],) = self._db.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 constants
        query = "SELECT record_type, count(*) FROM captures GROUP BY record_type"
        return found | {f"captures.{kind}": count for kind, count in self._db.execute(query)}


def _batches(values: Iterable[str], size: int) -> Iterator[tuple[str, ...]]:
    """The values, so many at a time."""
    rest = iter(values)
    while batch := tuple(islice(rest, size)):
        yield batch


def key_or_empty(url: str) -> str:
    """The URL's replay key; empty when it has none, so that the row is found by other means."""
    try:
        return replay_key(url)
    except InputError:
        return ""


def _row(capture: Capture) -> tuple[object, ...]:
    original = capture.original or RecordLocation(None, None, None)  # type: ignore[arg-type]
    return (
        capture.urlkey,
        timestamp14(capture.captured_at),
        milliseconds(capture.captured_at),
        capture.url,
        str(capture.record_type),
        capture.mime,
        capture.status,
        capture.digest,
        capture.location.filename,
        capture.location.offset,
        capture.location.length,
        original.filename,
        original.offset,
        original.length,
        capture.page_id,
        capture.truncated,
    )
