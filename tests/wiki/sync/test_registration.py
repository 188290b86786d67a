"""Registration of a wiki: on both databases."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ConfigError, InputError
from core.layout import Layout
from links.registry.database import RegistryStore
from links.registry.farm_queries import count_contents
from links.registry.pages import PageName, PutPage, put_pages
from links.registry.wikis import WikiFarm, all_farms, all_wikis, change_wiki, ensure_wiki, find_farm, parse_wiki
from links.rules.link_class import OwnHosts, classify_link
from tests.links.conftest import SharedRegistry
from tests.support.examples import examples
from tests.support.services.postgres import PostgresServer
from tests.support.services.registries import open_registry
from wiki.api.models import SiteFacts, WikiNamespace
from wiki.settings import WikiSettings
from wiki.sync.registration import WikiRegistration, farm_for, host_pattern, namespace_ids, put_wiki

SPACES = {
    0: WikiNamespace(0, "", ""),
    1: WikiNamespace(1, "Diskussion", "Talk"),
    4: WikiNamespace(4, "Hilfe:Projekt", "Project"),
    12: WikiNamespace(12, "Hilfe", "Help"),
    -1: WikiNamespace(-1, "Spezial", "Special"),
}


@pytest.fixture(scope="module")
def registry(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> SharedRegistry:
    """Return the registry on PostgreSQL that this module's tests use one after another."""
    return SharedRegistry(postgres, tmp_path_factory.mktemp("registry"))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RegistryStore]:
    """Yield an empty registry, on either database."""
    is_shared = request.param == "postgresql"
    url = request.getfixturevalue("registry").empty() if is_shared else ""
    opened = open_registry(Layout(tmp_path), url)
    yield opened
    opened.close()


def _facts(server: str = "https://wiki.example.org", dbname: str = "my_wiki") -> SiteFacts:
    return SiteFacts(dbname, "A wiki", (1, 39), "de", server, f"{server}/wiki/$1", SPACES)


def _put(store: RegistryStore, address: str = "https://wiki.example.org/w/api.php", **more: Any) -> Any:
    given = {"facts": _facts(), **more}
    with store.writing() as connection:
        return put_wiki(connection, WikiRegistration(address, **given), day=3)


def _page(number: int, *urls: str) -> PutPage:
    return PutPage(PageName(number, f"P {number}", 0), tuple(map(classify_link, urls)))


def test_a_new_wiki_gets_a_farm_named_after_its_host(store: RegistryStore) -> None:
    """A small wiki's operator need not know what a farm is; its own links are its own."""
    wiki = _put(store)
    assert str(wiki.name) == "my_wiki@wiki.example.org"
    assert (wiki.url, wiki.pages_url) == ("https://wiki.example.org/w/api.php", "https://wiki.example.org/wiki/$1")
    with store.reading() as connection:
        farm = find_farm(connection, "wiki.example.org")
    assert farm is not None
    assert farm.address == "https://wiki.example.org"
    assert OwnHosts(farm.internal).has("wiki.example.org")
    assert not OwnHosts(farm.internal).has("wikiXexample.org.evil.example")


def test_a_wiki_of_a_known_farm_joins_it(store: RegistryStore) -> None:
    """Wikimedia's are known from the beginning; another is named."""
    facts = _facts("https://de.wikipedia.org", "dewiki")
    first = _put(store, "https://de.wikipedia.org/w/api.php", facts=facts)
    second = _put(store, "https://b.example/api.php", farm="ours")
    third = _put(store, "https://c.example/api.php", facts=_facts("https://c.example"), name="c@ours")
    assert [str(each.name) for each in (first, second, third)] == [*("dewiki@WMF", "my_wiki@ours", "c@ours")]


def test_said_again_what_is_given_changes_and_the_rest_stays(store: RegistryStore) -> None:
    """Also the keys that others keep in the settings."""
    _put(store, feed={"grace_h": 24, "categories": ("A",)})
    with store.writing() as connection:
        (wiki,) = all_wikis(connection)
        wiki_settings = {"is_private": True, "feed": {"grace_h": 24, "categories": ["A"]}}
        change_wiki(connection, wiki, settings=wiki_settings)
    again = _put(store, feed={"archive": False, "categories": (), "grace_h": None})
    assert again.id == wiki.id
    feed = WikiSettings.parse(again.settings).feed
    assert (feed.grace_h, feed.categories, feed.archive) == (24, (), False)
    assert '"is_private": true' in again.settings


def test_a_wiki_that_renames_itself_keeps_its_name_here(store: RegistryStore) -> None:
    """Its pages are the same: the address tells it, with https or without."""
    first = _put(store)
    renamed = _put(store, "http://wiki.example.org/w/api.php", facts=_facts(dbname="new_name"))
    assert (renamed.id, renamed.name) == (first.id, first.name)
    with store.reading() as connection:
        assert len(all_wikis(connection)) == 1


@pytest.mark.parametrize(
    "more", [{"name": "other@wiki.example.org"}, {"name": "my_wiki@WMF"}, {"farm": "ours"}, {"name": "b"}], ids=str
)
def test_a_wiki_has_one_name(store: RegistryStore, more: dict[str, str]) -> None:
    """Under two its pages would be observed twice; its own may be said again."""
    _put(store)
    with pytest.raises(InputError, match="known as my_wiki@wiki"):
        _put(store, **more)
    _put(store, name="my_wiki@wiki.example.org", farm="wiki.example.org")
    _put(store, name="my_wiki")
    with store.reading() as connection:
        assert len(all_wikis(connection)) == 1


def test_a_wiki_that_was_imported_gets_its_address(store: RegistryStore) -> None:
    """The registry may know its pages from a dump, and not where it is."""
    with store.writing() as connection:
        before = ensure_wiki(connection, parse_wiki("dewiki@WMF"), day=1)
    facts = _facts("https://de.wikipedia.org", "dewiki")
    assert _put(store, "https://de.wikipedia.org/w/api.php", facts=facts).id == before.id


def test_two_wikis_of_one_name_are_told_apart(store: RegistryStore) -> None:
    """Many wikis are called my_wiki, also on one host."""
    _put(store)
    with pytest.raises(InputError, match="--name"):
        _put(store, "https://wiki.example.org/other/api.php")
    other = _put(store, "https://wiki.example.org/other/api.php", name="other@wiki.example.org")
    assert str(other.name) == "other@wiki.example.org"


def test_what_cannot_be_used_changes_nothing(store: RegistryStore) -> None:
    """All of it is one transaction."""
    with pytest.raises(ConfigError):
        _put(store, feed={"batch": -1})
    with pytest.raises(ConfigError, match="--password-file"):
        _put(store, feed={"account": "A@b"})
    with pytest.raises(InputError):
        _put(store, name="a b@c")
    with store.reading() as connection:
        assert all_wikis(connection) == []
        assert [farm.name for farm in all_farms(connection)] == ["wmflabs", "WMF"]


def test_pages_and_links_are_counted_up_to_a_limit(store: RegistryStore) -> None:
    """Of one wiki, without those that are gone."""
    wiki = _put(store)
    other = _put(store, "https://c.example/api.php", facts=_facts("https://c.example"))
    urls = [f"https://x{each}.museum/" for each in range(4)]
    pages = [_page(number, *urls[:number]) for number in range(1, 5)]
    with store.writing() as connection:
        put_pages(connection, wiki.id, pages, day=3)
        put_pages(connection, other.id, pages[:1], day=3)
        put_pages(connection, wiki.id, [_page(4, urls[0])], day=4)
    with store.reading() as connection:
        assert count_contents(connection, wiki.id, limit=100) == {"pages": 4, "links": 1 + 2 + 3 + 1}
        assert count_contents(connection, other.id, limit=100)["links"] == 1
        assert count_contents(connection, wiki.id, limit=3) == {"pages": 3, "links": 3}


@pytest.mark.parametrize(
    ("words", "numbers"),
    [(["0"], (0,)), (["main", "Help", "hilfe", "HILFE:"], (0, 12)), (["Talk", "4"], (1, 4)), (["  Hilfe  "], (12,))],
)
def test_namespaces_are_named_by_number_or_in_either_language(words: list[str], numbers: tuple[int, ...]) -> None:
    """Each once."""
    assert namespace_ids(words, SPACES) == numbers


@pytest.mark.parametrize("word", ["Hlep", "2", "-1", "Special", "99999999999", "²", ""])
def test_a_namespace_that_the_wiki_does_not_have_is_told(word: str) -> None:
    """With those that it has."""
    with pytest.raises(InputError, match="12 Hilfe"):
        namespace_ids([word], SPACES)


@given(st.from_regex(r"[a-z0-9-]{1,20}(\.[a-z0-9-]{1,20}){0,4}|\[[0-9a-f:]{2,30}\]", fullmatch=True))
@settings(max_examples=examples(30))
def test_any_host_has_a_farm_and_is_its_own(host: str) -> None:
    """Whatever it is called: the farm's name is one, and its expression is found in that host alone."""
    name = farm_for(host, [])
    if name[:1].isalnum():
        assert parse_wiki(f"a@{name}").farm == name
    assert OwnHosts(host_pattern(host)).has(host)
    assert not OwnHosts(host_pattern(host)).has(f"x{host}")
    assert farm_for(host, [WikiFarm(1, "b", "", "("), WikiFarm(2, "c", "", host_pattern(host))]) == "c"
