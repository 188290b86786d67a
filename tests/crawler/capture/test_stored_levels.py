"""Stored levels of visits: a real browser through a real proxy, one page at each of the three levels."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from core.clock import SystemClock
from core.config.settings import BrowserSettings, Settings, VisitSettings
from core.config.stored_level import StoredLevel
from core.layout import Layout
from core.page_manifest import PageInfo, VisitOutcome
from crawler.capture.page_capture import CaptureRequest, capture
from render.browser import Browser
from render.chromium import find_browser
from tests.crawler.capture.test_page_capture import PNG
from tests.support.fixed_pool import fixed_pool
from tests.support.proxy_fixtures import ProxyInProcess, ScriptedOrigin, check, ok, records
from tests.support.sites.acid_parts import film

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.asyncio(loop_scope="session")]
CLOCK = SystemClock()
FONT = b"\0\x01\0\0\0\x01" + b"\0" * 200
PAGE = b"""<!doctype html><title>Gallery</title><link rel=icon href=/icon.png>
<style>@font-face {font-family: own; src: url(/own.woff2)}
p {font-family: own; background: url(/ground.png)}</style><link rel=stylesheet href=/style.css>
<p>The words of the page.</p><p id=more></p>
<img src=/picture.png><picture><source srcset=/large.png><img src=/small.png></picture>
<video src=/film.webm muted autoplay preload=auto></video><audio src=/sound.wav preload=auto></audio>
<iframe src=/frame></iframe>
<script>
fetch('/data.json').then((answer) => answer.json()).then((it) => { more.textContent = it.words; });
new Worker('/worker.js');
new Image().src = '/scripted.png';
</script>"""
FRAME = b"<!doctype html><title>Frame</title><p>Words in the frame.<img src=/framed.png>"
WORKER = b"fetch('/worked.png'); fetch('/worked.json'); fetch('/worked.mp4');"
WORDS = {"/", "/style.css", "/frame", "/data.json", "/worker.js", "/worked.json"}
IMAGES = {
    *("/picture.png", "/large.png", "/small.png", "/scripted.png", "/framed.png", "/worked.png", "/ground.png"),
    *("/own.woff2", "/icon.png"),
}
MEDIA = {"/film.webm", "/sound.wav", "/worked.mp4"}
RECORDED = {
    StoredLevel.TEXT: WORDS,
    StoredLevel.NO_MEDIA: WORDS | IMAGES,
    StoredLevel.EVERYTHING: WORDS | IMAGES | MEDIA,
}
PICTURES = {"view", "fullPage", "thumbnail"}
TEXTS = (b"The words of the page.", b"Words that a script brought.", b"Words in the frame.")
SITES = ("http://origin.example", "https://secure.example")
TAKEN = [*(("/", level) for level in StoredLevel), ("/picture.png", StoredLevel.TEXT)]


def build(origin: ScriptedOrigin) -> None:
    """Serve the page and its parts."""
    wav = b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\x08\0\0\0"
    origin.answers |= {
        "/": ok(PAGE),
        "/style.css": ok(b"p {color: green}", mime="text/css"),
        "/frame": ok(FRAME),
        "/data.json": ok(b'{"words": "Words that a script brought."}', mime="application/json"),
        "/worker.js": ok(WORKER, mime="text/javascript"),
        "/worked.json": ok(b"{}", mime="application/json"),
        "/worked.mp4": ok(b"\0\0\0\x20ftypisom" + b"\0" * 100, mime="application/octet-stream"),
        "/film.webm": ok(film(), mime="video/webm"),
        "/sound.wav": ok(wav + b"\0" * 8, mime="audio/wav"),
        "/own.woff2": ok(FONT, mime="application/octet-stream"),
        **{path: ok(PNG, mime="image/png") for path in IMAGES if path.endswith(".png")},
    }


async def test_stored_level_limits_what_a_page_leaves_in_the_archive(
    start: Callable[..., ProxyInProcess],
    settings: Settings,
    origin: ScriptedOrigin,
    secure_origin: ScriptedOrigin,
    layout: Layout,
) -> None:
    """Parts, frames, workers and scripts: the WARC has exactly what the level has room for.

    Scripts, their data and frames are fetched at the level text: the text is made of them. A cited image
    at the level text is no failure to try again: the manifest says why there is none.
    """
    build(origin)
    build(secure_origin)
    proxy = start()
    spki = str((await proxy.client.status())["spki"])
    patient = BrowserSettings(hang_limit_s=86_400.0)
    quick = VisitSettings(timeout_s=40.0, settle_limit_s=4.0, refetch_s=6.0)

    async def nothing(_page: PageInfo) -> None:
        return None

    async def take(url: str, level: StoredLevel) -> PageInfo:
        captured = await capture(
            CaptureRequest(url, f"{level} {url}", last_attempt=True, stored=level),
            supervisor=fixed_pool(proxy.client, browser),
            settings=replace(settings, visit=quick),
            clock=CLOCK,
            before_manifest=nothing,
        )
        return captured.page

    visits = [(site, path, level) for path, level in TAKEN for site in SITES]
    async with await Browser.launch(patient, find_browser(), ca_spki=spki, clock=CLOCK) as browser:
        pages = []
        for path, level in TAKEN:
            browser.icons.clear()
            pages += await asyncio.gather(*(take(site + path, level) for site in SITES))
    assert proxy.stop() == 0
    check(layout)
    archived = records(layout)

    for (site, path, level), page in zip(visits, pages, strict=True):
        own = [each for each in archived if each.headers.get("WARC-Page-ID") == page.page_id]
        written = {each.url.removeprefix(site) for each in own if each.kind in {"response", "revisit"}}
        assert page.stored == str(level)
        if path != "/":
            assert page.outcome is VisitOutcome.SKIPPED
            assert page.reason.startswith("level: image/png is not recorded at text")
            assert written == set()
            continue
        assert written == RECORDED[level]
        assert (page.outcome, page.reason, page.missing) == (VisitOutcome.COMPLETE, "", ())
        out = {each.url.removeprefix(site) for each in page.resources if each.kept == "left-out"}
        assert out == RECORDED[StoredLevel.EVERYTHING] - RECORDED[level] - (
            {"/icon.png", "/small.png"} if level is StoredLevel.TEXT else set()
        )
        assert page.left_out >= len(out)
        assert bool(page.left_out) is bool(out)
        assert {"dom", "text"} <= set(page.artifacts)
        assert PICTURES & set(page.artifacts) == (PICTURES if level.keeps_images else set())
        (text,) = (each.payload for each in own if each.url.startswith("urn:text:"))
        assert all(words in text for words in TEXTS)
