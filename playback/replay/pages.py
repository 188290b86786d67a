"""Pages of replay: the copy of a page at a level, from its DOM or, without one, from its source."""

from urllib.parse import urljoin

from core.captures import Capture
from core.records import ArtifactKind
from core.timestamps import timestamp14
from playback.addresses import Memento, Modifier, is_web_url, memento_path
from playback.replay.answers import HTML, NEVER, PDF, Answer, Request, missing, redirect
from playback.replay.context import Context, decode_text, first_playable
from playback.replay.html import image_document, text_document
from playback.replay.index import FoundPage
from playback.replay.making import DocumentJob
from playback.replay.rewriting import Rewriter

_HTML_TYPES = {"text/html", "application/xhtml+xml"}
_TEXT_TYPES = {"text/plain", "application/json", "text/csv", "text/markdown"}
_IMAGE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"}


class Pages:
    """The routes whose answer is a document."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def very_page(self, request: Request) -> Answer:
        """The very capture that is named, also one that is offered to nobody."""
        url = request.memento.url
        page = (
            self._context.index.page(url, request.at, on_purpose=True) if is_web_url(url) else None
        )
        if page is None or page.timestamp != request.memento.timestamp:
            return missing("There is no capture of this page with that very date.")
        return self._shown(request, page)

    def page(self, request: Request) -> Answer:
        """The copy of the page nearest to the moment asked for."""
        url = request.memento.url
        if not is_web_url(url):
            return missing("Only pages of the web are shown here.")
        page = self._context.index.page(url, request.at)
        if page is not None:
            true = Memento(page.timestamp, Modifier.PAGE, page.url)
            if memento_path(true) != memento_path(request.memento):
                return redirect(true)
            return self._shown(request, page)
        return self._source(request, None)

    def _shown(self, request: Request, page: FoundPage) -> Answer:
        dom = self._context.index.artifact(page, ArtifactKind.DOM)
        if dom is not None:
            return self._document(request, dom, page.final_url, was_scripted=True)
        return self._source(request, page)

    def _source(self, request: Request, page: FoundPage | None) -> Answer:
        """The page from its own response, where no DOM of it was kept."""
        url = page.final_url if page is not None else request.memento.url
        of_page = page.page_id if page is not None else None
        capture = first_playable(self._context.index.documents(url, request.at, of_page=of_page))
        if capture is None:
            return missing(NEVER)
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
        rewriter = Rewriter(request.memento.timestamp, base, self._context.front, base)

        def make() -> bytes:
            payload = self._context.archive.load(capture, limit=self._context.limits.html_bytes)
            return self._context.make(DocumentJob(decode_text(payload), rewriter, was_scripted))

        return self._context.made_answer(request, capture, HTML, make)

    def _other_document(self, request: Request, capture: Capture) -> Answer:
        """A main resource that is no HTML: shown as an image or text, or handed out as a PDF."""
        if capture.mime in _IMAGE_TYPES:
            address = Memento(request.memento.timestamp, Modifier.IMAGE, capture.url)
            body = image_document(memento_path(address), capture.url).encode()
            return request.answer(capture, HTML, lambda: body)
        if capture.mime in _TEXT_TYPES:

            def make() -> bytes:
                payload = self._context.archive.load(capture, limit=self._context.limits.text_bytes)
                return text_document(decode_text(payload), capture.url).encode(errors="replace")

            return self._context.made_answer(request, capture, HTML, make)
        if capture.mime == PDF:
            body = self._context.archive.load(capture, limit=self._context.limits.pdf_bytes).body
            # The marker may stand behind other bytes, but not far (ISO 32000-2, annex C.2).
            if b"%PDF-" in body[:1024]:
                name = f"capture-{request.memento.timestamp}.pdf"
                disposition = ("Content-Disposition", f'attachment; filename="{name}"')
                return request.answer(capture, PDF, lambda: body, disposition)
        return missing("Captures of this type are kept, but not shown.")

    def _archived_redirect(self, request: Request, capture: Capture) -> Answer:
        target = urljoin(capture.url, self._context.archive.load(capture, limit=1_000_000).location)
        if target == capture.url or not is_web_url(target):
            return missing("This page led to an address that cannot be shown.")
        return redirect(Memento(request.memento.timestamp, Modifier.PAGE, target))
