"""Pages of real engines through the proxy, in the real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser_screen import BrowserScreen
from tests.support.embed_fixtures import running_proxy
from tests.support.embed_front import StubFront, answer_of
from tests.support.embed_upstream import page, running_upstream
from tests.support.sites.mediawiki import RunningWiki
from tests.support.wiki_writer import WikiWriter
from wiki.embed.page_marker import remove_marks

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

FINE, GONE, WAITS = ("https://fine.example.com/a", "http://gone.example.com/b?c=d&e=f", "https://new.example.com/")
TEXT = f"""A [{FINE} titled link], a bare one: {GONE}, and <ref>A reference: [{GONE} gone]. It says so.</ref>
one in a table:
{{| class="wikitable"
| [{WAITS} waits] || [https://web.archive.org/web/2015/http://x.example.com/ a copy]
|}}
An own one: [{{{{fullurl:Links}}}} here], and [mailto:a@b.example mail].
<references/>"""
DOKU = f"""<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"/><title>start</title>
<meta name="generator" content="DokuWiki"/></head><body><div id="dokuwiki__site">
<a href="https://menu.example.com/">menu</a><div id="dokuwiki__content"><div class="page">
<p>A <a href="{FINE}" class="urlextern" title="{FINE}" rel="ugc nofollow">titled link</a> and
<a href="/doku.php?id=other" class="wikilink1">an own one</a>.</p></div></div></div></body></html>""".encode()
_SEEN = """JSON.stringify([...document.querySelectorAll('sup.weboid-cached')].map(sup => {
    const before = sup.previousElementSibling, own = sup.firstElementChild;
    return [before.getAttribute('href'), sup.className, own.textContent, before.dataset.versionurl || ''];
}))"""


def link_answer(front: StubFront, url: str) -> dict[str, object]:
    """Return the front's answer for one of the three URLs."""
    kind = "queued" if url == WAITS else "copy"
    return answer_of(url, front.origin, kind=kind, dead=url == GONE)


@pytest.fixture
def port(wiki: RunningWiki, front: StubFront) -> Iterator[int]:
    """Yield the port of the proxy in front of the real wiki."""
    front.link_answer = lambda url: link_answer(front, url)
    with running_proxy(wiki.base, front) as running:
        yield running


async def test_a_page_of_mediawiki_shows_copies_beside_its_links(
    writer: WikiWriter, wiki: RunningWiki, port: int, front: StubFront, screen: BrowserScreen, tmp_path: Path
) -> None:
    """In its text, its tables and its references; not in menus, not beside archives' links."""
    writer.write("Links", TEXT)
    await screen.open(f"http://127.0.0.1:{port}/wiki/Links")

    import json

    seen = json.loads(await screen.value(_SEEN))
    (tmp_path / "mediawiki.png").write_bytes(await screen.picture())

    copy = f"{front.origin}/page/20260102030405/"
    assert seen == [
        [FINE, "weboid-cached weboid-copy", "cached", copy + FINE],
        [GONE, "weboid-cached weboid-copy", "cached", copy + GONE],
        [WAITS, "weboid-cached weboid-queued", "queued", ""],
        [GONE, "weboid-cached weboid-copy", "cached", copy + GONE],
    ]
    assert sorted(front.queries[0]["urls"]) == sorted((FINE, GONE, WAITS))


async def test_a_page_of_another_engine_does_so_too(front: StubFront, screen: BrowserScreen, tmp_path: Path) -> None:
    """DokuWiki's content; its menu cites nothing."""
    import json

    front.link_answer = lambda url: link_answer(front, url)
    with running_upstream() as upstream:
        upstream.answer = lambda _: page(DOKU)
        with running_proxy(upstream.origin, front) as port:
            await screen.open(f"http://127.0.0.1:{port}/doku.php")
            seen = json.loads(await screen.value(_SEEN))
            (tmp_path / "dokuwiki.png").write_bytes(await screen.picture())

    assert [each[0] for each in seen] == [FINE]


async def test_a_wiki_works_through_the_proxy(wiki: RunningWiki, port: int, writer: WikiWriter) -> None:
    """Logging in, saving and reading back as with no proxy between: cookies, tokens and uploads pass."""
    through = WikiWriter(f"http://127.0.0.1:{port}/api.php")

    page_id, _ = through.write("Through", f"[{FINE} x]")

    document = writer.ask(action="query", pageids=page_id, prop="revisions", rvprop="content", rvslots="main")
    assert document["query"]["pages"][0]["revisions"][0]["slots"]["main"]["content"] == f"[{FINE} x]"


async def test_every_page_of_a_wiki_is_its_own_again_without_the_marks(wiki: RunningWiki, port: int) -> None:
    """To the byte, but for what the wiki renders again at each view."""
    import re
    import urllib.parse
    import urllib.request

    fresh = re.compile(
        rb'"wgRequestId":"\w+"|"wgBackendResponseTime":\d+|Served by.*|\d+\.\d+ seconds|http://127\.0\.0\.1:\d+'
    )

    def read(origin: str, title: str) -> bytes:
        address = f"{origin}/wiki/{urllib.parse.quote(title)}"
        with urllib.request.urlopen(address, timeout=120) as answer:
            return fresh.sub(b"", answer.read())

    for title in wiki.titles[:8]:
        marked = read(f"http://127.0.0.1:{port}", title)
        assert remove_marks(marked) == read(wiki.base, title)
