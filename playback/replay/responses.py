"""Requests to replay, and responses before the header gate."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import format_datetime
from http import HTTPStatus

from core.captures import Capture
from playback.replay.sanitizer.allowlist import SANITISER_VERSION
from playback.replay.sanitizer.html_document import notice_document
from playback.url_paths import Memento, memento_path

HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
CSS = "text/css; charset=utf-8"
# A picture like any other to a browser; to the gate one that was made to be read by whoever asks.
MASK = "image/png; role=mask"

_UNSAFE = re.compile(r"[^A-Za-z0-9:._-]")
NEVER = "This page was not captured, or not as its readers saw it."

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class BodyStream:
    """Body that is read while it is sent; iterate once, then close."""

    size: int  # number of bytes
    blocks: Iterator[bytes]  # the bytes
    close: Callable[[], object]  # closes the source

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the blocks."""
        return self.blocks


@dataclass(frozen=True, slots=True)
class ReplayResponse:
    """Response before the gate."""

    status: HTTPStatus
    content_type: str
    body: bytes | BodyStream
    headers: Headers = ()

    @property
    def text(self) -> str:
        """Body as text; empty when it is streamed."""
        return self.body.decode() if isinstance(self.body, bytes) else ""


@dataclass(frozen=True, slots=True)
class Request:
    """Request with its moment and the reader's ETags."""

    memento: Memento
    at: datetime
    known_etags: str
    range: str = ""  # the Range header; empty: all
    if_range: str = ""  # the ETag that the range is for; empty: any
    rules: str = ""  # changes with the take-downs of payloads (`AccessControl.state_of_digests`)
    # Sec-Fetch-Dest: an image or a font of a page, or a document; empty when the browser did
    # not send it
    destination: str = ""
    variant: str = ""  # further inputs of the answer, e.g. the level; part of its ETag

    def etag(self, capture: Capture) -> str:
        """Return the ETag, which changes with the record, the rules, and the page's moment."""
        place = f"{capture.location.filename}:{capture.location.offset}"
        safe = _UNSAFE.sub("-", place)[-80:]
        rules = f"{self.rules}:" if self.rules else ""
        address = self.memento
        asked = f"{address.timestamp}{address.modifier}:{address.wiki}:{self.variant}"
        return f'"{rules}{SANITISER_VERSION}:{asked}:{safe}"'

    def answer(
        self, capture: Capture, content_type: str, make: Callable[[], bytes], *more: tuple[str, str]
    ) -> ReplayResponse:
        """Return the answer that `make` makes of the capture; 304 without it when the reader has it."""
        etag = self.etag(capture)
        validators = (
            ("ETag", etag),
            # RFC 7089, 2.1.1
            ("Memento-Datetime", format_datetime(capture.captured_at, usegmt=True)),
        )
        if etag in self.known_etags:
            # Its headers take the place of those that the reader's browser keeps (RFC 9111, 3.2), so
            # the gate must know what they are for.
            return ReplayResponse(HTTPStatus.NOT_MODIFIED, content_type, b"", (*validators, *more))
        return ReplayResponse(HTTPStatus.OK, content_type, make(), (*validators, *more))

    def unchanged(self, capture: Capture, content_type: str) -> ReplayResponse | None:
        """Return 304 when the reader has the answer; any type of its kind fits, for none is sent."""
        if not self.known_etags:
            return None
        known = self.answer(capture, content_type, bytes)
        return known if known.status is HTTPStatus.NOT_MODIFIED else None


def redirect(memento: Memento) -> ReplayResponse:
    """Return a redirect to another address of replay."""
    return ReplayResponse(HTTPStatus.FOUND, "", b"", (("Location", memento_path(memento)),))


def notice(status: HTTPStatus, title: str, text: str) -> ReplayResponse:
    """Return a notice page."""
    return ReplayResponse(status, HTML, notice_document(title, text).encode())


def missing(text: str) -> ReplayResponse:
    """Return 404 for a page, with the reason."""
    return notice(HTTPStatus.NOT_FOUND, "No copy to show", text)


def blocked(reason: str, front: str) -> ReplayResponse:
    """Return 451 for a taken-down capture (RFC 7725); `front` is named as the blocking authority."""
    text = "This copy is not shown, because its removal was asked for."
    if reason:
        text += f" {reason}"
    told = notice(HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS, "Taken down", text)
    return replace(told, headers=(("Link", f'<{front}/>; rel="blocked-by"'),))


def held_back(reason: str) -> ReplayResponse:
    """Return 403 for a payload that is held back, with the reason (C-16)."""
    return notice(HTTPStatus.FORBIDDEN, "Held back", f"This copy is not handed out. {reason}")


def absent() -> ReplayResponse:
    """Return 404 for a part of a page; the reader sees the alternative text."""
    return ReplayResponse(HTTPStatus.NOT_FOUND, TEXT, b"Not captured.\n")
