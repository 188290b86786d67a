"""Targets of requests: what they may say, and what is stored of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.urls import MAX_URL_LENGTH
from net.http1 import MalformedMessageError
from proxy.browser_connection import TargetTooLongError, parse_absolute, parse_authority, parse_tunnelled


@pytest.mark.parametrize(
    ("target", "origin", "path", "url"),
    [
        ("http://a.example", ("a.example", 80), "/", "http://a.example/"),
        ("HTTP://A.Example:80/x", ("a.example", 80), "/x", "http://a.example/x"),
        ("http://a.example:/x", ("a.example", 80), "/x", "http://a.example/x"),
        ("http://a.example:8080?q", ("a.example", 8080), "/?q", "http://a.example:8080/?q"),
        ("http://a.example/x?", ("a.example", 80), "/x?", "http://a.example/x?"),
        ("http://a.example/x#y?z", ("a.example", 80), "/x", "http://a.example/x"),
        ("http://u:p@a.example/@b", ("a.example", 80), "/@b", "http://a.example/@b"),
        ("http://[::1]:81/", ("[::1]", 81), "/", "http://[::1]:81/"),
        ("http://[2001:DB8:0::1]/", ("[2001:db8::1]", 80), "/", "http://[2001:db8::1]/"),
        ("http://a_b.example/\"'<>\\^`{|}", ("a_b.example", 80), "/\"'<>\\^`{|}", ""),
        ("http://a.example/%00%0d%0a%20%ff", ("a.example", 80), "/%00%0d%0a%20%ff", ""),
    ],
)
def test_an_absolute_target_gives_origin_path_and_url(
    target: str, origin: tuple[str, int], path: str, url: str
) -> None:
    """Credentials and fragments are left out; of the path nothing is changed."""
    expected = url or f"http://{origin[0]}{path}"
    assert parse_absolute(target) == ((*origin, False), path, expected)


@pytest.mark.parametrize(
    "target",
    [
        "/path",
        "*",
        "https://a.example/",
        "ftp://a.example/",
        "http:/a.example/",
        "http://",
        "http:///x",
        "http://:80/",
        "http://u@/",
        "http://a.example:0/",
        "http://a.example:65536/",
        "http://a.example:80x/",
        "http://a.example:-1/",
        "http://a%00b/",
        "http://a<b/",
        "http://a,b/",
        "http://a.example\\@b.example/",
        "http://a.example@b.example@c.example/",
        "http://[::1/",
        "http://[::g]/",
        "http://[fe80::1%25eth0]/",
        "http://[127.0.0.1]/",
        "http://" + "a" * 300 + "/",
    ],
)
def test_a_target_that_names_no_host_is_refused(target: str) -> None:
    """No two readers may differ about the host."""
    with pytest.raises(MalformedMessageError):
        parse_absolute(target)


def test_a_tunnelled_target_is_a_path() -> None:
    """The tunnel has named the host; ``*`` is the server itself (RFC 9112, 3.2.4)."""
    assert parse_tunnelled("/x?y#z", ("a.example", 443, True)) == ("/x?y", "https://a.example/x?y")
    assert parse_tunnelled("/", ("[::1]", 8443, True)) == ("/", "https://[::1]:8443/")
    assert parse_tunnelled("/ws", ("a.example", 80, False)) == ("/ws", "http://a.example/ws")
    assert parse_tunnelled("*", ("a.example", 443, True)) == ("*", "https://a.example/*")
    for target in ("https://b.example/", "x", "b.example:80"):
        with pytest.raises(MalformedMessageError):
            parse_tunnelled(target, ("a.example", 443, True))


def test_a_url_has_a_longest_length() -> None:
    """8 KiB is common, more is kept, up to what the frontier and the index keep."""
    most = "http://a.example/".ljust(MAX_URL_LENGTH, "x")

    assert len(parse_absolute(most)[2]) == MAX_URL_LENGTH
    with pytest.raises(TargetTooLongError):
        parse_absolute(most + "x")
    with pytest.raises(TargetTooLongError):
        parse_tunnelled("/" * (MAX_URL_LENGTH + 1), ("a.example", 443, True))


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60))
def test_whatever_is_asked_for_is_refused_or_is_one_url(text: str) -> None:
    """Reading the URL again gives the same origin, path and URL."""
    try:
        origin, path, url = parse_absolute(f"http://{text}")
    except MalformedMessageError:
        return
    assert parse_absolute(url) == (origin, path, url)
    assert parse_authority(f"{origin[0]}:{origin[1]}", 80) == origin[:2]
