"""Makes the held-out pairs: served on loopback, changed in the real browser, pictured as visits are."""

import zlib
from collections.abc import Iterable
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from core.clock import SystemClock
from core.config.settings import VisitSettings
from qa.compare.content_comparison import PartRequest
from render.browser import Browser
from render.chromium import page_options
from render.page import open_page
from render.settle import SettleLimits, SettleResult, navigate, settle
from tests.support.heldout import photos
from tests.support.heldout.pairs import HeldOut, HeldOutView
from tests.support.heldout.plan import PlannedPair, body
from tests.support.heldout.saying import frames
from tests.support.heldout.styles import sheet
from tests.support.labelled.making import pictured

_CLOCK = SystemClock()
_HERE = Path(__file__).parent
_CHANGE = (_HERE / "changes.js").read_text(encoding="utf-8")
_DRAW = (_HERE / "drawn.js").read_text(encoding="utf-8")
_PARTS = (_HERE / "parts.js").read_text(encoding="utf-8")
_HIGHEST_PX = 1_600
_HIGHER_PX = {"gazette": 2_600, "board": 2_000, "chronicle": 8_000}
_WIDTHS = {"pocket": 390}
_NARROW_PX = 480
# Of these a picture of the view alone would show nothing.
_BELOW = frozenset({"half", "teaser", "lazy", "comments-gone", "rows-gone", "ad-other", "ad-gone", "ad-size"})
_A_VIEW = 5  # one pair in so many is of the view alone
_ELSEWHERE = ("board", "kitchen")
_FRAMED = {
    "film": (
        '<body style="margin: 0; background: #000">'
        '<img src="/photo/SEED/820x460" width="820" height="460">'
        '<div style="position: absolute; left: 370px; top: 190px; width: 80px; height: 80px; '
        'border-radius: 40px; background: #fffc; font: 44px/76px sans-serif; text-align: center">▶</div>'
    ),
    "embed": (
        '<body style="margin: 0; border: 1px solid #bbb; border-radius: 12px; padding: 14px; '
        'font: 15px sans-serif"><img src="/drawing/SEED/40x40"><b> @somebody</b><p>It was said here '
        "first, and it was said better. Read the whole of it before you answer.</p>"
        "<small>11:02 · 3 Feb</small>"
    ),
}


async def make_pairs(browser: Browser, origin: str, wanted: Iterable[PlannedPair]) -> list[HeldOut]:
    """Make the pairs of one design.

    Raises:
        AssertionError: the plan asks for what a page does not have.
    """
    taken: dict[tuple[str, bool], HeldOutView] = {}
    pairs = []
    for place, plan in enumerate(wanted):
        number = zlib.crc32(f"{plan.site} {plan.kind}".encode())
        whole = plan.kind in _BELOW or number % _A_VIEW != 0 or place == 0
        key = (plan.site, whole)
        if key not in taken:
            own = f"{origin}/page/{plan.site}/0/{plan.language}"
            taken[key] = await _take(browser, own, plan, "identical", whole=whole)
        shown = await _take(browser, f"{origin}{_address(plan)}", plan, plan.kind, whole=whole)
        assert plan.kind == "identical" or shown.picture != taken[key].picture, plan
        pairs.append(HeldOut(plan.site, plan.kind, plan.label, taken[key], shown))
    return pairs


def _address(plan: PlannedPair) -> str:
    """Return the path that is opened as the copy."""
    site = plan.site
    if plan.kind == "other-site":
        site = _ELSEWHERE[site == _ELSEWHERE[0]]
    seed = int(plan.kind == "other-page")
    return f"/page/{site}/{seed}/{plan.other if plan.kind == 'language' else plan.language}"


async def _take(browser: Browser, url: str, plan: PlannedPair, kind: str, *, whole: bool) -> HeldOutView:
    width = _NARROW_PX if kind == "narrow" else _WIDTHS.get(plan.site, 1_280)
    most = _HIGHER_PX.get(plan.site, _HIGHEST_PX)
    settings = VisitSettings(viewport_width=width, full_page_limit_px=most)
    options = page_options(settings, browser_said=browser.user_agent, version=browser.version)
    limits = SettleLimits.of(settings, limit_s=20.0, answer_s=8.0)
    async with browser.context() as context:
        opened = await open_page(context, None, options, _CLOCK)
        try:
            await navigate(opened, url)
            await settle(opened, limits, SettleResult(), clock=_CLOCK)
            await opened.run("draw", _DRAW)
            assert await opened.run("change", _CHANGE, kind, frames()[plan.language]), plan
            parts = [PartRequest(*each) for each in await opened.run("parts", _PARTS)]
            picture, text = await pictured(opened, settings, whole=whole)
            return HeldOutView(picture, text, tuple(parts))
        finally:
            opened.end("pictured")


@cache
def _file(path: str, quality: int) -> tuple[str, bytes]:
    kind, number, *more = path.strip("/").split("/")
    if kind == "style":
        return "text/css", sheet(number).encode()
    if kind == "page":
        return "text/html; charset=utf-8", _document(number, int(more[0]), more[1]).encode()
    if kind in ("embed", "film"):
        return "text/html; charset=utf-8", _framed(kind, int(number)).encode()
    width, height = map(int, more[0].split("x"))
    if kind == "photo":
        return "image/jpeg", photos.photo(int(number), width, height, quality)
    draw = {"ad": photos.advertisement, "drawing": photos.drawing, "map": photos.chart}[kind]
    return "image/png", draw(int(number), width, height)


def _document(site: str, seed: int, language: str) -> str:
    return (
        f'<!DOCTYPE html><html lang="{language}"><head><meta charset="utf-8"><title>{site}</title>'
        f'<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/style/{site}">'
        f"</head><body>{body(site, seed, language)}</body></html>"
    )


def _framed(kind: str, seed: int) -> str:
    return _FRAMED[kind].replace("SEED", str(seed))


class HeldOutHandler(BaseHTTPRequestHandler):
    """``/page/SITE/SEED/LANGUAGE`` is a page, ``/photo/SEED/WIDTHxHEIGHT`` a picture."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with the page or picture of the path, else 404."""
        target = urlsplit(self.path)
        quality = int(parse_qs(target.query).get("q", ["82"])[0])
        try:
            self._answer(200, *_file(target.path, quality))
        except (AttributeError, KeyError, ValueError, IndexError):
            self._answer(404, "text/plain", b"Not here.")

    def _answer(self, status: int, mime: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", mime)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Say nothing."""
