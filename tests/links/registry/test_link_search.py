"""Link search over both databases."""

import itertools
import re
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from core.errors import InputError
from links.registry import link_search
from links.registry.database import RegistryStore
from links.registry.link_search import (
    ON_PAGES,
    PAGES_OF,
    PAGES_OF_ALL,
    STATES,
    LinkQuery,
    LinkSearchResult,
    StateClass,
    search_links,
)
from links.rules import link_pattern
from links.rules.link_pattern import (
    ALIKE,
    ALIKE_ON_HOSTS,
    EXACT_HOSTS,
    LATER,
    RANGE_ON_HOSTS,
    TREE_HOSTS,
    parse_link_pattern,
)
from links.states import LinkState
from links.url_parts import url_parts_of
from tests.links.rows import RegistryRows
from tests.support.examples import examples


def search(
    store: RegistryStore, pattern: str, wanted: LinkQuery | None = None, *, limit: int = 100
) -> LinkSearchResult:
    """Return the result of one call."""
    with store.reading() as rows:
        return search_links(rows, parse_link_pattern(pattern), wanted, limit=limit)


def every(store: RegistryStore, pattern: str, wanted: LinkQuery | None = None, *, limit: int = 100) -> list[str]:
    """Return the URLs of all result pages, one after the other."""
    urls: list[str] = []
    after = ""
    with store.reading() as rows:
        for _ in range(10_000):
            part = search_links(rows, parse_link_pattern(pattern), wanted, limit=limit, after=after)
            assert len(part.links) <= limit
            urls += [link.url for link in part.links]
            after = part.after
            if not after:
                return urls
    raise AssertionError("the search does not end")


def test_links_come_with_their_pages(store: RegistryStore) -> None:
    """Both schemes together, in the order of hosts and paths, with the wikis' names."""
    rows = RegistryRows(store)
    rows.add_wiki()
    rows.add_wiki(2, "other", farm_id=2)
    rows.add_page(1, ["https://test.com/b", "http://test.com/a", "http://www.test.com/"])
    rows.add_page(2, ["http://test.com/a"], wiki_id=2, namespace=4)

    search_result = search(store, "test.com")

    assert [link.url for link in search_result.links] == ["http://test.com/a", "https://test.com/b"]
    first = [(page.wiki, page.namespace, page.title) for page in search_result.links[0].pages]
    assert first == [("wiki@WMF", 0, "Page 1"), ("other@farm2", 4, "Page 2")]
    assert search_result.after == ""


def test_a_search_can_be_narrowed(store: RegistryStore) -> None:
    """By wiki, by namespace, and by what a reader finds there (W03, W04)."""
    rows = RegistryRows(store)
    rows.add_wiki()
    rows.add_wiki(2, "other")
    rows.add_urls({f"http://test.com/{state.name}": state for state in LinkState})
    rows.add_page(1, ["http://test.com/ALIVE", "http://test.com/DEAD"])
    rows.add_page(2, ["http://test.com/DEAD", "http://test.com/BLOCKED"], wiki_id=2, namespace=2)

    in_two = every(store, "test.com", LinkQuery(wiki_id=2))
    users = every(store, "test.com", LinkQuery(namespaces=(2, 10)))
    talk = every(store, "test.com", LinkQuery(wiki_id=1, namespaces=(2,)))
    dead = every(store, "test.com", LinkQuery(states=STATES[StateClass.UNREACHABLE]))

    assert in_two == users == ["http://test.com/BLOCKED", "http://test.com/DEAD"]
    assert talk == []
    assert dead == ["http://test.com/DEAD", "http://test.com/PERMADEAD"]
    assert set().union(*STATES.values()) == set(LinkState)


@pytest.mark.parametrize("at_once", [3, 2_000])
def test_a_link_of_many_pages_shows_some(
    sqlite_store: RegistryStore, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """And says that there are more, whether its pages are read with others' or alone."""
    monkeypatch.setattr(link_search, "_PAGES_AT_ONCE", at_once)
    rows = RegistryRows(sqlite_store)
    rows.add_wiki()
    for number in range(1, link_search.PAGES_SHOWN + 3):
        rows.add_page(number, ["http://test.com/", f"http://test.com/{number}"])

    both = search(sqlite_store, "test.com").links

    assert (len(both[0].pages), both[0].more_pages) == (link_search.PAGES_SHOWN, True)
    assert (len(both[1].pages), both[1].more_pages) == (1, False)


def test_pages_that_lost_a_link_are_not_shown(sqlite_store: RegistryStore) -> None:
    """A reference that is gone keeps its row for a while (W64)."""
    rows = RegistryRows(sqlite_store)
    rows.add_wiki()
    rows.add_page(1, ["http://test.com/"])
    with sqlite_store.writing() as connection:
        connection.execute(text("UPDATE link_refs SET gone_day = 1"))

    assert search(sqlite_store, "test.com").links[0].pages == ()
    assert search(sqlite_store, "test.com", LinkQuery(wiki_id=1)).links == ()


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_parts_of_an_answer_are_together_the_whole(store: RegistryStore, limit: int) -> None:
    """Whatever their size: nothing twice, nothing left out, hosts without such links passed over."""
    cited = [
        f"{scheme}://{host}test.com{port}/{path}"
        for scheme, host, port, path in itertools.product(
            ("http", "https"), ("", "a.", "b.", "c.b."), ("", ":81"), ("", "a", "aa", "b?x")
        )
    ]
    cited += [f"http://{number}.test.com/none" for number in range(30)]
    RegistryRows(store).add_urls(dict.fromkeys(cited, LinkState.ALIVE))

    urls = every(store, "*.test.com/a", limit=limit)

    assert len(urls) == len(set(urls))
    assert set(urls) == {url for url in cited if re.search(r"/aa?$", url)}
    assert urls == every(store, "*.test.com/a", limit=500)


def test_a_long_search_pauses_and_goes_on(store: RegistryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call looks at a bounded number of links and hosts, however few are good."""
    monkeypatch.setattr(link_search, "SCAN_LIMIT", 50)
    cited = {f"http://{n}.test.com/{n}": LinkState.ALIVE for n in range(300)}
    RegistryRows(store).add_urls({**cited, "http://z.test.com/x": LinkState.DEAD})
    wanted = LinkQuery(states=frozenset({LinkState.DEAD}))

    first = search(store, "*.test.com", wanted)

    assert (first.links, bool(first.after)) == ((), True)
    assert first.examined < 250
    assert every(store, "*.test.com", wanted) == ["http://z.test.com/x"]
    assert every(store, "*.test.com/x") == ["http://z.test.com/x"]


def test_a_host_of_many_links_is_read_to_its_end(store: RegistryStore) -> None:
    """Few of them are wanted, and the last is one; so is one of the host behind it."""
    cited = {f"http://a.test.com/{n:05}": LinkState.ALIVE for n in range(4 * link_search.LIMIT)}
    dead = {"http://a.test.com/1": LinkState.DEAD, "http://b.test.com/": LinkState.DEAD}
    RegistryRows(store).add_urls({**cited, **dead})
    wanted = LinkQuery(states=frozenset({LinkState.DEAD}))

    assert every(store, "*.test.com", wanted) == list(dead)
    assert every(store, "*.test.com", wanted, limit=1) == list(dead)
    assert len(every(store, "a.test.com", limit=499)) == len(cited) + 1


def test_a_search_goes_on_where_rows_came_and_went(sqlite_store: RegistryStore) -> None:
    """A place is one in the order of links, whether or not that link is still there."""
    rows = RegistryRows(sqlite_store)
    rows.add_urls({f"http://test.com/{letter}": LinkState.ALIVE for letter in "abcd"})
    with sqlite_store.reading() as connection:
        after = search_links(connection, parse_link_pattern("test.com"), limit=2).after
    with sqlite_store.writing() as connection:
        connection.execute(text("DELETE FROM link_urls WHERE path = '/b'"))
    rows.add_urls({"http://test.com/bb": LinkState.ALIVE, "http://test.com/aa": LinkState.ALIVE})

    with sqlite_store.reading() as connection:
        rest = search_links(connection, parse_link_pattern("test.com"), after=after)

    assert [link.url[-2:] for link in rest.links] == ["bb", "/c", "/d"]


@pytest.mark.parametrize(
    "after",
    [
        *("x", "é", "W10", "bnVsbA", "WyJhIiwxLCJiIl0", "WyJcdTAwMDAiLDEsIiIsMV0", "W" * 5_000),
        *("WyJhIiwtMSwiYiIsMV0", "WyJhIiw5OTk5OTk5OTk5OTk5OTk5OTk5OTk5LCJiIiwxXQ", "eyJhIjoxfQ"),
    ],
)
def test_a_forged_place_is_refused(sqlite_store: RegistryStore, after: str) -> None:
    """It comes from outside: it never reaches the database."""
    with sqlite_store.reading() as rows, pytest.raises(InputError, match="take `after`"):
        search_links(rows, parse_link_pattern("test.com"), after=after)


def test_long_paths_are_told_apart_beyond_what_the_index_keeps(store: RegistryStore) -> None:
    """8 KB URLs that differ in their last letters only."""
    long = "http://test.com/" + "x" * 8_000
    RegistryRows(store).add_urls({f"{long}{end}": LinkState.ALIVE for end in ("a", "b", "ab")})

    assert every(store, long, limit=1) == [f"{long}{end}" for end in ("a", "b", "ab")]
    assert every(store, long + "a") == [f"{long}a", f"{long}ab"]
    assert every(store, long + "c") == []


def test_every_question_uses_an_index(store: RegistryStore) -> None:
    """However many links there are, none is read that lies outside of the ranges."""
    rows = RegistryRows(store)
    rows.add_wiki()
    rows.add_urls({f"http://{n % 50}.test.com/{n}": LinkState.ALIVE for n in range(2_000)})
    for number in range(1, 150):
        rows.add_page(number, [f"http://{number % 50}.test.com/{n}" for n in range(3)])
    questions = {
        "link_hosts_domain_index": [EXACT_HOSTS, TREE_HOSTS],
        "link_urls_paths": [RANGE_ON_HOSTS, ALIKE_ON_HOSTS, ALIKE, LATER],
        "link_refs": [*ON_PAGES.values(), *PAGES_OF.values(), *PAGES_OF_ALL.values()],
    }
    values: dict[str, Any] = {
        "index": "com.test.1.",
        "low": "com.test.",
        "high": "com.test/",
        "order": "com.test.2.",
        "host": 5,
        "head": "/1",
        "url": 3,
        "most": 10,
        "wiki": 1,
        "hosts": [1, 2, 3],
        "ids": [4, 5],
        "after": 0,
        "namespaces": [0],
    }
    explain = "EXPLAIN " if store.is_shared else "EXPLAIN QUERY PLAN "
    with store.writing() as connection:
        connection.execute(text("ANALYZE"))
        if store.is_shared:  # so few rows are read faster without
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        driver: Any = connection.connection.driver_connection
        for index, statement in ((key, each) for key, all_ in questions.items() for each in all_):
            sizes = [len(values[name]) for name in statement.lists]
            made = statement.compiled(connection.dialect, sizes)
            rows_told = driver.execute(explain + made.text, made.driver_parameters(values)).fetchall()
            plan = "\n".join(str(row[-1]) for row in rows_told)
            assert index in plan, plan
            for bad in ("SCAN link_urls", "SCAN link_refs", "SCAN link_hosts", "Seq Scan"):
                assert bad not in plan, plan
            if index != "link_refs":
                assert "TEMP B-TREE" not in plan, plan


HOSTS = ("test.com", "www.test.com", "a.www.test.com", "mytest.com", "test.co", "1.2.3.4", "1.2.33.4")
PATHS = ("", "a", "ab", "a/b", "A", "b?x=1", "%C3%A9", "~u")
PATTERN_HOSTS = (*HOSTS, "*.test.com", "*.www.test.com", "*.com", "1.2.*", "1.2.3.*", "com")
URLS = st.tuples(
    st.sampled_from(["http", "https"]),
    st.sampled_from(HOSTS),
    st.sampled_from(["", ":80", ":443", ":8080"]),
    st.sampled_from(PATHS),
)


def is_meant(pattern: tuple[str, str, str, str], url: tuple[str, str, str, str]) -> bool:
    """Return whether the pattern matches the URL, by comparing the parts of both as texts alone."""
    scheme, host, port, path = pattern
    if scheme and scheme != url[0]:
        return False
    wild = host.startswith("*.") or host.endswith(".*")
    if host.startswith("*."):
        if not f".{url[1]}".endswith(host[1:]):
            return False
    elif host.endswith(".*"):
        if not url[1].startswith(host[:-1]):
            return False
    elif host != url[1]:
        return False
    own = {"http": ":80", "https": ":443"}[url[0]]
    wanted_port = port or ("" if wild else own)
    if wanted_port and wanted_port != (url[2] or own):
        return False
    return url[3].startswith(path)


@settings(max_examples=examples(40))
@given(
    st.lists(URLS, max_size=40, unique=True),
    st.lists(
        st.tuples(
            st.sampled_from(["", "http", "https"]),
            st.sampled_from(PATTERN_HOSTS),
            st.sampled_from(["", ":80", ":443", ":8080"]),
            st.sampled_from(PATHS),
        ),
        min_size=1,
        max_size=10,
    ),
    st.integers(1, 8),
    st.sampled_from([1, 2, 5, 2_000]),
)
def test_the_ranges_find_what_a_plain_comparison_finds(
    store: RegistryStore,
    cited: list[tuple[str, str, str, str]],
    patterns: list[tuple[str, str, str, str]],
    limit: int,
    at_once: int,
) -> None:
    """A URL is found if and only if its text is meant."""
    with store.writing() as connection:
        for table in ("link_hosts", "link_urls"):
            connection.execute(text(f"DELETE FROM {table}"))
    spelled = {f"{s}://{h}{p}/{path}": (s, h, p, path) for s, h, p, path in cited}
    RegistryRows(store).add_urls(dict.fromkeys(spelled, LinkState.ALIVE))

    for pattern in patterns:
        scheme, host, port, path = pattern
        written = f"{scheme}://{host}{port}/{path}" if scheme else f"{host}{port}/{path}"
        meant = {url_parts_of(url).url for url, parts in spelled.items() if is_meant(pattern, parts)}
        with mock.patch.object(link_pattern, "LINKS_AT_ONCE", at_once):
            urls = every(store, written, limit=limit)
        assert (set(urls), len(urls)) == (meant, len(meant)), written
