"""Patterns of link search."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.urls import fetch_key
from links.rules.link_pattern import LinkPattern, ending, parse_link_pattern
from links.url_parts import url_parts_of


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*.test.com", "http://www.test.com/", "http://mytest.com/"),
        ("*.test.com", "https://test.com:8443/x", "http://test.com.example.org/"),
        ("test.com", "https://test.com/x?y", "http://www.test.com/"),
        ("test.com", "http://test.com:80/", "http://test.com:8080/"),
        ("test.com:8080", "https://test.com:8080/", "http://test.com/"),
        ("http://test.com:80", "http://test.com/", "https://test.com:80/"),
        ("test.com:443", "https://test.com/x", "https://test.com:444/"),
        ("test.com/a", "http://test.com/abc", "http://test.com/b"),
        ("*.test.com/a", "http://w.test.com/a/b", "http://w.test.com/b/a"),
        ("https://test.com", "https://test.com/", "http://test.com/"),
        ("HTTP://Test.COM./%7eu", "http://test.com/~user", "https://test.com/~user"),
        ("//test.com/x", "https://test.com/x", "https://test.com/X"),
        ("http://name:pass@test.com/d", "http://test.com/d/f", "http://test.com/e"),
        ("test.com?a", "http://test.com/?a=1", "http://test.com/"),
        ("test.com/x?", "http://test.com/x?y", "http://test.com/x"),
        ("test.com/#!/a", "http://test.com/#!/ab", "http://test.com/"),
        ("test.com/a#part", "http://test.com/a", "http://test.com/b"),
        ("test.com/%2A", "http://test.com/*", "http://test.com/a"),
        ("127.0.*", "http://127.0.0.1/", "http://127.1.0.1/"),
        ("127.0.*/x", "http://127.0.9.1:88/x", "http://127.0.9.1/y"),
        ("127.0.0.1", "http://0x7f.1/", "http://127.0.0.11/"),
        ("[2001:db8:*]", "http://[2001:db8:1::1]/", "http://[2001:db9::]/"),
        ("[2001:db8::*]", "http://[2001:db8::ffff]/", "http://[2001:db8::1:1]/"),
        ("[2001:db8::1:*]", "http://[2001:db8::1:5]/", "http://[2001:db8::5]/"),
        ("[2001:DB8::1]", "http://[2001:db8:0:0::1]/x", "http://[2001:db8::2]/"),
        ("fóó.example.com", "http://xn--f-vgaa.example.com/", "http://foo.example.com/"),
        ("*.xn--f-vgaa.example.com", "http://a.fóó.example.com/", "http://example.com/"),
        ("*.рф", "http://кц.рф/ru/", "http://example.org/"),
    ],
)
def test_a_pattern_means_what_linkfilter_means(pattern: str, inside: str, outside: str) -> None:
    """Hosts with all below them, addresses, ports, schemes, paths by how they begin (W03)."""
    link_pattern = parse_link_pattern(pattern)

    assert link_pattern.covers(url_parts_of(fetch_key(inside)))
    assert not link_pattern.covers(url_parts_of(fetch_key(outside)))


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "empty"),
        ("*", "must name a host"),
        ("http://*", "must name a host"),
        ("http://", "must name a host"),
        ("http://*:888/", "must name a host"),
        ("*/x", "must name a host"),
        ("http:///test.com", "must name a host"),
        ("*test.com", "write *.test.com"),
        ("test.*.com", "only at the beginning"),
        ("www.test.*", "only at the beginning"),
        ("*.*.com", "only at the beginning"),
        ("1.2.3.4.*", "only at the beginning"),
        ("test.com/*/index", "omit it"),
        ("test.com/index*", "omit it"),
        ("http://test.com/?arg=*", "omit it"),
        ("300.*", "0 to 255"),
        ("*.1.2.3.4", "write 192.0.2.*"),
        ("[*]", "whole groups"),
        ("[2001:db*]", "whole groups"),
        ("[2001:*:1]", "whole groups"),
        ("[fe80::%eth0:*]", "whole groups"),
        ("[xyz:*]", "not the beginning of an IPv6 address"),
        ("[1:2:3:4:5:6:7:8:*]", "not the beginning of an IPv6 address"),
        ("*@mail.test", "http and https only"),
        ("mailto:a@mail.test", "http and https only"),
        ("ftp://test.com", "not ftp"),
        ("test.com:8o8o", "neither a host"),
        ("test.com:99999", "1 to 65535"),
        ("te st.com", "not a host"),
        ("exa\u200bmple.org", "U+200B"),
        ("example.org/\u202e", "U+202E"),
        ("example.org/\ud800", "U+D800"),
        ("a" * 70_000, "longer than"),
        ("1.2.3.256", "not a host"),
        ("{}", "not a host"),
        ("*.-a", "not a host"),
    ],
)
def test_what_is_no_pattern_is_refused_with_a_reason(pattern: str, why: str) -> None:
    """A sentence that says what is wrong or what to write instead."""
    with pytest.raises(InputError, match="cannot be searched for") as caught:
        parse_link_pattern(pattern)

    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("*.test.com", "www.test.com/a", True),
        ("test.com", "www.test.com", False),
        ("test.com/a", "test.com/ab", True),
        ("test.com/a", "test.com/b", False),
        ("http://test.com", "https://test.com", False),
        ("test.com", "https://test.com", True),
        ("test.com:80", "http://test.com", True),
        ("test.com:80", "https://test.com", False),
        ("*.test.com", "test.com:8080", True),
        ("127.*", "127.0.*", True),
        ("127.*", "128.*", False),
    ],
)
def test_patterns_meet_when_one_url_may_be_meant_by_both(one: str, other: str, meet: bool) -> None:
    """In either order: a warning at a search depends on it (X06)."""
    first, second = parse_link_pattern(one), parse_link_pattern(other)

    assert first.meets(second) is second.meets(first) is meet


def test_any_text_is_a_pattern_or_refused() -> None:
    """Nothing else is raised, whatever was typed."""
    letters = st.sampled_from("*.:/?#[]@\\%-_ aZ0é\u202e\ud800x~&=")

    @given(st.text(letters, max_size=12) | st.text(max_size=12))
    def check(text: str) -> None:
        for whole in (text, f"http://{text}", f"*.{text}", f"test.com/{text}", f"[{text}:*]"):
            with contextlib.suppress(InputError):
                assert isinstance(parse_link_pattern(whole), LinkPattern)

    check()


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.text())
def test_what_begins_so_comes_before_its_ending(beginning: str, rest: str) -> None:
    """And the ending comes after the beginning itself, but where no character comes after."""
    if beginning[-1] < "\ud7ff":
        assert beginning <= beginning + rest.replace("\ud7ff", "") < ending(beginning)


def test_a_pattern_covers_the_url_that_it_is() -> None:
    """A URL pasted into the search finds itself, whatever it is."""
    parts = st.text(st.sampled_from("ab%7é/?=&.;"), max_size=10)

    @given(st.sampled_from(["http", "https"]), parts)
    def check(scheme: str, rest: str) -> None:
        url = f"{scheme}://host.test/{rest.rstrip('?')}"  # an empty query names nothing
        assert parse_link_pattern(url).covers(url_parts_of(fetch_key(url)))

    check()
