"""Schema and rows of a captures index, and what its two databases have in common for writers.

A batch is one transaction, and idempotent: a record is identified by file and offset, and a WARC's name is never used
twice on any machine. `tests/warc/index/test_sqlite.py` tests every implementation against these rules.
"""

# ruff: noqa: S608 only constant names and placeholders go into the statements

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from core.captures import RecordLocation
from core.errors import InputError
from core.page_manifest import PageInfo, VisitOutcome
from core.playback_check import PlaybackCheck, choice_penalty, validate_check_ids
from core.timestamps import parse_warc_date, timestamp14_at, unix_milliseconds
from core.url_keys import replay_key
from warc.dedup.payloads import OriginalRecord, PayloadKey

# The schema of both databases is made from one file (docs/decisions/016-index-on-postgresql.md).
CAPTURES_DDL = re.sub(r"(?m)^--.*\n", "", Path(__file__).with_name("schema.sql").read_text())
# Artifacts of earlier releases do not name their visit's login; its page or one of its exchanges does.
MARK_LOGINS = """
UPDATE captures SET login = coalesce(
    (SELECT min(login) FROM pages WHERE pages.page_id = captures.page_id AND login <> ''),
    (SELECT min(same.login) FROM captures AS same
        WHERE same.page_id = captures.page_id AND same.login IS NOT NULL))
WHERE login IS NULL AND page_id IN (SELECT page_id FROM pages WHERE login <> ''
    UNION SELECT page_id FROM captures WHERE login IS NOT NULL)
"""


class CaptureRow(NamedTuple):
    """Row of `captures`; its columns are the fields of `core.captures.Capture`."""

    urlkey: str
    timestamp: str
    captured_ms: int
    url: str
    record_type: str
    mime: str
    status: int | None
    digest: str
    filename: str
    offset: int
    length: int
    orig_filename: str | None
    orig_offset: int | None
    orig_length: int | None
    page_id: str | None
    truncated: str | None
    login: str | None = None


class PageIndexRow(NamedTuple):
    """Row of `pages`; see `core.page_manifest.PageInfo` for the fields."""

    page_id: str
    url: str
    urlkey: str
    timestamp: str
    captured_ms: int
    final_url: str
    outcome: str
    reason: str
    status: int | None
    mime: str
    title: str
    records: int
    stored_bytes: int
    seconds: float
    page_class: str
    class_score: float
    class_evidence: str
    device: str
    language: str
    login: str


class QualityRow(NamedTuple):
    """Row of `qualities`: effect of a check on the choice among captures of a URL."""

    filename: str
    offset: int
    page_id: str
    level: str
    checked_ms: int
    quality: int


class PayloadRow(NamedTuple):
    """Row of `payloads`: the record that holds a payload, by its dedup key."""

    digest: str
    bucket: str
    spelled: str
    filename: str
    offset: int
    length: int
    url: str
    captured_ms: int


RowType = type[CaptureRow | PageIndexRow | QualityRow | PayloadRow]
# Tables to which many rows are added at once.
ROW_TYPES: Mapping[str, RowType] = {"captures": CaptureRow, "qualities": QualityRow, "payloads": PayloadRow}


def columns(row: RowType) -> str:
    """Return the row's columns for SQL; `offset` is quoted, being a keyword of PostgreSQL."""
    return ", ".join(f'"{name}"' for name in row._fields)


def key_or_empty(url: str) -> str:
    """Return the URL's replay key; empty when it has none and is not found by URL."""
    try:
        return replay_key(url)
    except InputError:
        return ""


def capture_row(  # noqa: PLR0913 columns
    url: str,
    captured_ms: int,
    record_type: str,
    at: RecordLocation,
    *,
    mime: str,
    digest: str,
    status: int | None = None,
    original: RecordLocation | OriginalRecord | None = None,
    page_id: str | None = None,
    truncated: str | None = None,
    login: str | None = None,
    is_findable: bool = True,
) -> CaptureRow:
    """Return the row of a record; `original` holds a revisit's payload, one that is not findable has no key."""
    key = key_or_empty(url) if is_findable else ""
    place: tuple[str | None, int | None, int | None] = (None, None, None)
    if original is not None:
        place = (original.filename, original.offset, original.length)
    record = (key, timestamp14_at(captured_ms), captured_ms, url, record_type, mime, status, digest)
    return CaptureRow(*record, at.filename, at.offset, at.length, *place, page_id, truncated, login)


def page_row(page: PageInfo) -> PageIndexRow:
    """Return the manifest as a row."""
    captured_ms = unix_milliseconds(parse_warc_date(page.captured_at))
    same = {name: getattr(page, name, None) for name in PageIndexRow._fields}
    derived = {
        "urlkey": key_or_empty(page.url),
        "timestamp": timestamp14_at(captured_ms),
        "captured_ms": captured_ms,
        "outcome": str(page.outcome),
        "page_class": str(page.page_class),
        "class_evidence": "\n".join(page.class_evidence),
    }
    return PageIndexRow(**(same | derived))  # type: ignore[arg-type]


def quality_row(check: PlaybackCheck, at: RecordLocation) -> QualityRow:
    """Return the check whose record is at that location as a row; InputError if it is invalid."""
    validate_check_ids(check.page_id, check.level)
    checked_ms = unix_milliseconds(parse_warc_date(check.checked_at))
    return QualityRow(at.filename, at.offset, check.page_id, check.level, checked_ms, choice_penalty(check))


_ORIGINAL = 'spelled, url, captured_ms, filename, "offset", length'  # as `OriginalRecord`
_IS_MANIFEST = "substr(url, 1, 13) = 'urn:pageinfo:'"
_ADD_PAGE = (
    f"INSERT INTO pages ({columns(PageIndexRow)}) VALUES ({', '.join('?' * len(PageIndexRow._fields))})"
    " ON CONFLICT (page_id) DO UPDATE SET "
    + ", ".join(f'"{name}" = excluded."{name}"' for name in PageIndexRow._fields[1:])
    + " WHERE excluded.captured_ms >= pages.captured_ms"
)
_SPAN = 'filename = ? AND "offset" >= ? AND "offset" < ?'
_FORGET = (
    f"DELETE FROM pages WHERE page_id IN (SELECT page_id FROM captures WHERE {_SPAN} AND {_IS_MANIFEST})",
    f"DELETE FROM payloads WHERE {_SPAN}",
    f"DELETE FROM qualities WHERE {_SPAN}",
    "UPDATE captures SET orig_filename = NULL, orig_offset = NULL, orig_length = NULL"
    " WHERE orig_filename = ? AND orig_offset >= ? AND orig_offset < ?",
)
_END = 1 << 62
_JOIN_REVISITS = (
    "UPDATE captures SET (orig_filename, orig_offset, orig_length) ="
    ' (SELECT filename, "offset", length FROM payloads'
    " WHERE payloads.spelled = captures.digest ORDER BY bucket, digest LIMIT 1)"
    " WHERE record_type = 'revisit' AND orig_filename IS NULL"
    " AND EXISTS (SELECT 1 FROM payloads WHERE payloads.spelled = captures.digest)"
)
_DELETE_EARLIER = (
    "DELETE FROM captures WHERE EXISTS (SELECT 1 FROM pages"
    " WHERE pages.page_id = captures.page_id AND pages.captured_ms > captures.captured_ms)"
)
_DELETE_SKIPPED = (
    f"DELETE FROM captures WHERE NOT {_IS_MANIFEST} AND page_id IN"
    f" (SELECT page_id FROM pages WHERE outcome = '{VisitOutcome.SKIPPED}')"
)


class CaptureIndex(ABC):
    """Captures index as seen by one process; `close` it. A `shared` index raises IndexUnavailableError.

    Queries are thread-safe; a transaction belongs to one thread. Outside of `transaction` each method is one of its
    own.
    """

    # Whether several machines write it, through a server. Its transactions do not block others, so
    # they claim nothing, and a commit may report failure although it was done.
    shared: ClassVar[bool]
    _db: Any  # the connection

    def close(self) -> None:
        """Close the index."""
        self._db.close()

    def check(self) -> None:
        """Check that the index answers; IndexUnavailableError otherwise."""
        self._run("SELECT 1")

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Commit at the end of the block, or roll back on any error."""

    @abstractmethod
    def _run(self, query: str, values: Sequence[Any] = (), *, patient: bool = False) -> Any:
        """Return the cursor of a query with ``?`` for values; `patient`: without a time limit."""

    @abstractmethod
    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add rows to one of `ROW_TYPES`; a row that is there already stays."""

    @abstractmethod
    def adopt(self, originals: Mapping[int, OriginalRecord]) -> None:
        """Set the payload locations of those revisits."""

    def settle(self, filenames: Collection[str] | None = None) -> None:
        """Join revisits to payloads, and remove interrupted attempts (`add_page`), of a `shared` index in these files."""
        within, names = "", list[Any]()
        if filenames is not None and self.shared:
            within, names = " AND captures.filename = ANY(?)", [list(filenames)]
        with self.transaction():
            self._run(_JOIN_REVISITS, patient=True)
            self._run(f"{_DELETE_EARLIER}{within}", names, patient=True)
            self._run(f"{_DELETE_SKIPPED}{within}", names, patient=True)
            self._run(MARK_LOGINS, patient=True)

    def add_rows(self, rows: Sequence[CaptureRow]) -> None:
        """Add captures; an existing record stays. Raises InputError if one cannot be held."""
        self._insert("captures", rows)

    def add_page(self, page: PageInfo) -> None:
        """Add or replace the page's row; an earlier visit's manifest never replaces a later one's.

        Both exist when a proxy died after writing the first. Rows of an interrupted attempt at the same page are
        removed: the page was captured once, by the visit that its manifest describes. Of a skipped page only the
        manifest stays in the index, with the reason, so that excluded content is never offered.
        """
        row = page_row(page)
        if page.outcome is VisitOutcome.SKIPPED:
            self._run(f"DELETE FROM captures WHERE page_id = ? AND NOT {_IS_MANIFEST}", (row.page_id,))
        self._run("DELETE FROM captures WHERE page_id = ? AND captured_ms < ?", (row.page_id, row.captured_ms))
        self._run(_ADD_PAGE, row)
        if row.login:
            self._run("UPDATE captures SET login = ? WHERE page_id = ? AND login IS NULL", (row.login, row.page_id))

    def add_qualities(self, rows: Sequence[QualityRow]) -> None:
        """Add check results; an existing record stays, and the newest check of a page counts."""
        self._insert("qualities", sorted(rows))  # in one order, so that no two writers wait

    def add_payloads(self, originals: Mapping[PayloadKey, OriginalRecord]) -> None:
        """Add the records of payloads; the first one of each payload stays."""
        rows = (
            (*key, each.digest, each.filename, each.offset, each.length, each.url, each.captured_ms)
            for key, each in originals.items()
        )
        self._insert("payloads", sorted(rows))

    def payloads_of(self, filename: str) -> dict[PayloadKey, OriginalRecord]:
        """Return the payloads whose records are in that WARC."""
        query = f"SELECT digest, bucket, {_ORIGINAL} FROM payloads WHERE filename = ?"
        return {
            PayloadKey(digest, bucket): OriginalRecord(*original)
            for digest, bucket, *original in self._run(query, (filename,))
        }

    def original_spelled(self, spelled: str, bucket: str) -> OriginalRecord | None:
        """Find a record by its WARC-Payload-Digest; None when the bucket has none."""
        query = f"SELECT {_ORIGINAL} FROM payloads WHERE spelled = ? AND bucket = ?"
        row = self._run(query, (spelled, bucket)).fetchone()
        return None if row is None else OriginalRecord(*row)

    def orphans(self) -> dict[int, str]:
        """Return revisits whose payload is in no local WARC: row id -> WARC-Payload-Digest."""
        return self._pairs("SELECT id, digest FROM captures WHERE record_type = 'revisit' AND orig_filename IS NULL")

    def outcomes(self) -> dict[str, int]:
        """Count pages by outcome."""
        return self._pairs("SELECT outcome, count(*) FROM pages GROUP BY outcome")

    def classes(self) -> dict[str, int]:
        """Count pages by class; the empty name counts pages without one."""
        return self._pairs("SELECT page_class, count(*) FROM pages GROUP BY page_class")

    def counts(self) -> dict[str, int]:
        """Count rows by table, and captures by record type."""
        counts = {
            table: int(self._one(f"SELECT count(*) FROM {table}", patient=True))
            for table in ("captures", "pages", "payloads", "qualities", "files")
        }
        kinds = self._pairs("SELECT record_type, count(*) FROM captures GROUP BY record_type")
        return counts | {f"captures.{kind}": count for kind, count in kinds.items()}

    def indexed_to(self, filename: str) -> int:
        """Return the number of bytes of the WARC that the index covers."""
        return int(self._one("SELECT indexed_to FROM files WHERE filename = ?", (filename,)) or 0)

    def cover(self, filename: str, end: int) -> None:
        """Set the number of bytes of the WARC that the index covers; 0 removes the file's row."""
        if not end:
            self._run("DELETE FROM files WHERE filename = ?", (filename,))
            return
        self._run(
            "INSERT INTO files (filename, indexed_to) VALUES (?, ?)"
            " ON CONFLICT (filename) DO UPDATE SET indexed_to = excluded.indexed_to",
            (filename, end),
        )

    def close_file(self, filename: str, *, size: int, sha256: str, closed_ms: int) -> None:
        """Store size, checksum and time of the closed WARC; an unknown file is ignored."""
        query = "UPDATE files SET size = ?, sha256 = ?, closed_ms = ? WHERE filename = ?"
        self._run(query, (size, sha256, closed_ms, filename))

    def forget(self, filename: str, start: int, end: int = _END) -> int:
        """Remove rows of lost records, and pages whose manifest is one; return the number of captures."""
        lost = (filename, start, end)
        with self.transaction():
            for statement in _FORGET:
                self._run(statement, lost, patient=True)
            count = int(self._run(f"DELETE FROM captures WHERE {_SPAN}", lost, patient=True).rowcount)
            if start == 0 and end == _END:
                self._run("DELETE FROM files WHERE filename = ?", (filename,))
        return count

    def _one(self, query: str, values: Sequence[Any] = (), *, patient: bool = False) -> Any:
        """Return the first value of the answer; None when it has no row."""
        row = self._run(query, values, patient=patient).fetchone()
        return None if row is None else row[0]

    def _pairs(self, query: str) -> dict[Any, Any]:
        return dict(self._run(query, patient=True).fetchall())
