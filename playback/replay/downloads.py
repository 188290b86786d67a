"""What is handed out to be kept, not shown: PDFs, sound and films, in ranges and as they are read.

The type is told by the bytes alone, the name is neutral, and nothing of it is held in memory unless
its body is under a content coding (P-16, P-21).
"""

from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus

from core.captures import Capture
from playback.kinds import PDF
from playback.replay.answers import Answer, Headers, Request, Stream
from playback.replay.context import Context
from playback.replay.ranges import UnsatisfiableRangeError, wanted_range

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
    """The media type of what begins so; None when it is nothing that is handed out."""
    # The marker may stand behind other bytes, but not far (ISO 32000-2, annex C.2).
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


class Downloads:
    """Offers captures as downloads."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def offer(self, request: Request, capture: Capture) -> Answer | None:
        """The capture, or the range of it that is asked for; None when it is none to hand out.

        Raises:
            TakenDownError: it must not be, e.g. because it was not scanned yet.
            PermanentError: it cannot be read, or is too large.
        """
        self._context.permits.download(capture)
        known = request.answer(capture, PDF, bytes)  # any download: of a 304 no type is sent
        if known.status is HTTPStatus.NOT_MODIFIED:
            return known
        with ExitStack() as opened:
            limits = self._context.limits
            part = opened.enter_context(
                self._context.archive.open(capture, limit=limits.download_bytes)
            )
            if part.size is None:
                body = self._context.archive.load(capture, limit=limits.pdf_bytes).body
                size, blocks = len(body), iter([body])
            else:
                size, blocks = part.size, part.blocks
            head = next(blocks, b"")
            kind = download_type(head)
            if kind is None:
                return None
            try:
                span = wanted_range(request.range, request.if_range, request.etag(capture), size)
            except UnsatisfiableRangeError:
                status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
                return Answer(
                    status,
                    kind,
                    b"",
                    (*_named(request, kind), ("Content-Range", f"bytes */{size}")),
                )
            first, end = span or (0, size)
            # The record stays open until the last byte has left.
            content = Stream(
                end - first, _cut(_with_head(head, blocks), first, end), opened.pop_all().close
            )
        more = _named(request, kind)
        if span is not None:
            more += (("Content-Range", f"bytes {first}-{end - 1}/{size}"),)
        headers = request.answer(capture, kind, bytes, *more).headers
        return Answer(HTTPStatus.PARTIAL_CONTENT if span else HTTPStatus.OK, kind, content, headers)


def _named(request: Request, kind: str) -> Headers:
    name = f"capture-{request.memento.timestamp}.{_EXTENSIONS[kind]}"
    return (
        ("Content-Disposition", f'attachment; filename="{name}"'),
        ("Accept-Ranges", "bytes"),
    )


def _with_head(head: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from blocks


def _cut(blocks: Iterator[bytes], first: int, end: int) -> Iterator[bytes]:
    """The bytes from `first` to before `end`."""
    at = 0
    for block in blocks:
        if at + len(block) > first:
            yield block[max(first - at, 0) : end - at]
        at += len(block)
        if at >= end:
            return
