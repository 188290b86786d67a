"""Makes the labelled pairs: made and real sites, changed in the real browser and pictured as visits are."""

import asyncio
import io
import struct
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
from PIL import Image

from core.clock import SystemClock
from core.config.settings import BrowserSettings, VisitSettings
from render.artifacts import read_text
from render.browser import Browser
from render.chromium import find_browser, page_options
from render.page import BrowserPage, open_page
from render.page_frames import PageDocuments
from render.screenshot import capture_full_page, capture_view
from render.settle import SettleLimits, SettleResult, navigate, settle
from tests.support.labelled import photos
from tests.support.labelled.designs import SITES, SiteDesign, page
from tests.support.labelled.kinds import LabelledKind
from tests.support.labelled.pairs import LabelledPair
from tests.support.labelled.words import SeededWords
from tests.support.loopback import LoopbackServer
from tests.support.sites import hosts
from tests.support.sites.web import TestWeb

_CLOCK = SystemClock()
_MUTATE = (Path(__file__).parent / "mutations.js").read_text(encoding="utf-8")
# So few pages have what these need that each of them is asked.
_ALWAYS = frozenset(
    {
        LabelledKind.IDENTICAL, LabelledKind.CAROUSEL, LabelledKind.FRAME, LabelledKind.AVATAR, LabelledKind.HALF_GALLERY, LabelledKind.CANVAS,
        LabelledKind.HERO, LabelledKind.OTHER_PAGE, LabelledKind.ADS, LabelledKind.RECOMMENDED,
    }
)  # fmt: skip
_IN_TURN = 4  # every so many-th of the other kinds is asked of a site
_HIGHEST_PX, _HIGH_PX = 1_300, 4_200
# Whole pages of these are stored, however high: the others' are cut, or the set would be large.
_WHOLE = frozenset({"travel"})
_SIDE_BY_SIDE = 2
_SAID = ("words", "nav", "more", "lost", "lost_line", "accept", "refuse", "consent", "login")


@dataclass(frozen=True, slots=True)
class SiteMaterial:
    """Pages of a site and their address.

    Attributes:
        name: of the site.
        pages: URLs of pages of one design.
        translated: the first page in another language; empty: its words are replaced.
        width: of the viewport.
        language: of the words that are put into its pages.
    """

    name: str
    pages: tuple[str, ...]
    translated: str = ""
    width: int = 1280
    language: str = "en"


@dataclass(frozen=True, slots=True)
class _PictureTask:
    """A page as it is to be pictured."""

    url: str
    width: int
    kind: LabelledKind = LabelledKind.IDENTICAL
    number: int = 0
    whole: bool = True
    most: int = _HIGHEST_PX


class PictureBrowser:
    """A browser that pictures pages with something done to them."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._taken: dict[_PictureTask, tuple[bytes, str] | None] = {}

    async def take(self, sight: _PictureTask, phrases: Mapping[str, str]) -> tuple[bytes, str] | None:
        """Return picture and text; None when the page has nothing that its kind could change."""
        if sight not in self._taken:
            self._taken[sight] = await self._take(sight, phrases)
        return self._taken[sight]

    async def _take(self, sight: _PictureTask, phrases: Mapping[str, str]) -> tuple[bytes, str] | None:
        settings = VisitSettings(viewport_width=sight.width, full_page_limit_px=sight.most)
        options = page_options(settings, browser_said=self._browser.user_agent, version=self._browser.version)
        limits = SettleLimits.of(settings, limit_s=20.0, answer_s=8.0)
        async with self._browser.context() as context:
            opened = await open_page(context, None, options, _CLOCK)
            try:
                await navigate(opened, sight.url)
                await settle(opened, limits, SettleResult(), clock=_CLOCK)
                if not await opened.run("mutate", _MUTATE, sight.kind, sight.number, dict(phrases)):
                    return None
                await settle(opened, limits, SettleResult(), clock=_CLOCK)
                return await pictured(opened, settings, whole=sight.whole)
            finally:
                opened.end("pictured")


async def pictured(opened: BrowserPage, settings: VisitSettings, *, whole: bool) -> tuple[bytes, str]:
    """Return a page's picture, packed for storing, and its text."""
    text = await read_text(PageDocuments(opened))
    height = (await opened.call("measure"))["height"]
    if not whole or height <= settings.viewport_height:
        data = await capture_view(opened, settings)
    else:
        data = (await capture_full_page(opened, height, 1.0, settings)).data
    # Packing takes a while, and the browser wants to be heard meanwhile.
    return await asyncio.to_thread(packed, data), text


def packed(data: bytes) -> bytes:
    """Return the picture as an uncompressed PNG, with a palette if it has at most 256 colours."""
    with Image.open(io.BytesIO(data)) as image:
        drawn = image.convert("RGB")
    colours = drawn.getcolors(256)
    if colours is not None:
        # The palette's order must not depend on how often a colour occurs: pictures of one page
        # are packed together, and are to share their rows.
        palette = Image.new("P", (1, 1))
        palette.putpalette([value for each in sorted(c for _, c in colours) for value in each])  # type: ignore[union-attr]
        drawn = drawn.quantize(palette=palette, dither=Image.Dither.NONE)
    return _png(drawn)


def _png(image: Image.Image) -> bytes:
    """Return an uncompressed PNG whose filters stay within a row, so that equal rows are equal bytes.

    Photographs are differences from the pixel at the left (filter 1), which pack better.
    """
    pixels = np.asarray(image)
    sort = 0 if image.mode == "P" else 1
    if sort == 1:
        pixels = np.diff(pixels, axis=1, prepend=np.zeros_like(pixels[:, :1]))
    rows = pixels.reshape(image.height, -1)
    lines = np.concatenate([np.full((image.height, 1), sort, np.uint8), rows], axis=1)
    kind = 3 if image.mode == "P" else 2
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", *image.size, 8, kind, 0, 0, 0))]
    if image.mode == "P":
        chunks.append((b"PLTE", bytes(image.getpalette() or [])))
    chunks += [(b"IDAT", zlib.compress(lines.tobytes(), 0)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


async def make_pairs(
    studio: PictureBrowser, material: SiteMaterial, elsewhere: SiteMaterial, place: int
) -> list[LabelledPair]:
    """Make the pairs of a site; `elsewhere` is another site, `place` the site's position among all."""
    language = SeededWords(material.language, "")
    phrases = {name: language.text(name) for name in _SAID} | {"line": language.sentence()}
    foreign = {**phrases, "words": SeededWords("de", "").text("words")}
    pairs = []
    for turn, kind in enumerate(LabelledKind):
        if kind not in _ALWAYS and (turn + place) % _IN_TURN:
            continue
        number = zlib.crc32(f"{material.name} {kind}".encode()) % 12
        before, after = _sights(material, elsewhere, kind, number)
        seen = await studio.take(before, phrases)
        shown = await studio.take(after, foreign if kind is LabelledKind.LANGUAGE else phrases)
        if seen is None or shown is None or (kind is not LabelledKind.IDENTICAL and seen == shown):
            continue
        pairs.append(LabelledPair(material.name, kind, number, seen[0], shown[0], seen[1], shown[1]))
    return pairs


def _sights(
    material: SiteMaterial, elsewhere: SiteMaterial, kind: LabelledKind, number: int
) -> tuple[_PictureTask, _PictureTask]:
    """Return what is pictured as seen, and what as shown."""
    # A picture in four is of the viewport alone.
    seen = _PictureTask(
        material.pages[number % len(material.pages)],
        material.width,
        whole=number % 4 != 0,
        most=_HIGH_PX if material.name in _WHOLE else _HIGHEST_PX,
    )
    if kind is LabelledKind.OTHER_SITE:
        return seen, replace(seen, url=elsewhere.pages[0])
    if kind is LabelledKind.OTHER_PAGE:
        return seen, replace(seen, url=next(each for each in material.pages if each != seen.url))
    if kind is LabelledKind.LANGUAGE and material.translated:
        seen = replace(seen, url=material.pages[0])
        return seen, replace(seen, url=material.translated)
    return seen, replace(seen, kind=kind, number=number)


@asynccontextmanager
async def launched(web: TestWeb | None) -> AsyncIterator[Browser]:
    """Launch a browser that reaches this machine, and the test web when it is given."""
    hosts_known, spki = (web.resolve, web.spki) if web is not None else ({}, None)
    executable = find_browser()
    async with await Browser.launch(
        BrowserSettings(recycle_pages=100_000), executable, ca_spki=spki, hosts=hosts_known, clock=_CLOCK
    ) as browser:
        yield browser


@asynccontextmanager
async def studio(web: TestWeb | None) -> AsyncIterator[PictureBrowser]:
    """Launch a browser and yield its `PictureBrowser`."""
    async with launched(web) as browser:
        yield PictureBrowser(browser)


def made(origin: str) -> list[SiteMaterial]:
    """Return the synthetic sites, which a server of ours has at `origin`."""
    return [_made(origin, site) for site in SITES]


def _made(origin: str, site: SiteDesign) -> SiteMaterial:
    base = f"{origin}/{site.name}"
    own, other = site.languages
    return SiteMaterial(
        site.name, tuple(f"{base}/{number}/{own}" for number in range(2)), f"{base}/0/{other}", site.width, own
    )


def real(web: TestWeb) -> list[SiteMaterial]:
    """Return the suite's real sites, up to two pages of each."""
    by_host = {
        "wiki": [u for u in web.urls.real_pages if hosts.WIKI in u and "/wiki/" in u],
        "applications": [u for u in web.urls.real_pages if hosts.SPA in u],
    }
    chosen = [SiteMaterial(name, tuple(urls[:2])) for name, urls in by_host.items()]
    docs = [u for u in web.urls.real_pages if hosts.DOCS in u and u.endswith(".html")]
    chosen += [SiteMaterial(f"manual-{i}", tuple(docs[i * 8 : i * 8 + 2])) for i in (1,)]
    return chosen


@cache
def _file(path: str, quality: int) -> tuple[str, bytes]:
    kind, number, size = path.strip("/").split("/")
    width, height = map(int, size.split("x"))
    if kind == "photo":
        data = photos.photo(int(number), width, height, quality)
    elif kind == "icon":
        data = photos.icon(int(number), width)
    else:
        draw = {"ad": photos.advertisement, "frame": photos.frame}[kind]
        data = draw(int(number), width, height)
    return ("image/jpeg" if data[:2] == b"\xff\xd8" else "image/png"), data


class _LabelledHandler(BaseHTTPRequestHandler):
    """``/SITE/NUMBER/LANGUAGE`` is a page, ``/photo/NUMBER/WIDTHxHEIGHT`` a picture."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with the page or picture of the path, else 404."""
        target = urlsplit(self.path)
        names = {site.name: site for site in SITES}
        parts = target.path.strip("/").split("/")
        try:
            if parts[0] in names:
                text = page(names[parts[0]], int(parts[1]), parts[2])
                self._answer(200, "text/html; charset=utf-8", text.encode())
            else:
                quality = int(parse_qs(target.query).get("q", ["100"])[0])
                self._answer(200, *_file(target.path, quality))
        except (KeyError, ValueError, IndexError):
            self._answer(404, "text/plain", b"Not here.")

    def _answer(self, status: int, mime: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", mime)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def served(handler: type[BaseHTTPRequestHandler] | None = None) -> Iterator[str]:
    """Serve the synthetic sites on loopback, or what another handler answers; yield the origin."""
    with LoopbackServer(handler or _LabelledHandler) as server:
        yield server.origin


async def make(
    materials: list[SiteMaterial], chosen: set[str], web: TestWeb | None
) -> AsyncIterator[tuple[str, list[LabelledPair]]]:
    """Yield name and pairs of each chosen site, or of all when none is chosen."""
    places = [n for n, each in enumerate(materials) if not chosen or each.name in chosen]

    async def one(place: int) -> tuple[str, list[LabelledPair]]:
        elsewhere = materials[(place + 3) % len(materials)]
        async with studio(web) as own:
            return materials[place].name, await make_pairs(own, materials[place], elsewhere, place)

    for batch in range(0, len(places), _SIDE_BY_SIDE):
        for made_now in await asyncio.gather(*map(one, places[batch : batch + _SIDE_BY_SIDE])):
            yield made_now
