"""Wikis of other versions of MediaWiki: the oldest that is promised, and a later one (W49, A01, B01, B10)."""

from collections.abc import Iterator

import pytest

from links.states import LinkState
from tests.support.bot_harness import BotHarness
from tests.support.sites.mediawiki import RunningWiki, running_wiki
from tests.support.sites.versions import OTHERS, MediaWikiVersion
from tests.support.wiki_writer import BOT, BOT_SECRET, WikiWriter
from tests.wiki.api.conftest import ApiAt, api_at, pauses
from tests.wiki.bot.conftest import harness
from tests.wiki.sync.conftest import FedRegistry, fed
from wiki.api.credentials import WikiCredentials
from wiki.api.page_query import read_pages
from wiki.api.site_info import read_site_facts
from wiki.bot.page_edit import PageEditStatus

__all__ = ["api_at", "fed", "harness", "pauses"]  # fixtures

pytestmark = pytest.mark.slow
URL = "https://gone.example.org/a"
PAGE = f"A fact.<ref>{{{{cite web|url={URL}|title=A|access-date=2025-03-11}}}}</ref>\n\nMore."


@pytest.fixture(scope="module", params=OTHERS, ids=str)
def version(request: pytest.FixtureRequest) -> MediaWikiVersion:
    version: MediaWikiVersion = request.param
    return version


@pytest.fixture(scope="module")
def wiki(version: MediaWikiVersion) -> Iterator[RunningWiki]:
    """Yield a wiki of that version, for all tests of this module."""
    with running_wiki(server="self", version=version) as running:
        yield running


async def test_a_wiki_is_known_and_logged_in_to(
    wiki: RunningWiki, version: MediaWikiVersion, api_at: ApiAt, writer: WikiWriter, bot_name: str
) -> None:
    """It describes itself, a bot password gives its account's rights, and pages are read whole."""
    page_id, _ = writer.write("Whole", "x [[Category:Odd]] {{Odd}}")
    async with api_at(wiki.api(), WikiCredentials(bot_name, BOT_SECRET)) as api:
        facts = await read_site_facts(api)
        document = await api.get(action="query", meta="userinfo")
        assert await api.has_right("apihighlimits")
        (page,) = await read_pages(api, page_ids=[page_id], with_categories=True, with_templates=True)
    assert page.text == "x [[Category:Odd]] {{Odd}}"
    assert (page.categories, page.templates) == (("Category:Odd",), ("Template:Odd",))
    assert ".".join(map(str, facts.version[:2])) == version.number
    assert document["query"]["userinfo"]["name"] == BOT
    assert facts.interwikis.urls([("doi", "10.1/x")])


def test_a_page_has_the_same_links_whatever_the_wikis_table_makes_of_them(fed: FedRegistry, writer: WikiWriter) -> None:
    """MediaWiki 1.41 and later keep links in a normal form: hosts in small letters, slashes, a scheme."""
    page_id, _ = writer.write(
        "Forms",
        "[https://FORMS.net x] [//plain.net/a x] [http://user@port.net:8080/x x] "
        "[https://bücher.net/ü x] [http://[2A00:1450::1]/x x] [https://query.net?x=1 x]",
    )
    fed.rounds(sweeps=False)
    assert fed.links(page_id) == [
        "http://[2a00:1450::1]/x",
        "http://port.net:8080/x",
        "https://forms.net/",
        "https://plain.net/a",
        "https://query.net/?x=1",
        "https://xn--bcher-kva.net/%C3%BC",
    ]


def test_what_changes_is_followed(fed: FedRegistry, writer: WikiWriter) -> None:
    """Saved, edited, moved, deleted and restored pages come from recent changes."""
    page_id, _ = writer.write("Followed", "[https://followed.net/a x] https://followed.net/b")
    fed.rounds(sweeps=False)
    assert sorted(fed.taken(page_id)) == ["https://followed.net/a", "https://followed.net/b"]
    writer.write("Followed", "https://followed.net/b https://followed.net/c")
    writer.move("Followed", "Found")
    fed.rounds(sweeps=False)
    assert fed.title(page_id) == "Found"
    assert fed.links(page_id) == ["https://followed.net/b", "https://followed.net/c"]
    writer.delete("Found")
    fed.rounds(sweeps=False)
    assert fed.title(page_id) is None
    writer.restore("Found")
    fed.rounds(sweeps=False)
    assert fed.links(page_id) == ["https://followed.net/b", "https://followed.net/c"]


def test_a_sweep_reads_every_page(writer: WikiWriter, request: pytest.FixtureRequest) -> None:
    """Pages that were written before the feed began are found, too."""
    numbers = [writer.write(f"Swept {n}", f"https://swept.net/{n}")[0] for n in range(3)]
    fed: FedRegistry = request.getfixturevalue("fed")
    fed.rounds()
    assert [fed.links(each) for each in numbers] == [[f"https://swept.net/{n}"] for n in range(3)]


async def test_the_bot_mends_and_keeps_what_was_written_in_between(harness: BotHarness) -> None:
    """An edit conflict is one in every version: the other's words and the repair both stand there."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    copy = harness.give_copy(URL)
    once = iter([True])

    def write(step: str) -> None:
        if step == "intended" and next(once, False):
            harness.writer.write(title, PAGE.replace("title=A", "title=Better"))

    harness.step = write
    tally, _ = await harness.run()

    assert tally.did == {PageEditStatus.EDITED: 1}
    assert "title=Better" in harness.text(title)
    assert f"archive-url={copy}" in harness.text(title)


async def test_the_bot_leaves_pages_that_want_no_bots(harness: BotHarness) -> None:
    """{{nobots}} is the wiki's text, not its version's."""
    title, _ = harness.page("{{nobots}}" + PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    tally, _ = await harness.run(title)
    assert tally.did == {PageEditStatus.FORBIDDEN: 1}
    assert len(harness.revisions(title)) == 1


async def test_the_bot_notices_who_takes_its_edit_back(harness: BotHarness) -> None:
    """Tags for reverted edits came with 1.36: without them the texts tell."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    await harness.run(title)
    harness.writer.act(action="edit", title=title, undo=harness.edits()[0].rev)
    tally, _ = await harness.run(title)
    assert (tally.undone, tally.did) == (1, {PageEditStatus.HELD: 1})
