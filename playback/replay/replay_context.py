"""Context of replay routes: requests, responses, and objects that routes share.

Level rules are read for each answer, before a cached value is looked up. They apply to the URLs of the shown capture,
not to the URL of the request: an index look-up merges distinct pages, which rules about links must not.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from email.utils import format_datetime
from functools import cache
from http import HTTPStatus
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

import webencodings  # type: ignore[import-untyped]

from core.captures import ArtifactKind, Capture, RecordType
from core.media_types import charset_of
from playback.access.control import AccessControl
from playback.access.decision_store import DecisionStore, Values
from playback.access.level_store import LevelStore
from playback.access.levels import Level, lowest_level
from playback.replay.archive import CaptureArchive, Payload
from playback.replay.capture_lookup import CaptureLookup, call_inline
from playback.replay.made_cache import MadeCache
from playback.replay.sanitizer.allowlist import SANITISER_VERSION
from playback.replay.sanitizer.html_document import notice_document
from playback.replay.sanitizer_pool import Make
from playback.url_paths import Memento, MementoModifier, memento_path

HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
CSS = "text/css; charset=utf-8"
# An image to the browser; the gate lets any page read it.
MASK = "image/png; role=mask"

_UNSAFE = re.compile(r"[^A-Za-z0-9:._-]")
NEVER = "This page was not captured, or not as its readers saw it."

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class BodyStream:
    """Body that is read while it is sent; iterate once, then close."""

    size: int  # number of bytes
    blocks: Iterator[bytes]
    close: Callable[[], object]  # closes the source

    def __iter__(self) -> Iterator[bytes]:
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
    # Sec-Fetch-Dest: an image or a font of a page, or a document; empty when the browser did not send it
    destination: str = ""
    variant: str = ""  # further inputs of the answer, e.g. the level; part of its ETag

    def etag(self, capture: Capture) -> str:
        """Return the ETag, which changes with the record, the rules, and the page's moment."""
        place = f"{capture.location.filename}:{capture.location.offset}"
        safe = _UNSAFE.sub("-", place)[-80:]
        rules = f"{self.rules}:" if self.rules else ""
        address = self.memento
        form = f"{address.timestamp}{address.modifier}:{address.wiki}:{self.variant}"
        return f'"{rules}{SANITISER_VERSION}:{form}:{safe}"'

    def answer(
        self, capture: Capture, content_type: str, make: Callable[[], bytes], *more: tuple[str, str]
    ) -> ReplayResponse:
        """Return the answer that `make` makes of the capture; 304 without it when the reader has it."""
        etag = self.etag(capture)
        moment = format_datetime(capture.captured_at, usegmt=True)  # RFC 7089, 2.1.1
        headers = (("ETag", etag), ("Memento-Datetime", moment), *more)
        if etag in self.known_etags:
            # Its headers take the place of those that the reader's browser keeps (RFC 9111, 3.2), so
            # the gate must know what they are for.
            return ReplayResponse(HTTPStatus.NOT_MODIFIED, content_type, b"", headers)
        return ReplayResponse(HTTPStatus.OK, content_type, make(), headers)

    def unchanged(self, capture: Capture, content_type: str) -> ReplayResponse | None:
        """Return 304 when the reader has the answer; any type of its kind fits, for none is sent."""
        if not self.known_etags:
            return None
        known = self.answer(capture, content_type, bytes)
        return known if known.status is HTTPStatus.NOT_MODIFIED else None


class OtherAnswerError(Exception):
    """Answer in place of the one that a route was about to make, e.g. a redirect or 404."""

    def __init__(self, answer: ReplayResponse) -> None:
        super().__init__(answer.status)
        self.answer = answer


def redirect(memento: Memento) -> ReplayResponse:
    """Return a redirect to another address of replay."""
    return ReplayResponse(HTTPStatus.FOUND, "", b"", (("Location", memento_path(memento)),))


def notice(status: HTTPStatus, title: str, text: str) -> ReplayResponse:
    """Return a notice page."""
    return ReplayResponse(status, HTML, notice_document(title, text).encode())


def missing(text: str) -> ReplayResponse:
    """Return 404 for a page, with the reason."""
    return notice(HTTPStatus.NOT_FOUND, "No copy to show", text)


def absent() -> ReplayResponse:
    """Return 404 for a part of a page; the reader sees the alternative text."""
    return ReplayResponse(HTTPStatus.NOT_FOUND, TEXT, b"Not captured.\n")


class PerRequestStore:
    """Wrapper of `store` that works through `call`, e.g. in a thread, and reads its version once per request."""

    def __init__(self, store: DecisionStore, call: Callable[..., Any] = call_inline) -> None:
        self._store = store
        self._call = call
        self._version: int | None = None
        self._requests = 0

    def begin(self) -> None:
        """Begin a request: the version is read again."""
        self._requests += 1
        self._version = None

    def version(self) -> int:
        """Return the number of the last change."""
        if self._version is not None:
            return self._version
        request = self._requests
        version: int = self._call(self._store.version, ())
        if request == self._requests:
            self._version = version
        return version

    def rows(self, query: str, values: Values) -> list[Any]:
        """Return the rows of a query."""
        result: list[Any] = self._call(self._store.rows, (query, values))
        return result

    def change(self, changes: Iterable[tuple[str, Values]]) -> None:
        """Make the changes."""
        self._call(self._store.change, (list(changes),))
        self.begin()

    def close(self) -> None:
        """Close the store."""
        self._store.close()


_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_META_PRESCAN = 1024  # bytes; HTML, 13.2.3.2


@dataclass(frozen=True, slots=True)
class ReplayLimits:
    """Size limits of what is shown (P-21), in decoded bytes."""

    html_bytes: int = 10_000_000
    css_bytes: int = 1_000_000
    text_bytes: int = 10_000_000
    image_bytes: int = 32_000_000
    mask_bytes: int = 200_000
    font_bytes: int = 8_000_000
    pdf_bytes: int = 64_000_000  # under a content coding
    pdf_shown_bytes: int = 32_000_000  # shown page by page; longer ones are handed out only
    download_bytes: int = 4_000_000_000
    full_bytes: int = 64_000_000  # any part of a full copy
    cache_bytes: int = 64_000_000  # of what was made, in memory
    window: timedelta = timedelta(days=30)  # how far from its page a part may be captured (P-10)


@dataclass(frozen=True, slots=True)
class ReplayContext:
    """Objects that routes use."""

    index: CaptureLookup  # look-ups of captures
    archive: CaptureArchive  # payloads of captures
    decisions: DecisionStore  # store of take-downs, levels and verdicts
    permits: AccessControl  # access control, which `index` and `archive` apply to all results
    front: str  # the origin that a page's links lead to
    limits: ReplayLimits  # size limits
    make: Make  # sanitises documents and style sheets
    made: MadeCache  # cache of made values
    origin: str = ""  # origin of replay, as readers see it; empty when it is not needed
    has_fonts: bool = True  # copies load their own fonts, at the level `images`
    levels: LevelStore = field(init=False)  # level rules

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", LevelStore(self.decisions))

    def made_answer(
        self, request: Request, capture: Capture, content_type: str, make: Callable[[], bytes]
    ) -> ReplayResponse:
        """Return the answer made from a capture whose access was checked, from the cache when possible."""
        address, place = request.memento, capture.location
        key = (
            (capture.digest, capture.url, capture.page_id, place.filename, place.offset),
            (address, content_type, self.front, self.has_fonts, request.rules, request.variant),
            (SANITISER_VERSION, maker_version()),
        )
        return request.answer(capture, content_type, lambda: self.made.get(key, make))


@cache
def maker_version() -> str:
    """Return a part of cache keys that changes with the code and libraries that make copies."""
    code = hashlib.sha256()
    own = (each for each in sorted(Path(__file__).parent.rglob("*.*")) if each.suffix in {".py", ".js", ".toml"})
    for path in (*own, resources.files("warc") / "record_reader.py"):
        code.update(path.read_bytes())
    libraries = [
        f"{name} {version(name)}"
        for name in ("nh3", "tinycss2", "webencodings", "pypdfium2", "pyots", "resvg-py", "pillow", "brotlicffi")
    ]
    return f"{code.hexdigest()} {libraries}"


def first_playable(captures: Iterable[Capture]) -> Capture | None:
    """Return the first capture with status 2xx or 3xx, or artifact (which has none)."""
    for capture in captures:
        is_artifact = capture.status is None and capture.record_type is RecordType.RESOURCE
        if is_artifact or (200 <= (capture.status or 0) < 400 and capture.status != 304):
            return capture
    return None


def decode_text(payload: Payload) -> str:
    """Decode by byte order mark, HTTP charset, meta element; else as UTF-8 or windows-1252."""
    label = charset_of(payload.content_type)
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
    return str(webencodings.decode(payload.body, encoding, "replace")[0])


def limit_level(context: ReplayContext, request: Request, *urls: str) -> tuple[Request, Level]:
    """Return the request and its level; redirect to the highest level allowed for these URLs.

    A wiki without rules is removed from the request, so that invented names do not cause a cached copy each (P-21).
    """
    rules, address = context.levels.now(), request.memento
    most, chosen = rules.of_page(urls, address.wiki), address.level
    if chosen is not None and not most.covers(chosen):
        raise OtherAnswerError(redirect(replace(address, modifier=MementoModifier.PAGE)))
    if address.wiki not in rules.wikis:
        address = replace(address, wiki="")
    # Copies with scripts have separate addresses.
    level = chosen if chosen is not None else lowest_level(most, Level.IMAGES)
    return replace(request, memento=address, variant=level.value), level


def shows_image(
    context: ReplayContext, request: Request, capture: Capture, artifact: tuple[ArtifactKind, str] | None
) -> bool:
    """Return True when the image in `capture` may be shown.

    An embedded image follows the level of its page, one opened directly its own URL's, a screenshot that of its page.
    """
    if artifact is None:
        return request.destination == "image" or _may_be_seen(context, request, capture)
    page = context.index.page(artifact[1], request.at, on_purpose=True)
    is_its = page is not None and artifact[1] in (page.url, page.final_url)
    urls = (page.url, page.final_url) if page is not None and is_its else (artifact[1],)
    return context.levels.now().of_page(urls, request.memento.wiki).covers(Level.IMAGES)


def loads_part(context: ReplayContext, request: Request, capture: Capture, *destinations: str) -> bool:
    """Return True when a font, a mask or media may be sent: to a page, whose level decides, not if opened directly.

    Browsers without Fetch Metadata, and over plain HTTP, do not send the destination; then its own URL's level decides.
    """
    if request.destination:
        return request.destination in destinations
    return _may_be_seen(context, request, capture)


def _may_be_seen(context: ReplayContext, request: Request, capture: Capture) -> bool:
    """Return True when the level rules allow images for the resource itself."""
    rules, wiki = context.levels.now(), request.memento.wiki
    return lowest_level(rules.of(request.memento.url, wiki), rules.of(capture.url, wiki)).covers(Level.IMAGES)
