"""Export of captures of a collection as a WACZ file: what readers may see, streamed, in constant memory.

WARCs of which everything is exported are copied byte by byte; of others the members of the records that were chosen.
A plan of all records is kept in a temporary database next to the file. Records that a page took from the browser's
cache, and payloads that revisits refer to, are exported with it, wherever they are.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from core.errors import BadUrlError, InputError, PermanentError
from core.layout import Layout
from core.timestamps import parse_warc_date, timestamp14_at, unix_milliseconds, warc_date_at
from core.url_keys import replay_key
from playback.access.control import PAGE_FACTS, AccessControl, page_facts
from playback.replay.capture_lookup import capture_of
from warc.artifact_reader import ArtifactReader, RecordPlace, read_manifest
from warc.checksums import read_chain
from warc.file_reader import Reading, WarcMember, walk_records
from warc.index.database import IndexDatabase, in_lists, key_values
from warc.index.queries import ALL_KEYS, KeyRange, matching_keys, page_chunks
from warc.wacz_writer import WaczWriter

_CHUNK_BYTES = 1 << 20
_PAGE_CHUNK = 200
_ROW_CHUNK = 5_000
_SHOWN = "outcome IN ('complete', 'partial')"
_COLUMNS = (
    'url, urlkey, captured_ms, record_type, mime, status, digest, filename, "offset", length,'
    " orig_filename, orig_offset, orig_length, page_id, truncated, login"
)
_PLAN = """
CREATE TABLE records (filename TEXT, start INTEGER, length INTEGER, urlkey TEXT, timestamp TEXT, facts TEXT,
    placed INTEGER, PRIMARY KEY (filename, start)) WITHOUT ROWID;
CREATE TABLE pages (urlkey TEXT, captured_ms INTEGER, page_id TEXT, facts TEXT,
    PRIMARY KEY (urlkey, captured_ms, page_id)) WITHOUT ROWID;
"""
_ADD_RECORD = "INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?, ?, ?, NULL)"


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """Pages to export; without anything set, the whole collection."""

    keys: Sequence[KeyRange] = ()  # of URLs and hosts
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_everything(self) -> bool:
        """Return whether no page is left out."""
        return not self.keys and self.since is None and self.until is None


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


def url_keys(text: str) -> KeyRange:
    """Return the keys of a URL, or of all that begin with it when it ends with ``*``; raises InputError."""
    try:
        keys = matching_keys(text.removesuffix("*"), "prefix" if text.endswith("*") else "exact")
    except BadUrlError as error:
        raise InputError(f"{text[:100]!r} is no URL: {error}") from error
    if keys is None:
        raise InputError(f"{text[:100]!r} names no page.")
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
        # Nothing has to be looked up for each record where nothing at all is withheld.
        self._is_open = access is None or (access.are_open() and not access.holds.any_threat())
        # Records of skipped pages are in WARCs, but not in the index.
        skipped = "SELECT 1 AS one FROM pages WHERE outcome = 'skipped' LIMIT 1"
        self._may_copy = self._is_open and not database.rows(skipped, {})
        self.count = ExportCount()

    def write(
        self,
        path: Path,
        selection: ExportSelection,
        facts: Mapping[str, Any],
        *,
        moment: datetime,
        has_text: bool = True,
        sign: Callable[[str], Mapping[str, str]] | None = None,
    ) -> ExportCount:
        """Write the file, whose package has the facts, such as ``title``; InputError: there is nothing to export.

        `sign`: of the package's digest, see `WaczWriter.finish`.
        """
        with ExitStack() as stack:
            stored = stack.enter_context(NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."))
            plan = stack.enter_context(closing(sqlite3.connect(stored.name, isolation_level=None)))
            plan.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {_PLAN} BEGIN;")
            self._choose(plan, selection)
            if not self.count.records:
                raise InputError("Nothing to export: no capture that may be shown matches.")
            writer = stack.enter_context(WaczWriter(path, moment))
            for (filename,) in plan.execute("SELECT DISTINCT filename FROM records").fetchall():
                self._write_warc(writer, plan, filename)
            writer.add_index(self._index_lines(plan))
            writer.add_pages(self._pages(plan, has_text=has_text), has_text=has_text)
            chain = read_chain(self._layout)
            evidence = {"checksumChain": chain.head} if chain.size else {}
            writer.finish({"software": f"weboid {version('weboid')}", **facts, **evidence}, sign)
        return self.count

    def _choose(self, plan: sqlite3.Connection, selection: ExportSelection) -> None:
        """Put pages and records into the plan."""
        columns = f"{PAGE_FACTS}, urlkey, captured_ms, title, status, mime"
        condition = _SHOWN
        for sign, moment in ((">=", selection.since), ("<", selection.until)):
            if moment is not None:
                condition += f" AND captured_ms {sign} {unix_milliseconds(moment)}"
        is_all = selection.is_everything and self._is_open
        for keys in selection.keys or (ALL_KEYS,):
            for rows in page_chunks(self._database, condition, columns=columns, keys=keys, size=_PAGE_CHUNK):
                shown = list(self._shown_pages(rows))
                for row in shown:
                    self._plan_page(plan, row)
                if not is_all:
                    self._plan_captures(plan, [row["page_id"] for row in shown])
                if not selection.is_everything:
                    for row in shown:
                        self._plan_cached(plan, row["page_id"])
        if is_all:  # also what belongs to no page
            self._plan_all(plan)
        self.count.pages = plan.execute("SELECT count(*) FROM pages").fetchone()[0]
        self.count.records = plan.execute("SELECT count(*) FROM records").fetchone()[0]

    def _shown_pages(self, rows: Sequence[Any]) -> Iterator[Any]:
        """Yield the pages that readers may see."""
        if self._access is None:
            yield from rows
            return
        withheld = set(self._access.pages(map(page_facts, rows)))
        withheld |= set(self._access.threats([row["page_id"] for row in rows]))
        self.count.withheld_pages += len(withheld)
        yield from (row for row in rows if row["page_id"] not in withheld)

    def _plan_page(self, plan: sqlite3.Connection, row: Any) -> None:
        facts = {
            "id": row["page_id"], "url": row["final_url"] or row["url"],
            "ts": warc_date_at(row["captured_ms"]), "title": row["title"],
            "status": row["status"], "mime": row["mime"],
        }  # fmt: skip
        values = (row["urlkey"], row["captured_ms"], row["page_id"], json.dumps(facts))
        plan.execute("INSERT OR IGNORE INTO pages VALUES (?, ?, ?, ?)", values)

    def _plan_all(self, plan: sqlite3.Connection) -> None:
        query = f"SELECT id, {_COLUMNS} FROM captures WHERE id > :id ORDER BY id LIMIT {_ROW_CHUNK}"  # noqa: S608 constants
        last = -1
        while rows := self._database.rows(query, {"id": last}):
            plan.executemany(_ADD_RECORD, map(_planned, rows))
            last = rows[-1]["id"]

    def _plan_captures(self, plan: sqlite3.Connection, page_ids: Sequence[str]) -> None:
        for marks, values in in_lists(page_ids):
            query = f"SELECT {_COLUMNS} FROM captures WHERE page_id IN ({marks})"  # noqa: S608 marks
            self._plan_rows(plan, self._database.rows(query, values))

    def _plan_cached(self, plan: sqlite3.Connection, page_id: str) -> None:
        """Plan the records of earlier visits that hold what the page had from the browser's cache."""
        manifest = read_manifest(self._layout, self._database, page_id)
        for each in manifest.resources if manifest is not None else ():
            if not each.recorded_at:
                continue
            with suppress(InputError):
                moment = unix_milliseconds(parse_warc_date(each.recorded_at))
                values = {**key_values(replay_key(each.url)), "url": each.url, "ms": moment}
                query = (
                    f"SELECT {_COLUMNS} FROM captures"  # noqa: S608 constants
                    f" WHERE {self._database.has_key} AND url = :url AND captured_ms = :ms"
                )
                self._plan_rows(plan, self._database.rows(query, values))

    def _plan_rows(self, plan: sqlite3.Connection, rows: Iterable[Any]) -> None:
        """Plan the records of these rows and the originals of revisits, as far as readers may see them."""
        for row in rows:
            found = [row]
            if row["orig_filename"] is not None:
                query = (
                    f"SELECT {_COLUMNS} FROM captures"  # noqa: S608 constants
                    ' WHERE filename = :name AND "offset" = :start'
                )
                place = {"name": row["orig_filename"], "start": row["orig_offset"]}
                found += self._database.rows(query, place)
            if all(map(self._is_shown, found)):
                plan.executemany(_ADD_RECORD, map(_planned, found))
            else:
                self.count.withheld_records += 1

    def _is_shown(self, row: Any) -> bool:
        if self._access is None or self._is_open:
            return True
        capture = capture_of(row)
        return capture is not None and self._access.capture(capture) is None

    def _write_warc(self, writer: WaczWriter, plan: sqlite3.Connection, filename: str) -> None:
        path = next((each for each in self._layout.warc(filename) if each.exists()), None)
        rows = plan.execute(
            "SELECT start, length FROM records WHERE filename = ? ORDER BY start", (filename,)
        ).fetchall()
        if path is None:
            self.count.missing_warcs.append(filename)
            plan.execute("DELETE FROM records WHERE filename = ?", (filename,))
            return
        query = "SELECT count(*) AS n FROM captures WHERE filename = :name"
        indexed = self._database.rows(query, {"name": filename})[0]["n"]
        whole = self._may_copy and indexed == len(rows)
        spans = self._spans(path, filename, rows, whole=whole)
        places: list[tuple[int, str, int]] = []

        def pieces() -> Iterator[bytes]:
            at = 0
            with path.open("rb", buffering=0) as file:
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
                        raise PermanentError(
                            f"{filename} is shorter than the index says: run `weboid collection verify`."
                        )
            self.count.stored_bytes += at

        writer.add(f"archive/{filename}", pieces())
        self.count.warcs += 1
        if whole:
            plan.execute("UPDATE records SET placed = start WHERE filename = ?", (filename,))
        else:
            plan.executemany("UPDATE records SET placed = ? WHERE filename = ? AND start = ?", places)

    def _spans(
        self, path: Path, filename: str, rows: Sequence[tuple[int, int]], *, whole: bool
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield what is copied of a WARC: start, end, and whether it is a record that is planned."""
        if whole:
            yield 0, path.stat().st_size, False
            return
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

    def _index_lines(self, plan: sqlite3.Connection) -> Iterator[str]:
        rows = plan.execute(
            "SELECT urlkey, timestamp, facts, placed, length, filename FROM records ORDER BY urlkey, timestamp, facts"
        )
        for urlkey, timestamp, facts, placed, length, filename in rows:
            place = {"length": str(length), "offset": str(placed), "filename": filename}
            line = json.dumps({**json.loads(facts), **place}, ensure_ascii=False)
            yield f"{urlkey} {timestamp} {line}"

    def _pages(self, plan: sqlite3.Connection, *, has_text: bool) -> Iterator[dict[str, Any]]:
        for page_id, facts in plan.execute("SELECT page_id, facts FROM pages"):
            page = json.loads(facts)
            if has_text:
                text = self._text(plan, page_id)
                page |= {"text": text} if text else {}
            yield page

    def _text(self, plan: sqlite3.Connection, page_id: str) -> str:
        """Return the visible text of a page if its record is exported; else an empty text."""
        query = (
            f"SELECT {_COLUMNS} FROM captures WHERE page_id = :page"  # noqa: S608 constants
            " AND substr(url, 1, 9) = 'urn:text:' ORDER BY captured_ms DESC LIMIT 1"
        )
        for row in self._database.rows(query, {"page": page_id}):
            place = (row["filename"], row["offset"])
            found = plan.execute("SELECT 1 FROM records WHERE filename = ? AND start = ?", place)
            if found.fetchone():
                with suppress(PermanentError):
                    return self._artifacts.text(RecordPlace(row["url"], *place, row["length"], row["digest"]))
        return ""


def _planned(row: Any) -> tuple[Any, ...]:
    """Return the row of the plan; facts are those of a CDXJ line but for the place."""
    facts = {"url": row["url"], "digest": row["digest"], "mime": row["mime"]}
    if row["record_type"] == "revisit":
        facts["mime"] = "warc/revisit"
    if row["status"] is not None:
        facts["status"] = str(row["status"])
    timestamp = timestamp14_at(row["captured_ms"])
    key = row["urlkey"] or row["url"]
    return row["filename"], row["offset"], row["length"], key, timestamp, json.dumps(facts)
