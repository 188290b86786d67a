"""Context of replay routes: index, archive, limits, caches, and the level to answer at.

The rules are asked anew for each answer, before anything that was made is looked up, so a change of
them counts at once. They are asked about the URLs of what is shown, not about the URL that found it:
an index look-up merges distinct pages, and rules about links must not.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import webencodings  # type: ignore[import-untyped]

from core.captures import ArtifactKind, Capture, RecordType
from playback.access.control import AccessControl
from playback.access.decision_store import DecisionStore, Values
from playback.access.level_store import LevelStore
from playback.access.levels import Level, lowest_level
from playback.replay.archive import CaptureArchive, Payload
from playback.replay.capture_lookup import CaptureLookup
from playback.replay.memory_cache import MadeCache
from playback.replay.responses import ReplayResponse, Request, redirect
from playback.replay.sanitizer.allowlist import SANITISER_VERSION
from playback.replay.sanitizer_pool import Make
from playback.url_paths import MementoModifier


class PerRequestStore:
    """`store`, whose version is read once after each `begin`.

    Every request begins with it, so what is decided counts from the next request on. An answer that
    was on its way from the store when another request began is that one's no longer.
    """

    def __init__(self, store: DecisionStore) -> None:
        self._store = store
        self._version: int | None = None
        self._requests = 0

    def begin(self) -> None:
        """A request begins: nothing that was known before it counts."""
        self._requests += 1
        self._version = None

    def version(self) -> int:
        """The number of the last change."""
        if self._version is not None:
            return self._version
        request = self._requests
        version = self._store.version()
        if request == self._requests:
            self._version = version
        return version

    def rows(self, query: str, values: Values) -> list[Any]:
        """The answer's rows."""
        return self._store.rows(query, values)

    def change(self, changes: Iterable[tuple[str, Values]]) -> None:
        """Make the changes."""
        self._store.change(changes)
        self.begin()

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()


CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE
)
_META_PRESCAN = 1024  # bytes; HTML, 13.2.3.2


@dataclass(frozen=True, slots=True)
class ReplayLimits:
    """How much of anything is shown (P-21); decoded bytes."""

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
    """What a route may use.

    Attributes:
        index: which captures there are.
        archive: what they hold.
        decisions: what people and scanners decided.
        permits: what of it may be shown; `index` and `archive` ask it of all that they find.
        front: the origin to which a page's links lead.
        limits: how much is shown.
        make: what makes documents and style sheets safe.
        made: what was made.
        origin: our own, as readers see it; empty where nobody needs to be told.
        has_fonts: copies load their own fonts, at the level `images`.
        levels: how much of it each reader is shown.
    """

    index: CaptureLookup
    archive: CaptureArchive
    decisions: DecisionStore
    permits: AccessControl
    front: str
    limits: ReplayLimits
    make: Make
    made: MadeCache
    origin: str = ""
    has_fonts: bool = False
    levels: LevelStore = field(init=False)

    def __post_init__(self) -> None:
        """Open the book of levels."""
        object.__setattr__(self, "levels", LevelStore(self.decisions))

    def made_answer(
        self, request: Request, capture: Capture, content_type: str, make: Callable[[], bytes]
    ) -> ReplayResponse:
        """What is made of a capture; made once.

        The caller has found the capture, and so asked whether it may be shown.
        """
        address, place = request.memento, capture.location
        key = (
            # what of,
            (capture.digest, capture.url, capture.page_id, place.filename, place.offset),
            # for whom,
            (address, content_type, self.front, self.has_fonts, request.rules, request.variant),
            # by what.
            (SANITISER_VERSION, maker_version()),
        )
        return request.answer(capture, content_type, lambda: self.made.get(key, make))


@cache
def maker_version() -> str:
    """Differs when the code or the libraries that make copies safe do.

    What is kept in files must not outlive a rule because somebody forgot to count a version up.
    """
    code = hashlib.sha256()
    replay = Path(__file__).parent
    warc = replay.parents[1] / "warc"
    readers = [warc / "record_reader.py", warc / "content_decoder.py"]
    for path in (*sorted(replay.rglob("*.[pj][ys]")), *readers):
        code.update(path.read_bytes())
    libraries = [
        f"{name} {version(name)}"
        for name in ("nh3", "tinycss2", "webencodings", "pypdfium2", "resvg-py", "pillow", "brotli")
    ]
    return f"{code.hexdigest()} {libraries}"


def first_playable(captures: Iterable[Capture]) -> Capture | None:
    """The first capture that succeeded or redirected; artifacts have no status."""
    for capture in captures:
        if capture.status is None and capture.record_type is RecordType.RESOURCE:
            return capture
        if capture.status is not None and 200 <= capture.status < 400 and capture.status != 304:
            return capture
    return None


def decode_text(payload: Payload) -> str:
    """By byte order mark, HTTP charset, meta element; else UTF-8 or, failing that, windows-1252."""
    named = CHARSET.search(payload.content_type)
    label = named[1] if named else ""
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
    text: str = webencodings.decode(payload.body, encoding, "replace")[0]
    return text


def limit_level(
    context: ReplayContext, request: Request, *urls: str
) -> tuple[Request, Level] | ReplayResponse:
    """The request and the level to answer it at; or the way to what is allowed.

    A wiki that no rule speaks of is forgotten: whoever invents names must not have a copy made and kept for
    each of them (P-21).

    Args:
        context: where the rules are.
        request: for a page.
        urls: those of the capture that would be shown: the one cited, and the one it led to.

    Raises:
        TransientError: the rules cannot be read.
    """
    rules, address = context.levels.now(), request.memento
    most, asked = rules.of_page(urls, address.wiki), address.level
    if asked is not None and not most.covers(asked):
        return redirect(replace(address, modifier=MementoModifier.PAGE))
    if not rules.speak_of(address.wiki):
        address = replace(address, wiki="")
    # What has scripts has addresses of its own.
    level = asked if asked is not None else lowest_level(most, Level.IMAGES)
    return replace(request, memento=address, variant=level.value), level


def shows_image(
    context: ReplayContext,
    request: Request,
    capture: Capture,
    artifact: tuple[ArtifactKind, str] | None,
) -> bool:
    """True when the image in `capture` may be shown.

    Where a page embeds it, that page's level has decided. By itself an image is a page of its own, and a
    screenshot is an image of the page in its name, wherever it is shown.

    Raises:
        TransientError: the rules or the index cannot be read.
    """
    if artifact is None:
        return request.destination == "image" or _may_be_seen(context, request, capture)
    page = context.index.page(artifact[1], request.at, on_purpose=True)
    is_its = page is not None and artifact[1] in (page.url, page.final_url)
    urls = (page.url, page.final_url) if page is not None and is_its else (artifact[1],)
    return context.levels.now().of_page(urls, request.memento.wiki).covers(Level.IMAGES)


def loads_font(context: ReplayContext, request: Request, capture: Capture) -> bool:
    """True when the font in `capture` may be handed out: to a page, whose level has decided.

    Nobody opens a font, which would be a download, and no script reads it. Browsers before Fetch Metadata,
    and all of them over plain HTTP, do not say what it is for; then the rules are asked about the font.

    Raises:
        TransientError: the rules cannot be read.
    """
    return _loads(context, request, capture, "font")


def loads_mask(context: ReplayContext, request: Request, capture: Capture) -> bool:
    """True when the shape of the image in `capture` may be handed out: to a page, as with fonts.

    Raises:
        TransientError: the rules cannot be read.
    """
    return _loads(context, request, capture, "image")


def _loads(context: ReplayContext, request: Request, capture: Capture, destination: str) -> bool:
    if request.destination:
        return request.destination == destination
    return _may_be_seen(context, request, capture)


def _may_be_seen(context: ReplayContext, request: Request, capture: Capture) -> bool:
    """True when what belongs to a page's look may be had by itself."""
    rules, wiki = context.levels.now(), request.memento.wiki
    level = lowest_level(rules.of(request.memento.url, wiki), rules.of(capture.url, wiki))
    return level.covers(Level.IMAGES)
