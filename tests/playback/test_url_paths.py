"""The addresses of playback: inverse of each other, and never more than they seem."""

from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.errors import ConfigError
from playback.access.levels import LONGEST_WIKI, Level
from playback.url_paths import (
    LEVEL_MODIFIERS,
    FullOrigins,
    Memento,
    MementoModifier,
    PageAddress,
    PageHost,
    escape_url,
    full_pattern,
    is_web_url,
    memento_path,
    page_path,
    parse_memento_path,
    parse_page_path,
    parse_page_rest,
    unescape_url,
)

_LEVEL = st.sampled_from([None, *LEVEL_MODIFIERS])
_WIKI = st.from_regex(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,20})?", fullmatch=True)
_URL_TEXT = st.text(st.sampled_from("abcXYZ019-._~:/?#[]@!$&'()*+,;=%25%23|{}^`\\\"<>"), max_size=40)


@given(_URL_TEXT)
@example("%23")
@example("%2523#")
@example("%252523%25#%23")
@example("##!%2%23")
@example("?fam=A|B%7CC%257C")
@example("{a}^b`c")
def test_an_escaped_url_comes_back_whole(rest: str) -> None:
    """Escaping hides what browsers must not interpret, such as `#`, and loses nothing."""
    url = f"https://example.org/{rest}"

    assert unescape_url(escape_url(url)) == url
    assert "#" not in escape_url(url)


@given(st.text(max_size=60))
def test_no_text_escapes_to_markup(text: str) -> None:
    """An escaped URL can stand in an attribute, a style sheet string and a header."""
    escaped = escape_url(text)

    assert escaped.isascii()
    assert not set(escaped) & set('"<>\\`{}|^ \r\n\x00#')


@given(_URL_TEXT, st.sampled_from(MementoModifier), _WIKI)
def test_a_memento_address_comes_back_whole(rest: str, modifier: MementoModifier, wiki: str) -> None:
    """Query, escapes, double slashes and hash-bangs survive the path, and so does the wiki."""
    memento = Memento("20260301120000", modifier, f"https://example.org/{rest}", wiki)

    assert parse_memento_path(memento_path(memento)) == memento


@given(_URL_TEXT, st.sampled_from(["page", "screenshot", "as-captured"]), _LEVEL, _WIKI)
def test_a_page_address_comes_back_whole(rest: str, view: str, level: Level | None, wiki: str) -> None:
    """The same for the front's own addresses, with the level that the reader chose."""
    url = f"https://example.org/{rest}"

    path = page_path("20260301120000", url, view=view, level=level, wiki=wiki)

    assert parse_page_path(path) == PageAddress(view, "20260301120000", url, level, wiki)
    assert parse_page_rest(page_path("20260301120000", url).removeprefix("/page/")) == ("20260301120000", url)
    assert parse_page_rest(escape_url(url)) == (None, url)


@given(st.text(max_size=80))
def test_any_target_parses_or_does_not(text: str) -> None:
    """Whatever is asked for, an address says exactly what it would be written as."""
    for target in (text, f"/c/{text}", f"/w/{text}", f"/page/{text}", f"/w/a/page/{text}"):
        memento, page = parse_memento_path(target), parse_page_path(target)
        assert memento is None or parse_memento_path(memento_path(memento)) == memento
        if page is not None and page.timestamp is not None:
            path = page_path(page.timestamp, page.url, view=page.view, level=page.level, wiki=page.wiki)
            assert parse_page_path(path) == page


def test_each_level_without_scripts_has_its_modifier() -> None:
    """And none of them is one by which pywb hands out what was archived as it is."""
    raw = {"id_", "if_", "im_", "oe_", "js_", "cs_", "fr_", "xx_", "mp_", "jm_", "wk", "sw", "rc"}

    assert set(LEVEL_MODIFIERS) == set(Level) - {Level.FULL}
    assert len(set(LEVEL_MODIFIERS.values())) == len(LEVEL_MODIFIERS)
    assert not raw & set(LEVEL_MODIFIERS.values())
    assert page_path("20260301120000", "https://a.example/", level=Level.FULL) == (
        "/page/20260301120000/https://a.example/"
    )


@pytest.mark.parametrize(
    "wiki",
    ["", ".", "..", "-a", "a%2Fb", "a b", "a" * (LONGEST_WIKI + 1), "\u00e4", "a\n", "a?b", "a#b", "%41"],
    ids=repr,
)
def test_what_is_no_name_of_a_wiki_names_no_address(wiki: str) -> None:
    """A name stands in paths and headers, so it is a name and nothing else."""
    assert parse_memento_path(f"/w/{wiki}/c/20260301120000/https://example.org/") is None
    assert parse_page_path(f"/w/{wiki}/page/20260301120000/https://example.org/") is None


@pytest.mark.parametrize("modifier", ["im_", "mp_", "id_", "cs_", "js_", "xx_", "zz_"])
def test_a_page_has_levels_and_no_other_modifier(modifier: str) -> None:
    """A modifier that is no level is no address of the front."""
    assert parse_page_path(f"/page/20260301120000{modifier}/https://example.org/") is None


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/c/",
        "/c/2026/https://example.org/",
        "/c/20260301120000js_/https://example.org/",
        "/w/c/20260301120000/https://example.org/",
        "/w/a/w/b/c/20260301120000/https://example.org/",
        "/w/a/b/c/20260301120000/https://example.org/",
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


ORIGINS = FullOrigins("https://*.copies.example", b"0123456789abcdef")
PAGE = ("0f1e2d3c-0000-4000-8000-123456789abc", "20260301120000", "https://example.org/a?b#c")
WORDS = st.text(max_size=40)
PAGE_IDS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?", fullmatch=True)


@given(PAGE_IDS, st.from_regex(r"[0-9]{14}", fullmatch=True), WORDS, WORDS)
def test_a_host_says_which_page_it_shows(page: str, moment: str, url: str, wiki: str) -> None:
    """A host name can be parsed back into the page, and its label fits the 63 octets of DNS."""
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
    """A page's identifier is not enough: a host with another MAC, secret or wiki is rejected."""
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
    """An address that other machines can reach needs a domain."""
    assert full_pattern("127.0.0.1", 81) == "http://*.localhost:81"
    with pytest.raises(ConfigError, match="--full-origin"):
        full_pattern("0.0.0.0", 81)
