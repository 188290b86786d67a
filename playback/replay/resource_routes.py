"""Resource routes: images, style sheets, fonts, texts, and downloads with byte ranges.

Media types are detected from the bytes, file names are neutral, and bodies are streamed unless they have a
content coding (P-16, P-21).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from itertools import chain
from urllib.parse import urljoin

from core.captures import ArtifactKind, Capture, parse_artifact_uri
from core.errors import BodyTooLargeError, PermanentError
from core.media_types import FONT_TYPE, PDF, charset_of
from playback.replay import replay_context
from playback.replay.archive import Payload
from playback.replay.sanitizer.media_sniffer import image_type, raster_kind
from playback.replay.sanitizer_pool import FontJob, Job, PdfJob, RasterJob, SheetJob
from playback.url_paths import MementoModifier, ReplayUrlRewriter, is_web_url, parse_pdf_page

_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})", re.ASCII)


class UnsatisfiableRangeError(Exception):
    """Range that begins after the end of the body."""


def parse_range(text: str, if_range: str, etag: str, size: int) -> tuple[int, int] | None:
    """Return the first byte of the range and the one after the last; None for the whole body.

    Several ranges, other units, malformed ranges and a range of another version than `etag` are ignored (RFC 9110,
    13.1.5 and 14.2). One beyond the end raises UnsatisfiableRangeError, for a 416.

    >>> parse_range("bytes=2-", "", '"a"', 10), parse_range("bytes=-3", "", '"a"', 10)
    ((2, 10), (7, 10))
    """
    match = _RANGE.fullmatch(text)
    if match is None or (if_range and if_range != etag):
        return None
    first, last = match[1], match[2]
    if not first:
        if not last:
            return None
        length = min(int(last), size)
        if length == 0:
            raise UnsatisfiableRangeError
        return size - length, size
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        raise UnsatisfiableRangeError
    return int(first), min(int(last) + 1, size) if last else size


_EXTENSIONS = {
    PDF: "pdf",
    "audio/mpeg": "mp3",
    "audio/flac": "flac",
    "audio/wav": "wav",
    "video/mp4": "mp4",
    "video/webm": "webm",
    "application/ogg": "ogg",
}


def download_type(head: bytes) -> str | None:
    """Return the media type of a file with that beginning; None when it is not offered."""
    # The marker may follow other bytes, but not many (ISO 32000-2, annex C.2).
    if b"%PDF-" in head[:1024]:
        return PDF
    if head[4:8] == b"ftyp" and head[8:12] not in {b"avif", b"avis", b"mif1", b"heic"}:
        return "video/mp4"
    for marker, kind in (
        (b"\x1aE\xdf\xa3", "video/webm"),
        (b"OggS\0", "application/ogg"),
        (b"fLaC", "audio/flac"),
        (b"ID3", "audio/mpeg"),
    ):
        if head.startswith(marker):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "audio/wav"
    # A frame of MPEG-1 or 2, layer III, with a bit rate and a sampling rate that exist.
    if (
        len(head) > 3
        and head[0] == 0xFF
        and head[1] & 0xE6 == 0xE2
        and head[2] & 0xF0 not in {0x00, 0xF0}
        and head[2] & 0x0C != 0x0C
    ):
        return "audio/mpeg"
    return None


def offer_download(
    context: replay_context.ReplayContext, request: replay_context.Request, capture: Capture, *, is_part: bool = False
) -> replay_context.ReplayResponse | None:
    """Return the capture as a download, or the requested range; None when it is not offered.

    With `is_part` it is sound or film for a player within a page. Raises TakenDownError: it must not be sent, e.g.
    because it was not scanned yet; PermanentError: it cannot be read, or is too large.
    """
    context.permits.download(capture)
    unchanged_type = "video/mp4; role=part" if is_part else PDF
    if (known := request.unchanged(capture, unchanged_type)) is not None:
        return known
    with ExitStack() as opened:
        limits = context.limits
        size, blocks = opened.enter_context(context.archive.open(capture, limit=limits.download_bytes))
        if size is None:
            body = context.archive.load(capture, limit=limits.pdf_bytes).body
            size, blocks = len(body), iter([body])
        head = next(blocks, b"")
        kind = download_type(head)
        if kind is None or (is_part and kind == PDF):
            return None
        named: replay_context.Headers = (("Accept-Ranges", "bytes"),)
        if is_part:
            kind = f"{kind}; role=part"
        else:
            name = f"capture-{request.memento.timestamp}.{_EXTENSIONS[kind]}"
            named = (("Content-Disposition", f'attachment; filename="{name}"'), *named)
        try:
            span = parse_range(request.range, request.if_range, request.etag(capture), size)
        except UnsatisfiableRangeError:
            status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
            headers = (*named, ("Content-Range", f"bytes */{size}"))
            return replay_context.ReplayResponse(status, kind, b"", headers)
        first, end = span or (0, size)
        # The record stays open until the last byte has left.
        sent = _cut(chain([head], blocks), first, end)
        content = replay_context.BodyStream(end - first, sent, opened.pop_all().close)
    if span is not None:
        named += (("Content-Range", f"bytes {first}-{end - 1}/{size}"),)
    headers = request.answer(capture, kind, bytes, *named).headers
    return replay_context.ReplayResponse(HTTPStatus.PARTIAL_CONTENT if span else HTTPStatus.OK, kind, content, headers)


def _cut(blocks: Iterator[bytes], first: int, end: int) -> Iterator[bytes]:
    at = 0
    for block in blocks:
        if at + len(block) > first:
            yield block[max(first - at, 0) : end - at]
        at += len(block)
        if at >= end:
            return


_PICTURES = {ArtifactKind.VIEW, ArtifactKind.FULL_PAGE, ArtifactKind.THUMBNAIL}
_MOST_REDIRECTS = 5


class PartRoutes:
    """Routes that answer with a part of a page."""

    def __init__(self, context: replay_context.ReplayContext) -> None:
        self._context = context

    def image(self, request: replay_context.Request) -> replay_context.ReplayResponse:
        """Answer with an image of a page, one of its screenshots, or a page of a PDF."""
        if (pdf_page := parse_pdf_page(request.memento.url)) is not None:
            number, url = pdf_page
            named = replace(request, memento=replace(request.memento, url=url))
            capture, load = self._part(named, self._context.limits.pdf_shown_bytes)
            if capture.mime != PDF or not replay_context.shows_image(self._context, named, capture, None):
                return replay_context.absent()
            return self._drawn(
                request, capture, "image/webp", lambda: PdfJob(load().body, number), empty_on=BodyTooLargeError
            )
        capture, load = self._part(request, self._context.limits.image_bytes, _PICTURES)
        artifact = parse_artifact_uri(request.memento.url)
        if not replay_context.shows_image(self._context, request, capture, artifact):
            return replay_context.absent()
        if (known := request.unchanged(capture, "image/png")) is not None:
            return known
        body = load().body
        media_type = image_type(body)
        if media_type is None and raster_kind(body) is not None:
            del body  # formats that are not sent as they are, are drawn as PNG (P-02)
            return self._drawn(request, capture, "image/png", lambda: RasterJob(load().body))
        return replay_context.absent() if media_type is None else request.answer(capture, media_type, lambda: body)

    def _drawn(
        self,
        request: replay_context.Request,
        capture: Capture,
        media_type: str,
        job: Callable[[], Job],
        *,
        empty_on: type[PermanentError] = PermanentError,
    ) -> replay_context.ReplayResponse:
        """Answer with a picture or font that a maker makes; absent, also the next time, after `empty_on`."""

        def make() -> bytes:
            try:
                return self._context.make(job)
            except empty_on:
                return b""  # kept, so that a picture made to be slow is slow once

        answer = self._context.made_answer(request, capture, media_type, make)
        known = answer.status is HTTPStatus.NOT_MODIFIED
        return answer if answer.body or known else replay_context.absent()

    def mask(self, request: replay_context.Request) -> replay_context.ReplayResponse:
        """Answer with the shape of a small image, for masks in style sheets."""
        capture, load = self._part(request, self._context.limits.mask_bytes)
        if not replay_context.loads_part(self._context, request, capture, "image"):
            return replay_context.absent()
        return self._drawn(request, capture, replay_context.MASK, lambda: RasterJob(load().body, is_mask=True))

    def style(self, request: replay_context.Request) -> replay_context.ReplayResponse:
        """Answer with a filtered style sheet."""
        capture, load = self._part(request, self._context.limits.css_bytes)
        if capture.mime not in {"text/css", "text/plain", ""}:
            return replay_context.absent()
        is_whole = request.memento.modifier is MementoModifier.STYLE
        rewriter = ReplayUrlRewriter(
            request.memento.timestamp,
            capture.url,
            self._context.front,
            wiki=request.memento.wiki,
            has_images=is_whole,
            has_fonts=is_whole and self._context.has_fonts,
        )

        def prepare() -> SheetJob:
            payload = load()
            return SheetJob(payload.body, charset_of(payload.content_type) or None, rewriter)

        return self._context.made_answer(request, capture, replay_context.CSS, lambda: self._context.make(prepare))

    def font(self, request: replay_context.Request) -> replay_context.ReplayResponse:
        """Answer with a font of a page, re-encoded by a maker; absent where fonts are switched off."""
        if not self._context.has_fonts:
            return replay_context.absent()
        capture, load = self._part(request, self._context.limits.font_bytes)
        if not replay_context.loads_part(self._context, request, capture, "font"):
            return replay_context.absent()
        return self._drawn(request, capture, FONT_TYPE, lambda: FontJob(load().body))

    def media(self, request: replay_context.Request) -> replay_context.ReplayResponse:
        """Answer with sound or film of a page, or with a range of it."""
        capture, _ = self._part(request, self._context.limits.download_bytes)
        if not replay_context.loads_part(self._context, request, capture, "audio", "video"):
            return replay_context.absent()
        return offer_download(self._context, request, capture, is_part=True) or replay_context.absent()

    def text(self, request: replay_context.Request) -> replay_context.ReplayResponse:
        """Answer with the visible text of a page."""
        if parse_artifact_uri(request.memento.url) is None:
            return replay_context.absent()
        capture, load = self._part(request, self._context.limits.text_bytes, {ArtifactKind.TEXT})
        return request.answer(capture, replay_context.TEXT, lambda: load().body.decode(errors="replace").encode())

    def _part(
        self, request: replay_context.Request, limit: int, kinds: Collection[ArtifactKind] = ()
    ) -> tuple[Capture, Callable[[], Payload]]:
        """Return the capture of a page's part near the page's moment, after redirects.

        Parts have URLs of the web, or are artifacts of these kinds; others are absent.
        """
        url, seen = request.memento.url, set[str]()
        artifact = parse_artifact_uri(url)
        if not (is_web_url(url) if artifact is None else artifact[0] in kinds):
            raise replay_context.OtherAnswerError(replay_context.absent())
        while url not in seen and len(seen) <= _MOST_REDIRECTS:
            seen.add(url)
            captures: Iterable[Capture] = self._context.index.captures(
                url, request.at, window=self._context.limits.window
            )
            if url.startswith("urn:"):  # a screenshot is evidence for one URL, not for its key
                captures = (each for each in captures if each.url == url)
            if (capture := replay_context.first_playable(captures)) is None:
                break
            if capture.status is None or capture.status < 300:
                return capture, partial(self._context.archive.load, capture, limit=limit)
            url = urljoin(capture.url, self._context.archive.load(capture, limit=1_000_000).location)
        raise replay_context.OtherAnswerError(replay_context.absent())
