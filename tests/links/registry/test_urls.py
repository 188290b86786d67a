"""URLs become known once, byte for byte, and are found again."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, text, update

from core.errors import InvariantError
from links.registry.database import RegistryStore
from links.registry.schema import hosts, urls
from links.registry.urls import FIRST_LOOKS_DAYS, ensure_urls, find_urls, urls_by_id
from links.states import LinkState
from links.url_parts import key_of, url_parts_of
from tests.support.examples import examples


@pytest.mark.parametrize("length", [10, 8_192, 60_000])
def test_urls_of_any_length_come_back_byte_for_byte(store: RegistryStore, length: int) -> None:
    """A17: no column and no index cuts them."""
    path = "".join(chr(33 + (number * 7) % 2 + 32) for number in range(length))
    url = url_parts_of(f"https://www.heise.de/{path}?x=%C3%A9&y=1").url
    with store.writing() as rows:
        ids = ensure_urls(rows, [url], day=5)

    with store.reading() as rows:
        row_by_url = find_urls(rows, [url, url + "z"])
    assert list(row_by_url) == [url]
    assert row_by_url[url].url == url
    assert row_by_url[url].id == ids[url]


def test_a_url_is_known_once(store: RegistryStore) -> None:
    """Asked for again it has the same number, and is touched."""
    with store.writing() as rows:
        first = ensure_urls(rows, ["https://heise.de/"], day=5)
    with store.writing() as rows:
        again = ensure_urls(rows, ["https://heise.de/", "https://heise.de/"], day=9)

    assert first == again
    with store.reading() as rows:
        row = find_urls(rows, first)["https://heise.de/"]
    assert (row.added_day, row.touched_day, row.state, row.host) == (5, 9, LinkState.UNKNOWN, "heise.de")


def test_touching_never_goes_back(store: RegistryStore) -> None:
    """A feeder whose clock is behind makes no URL older."""
    with store.writing() as rows:
        ensure_urls(rows, ["https://heise.de/"], day=9)
        ensure_urls(rows, ["https://heise.de/"], day=5)
        assert find_urls(rows, ["https://heise.de/"])["https://heise.de/"].touched_day == 9


def test_many_urls_are_written_at_once_and_keep_apart(store: RegistryStore) -> None:
    """Schemes, ports, letter case and queries all count; hosts are kept once."""
    spelled = [
        f"{scheme}://h{number % 7}.net{port}/{path}"
        for number in range(700)
        for scheme, port, path in (("http", "", f"a{number}"), ("https", ":8443", f"A{number}?x"))
    ]
    with store.writing() as rows:
        ids = ensure_urls(rows, spelled, day=5)

    assert len(set(ids.values())) == len(spelled)
    with store.reading() as rows:
        assert {row.url for row in urls_by_id(rows, ids.values()).values()} == set(spelled)
        assert rows.execute(select(func.count()).select_from(hosts)).scalar_one() == 7


def test_new_urls_are_due_within_a_week_and_spread(store: RegistryStore) -> None:
    """No burst after an import: each day gets its share."""
    with store.writing() as rows:
        ids = ensure_urls(rows, [f"https://heise.de/{number}" for number in range(700)], day=50)
        due = [row.due_day for row in urls_by_id(rows, ids.values()).values()]

    shares = [due.count(50 + day) for day in range(FIRST_LOOKS_DAYS)]
    assert sum(shares) == 700
    assert min(shares) > 60


def test_two_urls_with_one_key_are_told_loudly(store: RegistryStore) -> None:
    """It cannot happen by accident; if it does, no URL stands for another."""
    with store.writing() as rows:
        ensure_urls(rows, ["https://heise.de/one"], day=5)
        other = key_of("https://heise.de/two")
        rows.execute(update(urls).values(key=other))

    with store.writing() as rows, pytest.raises(InvariantError, match="same key"):
        ensure_urls(rows, ["https://heise.de/two"], day=5)


def test_hosts_are_kept_in_all_their_spellings(store: RegistryStore) -> None:
    """As they are asked for, as MediaWiki orders them, and whose they are."""
    with store.writing() as rows:
        ensure_urls(rows, ["https://www.bbc.co.uk/x", "https://[2600::1]/", "http://8.8.8.8/"], day=5)
        host_rows = rows.execute(select(hosts.c.name, hosts.c.domain_index, hosts.c.domain)).all()

    assert set(map(tuple, host_rows)) == {
        ("www.bbc.co.uk", "uk.co.bbc.www.", "bbc.co.uk"),
        ("[2600::1]", "V6.2600.0.0.0.0.0.0.1.", "[2600::1]"),
        ("8.8.8.8", "V4.8.8.8.8.", "8.8.8.8"),
    }


def test_two_that_write_the_same_urls_at_once_both_succeed(store: RegistryStore) -> None:
    """Neither waits for the other for ever, and no URL is written twice."""
    spelled = [f"https://h{number % 40}.net/{number}" for number in range(1_200)]
    start = threading.Barrier(2)

    def write(order: int) -> dict[str, int]:
        start.wait()
        with store.writing() as rows:
            return ensure_urls(rows, spelled[::order], day=5)

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(write, [1, -1])

    assert one == other
    with store.reading() as rows:
        assert rows.execute(select(func.count()).select_from(urls)).scalar_one() == 1_200


PATHS = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FFF, exclude_categories=["Cs"]))


@settings(max_examples=examples(60))
@given(path=PATHS, port=st.integers(1, 65_535), scheme=st.sampled_from(["http", "https"]))
def test_what_is_written_is_found(sqlite_store: RegistryStore, path: str, port: int, scheme: str) -> None:
    """Every identity key comes back as it was."""
    url = url_parts_of(f"{scheme}://www.heise.de:{port}/{path}").url
    with sqlite_store.writing() as rows:
        ensure_urls(rows, [url], day=1)
    with sqlite_store.snapshot() as reader:
        assert list(find_urls(reader, [url])) == [url]


def test_links_are_seen_as_mediawiki_keeps_them(store: RegistryStore) -> None:
    """X08: a view in the form of its table of links, of what pages have now."""
    from links.registry.pages import put_pages
    from links.registry.wikis import ensure_wiki, parse_wiki
    from tests.links.registry.conftest import page

    with store.writing() as rows:
        wiki = ensure_wiki(rows, parse_wiki("dewiki"), day=0)
        had = ("https://creativecommons.org/licenses/by-sa/3.0", "http://heise.de:81/x")
        put_pages(rows, wiki.id, [page(4711, *had), page(4712, had[0])], day=1)
        put_pages(rows, wiki.id, [page(4712)], day=2)

    with store.reading() as rows:
        link_rows = rows.execute(
            text("SELECT el_wiki, el_from, el_to_domain_index, el_to_path FROM link_externallinks ORDER BY el_to_path")
        ).all()
        ids = rows.execute(text("SELECT el_id FROM link_externallinks")).scalars().all()
    assert [tuple(row) for row in link_rows] == [
        ("dewiki@WMF", 4711, "https://org.creativecommons.", "/licenses/by-sa/3.0"),
        ("dewiki@WMF", 4711, "http://de.heise.:81", "/x"),
    ]
    assert len(set(ids)) == 2
