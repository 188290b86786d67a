"""Check of one WARC against its checksum, digests and index rows, read-only in a process of its own."""

import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from core.captures import IMPORT_PREFIX
from core.errors import InputError
from core.json_values import json_facts
from core.layout import Layout
from core.page_manifest import VisitOutcome
from core.timestamps import parse_warc_date, unix_milliseconds
from warc.file_reader import REPLAYED, DamagedSpan, FaultKind, FileDigest, Reading, WarcMember, walk_records
from warc.index.indexer import indexed_page_id
from warc.local_storage import WarcPath

_RESTORE = "Restore the file from a copy, then run `weboid collection rebuild`."
_REBUILD = "Run `weboid collection rebuild`."


NOTE_KINDS = frozenset({FaultKind(name) for name in ("interrupted", "open", "pending", "set-aside", "elsewhere")})
# Files whose content changed after closing, and wrong index rows.
_CHANGED = ("checksum", "size", "gzip", "warc", "length", "block-digest", "payload-digest")
_MISINDEXED = ("unknown", "row", "no-row", "payload", "index")

_REMEDIES = {
    **dict.fromkeys(map(FaultKind, _CHANGED), _RESTORE),
    **dict.fromkeys(map(FaultKind, _MISINDEXED), _REBUILD),
    FaultKind.UNREADABLE: "Check the disk and the file's permissions, or restore it from a copy.",
    FaultKind.MISSING: "Restore the file from a copy; if it is lost, remove its line from SHA256SUMS and "
    "run `weboid collection rebuild`.",
    FaultKind.NO_CHECKSUM: "The next `weboid archive` writes the line, or `weboid collection rebuild`.",
    FaultKind.BAD_LINE: "Restore archive/SHA256SUMS from a copy, or run `weboid collection rebuild`, which "
    "drops such lines.",
    FaultKind.CHAIN: "Compare archive/SHA256SUMS and SHA256SUMS.chain with earlier copies; restore what was changed.",
    FaultKind.ORIGINAL: "Run `weboid collection rebuild`; if the fault remains, the payload is lost: restore the WARC "
    "that held it from a copy, or archive the page again.",
    FaultKind.INTERRUPTED: "The next `weboid archive` repairs it.",
    FaultKind.SET_ASIDE: "Nothing reads it. Check whether it is needed, or remove it.",
    FaultKind.ELSEWHERE: "Run `weboid verify` where that file is.",
}


@dataclass(frozen=True, slots=True)
class CollectionFault:
    """One fault or note."""

    kind: FaultKind
    filename: str  # the WARC's final name, or another affected file; empty for the index
    offset: int | None  # position in the file; None when the whole file is concerned
    text: str  # description, one sentence

    @property
    def remedy(self) -> str:
        """Return the recommended action; empty when there is none."""
        return _REMEDIES.get(self.kind, "")

    @property
    def is_note(self) -> bool:
        """Return whether it is a note, not a fault."""
        return self.kind in NOTE_KINDS

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return json_facts(self, "kind offset text remedy", file="filename")


FAULTS_SHOWN = 100  # of one file; the rest is counted


class FileCheckTask(NamedTuple):
    """One file to check."""

    root: Path
    filename: str  # the file's final name
    sha256: str  # its checksum in SHA256SUMS
    index_uri: str  # the URI of the captures index; empty when it cannot be used
    references: Path  # the database of references to records


@dataclass(slots=True)
class FileCheckReport:
    """Result of checking a file; `more` counts faults beyond the limit."""

    filename: str
    size: int = 0
    records: int = 0
    rows: int = 0
    faults: list[CollectionFault] = field(default_factory=list)
    more: int = 0

    def add(self, kind: FaultKind, offset: int | None, text: str) -> None:
        """Add a fault."""
        if len(self.faults) < FAULTS_SHOWN:
            self.faults.append(CollectionFault(kind, self.filename, offset, text))
        else:
            self.more += 1


class IndexedRow(NamedTuple):
    """Index row of a record."""

    offset: int
    length: int
    url: str
    record_type: str
    captured_ms: int
    digest: str
    status: int | None
    page_id: str | None
    truncated: str | None
    orig_filename: str | None


class PayloadReference(NamedTuple):
    """References to a record, by revisits or by a payload's row."""

    offset: int
    length: int
    spelled: str  # the record's WARC-Payload-Digest
    content: str  # the digest of its payload without chunks; empty for revisits
    times: int  # number of such references
    url: str  # one referring URL


def check_file(task: FileCheckTask) -> FileCheckReport:
    """Check one file."""
    report = FileCheckReport(task.filename)
    try:
        try:
            _FileCheck(task, report).run()
        except FileNotFoundError:  # it may have been closed while we looked: then it is there now
            report = FileCheckReport(task.filename)
            _FileCheck(task, report).run()
    except OSError as error:
        report.add(FaultKind.UNREADABLE, None, f"It cannot be read: {error.strerror or error}.")
    except sqlite3.Error as error:
        report.add(FaultKind.INDEX, None, f"The index cannot be read: {error}.")
    return report


class _FileCheck:
    def __init__(self, task: FileCheckTask, report: FileCheckReport) -> None:
        self._task = task
        self._report = report
        self._rows: dict[int, IndexedRow] = {}
        self._references: dict[int, list[PayloadReference]] = defaultdict(list)
        self._index: sqlite3.Connection | None = None

    def run(self) -> None:
        task, report = self._task, self._report
        path, is_open = find_warc(Layout(task.root), task.filename)
        with closing(sqlite3.connect(task.index_uri or ":memory:", uri=True)) as index:
            covered = None
            if task.index_uri:
                self._index = index
                covered = self._load(index)
            whole = None if is_open or not task.sha256 else FileDigest()
            report.size = path.stat().st_size
            end = covered if is_open else None
            reading = Reading.FOREIGN if task.filename.startswith(IMPORT_PREFIX) else Reading.DIGESTS
            for each in walk_records(path, end=end, reading=reading, whole=whole):
                if isinstance(each, WarcMember):
                    self._member(each)
                else:
                    self._damage(each)
            end = report.size if end is None else end
            for offset, row in sorted(self._rows.items()):
                where = "no record begins here" if offset < end else f"the file ends at {end}"
                report.add(FaultKind.ROW, offset, f"The {row.record_type} of {row.url} is not here: {where}.")
            for offset, references in sorted(self._references.items()):
                for reference in references:
                    self._refers_wrongly(offset, reference, "no record")
        if whole is not None and whole.finish(path) != task.sha256:
            report.add(FaultKind.CHECKSUM, None, "Its content has changed since it was closed (SHA256SUMS).")

    def _load(self, index: sqlite3.Connection) -> int:
        """Load the file's index rows in one transaction; return how many bytes the index covers."""
        name = (self._task.filename,)
        index.execute("BEGIN")
        covered = index.execute("SELECT indexed_to FROM files WHERE filename = ?", name).fetchone()
        rows = index.execute(
            f"SELECT {', '.join(IndexedRow._fields)} FROM captures WHERE filename = ?",  # noqa: S608 constants
            name,
        )
        self._rows = {row[0]: IndexedRow(*row) for row in rows}
        index.execute("COMMIT")
        self._report.rows = len(self._rows)
        with closing(sqlite3.connect(self._task.references)) as database:
            references = database.execute(
                f"SELECT {', '.join(PayloadReference._fields)} FROM reference WHERE filename = ?",  # noqa: S608 constants
                name,
            )
            for each in references:
                self._references[each[0]].append(PayloadReference(*each))
        return int(covered[0]) if covered else 0

    def _member(self, member: WarcMember) -> None:
        self._report.records += 1
        for problem, text in member.problems:
            subject = f" ({member.kind} of {member.url})" if member.url else ""
            self._report.add(problem, member.offset, f"{text}{subject}")
        if self._index is None:
            return
        if (row := self._rows.pop(member.offset, None)) is not None:
            self._compare(member, row)
        elif member.kind in REPLAYED and not member.problems and not self._explained(member):
            self._report.add(FaultKind.NO_ROW, member.offset, f"The {member.kind} of {member.url} is not in the index.")
        for reference in self._references.pop(member.offset, ()):
            wrong = ""
            spelled = member.headers.get("warc-payload-digest", "")
            if member.kind != "response":
                wrong = f"a {member.kind}, not a response"
            elif spelled != reference.spelled:
                wrong = f"a response with another payload, {spelled or 'of no digest'}"
            elif member.length != reference.length:
                wrong = f"{member.length} bytes long, not {reference.length}"
            elif reference.content and member.content != reference.content:
                wrong = "a response whose payload without its chunks has another digest"
            if wrong:
                self._refers_wrongly(member.offset, reference, wrong)

    def _compare(self, member: WarcMember, row: IndexedRow) -> None:
        headers = member.headers
        pairs: tuple[tuple[str, object, object], ...] = (
            ("URL", member.url, row.url),
            ("type", member.kind, row.record_type),
            ("date", _ms(headers.get("warc-date", "")), row.captured_ms),
            ("length", member.length, row.length),
            ("digest", headers.get("warc-payload-digest") or "-", row.digest or "-"),
            ("status", member.status, row.status),
            ("page", indexed_page_id(member, self._task.filename), row.page_id),
        )
        if member.kind != "revisit":  # one always lacks its payload (WARC/1.1, 6.7.2)
            pairs += (("truncation", headers.get("warc-truncated"), row.truncated),)
        for name, recorded, indexed in pairs:
            if recorded != indexed:
                text = f"The record's {name} is {recorded}, its row says {indexed} ({row.url})."
                self._report.add(FaultKind.ROW, member.offset, text)
        if row.record_type == "revisit" and row.orig_filename is None:
            text = f"The revisit of {row.url} has no payload location ({row.digest})."
            self._report.add(FaultKind.ORIGINAL, member.offset, text)

    def _refers_wrongly(self, offset: int, reference: PayloadReference, wrong: str) -> None:
        if reference.content:
            self._report.add(FaultKind.PAYLOAD, offset, f"Dedup refers to {reference.content} here; this is {wrong}.")
        else:
            revisits = f"The revisit of {reference.url} refers"
            if reference.times != 1:
                revisits = f"{reference.times} revisits, as of {reference.url}, refer"
            self._report.add(FaultKind.ORIGINAL, offset, f"{revisits} to a payload here; this is {wrong}.")

    def _explained(self, member: WarcMember) -> bool:
        """Return True if the record needs no row: it is not replayable, or `CaptureIndex.add_page` removed its row."""
        if member.status == 304:
            return True
        page_id, at = indexed_page_id(member, self._task.filename), _ms(member.headers.get("warc-date", ""))
        if page_id is None or at is None or self._index is None:
            return False
        page = self._index.execute("SELECT captured_ms, outcome FROM pages WHERE page_id = ?", (page_id,)).fetchone()
        return page is not None and (at < page[0] or page[1] == VisitOutcome.SKIPPED)

    def _damage(self, damage: DamagedSpan) -> None:
        """Report the damaged span and the rows lost with it, once."""
        inside = [at for at in self._rows if damage.offset <= at < damage.end]
        lost = [self._rows.pop(at).url for at in sorted(inside)]
        text = damage.text
        if lost:
            more = f" and {len(lost) - 1} more captures" if len(lost) > 1 else ""
            text += f" This was {lost[0]}{more}."
        referred = [at for at in self._references if damage.offset <= at < damage.end]
        count = sum(each.times for at in referred for each in self._references.pop(at) if not each.content)
        if count:
            text += f" {count} revisits need it."
        if damage.end > damage.offset:
            text += f" {damage.end - damage.offset} bytes are not a record."
        self._report.add(damage.problem, damage.offset, text)


def find_warc(layout: Layout, filename: str) -> tuple[Path, bool]:
    """Return the WARC's current path, and whether it is open, or raise FileNotFoundError."""
    local, still_open = layout.warc(filename)
    closed = WarcPath(local)
    if not closed.exists() and still_open.exists():
        return still_open, True
    closed.stat()  # it may have been closed between the two
    return closed, False


def _ms(date: str) -> int | None:
    try:
        return unix_milliseconds(parse_warc_date(date))
    except InputError:
        return None
