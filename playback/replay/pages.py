"""Pages of replay: the copy of a page at a level, from its DOM or, without one, from its source."""

from dataclasses import replace
from urllib.parse import urljoin

from core.captures import Capture
from core.records import ArtifactKind
from core.timestamps import timestamp14
from playback.addresses import Modifier, is_web_url, memento_path
from playback.decisions.levels import Level
from playback.kinds import HTML_TYPES, IMAGE_TYPES, TEXT_TYPES
from playback.replay.answers import HTML, NEVER, Answer, Request, missing, redirect
from playback.replay.context import Context, decode_text, first_playable
from playback.replay.downloads import Downloads
from playback.replay.html import image_document, reading_document, text_document
from playback.replay.index import FoundPage
from playback.replay.leveling import leveled
from playback.replay.listed import warned
from playback.replay.making import DocumentJob
from playback.replay.rewriting import Rewriter


class Pages:
    """The routes whose answer is a document."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._downloads = Downloads(context)

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
        """The copy of the page nearest to the moment asked for, at the level asked for."""
        url = request.memento.url
        if not is_web_url(url):
            return missing("Only pages of the web are shown here.")
        page = self._context.index.page(url, request.at)
        if page is not None:
            true = replace(request.memento, timestamp=page.timestamp, url=page.url)
            if memento_path(true) != memento_path(request.memento):
                return redirect(true)
            notice = warned(self._context, request, page.url, page.final_url)
            return notice or self._shown(request, page)
        return warned(self._context, request, url) or self._source(request, None)

    def _shown(self, request: Request, page: FoundPage) -> Answer:
        self._context.permits.check_copy(page.page_id)
        found = leveled(self._context, request, page.url, page.final_url)
        if isinstance(found, Answer):
            return found
        request, level = found
        if level is Level.TEXT:
            text = self._context.index.artifact(page, ArtifactKind.TEXT)
            if text is not None:
                return self._reading(request, text, page.final_url)
        dom = self._context.index.artifact(page, ArtifactKind.DOM)
        if dom is not None:
            return self._document(request, dom, page.final_url, level, was_scripted=True)
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
            return redirect(replace(request.memento, timestamp=timestamp, url=capture.url))
        urls = (capture.url,) if page is None else (page.url, page.final_url)
        found = leveled(self._context, request, *urls)
        if isinstance(found, Answer):
            return found
        request, level = found
        if capture.status is not None and 300 <= capture.status < 400:
            return self._archived_redirect(request, capture)
        if capture.mime in HTML_TYPES:
            return self._document(request, capture, capture.url, level, was_scripted=False)
        return self._other_document(request, capture, level)

    def _reading(self, request: Request, capture: Capture, title: str) -> Answer:
        """The page's visible text, as the browser that archived it gave it."""

        def make() -> bytes:
            payload = self._context.archive.load(capture, limit=self._context.limits.text_bytes)
            return reading_document(decode_text(payload), title).encode(errors="replace")

        return self._context.made_answer(request, capture, HTML, make)

    def _document(
        self, request: Request, capture: Capture, base: str, level: Level, *, was_scripted: bool
    ) -> Answer:
        address = request.memento
        rewriter = Rewriter(
            address.timestamp,
            base,
            self._context.front,
            base,
            wiki=address.wiki,
            level=address.level,
            has_fonts=self._context.has_fonts,
        )

        def make() -> bytes:
            payload = self._context.archive.load(capture, limit=self._context.limits.html_bytes)
            text = decode_text(payload)
            return self._context.make(DocumentJob(text, rewriter, was_scripted, level))

        return self._context.made_answer(request, capture, HTML, make)

    def _other_document(self, request: Request, capture: Capture, level: Level) -> Answer:
        """A main resource that is no HTML: shown as an image or text, or handed out as a PDF."""
        if capture.mime in TEXT_TYPES:

            def make() -> bytes:
                payload = self._context.archive.load(capture, limit=self._context.limits.text_bytes)
                return text_document(decode_text(payload), capture.url).encode(errors="replace")

            return self._context.made_answer(request, capture, HTML, make)
        if not level.covers(Level.IMAGES):
            return missing("This is no text, and only text is shown at this level.")
        if capture.mime in IMAGE_TYPES:
            address = replace(request.memento, modifier=Modifier.IMAGE, url=capture.url)
            body = image_document(memento_path(address), capture.url).encode()
            return request.answer(capture, HTML, lambda: body)
        offered = self._downloads.offer(request, capture)
        if offered is not None:
            return offered
        return missing("Captures of this type are kept, but not shown.")

    def _archived_redirect(self, request: Request, capture: Capture) -> Answer:
        target = urljoin(capture.url, self._context.archive.load(capture, limit=1_000_000).location)
        if target == capture.url or not is_web_url(target):
            return missing("This page led to an address that cannot be shown.")
        address = request.memento
        kept = address.modifier if address.level is not None else Modifier.PAGE
        return redirect(replace(address, modifier=kept, url=target))
