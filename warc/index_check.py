"""Check of the index and SHA256SUMS against each other and the folder.

Everything is read in one transaction, so a crawl may continue meanwhile.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from core.layout import OPEN_SUFFIX, Layout
from warc.checksums import ChecksumList, closed_warcs
from warc.file_check import CollectionFault, FaultKind, find_warc
from warc.index.schema import SCHEMA_VERSION
from warc.recovery import interrupted

ReportFault = Callable[[CollectionFault], None]


class IndexedFile(NamedTuple):
    """Row of `files`."""

    indexed_to: int
    size: int | None
    sha256: str | None


def index_uri(path: Path, *, live: bool) -> str:
    """Return the SQLite URI that opens the index without changing its folder."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    if live:
        return uri
    wal = Path(f"{path}-wal")
    with suppress(FileNotFoundError):
        if wal.stat().st_size:
            return uri
    return f"{uri}&immutable=1"  # at rest: not even the files that readers share are made


def index_problem(path: Path, *, quick: bool, live: bool) -> str:
    """Return the reason the index cannot be used; empty when it is intact.

    `quick` skips the integrity check of its pages; `live` means that a process is writing it.
    """
    if not path.exists():
        return "There is no captures index."
    try:
        with closing(sqlite3.connect(index_uri(path, live=live), uri=True)) as index:
            (version,) = index.execute("PRAGMA user_version").fetchone()
            if version != SCHEMA_VERSION:
                return f"The index has schema {version}; this version reads {SCHEMA_VERSION}."
            (state,) = ("ok",) if quick else index.execute("PRAGMA quick_check(1)").fetchone()
            index.execute("SELECT filename, indexed_to, size, sha256 FROM files LIMIT 1").fetchall()
            return "" if state == "ok" else f"The index is damaged: {state}."
    except sqlite3.Error as error:
        return f"The index cannot be read: {error}."


@contextmanager
def open_references(path: Path, scratch: Path, *, live: bool) -> Iterator[sqlite3.Connection]:
    """Open the index and build in `scratch` a table of references to records.

    The table is in file order, so that the look-up of a file's references does not depend on
    the number of payloads.
    """
    with closing(sqlite3.connect(scratch, uri=True, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("ATTACH ? AS seen", (index_uri(path, live=live),))
        database.execute("BEGIN")
        database.execute(
            "CREATE TABLE reference AS"
            " SELECT filename, offset, length, spelled, digest AS content, 1 AS times, url"
            " FROM seen.payloads"
            " UNION ALL"
            " SELECT orig_filename, orig_offset, orig_length, digest, '', count(*), min(url)"
            " FROM seen.captures WHERE record_type = 'revisit' AND orig_filename IS NOT NULL"
            " GROUP BY orig_filename, orig_offset, orig_length, digest"
        )
        database.execute("CREATE INDEX by_file ON reference (filename, offset)")
        yield database
        database.execute("COMMIT")


def check_files(
    layout: Layout,
    database: sqlite3.Connection,
    sums: ChecksumList,
    *,
    live: bool,
    known_now: Callable[[str], bool],
    report: ReportFault,
) -> None:
    """Compare the folder, `files` and SHA256SUMS with each other.

    `database` is from `open_references`; `live` means that a process is writing the collection;
    `known_now` returns whether the index contains a file by now.
    """
    rows = database.execute("SELECT filename, indexed_to, size, sha256 FROM seen.files")
    known = {name: IndexedFile(*rest) for name, *rest in rows}
    for filename, row in sorted(known.items()):
        _check_known(layout, filename, row, sums, live=live, report=report)
    for path in closed_warcs(layout):
        if path.name not in known and not (live and known_now(path.name)):
            report(
                CollectionFault(
                    FaultKind.UNKNOWN, path.name, None, "The index does not know this WARC."
                )
            )


def is_known(path: Path, filename: str) -> bool:
    """Return whether the index contains the file by now."""
    with closing(sqlite3.connect(index_uri(path, live=True), uri=True)) as index:
        query = "SELECT 1 FROM files WHERE filename = ?"
        return index.execute(query, (filename,)).fetchone() is not None


def _check_known(
    layout: Layout,
    filename: str,
    row: IndexedFile,
    sums: ChecksumList,
    *,
    live: bool,
    report: ReportFault,
) -> None:
    try:
        path, is_open = find_warc(layout, filename)
        size = path.stat().st_size
    except OSError:
        if filename not in sums.by_name:  # else it is reported with its line
            report(
                CollectionFault(
                    FaultKind.MISSING,
                    filename,
                    None,
                    "The index contains this WARC; the file is missing.",
                )
            )
        return
    if size < row.indexed_to or (row.size is not None and size < row.size):
        wanted = max(row.indexed_to, row.size or 0)
        lost = f"It is {wanted - size:,} bytes shorter than it was ({size:,}, not {wanted:,})."
        report(CollectionFault(FaultKind.SIZE, filename, size, lost))
    elif not is_open and not live and size > row.indexed_to and row.size in (None, size):
        text = f"The index covers it up to {row.indexed_to:,}; it has {size:,} bytes."
        report(CollectionFault(FaultKind.NO_ROW, filename, row.indexed_to, text))
    elif row.size is not None and size > row.size:
        text = f"It is {size - row.size:,} bytes longer than when it was closed."
        report(CollectionFault(FaultKind.SIZE, filename, row.size, text))
    line = sums.by_name.get(filename)
    if row.sha256 is not None and line is not None and row.sha256 != line:
        report(
            CollectionFault(
                FaultKind.CHECKSUM,
                filename,
                None,
                f"SHA256SUMS says {line}, the index {row.sha256}: one of them was changed.",
            )
        )


def check_sums(layout: Layout, sums: ChecksumList, *, live: bool, report: ReportFault) -> None:
    """Compare SHA256SUMS with the folder: a line for each closed WARC, a WARC for each line."""
    for number in sums.bad:
        report(
            CollectionFault(
                FaultKind.BAD_LINE,
                layout.checksums.name,
                None,
                f"Line {number} is no checksum, or contradicts an earlier one.",
            )
        )
    for path in closed_warcs(layout):
        if path.name not in sums.by_name:
            if live:
                text = "It was just closed; its checksum is being made."
                report(CollectionFault(FaultKind.PENDING, path.name, None, text))
            else:
                text = "SHA256SUMS has no line for it."
                report(CollectionFault(FaultKind.NO_CHECKSUM, path.name, None, text))
    for filename in sorted(sums.by_name):
        if not (layout.archive / filename).is_file():
            report(
                CollectionFault(
                    FaultKind.MISSING, filename, None, "SHA256SUMS names this file; it is not here."
                )
            )


def check_unfinished(layout: Layout, *, live: bool, report: ReportFault) -> None:
    """Report files that were interrupted, are being written, or were set aside."""
    for path in interrupted(layout):
        name = path.name.removesuffix(OPEN_SUFFIX)
        if live:
            report(
                CollectionFault(
                    FaultKind.OPEN, name, None, "It is being written: checked as far as indexed."
                )
            )
        else:
            text = "It was interrupted, and is not yet put in order: checked as far as indexed."
            report(CollectionFault(FaultKind.INTERRUPTED, name, None, text))
    with suppress(FileNotFoundError):
        for path in sorted(layout.damaged.iterdir()):
            text = f"{path.lstat().st_size:,} bytes that recovery could not use."
            report(
                CollectionFault(
                    FaultKind.SET_ASIDE, f"{layout.damaged.name}/{path.name}", None, text
                )
            )


def check_rows(layout: Layout, database: sqlite3.Connection, *, report: ReportFault) -> None:
    """Find rows without a file, and pages without their manifest."""
    query = (
        "SELECT filename, count(*) FROM seen.captures"
        " WHERE filename NOT IN (SELECT filename FROM seen.files) GROUP BY filename"
    )
    for filename, count in database.execute(query):
        if not any(path.exists() for path in layout.warc(filename)):
            text = f"{count} rows of the index are of this file; it is not here."
            report(CollectionFault(FaultKind.MISSING, filename, None, text))
    query = (
        "SELECT page_id, url FROM seen.pages AS p WHERE NOT EXISTS (SELECT 1 FROM seen.captures"
        " WHERE page_id = p.page_id AND url LIKE 'urn:pageinfo:%')"
    )
    for page_id, url in database.execute(query):
        text = f"The page {url} ({page_id}) has no manifest."
        report(CollectionFault(FaultKind.ROW, "", None, text))


def check_missing_files(
    layout: Layout, database: sqlite3.Connection, sums: ChecksumList, *, report: ReportFault
) -> None:
    """Find references to files that are not here.

    With a dedup index of several machines revisits may refer to another machine's WARC. Such a
    payload has no row here; a payload with a row and no file is lost.
    """
    query = (
        "SELECT filename, offset, content, times, url, EXISTS ("
        " SELECT 1 FROM seen.payloads WHERE spelled = reference.spelled) OR EXISTS ("
        " SELECT 1 FROM seen.files WHERE files.filename = reference.filename)"
        " FROM reference WHERE filename NOT IN (SELECT value FROM json_each(?))"
    )
    here = (*interrupted(layout), *closed_warcs(layout))  # in this order none is missed
    names = "[" + ",".join(f'"{path.name.removesuffix(OPEN_SUFFIX)}"' for path in here) + "]"
    for filename, offset, content, times, url, ours in database.execute(query, (names,)):
        if content:
            text = f"Dedup refers to {content} here; this file is not here."
            report(CollectionFault(FaultKind.PAYLOAD, filename, offset, text))
            continue
        many = f"{times} revisits, as of {url}," if times > 1 else f"The revisit of {url}"
        if ours or filename in sums.by_name:
            text = f"{many} cannot be played back: the payload's file is not here."
            report(CollectionFault(FaultKind.ORIGINAL, filename, offset, text))
        else:
            text = f"{many} has its payload in another collection's file."
            report(CollectionFault(FaultKind.ELSEWHERE, filename, offset, text))


def check_references(database: sqlite3.Connection, *, report: ReportFault) -> None:
    """Check the index's own references without reading WARCs (for `--quick`)."""
    query = (
        "SELECT filename, offset, url FROM seen.captures"
        " WHERE record_type = 'revisit' AND orig_filename IS NULL"
    )
    for filename, offset, url in database.execute(query):
        text = f"The revisit of {url} has no payload location."
        report(CollectionFault(FaultKind.ORIGINAL, filename, offset, text))
    query = (
        "SELECT r.filename, r.offset, r.url FROM reference AS r"
        " LEFT JOIN seen.captures AS c ON c.filename = r.filename AND c.offset = r.offset"
        " LEFT JOIN seen.payloads AS p ON p.spelled = r.spelled"
        "  AND p.filename = r.filename AND p.offset = r.offset"
        " WHERE r.content = '' AND r.filename IN (SELECT filename FROM seen.files)"
        " AND p.digest IS NULL AND (c.record_type IS NOT 'response' OR c.digest != r.spelled)"
    )
    for filename, offset, url in database.execute(query):
        text = f"The revisit of {url} refers to a payload here; the index knows of none."
        report(CollectionFault(FaultKind.ORIGINAL, filename, offset, text))
    query = (
        "SELECT c.filename, max(c.offset + c.length), f.indexed_to FROM seen.captures AS c"
        " LEFT JOIN seen.files AS f USING (filename) GROUP BY c.filename"
        " HAVING max(c.offset + c.length) > coalesce(f.indexed_to, 0)"
    )
    for filename, end, covered in database.execute(query):
        text = f"The index has a record up to {end:,}, and covers the file up to {covered or 0:,}."
        report(CollectionFault(FaultKind.ROW, filename, covered, text))
    query = (
        "SELECT filename, max(offset + length) FROM reference"
        " JOIN seen.files AS f USING (filename) GROUP BY filename"
        " HAVING max(offset + length) > f.indexed_to"
    )
    for filename, end in database.execute(query):
        text = f"Something refers to a record up to {end:,}, which the index does not cover."
        report(CollectionFault(FaultKind.PAYLOAD, filename, end, text))
