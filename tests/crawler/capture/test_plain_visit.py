"""Pages fetched without a browser."""

from hypothesis import given
from hypothesis import strategies as st

from core.page_classes import PageClass
from crawler.capture.plain_visit import PARTS_LIMIT, classify_plain, is_rendered, read_page
from crawler.capture.proxy_fetcher import FetchedFile

PAGE = """<!doctype html><title> A
page </title><base href="/sub/"><link rel="Stylesheet" href="s.css"><link rel=canonical href="c">
<a href="b?x=1&amp;y=2#top">b</a><a href="mailto:a@b.test">m</a><a href="//other.test">o</a>
<img src="i.png" srcset="j.png 1x, k.png 2x"><script src=/x.js></script><a href="b?x=1&amp;y=2">b</a>
"""


def test_a_document_names_its_title_links_and_parts() -> None:
    """Seen from its base, each once, and only what is http(s)."""
    page = read_page(PAGE.encode(), "utf-8", "https://a.test/")

    assert page.title == "A page"
    assert list(page.links) == ["https://a.test/sub/b?x=1&y=2", "https://other.test/"]
    names = ("sub/s.css", "sub/i.png", "sub/j.png", "sub/k.png", "x.js")
    assert list(page.parts) == [f"https://a.test/{name}" for name in names]


@given(st.binary(max_size=2_000), st.sampled_from(["utf-8", "utf-16", "no-such", ""]))
def test_whatever_a_document_holds_nothing_is_raised(body: bytes, charset: str) -> None:
    """It is from the web."""
    read_page(b"<!" + body, charset, "https://a.test/")


def test_a_document_with_too_many_parts_gives_some() -> None:
    """A hostile one must not make us ask for all of them."""
    body = "".join(f"<img src={number}>" for number in range(10 * PARTS_LIMIT)).encode()

    assert len(read_page(body, "", "https://a.test/").parts) == PARTS_LIMIT


@given(st.text(min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_holds_the_smaller(url: str, one: float, other: float) -> None:
    """The same pages are rendered each time, and more of them when more may be."""
    low, high = sorted((one, other))

    assert is_rendered(url, high) or not is_rendered(url, low)
    assert is_rendered(url, 1.0)
    assert not is_rendered(url, 0.0)


def test_a_document_is_judged_by_its_source() -> None:
    """Its words and what it names; a script's empty page is not called empty."""
    page = read_page(b"<title>404 Not Found</title><h1>404 Not Found</h1>", "", "https://a.test/")
    document = FetchedFile(200, final_url="https://a.test/x")

    assert page.traits is not None
    assert page.traits.headings == ("404 Not Found",)
    assert classify_plain("https://a.test/x", document, "text/html", page).kind is PageClass.SOFT_404
