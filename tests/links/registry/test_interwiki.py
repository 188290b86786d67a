"""Interwiki links as URLs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from links.registry.wikis import encoded_title, read_interwikis

OLD = {
    "batchcomplete": "",
    "query": {
        "interwikimap": [
            {"prefix": "doi", "url": "https://dx.doi.org/$1"},
            {"prefix": "de", "local": "", "url": "//de.wikipedia.org/wiki/$1", "wikiid": "dewiki"},
            {"prefix": "meatball", "protorel": "", "url": "//meatballwiki.org/wiki/$1"},
            {"prefix": "Google", "url": "http://www.google.com/search?q=$1&x=$1"},
            {"prefix": "irc", "url": "irc://irc.example.org/$1"},
            {"prefix": 5, "url": "http://a.example.org/"},
            {"prefix": "none"},
            "nothing",
        ]
    },
}
NEW = {"query": {"interwikimap": [{"prefix": "de", "local": True, "url": "https://de.w.org/$1"}]}}


@pytest.mark.parametrize(
    ("prefix", "title", "url"),
    [
        ("doi", "10.1000/182", "https://dx.doi.org/10.1000/182"),
        ("DOI", "10.1002/(SICI)1<1::A>3.0", "https://dx.doi.org/10.1002/(SICI)1%3C1::A%3E3.0"),
        ("meatball", "Wiki Link", "https://meatballwiki.org/wiki/Wiki_Link"),
        ("meatball", "A__B", "https://meatballwiki.org/wiki/A__B"),
        ("google", "a+b & c?", "http://www.google.com/search?q=a%2Bb_%26_c%3F&x=a%2Bb_%26_c%3F"),
        ("google", "$1", "http://www.google.com/search?q=$1&x=$1"),
        ("meatball", "Straße/Ü", "https://meatballwiki.org/wiki/Stra%C3%9Fe/%C3%9C"),
        ("irc", "x", ""),
        ("unknown", "x", ""),
    ],
)
def test_a_link_leads_where_mediawiki_leads_it(prefix: str, title: str, url: str) -> None:
    """Spaces as underscores, `$1` by the escaped title, https where the map says no scheme (W49)."""
    assert read_interwikis(json.dumps(OLD)).urls([(prefix, title)]) == ([url] if url else [])


def test_links_to_the_farms_own_wikis_are_told_apart() -> None:
    """Their URLs are not kept."""
    known = read_interwikis(json.dumps(OLD))

    assert known.urls([("de", "X"), ("doi", "1/2")], is_local=True) == ["https://de.wikipedia.org/wiki/X"]
    assert known.urls([("de", "X"), ("doi", "1/2"), ("doi", "1/2"), ("no", "Y")]) == ["https://dx.doi.org/1/2"]
    assert read_interwikis(json.dumps(NEW)).urls([("de", "X")]) == []
    assert len(read_interwikis(json.dumps(OLD["query"]))) == len(known) == 4


@pytest.mark.parametrize("text", ["", "x", "5", "{}", '{"query": 5}', '{"query": {}}', "[" * 100_000])
def test_what_is_no_map_is_refused(text: str) -> None:
    """With what to ask the wiki for."""
    with pytest.raises(InputError, match="interwiki map"):
        read_interwikis(text)


@given(st.text())
def test_any_title_becomes_a_part_of_a_url(title: str) -> None:
    """Printable ASCII, with nothing in it that would end a path."""
    url_part = encoded_title(title)

    assert url_part.isascii()
    assert not set(url_part) & set(" ?#[]<>\"'\\^`{|}")
