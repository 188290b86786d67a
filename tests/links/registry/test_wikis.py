"""Farms and wikis by their names."""

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from links.registry.database import RegistryStore
from links.registry.wikis import (
    WikiName,
    all_farms,
    all_wikis,
    change_wiki,
    ensure_wiki,
    find_wiki,
    known_wiki,
    parse_wiki,
    put_farm,
)


@pytest.mark.parametrize(
    ("text", "name"), [("dewiki", "dewiki@WMF"), ("dewiki@WMF", "dewiki@WMF"), (" osm-wiki@OSM ", "osm-wiki@OSM")]
)
def test_a_wiki_is_named_by_database_and_farm(text: str, name: str) -> None:
    """W24: WMF is meant when no farm is named."""
    assert str(parse_wiki(text)) == name


@pytest.mark.parametrize("text", ["", "@WMF", "dewiki@", "a b", "a@b@c", "de\nwiki", "x" * 65, "é"])
def test_what_is_no_name_is_refused(text: str) -> None:
    """With an example of one."""
    with pytest.raises(InputError, match="dewiki@WMF"):
        parse_wiki(text)


@given(
    st.from_regex(r"[a-z0-9][a-z0-9_-]{0,20}", fullmatch=True),
    st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,9}", fullmatch=True),
)
def test_names_are_read_as_they_are_written(dbname: str, farm: str) -> None:
    """Whatever the name."""
    assert parse_wiki(str(WikiName(dbname, farm))) == WikiName(dbname, farm)


@pytest.mark.parametrize(
    ("host", "farm"),
    [
        ("de.wikipedia.org", "WMF"),
        ("www.mediawiki.org", "WMF"),
        ("wikidata.org", "WMF"),
        ("commons.wikimedia.org", "WMF"),
        ("de.wiktionary.org", "WMF"),
        ("en.wikipedia.beta.wmflabs.org", "wmflabs"),
        ("mediawiki.example.com", ""),
        ("antiwikipedia.org", ""),
        ("wikipedia.org.evil.example", ""),
        ("wikimedia.de", ""),
    ],
)
def test_a_farms_own_hosts_are_known(sqlite_store: RegistryStore, host: str, farm: str) -> None:
    """W61, without the faults of its expressions."""
    with sqlite_store.reading() as rows:
        own = [each.name for each in all_farms(rows) if re2.search(each.internal, host)]
    assert own == ([farm] if farm else [])


def test_a_wiki_needs_its_farm(store: RegistryStore) -> None:
    """The error says which there are; a farm that was made may have wikis."""
    with store.writing() as rows:
        with pytest.raises(InputError, match="wmflabs, WMF"):
            ensure_wiki(rows, parse_wiki("w@home"), day=1)
        put_farm(rows, "home", internal=r"\.home\.net$")
        put_farm(rows, "home", internal=r"\.home\.org$", address="https://home.org/")
        made = ensure_wiki(rows, parse_wiki("w@home"), day=1)

    with store.reading() as rows:
        assert find_wiki(rows, parse_wiki("w@home")) == made
        assert [farm.internal for farm in all_farms(rows)][2:] == [r"\.home\.org$"]


def test_a_wiki_is_made_once_and_changed(store: RegistryStore) -> None:
    """What is not said stays; settings are JSON for whoever chooses the pages (W35)."""
    with store.writing() as rows:
        made = ensure_wiki(rows, parse_wiki("dewiki"), day=1)
        assert ensure_wiki(rows, parse_wiki("dewiki"), day=7) == made
        change_wiki(rows, made, url="https://de.wikipedia.org/w/api.php")
        changed = change_wiki(rows, known_wiki(rows, made.name), settings={"namespaces": [0, 4]})
        with pytest.raises(InputError, match=r"\$1"):
            change_wiki(rows, changed, pages_url="https://de.wikipedia.org/wiki/")

    with store.reading() as rows:
        assert all_wikis(rows) == [changed]
    assert changed.url == "https://de.wikipedia.org/w/api.php"
    assert changed.settings == '{"namespaces": [0, 4]}'


def test_an_unknown_wiki_is_told_of(store: RegistryStore) -> None:
    """With the command that shows those that are known."""
    with store.reading() as rows, pytest.raises(InputError, match="weboid wiki ls"):
        known_wiki(rows, parse_wiki("frwiki"))
