"""Page routes: documents, pictures, texts and PDFs at a level, warning pages."""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from html import escape
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin

from core.captures import ArtifactKind, Capture
from core.errors import BodyTooLargeError, PermanentError
from core.media_types import HTML_TYPES, IMAGE_TYPES, PDF, READ_TYPES, TEXT_TYPES
from core.timestamps import timestamp14
from playback.access.control import PageFacts
from playback.access.levels import Level
from playback.access.threat_lists import ListEffect
from playback.replay import replay_context
from playback.replay.resource_routes import download_type, offer_download
from playback.replay.sanitizer import html_document
from playback.replay.sanitizer_pool import DocumentJob, PdfJob
from playback.url_paths import MementoModifier, ReplayUrlRewriter, is_web_url, memento_path, page_path, pdf_page_uri

CONFIRMED_VIEW = "as-captured"  # of the front: the copy, after the warning page


def warn_of_threats(context: replay_context.ReplayContext, request: replay_context.Request, *urls: str) -> None:
    """Answer with the notice shown before a copy when one of its addresses is on a threat list."""
    hit = context.permits.holds.listed(*urls)
    if hit is None or hit.on.effect is not ListEffect.HOLD:
        return
    address = request.memento
    path = page_path(address.timestamp, address.url, view=CONFIRMED_VIEW)
    link = (f"{context.front}{path}", "Show the copy anyway")
    is_on = "is" if hit.is_sure else "may be"
    why = f": {hit.on.reason}" if hit.on.reason else ""
    text = f"It {is_on} on the list {hit.on.name}, as of {hit.on.added_at:%Y-%m-%d}{why}."
    document = html_document.notice_document("This address is on a list", text, link=link)
    raise replay_context.OtherAnswerError(
        replay_context.ReplayResponse(HTTPStatus.FORBIDDEN, replay_context.HTML, document.encode())
    )


_STYLE = (
    ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;margin:0 auto;"
    "max-width:60rem;padding:1rem}figure{margin:0 0 .5rem}img{display:block;width:100%;height:auto;"
    "background:#fff;border:1px solid #8888}h2{font-size:1rem;margin:1.5rem 0 .5rem}"
    "pre{font:inherit;white-space:pre-wrap;overflow-wrap:anywhere}"
)
_ERRORS = {
    "encrypted": "This PDF is encrypted, so it is not shown here.",
    "broken": "This PDF is damaged, so it is not shown here.",
    "too-large": "This PDF is too large to be shown here.",
}


def pdf_document(facts: Mapping[str, Any], title: str, picture: Callable[[int], str] | None) -> str:
    """Return the document that shows a PDF by the facts of `rasterizer.read_pdf`.

    `picture` returns the address of a page's picture; None: only text is shown.
    """
    if (error := _ERRORS.get(facts["error"])) is not None:
        parts = [f"<p>{escape(error)} The original file is archived.</p>"]
    else:
        count, shown = facts["count"], len(facts["pages"])
        pages = "1 page" if count == 1 else f"{count:,} pages"
        presentation = "as pictures with their text" if picture is not None else "as text"
        rest = f" The first {shown:,} are shown; the others are in the file."
        parts = [f"<p>PDF, {pages}, shown {presentation}.{'' if shown == count else rest}</p>"]
        for number, page in enumerate(facts["pages"], 1):
            text = page["text"]
            words = f"<pre>{escape(text)}</pre>" if text else "<p>This page contains no text.</p>"
            parts.append(f'<section id="page-{number}"><h2>Page {number}</h2>')
            if picture is None:
                parts.append(f"{words}</section>")
                continue
            width, height = max(1, round(page["width"])), max(1, round(page["height"]))
            parts.append(
                f'<figure><img src="{escape(picture(number))}" width="{width}" height="{height}"'
                f' loading="lazy" alt="Page {number}"></figure>'
                f"<details><summary>Text of page {number}</summary>{words}</details></section>"
            )
    head = f"<style>{_STYLE}</style>" if picture else f"{html_document.NO_IMAGES}<style>{_STYLE}</style>"
    return html_document.document_frame(title, head, "".join(parts), has_viewport=True)


class PageRoutes:
    """Routes that answer with a document."""

    def __init__(self, context: replay_context.ReplayContext) -> None:
        self._context = context

    def very_page(self, request: replay_context.Request) -> replay_context.ReplayResponse:
        """Answer with the exact capture of the timestamp, also one that is not offered to readers."""
        url = request.memento.url
        page = self._context.index.page(url, request.at, on_purpose=True) if is_web_url(url) else None
        if page is None or page.timestamp != request.memento.timestamp:
            return replay_context.missing("There is no capture of this page with exactly that date.")
        return self._shown(request, page)

    def page(self, request: replay_context.Request) -> replay_context.ReplayResponse:
        """Answer with the copy nearest to the requested moment, at the requested level."""
        url = request.memento.url
        if not is_web_url(url):
            return replay_context.missing("Only http(s) pages are shown here.")
        if (page := self._page_of(request)) is not None:
            return self._shown(request, page)
        warn_of_threats(self._context, request, url)
        return self._source(request, None)

    def _page_of(self, request: replay_context.Request) -> PageFacts | None:
        """Return the page nearest to the moment; redirect to its address, and warn of threats."""
        if (page := self._context.index.page(request.memento.url, request.at)) is None:
            return None
        true = replace(request.memento, timestamp=page.timestamp, url=page.url)
        if memento_path(true) != memento_path(request.memento):
            raise replay_context.OtherAnswerError(replay_context.redirect(true))
        warn_of_threats(self._context, request, page.url, page.final_url)
        return page

    def _shown(self, request: replay_context.Request, page: PageFacts) -> replay_context.ReplayResponse:
        self._context.permits.check_copy(page.page_id)
        request, level = replay_context.limit_level(self._context, request, page.url, page.final_url)
        embedded = self._context.permits.embedded((page.page_id,)).get(page.page_id, ())
        withheld = tuple(sorted({each.url for each in embedded}))
        if withheld:
            # Its own text contains theirs, so at every level it is made from the document.
            changed = zlib.crc32("\n".join(withheld).encode(errors="replace"))
            request = replace(request, variant=f"{request.variant}-{changed:08x}")
        artifact = self._context.index.artifact
        if level is Level.TEXT and not withheld and (text := artifact(page, ArtifactKind.TEXT)) is not None:
            # The page's visible text, as the browser that archived it gave it.
            return self._text(request, text, html_document.reading_document, page.final_url)
        if (dom := artifact(page, ArtifactKind.DOM)) is not None:
            return self._document(request, dom, page.final_url, level, was_scripted=True, withheld=withheld)
        return self._source(request, page)

    def _source(self, request: replay_context.Request, page: PageFacts | None) -> replay_context.ReplayResponse:
        """Make the copy from the page's own response, when no DOM was stored."""
        url = page.final_url if page is not None else request.memento.url
        of_page = page.page_id if page is not None else None
        capture = replay_context.first_playable(self._context.index.documents(url, request.at, of_page=of_page))
        if capture is None:
            return replay_context.missing(replay_context.NEVER)
        timestamp = timestamp14(capture.captured_at)
        if page is None and timestamp != request.memento.timestamp:
            return replay_context.redirect(replace(request.memento, timestamp=timestamp, url=capture.url))
        urls = (capture.url,) if page is None else (page.url, page.final_url)
        request, level = replay_context.limit_level(self._context, request, *urls)
        if capture.status is not None and 300 <= capture.status < 400:
            target = urljoin(capture.url, self._context.archive.load(capture, limit=1_000_000).location)
            if target == capture.url or not is_web_url(target):
                return replay_context.missing("This page led to an address that cannot be shown.")
            address = request.memento
            modifier = address.modifier if address.level is not None else MementoModifier.PAGE
            return replay_context.redirect(replace(address, modifier=modifier, url=target))
        if capture.mime in HTML_TYPES:
            return self._document(request, capture, capture.url, level, was_scripted=False)
        return self._other_document(request, capture, level)

    def _document(
        self,
        request: replay_context.Request,
        capture: Capture,
        base: str,
        level: Level,
        *,
        was_scripted: bool,
        withheld: tuple[str, ...] = (),
    ) -> replay_context.ReplayResponse:
        address = request.memento
        rewriter = ReplayUrlRewriter(
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
            return DocumentJob(replay_context.decode_text(payload), rewriter, was_scripted, level)

        return self._context.made_answer(request, capture, replay_context.HTML, lambda: self._context.make(prepare))

    def _text(
        self, request: replay_context.Request, capture: Capture, document: Callable[[str, str], str], title: str
    ) -> replay_context.ReplayResponse:
        def make() -> bytes:
            payload = self._context.archive.load(capture, limit=self._context.limits.text_bytes)
            return document(replay_context.decode_text(payload), title).encode(errors="replace")

        return self._context.made_answer(request, capture, replay_context.HTML, make)

    def _other_document(
        self, request: replay_context.Request, capture: Capture, level: Level
    ) -> replay_context.ReplayResponse:
        """Answer with a main resource that is not HTML: image, text, PDF or download."""
        if capture.mime in TEXT_TYPES:
            return self._text(request, capture, html_document.text_document, capture.url)
        if capture.mime == PDF:
            return self._pdf(request, capture, level)
        if not level.covers(Level.IMAGES):
            return replay_context.missing("This is not text, and only text is shown at this level.")
        if capture.mime in IMAGE_TYPES:
            address = replace(request.memento, modifier=MementoModifier.IMAGE, url=capture.url)
            body = html_document.image_document(memento_path(address), capture.url).encode()
            return request.answer(capture, replay_context.HTML, lambda: body)
        if (offered := offer_download(self._context, request, capture)) is not None:
            return offered
        return replay_context.missing("Captures of this type are archived, but not shown.")

    def _pdf(self, request: replay_context.Request, capture: Capture, level: Level) -> replay_context.ReplayResponse:
        """Answer with a PDF page by page, as text and, where the level shows images, as pictures."""
        has_pictures = level.covers(Level.IMAGES)

        def prepare() -> PdfJob:
            body = self._context.archive.load(capture, limit=self._context.limits.pdf_shown_bytes).body
            if download_type(body[:1024]) != PDF:
                raise PermanentError("A body that only claims to be a PDF.")
            return PdfJob(body)

        def picture(number: int) -> str:
            uri = pdf_page_uri(number, capture.url)
            return memento_path(replace(request.memento, modifier=MementoModifier.IMAGE, url=uri))

        def make() -> bytes:
            try:
                facts = json.loads(self._context.make(prepare))
            except BodyTooLargeError:
                facts = {"error": "too-large", "count": 0, "pages": []}
            return pdf_document(facts, capture.url, picture if has_pictures else None).encode(errors="replace")

        return self._context.made_answer(request, capture, replay_context.HTML, make)

    def file(self, request: replay_context.Request) -> replay_context.ReplayResponse:
        """Answer with the original file of a page that is shown in another form, e.g. a PDF."""
        url = request.memento.url
        if not is_web_url(url):
            return replay_context.missing("Only http(s) files can be downloaded.")
        if (page := self._page_of(request)) is not None:
            self._context.permits.check_copy(page.page_id)
        target = url if page is None else page.final_url
        of_page = None if page is None else page.page_id
        capture = replay_context.first_playable(self._context.index.documents(target, request.at, of_page=of_page))
        if capture is None or capture.mime in READ_TYPES - {PDF}:
            return replay_context.missing("There is no file to download at this address.")
        rules, wiki = self._context.levels.now(), request.memento.wiki
        urls = (capture.url,) if page is None else (page.url, page.final_url)
        if not rules.of_page(urls, wiki).covers(Level.IMAGES):
            return replay_context.missing("Files cannot be downloaded at this level.")
        offered = offer_download(self._context, request, capture)
        return offered or replay_context.missing("There is no file to download at this address.")
