"""Effect of changed rules on known pages, and hosts that are worth a rule."""

from sqlalchemy import select, update

from links.registry.database import RegistryStore
from links.registry.link_search import search_links
from links.registry.schema import pages
from links.rules.exclusion_list import suggest_exclusions
from links.rules.link_pattern import parse_link_pattern
from links.rules.wiki_rules import mark_pages_of_entry, mark_pages_stale
from tests.links.rows import RegistryRows


def filled(store: RegistryStore) -> RegistryRows:
    """Add two wikis of six pages each; all link to one licence, and each to a page of its own."""
    rows = RegistryRows(store)
    rows.add_wiki()
    rows.add_wiki(2, "other")
    for number in range(1, 13):
        cited = ["https://cc.org/by", "https://cc.org/sa", f"http://far.org/{number}"]
        rows.add_page(number, cited[number == 1 :], wiki_id=1 + number % 2)
    return rows


def stale(store: RegistryStore) -> list[int]:
    """Return the ids of the pages that are to be read again."""
    with store.reading() as connection:
        page_ids = connection.execute(select(pages.c.id).where(pages.c.is_stale)).scalars()
        return sorted(page_ids)


def test_hosts_on_many_pages_with_few_links_are_proposed(store: RegistryStore) -> None:
    """With the figures of the one wiki, the most linked first (X07)."""
    filled(store)
    with store.reading() as connection:
        all_ = suggest_exclusions(connection, 2)
        few = suggest_exclusions(connection, 2, least_share=0.5, most_urls=3)
        none = suggest_exclusions(connection, 3)

    assert [(each.host, each.pages, each.urls, each.links) for each in all_] == [
        ("cc.org", 6, 2, 11),
        ("far.org", 6, 6, 6),
    ]
    assert [(each.host, each.share, each.links_per_url) for each in few] == [("cc.org", 1.0, 5.5)]
    assert none == []


def test_pages_that_have_a_link_are_marked(store: RegistryStore) -> None:
    """Of the wikis that are named, and each once."""
    filled(store)
    with store.reading() as connection:
        meant = parse_link_pattern("far.org/1")
        links = search_links(connection, meant).links
    with store.writing() as connection:
        first = mark_pages_stale(connection, [2], [link.url_id for link in links])
        again = mark_pages_stale(connection, [1, 2], [link.url_id for link in links])

    assert (first, again) == (2, 2)
    assert stale(store) == [1, 10, 11, 12]


def test_pages_that_an_entry_kept_links_out_of_are_marked(store: RegistryStore) -> None:
    """By the tally that each keeps; signs of LIKE are but signs."""
    filled(store)
    with store.writing() as connection:
        for page, tally in ((2, '{"cc.org/a_b": 2}'), (4, '{"cc.org/aXb": 1}'), (3, '{"x": 1}')):
            connection.execute(update(pages).where(pages.c.id == page).values(excluded=tally))
        marked = mark_pages_of_entry(connection, 1, "cc.org/a_b")

    assert marked == 1
    assert stale(store) == [2]
