"""What replay answers: one WSGI application, four routes, everything else 404.

It is put together from pywb's record loaders rather than from its FrontEndApp and RewriterApp.
Those would bring a second, unauthenticated HTTP server on a free port, routes by the dozen, and for
each request a second parse of the record and a rewriter that is no sanitiser; of their answer nothing
would be kept. The gate (`playback.replay.gate`) must stand around this application.
"""

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from http import HTTPStatus
from urllib.parse import urljoin
from wsgiref.types import StartResponse, WSGIEnvironment

# In the replay environment only, where mypy does not run.
import webencodings  # type: ignore[import-untyped]

from core.captures import Capture
from core.errors import BodyTooLargeError, InputError, PermanentError, TransientError
from core.records import ArtifactKind, RecordType, parse_artifact_uri
from core.timestamps import parse_timestamp14, timestamp14
from playback.addresses import Memento, Modifier, is_web_url, memento_path, parse_memento_path
from playback.replay.answers import (
    CSS,
    HTML,
    PDF,
    TEXT,
    Answer,
    Request,
    absent,
    missing,
    notice,
    redirect,
)
from playback.replay.archive import Archive, Payload
from playback.replay.cache import ByteCache
from playback.replay.html import (
    SANITISER_VERSION,
    image_document,
    text_document,
)
from playback.replay.images import image_type
from playback.replay.index import CaptureIndex, FoundPage
from playback.replay.making import DocumentJob, Make, SheetJob
from playback.replay.rewriting import Rewriter

_LOG = logging.getLogger(__name__)

_HTML_TYPES = {"text/html", "application/xhtml+xml"}
_TEXT_TYPES = {"text/plain", "application/json", "text/csv", "text/markdown"}
_IMAGE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"}
_PICTURES = {ArtifactKind.VIEW, ArtifactKind.FULL_PAGE, ArtifactKind.THUMBNAIL}
_MOST_REDIRECTS = 5
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE
)
_META_PRESCAN = 1024  # bytes; HTML, 13.2.3.2


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of anything is shown (P-21); decoded bytes."""

    html_bytes: int = 10_000_000
    css_bytes: int = 1_000_000
    text_bytes: int = 10_000_000
    image_bytes: int = 32_000_000
    pdf_bytes: int = 64_000_000
    cache_bytes: int = 64_000_000
    window: timedelta = timedelta(days=30)  # how far from its page a part may be captured (P-10)


class Replay:
    """The application.

    Args:
        index: which captures there are.
        archive: what they hold.
        front_origin: where a page's links lead.
        limits: how much is shown.
        make: what makes documents and style sheets safe.
    """

    def __init__(
        self,
        index: CaptureIndex,
        archive: Archive,
        *,
        front_origin: str,
        limits: Limits,
        make: Make,
    ) -> None:
        self._index = index
        self._archive = archive
        self._front = front_origin
        self._limits = limits
        self._make = make
        self._made = ByteCache(limits.cache_bytes)
        self._routes = {
            Modifier.PAGE: self._page,
            Modifier.VERY: self._very_page,
            Modifier.IMAGE: self._image,
            Modifier.STYLE: self._style,
            Modifier.TEXT: self._text,
        }

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request (PEP 3333)."""
        answer = self._answer(environ.get("REQUEST_URI", ""), environ.get("HTTP_IF_NONE_MATCH", ""))
        status = f"{answer.status.value} {answer.status.phrase}"
        start_response(status, [("Content-Type", answer.content_type), *answer.headers])
        return [answer.body]

    def _answer(self, target: str, known_etags: str) -> Answer:
        memento = parse_memento_path(target)
        if memento is None:
            return missing("There is nothing at this address.")
        try:
            request = Request(memento, _moment(memento.timestamp), known_etags)
            return self._routes[memento.modifier](request)
        except InputError:
            return missing("This address names no moment.")
        except BodyTooLargeError:
            return missing("This capture is too large to be shown.")
        except PermanentError as error:
            _LOG.warning("replay.record_unusable: %s", error)
            return missing("This capture cannot be read.")
        except TransientError as error:
            _LOG.warning("replay.index_unavailable: %s", error)
            return notice(HTTPStatus.SERVICE_UNAVAILABLE, "Not now", "Try again in a moment.")

    # -- pages ------------------------------------------------------------------------------------

    def _very_page(self, request: Request) -> Answer:
        """The very capture that is named, also one that is offered to nobody."""
        url = request.memento.url
        page = self._index.page(url, request.at, on_purpose=True) if is_web_url(url) else None
        if page is None or page.timestamp != request.memento.timestamp:
            return missing("There is no capture of this page with that very date.")
        return self._shown(request, page)

    def _page(self, request: Request) -> Answer:
        url = request.memento.url
        if not is_web_url(url):
            return missing("Only pages of the web are shown here.")
        page = self._index.page(url, request.at)
        if page is not None:
            if page.timestamp != request.memento.timestamp:
                return redirect(Memento(page.timestamp, Modifier.PAGE, url))
            return self._shown(request, page)
        return self._source(request, None)

    def _shown(self, request: Request, page: FoundPage) -> Answer:
        dom = self._index.artifact(page, ArtifactKind.DOM)
        if dom is not None:
            return self._document(request, dom, page.final_url, was_scripted=True)
        return self._source(request, page)

    def _source(self, request: Request, page: FoundPage | None) -> Answer:
        """The page from its own response, where no DOM of it was kept."""
        url = page.final_url if page is not None else request.memento.url
        of_page = page.page_id if page is not None else None
        capture = _first_playable(self._index.documents(url, request.at, of_page=of_page))
        if capture is None:
            return missing("This page was not captured, or not as its readers saw it.")
        timestamp = timestamp14(capture.captured_at)
        if page is None and timestamp != request.memento.timestamp:
            return redirect(Memento(timestamp, Modifier.PAGE, capture.url))
        if capture.status is not None and 300 <= capture.status < 400:
            return self._archived_redirect(request, capture)
        if capture.mime in _HTML_TYPES:
            return self._document(request, capture, capture.url, was_scripted=False)
        return self._other_document(request, capture)

    def _document(
        self, request: Request, capture: Capture, base: str, *, was_scripted: bool
    ) -> Answer:
        rewriter = Rewriter(request.memento.timestamp, base, self._front, base)

        def make() -> bytes:
            payload = self._archive.load(capture, limit=self._limits.html_bytes)
            return self._make(DocumentJob(_decode_text(payload), rewriter, was_scripted))

        return self._made_answer(request, capture, HTML, make)

    def _other_document(self, request: Request, capture: Capture) -> Answer:
        """A main resource that is no HTML: shown as an image or text, or handed out as a PDF."""
        if capture.mime in _IMAGE_TYPES:
            address = Memento(request.memento.timestamp, Modifier.IMAGE, capture.url)
            body = image_document(memento_path(address), capture.url).encode()
            return request.answer(capture, HTML, lambda: body)
        if capture.mime in _TEXT_TYPES:

            def make() -> bytes:
                payload = self._archive.load(capture, limit=self._limits.text_bytes)
                return text_document(_decode_text(payload), capture.url).encode(errors="replace")

            return self._made_answer(request, capture, HTML, make)
        if capture.mime == PDF:
            body = self._archive.load(capture, limit=self._limits.pdf_bytes).body
            # The marker may stand behind other bytes, but not far (ISO 32000-2, annex C.2).
            if b"%PDF-" in body[:1024]:
                name = f"capture-{request.memento.timestamp}.pdf"
                disposition = ("Content-Disposition", f'attachment; filename="{name}"')
                return request.answer(capture, PDF, lambda: body, disposition)
        return missing("Captures of this type are kept, but not shown.")

    def _archived_redirect(self, request: Request, capture: Capture) -> Answer:
        target = urljoin(capture.url, self._archive.load(capture, limit=1_000_000).location)
        if target == capture.url or not is_web_url(target):
            return missing("This page led to an address that cannot be shown.")
        return redirect(Memento(request.memento.timestamp, Modifier.PAGE, target))

    # -- parts ------------------------------------------------------------------------------------

    def _image(self, request: Request) -> Answer:
        artifact = parse_artifact_uri(request.memento.url)
        if artifact is None and not is_web_url(request.memento.url):
            return absent()
        if artifact is not None and artifact[0] not in _PICTURES:
            return absent()
        found = self._part(request, self._limits.image_bytes)
        if found is None:
            return absent()
        capture, load = found
        known = request.answer(capture, "image/png", bytes)  # any image: of a 304 no type is sent
        if known.status is HTTPStatus.NOT_MODIFIED:
            return known
        body = load().body
        media_type = image_type(body)
        return absent() if media_type is None else request.answer(capture, media_type, lambda: body)

    def _style(self, request: Request) -> Answer:
        if not is_web_url(request.memento.url):
            return absent()
        found = self._part(request, self._limits.css_bytes)
        if found is None:
            return absent()
        capture, load = found
        if capture.mime not in {"text/css", "text/plain", ""}:
            return absent()
        rewriter = Rewriter(request.memento.timestamp, capture.url, self._front)

        def make() -> bytes:
            payload = load()
            named = _CHARSET.search(payload.content_type)
            return self._make(SheetJob(payload.body, named[1] if named else None, rewriter))

        return self._made_answer(request, capture, CSS, make)

    def _text(self, request: Request) -> Answer:
        artifact = parse_artifact_uri(request.memento.url)
        if artifact is None or artifact[0] is not ArtifactKind.TEXT:
            return absent()
        found = self._part(request, self._limits.text_bytes)
        if found is None:
            return absent()
        capture, load = found
        return request.answer(capture, TEXT, lambda: load().body.decode(errors="replace").encode())

    def _part(self, request: Request, limit: int) -> tuple[Capture, Callable[[], Payload]] | None:
        """The capture of a page's part near the page's moment, redirects followed."""
        url, seen = request.memento.url, set[str]()
        while url not in seen and len(seen) <= _MOST_REDIRECTS:
            seen.add(url)
            captures: Iterable[Capture] = self._index.captures(
                url, request.at, window=self._limits.window
            )
            if url.startswith("urn:"):  # a screenshot is evidence for one URL, not for its key
                captures = (each for each in captures if each.url == url)
            capture = _first_playable(captures)
            if capture is None:
                return None
            if capture.status is None or capture.status < 300:
                return capture, partial(self._archive.load, capture, limit=limit)
            url = urljoin(capture.url, self._archive.load(capture, limit=1_000_000).location)
        return None

    def _made_answer(
        self, request: Request, capture: Capture, content_type: str, make: Callable[[], bytes]
    ) -> Answer:
        """What is made of a capture; made once."""
        place = (capture.location.filename, capture.location.offset)
        key = (place, request.memento.timestamp, content_type, SANITISER_VERSION)
        return request.answer(capture, content_type, lambda: self._made.get(key, make))


# A page's parts all name its moment, and reading one takes longer than finding a capture.
_moment = lru_cache(maxsize=256)(parse_timestamp14)


def _first_playable(captures: Iterable[Capture]) -> Capture | None:
    """The first capture that succeeded or redirected; artifacts have no status."""
    for capture in captures:
        if capture.status is None and capture.record_type is RecordType.RESOURCE:
            return capture
        if capture.status is not None and 200 <= capture.status < 400 and capture.status != 304:
            return capture
    return None


def _decode_text(payload: Payload) -> str:
    """By byte order mark, HTTP charset, meta element; else UTF-8 or, failing that, windows-1252."""
    named = _CHARSET.search(payload.content_type)
    label = named[1] if named else ""
    if not label and (meta := _META_CHARSET.search(payload.body[:_META_PRESCAN])):
        label = meta[1].decode("ascii")
        if label.lower().startswith("utf-16"):
            label = "utf-8"  # HTML, 13.2.3.2: a meta element cannot be read in UTF-16
    encoding = webencodings.lookup(label) if label else None
    if encoding is None:
        try:
            return payload.body.decode("utf-8-sig")
        except UnicodeDecodeError:
            encoding = webencodings.lookup("windows-1252")
    text: str = webencodings.decode(payload.body, encoding, "replace")[0]
    return text
