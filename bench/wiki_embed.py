"""Cost of cached copies beside links: MB/s of the HTML filter, milliseconds that a page view gains.

The page is like MediaWiki's: a hundred references, each with an external link, four times as many links
to other pages of the wiki, 100 KB. The proxy stands between a client and an origin that says the page
from memory; the baseline is the same proxy where it marks nothing (a path for programs). The front is
asked once: what it says holds for a minute, as in life. The lowest of several rounds counts.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import http.client
import statistics
import time
from contextlib import ExitStack

from bench import report
from tests.support.embed_fixtures import running_proxy
from tests.support.embed_front import running_front
from tests.support.embed_upstream import page, running_upstream
from wiki.embed.link_lookup import LinkAnswer, PageLocation
from wiki.embed.page_marker import insert_marks, read_page, remove_marks

LINKS = 100
ROUNDS = 5
_HEAD = (
    b'<!DOCTYPE html><html><head><meta charset="UTF-8"/><title>A page</title>'
    b'<meta name="generator" content="MediaWiki 1.39.17"/></head><body><div id="mw-content-text">'
)
_PARAGRAPH = (
    b'<p>Lorem ipsum <a href="/wiki/Dolor" title="Dolor">dolor</a> sit <b>amet</b>, '
    b'<span class="x">consectetur</span> adipiscing elit, sed do eiusmod tempor incididunt ut labore et '
    b'dolore magna <a href="/wiki/Aliqua" title="Aliqua (page)">aliqua</a>.</p>\n'
)
_REFERENCE = (
    b'<li id="cite_note-%d"><span class="mw-cite-backlink"><b><a href="#cite_ref-%d">^</a></b></span> '
    b'<cite class="citation web"><a rel="nofollow" class="external text" '
    b'href="https://site%d.bridges.org/path/to?x=%d&amp;y=2">Some title of a page</a>. <i>Work</i>.</cite>'
    b' <a href="/wiki/Foo" title="Foo">Foo</a></li>\n'
)
ARCHIVE = "https://archive.test"


def a_page() -> bytes:
    """Return a page of 100 KB with a hundred external links."""
    references = b"".join(_REFERENCE % (n, n, n, n) for n in range(LINKS))
    return _HEAD + _PARAGRAPH * 220 + references + b"</div></body></html>"


def figures(*, quick: bool) -> dict[str, float]:
    """Measure everything, print a table and return the figures."""
    html = a_page()
    around = PageLocation("https://wiki.test/wiki/A", (), (ARCHIVE,))
    views = 60 if quick else 200
    answers = {
        url: LinkAnswer(url, "copy", f"{ARCHIVE}/x", f"{ARCHIVE}/x", "2026-01-01", "working")
        for url in read_page(html, around).urls(LINKS)
    }
    read_s = _lowest(lambda: read_page(html, around))
    marked_s = _lowest(lambda: insert_marks(read_page(html, around), answers))
    made = insert_marks(read_page(html, around), answers)
    plain = (_PARAGRAPH * 5_000).replace(b"<a href", b"<i title").replace(b"</a>", b"</i>")
    plain_s = _lowest(lambda: read_page(plain, around))
    without, with_marks = _views(html, views)
    measurements = {
        "filter_mb_per_s": len(html) / marked_s / 1e6,
        "text_mb_per_s": len(plain) / plain_s / 1e6,
        "page_kb": len(html) / 1e3,
        "page_read_ms": read_s * 1e3,
        "page_marked_ms": marked_s * 1e3,
        "page_unmarked_ms": _lowest(lambda: remove_marks(made)) * 1e3,
        "embed_view_ms": without * 1e3,
        "embed_view_marked_ms": with_marks * 1e3,
        "embed_view_added_ms": (with_marks - without) * 1e3,
    }
    report.table([("figure", "value"), *((name, f"{value:,.2f}") for name, value in measurements.items())])
    return measurements


def _lowest(work: object) -> float:
    assert callable(work)
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        count = 0
        while time.process_time() - start < 0.2:
            work()
            count += 1
        taken.append((time.process_time() - start) / count)
    return min(taken)


def _views(html: bytes, views: int) -> tuple[float, float]:
    """Return the seconds of a view through the proxy, without and with marks: medians, best of rounds."""
    with ExitStack() as stack:
        front = stack.enter_context(running_front())
        upstream = stack.enter_context(running_upstream())
        upstream.answer = lambda _: page(html)
        port = stack.enter_context(running_proxy(upstream.origin, front))
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        rounds: dict[str, list[float]] = {"/rest.php/x": [], "/wiki/A": []}
        for _ in range(3):
            for target, medians in rounds.items():
                medians.append(_median(client, target, views))
        client.close()
    return min(rounds["/rest.php/x"]), min(rounds["/wiki/A"])


def _median(client: http.client.HTTPConnection, target: str, views: int) -> float:
    taken = []
    for _ in range(views):
        start = time.perf_counter()
        client.request("GET", target)
        client.getresponse().read()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


if __name__ == "__main__":
    report.figures("wiki_embed", figures(quick="--quick" in sys.argv))
