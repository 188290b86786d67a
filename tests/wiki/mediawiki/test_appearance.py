"""Cached links and Special:WeboidLinks in the browser: accessibility, narrow and dark skins, updates by the script.

With ``WEBOID_PICTURES=docs/pictures`` it also makes the pictures of the documentation.
"""

import asyncio
import io
import json
import os
from pathlib import Path

import pytest
from PIL import Image

from tests.support.browser_screen import BrowserScreen
from tests.support.documentation_pictures import save_picture
from tests.support.http_listener import ReceivedRequest, StubResponse
from tests.support.mediawiki_extension import ExtensionWiki
from tests.support.sites.mediawiki import ADMIN, PASSWORD
from tests.support.wiki_visitor import WikiVisitor

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
TEXT = """The '''lighthouse''' was lit in 1871,<ref>[https://e.org/history History of the coast],
read on 3 May 2024</ref> and electrified in 1932.<ref>[https://e.org/dead-paper The Coast Paper], p. 3</ref>
Its keeper kept [https://e.org/queued-diary a diary], which a library may
[https://e.org/refused-library not show]. See also https://e.org/a-very-long-path/that/goes/on/and/on.

== Sources ==
<references/>
"""
PAGES = {"page": "Lighthouse", "list": "Special:WeboidLinks/Lighthouse"}
PICTURES = {"page": "cached-links", "list": "archived-links"}


@pytest.fixture(scope="module")
def lit(extended_once: ExtensionWiki) -> str:
    """Write a page about a lighthouse; return the URL of the wiki's pages up to the title."""
    extended_once.writer.write("Lighthouse", TEXT)
    return f"{extended_once.wiki.base}/index.php?title="


@pytest.fixture(scope="module")
def admin(extended_once: ExtensionWiki) -> WikiVisitor:
    """Return an administrator's session, for which the list has forms."""
    return WikiVisitor(extended_once.wiki.base, ADMIN, PASSWORD)


@pytest.mark.parametrize(
    ("page", "width", "more", "dark"),
    [
        ("page", 1200, "", False),
        ("page", 500, "&useskin=vector-2022&uselang=de", True),
        ("list", 1200, "", False),
        ("list", 500, "&useskin=vector-2022&uselang=he", False),
    ],
    ids=["page", "page, narrow, dark", "list", "list, narrow, right to left"],
)
async def test_axe_reports_no_serious_fault(
    extended: ExtensionWiki, lit: str, admin: WikiVisitor, screen: BrowserScreen,
    page: str, width: int, more: str, dark: bool,
) -> None:  # fmt: skip
    """Names, contrasts and targets of the extension's elements."""
    for name, value in admin.cookies().items():
        await screen.send("Network.setCookie", name=name, value=value, url=extended.wiki.base)
    await screen.open(f"{lit}{PAGES[page]}{more}", size=(width, 900), dark=dark)
    if (folder := os.environ.get("WEBOID_PICTURES")) and width == 1200:
        box = await screen.value(
            "(box => [box.left + 2, box.top + 2, box.right, box.bottom - 2])"
            "(document.querySelector('#content').getBoundingClientRect())"
        )
        picture = Image.open(io.BytesIO(await screen.picture())).crop(tuple(map(round, box)))
        save_picture(picture, Path(folder, f"{PICTURES[page]}.png"))
    ours = ("weboid", 'name="level"', 'name="reason"', 'name="page"', "e.org")
    findings = [each for each in await screen.findings() if any(name in each for name in ours)]
    assert findings == []


async def test_cached_links_have_accessible_names(extended: ExtensionWiki, lit: str, screen: BrowserScreen) -> None:
    """The name contains the URL and the day of the copy, and begins with the visible label."""
    await screen.open(f"{lit}Lighthouse")
    names = await screen.value(
        "[...document.querySelectorAll('.weboid-cached a')].map(a => [a.textContent, a.ariaLabel])"
    )
    assert names[0] == ["queued", "queued: e.org/queued-diary will be archived"]
    assert ["cached", "cached copy of e.org/history from 20 November 2026"] in names
    assert all(name.startswith(seen) for seen, name in names)


async def test_cached_links_are_not_printed(extended: ExtensionWiki, lit: str, screen: BrowserScreen) -> None:
    """MediaWiki prints the addresses of the links themselves."""
    await screen.open(f"{lit}Lighthouse")
    await screen.send("Emulation.setEmulatedMedia", media="print")
    shown = await screen.value(
        "[...document.querySelectorAll('.weboid-cached')]"
        ".filter(one => getComputedStyle(one).display !== 'none').length"
    )
    assert shown == 0


async def test_dead_links_differ_by_more_than_colour(extended: ExtensionWiki, lit: str, screen: BrowserScreen) -> None:
    """They have another underline."""
    await screen.open(f"{lit}Lighthouse")
    lines = await screen.value(
        "['.weboid-unreachable', '.weboid-working'].map(kind =>"
        " getComputedStyle(document.querySelector('a' + kind)).textDecorationLine)"
    )
    assert lines[0] != lines[1]


async def test_poll_script_updates_marks_of_an_open_page(
    extended: ExtensionWiki, lit: str, screen: BrowserScreen
) -> None:
    """From queued to archived, and from unknown to queued, without a reload."""
    extended.writer.write("Tide", "[https://e.org/tide The tide] and [https://e.org/other another]")
    waiting = {"answer": "queued", "href": f"{extended.front.address}/latest/x", "copy": None}
    now = dict(waiting)

    def answer(request: ReceivedRequest) -> StubResponse:
        document = json.loads(extended.front.default_answer(request).body)
        document["links"] = [{**link, **now} if link["url"].endswith("tide") else link for link in document["links"]]
        return StubResponse(body=json.dumps({**document, "fresh_s": 1 if now else 60}).encode())

    extended.front.answer = answer
    await screen.open(f"{lit}Tide", size=(1000, 600))
    tide = "document.querySelector('a[href$=tide] + .weboid-cached').className"
    assert await screen.value(tide) == "weboid-cached weboid-queued"
    await screen.value("window.isSame = true")
    now.clear()
    async with asyncio.timeout(120):
        while await screen.value(tide) != "weboid-cached weboid-copy":
            await asyncio.sleep(0.1)
    assert await screen.value("window.isSame")
    assert await screen.value("document.querySelectorAll('.weboid-cached').length") == 2
    versions = "Array.from(document.querySelectorAll('a[data-versionurl]')).length"
    assert await screen.value(versions) == 2
