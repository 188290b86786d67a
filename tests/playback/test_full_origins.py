"""Which host shows which capture in full."""

from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from playback.full_origins import FullOrigins, PageHost, full_pattern

ORIGINS = FullOrigins("https://*.copies.example", b"0123456789abcdef")
PAGE = ("0f1e2d3c-0000-4000-8000-123456789abc", "20260301120000", "https://example.org/a?b#c")
WORDS = st.text(max_size=40)
PAGE_IDS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?", fullmatch=True)


@given(PAGE_IDS, st.from_regex(r"[0-9]{14}", fullmatch=True), WORDS, WORDS)
def test_a_host_says_which_page_it_shows(page: str, moment: str, url: str, wiki: str) -> None:
    """What is written into a host name can be read back, and fits a label of DNS."""
    origin = ORIGINS.origin_of(page, moment, url, wiki)

    assert origin is not None
    host = urlsplit(origin).netloc
    named = ORIGINS.page_of(host)
    assert named is not None
    assert named.page_id == page
    assert ORIGINS.made_for(named, moment, url, ["other", wiki]) == wiki
    assert len(host.partition(".")[0]) <= 63


@pytest.mark.parametrize("which", range(4))
def test_every_fact_of_a_capture_changes_its_host(which: int) -> None:
    """Page, moment, URL and wiki: none of them shares an origin with another (P-04)."""
    facts = [*PAGE, "mywiki"]
    other = [*facts]
    other[which] = {0: "f" * 32, 1: "20260301120001", 2: "https://example.org/a", 3: ""}[which]

    one, two = (ORIGINS.origin_of(each[0], each[1], each[2], each[3]) for each in (facts, other))

    assert one is not None
    assert two is not None
    assert one != two


def test_a_host_that_we_did_not_make_shows_nothing() -> None:
    """Who knows a page's identifier still cannot say where it is shown."""
    origin = ORIGINS.origin_of(*PAGE)
    assert origin is not None
    named = ORIGINS.page_of(urlsplit(origin).netloc)
    assert named is not None
    forged = replace(named, mac="a" * 20)
    others = FullOrigins(ORIGINS.pattern, b"another secret of 16")

    assert ORIGINS.made_for(named, *PAGE[1:], [""]) == ""
    assert ORIGINS.made_for(forged, *PAGE[1:], [""]) is None
    assert others.made_for(named, *PAGE[1:], [""]) is None
    assert ORIGINS.made_for(named, *PAGE[1:], ["mywiki"]) is None


@pytest.mark.parametrize(
    "host",
    ["", "copies.example", ".copies.example", "a.copies.example", "x.evil.example",
     "aaaaaaaaaaaaaaaaaaaaf.copies.example.evil", "aaaaaaaaaaaaaaaaaaaaf.copies.example:1",
     "b.aaaaaaaaaaaaaaaaaaaaf.copies.example", "aaaaaaaaaaaaaaaaaaaa-.copies.example"],
)  # fmt: skip
def test_other_hosts_name_no_page(host: str) -> None:
    """A label that is none of ours, another suffix, another port."""
    assert ORIGINS.page_of(host) is None


def test_upper_case_makes_no_other_host() -> None:
    """Host names have no case (RFC 4343)."""
    assert ORIGINS.page_of("AAAAAAAAAAAAAAAAAAAAF0.Copies.Example") == PageHost("a" * 20, "f0")


@pytest.mark.parametrize("page_id", ["", "A", "a_b", "a.b", "a" * 43, "-a", "a-", "ä"])
def test_an_identifier_that_fits_no_host_name_has_no_origin(page_id: str) -> None:
    """Such a page is not shown in full, rather than under somebody else's name."""
    assert ORIGINS.origin_of(page_id, *PAGE[1:]) is None


@pytest.mark.parametrize(
    "pattern",
    ["", "https://copies.example", "https://*copies.example", "https://a.*.example", "ftp://*.x",
     "https://*.copies.example/", "https://*.copies.example; script-src *", "http://*.copies.example",
     "https://u@*.example", "http://*.localhost.evil:80"],
)  # fmt: skip
def test_a_pattern_that_is_not_safe_is_refused(pattern: str) -> None:
    """Not the form, or http elsewhere than on this machine: browsers then say less than is needed."""
    with pytest.raises(ConfigError):
        FullOrigins(pattern, b"0123456789abcdef")


def test_a_short_secret_is_refused_and_none_is_printed() -> None:
    """The message says how to make one."""
    with pytest.raises(ConfigError, match="openssl rand"):
        FullOrigins("https://*.copies.example", b"short")
    assert "0123456789abcdef" not in repr(ORIGINS)


def test_below_localhost_only_where_this_machine_listens() -> None:
    """What other machines reach needs a domain."""
    assert full_pattern("127.0.0.1", 81) == "http://*.localhost:81"
    with pytest.raises(ConfigError, match="--full-origin"):
        full_pattern("0.0.0.0", 81)
