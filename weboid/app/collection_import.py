"""Import of other tools' WARC, ARC and WACZ files into a collection: files, index rows, page manifests, provenance.

Each file is stored, checked and indexed before its pages are looked for: in Weboid manifests that came with it, in lists
of pages, in browsertrix's ``urn:pageinfo:`` records, and else among its HTML and PDF responses. A page gets a manifest
that this import writes; what a file claims to be a manifest is read as a description of a page, never as ours. Every
step may be repeated: files are known by their SHA-256, pages by ids derived from their records.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

from classify.page_excerpt import LOOKED_AT, parse_page_excerpt
from core.captures import ArtifactKind, artifact_uri, imported_page_id, parse_artifact_uri
from core.config.settings import Settings
from core.errors import BadUrlError, InputError, PermanentError, WeboidError
from core.layout import Layout
from core.media_types import DOCUMENT_TYPES
from core.page_manifest import PageImport, PageInfo, PageResource, VisitOutcome, parse_pageinfo
from core.storable_text import parse_json, storable
from core.timestamps import parse_moment, unix_milliseconds, warc_date, warc_date_at
from core.url_keys import replay_key
from core.urls import fetch_key
from playback.access.control import PAGE_FACTS, AccessControl, page_facts
from playback.replay.capture_lookup import CAPTURE_COLUMNS
from qa.holdings import text_digest
from warc.artifact_reader import MANIFEST_LIMIT, ArtifactReader, RecordPlace
from warc.checksums import add_missing_sums, add_sums
from warc.dedup.payloads import PayloadIndex
from warc.file_reader import Reading, WarcMember, walk_records
from warc.foreign_archives import ForeignArchive, ForeignFile, ImportStorage
from warc.index.database import IndexDatabase, in_lists, key_values
from warc.index.indexer import IndexingResult, index_file
from warc.index.protocol import CaptureIndex
from warc.local_storage import WarcPath
from warc.record_builder import artifact_member, warcinfo_facts
from warc.record_reader import Record, decode_blocks, decoded_body, open_record
from warc.writer import WarcFile

_LINE_LIMIT_BYTES = 16 << 20  # of a list of pages, with their text
_TEXT_LIMIT_CHARS = 2_000_000
_DOCUMENT_LIMIT_BYTES = 8 << 20
_MOST_RESOURCES = 2_000
_MOST_HOPS = 5
_FAULTS_SHOWN = 100
_NEAR_MS = 86_400_000  # between the time in a list and that of the record
_ROWS = 500
_SYNC_PAGES = 500
_COPIED = (ArtifactKind.VIEW, ArtifactKind.FULL_PAGE, ArtifactKind.THUMBNAIL)
_PAYLOADS = ("response", "revisit", "resource")
_TYPES = {"text/css": "Stylesheet", "text/html": "Document", "application/xhtml+xml": "Document"}
_FAMILIES = {"image": "Image", "font": "Font", "audio": "Media", "video": "Media"}
_DOCUMENTS = ", ".join(f"'{each}'" for each in sorted(DOCUMENT_TYPES))
_OF_FILE = (
    f"SELECT id, {CAPTURE_COLUMNS} FROM captures WHERE filename = :name"  # noqa: S608 constants of ours
    ' AND "offset" > :after AND {condition} ORDER BY "offset" LIMIT :limit'
)
_IS_ARTIFACT = (  # a picture or text of a page, as browsertrix writes it
    "record_type = 'resource' AND page_id IS NULL AND substr(url, 1, 4) = 'urn:' AND substr(url, 1, 13) <> 'urn:pageinfo:'"
)
_IS_PAGEINFO = "substr(url, 1, 13) = 'urn:pageinfo:'"
_IS_DOCUMENT = f"status BETWEEN 200 AND 299 AND mime IN ({_DOCUMENTS}) AND page_id IS NOT NULL"
_NEAREST = (
    f"SELECT {CAPTURE_COLUMNS} FROM captures WHERE {{has_key}} AND url = :url"  # noqa: S608 constants of ours
    " ORDER BY abs(captured_ms - :at) LIMIT 50"
)
_OF_PAGE = f"SELECT {CAPTURE_COLUMNS} FROM captures WHERE page_id = :page LIMIT {_MOST_RESOURCES}"  # noqa: S608
_FIRST_OF_PAGE = "SELECT min(captured_ms) AS first FROM captures WHERE page_id = :page"


class PageCandidate(NamedTuple):
    """Page named by a file or a list."""

    url: str
    listed_in: str  # see `core.page_manifest.PageImport`
    captured_ms: int | None = None
    name: str = ""  # its id in the file
    title: str = ""
    text: str = ""
    manifest: PageInfo | None = None  # of another Weboid collection
    row: Any = None  # of its document, where that is known


@dataclass(frozen=True, slots=True)
class FileImport:
    """Result of one file."""

    source: str
    bytes: int
    state: str  # ``imported``, ``known``, ``failed``; of a dry run ``new`` or ``known``
    stored: str = ""  # its name in ``archive/``
    format: str = ""
    sha256: str = ""
    records: int = 0
    captures: int = 0
    damaged: int = 0  # records and spans that cannot be used
    problems: tuple[str, ...] = ()  # the first `_FAULTS_SHOWN`
    software: str = ""  # of its `warcinfo` record


@dataclass(slots=True)
class ImportResult:
    """Result of an import."""

    files: list[FileImport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # of archives, and parts that are left out
    pages: int = 0  # that were added; of a dry run those in lists
    known_pages: int = 0
    pages_without_record: int = 0  # in a list, and in no file
    withheld_pages: int = 0  # of those added, taken down here or captured with a login
    revisits_without_payload: int = 0  # of the whole collection

    @property
    def is_whole(self) -> bool:
        """Return whether everything could be read."""
        return not self.problems and not any(each.damaged or each.state == "failed" for each in self.files)

    def count(self, state: str) -> int:
        """Return the number of files in that state."""
        return sum(each.state == state for each in self.files)


class CollectionImport:
    """Import into one collection, which no other process writes; `close` it."""

    def __init__(  # noqa: PLR0913 the stores of a collection
        self,
        layout: Layout,
        settings: Settings,
        index: CaptureIndex,
        database: IndexDatabase,  # the same, for queries
        storage: ImportStorage,
        *,
        now: Callable[[], datetime],
        shared: PayloadIndex | None = None,  # dedup index of several machines
        on_bytes: Callable[[int], None] = lambda _count: None,
    ) -> None:
        self._layout, self._proxy = layout, settings.proxy
        self._index, self._database, self._shared = index, database, shared
        self._storage, self._now, self._on_bytes = storage, now, on_bytes
        self._artifacts = ArtifactReader(layout)
        self._written: list[str] = []
        self._added: set[str] = set()
        self._has_artifacts = False  # whether the present archive may have some that no page names
        self._writer = WarcFile(
            layout.archive,
            "artifacts",
            settings=self._proxy,
            now=now,
            closed=self._written.append,
            facts=lambda: {**warcinfo_facts(settings), "description": "Manifests of imported pages"},
        )
        self.result = ImportResult()

    def add(self, archive: ForeignArchive) -> None:
        """Import one archive; faults of a file are in the result. Raises OSError, DiskFullError, UnavailableError."""
        self.result.problems += archive.problems
        stored: dict[str, FileImport] = {}
        for file in archive.files:
            done = self._add_file(file, archive.key)
            self.result.files.append(done)
            if done.stored:
                stored[done.stored] = done
            self._layout.reports.mkdir(exist_ok=True)
            with (self._layout.reports / "imports.jsonl").open("a", encoding="utf-8") as report:
                line = {"at": warc_date(self._now()), **asdict(done)}
                report.write(json.dumps(line, ensure_ascii=False) + "\n")
        if stored:
            self._index.settle(list(stored))
            self._add_pages(archive, stored)

    def close(self) -> None:
        """Index the manifests that were written, and complete the checksums."""
        self._writer.close()
        for name in self._written:
            self._index_file(name)
        if self.result.files:
            self._index.settle(self._written)
            add_missing_sums(self._layout, self._index)
            self.result.revisits_without_payload = len(self._index.orphans())

    def count_withheld(self, access: AccessControl) -> None:
        """Count the added pages that readers may not see."""
        for marks, values in in_lists(sorted(self._added)):
            rows = self._database.rows(f"SELECT {PAGE_FACTS} FROM pages WHERE page_id IN ({marks})", values)  # noqa: S608
            self.result.withheld_pages += len(access.pages(map(page_facts, rows)))

    def _add_file(self, file: ForeignFile, key: str) -> FileImport:
        failed = FileImport(file.source, file.size, "failed")
        try:
            stored = self._storage.add(file, key, self._on_bytes)
        except PermanentError as error:
            return replace(failed, problems=(str(error),))
        path = WarcPath(self._layout.archive / stored.name)
        if not path.exists():  # of a trial: the collection has it
            return FileImport(file.source, file.size, "known", format=stored.format, sha256=stored.sha256)
        start = self._index.indexed_to(stored.name)
        indexed = IndexingResult()
        size = path.stat().st_size
        faults: list[str] = []
        if start < size or not size:
            indexed = self._index_file(stored.name, start)
            faults = [f"At {offset:,}: {text}" for offset, text in indexed.faults.items()]
            if not (start or indexed.records):
                if stored.is_new:
                    self._storage.remove(stored.name)
                why = ("It contains no readable WARC record.", *stored.problems, *faults)
                return replace(failed, problems=why[:_FAULTS_SHOWN])
        if stored.is_new and not stored.is_packed:  # otherwise its bytes differ
            add_sums(self._layout, {stored.name: stored.sha256})
        return FileImport(
            source=file.source,
            bytes=file.size,
            state="imported" if stored.is_new or indexed.records else "known",
            stored=stored.name,
            format=stored.format,
            sha256=stored.sha256,
            records=indexed.records,
            captures=indexed.rows,
            damaged=indexed.damaged + len(stored.problems),
            problems=(*stored.problems, *faults)[:_FAULTS_SHOWN],
            software=self._software(path),
        )

    def _index_file(self, name: str, start: int = 0) -> IndexingResult:
        at = start

        def advance(offset: int) -> None:
            nonlocal at
            self._on_bytes(max(0, offset - at))
            at = max(at, offset)

        return index_file(
            WarcPath(self._layout.archive / name),
            name,
            self._index,
            bucket=self._proxy.dedup_bucket,
            min_bytes=self._proxy.dedup_min_bytes,
            start=start,
            on_payloads=None if self._shared is None else self._shared.add,
            on_progress=advance,
        )

    def _software(self, path: Path) -> str:
        """Return the program that the file's first record names."""
        first = next(walk_records(path, reading=Reading.STRUCTURE), None)
        if not isinstance(first, WarcMember) or first.kind != "warcinfo":
            return ""
        with suppress(PermanentError), open_record(path.parent, path.name, 0, first.length) as record:
            text = next(record.content, b"").decode("utf-8", "replace")
            lines = (line.partition(":") for line in text.splitlines())
            return next((value.strip()[:200] for name, _, value in lines if name.strip().lower() == "software"), "")
        return ""

    def _add_pages(self, archive: ForeignArchive, files: dict[str, FileImport]) -> None:
        before = self.result.pages + self.result.known_pages
        self._has_artifacts = any(next(self._rows_of(name, _IS_ARTIFACT), None) is not None for name in files)
        listed = (listed_pages(source, self.result.problems) for source in archive.page_lists)
        described, others = (self._described_pages(files, is_own=is_own) for is_own in (True, False))
        for candidate in chain(described, *listed, others):
            self._add_page(candidate, files)
        if self.result.pages + self.result.known_pages == before:
            for name in files:
                for row in self._rows_of(name, _IS_DOCUMENT):
                    if row["record_type"] != "resource" and row["url"].startswith(("http://", "https://")):
                        self._add_page(PageCandidate(row["url"], "document", row["captured_ms"], row=row), files)
        self._writer.sync()
        self._writer.keep()

    def _rows_of(self, name: str, condition: str) -> Iterator[Any]:
        query, after = _OF_FILE.format(condition=condition), -1
        while rows := self._database.rows(query, {"name": name, "after": after, "limit": _ROWS}):
            yield from rows
            after = rows[-1]["offset"]

    def _described_pages(self, files: dict[str, FileImport], *, is_own: bool) -> Iterator[PageCandidate]:
        """Yield the pages of ``urn:pageinfo:`` records: of our manifests, or of browsertrix's."""
        for name in files:
            for row in self._rows_of(name, _IS_PAGEINFO):
                try:
                    with self._open(row) as record:
                        data = decode_blocks(record.content, "", limit=MANIFEST_LIMIT)
                except PermanentError as error:
                    if is_own:
                        self.result.problems.append(f"{name} at {row['offset']:,}: {error}")
                    continue
                manifest = None
                with suppress(InputError, RecursionError):
                    manifest = parse_pageinfo(data)
                if manifest is not None and is_own:
                    own = PageCandidate(manifest.url, "manifest", row["captured_ms"], manifest.page_id)
                    yield own._replace(manifest=manifest, row=row)
                elif manifest is None and not is_own:
                    with suppress(ValueError, InputError, AttributeError):
                        document = parse_json(data)
                        if "checked" not in document:  # otherwise it is a check of a copy
                            yield listed_page(document, "pageinfo")

    def _add_page(self, candidate: PageCandidate, files: dict[str, FileImport]) -> None:
        """Write the manifest of a page, unless there is one."""
        try:
            key = fetch_key(candidate.url, allow_single_label=True)
        except BadUrlError:
            self.result.pages_without_record += 1
            return
        row = candidate.row
        for url in dict.fromkeys((candidate.url.partition("#")[0], key)):
            row = row or self._document(url, candidate.captured_ms, files)
        final = row
        for _ in range(_MOST_HOPS):
            if final is None or candidate.manifest is not None or (final["status"] or 0) // 100 != 3:
                break
            target = self._location(final)
            final = self._document(target, final["captured_ms"], files) if target else None
        if row is None or final is None:
            self.result.pages_without_record += 1
            return
        page_id = self._page_id(candidate, final)
        if page_id in self._added:
            return
        query = "SELECT 1 AS one FROM pages WHERE page_id = :page"
        if page_id is None or self._database.rows(query, {"page": page_id}):
            self.result.known_pages += 1
            return
        self._added.add(page_id)
        self.result.pages += 1
        rows = self._database.rows(_OF_PAGE, {"page": page_id})
        first = self._database.rows(_FIRST_OF_PAGE, {"page": page_id})[0]["first"]
        captured_ms = row["captured_ms"] if first is None else first  # later ones would be an interrupted attempt's
        file = files[final["filename"]]
        package, mark, entry = file.source.partition("!")
        is_address = package.startswith(("http://", "https://"))
        source = (package if is_address else Path(package).name) + mark + entry  # no folders of this machine
        origin = PageImport(source, file.sha256, file.software, warc_date(self._now()), candidate.listed_in)
        own = [each for each in rows if not each["url"].startswith("urn:")]
        kinds = {named[0]: each for each in rows if (named := parse_artifact_uri(each["url"])) is not None}
        artifacts = list(self._copied_artifacts(candidate, row["url"], captured_ms, files, kinds))
        text = next((data for kind, _, data in artifacts if kind is ArtifactKind.TEXT), b"")
        if candidate.manifest is not None:
            page = replace(candidate.manifest, page_id=page_id, captured_at=warc_date_at(captured_ms), imported=origin)
        else:
            page = PageInfo(
                page_id,
                row["url"],
                final["url"],
                warc_date_at(captured_ms),
                VisitOutcome.COMPLETE,
                status=final["status"],
                mime=final["mime"],
                title=storable(candidate.title or self._title(final))[:1_000],
                records=len(rows),
                stored_bytes=sum(each["length"] for each in rows),
                resources=tuple(map(_resource, own)),
                artifacts=tuple(sorted({str(each) for each in (*kinds, *(kind for kind, _, _ in artifacts))})),
                text_digest=text_digest(text) if text else "",
                login=final["login"] or "",
                imported=origin,
            )
        artifacts.append((ArtifactKind.PAGEINFO, "application/json", page.to_json()))
        for kind, content_type, data in artifacts:
            facts: dict[str, Any] = {"date": page.captured_at, "page_id": page_id, "login": page.login}
            uri = artifact_uri(kind, page.url)
            self._writer.append(artifact_member(uri, data, content_type=content_type, **facts)[1:])
        if self.result.pages % _SYNC_PAGES == 0:
            self._writer.sync()
            self._writer.keep()
            self._writer.roll_over()

    def _document(self, url: str, at_ms: int | None, files: dict[str, FileImport]) -> Any:
        """Return the row of the URL's response in these files nearest to the time; None when there is none near."""
        try:
            key = key_values(replay_key(url))
        except BadUrlError:
            return None
        query = _NEAREST.format(has_key=self._database.has_key)
        latest = unix_milliseconds(self._now())
        rows = self._database.rows(query, {**key, "url": url, "at": latest if at_ms is None else at_ms})
        responses = (row for row in rows if row["filename"] in files and row["record_type"] in _PAYLOADS)
        return next((row for row in responses if at_ms is None or abs(row["captured_ms"] - at_ms) <= _NEAR_MS), None)

    def _page_id(self, candidate: PageCandidate, final: Any) -> str | None:
        """Return the id of the page in our manifests; None: its records are ours, and so is its manifest."""
        if candidate.name:
            page_id = imported_page_id(final["filename"], candidate.name)
            if page_id is None or candidate.manifest is not None or self._database.rows(_OF_PAGE, {"page": page_id}):
                return page_id
        return imported_page_id(final["filename"], "") and (
            final["page_id"] or imported_page_id(final["filename"], f"{final['captured_ms']} {candidate.url}")
        )

    def _copied_artifacts(
        self,
        candidate: PageCandidate,
        url: str,
        at_ms: int,
        files: dict[str, FileImport],
        kinds: dict[ArtifactKind, Any],
    ) -> Iterator[tuple[ArtifactKind, str, bytes]]:
        """Yield screenshots and the text of a page whose records do not name it, as browsertrix writes them."""
        if candidate.manifest is not None:
            return
        for kind in (*_COPIED, ArtifactKind.TEXT) if self._has_artifacts else ():
            # Of browsertrix's, the later one is after its behaviours.
            names = (f"urn:{kind}Final:{url}", artifact_uri(kind, url)) if kind not in kinds else ()
            rows = (self._document(name, at_ms, files) for name in names)
            row = next((each for each in rows if each is not None), None)
            if row is None or row["record_type"] != "resource" or row["page_id"]:
                continue
            place = RecordPlace(row["url"], row["filename"], row["offset"], row["length"], row["digest"])
            with suppress(PermanentError):
                is_text = kind is ArtifactKind.TEXT
                data = self._artifacts.text(place).encode() if is_text else self._artifacts.picture(place)
                yield kind, "text/plain; charset=utf-8" if is_text else row["mime"], data
                kinds.setdefault(kind, row)
        if candidate.text and ArtifactKind.TEXT not in kinds:
            text = storable(candidate.text[:_TEXT_LIMIT_CHARS])
            yield ArtifactKind.TEXT, "text/plain; charset=utf-8", text.encode()

    def _location(self, row: Any) -> str:
        """Return the target of a redirect; empty without one."""
        with suppress(PermanentError, ValueError), self._open(row) as record:
            target = record.http.get("location") if record.http is not None else ""
            return urljoin(row["url"], target)[:8_192] if target else ""
        return ""

    def _open(self, row: Any) -> AbstractContextManager[Record]:
        return open_record(self._layout.archive, row["filename"], row["offset"], row["length"])

    def _title(self, row: Any) -> str:
        """Return the title of an HTML document; empty for a revisit, whose payload is elsewhere."""
        if "html" not in row["mime"] or row["record_type"] != "response":
            return ""
        with suppress(PermanentError), self._open(row) as record:
            content_type = record.http.get("content-type") if record.http is not None else ""
            return parse_page_excerpt(decoded_body(record, limit=_DOCUMENT_LIMIT_BYTES)[:LOOKED_AT], content_type).title
        return ""


def _resource(row: Any) -> PageResource:
    mime = row["mime"]
    kind = _TYPES.get(mime) or _FAMILIES.get(mime.partition("/")[0]) or ("Script" if "javascript" in mime else "Other")
    outcome = "synthesised" if row["record_type"] == "resource" else row["record_type"]
    digest = "" if row["digest"] == "-" else row["digest"]
    return PageResource(row["url"], status=row["status"], mime=mime, resource_type=kind, kept=outcome, digest=digest)


def listed_page(entry: Any, listed_in: str) -> PageCandidate:
    """Return the page that an entry of a list or a pageinfo record of browsertrix names, or raise InputError."""
    if not isinstance(entry, dict) or not isinstance(entry.get("url"), str):
        raise InputError("An entry has no URL.")
    texts = {name: value for name, value in entry.items() if isinstance(value, str)}
    moment = None
    with suppress(InputError, OverflowError):
        moment = unix_milliseconds(parse_moment(texts.get("ts", texts.get("timestamp", ""))))
    name = texts.get("id") or texts.get("pageid") or ""
    return PageCandidate(texts["url"], listed_in, moment, name, texts.get("title", ""), texts.get("text", ""))


def listed_pages(source: ForeignFile, problems: list[str]) -> Iterator[PageCandidate]:
    """Yield the pages of a ``pages.jsonl``; lines that cannot be read are added to the problems."""
    try:
        with source.open() as file:
            for number, line in enumerate(iter(partial(file.readline, _LINE_LIMIT_BYTES + 1), b""), 1):
                try:
                    if len(line) > _LINE_LIMIT_BYTES:
                        rest = line
                        while rest and not rest.endswith(b"\n"):
                            rest = file.readline(_LINE_LIMIT_BYTES)
                        raise InputError("It is too long.")  # noqa: TRY301 reported with the others
                    if not line.strip():
                        continue
                    entry = parse_json(line)
                    if isinstance(entry, dict) and "format" in entry and "url" not in entry:
                        continue  # the head of the list
                    yield listed_page(entry, "list")
                except (ValueError, InputError) as error:
                    if len(problems) < _FAULTS_SHOWN:
                        problems.append(f"{source.source}, line {number}: {error}")
    except Exception as error:
        if isinstance(error, WeboidError | MemoryError):
            raise
        problems.append(f"{source.source} cannot be read completely: {error}.")
