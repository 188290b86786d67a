"""Facts in wikitext about links are stored with them, from a real wiki's pages."""

import asyncio
from datetime import date

import pytest

from links.check_history import day_of, day_of_date
from links.registry.archive_backlog import current_links
from links.registry.citations import CitationFlag, CitationRow, citations_of, days_cited
from links.registry.pages import LinkRef, number_of
from links.registry.urls import urls_by_id
from tests.support.sites.mediawiki import RunningWiki
from tests.support.wiki_writer import WikiWriter
from tests.wiki.sync.conftest import FedRegistry
from wiki.api.client import ApiSettings, WikiApi
from wiki.sync.page_import import find_cited_day

pytestmark = pytest.mark.slow

TEXT = """Claim.<ref>{{cite web|url=https://cited.net/a|title=A|access-date=2020-02-03
|archive-url=https://web.archive.org/web/20200304050607/https://cited.net/a|archive-date=2020-03-04}}</ref>
Bare: https://cited.net/bare {{dead link|date=May 2021}}
"""


def _citations_on(fed: FedRegistry, page_id: int) -> dict[str, CitationRow]:
    number = number_of(fed.wiki.id, page_id)
    with fed.store.reading() as rows:
        citations = citations_of(rows, [number])
        urls = urls_by_id(rows, [link.url_id for link in citations])
    return {urls[link.url_id].url: row for link, row in citations.items()}


def test_what_a_citation_says_is_kept(fed: FedRegistry, writer: WikiWriter) -> None:
    """B03-B05: the template's access date and archive copy, the tag of a dead link, the reference."""
    writer.write("Template:Cite web", "[{{{url}}} {{{title}}}] [{{{archive-url|}}} copy]")
    writer.write("Template:Dead link", "dead")
    page_id, _ = writer.write("Cited", TEXT)
    fed.rounds(sweeps=False)

    citations = _citations_on(fed, page_id)

    cited, bare = citations["https://cited.net/a"], citations["https://cited.net/bare"]
    assert cited.access_day == day_of_date(date(2020, 2, 3))
    assert cited.archive_timestamp.startswith("20200304")
    assert CitationFlag.REFERENCE in cited.flags
    assert CitationFlag.DEAD in bare.flags
    assert bare.access_day is None


def test_a_link_without_access_date_was_cited_when_it_was_first_seen(fed: FedRegistry, writer: WikiWriter) -> None:
    """B06: without an access date the day counts on which the link was added."""
    page_id, _ = writer.write("Undated", "https://undated.net/")
    fed.rounds(sweeps=False)

    with fed.store.reading() as rows:
        days = days_cited(rows, number_of(fed.wiki.id, page_id))

    assert list(days.values()) == [day_of(fed.clock.now())]


def test_what_is_not_said_any_more_is_forgotten(fed: FedRegistry, writer: WikiWriter) -> None:
    """A page's citations are what its text says now."""
    writer.write("Template:Cite web", "[{{{url}}} {{{title}}}]")
    page_id, _ = writer.write("Changed", "{{cite web|url=https://x.net/|title=x|access-date=2020-02-03}}")
    fed.rounds(sweeps=False)
    writer.write("Changed", "https://x.net/")
    fed.rounds(sweeps=False)

    citations = _citations_on(fed, page_id)

    assert (citations["https://x.net/"].way, citations["https://x.net/"].access_day) == ("bare", None)


def test_the_history_tells_when_a_link_of_an_old_page_was_added(
    fed: FedRegistry, writer: WikiWriter, wiki: RunningWiki
) -> None:
    """B06: for a page that had its links before anybody looked the revision counts that added them."""
    writer.write("Template:Cite web", "[{{{url}}} {{{title}}}]")
    page_id, _ = writer.write("History", "Nothing.")
    writer.write("History", "https://old.net/ and https://dated.net/")
    writer.write("History", "https://old.net/ and {{cite web|url=https://dated.net/|access-date=2020-02-03}}")
    fed.clock.advance(days=40)
    fed.rounds(sweeps=False)
    page = number_of(fed.wiki.id, page_id)
    with fed.store.reading() as rows:
        links = {
            row.url: LinkRef(page, row.id)
            for row in urls_by_id(rows, [ref.url_id for ref in current_links(rows, [page])]).values()
        }

    async def dated(url: str) -> int | None:
        async with WikiApi(wiki.api(), settings=ApiSettings(gap_s=0)) as api:
            return await find_cited_day(api, fed.store, links[url], page_id)

    assert asyncio.run(dated("https://dated.net/")) == day_of_date(date(2020, 2, 3))
    old = asyncio.run(dated("https://old.net/"))
    assert old is not None
    assert old < day_of(fed.clock.now())
