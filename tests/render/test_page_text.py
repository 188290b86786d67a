"""The final DOM, the text and the links of a page, as our scripts read them."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from core.captures import ArtifactKind
from core.clock import SystemClock
from core.config.settings import VisitSettings
from render.browser import Browser
from render.visit import Visit, VisitRequest, visit
from tests.render.conftest import serving

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

Look = Callable[..., Awaitable[Visit]]


def dom(seen: Visit) -> str:
    return next(a.data for a in seen.artifacts if a.kind is ArtifactKind.DOM).decode()


def text(seen: Visit) -> str:
    return next(a.data for a in seen.artifacts if a.kind is ArtifactKind.TEXT).decode()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def page(browser: Browser, clock: SystemClock) -> tuple[str, str]:
    """Return the DOM of a page that has some of everything, and the address of its site."""
    quick = VisitSettings(timeout_s=40.0, settle_s=0.2, settle_limit_s=5.0, favicon=False)
    async with serving() as site:
        seen = await visit(browser, VisitRequest(site.url("/dom.html")), quick, clock=clock)
    return dom(seen), site.url("")


@pytest.fixture
def html(page: tuple[str, str]) -> str:
    """Return the DOM of that page."""
    return page[0]


async def test_the_doctype_is_kept(html: str) -> None:
    """It decides between quirks and standards."""
    assert html.startswith('<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3')


async def test_the_text_says_that_it_is_utf8(html: str) -> None:
    """The encoding that the source declared is no longer true."""
    assert '<head><meta charset="utf-8">' in html
    assert "iso-8859-1" not in html


async def test_what_is_not_seen_is_left_out(html: str) -> None:
    """Scripts have run, comments and templates are not shown."""
    for unseen in ("<script", "a comment", "no script here", "<template", "<base", "document.write"):
        assert unseen not in html
    assert "<b>written</b>" in html


async def test_urls_are_absolute(page: tuple[str, str]) -> None:
    """They are resolved against the document's base, which is left out."""
    for attribute in (
        'href="{}/sub/rel.html"',
        'href="#part"',
        'href="{}/sub/sheet.css"',
        'src="{}/sub/small.png"',
        'srcset="{0}/sub/small.png 1x, {0}/image.png?big 2x"',
        'srcset="{0}/image.png?chosen, {0}/sub/b.png 9x"',
        'poster="{}/sub/poster.png"',
        "background:url(&quot;{}/sub/x%20y.png&quot;)",
        'url("{}/sub/bg.png")',
        'href="{}/sub/svg.html"',
    ):
        assert attribute.format(page[1]) in page[0]


async def test_the_picture_that_was_loaded_is_named(page: tuple[str, str]) -> None:
    """Of several candidates, playback must know the one that was fetched."""
    html, address = page
    assert f'data-weboid-src="{address}/image.png?chosen"' in html


async def test_attribute_values_are_escaped(html: str) -> None:
    """A value never ends its attribute."""
    assert 'alt="&lt;quoted &quot;"' in html


async def test_form_state_is_kept(html: str) -> None:
    """Values that a visitor would see in the fields are kept; the value of a password field is not."""
    assert '<input id="typed" value="after">' in html
    assert '<input type="checkbox" id="box" checked="">' in html
    assert '<textarea id="area">\nnew &lt;text&gt;</textarea>' in html
    assert '<option>one</option><option id="second" selected="">two</option>' in html
    assert "hidden" not in html


async def test_rules_that_scripts_made_are_kept(html: str) -> None:
    """Inserted rules and adopted sheets exist only in memory; written text stays as written."""
    assert "#a { color: rgb(1, 2, 3); }" in html
    assert "#a { margin: 7px; }</style></head>" in html
    assert "-x-unknown: kept" in html


async def test_a_canvas_becomes_its_picture(html: str) -> None:
    """The drawing exists nowhere else."""
    assert re.search(r'<img id="canvas"[^>]* src="data:image/png;base64,[^"]{50,}"', html)


async def test_a_frame_of_the_same_origin_is_kept_as_data(html: str) -> None:
    """Its document waits in an attribute for whoever wants to show it."""
    assert re.search('data-weboid-document="&lt;html data-weboid-url=&quot;(http|about)[^&]*&quot; ', html)
    assert "inner words" in html


async def test_line_breaks_after_pre_survive(html: str) -> None:
    """The parser swallows the first one."""
    assert "<pre>\nline</pre>" in html


async def test_svg_keeps_its_spelling(html: str) -> None:
    """SVG names have capitals; beside them stands how the drawing looked."""
    assert re.search(
        r'<svg viewBox="0 0 9 9" data-weboid-look="[^"<>]+"><linearGradient id="g"></linearGradient>', html
    )
    assert '<use href="#g"></use>' in html


async def test_shapes_say_what_style_sheets_made_of_them(look: Look) -> None:
    """Styles are recorded only where neither attributes nor inheritance in the drawing would give the same."""
    html = dom(await look("/shapes.html"))
    style_by_shape = dict(re.findall(r'<(\w+ [^<>]*?) data-weboid-look="([^"]*)"', re.sub(r"<svg[^>]*>", "", html)))

    assert style_by_shape == {
        'path d="M1 0h1"': "color:rgb(255,0,0);fill:currentColor",
        'path d="M2 0h1"': "fill:rgb(0,170,85)",
        'line x1="1"': "stroke:rgb(204,204,204);stroke-dasharray:3px,3px",
        'line x1="3" stroke="#ccc" stroke-dasharray="3"': "stroke-dasharray:3px,3px",
        'text y="1"': "font-size:11px;text-anchor:middle",
        'rect class="spun" x="1"': "transform:matrix(0 1 -1 0 10 0)",
        'rect class="turned" x="9"': "transform:matrix(2 0 0 2 2 0)",
        'rect class="placed" x="2"': "width:7",
        'circle class="placed" r="1.23456789" cx="1"': "r:3",
        'g class="tip"': "display:none",
        'stop offset="1"': "stop-color:rgb(255,165,0)",
    }


async def test_shadow_trees_are_flattened_in_place(look: Look) -> None:
    """A reader without scripts sees the slots filled, or their defaults, and closed trees too."""
    html = dom(await look("/shadow.html"))

    assert re.search(r'shadow words <span slot="head">slotted head</span></p>rest of it<a ', html)
    assert "shadow words default head</p>fallback<a " in html
    assert "closed words" in html


async def test_shadow_styles_stay_with_their_host(look: Look) -> None:
    """A component's rules must not repaint the page."""
    html = dom(await look("/shadow.html"))
    host = '[data-weboid-host="1"]'

    assert f"{host} {{ display: block; }}" in html
    assert f"{host} p, {host} b {{ color: red; }}" in html
    assert f"{host} i {{ color: blue; }}" in html
    assert f"{host}:is(.big) p {{ margin: 3px; }}" in html
    assert f"{host} :is(span) {{ color: green; }}" in html
    assert '<x-card data-weboid-host="1">' in html


async def test_text_includes_shadow_trees_and_frames(look: Look) -> None:
    """Whatever is read is searched."""
    shadow = text(await look("/shadow.html"))
    frames = text(await look("/frameset.html"))

    for words in ("slotted head", "rest of it", "shadow words", "closed words"):
        assert words in shadow
    assert "Words to read." in frames
    assert "only <text>" in frames


async def test_outlinks_are_absolute_and_once_each(look: Look, site: Any) -> None:
    """http(s) only, in order, fragments gone except those that name a state."""
    seen = await look("/links.html")

    assert seen.outlinks == (
        site.url("/a.html"),
        site.url("/app#!state"),
        "https://other.example/b?c=d",
        site.url("/area.html"),
        *(site.url(f"/many/{n}") for n in range(3)),
    )


async def test_outlinks_of_shadow_trees_and_frames_count(look: Look, site: Any) -> None:
    """A link is a link wherever it stands."""
    assert site.url("/shadow-link.html") in (await look("/shadow.html")).outlinks
    assert site.url("/inner.html") in (await look("/dom.html")).outlinks
    assert site.url("/next.html") in (await look("/frameset.html")).outlinks


async def test_a_page_cannot_tamper_with_our_scripts(look: Look, site: Any) -> None:
    """Overridden prototypes and clobbered names change nothing (isolated world)."""
    seen = await look("/tampering.html")

    assert (seen.reason, seen.title) == ("", "Tampering")
    assert "still read" in text(seen)
    assert seen.outlinks == (site.url("/found.html"),)
    assert '<input name="attributes" value="kept">' in dom(seen)


async def test_what_the_page_tells_robots_is_read(look: Look) -> None:
    """Every meta that could forbid archiving is told by its name, late and clobbered ones too."""
    seen = await look("/robots-meta.html")

    assert sorted(seen.robots_meta) == [
        ("http-equiv:x-robots-tag", "unavailable_after: 2020-01-01"),
        ("otherbot", "noarchive"),
        ("robots", "NOINDEX , NoArchive"),
        ("weboid", "nocache"),
    ]


async def test_what_scripts_did_to_linked_sheets_is_written_in_their_place(look: Look, site: Any) -> None:
    """Inserted, deleted and changed rules, in the sheet's order; what only looked is left as it is."""
    html = dom(await look("/changed.html"))
    tags = re.findall(r"<(?:style|link)(?:[^>]*)>", html)

    sheet = site.url("/linked.css?")
    assert tags == [
        f'<style media="screen" data-weboid-sheet="{sheet}inserted">',
        f'<style data-weboid-sheet="{sheet}deleted">',
        f'<style data-weboid-sheet="{sheet}declared">',
        f'<link rel="stylesheet" href="{sheet}read">',
        f'<link rel="stylesheet" href="{sheet}off" disabled="">',
        f'<link rel="stylesheet" href="{sheet}left">',
        "<style>",
    ]
    inserted, deleted, declared, own = re.findall(r"<style[^>]*>(.*?)</style>", html, re.DOTALL)
    assert f'url("{site.url("/in.png")}")' in inserted
    assert "p { margin: 1px; }" in inserted
    assert f'url("{site.url("/two.png")}")' in inserted
    assert deleted == "p { margin: 1px; }"
    assert "margin: 7px" in declared
    assert own == ".own { color: rgb(1, 2, 3); }"


async def test_shadow_roots_that_markup_closes_are_in_the_dom(look: Look) -> None:
    """No script of a page sees them: with slots, one in another, and in a frame; words and links too."""
    seen = await look("/closed.html")
    html = dom(seen)

    assert '<div data-weboid-host="1"><style>[data-weboid-host="1"] p { color: red; }' in html
    assert '<x-card data-weboid-host="2"><b>before</b> slotted' in html
    assert '<x-deep data-weboid-host="3"><a href=' in html
    assert "&gt;in a frame&lt;/x-in&gt;" in html
    assert "said in a plain host\nbefore slotted deep down\nin a frame" in text(seen)
    assert [url.rpartition("/")[2] for url in seen.outlinks] == ["deep.html"]


async def test_pictures_and_fonts_of_the_pages_memory_are_kept(browser: Browser, clock: SystemClock) -> None:
    """As bytes, within bounds, and by what they are; a page that floods its reader is cut off."""
    quick = VisitSettings(timeout_s=40.0, settle_s=0.2, settle_limit_s=5.0, favicon=False)
    async with serving() as site:
        seen = await visit(browser, VisitRequest(site.url("/memory.html")), quick, clock=clock)
        address = site.url("/f.woff2")
    html = dom(seen)

    assert html.count("data:image/gif;base64,") == 1
    assert html.count("blob:") == 2
    assert 'font-family: "Address"; font-style: normal; font-weight: 700' in html
    assert f'src: url("{address}")' in html
    assert "Unused" not in html
    assert html.count("fake.woff2") <= 20
    assert "</style><script" not in html
    assert len(html) < 100_000
