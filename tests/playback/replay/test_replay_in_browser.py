"""Copies in a real browser: it shows them, runs nothing, and requests nothing elsewhere."""

import re
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from core.timestamps import timestamp14
from render.cdp import CdpConnection
from tests.playback.full_browser import reader_browser, tab_in
from tests.playback.replay.sanitizer.test_html_document import VECTORS
from tests.support.playback_fixtures import NOW, HeadlessBrowser, LeakListener, ServedCollection, png
from tests.support.sites.acid_parts import film

pytestmark = [pytest.mark.browser, pytest.mark.playback]
IN_BROWSER = pytest.mark.asyncio(loop_scope="module")
TS = timestamp14(NOW)

LEAKY = """<!DOCTYPE html><html><head><title>calm</title>
<base href="http://leak.test/"><meta http-equiv="refresh" content="1,url=http://leak.test/refresh">
<link rel="stylesheet" href="http://leak.test/a.css"><link rel="preload" as="image" href="http://leak.test/p">
<link rel="dns-prefetch" href="http://dns.leak.test"><link rel="preconnect" href="http://pre.leak.test">
<link rel="icon" href="http://leak.test/icon"><link rel="prefetch" href="http://leak.test/prefetch">
<style>@import "http://leak.test/i.css"; body{background:url(http://leak.test/bg)}
@font-face{font-family:f;src:url(http://leak.test/font)} p{font-family:f;cursor:url(http://leak.test/c),auto}
div{background:image-set("http://leak.test/set" 1x)} a{background:u\\72l(http://leak.test/esc)}</style>
<script src="http://leak.test/s.js"></script><script>document.title='ran';fetch('http://leak.test/f')</script>
</head><body onload="document.title='ran'" background="http://leak.test/body">
<img src="http://leak.test/img" srcset="http://leak.test/set 2x" onerror="document.title='ran'">
<picture><source srcset="http://leak.test/source"><img src="x" data-weboid-src="http://leak.test/w"></picture>
<video src="http://leak.test/v" poster="http://leak.test/poster" autoplay></video><audio src="http://leak.test/au" autoplay></audio>
<iframe src="http://leak.test/frame"></iframe><iframe srcdoc="<img src='http://leak.test/srcdoc'>"></iframe>
<object data="http://leak.test/o"></object><embed src="http://leak.test/e">
<svg><image href="http://leak.test/svg"/><use href="http://leak.test/use#a"/></svg>
<div style="background:url(http://leak.test/style)">x</div><p>x</p><a href="http://leak.test/" ping="http://leak.test/ping">a</a>
<form action="http://leak.test/form"><input type="image" src="http://leak.test/input"></form>
<table background="http://leak.test/table"><tr><td background="http://leak.test/td">x</td></tr></table>
<template shadowrootmode="open"><img src="http://leak.test/shadow"><link rel="stylesheet" href="http://leak.test/sh.css"></template>
</body></html>"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium(leak_listener: LeakListener) -> AsyncIterator[CdpConnection]:
    """Start one browser for all tests that need none with a clock of its own."""
    async with reader_browser(leak_listener.port) as it:
        yield it


def test_the_harness_sees_a_leak(served: ServedCollection, browser: HeadlessBrowser, leaks: LeakListener) -> None:
    """Were a page to ask for anything elsewhere, these tests would know."""
    page = browser.home / "page.html"
    page.write_text('<img src="http://leak.test/control">')

    browser.dump_dom(page.as_uri(), leaks=leaks)

    assert any(b"/control" in request for request in leaks.requests)


def test_a_copy_asks_nobody_but_the_archive(
    served: ServedCollection, site: str, browser: HeadlessBrowser, leaks: LeakListener
) -> None:
    """Every way to load something, in the reader's page and in the bare copy (P-03)."""
    served.builder.page(f"{site}/", LEAKY)

    bare = browser.dump_dom(f"{served.replay}/c/{TS}/{site}/", leaks=leaks)
    framed = browser.dump_dom(f"{served.front}/page/{TS}/{site}/", leaks=leaks)

    assert "<title>calm</title>" in bare
    assert "<iframe" in framed
    assert leaks.requests == []


def test_no_vector_runs_in_a_browser(
    served: ServedCollection, site: str, browser: HeadlessBrowser, leaks: LeakListener
) -> None:
    """All of them in one document, with something to run that would be noticed (P-01)."""
    marked = "".join(VECTORS).replace("alert(1)", "document.title='ran'")
    served.builder.page(f"{site}/", f"<!DOCTYPE html><title>calm</title>{marked}")
    served.builder.response(f"{site}/source", f"<title>calm</title>{marked}".encode())

    for path in ("/", "/source"):
        text = browser.dump_dom(f"{served.replay}/c/{TS}/{site}{path}", leaks=leaks)
        assert "<title>calm</title>" in text
    assert leaks.requests == []


@IN_BROWSER
async def test_nothing_runs_under_any_route(
    served: ServedCollection, site: str, leaks: LeakListener, chromium: CdpConnection
) -> None:
    """A document is only ever what the sanitiser made, whatever its type and route (P-16)."""
    code = "document.documentElement.setAttribute('data-ran','1');fetch('http://leak.test/')"
    body = f"<svg xmlns='http://www.w3.org/2000/svg'><script>{code}</script></svg>"
    ran = []
    async with tab_in(chromium) as tab:
        for mime in ("text/html", "image/svg+xml", "text/javascript", "application/xml"):
            url = f"{site}/{mime}"
            served.builder.response(url, body.encode(), mime=mime)
            for modifier in ("", "im_", "cs_", "id_"):
                address = f"{served.replay}/c/{TS}{modifier}/{url}"
                await tab.open(address)
                assert await tab.address() == address
                ran.append(await tab.ask("document.documentElement.getAttribute('data-ran')"))
        await tab.open(f"data:text/html,<script>{code}</script>")
        control = await tab.ask("document.documentElement.getAttribute('data-ran')")

    assert (ran, control) == ([None] * 16, "1")
    assert len(leaks.requests) == 1  # of the control


@IN_BROWSER
async def test_pictures_and_styles_of_a_copy_are_shown(
    served: ServedCollection, site: str, chromium: CdpConnection
) -> None:
    """In a sandboxed page of an opaque origin, inside the reader's page."""
    served.builder.response(f"{site}/i.png", png("lime", (40, 40)), mime="image/png")
    served.builder.response(f"{site}/bg.png", png("blue", (40, 40)), mime="image/png")
    served.builder.response(f"{site}/s.css", b"body{margin:0;background:url(bg.png)}img{width:200px}", mime="text/css")
    served.builder.page(
        f"{site}/",
        f'<!DOCTYPE html><link rel="stylesheet" href="{site}/s.css"><img src="lazy.gif"'
        f' data-weboid-src="{site}/i.png">',
    )

    async with tab_in(chromium) as tab:
        await tab.open(f"{served.front}/page/{TS}/{site}/")
        image = await tab.picture_with({(100, 250): (0, 255, 0), (700, 500): (0, 0, 255)})

    colours = {colour for _, colour in image.getcolors(100_000) or []}
    assert len(colours) > 3  # the banner is there, too


@IN_BROWSER
async def test_the_screenshot_is_shown_as_evidence(
    served: ServedCollection, site: str, chromium: CdpConnection
) -> None:
    """The picture comes from the replay's origin into the front's page."""
    served.builder.page(f"{site}/", "<p>x</p>", shot=png("fuchsia", (600, 900)))

    async with tab_in(chromium) as tab:
        await tab.open(f"{served.front}/screenshot/{TS}/{site}/")
        await tab.picture_with({(400, 400): (255, 0, 255)})


@IN_BROWSER
async def test_the_reader_pages_fit_a_phone_in_light_and_dark(
    served: ServedCollection, site: str, chromium: CdpConnection
) -> None:
    """The ground is light or dark as the reader likes it, at 390 pixels as at 1200."""
    served.builder.page(f"{site}/", "<p>x</p>", title="T" * 200)
    grounds = []
    async with tab_in(chromium) as tab:
        for path in ("/", f"/page/{TS}/{site}/"):
            await tab.open(f"{served.front}{path}")
            for dark in (False, True):
                ground = (await tab.picture(size=(390, 700), dark=dark)).getpixel((3, 3))
                assert isinstance(ground, tuple)
                grounds.append((dark, sum(ground) < 200))

    assert grounds == [(dark, dark) for dark in (False, True, False, True)]


@IN_BROWSER
async def test_a_click_leads_to_the_front_and_the_frame_holds_no_key_to_it(
    served: ServedCollection, site: str, chromium: CdpConnection
) -> None:
    """The copy's every link is one of the front's addresses, opened in the whole window (P-08)."""
    links = f'<a href="{site}/next">next</a><a href="#a">stay</a>'
    served.builder.page(f"{site}/", f"<html data-weboid-written>{links}")

    async with tab_in(chromium) as tab:
        await tab.open(f"{served.replay}/c/{TS}/{site}/")
        text = await tab.ask("document.documentElement.outerHTML")

    targets = re.findall(r'<a href="([^"]*)" target="(\w+)"', text)
    assert targets == [(f"{served.front}/page/{TS}/{site}/next", "_top"), ("#a", "_self")]
    assert urlsplit(served.front).netloc != urlsplit(served.replay).netloc


@IN_BROWSER
async def test_a_film_is_played_from_the_archive(
    served: ServedCollection, site: str, leaks: LeakListener, chromium: CdpConnection
) -> None:
    """By its bytes, in the page, without a script; nothing is played that the reader did not start."""
    served.builder.response(f"{site}/film", film(), mime="video/webm")
    served.builder.page(
        f"{site}/", f'<video controls autoplay muted src="{site}/film"></video><video src="http://leak.test/v"></video>'
    )

    async with tab_in(chromium) as tab:
        await tab.open(f"{served.replay}/c/{TS}/{site}/")
        known = "(() => { const v = document.querySelector('video'); return v.readyState > 0 && %s })()"
        assert await tab.until(known % "[v.videoWidth, v.paused].join()") == "100,true"
        await tab.ask("document.querySelector('video').play().catch(String)")
        assert await tab.until(known % "v.played.length > 0 && v.ended")
    assert leaks.requests == []
