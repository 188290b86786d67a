"""Verification of a whole collection: WARCs, checksums and index.

Checked are: every closed WARC against its checksum; every record, as `warcio check` does, and that
it is one gzip member; every index row against its record; every payload and every revisit's
original against the `response` that holds it; and that no file is unknown, missing or without
checksum. Files being written are checked as far as the index covers them, which is the acknowledged
part (docs/decisions/008-verify.md).
"""

import multiprocessing
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from core.config.settings import IndexSettings
from core.errors import UnavailableError
from core.layout import Layout
from warc.checksums import ChecksumList, read_sums
from warc.file_check import (
    CollectionFault,
    FaultKind,
    FileCheckReport,
    FileCheckTask,
    check_file,
    final_name,
    find_warc,
)
from warc.index.postgres import is_indexed, take_snapshot
from warc.index_check import IndexCheck, index_problem, index_uri, is_known, open_references
from warc.local_storage import ScratchKind, closed_warcs, open_warcs, scratch_folder
from warc.recovery import os_error_text

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

    @property
    def is_sound(self) -> bool:
        """Return whether there are no faults."""
        return not self.faults and not self.more

    def add(self, kind: FaultKind, filename: str, offset: int | None, text: str) -> None:
        """Add a fault, or a note."""
        fault = CollectionFault(kind, filename, offset, text)
        (self.notes if fault.is_note else self.faults).append(fault)

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
        return {
            "sound": self.is_sound,
            "files": self.files,
            "bytes": self.size,
            "records": self.records,
            "rows": self.rows,
            "faults": [each.to_dict() for each in self.faults],
            "faults_not_shown": self.more,
            "notes": [each.to_dict() for each in self.notes],
        }


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

    `progress` is called with (bytes done, total bytes). Raises IndexUnavailableError for an index of
    several machines; UnavailableError if a reading process was killed.
    """
    verdict = VerificationResult()
    with scratch_folder(ScratchKind.VERIFY) as folder:
        scratch = folder / "references.sqlite"
        # The collection's own index, or a snapshot of the shared one.
        seen, known_now = layout.captures_db, partial(is_known, layout.captures_db)
        if index is not None and index.url:
            seen, known_now = folder / "captures.sqlite", partial(is_indexed, index.url)
            take_snapshot(index.url, seen)
        why = index_problem(seen, quick=quick, live=live)
        try:
            sums = read_sums(layout)
        except OSError as error:
            text = f"It cannot be read: {os_error_text(error)}."
            verdict.add(FaultKind.UNREADABLE, layout.checksums.name, None, text)
            sums = ChecksumList()
        check = IndexCheck(layout, sums, verdict.add, live=live)
        if not why:
            try:
                with open_references(seen, scratch, live=live) as database:
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
        filenames = list(dict.fromkeys(final_name(path) for path in paths))
        verdict.files = len(filenames)
        check.sums()
        check.unfinished()
        if quick:
            verdict.size = sum(_size(layout, filename) for filename in filenames)
        else:
            uri = "" if why else index_uri(seen, live=live)
            tasks = [
                FileCheckTask(layout.root, filename, sums.by_name.get(filename, ""), uri, scratch)
                for filename in filenames
            ]
            # Read every file, several at the same time, the largest first.
            sizes = {task.filename: _size(layout, task.filename) for task in tasks}
            tasks.sort(key=lambda task: -sizes[task.filename])
            done, total = 0, sum(sizes.values())
            for report in _reports(
                tasks, 1 if total < SINGLE_PROCESS_BYTES else min(jobs, len(tasks))
            ):
                verdict.take(report)
                done += sizes[report.filename]
                progress(done, total)
    verdict.faults.sort(key=lambda each: (each.filename, each.offset or 0))
    return verdict


def _reports(tasks: list[FileCheckTask], jobs: int) -> Iterator[FileCheckReport]:
    if jobs < 2:
        yield from map(check_file, tasks)
        return
    # A fork starts at once, but must not happen while other threads hold who knows what.
    context = multiprocessing.get_context("fork" if threading.active_count() == 1 else "spawn")
    # The parent process handles Ctrl-C.
    ignore_interrupts = (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(
        jobs, context, initializer=signal.signal, initargs=ignore_interrupts
    ) as pool:
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
