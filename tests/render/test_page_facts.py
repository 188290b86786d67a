"""Facts about a page: its metadata, links, icon, print, and state."""

import asyncio
import base64
import html
import io
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from PIL import Image

from core.captures import ArtifactKind
from core.page_facts import PageFact
from core.page_manifest import PageLink
from render.browser import Browser
from render.visit import Visit

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

Look = Callable[..., Awaitable[Visit]]


def artifact(seen: Visit, kind: ArtifactKind) -> bytes:
    return next(a.data for a in seen.artifacts if a.kind is kind)


async def test_facts_are_read_from_the_page(look: Look, site: Any) -> None:
    """Each with its source; the title of the document stays what it is."""
    seen = await look("/said.html")

    assert seen.title == "Said | Site"
    assert PageFact("title", "Said", "ld:headline") in seen.facts
    assert PageFact("author", "Ann", "ld:author") in seen.facts
    assert PageFact("published", "2024-05-01", "ld:datePublished") in seen.facts
    assert PageFact("language", "en-GB", "html:lang") in seen.facts
    values = {each.name: each.value for each in seen.facts}
    assert values["canonical"] == site.url("/canonical.html")
    assert values["site"] == "Site"
    assert values["description"] == "What it is."


async def test_links_say_where_they_stand(look: Look, site: Any) -> None:
    """Text or label, rel, place, heading above, whether seen; the best sight of one met twice."""
    seen = await look("/said.html")
    links = {link.url.removeprefix(site.url("")): link for link in seen.links}

    def link(path: str, *rest: Any) -> PageLink:
        return PageLink(site.url(path), *rest)

    assert links["/home.html"] == link("/home.html", "Home", "", "a", "header", "", True)
    assert links["/nav.html"] == link("/nav.html", "A map", "", "a", "nav", "", True)
    assert links["/body.html"] == link("/body.html", "a link in text", "nofollow ugc", "a", "main", "First part", True)
    assert links["/twice.html"] == link("/twice.html", "seen", "", "a", "main", "Second", True)
    assert not links["/unseen.html"].visible
    assert links["/svg.html"] == link("/svg.html", "drawn", "", "a", "footer", "Second", True)
    assert (links["/area.html"].text, links["/area.html"].kind) == ("An area", "area")
    assert links["/feed.xml"] == link("/feed.xml", "Feed", "alternate", "link", "", "", False)
    assert links["/refreshed.html"].kind == "refresh"


async def test_a_crawl_follows_links_but_no_other_forms_of_the_page(look: Look, site: Any) -> None:
    """rel=next and a slow refresh lead on; canonical, alternate and AMP are the page itself."""
    seen = await look("/said.html")

    paths = {url.removeprefix(site.url("")) for url in seen.outlinks}
    assert {"/next.html", "/refreshed.html", "/svg.html", "/area.html"} <= paths
    assert not {"/canonical.html", "/feed.xml", "/amp.html"} & paths


async def test_the_icon_of_the_best_size_is_loaded_once_a_browser(look: Look, site: Any, browser: Browser) -> None:
    """The smallest that has 32 pixels; other pages, at the same time or later, name it without a request."""
    first, beside = await asyncio.gather(look("/said.html", favicon=True), look("/said.html", favicon=True))
    again = await look("/said.html", favicon=True)

    assert first.favicon == beside.favicon == again.favicon == site.url("/image.png?icon")
    assert site.paths().count("/image.png?icon") == 1
    assert not {"/icon-16.png", "/icon-500.png", "/favicon.ico"} & set(site.paths())
    assert first.outcome == "complete"


async def test_without_a_word_the_usual_icon_is_asked_for(look: Look, site: Any) -> None:
    """One that is not there is none; a page that is an error is not asked for one."""
    plain = await look("/plain.html", favicon=True)
    error = await look("/status/404", favicon=True)

    assert (plain.favicon, plain.reason, error.favicon) == ("", "", "")
    assert site.paths().count("/favicon.ico") == 1


async def test_a_page_is_printed_when_asked_to(look: Look) -> None:
    """With all its pages; else not at all."""
    seen = await look("/tall.html", pdf=True)

    assert artifact(seen, ArtifactKind.PDF).startswith(b"%PDF-1.")
    assert artifact(seen, ArtifactKind.PDF).rstrip().endswith(b"%%EOF")
    assert all(a.kind is not ArtifactKind.PDF for a in (await look("/plain.html")).artifacts)


async def test_state_that_is_in_no_attribute_is_kept(look: Look) -> None:
    """Popovers, dialogs, details, edited text."""
    dom = artifact(await look("/states.html"), ArtifactKind.DOM).decode()

    assert '<div id="open" data-weboid-popover="open">popover words' in dom
    assert '<div id="shut" data-weboid-popover="closed" hidden="">closed words' in dom
    assert '<details id="d" open="">' in dom
    # With what dims the page behind it.
    dim = ";outline:200vmax solid rgba(0, 0, 0, 0.1)"
    assert f'<dialog id="dialog" open="" data-weboid-modal="" style="{dim}">' in dom
    assert '<div contenteditable="" id="edit">edited</div>' in dom


async def test_an_image_in_memory_becomes_data(look: Look) -> None:
    """Nobody else can ask for a blob: URL."""
    dom = artifact(await look("/states.html"), ArtifactKind.DOM).decode()

    tag = re.search(r'<img id="blob"[^>]*>', dom)
    assert tag
    assert ' src="data:image/png;base64,' in tag[0]
    assert ' src="blob:' not in tag[0]


async def test_a_canvas_that_cannot_be_read_is_looked_at(look: Look, proxy: Any) -> None:
    """One with a foreign image in it is cut from what is seen, wherever it stands."""
    seen = await look("http://outer.test/states.html", proxy.endpoint())
    dom = artifact(seen, ArtifactKind.DOM).decode()

    tag = re.search(r'<img id="tainted"[^>]* src="data:image/png;base64,([^"]*)"', dom)
    assert tag
    with Image.open(io.BytesIO(base64.b64decode(html.unescape(tag[1])))) as image:
        assert image.size == (60, 40)
        assert image.convert("RGB").getpixel((30, 20)) == (0, 170, 0)


async def test_text_is_in_the_order_in_which_it_is_read(look: Look) -> None:
    """Slots as they are shown, closed trees too; nothing that is not rendered."""
    text = artifact(await look("/states.html"), ArtifactKind.TEXT).decode()
    lines = [line for line in text.split("\n") if line.strip()]

    at = lines.index("shadow top")
    assert lines[at : at + 4] == ["shadow top", "first", "between", "second"]
    assert lines[-2:] == ["Before after", "broken"]
    for unseen in ("not seen", "nor this", "closed words", "hidden shadow"):
        assert unseen not in text


async def test_requests_say_when_and_how_they_were_made(look: Look) -> None:
    """Times from the first of them, bytes as they came, and what made it."""
    page, image = (await look("/said.html")).requests[:2]

    assert (page.started_ms, page.initiator, image.initiator) == (0.0, "other", "parser")
    assert image.started_ms is not None
    assert image.started_ms > 0
    for each in (page, image):
        assert each.ttfb_ms is not None
        assert each.duration_ms is not None
        assert 0 < each.ttfb_ms <= each.duration_ms
        assert each.wire_bytes is not None
        assert each.wire_bytes > 68
        assert each.protocol == "http/1.1"


async def test_a_drawing_says_how_it_looked(look: Look) -> None:
    """Size, colours and place, as computed; in another one its size alone; never the page's words."""
    dom = artifact(await look("/drawings.html"), ArtifactKind.DOM).decode()

    assert dom.count("data-weboid-look=") == 3
    assert 'data-weboid-look="width:20px;height:10px;color:rgb(255, 0, 0);' in dom
    first, inner, second = re.findall(r'data-weboid-look="([^"]*)"', dom)
    assert {"position:absolute", "top:3px"} <= set(first.split(";"))
    assert inner == "width:20;height:10"
    assert "display:none" in second.split(";")


async def test_the_density_of_a_responsive_image_is_recorded(look: Look) -> None:
    """By the descriptor of the candidate that the browser chose; none where it is one."""
    dom = artifact(await look("/responsive.html"), ArtifactKind.DOM).decode()
    images = re.findall(r"<img[^>]*>", dom)
    density = {
        re.findall(r' id="(\w+)"', each)[0]: re.findall(r' data-weboid-density="([\d.]+)"', each) for each in images
    }

    assert density == {"plain": [], "dense": [], "wide": ["2.0000"], "source": ["4.0000"]}


async def test_html_within_a_drawing_becomes_shapes_and_lines(look: Look) -> None:
    """At its place in the drawing, as a script-free reader can show it as an image."""
    dom = artifact(await look("/responsive.html"), ArtifactKind.DOM).decode()
    assert "foreignObject" not in dom
    (drawing,) = re.findall(r"<svg.*?</svg>", dom, re.DOTALL)
    (box,) = re.findall(r"<rect ([^>]*)>", drawing)
    lines = re.findall(r"<text ([^>]*)>([^<]*)</text>", drawing)

    assert 'x="10.00"' in box
    assert 'width="80.00"' in box
    assert 'fill="rgb(200, 210, 220)"' in box
    assert " ".join(words for _, words in lines) == "A label of two lines &amp; more words"
    assert len(lines) > 1
    for facts, _ in lines:
        assert 'font-size="8.00"' in facts
        assert 'font-weight="700"' in facts
        assert 'fill="rgb(1, 2, 3)"' in facts
    places = [float(y) for y in re.findall(r' y="([\d.]+)" font', "".join(f for f, _ in lines))]
    assert 10 < places[0] < places[1] < 45
