"""Links of whole wikis, brought in."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from sqlalchemy import func, select

from core.errors import InputError
from links.registry import link_import
from links.registry.database import RegistryStore
from links.registry.dump_reader import DumpLink
from links.registry.link_import import LinkImporter, PageSpool
from links.registry.lookups import page_facts
from links.registry.schema import imports, refs
from links.registry.urls import find_urls
from links.registry.wikis import Wiki, all_wikis, change_wiki, known_wiki, parse_wiki
from links.rules.link_class import LinkClass
from tests.links.registry.conftest import Putting

WIKI = parse_wiki("dewiki")
DIGEST = b"d" * 16
BATCH = 20  # pages of one transaction


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_import, "BATCH", BATCH)


@contextmanager
def _spool(*rows: tuple[str, int, str, str]) -> Iterator[PageSpool]:
    """A spool with rows: wiki, page id, title, URL."""
    with closing(PageSpool()) as spool:
        for wiki, page_id, title, url in rows:
            spool.add(DumpLink(wiki, page_id, title, 0, url), WIKI)
        yield spool


def _many(pages: int) -> list[tuple[str, int, str, str]]:
    return [("", number % pages + 1, "T", f"https://a.net/{number}") for number in range(3 * pages)]


def _links(store: RegistryStore) -> int:
    with store.reading() as rows:
        return int(rows.execute(select(func.count()).select_from(refs)).scalar_one())


def test_a_pages_links_may_stand_anywhere_in_a_file(store: RegistryStore) -> None:
    """They are gathered, and wikis kept apart."""
    rows = (
        ("", 7, "Foo", "https://a.net/1"),
        ("enwiki", 7, "Bar", "https://a.net/1"),
        ("", 3, "Baz", "https://a.net/2"),
        ("dewiki@WMF", 7, "Foo", "https://b.net/"),
        ("", 7, "Foo", "https://a.net/1"),
        ("", 7, "Foo", "http://http://bad/"),
        ("", 7, "Foo", "mailto:me@a.net"),
    )
    with _spool(*rows) as spool:
        done = LinkImporter(store, day=5).run(spool)

    assert (done.pages, done.links, done.added) == (3, 6, 4)
    assert done.sorts == {LinkClass.WATCHED: 4, LinkClass.INVALID: 1, LinkClass.PASSED_OVER: 1}
    with store.snapshot() as reader:
        wikis = {str(wiki.name): wiki.id for wiki in all_wikis(reader)}
        facts = page_facts(reader, wikis["dewiki@WMF"], [7], day=5)[7]
        assert {link.facts.row.url for link in facts.links} == {"https://a.net/1", "https://b.net/"}
        assert page_facts(reader, wikis["enwiki@WMF"], [7], day=5)[7].page.title == "Bar"


def test_what_a_file_says_of_a_page_is_all_it_has(store: RegistryStore, wiki: Wiki, put: Putting) -> None:
    """Pages that it does not name stay as they are; a dump without titles forgets none."""
    put(7, "https://old.net/", day=1, title="Foo")
    put(8, "https://old.net/", day=1)
    with _spool(("", 7, "", "https://new.net/")) as spool:
        done = LinkImporter(store, day=5).run(spool)

    assert (done.added, done.gone) == (1, 1)
    with store.snapshot() as reader:
        facts = page_facts(reader, wiki.id, [7, 8], day=5)
    assert [link.facts.row.url for link in facts[7].links] == ["https://new.net/"]
    assert facts[7].page.title == "Foo"
    assert [link.facts.row.url for link in facts[8].links] == ["https://old.net/"]


def test_an_interrupted_import_goes_on_where_it_stopped(store: RegistryStore) -> None:
    """No page is written twice, none is left out; then nothing is left to resume."""
    rows = _many(2 * BATCH + 10)
    seen: list[int] = []

    def stop(more: int) -> None:
        seen.append(more)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with _spool(*rows) as spool, pytest.raises(KeyboardInterrupt):
        LinkImporter(store, day=5, digest=DIGEST).run(spool, progress=stop)
    assert _links(store) == 3 * BATCH
    with _spool(*rows) as spool:
        done = LinkImporter(store, day=5, digest=DIGEST).run(spool)

    assert (done.resumed, done.pages) == (BATCH, BATCH + 10)
    assert _links(store) == len(rows)
    with store.reading() as connection:
        assert connection.execute(select(imports)).all() == []


def test_another_file_and_a_restart_begin_at_the_first_page(store: RegistryStore) -> None:
    """How far one file came says nothing of another."""
    rows = _many(BATCH + 1)

    def stop(more: int) -> None:
        if more:
            raise KeyboardInterrupt

    with _spool(*rows) as spool, pytest.raises(KeyboardInterrupt):
        LinkImporter(store, day=5, digest=DIGEST).run(spool, progress=stop)
    with _spool(*rows) as spool:
        assert LinkImporter(store, day=5, digest=b"e" * 16).run(spool).resumed == 0
    with _spool(*rows) as spool:
        assert LinkImporter(store, day=5, digest=DIGEST).run(spool, restart=True).pages == BATCH + 1


def test_importing_twice_changes_nothing(store: RegistryStore) -> None:
    """The second time there is nothing new, and nothing gone."""
    rows = _many(20)
    with _spool(*rows) as spool:
        LinkImporter(store, day=5).run(spool)
    with _spool(*rows) as spool:
        again = LinkImporter(store, day=6).run(spool)

    assert (again.pages, again.added, again.gone) == (20, 0, 0)


def test_a_dry_run_writes_nothing(store: RegistryStore) -> None:
    """But says what would be."""
    with _spool(*_many(20), ("frwiki", 1, "A", "https://b.net/")) as spool:
        done = LinkImporter(store, day=5).look(spool)

    assert (done.pages, done.links) == (21, 61)
    with store.reading() as rows:
        assert all_wikis(rows) == []


def test_a_wikis_own_rules_sort_its_links(store: RegistryStore, wiki: Wiki) -> None:
    """W50: its farm's own hosts are not kept; what link search leaves out is watched as all else (X05)."""
    with store.writing() as rows:
        change_wiki(rows, known_wiki(rows, WIKI), settings={"excluded_domains": ["spiegel.de"]})
    urls = ("https://en.wikipedia.org/wiki/X", "https://www.spiegel.de/x", "https://a.net/")
    with _spool(*(("", 7, "Foo", url) for url in urls)) as spool:
        done = LinkImporter(store, day=5).run(spool)

    assert done.sorts == {LinkClass.INTERNAL: 1, LinkClass.EXCLUDED: 1, LinkClass.WATCHED: 1}
    with store.snapshot() as reader:
        assert set(find_urls(reader, urls)) == {"https://www.spiegel.de/x", "https://a.net/"}


def test_a_row_that_names_no_wiki_is_refused() -> None:
    """Unless somebody says whose pages these are."""
    with closing(PageSpool()) as spool:
        with pytest.raises(InputError, match="--wiki"):
            spool.add(DumpLink("", 1, "A", 0, "https://a.net/"), None)
        with pytest.raises(InputError, match="number above 0"):
            spool.add(DumpLink("dewiki", 0, "A", 0, "https://a.net/"), None)
        assert spool.pages() == 0
