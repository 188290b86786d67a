"""The picture of the whole page: a ruler of numbered stripes must be whole, straight and once."""

import io
import re
import tempfile
from base64 import b64decode
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from core.captures import ArtifactKind
from core.clock import SystemClock
from core.config.settings import BrowserSettings, VisitSettings
from core.page_manifest import PagePicture, VisitOutcome
from render.behaviours.catalog import NO_BEHAVIOURS
from render.browser import Browser
from render.chromium import find_browser
from render.visit import Visit, VisitRequest, visit
from tests.render.conftest import RenderSite

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

Look = Callable[..., Awaitable[Visit]]
VIEWPORT = 800


def whole(seen: Visit) -> Image.Image:
    data = next(a.data for a in seen.artifacts if a.kind is ArtifactKind.FULL_PAGE)
    return Image.open(io.BytesIO(data)).convert("RGB")


def entry(seen: Visit, kind: ArtifactKind) -> PagePicture:
    return next(each for each in seen.pictures if each.kind == kind)


def wrong_stripes(image: Image.Image, count: int, scale: int = 1) -> list[int]:
    """Return the numbers of stripes of a wrong colour, in their first, middle or last row."""
    tops = [(number, (VIEWPORT + 100 * number) * scale) for number in range(count)]
    return [
        number
        for number, top in tops
        for row in (top, top + 50 * scale, top + 100 * scale - 1)
        if image.getpixel((1000 * scale, row)) != (number % 256, number >> 8, 128)
    ]


def rows_of(image: Image.Image, x: int, colour: tuple[int, int, int]) -> int:
    """Count the rows that have that colour at `x`."""
    column = image.crop((x, 0, x + 1, image.height))
    pixels = column.tobytes()
    return sum(pixels[at : at + 3] == bytes(colour) for at in range(0, len(pixels), 3))


async def test_a_page_beyond_the_texture_limit_is_whole(look: Look) -> None:
    """17,800 pixels: in tiles, which meet, and what is fixed to the window is there once."""
    seen = await look("/ruler.html?stripes=170", full_page_limit_px=30_000)
    image = whole(seen)

    assert image.size == (1280, VIEWPORT + 17_000)
    assert wrong_stripes(image, 170) == []
    assert rows_of(image, 20, (255, 0, 0)) == 50
    assert rows_of(image, 600, (0, 255, 255)) == VIEWPORT
    assert entry(seen, ArtifactKind.FULL_PAGE) == PagePicture("fullPage", 1280, VIEWPORT + 17_000)


async def test_a_picture_that_is_cut_says_so(look: Look) -> None:
    """With the height that the page has."""
    seen = await look("/ruler.html?stripes=30", full_page_limit_px=2_000)

    assert whole(seen).size == (1280, 2_000)
    assert wrong_stripes(whole(seen), 12) == []
    assert entry(seen, ArtifactKind.FULL_PAGE).cut_from == VIEWPORT + 3_000
    assert entry(seen, ArtifactKind.VIEW) == PagePicture("view", 1280, VIEWPORT)
    assert entry(seen, ArtifactKind.THUMBNAIL) == PagePicture("thumbnail", 320, 200)


async def test_two_pixels_a_point_make_a_picture_twice_as_large(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles hold less of the page then, and meet all the same."""
    monkeypatch.setattr("render.screenshot.SIDE_LIMIT_PX", 3_000)
    seen = await look("/ruler.html?stripes=30", device_scale=2.0)
    image = whole(seen)

    assert image.size == (2560, 2 * (VIEWPORT + 3_000))
    assert wrong_stripes(image, 30, scale=2) == []
    assert rows_of(image, 40, (255, 0, 0)) == 100


async def test_a_page_that_grows_meanwhile_is_pictured_again(look: Look) -> None:
    """Its last stripes are in the picture."""
    seen = await look("/ruler.html?stripes=10&grows=1")

    assert whole(seen).height == VIEWPORT + 1_500
    assert seen.notes == ()


async def test_a_page_that_never_stops_growing_says_so(look: Look) -> None:
    """The part captured so far is kept."""
    seen = await look("/ruler.html?stripes=10&grows=1000")

    assert whole(seen).height > VIEWPORT + 1_000
    assert [note.split(":")[0] for note in seen.notes] == ["fullPage"]


@pytest.mark.parametrize("kind", ["jpeg", "webp"])
async def test_pictures_can_be_lossy(look: Look, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """By setting, those made of tiles, too; the thumbnail always is."""
    monkeypatch.setattr("render.screenshot.SIDE_LIMIT_PX", 1_000)
    seen = await look("/ruler.html?stripes=10", picture_format=kind, picture_quality=60)

    types = {str(a.kind): a.content_type for a in seen.artifacts}
    assert types["view"] == types["fullPage"] == f"image/{kind}"
    assert types["thumbnail"] == "image/jpeg"
    assert whole(seen).size == (1280, VIEWPORT + 1_000)


async def test_a_scene_is_drawn_by_software(look: Look) -> None:
    """By WebGL, also where a page wants no slow one; in the DOM it is an image."""
    seen = await look("/scenes.html")
    dom = next(a.data for a in seen.artifacts if a.kind is ArtifactKind.DOM).decode()
    (data,) = re.findall(r'src="data:image/png;base64,([^"]+)"', dom)

    assert whole(seen).getpixel((100, 50)) == (0, 128, 0)
    assert Image.open(io.BytesIO(b64decode(data))).convert("RGB").getpixel((100, 50)) == (0, 128, 0)
    assert seen.notes == ()


async def test_a_scene_that_cannot_be_drawn_is_noted(
    look: Look, site: RenderSite, settings: VisitSettings, clock: SystemClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By WebGPU, which the browser has no adapter for; by WebGL where it has no rasteriser, or lost its own."""
    note = "scenes: 1 not drawn, the browser has no WebGL or WebGPU for them."
    assert (await look("/scene-webgpu.html")).notes == (note,)
    assert (await look("/scene-lost.html")).notes == (note,)
    assert (await look("/scene-fallback.html")).notes == ()
    flags = ("--remote-debugging-pipe", "--disable-gpu", "--disable-software-rasterizer")
    monkeypatch.setattr("render.chromium._FIXED", flags)
    async with await Browser.launch(BrowserSettings(), find_browser(), clock=clock) as browser:
        request = VisitRequest(site.url("/scenes.html"))
        seen = await visit(browser, request, settings, clock=clock)

    assert seen.notes == (note,)


async def test_a_scene_that_is_drawn_for_ever_holds_up_no_other_page(
    site: RenderSite, settings: VisitSettings, clock: SystemClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is ended, by which the page goes on without it; the browser is replaced soon."""
    endless = VisitRequest(site.url("/scene-endless.html"))
    other = VisitRequest(site.url("/plain.html"))
    quick = replace(settings, settle_limit_s=1.0, full_page=False, thumbnail=False)
    async with await Browser.launch(BrowserSettings(), find_browser(), clock=clock) as browser:
        with monkeypatch.context() as patched:
            patched.setattr("render.visit.ANSWER_LIMIT_S", 0.5)
            await visit(browser, endless, quick, behaviours=NO_BEHAVIOURS, clock=clock)
        seen = await visit(browser, other, settings, behaviours=NO_BEHAVIOURS, clock=clock)

        assert (seen.outcome, seen.reason) == (VisitOutcome.COMPLETE, "")
        assert browser.recycle_due() == "scene"


async def test_letters_without_a_font_are_noted(site: RenderSite, settings: VisitSettings, clock: SystemClock) -> None:
    """By script, where they are drawn as boxes; letters that some font has are not."""
    executable = find_browser()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # the browser is another user
        # A machine with Unifont has a glyph for every script: this browser knows one font.
        fonts = "<fontconfig><dir>/usr/share/fonts/truetype/dejavu</dir><cachedir prefix='xdg'/></fontconfig>"
        (folder / "fonts.conf").write_text(fonts)
        program = folder / "browser"
        program.write_text(f'#!/bin/sh\nFONTCONFIG_FILE={folder}/fonts.conf exec {executable.path} "$@"\n')
        program.chmod(0o755)
        launching = Browser.launch(BrowserSettings(), replace(executable, path=program), clock=clock)
        async with await launching as browser:
            seen = await visit(browser, VisitRequest(site.url("/glyphs.html")), settings, clock=clock)

    assert seen.notes == ("glyphs: no font for Toto, boxes are drawn.",)
