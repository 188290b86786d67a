"""Pages of replay: the copy of a page at a level, from its DOM or, without one, from its source."""

import json
import zlib
from dataclasses import replace
from urllib.parse import urljoin

from core.captures import Capture
from core.errors import BodyTooLargeError, PermanentError
from core.records import ArtifactKind
from core.timestamps import timestamp14
from playback.addresses import Modifier, is_web_url, memento_path, pdf_page_uri
from playback.decisions.levels import Level
from playback.kinds import HTML_TYPES, IMAGE_TYPES, PDF, READ_TYPES, TEXT_TYPES
from playback.replay.answers import HTML, NEVER, Answer, Request, missing, redirect
from playback.replay.context import Context, decode_text, first_playable
from playback.replay.downloads import Downloads, download_type
from playback.replay.html import image_document, reading_document, text_document
from playback.replay.index import FoundPage
from playback.replay.leveling import leveled
from playback.replay.listed import warned
from playback.replay.making import DocumentJob, PdfJob
from playback.replay.pdf_document import pdf_document
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
        page = self._page_of(request)
        if isinstance(page, Answer):
            return page
        if page is not None:
            return self._shown(request, page)
        return warned(self._context, request, url) or self._source(request, None)

    def _page_of(self, request: Request) -> FoundPage | Answer | None:
        """Return the page nearest to the moment, or the answer that leads to it or warns of it."""
        page = self._context.index.page(request.memento.url, request.at)
        if page is None:
            return None
        true = replace(request.memento, timestamp=page.timestamp, url=page.url)
        if memento_path(true) != memento_path(request.memento):
            return redirect(true)
        return warned(self._context, request, page.url, page.final_url) or page

    def _shown(self, request: Request, page: FoundPage) -> Answer:
        self._context.permits.check_copy(page.page_id)
        found = leveled(self._context, request, page.url, page.final_url)
        if isinstance(found, Answer):
            return found
        request, level = found
        embedded = self._context.permits.embedded((page.page_id,)).get(page.page_id, ())
        withheld = tuple(sorted({each.url for each in embedded}))
        if withheld:
            # Its own text holds theirs, so at every level it is made of the document.
            changed = zlib.crc32("\n".join(withheld).encode(errors="replace"))
            request = replace(request, variant=f"{request.variant}-{changed:08x}")
        if level is Level.TEXT and not withheld:
            text = self._context.index.artifact(page, ArtifactKind.TEXT)
            if text is not None:
                return self._reading(request, text, page.final_url)
        dom = self._context.index.artifact(page, ArtifactKind.DOM)
        if dom is not None:
            return self._document(
                request, dom, page.final_url, level, was_scripted=True, withheld=withheld
            )
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
        self,
        request: Request,
        capture: Capture,
        base: str,
        level: Level,
        *,
        was_scripted: bool,
        withheld: tuple[str, ...] = (),
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
            withheld=withheld,
        )

        def prepare() -> DocumentJob:
            payload = self._context.archive.load(capture, limit=self._context.limits.html_bytes)
            return DocumentJob(decode_text(payload), rewriter, was_scripted, level)

        return self._context.made_answer(
            request, capture, HTML, lambda: self._context.make(prepare)
        )

    def _other_document(self, request: Request, capture: Capture, level: Level) -> Answer:
        """A main resource that is no HTML: shown as an image, as text or page by page, or handed out."""
        if capture.mime in TEXT_TYPES:

            def make() -> bytes:
                payload = self._context.archive.load(capture, limit=self._context.limits.text_bytes)
                return text_document(decode_text(payload), capture.url).encode(errors="replace")

            return self._context.made_answer(request, capture, HTML, make)
        if capture.mime == PDF:
            return self._pdf(request, capture, level)
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

    def _pdf(self, request: Request, capture: Capture, level: Level) -> Answer:
        """A PDF page by page, as pictures where the level shows images, and as text."""
        has_pictures = level.covers(Level.IMAGES)

        def prepare() -> PdfJob:
            limit = self._context.limits.pdf_shown_bytes
            body = self._context.archive.load(capture, limit=limit).body
            if download_type(body[:1024]) != PDF:
                raise PermanentError("A body that only claims to be a PDF.")
            return PdfJob(body)

        def picture(number: int) -> str:
            uri = pdf_page_uri(number, capture.url)
            return memento_path(replace(request.memento, modifier=Modifier.IMAGE, url=uri))

        def make() -> bytes:
            try:
                facts = json.loads(self._context.make(prepare))
            except BodyTooLargeError:
                facts = {"error": "too-large", "count": 0, "pages": []}
            document = pdf_document(facts, capture.url, picture if has_pictures else None)
            return document.encode(errors="replace")

        return self._context.made_answer(request, capture, HTML, make)

    def file(self, request: Request) -> Answer:
        """The file itself, of a page that is shown in another way, such as a PDF."""
        url = request.memento.url
        if not is_web_url(url):
            return missing("Only files of the web are handed out.")
        page = self._page_of(request)
        if isinstance(page, Answer):
            return page
        if page is not None:
            self._context.permits.check_copy(page.page_id)
        target = url if page is None else page.final_url
        of_page = None if page is None else page.page_id
        capture = first_playable(self._context.index.documents(target, request.at, of_page=of_page))
        if capture is None or capture.mime in READ_TYPES - {PDF}:
            return missing("There is no file to hand out at this address.")
        rules, wiki = self._context.levels.now(), request.memento.wiki
        urls = (capture.url,) if page is None else (page.url, page.final_url)
        if not rules.of_page(urls, wiki).covers(Level.IMAGES):
            return missing("Files are not handed out at this level.")
        offered = self._downloads.offer(request, capture)
        return offered or missing("There is no file to hand out at this address.")

    def _archived_redirect(self, request: Request, capture: Capture) -> Answer:
        target = urljoin(capture.url, self._context.archive.load(capture, limit=1_000_000).location)
        if target == capture.url or not is_web_url(target):
            return missing("This page led to an address that cannot be shown.")
        address = request.memento
        kept = address.modifier if address.level is not None else Modifier.PAGE
        return redirect(replace(address, modifier=kept, url=target))
