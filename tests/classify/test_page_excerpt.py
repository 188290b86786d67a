"""Heads, bodies, pages and redirects: read as far as they make sense, whatever was sent."""

import gzip
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classify.page_excerpt import page_refresh_target, parse_page_excerpt, says_not_found, says_parked, simhash
from links.checker.answer_verdict import RETRY_LIMIT_S, retry_after_s
from links.checker.http_exchange import PLAIN_BYTES, dechunked, decoded
from links.checker.http_probe import COOKIES, ChainCookies

NOW = datetime(2026, 11, 21, tzinfo=UTC)


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=20))
def test_chunks_are_put_together(pieces: list[bytes]) -> None:
    """The inverse of chunking; without the last chunk it is known to be unfinished."""
    wire = b"".join(b"%x;x=y\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    for end in (b"0\r\n\r\n", b""):
        plain, last = dechunked(wire + end)
        assert bytes(plain) == b"".join(pieces)
        assert last == bool(end)


@given(st.binary(max_size=400))
def test_no_bytes_break_chunks_and_codings(data: bytes) -> None:
    """Any bytes give some bytes."""
    assert len(dechunked(data)[0]) <= len(data)
    for coding in ("gzip", "deflate", "br", "", "gzip, gzip", "\x00"):
        assert len(decoded(data, coding)) <= PLAIN_BYTES


def test_a_bomb_ends_at_its_limit() -> None:
    """A megabyte of nothing in a kilobyte is not unpacked."""
    assert len(decoded(gzip.compress(b"a" * 20 * PLAIN_BYTES), "gzip")) == PLAIN_BYTES


@given(st.text(max_size=300))
def test_no_page_breaks_the_hints(text: str) -> None:
    """Any text is a page that says something or not."""
    page = parse_page_excerpt(text.encode("utf-8", "surrogatepass"))
    says_not_found(page, "http://a.test/x")
    says_parked(page)
    page_refresh_target(page)
    assert simhash(page) < 1 << 64


@pytest.mark.parametrize(
    "title",
    [
        *("404", "404 Not Found", "Error 404", "Page not found", "Not Found | Town of Stone"),
        *("Town of Stone - 404", "Seite nicht gefunden", "Page introuvable", "Página no encontrada"),
        *("Pagina non trovata", "Страница не найдена", "ページが見つかりません", "HTTP Error 404.0"),
        *("The page you requested could not be found", "This page doesn\u2019t exist"),
        *("Sorry, this page is no longer available", "File not found - Stone"),
    ],
)
def test_titles_that_say_not_found(title: str) -> None:
    """Error pages in many languages say so in their titles."""
    assert says_not_found(parse_page_excerpt(f"<title>{title}</title>".encode()), "http://a.test/bridge")


@pytest.mark.parametrize(
    "title",
    [
        *("The old bridge", "Peugeot 404 for sale", "Room 404", "Lost and found", "Newfoundland"),
        *("I found a bridge", "Foundations of stone", "Area code 410", "A page of history"),
        *("Finding what is not there", "Boeing 404 prototype"),
    ],
)
def test_titles_that_speak_of_something_else(title: str) -> None:
    """A number or a word alone makes no error page."""
    assert not says_not_found(parse_page_excerpt(f"<title>{title}</title>".encode()), "http://a.test/bridge")


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("-5", None),
        ("", None),
        ("soon", None),
        ("1e9", None),
        ("1000000000", RETRY_LIMIT_S),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        (format_datetime(NOW + timedelta(hours=1), usegmt=True), 3600.0),
        ("Wed, 21 Oct 99999 07:28:00 GMT", RETRY_LIMIT_S),
        ("\u0663", None),
    ],
)
def test_what_a_host_asks_to_wait(retry_after: str, seconds: float | None) -> None:
    """Seconds or a date, at most a week; what cannot be read asks for nothing."""
    assert retry_after_s(retry_after, NOW) == seconds


@given(st.text(max_size=80))
def test_no_wish_to_wait_breaks_anything(retry_after: str) -> None:
    """Any Retry-After is a number within bounds, or none."""
    seconds = retry_after_s(retry_after, NOW)
    assert seconds is None or 0 <= seconds <= RETRY_LIMIT_S


@given(st.lists(st.text(max_size=60), max_size=60))
def test_cookies_cannot_write_headers(headers: list[str]) -> None:
    """Whatever is set, one printable line of bounded length is sent back."""
    cookies = ChainCookies()
    cookies.take("a.test", headers)
    cookies.take("a.test", [f"n{at}=v" for at in range(100)])
    line = cookies.header("a.test")
    assert line.isascii()
    assert line.isprintable()
    assert line.count("; ") <= COOKIES
    assert cookies.header("b.test") == ""


def test_cookies_of_a_public_suffix_are_the_host_s_alone() -> None:
    """Nobody sets cookies for all of co.uk."""
    cookies = ChainCookies()
    cookies.take("a.co.uk", ["x=1; Domain=co.uk", "y=2; Domain=.a.co.uk"])
    assert cookies.header("b.co.uk") == ""
    assert cookies.header("www.a.co.uk") == "y=2"


def test_addresses_are_nobodys_subdomains() -> None:
    """Two that end alike share no domain: the one's cookies are not the other's."""
    cookies = ChainCookies()
    cookies.take("192.0.2.1", ["a=b; Domain=2.1"])

    assert cookies.header("198.51.2.1") == ""
    assert cookies.header("192.0.2.1") == "a=b"
