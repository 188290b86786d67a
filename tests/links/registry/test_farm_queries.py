"""Facts about many URLs at once that a farm may read (W20, W24, W30)."""

from sqlalchemy import insert

from links.registry import schema
from links.registry.database import RegistryStore
from links.registry.farm_queries import copies_elsewhere, known_by_key, wanted_since
from links.registry.pages import put_pages
from links.registry.urls import find_urls
from links.registry.wikis import Wiki, ensure_wiki, parse_wiki, put_farm
from links.url_parts import key_of
from tests.links.registry.conftest import Putting, page

URL, OTHER, THIRD = "https://a.net/x", "https://b.net/y", "https://c.net/z"


def another(store: RegistryStore, name: str, *links: str, number: int = 1) -> Wiki:
    """Add a wiki with a page that has these links."""
    parsed = parse_wiki(name)
    with store.writing() as rows:
        if parsed.farm != "WMF":
            put_farm(rows, parsed.farm)
        wiki = ensure_wiki(rows, parsed, day=0)
        put_pages(rows, wiki.id, [page(number, *links)], day=1)
    return wiki


def known(store: RegistryStore, wiki: Wiki, *urls: str) -> set[str]:
    """Return those of the URLs that its farm has."""
    with store.snapshot() as reader:
        return set(known_by_key(reader, wiki, map(key_of, urls)))


def test_a_url_of_the_wiki_is_known_to_it(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """With its row; one that nobody has is not."""
    put(1, URL, OTHER, day=3)
    with store.snapshot() as reader:
        row_by_url = known_by_key(reader, wiki, map(key_of, [URL, URL, THIRD]))

    assert list(row_by_url) == [URL]
    assert (row_by_url[URL].url, row_by_url[URL].added_day) == (URL, 3)


def test_a_url_of_another_wiki_of_the_farm_is_known(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """However many wikis of other farms come before it in the index."""
    put(1, OTHER, day=3)
    for number in range(5):
        another(store, f"osm{number}@OSM", URL, THIRD)
    another(store, "enwiki", URL)

    assert known(store, wiki, URL, OTHER, THIRD) == {URL, OTHER}


def test_a_url_of_another_farm_is_not(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """Nor does that farm learn what the first one has (W24)."""
    put(1, URL, day=3)
    osm = another(store, "osmwiki@OSM", OTHER)

    assert known(store, osm, URL, OTHER) == {OTHER}
    assert known(store, wiki, URL, OTHER) == {URL}


def test_a_url_that_its_page_lost_is_not_known_any_more(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """In the wiki itself, and in the farm."""
    put(1, URL, OTHER, day=3)
    put(1, OTHER, day=4)
    assert known(store, wiki, URL, OTHER) == {OTHER}
    another(store, "enwiki", URL)
    assert known(store, wiki, URL, OTHER) == {URL, OTHER}


def test_more_urls_than_fit_into_a_question_are_all_answered(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """Of both sorts."""
    own = [f"https://a.net/{number}" for number in range(600)]
    farms = [f"https://b.net/{number}" for number in range(600)]
    put(1, *own, day=3)
    another(store, "enwiki", *farms)

    assert known(store, wiki, *own, *farms, URL) == {*own, *farms}
    assert known(store, wiki) == set()


def test_copies_come_with_a_persons_choice_first_and_then_the_newest(store: RegistryStore, put: Putting) -> None:
    """An archive of which no version is chosen has none."""
    put(1, URL, OTHER, day=3)
    with store.writing() as rows:
        numbers = {row.url: row.id for row in find_urls(rows, [URL, OTHER]).values()}
        facts = {"url_id": numbers[URL], "found_day": 3, "checked_day": 3}
        for service, address, timestamp, by, is_locked in (
            ("old", "https://old.net/", "20100101000000", "", False),
            ("new", "https://new.net/", "20200101000000", "", False),
            ("when", "https://when.net/", "", "", False),
            ("chosen", "https://chosen.net/", "20000101000000", "alice", False),
            ("locked", "https://locked.net/", "19990101000000", "", True),
            ("none", "", "", "", False),
        ):
            copy = {"service": service, "address": address, "timestamp": timestamp}
            row = {**facts, **copy, "chosen_by": by, "is_locked": is_locked}
            rows.execute(insert(schema.copies).values(**row))
    with store.snapshot() as reader:
        copies_by_id = copies_elsewhere(reader, numbers.values())

    assert list(copies_by_id) == [numbers[URL]]
    services = [each.service for each in copies_by_id[numbers[URL]]]
    assert services == ["chosen", "locked", "new", "old", "when"]


def test_a_link_waits_since_its_first_page_got_it(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """Whichever page that is."""
    put(1, URL, OTHER, day=3)
    with store.writing() as rows:
        number = find_urls(rows, [URL])[URL].id
        for page_number, since in ((1, 2_000), (2, 1_000)):
            row = {"page": page_number, "url_id": number, "since": since, "due": 9_000}
            rows.execute(insert(schema.wanted).values(**row, wiki_id=wiki.id, priority=0))
    with store.snapshot() as reader:
        assert wanted_since(reader, [number, number + 100]) == {number: 1_000}
        assert wanted_since(reader, []) == {}
