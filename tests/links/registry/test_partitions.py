"""The statements of the documents that cut the largest table into parts, on a real PostgreSQL."""

import re
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from core.layout import Layout
from links.registry.database import open_registry_store
from links.registry.lookups import page_facts
from links.registry.pages import put_pages
from links.registry.retention import purge
from links.registry.urls import find_urls
from links.registry.wikis import ensure_wiki, parse_wiki
from tests.links.registry.conftest import page

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "reference" / "registry.md"


@pytest.mark.slow
def test_a_registry_in_parts_works_as_before(database_url: str, tmp_path: Path) -> None:
    """Known rows stay, URLs are written once, the view exists, old rows are purged."""
    match = re.search(r"```sql\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    spelled = [f"https://h{number}.net/{number}" for number in range(60)]
    with closing(open_registry_store(Layout(tmp_path), database_url)) as store:
        with store.writing() as rows:
            wiki = ensure_wiki(rows, parse_wiki("dewiki"), day=0)
            put_pages(rows, wiki.id, [page(7, *spelled[:30])], day=100)
        with store.writing() as rows:
            driver = rows.connection.driver_connection
            assert driver is not None
            driver.execute(match[1])  # as psql would send it

        with store.writing() as rows:
            put_pages(rows, wiki.id, [page(8, *spelled)], day=101)
            put_pages(rows, wiki.id, [page(7)], day=101)
        with store.snapshot() as reader:
            facts = page_facts(reader, wiki.id, [8], day=101)[8]
        assert {link.facts.row.url for link in facts.links} == set(spelled)
        with store.reading() as rows:
            parts = rows.execute(text("SELECT count(DISTINCT tableoid) FROM link_urls")).scalar_one()
            shown = rows.execute(text("SELECT count(*) FROM link_externallinks")).scalar_one()
            urls = rows.execute(text("SELECT count(*) FROM link_urls")).scalar_one()
        assert parts > 5
        assert (shown, urls) == (60, 60)
        with store.writing() as rows:
            put_pages(rows, wiki.id, [page(8, *spelled[:10])], day=300)
        assert purge(store, day=300).urls == 0
        assert purge(store, day=401).urls == 50
        with store.snapshot() as reader:
            assert len(find_urls(reader, spelled)) == 10
