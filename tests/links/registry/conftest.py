"""Pages and links for the tests of the registry's books."""

from collections.abc import Callable

import pytest

from links.registry.database import RegistryStore
from links.registry.pages import PageName, PutPage, WrittenLinks, put_pages
from links.registry.wikis import Wiki, ensure_wiki, parse_wiki
from links.rules.link_class import classify_link

Putting = Callable[..., WrittenLinks]


@pytest.fixture
def wiki(store: RegistryStore) -> Wiki:
    """Return a wiki of the default farm."""
    with store.writing() as rows:
        return ensure_wiki(rows, parse_wiki("dewiki"), day=0)


def page(page_id: int, *urls: str, title: str = "") -> PutPage:
    """Return a page with these links."""
    links = tuple(classify_link(url) for url in urls)
    return PutPage(PageName(page_id, title or f"Page {page_id}"), links)


@pytest.fixture
def put(store: RegistryStore, wiki: Wiki) -> Putting:
    """Return a function that puts a page of the wiki: `put(7, "https://a.net/", day=3)`."""

    def one_page(page_id: int, *urls: str, day: int, title: str = "") -> WrittenLinks:
        with store.writing() as rows:
            return put_pages(rows, wiki.id, [page(page_id, *urls, title=title)], day=day)

    return one_page
