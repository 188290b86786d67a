"""Verification of a whole collection: WARCs, checksums and index (docs/decisions/008-verify.md).

Files being written are checked as far as the index covers them. The index is read in one transaction, so a crawl may
continue meanwhile.
"""

import multiprocessing
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from core.config.settings import IndexSettings
from core.errors import UnavailableError
from core.json_values import json_facts
from core.layout import OPEN_SUFFIX, Layout
from warc.checksums import ChecksumList, chain_problems, read_chain, read_sums
from warc.file_check import CollectionFault, FileCheckReport, FileCheckTask, check_file, find_warc
from warc.file_reader import FaultKind
from warc.index.database import SCHEMA_VERSION
from warc.index.postgres import is_indexed, take_snapshot
from warc.local_storage import ScratchKind, WarcPath, closed_warcs, open_warcs, scratch_folder
from warc.object_storage import check_bucket
from warc.recovery import os_error_text

ReportFault = Callable[[FaultKind, str, int | None, str], None]  # kind, file, offset, sentence


def index_uri(path: Path, *, live: bool) -> str:
    """Return the SQLite URI that opens the index without changing its folder."""
    wal = Path(f"{path}-wal")
    is_at_rest = not (live or (wal.exists() and wal.stat().st_size))
    # At rest not even the files that readers share are made.
    return f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_at_rest else ''}"


def index_problem(path: Path, *, quick: bool, live: bool) -> str:
    """Return why the index is unusable, or ""; `quick`: no check of its pages, `live`: it is being written."""
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
    """Open the index, and build in `scratch` a table of references to records, in file order."""
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


def is_known(path: Path, filename: str) -> bool:
    """Return whether the index contains the file by now."""
    with closing(sqlite3.connect(index_uri(path, live=True), uri=True)) as index:
        return index.execute("SELECT 1 FROM files WHERE filename = ?", (filename,)).fetchone() is not None


class IndexCheck:
    """Checks of the folder, SHA256SUMS and an index, opened by `open_references`, against each other."""

    def __init__(self, layout: Layout, sums: ChecksumList, report: ReportFault, *, live: bool) -> None:
        """Store the sources to compare; with `live` a process is writing the collection."""
        self._layout = layout
        self._sums = sums
        self._report = report
        self._live = live

    def files(self, database: sqlite3.Connection, known_now: Callable[[str], bool]) -> None:
        """Compare the folder, `files` and SHA256SUMS; `known_now`: the live index contains a file."""
        rows = database.execute("SELECT filename, indexed_to, size, sha256 FROM seen.files")
        known = {row[0]: row for row in rows}
        for filename in sorted(known):
            self._known_file(*known[filename])
        for path in closed_warcs(self._layout):
            if path.name not in known and not (self._live and known_now(path.name)):
                self._report(FaultKind.UNKNOWN, path.name, None, "The index does not contain this WARC.")

    def _known_file(self, filename: str, indexed_to: int, noted: int | None, sha256: str | None) -> None:
        """Compare a file with its row: the bytes indexed and, of a closed one, its `noted` size and its checksum."""
        try:
            path, is_open = find_warc(self._layout, filename)
            size = path.stat().st_size
        except OSError:
            if filename not in self._sums.by_name:  # else it is reported with its line
                self._report(FaultKind.MISSING, filename, None, "The index contains this WARC; the file is missing.")
            return
        wanted = max(indexed_to, noted or 0)
        if size < wanted:
            lost = f"It is {wanted - size:,} bytes shorter than it was ({size:,}, not {wanted:,})."
            self._report(FaultKind.SIZE, filename, size, lost)
        elif not is_open and not self._live and size > indexed_to and noted in (None, size):
            text = f"The index covers it up to {indexed_to:,}; it has {size:,} bytes."
            self._report(FaultKind.NO_ROW, filename, indexed_to, text)
        elif noted is not None and size > noted:
            text = f"It is {size - noted:,} bytes longer than when it was closed."
            self._report(FaultKind.SIZE, filename, noted, text)
        line = self._sums.by_name.get(filename)
        if sha256 is not None and line is not None and sha256 != line:
            text = f"SHA256SUMS says {line}, the index {sha256}: one of them was changed."
            self._report(FaultKind.CHECKSUM, filename, None, text)

    def sums(self) -> None:
        """Compare SHA256SUMS with the folder: a line for each closed WARC, a WARC for each line."""
        for number in self._sums.bad:
            text = f"Line {number} is not a checksum, or contradicts an earlier one."
            self._report(FaultKind.BAD_LINE, self._layout.checksums.name, None, text)
        with suppress(OSError):  # an unreadable list is reported already; a writer extends it before the chain
            for text in chain_problems(read_chain(self._layout), read_sums(self._layout)):
                self._report(FaultKind.CHAIN, self._layout.checksum_chain.name, None, text)
        for path in closed_warcs(self._layout):
            if path.name not in self._sums.by_name:
                fault = (FaultKind.NO_CHECKSUM, path.name, None, "SHA256SUMS has no line for it.")
                if self._live:
                    fault = (FaultKind.PENDING, path.name, None, "It was just closed; its checksum is being computed.")
                self._report(*fault)
        for filename in sorted(self._sums.by_name):
            if not WarcPath(self._layout.archive / filename).is_file():
                self._report(FaultKind.MISSING, filename, None, "SHA256SUMS names this file; it is missing.")

    def unfinished(self) -> None:
        """Report files that were interrupted, are being written, or were set aside."""
        for path in open_warcs(self._layout):
            name = path.name.removesuffix(OPEN_SUFFIX)
            if self._live:
                self._report(FaultKind.OPEN, name, None, "It is being written: checked as far as indexed.")
            else:
                text = "It was interrupted, and is not yet repaired: checked as far as indexed."
                self._report(FaultKind.INTERRUPTED, name, None, text)
        with suppress(FileNotFoundError):
            for path in sorted(self._layout.damaged.iterdir()):
                text = f"{path.lstat().st_size:,} bytes that recovery could not use."
                name = f"{self._layout.damaged.name}/{path.name}"
                self._report(FaultKind.SET_ASIDE, name, None, text)

    def rows(self, database: sqlite3.Connection) -> None:
        """Find rows without a file, and pages without their manifest."""
        query = (
            "SELECT filename, count(*) FROM seen.captures"
            " WHERE filename NOT IN (SELECT filename FROM seen.files) GROUP BY filename"
        )
        for filename, count in database.execute(query):
            if not any(WarcPath(path).exists() for path in self._layout.warc(filename)):
                text = f"{count} rows of the index are of this file, which is missing."
                self._report(FaultKind.MISSING, filename, None, text)
        query = (
            "SELECT page_id, url FROM seen.pages AS p WHERE NOT EXISTS (SELECT 1 FROM seen.captures"
            " WHERE page_id = p.page_id AND url LIKE 'urn:pageinfo:%')"
        )
        for page_id, url in database.execute(query):
            self._report(FaultKind.ROW, "", None, f"The page {url} ({page_id}) has no manifest.")

    def missing_files(self, database: sqlite3.Connection) -> None:
        """Find references to files that are not here, except another machine's payloads, which have no row here."""
        query = (
            "SELECT filename, offset, content, times, url, EXISTS ("
            " SELECT 1 FROM seen.payloads WHERE spelled = reference.spelled) OR EXISTS ("
            " SELECT 1 FROM seen.files WHERE files.filename = reference.filename)"
            " FROM reference WHERE filename NOT IN (SELECT value FROM json_each(?))"
        )
        # In this order none is missed.
        here = (*open_warcs(self._layout), *closed_warcs(self._layout))
        names = "[" + ",".join(f'"{path.name.removesuffix(OPEN_SUFFIX)}"' for path in here) + "]"
        for filename, offset, content, times, url, is_own in database.execute(query, (names,)):
            if content:
                text = f"Dedup refers to {content} here; this file is missing."
                self._report(FaultKind.PAYLOAD, filename, offset, text)
                continue
            many = f"{times} revisits, as of {url}," if times > 1 else f"The revisit of {url}"
            if is_own or filename in self._sums.by_name:
                text = f"{many} cannot be played back: the payload's file is not here."
                self._report(FaultKind.ORIGINAL, filename, offset, text)
            else:
                text = f"{many} has its payload in another collection's file."
                self._report(FaultKind.ELSEWHERE, filename, offset, text)

    def references(self, database: sqlite3.Connection) -> None:
        """Check the index's own references without reading WARCs (for `--quick`)."""
        for kind, text, query in _REFERENCES:
            for filename, offset, *values in database.execute(query):
                self._report(kind, filename, offset, text.format(*values))


# Of each query: the kind of fault, its text, and its file, offset and text arguments.
_REFERENCES = (
    (
        FaultKind.ORIGINAL,
        "The revisit of {} has no payload location.",
        "SELECT filename, offset, url FROM seen.captures WHERE record_type = 'revisit' AND orig_filename IS NULL",
    ),
    (
        FaultKind.ORIGINAL,
        "The revisit of {} refers to a payload here; the index has none.",
        "SELECT r.filename, r.offset, r.url FROM reference AS r"
        " LEFT JOIN seen.captures AS c ON c.filename = r.filename AND c.offset = r.offset"
        " LEFT JOIN seen.payloads AS p ON p.spelled = r.spelled"
        "  AND p.filename = r.filename AND p.offset = r.offset"
        " WHERE r.content = '' AND r.filename IN (SELECT filename FROM seen.files)"
        " AND p.digest IS NULL AND (c.record_type IS NOT 'response' OR c.digest != r.spelled)",
    ),
    (
        FaultKind.ROW,
        "The index has a record up to {:,}, and covers the file up to {:,}.",
        "SELECT c.filename, f.indexed_to, max(c.offset + c.length), coalesce(f.indexed_to, 0)"
        " FROM seen.captures AS c LEFT JOIN seen.files AS f USING (filename) GROUP BY c.filename"
        " HAVING max(c.offset + c.length) > coalesce(f.indexed_to, 0)",
    ),
    (
        FaultKind.PAYLOAD,
        "Something refers to a record up to {:,}, which the index does not cover.",
        "SELECT filename, max(offset + length), max(offset + length) FROM reference"
        " JOIN seen.files AS f USING (filename) GROUP BY filename"
        " HAVING max(offset + length) > f.indexed_to",
    ),
)


SINGLE_PROCESS_BYTES = 16 << 20  # fewer are checked sooner than other processes are started


@dataclass(slots=True)
class VerificationResult:
    """Result of a verification."""

    files: int = 0
    size: int = 0  # their total bytes
    records: int = 0  # number of records read; 0 for a quick check
    rows: int = 0  # number of index rows compared with their records
    faults: list[CollectionFault] = field(default_factory=list)  # in the order of files and offsets
    notes: list[CollectionFault] = field(default_factory=list)  # informational findings
    more: int = 0  # number of faults over the limit, which are not listed
    chain_head: str = ""  # last link of SHA256SUMS.chain; empty without one

    @property
    def is_sound(self) -> bool:
        """Return whether there are no faults."""
        return not self.faults and not self.more

    def add(self, kind: FaultKind, filename: str, offset: int | None, text: str) -> None:
        """Add a fault, or a note."""
        fault = CollectionFault(kind, filename, offset, text)
        (self.notes if fault.is_note else self.faults).append(fault)

    def check_link(self, layout: Layout, link: str) -> None:
        """Note the last link of SHA256SUMS.chain, and check that it has a link that is known; empty: none is."""
        chain = read_chain(layout)
        self.chain_head = chain.head if chain.size else ""
        if link and link not in chain.links:
            text = f"It has no link {link[:64]}: earlier lines were changed or removed."
            self.add(FaultKind.CHAIN, layout.checksum_chain.name, None, text)

    def take(self, report: FileCheckReport) -> None:
        """Add the result of one file."""
        self.size += report.size
        self.records += report.records
        self.rows += report.rows
        self.more += report.more
        for each in report.faults:
            self.add(each.kind, each.filename, each.offset, each.text)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        named = {"sound": "is_sound", "bytes": "size", "faults_not_shown": "more"}
        findings = {kind: [each.to_dict() for each in getattr(self, kind)] for kind in ("faults", "notes")}
        return {**json_facts(self, "files records rows chain_head", **named), **findings}


def verify_collection(
    layout: Layout,
    *,
    quick: bool = False,
    live: bool = False,
    jobs: int = 1,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    index: IndexSettings | None = None,
) -> VerificationResult:
    """Check the collection; `quick`: sizes and index only; `live`: a process is writing it.

    `progress`: (bytes done, total). Raises IndexUnavailableError for a shared index, TransientError or UnavailableError:
    WARCs cannot be read from the bucket, UnavailableError: a reader died.
    """
    if not quick:
        check_bucket(layout.root)
    verdict = VerificationResult()
    with scratch_folder(ScratchKind.VERIFY) as folder:
        scratch = folder / "references.sqlite"
        # The collection's own index, or a snapshot of the shared one.
        captures_db, known_now = layout.captures_db, partial(is_known, layout.captures_db)
        if index is not None and index.url:
            captures_db, known_now = folder / "captures.sqlite", partial(is_indexed, index.url)
            take_snapshot(index.url, captures_db)
        why = index_problem(captures_db, quick=quick, live=live)
        try:
            sums = read_sums(layout)
        except OSError as error:
            text = f"It cannot be read: {os_error_text(error)}."
            verdict.add(FaultKind.UNREADABLE, layout.checksums.name, None, text)
            sums = ChecksumList()
        check = IndexCheck(layout, sums, verdict.add, live=live)
        if not why:
            try:
                with open_references(captures_db, scratch, live=live) as database:
                    check.files(database, known_now)
                    check.missing_files(database)
                    check.rows(database)
                    if quick:
                        check.references(database)
            except sqlite3.DatabaseError as error:
                why = f"The index cannot be read: {error}."
        if why:
            verdict.add(FaultKind.INDEX, "", None, why)
        # Open ones first: one that is closed meanwhile is then seen twice, and not missed.
        paths = (*open_warcs(layout), *closed_warcs(layout))
        filenames = list(dict.fromkeys(path.name.removesuffix(OPEN_SUFFIX) for path in paths))
        verdict.files = len(filenames)
        check.sums()
        check.unfinished()
        if quick:
            verdict.size = sum(_size(layout, filename) for filename in filenames)
        else:
            uri = "" if why else index_uri(captures_db, live=live)
            tasks = [
                FileCheckTask(layout.root, filename, sums.by_name.get(filename, ""), uri, scratch)
                for filename in filenames
            ]
            sizes = {task.filename: _size(layout, task.filename) for task in tasks}
            tasks.sort(key=lambda task: -sizes[task.filename])
            done, total = 0, sum(sizes.values())
            for report in _reports(tasks, 1 if total < SINGLE_PROCESS_BYTES else min(jobs, len(tasks))):
                verdict.take(report)
                done += sizes[report.filename]
                progress(done, total)
    if not quick and any(each.kind is FaultKind.UNREADABLE for each in verdict.faults):
        check_bucket(layout.root)
    verdict.faults.sort(key=lambda each: (each.filename, each.offset or 0))
    return verdict


def _reports(tasks: list[FileCheckTask], jobs: int) -> Iterator[FileCheckReport]:
    if jobs < 2:
        yield from map(check_file, tasks)
        return
    # A fork starts at once, but must not happen while other threads may hold locks.
    context = multiprocessing.get_context("fork" if threading.active_count() == 1 else "spawn")
    # The parent process handles Ctrl-C.
    ignore_interrupts = (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(jobs, context, initializer=signal.signal, initargs=ignore_interrupts) as pool:
        try:
            for future in as_completed([pool.submit(check_file, task) for task in tasks]):
                yield future.result()
        except BrokenProcessPool as error:
            raise UnavailableError(
                "A process that read WARCs was killed: free some memory, or use --jobs 1."
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _size(layout: Layout, filename: str) -> int:
    try:
        return find_warc(layout, filename)[0].stat().st_size
    except OSError:
        return 0  # it is reported when it is read
