"""Export of captures of a collection as WACZ, WARC or CDXJ: what readers may see, streamed, in constant memory.

WARCs of which everything is exported are copied byte by byte; of others the members of the records that were chosen.
A plan of all records, in a database next to the file, stays after an interruption: the same export then continues
behind the last whole WARC, unless something was taken down, or erased, since. Records that a page took from the
browser's cache, and payloads that revisits refer to, are exported with it, wherever they are.
"""

import errno
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from core.errors import BadUrlError, InputError, PermanentError, is_disk_full
from core.layout import OPEN_SUFFIX, Layout
from core.timestamps import parse_warc_date, timestamp14_at, unix_milliseconds, warc_date, warc_date_at
from core.url_keys import replay_key
from playback.access.control import PAGE_FACTS, AccessControl, page_facts
from playback.replay.capture_lookup import capture_of
from warc.artifact_reader import ArtifactReader, RecordPlace, read_manifest
from warc.checksums import read_chain, sha256_of
from warc.file_reader import Reading, WarcMember, walk_records
from warc.index.database import IndexDatabase, in_lists, key_values
from warc.index.queries import ALL_KEYS, KeyRange, matching_keys, page_chunks
from warc.local_storage import WarcPath, replace_file
from warc.record_builder import warcinfo_member
from warc.wacz_writer import CombinedWarcWriter, ExportFile, WaczWriter

_CHUNK_BYTES = 1 << 20
_PAGE_CHUNK = 200
_ROW_CHUNK = 5_000
_SHOWN = "outcome IN ('complete', 'partial')"
_RECORDS = (
    'SELECT id, url, urlkey, captured_ms, record_type, mime, status, digest, filename, "offset", length,'
    " orig_filename, orig_offset, orig_length, page_id, truncated, login FROM captures"
)
_PLAN = """
CREATE TABLE records (filename TEXT, start INTEGER, length INTEGER, urlkey TEXT, timestamp TEXT, facts TEXT,
    page_id TEXT, placed INTEGER, PRIMARY KEY (filename, start)) WITHOUT ROWID;
CREATE TABLE pages (urlkey TEXT, captured_ms INTEGER, page_id TEXT, facts TEXT,
    PRIMARY KEY (urlkey, captured_ms, page_id)) WITHOUT ROWID;
CREATE TABLE warcs (filename TEXT UNIQUE, inode INTEGER, part INTEGER, entry TEXT);
CREATE TABLE parts (number INTEGER PRIMARY KEY);
CREATE TABLE about (request TEXT, moment TEXT, counts TEXT)
"""
_TABLES = ("records", "pages", "warcs", "parts", "about")
_PROGRESS = "SELECT 1 FROM warcs WHERE entry IS NOT NULL UNION SELECT 1 FROM parts"
_ADD_RECORD = "INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?, ?, ?, ?, NULL)"


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """Pages to export; without anything set, the whole collection."""

    keys: Sequence[KeyRange] = ()  # of URLs and hosts
    page_ids: Callable[[], Iterable[Sequence[str]]] | None = None  # of further pages, in batches
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_everything(self) -> bool:
        """Return whether no page is left out."""
        return not self.keys and self.page_ids is None and self.since is None and self.until is None


class ExportForm(StrEnum):
    """Form of an export."""

    WACZ = "wacz"
    WARC = "warc"  # the records of all WARCs in one
    CDXJ = "cdxj"  # the index alone, with the WARCs' own names and offsets


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """Export of a collection to a file, or to numbered files of a limited size."""

    path: Path
    selection: ExportSelection
    facts: Mapping[str, Any]  # of the package, such as ``title``
    moment: datetime
    form: ExportForm = ExportForm.WACZ
    has_text: bool = True
    replaces: bool = False  # existing files
    size_limit: int = 0  # bytes of WARCs in a file; a WARC is not divided; 0: no limit
    sign: Callable[[str], Mapping[str, str]] | None = None  # see `WaczWriter.finish`
    # The times as they were given, and the state of what may be shown: when one has changed, an interrupted export
    # starts again.
    state: Sequence[object] = ()

    def fingerprint(self, layout: Layout) -> str:
        """Return what an interrupted export has in common with one that continues it."""
        chosen = (layout.root.absolute(), self.selection.keys, self.state)
        options = (self.form, self.size_limit, self.has_text, dict(self.facts))
        return hashlib.sha256(repr((chosen, options)).encode()).hexdigest()


@dataclass(slots=True)
class ExportCount:
    """Numbers of what an export holds."""

    pages: int = 0
    records: int = 0
    warcs: int = 0
    stored_bytes: int = 0  # of its WARCs
    withheld_pages: int = 0  # taken down, with a threat, or made with a login
    withheld_records: int = 0
    missing_warcs: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)  # that were written
    is_resumed: bool = False  # an interrupted export was continued


def url_keys(text: str) -> KeyRange:
    """Return the keys of a URL, or of all that begin with it when it ends with ``*``; raises InputError."""
    try:
        keys = matching_keys(text.removesuffix("*"), "prefix" if text.endswith("*") else "exact")
    except BadUrlError as error:
        raise InputError(f"{text[:100]!r} is not a URL: {error}") from error
    if keys is None:
        raise InputError(f"{text[:100]!r} is not the address of a page.")
    return keys


class CollectionExport:
    """Export of one collection to one file."""

    def __init__(
        self,
        layout: Layout,
        database: IndexDatabase,
        access: AccessControl | None,  # None: withheld captures are exported, too
        on_bytes: Callable[[int], None] = lambda _count: None,
    ) -> None:
        self._layout = layout
        self._database = database
        self._access = access
        self._on_bytes = on_bytes
        self._artifacts = ArtifactReader(layout)
        self.has_everything = access is None  # withheld content, too
        # Whether nothing at all is withheld: then no record has to be looked up.
        self.is_open = access is None or (access.are_open() and not access.holds.any_threat())
        # Records of skipped pages are in WARCs, but not in the index.
        skipped = "SELECT 1 AS one FROM pages WHERE outcome = 'skipped' LIMIT 1"
        self._may_copy = self.is_open and not database.rows(skipped, {})
        self.count = ExportCount()

    def write(self, request: ExportRequest) -> ExportCount:
        """Write the requested files; InputError: there is nothing to export, or a file is in the way; or OSError."""
        plan_file = request.path.with_name(f".{request.path.name}.plan")
        try:
            with closing(sqlite3.connect(plan_file, isolation_level=None, timeout=0)) as plan:
                plan.execute("PRAGMA locking_mode = EXCLUSIVE")
                plan.execute("PRAGMA synchronous = OFF")
                plan.execute("BEGIN IMMEDIATE")
                is_kept = True
                try:
                    self._write_parts(plan, request)
                    is_kept = False
                except BaseException:
                    is_kept = _has_plan(plan) and plan.execute(_PROGRESS).fetchone() is not None
                    raise
                finally:
                    if not is_kept:  # SQLite leaves the journal of a killed attempt when it writes nothing more
                        for path in (plan_file, plan_file.with_name(f"{plan_file.name}-journal")):
                            path.unlink(missing_ok=True)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                raise InputError(f"{plan_file} is in use: another export writes {request.path.name}.") from error
            if is_disk_full(error):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise InputError(f"{plan_file} cannot be used: {error}. Remove it, or choose another folder.") from error
        return self.count

    def _write_parts(self, plan: sqlite3.Connection, request: ExportRequest) -> None:
        moment = self._resumed(plan, request) or self._planned_at(plan, request)
        (parts,) = plan.execute("SELECT max(part) FROM warcs").fetchone()
        stem, ending = _stem(request.path)
        names = [request.path.name] if parts == 1 else [f"{stem}-{number:05}{ending}" for number in range(1, parts + 1)]
        targets = {number: request.path.with_name(name) for number, name in enumerate(names, 1)}
        done = {number for (number,) in plan.execute("SELECT number FROM parts")}
        todo = {number: target for number, target in targets.items() if number not in done}
        for target in todo.values():
            if target.exists() and not request.replaces:
                raise InputError(f"{target} already exists: give --force to replace it.")
        for number, target in todo.items():
            self._write_part(plan, request, moment, number, target)
            plan.execute("INSERT INTO parts VALUES (?)", (number,))
            _commit(plan)
        self.count.files = list(targets.values())
        if parts > 1 and request.form is ExportForm.WACZ:
            self.count.files.append(_write_manifest(request, moment, self.count.files))

    def newest_page(self, selection: ExportSelection) -> tuple[str, str]:
        """Return id and URL of the newest page of a selection that readers may see; InputError: there is none."""
        shown = chain.from_iterable(map(self._shown_pages, self._chosen_pages(selection)))
        newest = max(
            ((row["captured_ms"], row["page_id"], row["final_url"] or row["url"]) for row in shown), default=None
        )
        if newest is None:
            raise InputError("Nothing to export: no page that may be shown matches.")
        return newest[1:]

    def _resumed(self, plan: sqlite3.Connection, request: ExportRequest) -> datetime | None:
        """Return the moment of an interrupted export of the same request, whose plan is used; else None."""
        row = plan.execute("SELECT request, moment, counts FROM about").fetchone() if _has_plan(plan) else None
        if row is None or row[0] != request.fingerprint(self._layout):
            return None
        for filename, inode in plan.execute("SELECT filename, inode FROM warcs").fetchall():
            status = self._status(filename)
            if status is None or status.st_ino != inode:  # an erasure writes a file again
                return None
        self.count = ExportCount(**json.loads(row[2]), is_resumed=True)
        return datetime.fromisoformat(row[1])

    def _planned_at(self, plan: sqlite3.Connection, request: ExportRequest) -> datetime:
        """Make the plan: pages, records, and the parts with their WARCs; return the moment of the export."""
        for name in _TABLES:
            plan.execute(f"DROP TABLE IF EXISTS {name}")
        for statement in _PLAN.split(";"):  # a script would end the transaction
            plan.execute(statement)
        self._choose(plan, request.selection)
        part, filled = 1, 0
        by_time = "SELECT filename, sum(length) FROM records GROUP BY filename ORDER BY min(timestamp), filename"
        for filename, planned in plan.execute(by_time).fetchall():
            status = self._status(filename)
            if status is None:
                self.count.missing_warcs.append(filename)
                plan.execute("DELETE FROM records WHERE filename = ?", (filename,))
                continue
            is_whole = request.selection.is_everything and self._may_copy
            size = status.st_size if is_whole else planned
            if request.size_limit and filled and filled + size > request.size_limit:
                part, filled = part + 1, 0
            filled += size
            plan.execute("INSERT INTO warcs VALUES (?, ?, ?, NULL)", (filename, status.st_ino, part))
        count = self.count
        count.pages, count.records = plan.execute(
            "SELECT (SELECT count(*) FROM pages), (SELECT count(*) FROM records)"
        ).fetchone()
        if not count.records:
            raise InputError("Nothing to export: no capture that may be shown matches.")
        names = ("pages", "records", "withheld_pages", "withheld_records", "missing_warcs")
        counts = json.dumps({name: getattr(count, name) for name in names})
        values = (request.fingerprint(self._layout), request.moment.isoformat(), counts)
        plan.execute("INSERT INTO about VALUES (?, ?, ?)", values)
        _commit(plan)
        return request.moment

    def _write_part(
        self, plan: sqlite3.Connection, request: ExportRequest, moment: datetime, number: int, target: Path
    ) -> None:
        if request.form is ExportForm.CDXJ:
            plan.execute("UPDATE records SET placed = start")
            with ExportFile(target) as file:
                file.write_lines(self._index_lines(plan, number))
                file.publish()
            return
        stored = plan.execute("SELECT filename, entry FROM warcs WHERE part = ? ORDER BY rowid", (number,)).fetchall()
        entries = [json.loads(entry) for _, entry in stored if entry]
        is_wacz, software = request.form is ExportForm.WACZ, f"weboid {version('weboid')}"
        with WaczWriter(target, moment, entries) if is_wacz else CombinedWarcWriter(target, entries) as writer:
            entry_names = {each["name"] for each in writer.entries}
            if isinstance(writer, CombinedWarcWriter) and not entry_names:
                names = {"isPartOf": "title", "description": "description"}
                facts = {field: str(request.facts.get(name, "")) for field, name in names.items()}
                writer.add("", [warcinfo_member(target.name, date=warc_date(moment), software=software, facts=facts)])
            for filename, _ in stored:
                if f"archive/{filename}" not in entry_names:
                    entry = self._write_warc(writer, plan, filename)
                    plan.execute("UPDATE warcs SET entry = ? WHERE filename = ?", (json.dumps(entry), filename))
                    _commit(plan)
                self.count.warcs += 1
            if isinstance(writer, WaczWriter):
                writer.add_index(self._index_lines(plan, number))
                pages = self._pages(plan, number, has_text=request.has_text)
                writer.add_pages(pages, has_text=request.has_text)
                sums = read_chain(self._layout)
                evidence = {"checksumChain": sums.head} if sums.size else {}
                writer.finish({"software": software, **request.facts, **evidence}, request.sign)
            else:
                writer.publish()

    def _places(self, filename: str) -> tuple[Path, ...]:
        """Return the paths at which a WARC may be, to be tried in this order: a crawl may close it meanwhile."""
        closed, opened = map(WarcPath, self._layout.warc(filename))
        return closed, opened, closed

    def _status(self, filename: str) -> os.stat_result | None:
        for path in self._places(filename):
            with suppress(FileNotFoundError):
                return path.stat()
        return None

    def _chosen_pages(self, selection: ExportSelection) -> Iterator[list[Any]]:
        """Yield the rows of the pages of a selection, in chunks."""
        columns = f"{PAGE_FACTS}, urlkey, captured_ms, title, status, mime"
        condition = _SHOWN
        for sign, moment in ((">=", selection.since), ("<", selection.until)):
            if moment is not None:
                condition += f" AND captured_ms {sign} {unix_milliseconds(moment)}"
        for keys in selection.keys or ((ALL_KEYS,) if selection.page_ids is None else ()):
            yield from page_chunks(self._database, condition, columns=columns, keys=keys, size=_PAGE_CHUNK)
        for marks, values in chain.from_iterable(map(in_lists, selection.page_ids() if selection.page_ids else ())):
            query = f"SELECT {columns} FROM pages WHERE page_id IN ({marks}) AND {condition}"  # noqa: S608 constants of ours
            yield list(self._database.rows(query, values))

    def _choose(self, plan: sqlite3.Connection, selection: ExportSelection) -> None:
        is_all = selection.is_everything and self.is_open
        for rows in self._chosen_pages(selection):
            shown = list(self._shown_pages(rows))
            plan.executemany("INSERT OR IGNORE INTO pages VALUES (?, ?, ?, ?)", map(_planned_page, shown))
            if not is_all:
                for marks, values in in_lists([row["page_id"] for row in shown]):
                    self._plan_rows(plan, self._database.rows(f"{_RECORDS} WHERE page_id IN ({marks})", values))
            if not selection.is_everything:
                for row in shown:
                    self._plan_cached(plan, row["page_id"])
        if is_all:  # also what belongs to no page
            query = f"{_RECORDS} WHERE id > :id ORDER BY id LIMIT {_ROW_CHUNK}"
            last = -1
            while rows := self._database.rows(query, {"id": last}):
                plan.executemany(_ADD_RECORD, map(_planned, rows))
                last = rows[-1]["id"]

    def _shown_pages(self, rows: Sequence[Any]) -> Iterator[Any]:
        if self._access is None:
            yield from rows
            return
        withheld = set(self._access.pages(map(page_facts, rows)))
        withheld |= set(self._access.threats([row["page_id"] for row in rows]))
        self.count.withheld_pages += len(withheld)
        yield from (row for row in rows if row["page_id"] not in withheld)

    def _plan_cached(self, plan: sqlite3.Connection, page_id: str) -> None:
        """Plan the records of earlier visits that hold what the page had from the browser's cache."""
        manifest = read_manifest(self._layout, self._database, page_id)
        for each in manifest.resources if manifest is not None else ():
            if not each.recorded_at:
                continue
            with suppress(InputError):
                moment = unix_milliseconds(parse_warc_date(each.recorded_at))
                values = {**key_values(replay_key(each.url)), "url": each.url, "ms": moment}
                query = f"{_RECORDS} WHERE {self._database.has_key} AND url = :url AND captured_ms = :ms"
                self._plan_rows(plan, self._database.rows(query, values))

    def _plan_rows(self, plan: sqlite3.Connection, rows: Iterable[Any]) -> None:
        """Plan the records of these rows and the originals of revisits, as far as readers may see them."""
        for row in rows:
            records = [row]
            if row["orig_filename"] is not None:
                place = {"name": row["orig_filename"], "start": row["orig_offset"]}
                records += self._database.rows(f'{_RECORDS} WHERE filename = :name AND "offset" = :start', place)
            if all(map(self._is_shown, records)):
                plan.executemany(_ADD_RECORD, map(_planned, records))
            else:
                self.count.withheld_records += 1

    def _is_shown(self, row: Any) -> bool:
        if self._access is None or self.is_open:
            return True
        capture = capture_of(row)
        return capture is not None and self._access.capture(capture) is None

    def _write_warc(
        self, writer: WaczWriter | CombinedWarcWriter, plan: sqlite3.Connection, filename: str
    ) -> dict[str, Any]:
        """Copy the planned parts of a WARC; return the entry of the file."""
        planned = "SELECT start, length FROM records WHERE filename = ? ORDER BY start"
        rows = plan.execute(planned, (filename,)).fetchall()
        query = (
            "SELECT count(*) AS n, (SELECT indexed_to FROM files WHERE filename = :name) AS covered"
            " FROM captures WHERE filename = :name"
        )
        for path in self._places(filename):
            with suppress(FileNotFoundError):
                end = path.stat().st_size
                indexed = self._database.rows(query, {"name": filename})[0]
                whole = self._may_copy and indexed["n"] == len(rows)
                if path.suffix == OPEN_SUFFIX:  # behind that a record may be half written
                    end = indexed["covered"]
                spans = [(0, end, False)] if whole else list(self._spans(path, filename, rows))
                file = path.open("rb", buffering=0)
                break
        else:
            raise PermanentError(f"{filename} is gone: run `weboid verify`.")
        places: list[tuple[int, str, int]] = []

        def pieces() -> Iterator[bytes]:
            at = 0
            for start, end, is_record in spans:
                if is_record:
                    places.append((at, filename, start))
                file.seek(start)
                left = end - start
                while left and (data := file.read(min(left, _CHUNK_BYTES))):
                    left -= len(data)
                    at += len(data)
                    self._on_bytes(len(data))
                    yield data
                if left:
                    raise PermanentError(f"{filename} is shorter than the index says: run `weboid verify`.")
            self.count.stored_bytes += at

        with file:
            entry = writer.add(f"archive/{filename}", pieces(), sum(end - start for start, end, _ in spans))
        if whole:
            plan.execute("UPDATE records SET placed = start WHERE filename = ?", (filename,))
        else:
            plan.executemany("UPDATE records SET placed = ? WHERE filename = ? AND start = ?", places)
        return entry

    def _spans(self, path: Path, filename: str, rows: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, bool]]:
        """Yield the copied parts of a WARC: start, end, and whether it is a planned record."""
        first = next(walk_records(path, end=rows[0][0], reading=Reading.STRUCTURE), None)
        if isinstance(first, WarcMember) and first.kind == "warcinfo":
            yield 0, first.length, False
        query = 'SELECT min("offset") AS start FROM captures WHERE filename = :name AND "offset" > :start'
        for start, length in rows:
            yield start, start + length, True
            following = self._database.rows(query, {"name": filename, "start": start})[0]["start"]
            # The request of a response follows it and is not in the index.
            members = walk_records(path, start=start + length, end=following, reading=Reading.STRUCTURE)
            request = next(members, None) if following != start + length else None
            if isinstance(request, WarcMember) and request.kind == "request":
                yield request.offset, request.offset + request.length, False

    def _index_lines(self, plan: sqlite3.Connection, part: int) -> Iterator[str]:
        rows = plan.execute(
            "SELECT urlkey, timestamp, facts, placed, length, filename FROM records JOIN warcs USING (filename)"
            " WHERE part = ? ORDER BY urlkey, timestamp, facts",
            (part,),
        )
        for urlkey, timestamp, facts, placed, length, filename in rows:
            place = {"length": str(length), "offset": str(placed), "filename": filename}
            line = json.dumps({**json.loads(facts), **place}, ensure_ascii=False)
            yield f"{urlkey} {timestamp} {line}"

    def _pages(self, plan: sqlite3.Connection, part: int, *, has_text: bool) -> Iterator[dict[str, Any]]:
        """Yield the pages of a part: that with the first of their records."""
        plan.execute("CREATE INDEX IF NOT EXISTS records_by_page ON records (page_id)")
        first = "SELECT min(part) FROM records JOIN warcs USING (filename) WHERE records.page_id = pages.page_id"
        query = f"SELECT page_id, facts FROM pages WHERE coalesce(({first}), 1) = ?"  # noqa: S608 constants
        for page_id, facts in plan.execute(query, (part,)):
            page = json.loads(facts)
            if has_text:
                text = self._text(plan, page_id)
                page |= {"text": text} if text else {}
            yield page

    def _text(self, plan: sqlite3.Connection, page_id: str) -> str:
        """Return the visible text of a page if its record is exported; else an empty text."""
        query = f"{_RECORDS} WHERE page_id = :page AND substr(url, 1, 9) = 'urn:text:' ORDER BY captured_ms DESC"
        for row in self._database.rows(f"{query} LIMIT 1", {"page": page_id}):
            place = (row["filename"], row["offset"])
            if plan.execute("SELECT 1 FROM records WHERE filename = ? AND start = ?", place).fetchone():
                with suppress(PermanentError):
                    return self._artifacts.text(RecordPlace(row["url"], *place, row["length"], row["digest"]))
        return ""


def _planned_page(row: Any) -> tuple[Any, ...]:
    facts = {
        "id": row["page_id"], "url": row["final_url"] or row["url"], "ts": warc_date_at(row["captured_ms"]),
        "title": row["title"], "status": row["status"], "mime": row["mime"],
    }  # fmt: skip
    return row["urlkey"], row["captured_ms"], row["page_id"], json.dumps(facts)


def _planned(row: Any) -> tuple[Any, ...]:
    """Return the row of the plan; facts are those of a CDXJ line but for the place."""
    facts = {"url": row["url"], "digest": row["digest"], "mime": row["mime"]}
    if row["record_type"] == "revisit":
        facts["mime"] = "warc/revisit"
    if row["status"] is not None:
        facts["status"] = str(row["status"])
    timestamp = timestamp14_at(row["captured_ms"])
    key = row["urlkey"] or row["url"]
    return row["filename"], row["offset"], row["length"], key, timestamp, json.dumps(facts), row["page_id"]


def _stem(path: Path) -> tuple[str, str]:
    """Split a name into stem and ending."""
    ending = ".warc.gz" if path.name.endswith(".warc.gz") else path.suffix
    return path.name.removesuffix(ending), ending


def _commit(plan: sqlite3.Connection) -> None:
    """Write the plan as it is now, and keep it locked."""
    plan.execute("COMMIT")
    plan.execute("BEGIN IMMEDIATE")


def _has_plan(plan: sqlite3.Connection) -> bool:
    return plan.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone() is not None


def _write_manifest(request: ExportRequest, moment: datetime, files: Sequence[Path]) -> Path:
    """Write the list of the parts, with which players open them as one archive; return its path."""
    manifest = {
        "profile": "multi-wacz-package", "created": warc_date(moment), **request.facts,
        "resources": [
            {"name": each.name, "path": each.name, "hash": f"sha256:{sha256_of(each)}", "bytes": each.stat().st_size}
            for each in files
        ],
    }  # fmt: skip
    path = request.path.with_name(f"{_stem(request.path)[0]}.json")
    replace_file(path, json.dumps(manifest, indent=2, ensure_ascii=False))
    return path
