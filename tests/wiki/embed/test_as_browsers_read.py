"""Our reading of pages held to the real browser's, over pages that no author would write."""

import json
import random
import re
from typing import Any

import pytest

from tests.support.browser_screen import BrowserScreen
from tests.support.sites.docs import library
from tests.wiki.embed.garbage import GARBAGE
from wiki.embed.link_lookup import LinkAnswer, PageLocation
from wiki.embed.page_marker import insert_marks, read_page, remove_marks

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

ARCHIVE = "https://archive.test"
HERE = PageLocation("https://wiki.test/", (), (ARCHIVE,))
PAGES = 3_000
_WEB = re.compile(r"https?://(?!localhost)")  # nobody can ask for a page of this machine's
SEED = 8
# Frames, which a parser alone does not load, and what would leave the page are not among the pieces.
PIECES = [piece for piece in GARBAGE if b"base" not in piece and b"\xff" not in piece]
_READ = """
(async pages => {
    const found = [];
    for (const html of pages) {
        const parsed = new DOMParser().parseFromString(html, 'text/html');
        const links = [...parsed.querySelectorAll('a[href]')]
            .filter(a => a.namespaceURI.endsWith('xhtml') && !a.closest('svg, math, select'))
            .map(a => a.getAttribute('href'));
        for (const sup of parsed.querySelectorAll('sup.weboid-cached')) sup.remove();
        for (const a of parsed.querySelectorAll('a')) {
            for (const name of ['originalurl', 'versionurl', 'versiondate'])
                a.removeAttribute('data-' + name);
            if (a.classList.contains('weboid-link')) {
                const rest = [...a.classList].filter(name => !name.startsWith('weboid-'));
                if (rest.length) a.className = rest.join(' '); else a.removeAttribute('class');
            }
            if (a.getAttribute('class') === '') a.removeAttribute('class');
        }
        // What is open when a badly nested link ends is opened again, around nothing, by what follows.
        for (const each of parsed.querySelectorAll('b, i')) each.replaceWith(...each.childNodes);
        parsed.normalize();
        found.push({links, html: parsed.documentElement.outerHTML});
    }
    return JSON.stringify(found);
})"""


async def read(screen: BrowserScreen, pages: list[bytes]) -> list[dict[str, Any]]:
    """Return the browser's reading of each page: its links and its HTML."""
    readings: list[dict[str, Any]] = []
    for start in range(0, len(pages), 300):
        texts = [page.decode("utf-8") for page in pages[start : start + 300]]
        readings += json.loads(await screen.value(f"{_READ}({json.dumps(texts)})"))
    return readings


def pages() -> list[bytes]:
    """Return pages of random pieces, the same in every run."""
    chance = random.Random(SEED)
    return [b"".join(chance.choices(PIECES, k=chance.randint(1, 30))) for _ in range(PAGES)]


def answers(urls: tuple[str, ...]) -> dict[str, LinkAnswer]:
    """Return an answer with a copy for each URL."""
    return {url: LinkAnswer(url, "copy", f"{ARCHIVE}/x", f"{ARCHIVE}/x", group="working") for url in urls}


async def test_marks_leave_a_browser_s_reading_of_the_rest_as_it_was(screen: BrowserScreen) -> None:
    """Without the marks its document is the same, element by element, and links are links to it, too."""
    before = pages()
    readings = [read_page(page, HERE) for page in before]
    after = [insert_marks(page, answers(page.urls(1_000))) for page in readings]

    was, became = await read(screen, before), await read(screen, after)

    changed = [
        (page, made)
        for page, made, one, other in zip(before, after, was, became, strict=True)
        if one["html"] != other["html"]
    ]
    assert changed == []
    assert sum(page != made for page, made in zip(before, after, strict=True)) > PAGES / 4


async def test_every_link_that_is_marked_is_one_to_a_browser(screen: BrowserScreen) -> None:
    """And but for doubtful places, every link that it sees is found."""
    before = pages()
    seen = await read(screen, before)
    link_count = missed = 0
    for page, reading in zip(before, seen, strict=True):
        ours = [page[link.start :].partition(b">")[0] for link in read_page(page, HERE).links]
        theirs = [href for href in reading["links"] if "example.com" in href]
        # One that a table or a block breaks in two is one here, and several there.
        extra = [each for each in ours if not any(href.encode() in each for href in _spelled(theirs))]
        assert extra == [], page
        link_count += len(ours)
        missed += len(set(theirs)) > 0 and not ours

    assert link_count > PAGES / 3
    assert missed < PAGES / 10


def _spelled(hrefs: list[str]) -> list[str]:
    return [*hrefs, *(href.replace("&", "&amp;") for href in hrefs)]


async def test_of_real_pages_every_link_is_found_and_nothing_else_changes(screen: BrowserScreen) -> None:
    """Manuals as Debian publishes them, made by several tools over twenty years."""
    files = [path for path in sorted(library().root.rglob("*.html")) if path.stat().st_size < 300_000]
    before = [path.read_bytes() for path in files]
    readings = [read_page(page, HERE) for page in before]
    after = [insert_marks(page, answers(page.urls(10_000))) for page in readings]
    cited = [place for place, page in enumerate(readings) if page.links][::5]

    was = await read(screen, [before[place] for place in cited])
    became = await read(screen, [after[place] for place in cited])

    assert [remove_marks(made) for made in after] == before
    assert sum(len(page.links) for page in readings) > 500
    for place, one, other in zip(cited, was, became, strict=True):
        assert one["html"] == other["html"], files[place]
        theirs = [href for href in one["links"] if _WEB.match(href)]
        assert len(theirs) == len(readings[place].links), files[place]
