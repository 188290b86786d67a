"""Farms and wikis by their names."""

from datetime import UTC, datetime, timedelta

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from links.registry.database import RegistryStore
from links.registry.wikis import (
    FeedHeldError,
    Wiki,
    WikiName,
    all_farms,
    all_wikis,
    change_wiki,
    ensure_wiki,
    feeds_of,
    find_wiki,
    forget_feed,
    hold_feed_lease,
    known_wiki,
    parse_wiki,
    put_cursors,
    put_farm,
    put_trouble,
    release_feed_lease,
    take_feed_lease,
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
    """Fields that are not given stay; settings are JSON for whoever chooses the pages (W35)."""
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


NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


MINUTE = timedelta(minutes=1)


def test_a_cursor_is_kept_until_the_next_and_ends_a_trouble(store: RegistryStore, wiki: Wiki) -> None:
    """A feed that comes further has no trouble any more; its trouble alone moves no cursor."""
    with store.writing() as rows:
        put_cursors(rows, wiki.id, {"changes": "a"}, now=NOW)
        put_trouble(rows, wiki.id, ["changes", "sweep"], "The wiki\nis \0away.", now=NOW)
        troubled = feeds_of(rows, wiki.id)
        put_cursors(rows, wiki.id, {"changes": "b"}, now=NOW + MINUTE)
        after = feeds_of(rows, wiki.id)

    assert (troubled["changes"].cursor, troubled["changes"].trouble) == ("a", "The wiki is away.")
    assert troubled["sweep"].trouble == "The wiki is away."
    assert after["changes"][2:] == ("b", NOW + MINUTE, "")


def test_a_feed_can_be_forgotten(store: RegistryStore, wiki: Wiki) -> None:
    """Then it starts again."""
    with store.writing() as rows:
        put_cursors(rows, wiki.id, {"site": "a"}, now=NOW)
        forget_feed(rows, wiki.id, "site")
        assert feeds_of(rows, wiki.id) == {}


def test_one_process_at_a_time_has_the_lease(store: RegistryStore, wiki: Wiki) -> None:
    """It is renewed by its holder, and taken over only when it has ended or was given back."""
    with store.writing() as rows:
        take_feed_lease(rows, wiki.id, "one", now=NOW, length=MINUTE)
        take_feed_lease(rows, wiki.id, "one", now=NOW + MINUTE / 2, length=MINUTE)
        hold_feed_lease(rows, wiki.id, "one")
        with pytest.raises(FeedHeldError):
            take_feed_lease(rows, wiki.id, "two", now=NOW + MINUTE, length=MINUTE)
        take_feed_lease(rows, wiki.id, "two", now=NOW + 2 * MINUTE, length=MINUTE)
        with pytest.raises(FeedHeldError):
            hold_feed_lease(rows, wiki.id, "one")
        release_feed_lease(rows, wiki.id, "one", now=NOW)
        hold_feed_lease(rows, wiki.id, "two")
        release_feed_lease(rows, wiki.id, "two", now=NOW)
        take_feed_lease(rows, wiki.id, "one", now=NOW + 2 * MINUTE, length=MINUTE)
