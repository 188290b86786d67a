"""Parts of pages: images, style sheets, fonts and plain texts, near the moment of the page that shows them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from urllib.parse import urljoin

from core.captures import Capture
from core.errors import BodyTooLargeError, PermanentError
from core.records import ArtifactKind, parse_artifact_uri
from playback.addresses import Modifier, is_web_url, parse_pdf_page
from playback.kinds import PDF
from playback.replay.answers import CSS, MASK, TEXT, Answer, Request, absent
from playback.replay.archive import Payload
from playback.replay.context import CHARSET, Context, first_playable
from playback.replay.fonts import FONT_TYPES, font_type
from playback.replay.images import image_type
from playback.replay.leveling import loads_font, loads_mask, shows_image
from playback.replay.making import PdfJob, RasterJob, SheetJob
from playback.replay.rewriting import Rewriter
from playback.replay.sniffing import raster_kind

_PICTURES = {ArtifactKind.VIEW, ArtifactKind.FULL_PAGE, ArtifactKind.THUMBNAIL}
_MOST_REDIRECTS = 5


class Parts:
    """The routes whose answer is no document."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def image(self, request: Request) -> Answer:
        """An image of a page, one of its screenshots, or a page of a PDF."""
        pdf_page = parse_pdf_page(request.memento.url)
        return self._image(request) if pdf_page is None else self._pdf_page(request, *pdf_page)

    def _image(self, request: Request) -> Answer:
        artifact = parse_artifact_uri(request.memento.url)
        named = is_web_url(request.memento.url) if artifact is None else artifact[0] in _PICTURES
        if not named:
            return absent()
        found = self._part(request, self._context.limits.image_bytes)
        if found is None:
            return absent()
        capture, load = found
        if not shows_image(self._context, request, capture, artifact):
            return absent()
        if request.known_etags:
            # Any image: of a 304 no type is sent.
            known = request.answer(capture, "image/png", bytes)
            if known.status is HTTPStatus.NOT_MODIFIED:
                return known
        body = load().body
        media_type = image_type(body)
        if media_type is None and raster_kind(body) is not None:
            del body
            return self._drawn(request, capture, load)
        return absent() if media_type is None else request.answer(capture, media_type, lambda: body)

    def _pdf_page(self, request: Request, number: int, url: str) -> Answer:
        """A page of a PDF, drawn."""
        named = replace(request, memento=replace(request.memento, url=url))
        found = self._part(named, self._context.limits.pdf_shown_bytes)
        if found is None:
            return absent()
        capture, load = found
        if capture.mime != PDF or not shows_image(self._context, named, capture, None):
            return absent()

        def make() -> bytes:
            try:
                return self._context.make(lambda: PdfJob(load().body, number))
            except BodyTooLargeError:
                return b""

        answer = self._context.made_answer(request, capture, "image/webp", make)
        known = answer.status is HTTPStatus.NOT_MODIFIED
        return answer if answer.body or known else absent()

    def _drawn(self, request: Request, capture: Capture, load: Callable[[], Payload]) -> Answer:
        """A picture that no browser is handed as it is, drawn as PNG (P-02)."""

        def make() -> bytes:
            try:
                return self._context.make(lambda: RasterJob(load().body))
            except PermanentError:
                return b""  # kept, so that a picture made to be slow is slow once

        answer = self._context.made_answer(request, capture, "image/png", make)
        return answer if answer.body else absent()

    def mask(self, request: Request) -> Answer:
        """The shape of a small image, for a style sheet that masks with it."""
        if not is_web_url(request.memento.url):
            return absent()
        found = self._part(request, self._context.limits.mask_bytes)
        if found is None:
            return absent()
        capture, load = found
        if not loads_mask(self._context, request, capture):
            return absent()

        def make() -> bytes:
            try:
                return self._context.make(lambda: RasterJob(load().body, is_mask=True))
            except (BodyTooLargeError, PermanentError):
                return b""

        answer = self._context.made_answer(request, capture, MASK, make)
        known = answer.status is HTTPStatus.NOT_MODIFIED
        return answer if answer.body or known else absent()

    def style(self, request: Request) -> Answer:
        """A style sheet, filtered."""
        if not is_web_url(request.memento.url):
            return absent()
        found = self._part(request, self._context.limits.css_bytes)
        if found is None:
            return absent()
        capture, load = found
        if capture.mime not in {"text/css", "text/plain", ""}:
            return absent()
        is_whole = request.memento.modifier is Modifier.STYLE
        rewriter = Rewriter(
            request.memento.timestamp,
            capture.url,
            self._context.front,
            wiki=request.memento.wiki,
            has_images=is_whole,
            has_fonts=is_whole and self._context.has_fonts,
        )

        def prepare() -> SheetJob:
            payload = load()
            named = CHARSET.search(payload.content_type)
            return SheetJob(payload.body, named[1] if named else None, rewriter)

        return self._context.made_answer(request, capture, CSS, lambda: self._context.make(prepare))

    def font(self, request: Request) -> Answer:
        """A font of a page, as it was archived; absent where fonts are switched off."""
        if not self._context.has_fonts or not is_web_url(request.memento.url):
            return absent()
        found = self._part(request, self._context.limits.font_bytes)
        if found is None:
            return absent()
        capture, load = found
        if not loads_font(self._context, request, capture):
            return absent()
        if request.known_etags:
            known = request.answer(capture, FONT_TYPES[0], bytes)  # any: of a 304 no type is sent
            if known.status is HTTPStatus.NOT_MODIFIED:
                return known
        try:
            body = load().body
        except BodyTooLargeError:
            return absent()
        media_type = font_type(body)
        return absent() if media_type is None else request.answer(capture, media_type, lambda: body)

    def text(self, request: Request) -> Answer:
        """The visible text of a page."""
        artifact = parse_artifact_uri(request.memento.url)
        if artifact is None or artifact[0] is not ArtifactKind.TEXT:
            return absent()
        found = self._part(request, self._context.limits.text_bytes)
        if found is None:
            return absent()
        capture, load = found
        return request.answer(capture, TEXT, lambda: load().body.decode(errors="replace").encode())

    def _part(self, request: Request, limit: int) -> tuple[Capture, Callable[[], Payload]] | None:
        """The capture of a page's part near the page's moment, redirects followed."""
        url, seen = request.memento.url, set[str]()
        while url not in seen and len(seen) <= _MOST_REDIRECTS:
            seen.add(url)
            captures: Iterable[Capture] = self._context.index.captures(
                url, request.at, window=self._context.limits.window
            )
            if url.startswith("urn:"):  # a screenshot is evidence for one URL, not for its key
                captures = (each for each in captures if each.url == url)
            capture = first_playable(captures)
            if capture is None:
                return None
            if capture.status is None or capture.status < 300:
                return capture, partial(self._context.archive.load, capture, limit=limit)
            url = urljoin(
                capture.url, self._context.archive.load(capture, limit=1_000_000).location
            )
        return None
