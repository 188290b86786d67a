"""A wiki's rules, as the registry keeps them."""

import json

import pytest
from sqlalchemy import update

from core.errors import InputError
from links.registry.database import RegistryStore
from links.registry.schema import farms, wikis
from links.rules.link_class import LinkClass, classify_link
from links.rules.spam_list import SpamList, SpamListKind
from links.rules.wiki_rules import FARM_WIDE, RuleBook, put_list, read_lists, remove_list
from tests.links.rows import TODAY, RegistryRows

BLACK = SpamList("black", SpamListKind.BLACKLIST, "spam-farm")


def sort(store: RegistryStore, book: RuleBook, url: str, wiki_id: int = 1) -> LinkClass:
    """Return the class of the URL for the wiki now."""
    with store.reading() as rows:
        return classify_link(url, book.rules_of(rows, wiki_id)).sort


def change(store: RegistryStore, **values: object) -> None:
    """Change the row of wiki 1."""
    with store.writing() as rows:
        rows.execute(update(wikis).where(wikis.c.id == 1).values(**values))


def test_rules_follow_what_changes(store: RegistryStore) -> None:
    """Settings, the farm's expression and lists count from the next question on."""
    rows = RegistryRows(store)
    rows.add_wiki()
    rows.add_wiki(2, "other")
    rows.add_wiki(3, "far", farm_id=7)
    book = RuleBook()
    spam, own, out = "http://spam-farm.org/", "http://w.near.org/", "http://cc.org/"
    assert [sort(store, book, url) for url in (spam, own, out)] == [LinkClass.WATCHED] * 3

    change(store, url="https://w.near.org/w/api.php", settings='{"excluded_domains": ["cc.org"]}')
    with store.writing() as writing:
        put_list(writing, 1, BLACK, today=TODAY)
        writing.execute(update(farms).where(farms.c.id == 1).values(internal=r"(^|\.)ours\.org$"))

    kinds = [sort(store, book, url) for url in (spam, own, out, "http://a.ours.org/")]
    assert kinds == [LinkClass.SPAM, LinkClass.INTERNAL, LinkClass.EXCLUDED, LinkClass.INTERNAL]
    assert [sort(store, book, spam, wiki_id) for wiki_id in (2, 3)] == [LinkClass.SPAM, LinkClass.WATCHED]
    assert sort(store, book, own, 2) is LinkClass.WATCHED

    with store.writing() as writing:
        assert remove_list(writing, 1, "black")
        assert not remove_list(writing, 1, "black")
    change(store, settings=json.dumps({"registers_own": True, "is_private": True}))
    kinds = [sort(store, book, url) for url in (spam, own, "http://10.0.0.1/")]
    assert kinds == [LinkClass.WATCHED] * 3


def test_the_host_of_the_farms_address_is_the_farms_own(store: RegistryStore) -> None:
    """From the next question on, for all its wikis (W61); one that registers its own links does so."""
    rows = RegistryRows(store)
    rows.add_wiki()
    rows.add_wiki(2, "other")
    rows.add_wiki(3, "far", farm_id=7)
    book, url = RuleBook(), "http://home.ours.org/page"
    assert sort(store, book, url) is LinkClass.WATCHED

    with store.writing() as writing:
        address = "https://home.ours.org/start"
        writing.execute(update(farms).where(farms.c.id == 1).values(address=address))

    kinds = [sort(store, book, url, wiki_id) for wiki_id in (1, 2, 3)]
    assert kinds == [LinkClass.INTERNAL, LinkClass.INTERNAL, LinkClass.WATCHED]
    assert sort(store, book, "http://www.ours.org/") is LinkClass.WATCHED
    change(store, settings='{"registers_own": true}')
    assert sort(store, book, url) is LinkClass.WATCHED


def test_a_wikis_own_list_is_nobody_elses(store: RegistryStore) -> None:
    """Local blocks of other wikis are never told (W52)."""
    rows = RegistryRows(store)
    rows.add_wiki()
    rows.add_wiki(2, "other")
    with store.writing() as writing:
        put_list(writing, 1, BLACK, wiki_id=1, today=TODAY)

    assert sort(store, RuleBook(), "http://spam-farm.org/", 1) is LinkClass.SPAM
    assert sort(store, RuleBook(), "http://spam-farm.org/", 2) is LinkClass.WATCHED


def test_a_list_takes_the_place_of_the_one_before(store: RegistryStore) -> None:
    """Of the same name and owner; the farm's and a wiki's stand beside each other."""
    with store.writing() as writing:
        put_list(writing, 1, BLACK, today=TODAY)
        put_list(writing, 1, BLACK, wiki_id=4, today=TODAY)
        put_list(writing, 1, SpamList("black", SpamListKind.WHITELIST, "x"), today=TODAY + 1)
        rows = [(row.wiki_id, row.kind, row.loaded_day) for row in read_lists(writing)]

    assert rows == [(FARM_WIDE, SpamListKind.WHITELIST, TODAY + 1), (4, SpamListKind.BLACKLIST, TODAY)]


@pytest.mark.parametrize(("name", "content"), [("", "x"), ("x" * 201, "x"), ("a\0b", "x"), ("a", "x\0y")])
def test_a_list_that_no_database_keeps_is_refused(store: RegistryStore, name: str, content: str) -> None:
    """Before it is asked."""
    with store.writing() as writing, pytest.raises(InputError):
        put_list(writing, 1, SpamList(name, SpamListKind.BLACKLIST, content), today=TODAY)


@pytest.mark.parametrize("settings", ["", "[]", "x", '{"servers": 5, "excluded_domains": {}}'])
def test_settings_that_cannot_be_read_rule_nothing(sqlite_store: RegistryStore, settings: str) -> None:
    """And the wiki's other rules hold on."""
    RegistryRows(sqlite_store).add_wiki()
    change(sqlite_store, settings=settings, pages_url="https://w.near.org/wiki/$1")
    with sqlite_store.writing() as writing:
        writing.execute(update(farms).where(farms.c.id == 1).values(internal="(?<=x)"))

    assert sort(sqlite_store, RuleBook(), "http://w.near.org/") is LinkClass.INTERNAL
    assert sort(sqlite_store, RuleBook(), "http://far.org/") is LinkClass.WATCHED
    assert sort(sqlite_store, RuleBook(), "http://far.org/", 99) is LinkClass.WATCHED
