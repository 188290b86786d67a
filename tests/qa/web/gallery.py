"""Checks of pages that look like pages: drawn by the browser, damaged in known ways, compared for good."""

import io
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from PIL import Image

from core.page_classes import PageClass
from core.playback_check import LostPart, PlaybackFault, QaVerdict
from qa.compare.picture_comparison import compare_pictures
from tests.support.browser_screen import BrowserScreen
from tests.support.playback_fixtures import NOW
from tests.support.quality_builder import QualityBuilder

_STYLE = """body{margin:0;font:17px/1.55 Georgia,serif;color:#222;background:#fff}
header{padding:22px 48px;background:%(tint)s;color:#fff;font:700 26px sans-serif}
nav{padding:10px 48px;background:#eee;font:14px sans-serif;word-spacing:14px}
main{display:grid;grid-template-columns:2fr 1fr;gap:40px;padding:28px 48px;max-width:1100px}
figure{margin:0 0 18px;height:230px;background:linear-gradient(160deg,%(tint)s,#f3d9a4);color:#fff;padding:12px}
aside{font:14px/1.5 sans-serif;background:#f6f3ec;padding:16px}"""
_PAGE = """<!doctype html><meta charset=utf-8><style>%(style)s</style><header>%(name)s</header>
<nav>Home Harbour Archive Weather Letters</nav><main><article><h1>%(title)s</h1>%(figure)s
<p>%(text)s</p><p>%(text)s</p></article><aside><h2>Also in this part</h2><p>Keepers' log of 1931</p>
<p>How a lens is ground</p><p>Ships that came in on Monday</p></aside></main>%(over)s"""
_TEXT = (
    "The light at the cape was lit on the first of May 1862, after six years of building. Its lens was ground "
    "in Paris and came by sea; two men were needed to turn it. The keepers lived in the house beside the tower "
    "until 1931, when the light became electric and the last of them left."
)


@dataclass(frozen=True)
class GalleryPage:
    """A page and what became of its copy."""

    url: str
    title: str
    verdict: QaVerdict
    faults: tuple[PlaybackFault, ...]
    reason: str
    changed: dict[str, str]
    score: float
    lost: tuple[LostPart, ...] = ()
    tint: str = "#7a1f1f"


SORTS = (
    GalleryPage(
        "https://www.coastal-times.org/1862/the-light-at-the-cape", "The light at the cape",
        QaVerdict.BROKEN, (PlaybackFault.LAYOUT, PlaybackFault.RESOURCES),
        "A style sheet is missing; the layout is broken.", {"style": ""}, 0.31,
        (LostPart("https://www.coastal-times.org/style/main.css?v=7", "missing"),),
    ),
    GalleryPage(
        "https://library.seafarers.org/keepers", "The keepers' log", QaVerdict.BROKEN, (PlaybackFault.BLANK,),
        "The replayed page is blank.", {"blank": "1"}, 0.04, tint="#1f4a7a",
    ),
    GalleryPage(
        "https://museum.harbour-town.org/lighthouse", "A lighthouse and its people", QaVerdict.BROKEN,
        (PlaybackFault.LOST, PlaybackFault.RESOURCES), "1 image is missing.", {"figure": ""}, 0.58,
        (LostPart("https://museum.harbour-town.org/pictures/tower.jpg", "status: 404"),
         LostPart("https://cdn.harbour-town.org/fonts/serif.woff2", "digest")), tint="#2f5d3a",
    ),
    GalleryPage(
        "https://www.lamps-and-lenses.org/lens?lang=en", "How a lens is ground", QaVerdict.DOUBTFUL,
        (PlaybackFault.COVERED,), "An overlay covers much of the page.", {"over": "1"}, 0.71, tint="#5d2f5a",
    ),
    GalleryPage(
        "https://news.bay.example/ships", "Ships that came in on Monday", QaVerdict.GOOD, (), "", {}, 0.99,
        tint="#22555c",
    ),
)  # fmt: skip
_OVER = (
    "<div style='position:fixed;left:10%;right:10%;top:30%;padding:60px;background:#fff;"
    "border:3px solid #333;font:22px sans-serif'>We value your privacy. Accept all cookies?</div>"
)


@dataclass(frozen=True)
class GalleryPictures:
    """A page as it was captured, as PNG, and what a check of its copy left, as WebP by kind."""

    seen: bytes
    by_kind: dict[str, bytes]


async def draw(screen: BrowserScreen) -> list[GalleryPictures]:
    """Draw each of `SORTS` in the window, and its copy where it is not good."""
    gallery = []
    for sort in SORTS:
        seen = await _drawn(screen, sort, {})
        by_kind = {}
        if sort.verdict is not QaVerdict.GOOD:
            shown = await _drawn(screen, sort, sort.changed)
            heat = compare_pictures(seen, shown, heat=True).heat
            assert heat is not None
            by_kind = {"seen": _webp(seen), "shown": _webp(shown), "heat": _webp(heat)}
        gallery.append(GalleryPictures(seen, by_kind))
    return gallery


def fill(quality_builder: QualityBuilder, drawings: list[GalleryPictures]) -> list[str]:
    """Add one checked page of each sort; return their ids, the worst first."""
    scored_ids = []
    for number, (sort, drawing) in enumerate(zip(SORTS, drawings, strict=True)):
        facts: dict[str, Any] = {
            "at": NOW + timedelta(minutes=7 * number), "faults": sort.faults, "reason": sort.reason,
            "lost": sort.lost, "parts_seen": 14, "parts_shown": 14 - len(sort.lost), "text": 1.0,
            "resources": 1 - len(sort.lost) / 14, "page_class": PageClass.OK,
            "page": {"shot": drawing.seen, "title": sort.title},
        }  # fmt: skip
        if drawing.by_kind:
            facts["pictures"] = drawing.by_kind
        scored_ids.append((sort.score, quality_builder.check(sort.url, sort.verdict, sort.score, **facts)))
    return [page_id for _, page_id in sorted(scored_ids)]


async def _drawn(screen: BrowserScreen, sort: GalleryPage, changed: dict[str, str]) -> bytes:
    if "blank" in changed:
        return await _shot(screen, "<body style='background:#fff'>")
    values = {
        "style": changed.get("style", _STYLE % {"tint": sort.tint}), "name": "Coast &amp; Harbour",
        "title": sort.title, "text": _TEXT, "over": _OVER if "over" in changed else "",
        "figure": changed.get("figure", "<figure>The tower in May</figure>"),
    }  # fmt: skip
    return await _shot(screen, _PAGE % values)


async def _shot(screen: BrowserScreen, page: str) -> bytes:
    await screen.open("data:text/html;charset=utf-8," + quote(page), size=(1280, 900))
    return await screen.picture()


def _webp(png: bytes) -> bytes:
    with Image.open(io.BytesIO(png)) as image, io.BytesIO() as buffer:
        image.convert("RGB").save(buffer, "WEBP", quality=80, method=0)
        return buffer.getvalue()
