"""What every route of replay works with: the index, the archive, the limits and what makes copies safe."""

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from importlib.metadata import version
from pathlib import Path

# In the replay environment only, where mypy does not run.
import webencodings  # type: ignore[import-untyped]

from core.captures import Capture
from core.records import RecordType
from playback.decisions.level_book import LevelBook
from playback.decisions.store import DecisionStore
from playback.permits import Permits
from playback.replay.answers import Answer, Request
from playback.replay.archive import Archive, Payload
from playback.replay.cache import MadeCache
from playback.replay.html import SANITISER_VERSION
from playback.replay.index import CaptureIndex
from playback.replay.making import Make

CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE
)
_META_PRESCAN = 1024  # bytes; HTML, 13.2.3.2


@dataclass(frozen=True, slots=True)
class Limits:
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
class Context:
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

    index: CaptureIndex
    archive: Archive
    decisions: DecisionStore
    permits: Permits
    front: str
    limits: Limits
    make: Make
    made: MadeCache
    origin: str = ""
    has_fonts: bool = False
    levels: LevelBook = field(init=False)

    def __post_init__(self) -> None:
        """Open the book of levels."""
        object.__setattr__(self, "levels", LevelBook(self.decisions))

    def made_answer(
        self, request: Request, capture: Capture, content_type: str, make: Callable[[], bytes]
    ) -> Answer:
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
    for path in sorted(Path(__file__).parent.glob("*.[pj][ys]")):
        code.update(path.read_bytes())
    libraries = [
        f"{name} {version(name)}" for name in ("nh3", "tinycss2", "webencodings", "pypdfium2")
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
