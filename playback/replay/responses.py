"""Requests to replay, and its responses before the header gate."""

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
    """A body that is made while it is sent; whoever takes it reads it once, and closes it.

    Attributes:
        size: how many bytes it will give.
        blocks: them.
        close: lets go of what they are read from.
    """

    size: int
    blocks: Iterator[bytes]
    close: Callable[[], object]

    def __iter__(self) -> Iterator[bytes]:
        """The blocks."""
        return self.blocks


@dataclass(frozen=True, slots=True)
class ReplayResponse:
    """A response before the gate."""

    status: HTTPStatus
    content_type: str
    body: bytes | BodyStream
    headers: Headers = ()

    @property
    def text(self) -> str:
        """The body as text; empty when it is made while it is sent."""
        return self.body.decode() if isinstance(self.body, bytes) else ""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for, the moment its timestamp names, and the ETags its reader holds.

    Attributes:
        destination: what the browser says it is for (Fetch Metadata): an image or a font of a page, or
            a document; empty when it did not say so.
        variant: what else the answer depends on, e.g. the level; part of its ETag.
        range: the range that is asked for, as the header says it; empty: all.
        if_range: the ETag for which alone a range is wanted; empty: any.
        rules: differs when other payloads are taken down (`Permits.state_of_digests`).
    """

    memento: Memento
    at: datetime
    known_etags: str
    range: str = ""
    if_range: str = ""
    rules: str = ""
    destination: str = ""
    variant: str = ""

    def etag(self, capture: Capture) -> str:
        """Changes when the bytes do: with the record, the rules, and the page's moment."""
        place = f"{capture.location.filename}:{capture.location.offset}"
        safe = _UNSAFE.sub("-", place)[-80:]
        rules = f"{self.rules}:" if self.rules else ""
        address = self.memento
        asked = f"{address.timestamp}{address.modifier}:{address.wiki}:{self.variant}"
        return f'"{rules}{SANITISER_VERSION}:{asked}:{safe}"'

    def answer(
        self, capture: Capture, content_type: str, make: Callable[[], bytes], *more: tuple[str, str]
    ) -> ReplayResponse:
        """The capture as `make` makes it; not made at all when its reader has it (304)."""
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


def redirect(memento: Memento) -> ReplayResponse:
    """To another address of replay."""
    return ReplayResponse(HTTPStatus.FOUND, "", b"", (("Location", memento_path(memento)),))


def notice(status: HTTPStatus, title: str, text: str) -> ReplayResponse:
    """A page in our own words."""
    return ReplayResponse(status, HTML, notice_document(title, text).encode())


def missing(text: str) -> ReplayResponse:
    """There is no such page to show; `text` says why."""
    return notice(HTTPStatus.NOT_FOUND, "No copy to show", text)


def blocked(reason: str, front: str) -> ReplayResponse:
    """It was captured and must not be shown (RFC 7725); `front` is who says so."""
    text = "This copy is not shown, because its removal was asked for."
    if reason:
        text += f" {reason}"
    told = notice(HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS, "Taken down", text)
    return replace(told, headers=(("Link", f'<{front}/>; rel="blocked-by"'),))


def held_back(reason: str) -> ReplayResponse:
    """It was captured and is kept, but does not leave: `reason` says why (C-16)."""
    return notice(HTTPStatus.FORBIDDEN, "Held back", f"This copy is not handed out. {reason}")


def absent() -> ReplayResponse:
    """There is no such part of a page; its reader sees the alternative text."""
    return ReplayResponse(HTTPStatus.NOT_FOUND, TEXT, b"Not captured.\n")
