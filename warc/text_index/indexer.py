"""Indexer of the texts of captured pages: while they are archived, and for pages that the index lacks.

A page's text is its text artifact; of a PDF it is read by a process with limits, of a plain document from its body.
"""

import fcntl
import logging
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

from core.captures import ArtifactKind, artifact_uri
from core.errors import PermanentError, TransientError, WeboidError
from core.layout import Layout
from core.media_types import HTML_TYPES, PDF, TEXT_TYPES
from core.page_classes import GOOD, UNUSABLE, WITHHELD, class_rank
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import parse_warc_date, unix_milliseconds
from warc.artifact_reader import TEXT_LIMIT, ArtifactReader, RecordPlace, read_manifest
from warc.index.database import IndexDatabase, open_database, unreadable_index
from warc.local_storage import remove_database
from warc.record_reader import decoded_body, open_record
from warc.text_index.analysis import TEXT_LIMIT_CHARS, detect_language
from warc.text_index.store import PostgresTextWriter, SqliteTextWriter, TextDocument, TextIndexWriter, open_text_writer

log = logging.getLogger(__name__)

PDF_LIMIT_BYTES = 50_000_000
_PDF_MEMORY_BYTES = 1_500_000_000
_PDF_SECONDS = 15
_PDF_PAGES = 500
_BATCH = 50  # pages in one transaction
_WAIT_S = 2.0  # for further pages of a batch
_PAUSE_S = 30.0  # after an error
_LISTED = 2_000  # pages compared at once
_WAITING_LIMIT = 20_000  # pages; further ones are added by the next start
_NOT_INDEXED = f"outcome IN ('{VisitOutcome.FAILED}', '{VisitOutcome.SKIPPED}')"
_LANG = re.compile(rb"<html\b[^>]{0,1000}?\slang\s*=\s*[\"']?([A-Za-z]{2,3})\b", re.IGNORECASE)
# Returns the visible text of an HTML document, from its first bytes and Content-Type.
HtmlText = Callable[[bytes, str], str]


def page_media(mime: str) -> str:
    """Return the kind of a page by its media type, one of `warc.text_index.store.MEDIA`."""
    if mime in HTML_TYPES or not mime:
        return "page"
    family = mime.partition("/")[0]
    return "pdf" if mime == PDF else family if family in {"image", "video", "audio", "text"} else "file"


def page_state(page_class: str, status: int | None, outcome: str) -> str:
    """Return whether the capture shows the page, one of `warc.text_index.store.STATES`."""
    if page_class in UNUSABLE or class_rank(page_class, status) >= class_rank("http-error"):
        return "error"
    return "good" if page_class in GOOD and outcome == VisitOutcome.COMPLETE else "doubtful"


def extract_pdf_text(data: bytes) -> str:
    """Return the text of the first pages; empty when the file is too large, damaged, encrypted or too slow."""
    if not 0 < len(data) <= PDF_LIMIT_BYTES:
        return ""
    command = (sys.executable, "-P", "-m", "warc.text_index.indexer")
    environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=2 * _PDF_SECONDS, check=False, env=environment
        )
    except (subprocess.TimeoutExpired, OSError):
        return ""
    return done.stdout.decode("utf-8", "replace")


class TextReader:
    """Reader of the texts of pages, from the captures index and the WARCs."""

    def __init__(self, layout: Layout, database: IndexDatabase, html_text: HtmlText) -> None:
        self._layout = layout
        self._database = database
        self._html_text = html_text
        self._artifacts = ArtifactReader(layout)

    def manifest(self, page_id: str) -> PageInfo | None:
        """Return the page's manifest; None when it cannot be read here."""
        return read_manifest(self._layout, self._database, page_id)

    def document(self, page: PageInfo) -> TextDocument | None:
        """Return the searchable data of the page; None for one that no reader is offered."""
        if page.outcome in {VisitOutcome.FAILED, VisitOutcome.SKIPPED} or page.page_class in WITHHELD:
            return None
        text = ""
        for row in self._rows(page, artifact_uri(ArtifactKind.TEXT, page.url)):
            place = RecordPlace(row["url"], row["filename"], row["offset"], row["length"], row["digest"])
            with suppress(PermanentError, OSError):
                text = self._artifacts.text(place)
                break
        declared = next((fact.value for fact in page.facts if fact.name == "language"), "")
        if not text:
            with suppress(PermanentError, OSError):
                text, stated = self._body(page)
                declared = declared or stated
        return TextDocument(
            page.page_id,
            page.url,
            unix_milliseconds(parse_warc_date(page.captured_at)),
            " ".join(page.title.split()),
            text[:TEXT_LIMIT_CHARS],
            detect_language(f"{page.title}\n{text}", declared),
            page_media(page.true_type or page.mime),
            page_state(page.page_class, page.status, page.outcome),
        )

    def _rows(self, page: PageInfo, url: str) -> list[Any]:
        return self._database.rows(
            'SELECT url, filename, "offset", length, digest, mime, status, record_type, orig_filename, orig_offset,'
            " orig_length FROM captures WHERE page_id = :page AND url = :url ORDER BY captured_ms DESC LIMIT 3",
            {"page": page.page_id, "url": url},
        )

    def _body(self, page: PageInfo) -> tuple[str, str]:
        """Return the text of the page's document, and the language that its markup declares."""
        mime = page.true_type or page.mime
        if mime not in HTML_TYPES and mime not in TEXT_TYPES and mime != PDF:
            return "", ""
        for row in self._rows(page, page.final_url):
            if row["status"] is not None and row["status"] // 100 == 3:
                continue
            place = (row["filename"], row["offset"], row["length"])
            if row["record_type"] == "revisit":
                place = (row["orig_filename"], row["orig_offset"], row["orig_length"])
            if place[0] is None:
                continue
            with open_record(self._layout.archive, *place) as record:
                if record.http is None:
                    continue
                body = decoded_body(record, limit=PDF_LIMIT_BYTES if mime == PDF else 4 * TEXT_LIMIT)
                content_type = record.http.get("content-type")
            if mime == PDF:
                return extract_pdf_text(body), ""
            if mime in HTML_TYPES:
                lang = _LANG.search(body[:4_096])
                return self._html_text(body[:TEXT_LIMIT], content_type), lang[1].decode() if lang else ""
            return body[:TEXT_LIMIT].decode("utf-8", "replace"), ""
        return "", ""

    def listed(self, after: str) -> list[Any]:
        """Return id and capture time of the next pages that are searched, in the order of their ids."""
        query = (
            f"SELECT page_id, captured_ms FROM pages WHERE page_id > :after AND NOT {_NOT_INDEXED}"  # noqa: S608 ours
            f" AND page_class NOT IN ({', '.join(repr(str(each)) for each in sorted(WITHHELD))})"
            " ORDER BY page_id LIMIT :limit"
        )
        return self._database.rows(query, {"after": after, "limit": _LISTED})


def complete_texts(
    reader: TextReader,
    writer: TextIndexWriter,
    *,
    on_pages: Callable[[int], None] = lambda _count: None,
    is_over: Callable[[], bool] = lambda: False,
) -> tuple[int, int]:
    """Add the pages that the full-text index lacks and remove those that the captures index lacks; return both numbers.

    `on_pages` gets the number of pages of each step. A page whose manifest cannot be read here is left out.
    """
    added = removed = 0
    after = ""
    while not is_over():
        rows = reader.listed(after)
        wanted = {row["page_id"]: int(row["captured_ms"]) for row in rows}
        last = rows[-1]["page_id"] if len(rows) == _LISTED else ""
        # Both are ordered by page id: what the index has in the same range is compared.
        known: dict[str, int] = {}
        at = after
        while part := writer.pages_after(at, _LISTED):
            known.update({key: ms for key, ms in part.items() if not last or key <= last})
            at = max(part)
            if last and at > last:
                break
        surplus = [key for key in known if key not in wanted]
        for start in range(0, len(surplus), _BATCH):
            writer.remove(surplus[start : start + _BATCH])
        removed += len(surplus)
        missing = [key for key, ms in wanted.items() if known.get(key) != ms]
        for start in range(0, len(missing), _BATCH):
            if is_over():
                return added, removed
            manifests = filter(None, map(reader.manifest, missing[start : start + _BATCH]))
            documents = [each for each in map(reader.document, manifests) if each is not None]
            writer.add(documents)
            added += len(documents)
            on_pages(len(missing[start : start + _BATCH]))
        on_pages(len(rows) - len(missing))
        after = last
        if not last:
            break
    return added, removed


@contextmanager
def open_texts(layout: Layout, url: str, html_text: HtmlText) -> Iterator[tuple[TextReader, TextIndexWriter]]:
    """Yield reader and writer. Raises sqlite3.Error or IndexUnavailableError."""
    with closing(open_database(layout, url)) as database, closing(open_text_writer(layout, url)) as writer:
        yield TextReader(layout, database, html_text), writer


def rebuild_texts(
    layout: Layout, url: str, html_text: HtmlText, on_pages: Callable[[int], None] = lambda _count: None
) -> int:
    """Write the full-text index again, from the captures index; return the number of pages.

    The collection's own stays until the new one is complete; in a database it is emptied first. Raises sqlite3.Error,
    IndexUnavailableError or OSError.
    """
    if url:
        with closing(open_database(layout, url)) as database, closing(PostgresTextWriter(url)) as server:
            server.clear()
            return complete_texts(TextReader(layout, database, html_text), server, on_pages=on_pages)[0]
    fresh = layout.texts_db.with_suffix(".rebuilding")
    remove_database(fresh)
    with closing(open_database(layout, "")) as database, closing(SqliteTextWriter(fresh)) as writer:
        added, _ = complete_texts(TextReader(layout, database, html_text), writer, on_pages=on_pages)
        writer.purge()
    remove_database(layout.texts_db)
    fresh.rename(layout.texts_db)
    return added


def erase_texts(layout: Layout, url: str, page_ids: Collection[str], html_text: HtmlText) -> None:
    """Remove pages of erased records from the full-text index, if any; sqlite3.Error or IndexUnavailableError."""
    if url or layout.texts_db.exists():
        with open_texts(layout, url, html_text) as (reader, writer):
            writer.remove(page_ids)
            complete_texts(reader, writer)
            writer.purge()


class TextIndexThread:
    """Background thread that indexes the pages of this process, many in a transaction. `close` it.

    It starts with the first page; one process at a time also adds what earlier ones left. An error costs no capture:
    the next start adds what is missing.
    """

    def __init__(self, layout: Layout, url: str, html_text: HtmlText) -> None:
        self._layout = layout
        self._url = url
        self._html_text = html_text
        self._pages: deque[PageInfo] = deque(maxlen=_WAITING_LIMIT)
        self._arrived = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def put(self, pages: Sequence[PageInfo]) -> None:
        """Add pages whose manifests are in the captures index."""
        if not pages:
            return
        self._pages.extend(pages)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="texts", daemon=True)
            self._thread.start()
        if len(self._pages) >= _BATCH:
            self._arrived.set()

    def close(self) -> None:
        """Index the waiting pages, then end."""
        self._over.set()
        self._arrived.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        is_done = False
        while not is_done:
            try:
                with open_texts(self._layout, self._url, self._html_text) as (reader, writer):
                    self._index(reader, writer)
                is_done = True
            except (OSError, sqlite3.Error, WeboidError) as error:
                shown = unreadable_index("texts", error) if isinstance(error, sqlite3.Error) else error
                log.warning("texts.not_indexed error=%s", shown)
                is_done = self._over.wait(_PAUSE_S)

    def _index(self, reader: TextReader, writer: TextIndexWriter) -> None:
        """Add what earlier processes left, then pages as they come, until the end."""
        with (self._layout.databases / "texts.lock").open("w") as lock, suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            complete_texts(reader, writer, is_over=self._over.is_set, on_pages=lambda _: self._add(reader, writer))
        is_over = False
        while not is_over:
            self._arrived.wait(_WAIT_S)
            self._arrived.clear()
            is_over = self._over.is_set()
            self._add(reader, writer)

    def _add(self, reader: TextReader, writer: TextIndexWriter) -> None:
        while self._pages:
            documents = []
            for page in [self._pages.popleft() for _ in range(min(_BATCH, len(self._pages)))]:
                try:
                    documents.append(reader.document(page))
                except (PermanentError, TransientError, ValueError) as error:
                    log.warning("texts.not_read page_id=%s error=%s", page.page_id, error)
            writer.add([each for each in documents if each is not None])


def write_pdf_text() -> None:
    """Write the text of the PDF on stdin to stdout; limits are set by the kernel.

    PDFs are as untrusted as pages: only characters leave the process, and a damaged or endless file ends only that.
    """
    resource.setrlimit(resource.RLIMIT_AS, (_PDF_MEMORY_BYTES, _PDF_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_PDF_SECONDS, _PDF_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(2 * _PDF_SECONDS)
    import pypdfium2

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    left = TEXT_LIMIT_CHARS
    try:
        with closing(pypdfium2.PdfDocument(sys.stdin.buffer.read(PDF_LIMIT_BYTES))) as pdf:
            for number in range(min(len(pdf), _PDF_PAGES)):
                with closing(pdf[number]) as page, closing(page.get_textpage()) as text_page:
                    text = text_page.get_text_bounded()[:left]
                sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
                left -= len(text)
                if left <= 0:
                    break
    except pypdfium2.PdfiumError:
        return


if __name__ == "__main__":
    write_pdf_text()
