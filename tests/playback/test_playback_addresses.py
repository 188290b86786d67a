"""The addresses of playback: inverse of each other, and never more than they seem."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from playback.addresses import (
    Memento,
    Modifier,
    escape_url,
    is_web_url,
    memento_path,
    page_path,
    parse_memento_path,
    parse_page_rest,
    unescape_url,
)

_URL_TEXT = st.text(st.sampled_from("abcXYZ019-._~:/?#[]@!$&'()*+,;=%25%23"), max_size=40)


@given(_URL_TEXT)
@example("%23")
@example("%2523#")
@example("%252523%25#%23")
@example("##!%2%23")
def test_an_escaped_url_comes_back_whole(rest: str) -> None:
    """What browsers must not see of a URL is hidden without losing anything."""
    url = f"https://example.org/{rest}"

    assert unescape_url(escape_url(url)) == url
    assert "#" not in escape_url(url)


@given(st.text(max_size=60))
def test_no_text_escapes_to_markup(text: str) -> None:
    """An escaped URL can stand in an attribute, a style sheet string and a header."""
    escaped = escape_url(text)

    assert escaped.isascii()
    assert not set(escaped) & set('"<>\\`{}|^ \r\n\x00#')


@given(_URL_TEXT, st.sampled_from(Modifier))
def test_a_memento_address_comes_back_whole(rest: str, modifier: Modifier) -> None:
    """Query, escapes, double slashes and hash-bangs survive the path."""
    memento = Memento("20260301120000", modifier, f"https://example.org/{rest}")

    assert parse_memento_path(memento_path(memento)) == memento


@given(_URL_TEXT)
def test_a_page_address_comes_back_whole(rest: str) -> None:
    """The same for the front's own addresses."""
    url = f"https://example.org/{rest}"

    path = page_path("20260301120000", url)

    assert parse_page_rest(path.removeprefix("/page/")) == ("20260301120000", url)
    assert parse_page_rest(escape_url(url)) == (None, url)


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/c/",
        "/c/2026/https://example.org/",
        "/c/20260301120000js_/https://example.org/",
        "/c/20260301120000if_/https://example.org/",
        "/c/20260301120000oe_/https://example.org/",
        "/c/20260301120000fr_/https://example.org/",
        "/c/20260301120000$br:1/https://example.org/",
        "/c/20260301120000*/https://example.org/",
        "/c/*/https://example.org/",
        "/c/20260301120000/javascript:alert(1)",
        "/c/20260301120000/file:///etc/passwd",
        "/c/20260301120000/ftp://example.org/",
        "/c/20260301120000/https://",
        "/c/20260301120000/https://?x",
        "/c/\uff12\uff10260301120000/https://example.org/",
        "/c/20260301120000/https://example.org/\x00",
        "/c/20260301120000/https://example.org/" + "a" * 9000,
        "http://example.org/c/20260301120000/https://example.org/",
        "/collinfo.json",
        "/static/wombat.js",
        "/c/timemap/link/https://example.org/",
        "/c/record/https://example.org/",
        "/c/cdx?url=*",
    ],
)
def test_other_targets_name_no_capture(target: str) -> None:
    """The other modifiers, routes and schemes of pywb do not exist here."""
    assert parse_memento_path(target) is None


@pytest.mark.parametrize(
    ("rest", "url"),
    [
        ("https:/example.org/a", "https://example.org/a"),
        ("example.org/a?b", "https://example.org/a?b"),
        ("example.org:8080/a", "https://example.org:8080/a"),
        ("HTTP://example.org/", "HTTP://example.org/"),
    ],
)
def test_what_people_and_proxies_do_to_an_address_is_mended(rest: str, url: str) -> None:
    """A missing scheme and merged slashes still find the page."""
    assert parse_page_rest(rest) == (None, url)


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt://example.org/%0aalert(1)",
        "data:text/html,x",
        "vbscript:x",
        "//example.org/",
        "https:/example.org",
        "https:///example.org",
        "https://\\example.org",
        " https://example.org/",
        "https://example.org/a b",
        "java\tscript:alert(1)",
        "https://example.org/\n",
        "",
    ],
)
def test_only_the_web_becomes_a_link(url: str) -> None:
    """Whatever is not plainly http or https stays text."""
    assert not is_web_url(url)
