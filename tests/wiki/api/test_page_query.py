"""Pages as they are now, lists of them, and a page's history."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import BodyTooLargeError
from tests.support.sites.mediawiki import ADMIN, RunningWiki
from tests.support.wiki_proxy import ProxiedResponse, WikiProxy
from tests.support.wiki_writer import WikiWriter
from tests.wiki.api.conftest import ApiAt
from wiki.api.models import WikiAwayError
from wiki.api.page_query import (
    REVISIONS_AT_ONCE,
    first_revision_with,
    has_url,
    missing_titles,
    read_pages,
    read_revisions,
    read_texts,
    spread_evenly,
    unknown_names,
)
from wiki.api.site_info import read_site_facts
from wiki.api.wikidata import WikibaseRepository
from wiki.settings import FeedSettings
from wiki.sync.wiki_source import WikiSource

slow = pytest.mark.slow
ALL: dict[str, Any] = {"with_categories": True, "with_templates": True}


@pytest.mark.slow
async def test_titles_without_a_page_are_told(proxy: WikiProxy, api_at: ApiAt, writer: WikiWriter) -> None:
    """As they were given; other wikis' and invalid ones are no pages that are missing here."""
    writer.write("Pg there", "x")
    titles = ["pg there", "Pg_there", "pg gone", "Pg_gone", "wikipedia:Foo", "Special:Version", "<bad>"]
    many = [f"Pg number {number}" for number in range(60)]
    async with api_at(proxy.api) as api:
        assert await missing_titles(api, titles) == {"pg gone", "Pg_gone"}
        assert await missing_titles(api, [*many, "Pg there"]) == set(many)


@slow
async def test_a_page_is_read_whole(proxy: WikiProxy, api_at: ApiAt, writer: WikiWriter) -> None:
    """Links in the table's form, interwikis, categories, templates, text, and its newest revision."""
    writer.write("Template:Pg", "[https://example.com/t t]")
    page, rev = writer.write(
        "Pg whole",
        "{{Pg}} [https://example.com/a?b=1&c=2 a] //plain [//example.org/ rel] [[doi:10.1/x|y]] "
        "[[wikipedia:Foo]] [[Category:Pg cat]] <nowiki>https://no.example/</nowiki>",
    )
    async with api_at(proxy.api) as api:
        (full_page,) = await read_pages(api, page_ids=[page], **ALL)
        (bare,) = await read_pages(api, titles=["pg_whole"])
    assert (full_page.page_id, full_page.title, full_page.rev_id) == (page, "Pg whole", rev)
    links = [re.sub("^https:(?=//example.org/)", "", each) for each in full_page.links]  # complete since MediaWiki 1.40
    assert sorted(links) == ["//example.org/", "https://example.com/a?b=1&c=2", "https://example.com/t"]
    assert sorted(full_page.interwiki_links) == [("doi", "10.1/x"), ("wikipedia", "Foo")]
    assert full_page.categories == ("Category:Pg cat",)
    assert full_page.templates == ("Template:Pg",)
    assert full_page.text is not None
    assert full_page.text.startswith("{{Pg}}")
    assert full_page.touched is not None
    assert (bare.page_id, bare.categories, bare.templates, bare.text) == (page, None, None, full_page.text)
    assert bare.links == full_page.links


@slow
async def test_answers_come_in_the_order_of_the_question_one_each(
    proxy: WikiProxy, api_at: ApiAt, writer: WikiWriter
) -> None:
    """Missing, invalid, of other wikis, special, twice, and written in other ways."""
    writer.write("Pg order", "x")
    writer.write("Pg redirect", "#REDIRECT [[Pg order]] [https://example.com/r r]")
    titles = [
        *("pg order", "Pg nowhere", "<bad>", "wikipedia:Foo", "Special:Version", "Pg|bar"),
        *("Pg_order", "Pg redirect", "pg order", " "),
    ]
    async with api_at(proxy.api) as api:
        pages = await read_pages(api, titles=titles)
        by_id = await read_pages(api, page_ids=[999_999, 1, 999_999])
    here = [each.page_id for each in pages]
    assert len(pages) == len(titles)
    assert here[0] == here[6] == here[8] > 0
    assert [each.is_missing for each in pages] == [bool(not each) for each in here]
    assert [titles[place] for place, number in enumerate(here) if number] == [
        *("pg order", "Pg_order", "Pg redirect", "pg order")
    ]
    assert (pages[7].is_redirect, pages[7].links) == (True, ("https://example.com/r",))
    assert [(each.page_id, each.is_missing) for each in by_id] == [*((999_999, True), (1, False), (999_999, True))]


@slow
async def test_links_of_many_pages_are_whole_however_they_are_doled_out(
    proxy: WikiProxy, api_at: ApiAt, writer: WikiWriter
) -> None:
    """Each answer has a few of some pages' properties; small limits make many answers."""
    links = {}
    for number in range(7):
        urls = [f"https://many{each}.example/{number}" for each in range(number * 3)]
        cats = " ".join(f"[[Category:Many {each}]]" for each in range(number))
        page, _ = writer.write(f"Pg many {number}", f"{' '.join(urls)} {cats} [[wikipedia:M{number}]]")
        links[page] = urls, number

    proxy.override.update(ellimit="4", iwlimit="2", cllimit="3")
    async with api_at(proxy.api) as api:
        pages = await read_pages(api, page_ids=list(links), with_categories=True)
    assert len(proxy.requests) > 10
    for each in pages:
        urls, number = links[each.page_id]
        assert sorted(each.links) == sorted(urls)
        assert each.categories is not None
        assert len(each.categories) == number
        assert each.interwiki_links == (("wikipedia", f"M{number}"),)
        assert each.text


@slow
async def test_fifty_pages_are_read_at_once(proxy: WikiProxy, api_at: ApiAt) -> None:
    """With text the size of an answer is the limit."""
    async with api_at(proxy.api) as api:
        assert len(await read_pages(api, page_ids=list(range(1, 401)))) == 400
    batch_sizes = {each.params["pageids"].count("|") + 1 for each in proxy.requests}
    assert batch_sizes == {50}


@slow
async def test_a_page_of_two_megabytes_is_read(proxy: WikiProxy, api_at: ApiAt, writer: WikiWriter) -> None:
    """And when the whole batch is more than an answer may be, it is halved; one page that is, is told."""
    text = "ü " * 600_000 + "[https://example.com/end e]"
    page, _ = writer.write("Pg large", text)
    small, _ = writer.write("Pg small", "small")
    async with api_at(proxy.api) as api:
        (large_page,) = await read_pages(api, page_ids=[page])
        assert large_page.text == text
        assert large_page.links == ("https://example.com/end",)
    async with api_at(proxy.api, limit_bytes=1_000_000) as api:
        with pytest.raises(BodyTooLargeError):
            await read_pages(api, page_ids=[small, page])
    batches = [each.params["pageids"] for each in proxy.requests]
    assert batches[-3:] == [f"{small}|{page}", str(small), str(page)]


@slow
async def test_the_first_format_is_read_as_well(proxy: WikiProxy, api_at: ApiAt, writer: WikiWriter) -> None:
    """Some caches and gateways answer in format 1: pages by number, texts under *, flags that are empty."""
    page, rev = writer.write(
        "Pg format", "#REDIRECT [[Pg]] [https://example.com/f f] [[wikipedia:F]] [[Category:Pg f]]"
    )

    proxy.override["formatversion"] = "1"
    async with api_at(proxy.api) as api:
        redirect, gone = await read_pages(api, titles=["Pg format", "Pg no format"], **ALL)
        facts = await read_site_facts(api)
        again = await read_pages(api, page_ids=[page, 999_999])
    assert (redirect.links, redirect.interwiki_links) == (("https://example.com/f",), (("wikipedia", "F"),))
    assert redirect.text is not None
    assert redirect.text.startswith("#RED")
    assert (redirect.rev_id, redirect.is_redirect, redirect.is_missing) == (rev, True, False)
    assert (gone.is_missing, gone.is_redirect) == (True, False)
    assert [each.is_missing for each in again] == [False, True]
    assert facts.namespaces[14].name == "Category"
    assert len(facts.interwikis) > 20


@slow
@pytest.mark.parametrize(
    "pages", ["x", [5], [{"pageid": 1, "extlinks": "x"}], {"1": [1]}, [{"pageid": 1, "revisions": [1]}]], ids=str
)
async def test_pages_of_another_form_are_an_error(proxy: WikiProxy, api_at: ApiAt, pages: Any) -> None:
    """Nothing half understood comes back: a link that seems gone would be taken for gone."""
    proxy.script = lambda _: ProxiedResponse.of_json({"query": {"pages": pages}})
    async with api_at(proxy.api, attempts=1) as api:
        with pytest.raises(WikiAwayError):
            await read_pages(api, page_ids=[1])


@slow
async def test_all_pages_of_a_namespace_come_by_title_from_any_place_on(
    proxy: WikiProxy, api_at: ApiAt, writer: WikiWriter
) -> None:
    """B01: a sweep goes on where it stopped."""
    for name in ("Help talk:A b", "Help talk:B", "Help talk:C", "Help talk:Ü"):
        writer.write(name, "x")
    writer.write("Help talk:Bb", "#REDIRECT [[Help talk:B]]")
    async with api_at(proxy.api) as api:
        source = WikiSource(api, WikibaseRepository(api, lambda _address: api))
        whole, from_b = (await source.listing("namespace", "13"), await source.listing("namespace", "13", "B"))
        none = await source.listing("namespace", "2")
        proxy.override["aplimit"] = "2"
        first = await source.listing("namespace", "13")
        rest = await source.listing("namespace", "13", first.resume)
    titles = [page.title for page in whole.pages]
    assert titles == ["Help talk:A b", "Help talk:B", "Help talk:C", "Help talk:Ü"]
    assert whole.resume == none.resume == rest.resume == ""
    assert [page.title for page in from_b.pages] == titles[1:]
    assert none.pages == ()
    assert [page.title for page in (*first.pages, *rest.pages)] == titles


@slow
async def test_names_that_the_wiki_does_not_have_are_told(proxy: WikiProxy, api_at: ApiAt, writer: WikiWriter) -> None:
    """A misspelt exclusion would archive what nobody wanted; a category without a page is known."""
    writer.write("Pg spelt", "[[Category:Spelt right]]")
    writer.write("Template:Spelt", "x")
    feed = FeedSettings(
        categories=("Spelt right",),
        not_categories=("Category:Spelt wrong", "category:spelt right"),
        not_templates=("Spelt", "Misspelt", "Template:Spelt"),
    )
    async with api_at(proxy.api) as api:
        facts = await read_site_facts(api)
        unknown = await unknown_names(api, facts, feed)
    assert sorted(unknown) == ["Category:Spelt wrong", "Template:Misspelt"]


# History


@slow
async def test_revisions_come_newest_first_with_what_is_known_of_them(
    wiki: RunningWiki, proxy: WikiProxy, api_at: ApiAt, writer: WikiWriter
) -> None:
    """Hidden fields are empty, and hidden texts are omitted."""
    wiki.maintain("createAndPromote.php", "--force", "--custom-groups", "suppress", ADMIN)
    made = [writer.write("Pg history", f"text {number}") for number in range(4)]
    page = made[0][0]
    writer.act(action="revisiondelete", type="revision", ids=made[1][1], hide="content|comment|user")
    async with api_at(proxy.api) as api:
        revisions = [each async for each in read_revisions(api, page)]
        assert [each async for each in read_revisions(api, 999_999)] == []
        texts = await read_texts(api, [rev for _, rev in made])
    assert [each.rev_id for each in revisions] == [rev for _, rev in reversed(made)]
    assert [each.user for each in revisions] == ["Admin", "Admin", "", "Admin"]
    assert sorted(texts.values()) == ["text 0", "text 2", "text 3"]


@slow
async def test_the_revision_that_brought_a_url_is_found_in_few_questions(
    wiki: RunningWiki, proxy: WikiProxy, api_at: ApiAt
) -> None:
    """B06: without an access date, the day on which the link came."""
    made = "".join(
        f"<revision><timestamp>2020-01-01T00:{number:02}:00Z</timestamp><contributor><username>Admin"
        "</username></contributor><model>wikitext</model><format>text/x-wiki</format><text>text "
        f"{number}{' [https://example.com/came x]' if number >= 17 else ''}</text></revision>"
        for number in range(40)
    )
    title = "<page><title>Pg came</title><ns>0</ns><id>1</id>"
    wiki.maintain("importDump.php", text=f"<mediawiki>{title}{made}</page></mediawiki>")
    async with api_at(proxy.api) as api:
        (now,) = await read_pages(api, titles=["Pg came"])
        page = now.page_id
        proxy.requests.clear()
        revision = await first_revision_with(api, page, "https://example.com/came")
        request_count = len(proxy.requests)
        first = await first_revision_with(api, page, "text")
        assert await first_revision_with(api, page, "https://example.com/never") is None
        assert await first_revision_with(api, 999_999, "https://example.com/came") is None
    assert revision is not None
    assert revision.moment.minute == 17
    assert revision.user == "Admin"
    assert request_count <= 4
    assert first is not None
    assert first.moment.minute == 0


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_looking_back_ends_for_any_history(length: int, added: int) -> None:
    """Every step narrows the place, and the right one is found in few steps."""
    with_it, without = 0, length + 1
    added = min(added, length)
    steps = 0
    while between := spread_evenly(with_it, without):
        steps += 1
        for each in between:
            if each <= added:
                with_it = each
            else:
                without = each
                break
    assert with_it == added
    assert steps <= 5
    assert len(spread_evenly(0, length)) <= REVISIONS_AT_ONCE


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("[https://a.org/x?b=1&c=2 t]", True),
        ("[http://a.org/x?b=1&amp;c=2 t]", True),
        ("{{cite|url=//a.org/x?b=1&c=2#part}}", True),
        ("https://a.org/x?b=1", False),
    ],
)
def test_a_url_is_known_in_the_forms_in_which_people_write_it(text: str, has: bool) -> None:
    """Http or https, escaped or not."""
    assert has_url(text, "https://a.org/x?b=1&c=2") is has
