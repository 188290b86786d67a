"""A wiki's exclusion list: both forms, what is counted, and what a search is told."""

import pytest
from sqlalchemy import Connection, select

from core.errors import InputError
from core.urls import fetch_key
from links.registry.database import RegistryStore
from links.registry.link_search import FoundLink, LinkQuery, search_links
from links.registry.pages import PageName, PutPage, WrittenLinks, put_pages
from links.registry.schema import excluded, refs, urls
from links.registry.wikis import Wiki, change_wiki, ensure_wiki, parse_wiki
from links.rules.exclusion_list import (
    ENTRIES_LIMIT,
    EntryForm,
    ExclusionList,
    add_entry_counts,
    counts_of,
    exclusions_of,
    parse_entry,
    unreadable,
    warning_for,
    with_entry,
    without_entry,
)
from links.rules.link_class import classify_link
from links.rules.link_pattern import parse_link_pattern
from links.rules.wiki_rules import RuleBook
from links.url_parts import url_parts_of


@pytest.fixture
def wiki(store: RegistryStore) -> Wiki:
    """Return a wiki of the default farm."""
    with store.writing() as rows:
        return ensure_wiki(rows, parse_wiki("dewiki"), day=0)


def put(store: RegistryStore, wiki: Wiki, page_id: int, *cited: str, day: int = 3) -> WrittenLinks:
    """Put a page of the wiki by the rules that it has now."""
    with store.writing() as rows:
        rules = RuleBook().rules_of(rows, wiki.id)
        links = tuple(classify_link(url, rules) for url in cited)
        return put_pages(rows, wiki.id, [PutPage(PageName(page_id, "P"), links)], day=day)


def excludes(form: EntryForm, entry: str, url: str) -> bool:
    """Return whether a list of that entry excludes the URL."""
    match = ExclusionList([parse_entry(entry, form)]).entry_for(url_parts_of(fetch_key(url)))
    return match is not None


@pytest.mark.parametrize(
    ("entry", "url", "out"),
    [
        ("example.com", "http://example.com/", True),
        ("example.com", "https://a.b.example.com:8443/x?y", True),
        ("example.com", "//www.EXAMPLE.com./x", True),
        ("Example.COM", "http://example.com/", True),
        ("example.com", "http://notexample.com/", False),
        ("example.com", "http://example.com.org/", False),
        ("sub.example.com", "http://x.sub.example.com/", True),
        ("sub.example.com", "http://example.com/", False),
        ("münchen.de", "http://www.xn--mnchen-3ya.de/", True),
        ("xn--mnchen-3ya.de", "http://münchen.de/", True),
        ("192.0.2.1", "http://192.0.2.1:81/x", True),
        ("192.0.2.1", "http://192.0.2.11/", False),
        ("[2001:db8::1]", "https://[2001:DB8:0::1]/", True),
    ],
)
def test_a_domain_excludes_all_of_it(entry: str, url: str, out: bool) -> None:
    """Subdomains, schemes, ports and paths, in whatever spelling the link has (X03)."""
    assert excludes(EntryForm.DOMAIN, entry, url) is out


@pytest.mark.parametrize(
    ("entry", "url", "out"),
    [
        ("example.com", "http://example.com/", True),
        ("example.com", "https://a.b.example.com:8443/x", True),
        ("*.example.com", "https://example.com/x", True),
        ("example.com", "http://notexample.com/", False),
        ("example.org/foo", "http://example.org/foobar", True),
        ("example.org/foo", "https://example.org/foo/bar?x", True),
        ("example.org/foo", "https://www.example.org/foo", False),
        ("example.org/foo", "https://example.org/Foo", False),
        ("example.org/foo", "https://example.org/", False),
        ("example.org/", "https://example.org/x", True),
        ("example.org/", "https://www.example.org/x", False),
        ("https://example.org/foo", "https://example.org/foo", True),
        ("https://example.org/foo", "http://example.org/foo", False),
        ("https://example.com", "https://www.example.com/", True),
        ("https://example.com", "http://www.example.com/", False),
        ("*.example.com/a", "http://b.example.com/ab", True),
        ("*.example.com/a", "http://b.example.com/b", False),
        ("192.0.2.*", "http://192.0.2.77/", True),
        ("192.0.2.1", "http://192.0.2.1:81/", True),
    ],
)
def test_a_pattern_excludes_what_it_finds(entry: str, url: str, out: bool) -> None:
    """As link search reads it, but that a host alone means all below it, too (X04)."""
    assert excludes(EntryForm.PATTERN, entry, url) is out


@pytest.mark.parametrize(
    ("form", "entry", "why"),
    [
        (EntryForm.DOMAIN, "", "empty"),
        (EntryForm.DOMAIN, "example.com/p", "no path"),
        (EntryForm.DOMAIN, "example.com/", "no path"),
        (EntryForm.DOMAIN, "example.com.", "without a trailing dot"),
        (EntryForm.DOMAIN, "*.example.com", "write example.com"),
        (EntryForm.DOMAIN, ".example.com", "write example.com"),
        (EntryForm.DOMAIN, "https://example.com", "no scheme"),
        (EntryForm.DOMAIN, "a@example.com", "no user name"),
        (EntryForm.DOMAIN, "exam ple.com", "not a host"),
        (EntryForm.PATTERN, "*", "must name a host"),
        (EntryForm.PATTERN, "example.*.com", "only at the beginning"),
        (EntryForm.PATTERN, "example.org/a*", "omit it"),
        (EntryForm.PATTERN, "ftp://example.org", "not ftp"),
        (EntryForm.PATTERN, "x" * 3_000, "characters at most"),
    ],
)
def test_an_entry_that_would_match_nothing_is_refused(form: EntryForm, entry: str, why: str) -> None:
    """With the reason, and what to write instead: nobody wonders later why links are there."""
    with pytest.raises(InputError, match="cannot be excluded") as caught:
        parse_entry(entry, form)

    assert why in str(caught.value)


def test_settings_keep_the_list() -> None:
    """Each form under its own name; other settings stay, and what nobody can read excludes nothing."""
    settings = with_entry({"other": 1}, parse_entry("B.com", EntryForm.DOMAIN))
    settings = with_entry(settings, parse_entry("a.org/x", EntryForm.PATTERN))
    settings = with_entry(settings, parse_entry("b.com", EntryForm.DOMAIN))

    assert settings == {"other": 1, "excluded_domains": ["b.com"], "exclusion_list": ["a.org/x"]}
    assert without_entry(settings, "c.com", EntryForm.DOMAIN) is None
    assert without_entry(settings, "B.COM", EntryForm.DOMAIN) == {**settings, "excluded_domains": []}
    broken = {"excluded_domains": ["*", "b.com", {}], "exclusion_list": "x"}
    assert [entry.text for entry in exclusions_of(broken).entries] == ["b.com"]
    assert len(unreadable(broken)) == 3
    assert unreadable(settings) == []


def test_a_full_list_takes_no_more() -> None:
    """An entry that is there can be written again."""
    full = {"excluded_domains": [f"{number}.com" for number in range(ENTRIES_LIMIT)]}

    with pytest.raises(InputError, match="entries at most"):
        with_entry(full, parse_entry("one-more.com", EntryForm.DOMAIN))
    assert len(with_entry(full, parse_entry("0.com", EntryForm.DOMAIN))["excluded_domains"]) > 1


@pytest.mark.parametrize(
    ("search", "entries"),
    [
        ("*.creativecommons.org", ["creativecommons.org"]),
        ("www.creativecommons.org/licenses", ["creativecommons.org"]),
        ("*.org", ["creativecommons.org", "example.org/foo"]),
        ("example.org", ["example.org/foo"]),
        ("example.org/foobar", ["example.org/foo"]),
        ("example.org/bar", []),
        ("www.example.org/foo", []),
        ("example.net", []),
    ],
)
def test_a_search_that_meets_an_entry_says_so(search: str, entries: list[str]) -> None:
    """It names the entries and where such links are found nevertheless (X06, X10)."""
    exclusions = ExclusionList(
        [parse_entry("creativecommons.org", EntryForm.DOMAIN), parse_entry("example.org/foo", EntryForm.PATTERN)]
    )
    pattern = parse_link_pattern(search)

    matches = exclusions.meeting(pattern)

    assert [entry.text for entry in matches] == entries
    warning = warning_for(pattern, matches, "commonswiki@WMF")
    assert bool(warning) is bool(entries)
    assert all(entry in warning for entry in entries)
    assert not entries or "insource:" in warning


def test_links_are_counted_for_each_entry_by_the_page(store: RegistryStore) -> None:
    """A page that is written again counts once, and one that is gone no more (X05)."""
    with store.writing() as rows:
        add_entry_counts(rows, 1, [({}, {"cc.org": 2, "a.org": 1}), ({}, {"cc.org": 1})], today=10)
        changes = [({"cc.org": 2, "a.org": 1}, {"cc.org": 3}), ({"cc.org": 1}, {})]
        add_entry_counts(rows, 1, changes, today=11)
        add_entry_counts(rows, 2, [({}, {"cc.org": 1})], today=11)

    with store.reading() as rows:
        assert counts_of(rows, 1) == {"cc.org": (3, 1, 11)}
        assert len(rows.execute(select(excluded)).all()) == 2


def test_counts_are_those_of_the_pages(sqlite_store: RegistryStore) -> None:
    """However a page changes, the sum of changes is its last tally."""
    before: dict[str, int] = {}
    for after in ({"a": 1}, {"a": 2, "b": 1}, {}, {"b": 3, "c": 1}, {"c": 2}):
        with sqlite_store.writing() as rows:
            add_entry_counts(rows, 1, [(before, after)], today=9)
            assert counts_of(rows, 1) == {entry: (count, 1, 9) for entry, count in after.items()}
        before = after


def test_an_excluded_link_is_watched_and_keeps_its_history(store: RegistryStore, wiki: Wiki) -> None:
    """Only link search leaves it out, as long as the list names it; its reference stays (X05)."""
    put(store, wiki, 7, "https://cc.org/by", "https://a.net/")
    settings = with_entry({}, parse_entry("cc.org", EntryForm.DOMAIN))
    with store.writing() as rows:
        change_wiki(rows, wiki, settings=settings)
    written = put(store, wiki, 7, "https://cc.org/by", "https://a.net/", day=9)

    assert (written.urls, written.gone, written.added) == (2, (), ())
    with store.reading() as rows:
        ref_rows = rows.execute(select(refs.c.first_day, refs.c.gone_day)).all()
        due = rows.execute(select(urls.c.due_day)).scalars().all()
        assert counts_of(rows, wiki.id) == {"cc.org": (1, 1, 9)}
        assert [link.url for link in found_links(rows, "*.org", wiki.id)] == []
    assert [tuple(row) for row in ref_rows] == [(3, None), (3, None)]
    assert None not in due
    with store.writing() as rows:
        change_wiki(rows, wiki, settings={})
        assert [link.url for link in found_links(rows, "*.org")] == ["https://cc.org/by"]


@pytest.mark.parametrize("many", [1, 12])
def test_a_link_that_another_wiki_shows_is_found_with_its_pages(store: RegistryStore, wiki: Wiki, many: int) -> None:
    """Those of the wiki that excludes it are left out, however many they are (X05)."""
    for page in range(1, many + 1):
        put(store, wiki, page, "https://cc.org/by")
    link = (classify_link("https://cc.org/by"),)
    with store.writing() as rows:
        change_wiki(rows, wiki, settings={"exclusion_list": ["cc.org"]})
        other = ensure_wiki(rows, parse_wiki("enwiki"), day=0)
        put_pages(rows, other.id, [PutPage(PageName(4, "Foo"), link)], day=3)
        links = found_links(rows, "cc.org")

        assert [[page.title for page in each.pages] for each in links] == [["Foo"]]
        assert found_links(rows, "cc.org", wiki.id) == []
        assert len(found_links(rows, "cc.org", other.id)) == 1


def found_links(rows: Connection, pattern: str, wiki_id: int | None = None) -> list[FoundLink]:
    """Return the links that a search finds."""
    return list(search_links(rows, parse_link_pattern(pattern), LinkQuery(wiki_id=wiki_id)).links)
