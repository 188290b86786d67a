"""Messages of the bot on talk pages of a real MediaWiki (B16)."""

from datetime import timedelta

import pytest

from links.registry.bot_edits import EditKind, EditState
from links.states import LinkState
from tests.support.bot_harness import BotHarness
from wiki.bot.page_edit import PageEditStatus
from wiki.bot.wikitext_adapter import url_key_or_empty

pytestmark = pytest.mark.slow
URL = "https://gone.example.org/a"
OTHER = "https://gone.example.org/b"
CITE = f"{{{{cite web|url={URL}|title=A|access-date=2025-03-11}}}}"
PAGE = f"A fact.<ref>{CITE}</ref>\n\nMore."


async def test_by_default_nobody_is_told(harness: BotHarness) -> None:
    """Messages are noise unless a wiki wants them."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)

    tally, _ = await harness.run(title)

    assert tally.messages == 0
    assert [edit.kind for edit in harness.edits()] == [EditKind.PAGE]


async def test_a_message_beside_an_edit_says_what_was_done(harness: BotHarness) -> None:
    """One section, signed, with the link, its copy and the run's name."""
    harness.set(talk="beside")
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    copy = harness.give_copy(URL)

    tally, _ = await harness.run(title)

    talk = harness.text(f"Talk:{title}")
    assert (tally.did, tally.messages) == ({PageEditStatus.EDITED: 1}, 1)
    assert talk.startswith("== ")
    assert URL in talk
    assert copy in talk
    assert "[[User:Repairer" in talk
    assert harness.edits()[0].job in talk
    assert (harness.edits()[0].kind, harness.edits()[0].state) == (EditKind.TALK, EditState.MADE)


async def test_a_message_in_place_of_an_edit_leaves_the_page_alone(harness: BotHarness) -> None:
    """The page is not edited, and the same is not proposed twice."""
    harness.set(talk="only")
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)

    first, _ = await harness.run(title)
    await harness.clock.sleep(timedelta(days=40).total_seconds())
    harness.turn(URL, LinkState.DEAD)
    second, _ = await harness.run(title)

    assert (first.messages, second.messages) == (1, 0)
    assert harness.text(title) == PAGE
    assert harness.text(f"Talk:{title}").count("== ") == 1


async def test_a_page_is_told_once_in_thirty_days(harness: BotHarness) -> None:
    """Something new waits until then."""
    harness.set(talk="beside")
    title, page_id = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    await harness.run(title)
    harness.writer.write(title, harness.text(title) + CITE.replace(URL, OTHER))
    harness.know(title, page_id, {URL: LinkState.DEAD, OTHER: LinkState.DEAD})
    harness.give_copy(OTHER)

    soon, _ = await harness.run(title)
    talk = harness.text(f"Talk:{title}")

    assert (soon.did, soon.messages) == ({PageEditStatus.EDITED: 1}, 0)
    assert OTHER not in talk


async def test_a_talk_page_that_wants_no_messages_gets_none(harness: BotHarness) -> None:
    """The page itself is mended all the same."""
    opt_out = "{{bots|optout=all}}"
    harness.set(talk="beside")
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    harness.writer.write(f"Talk:{title}", opt_out)

    tally, _ = await harness.run(title)

    assert (tally.did, tally.messages) == ({PageEditStatus.EDITED: 1}, 0)
    assert harness.text(f"Talk:{title}") == opt_out


async def test_a_hostile_url_breaks_no_talk_page(harness: BotHarness) -> None:
    """Wikitext in a URL has no effect in the message."""
    harness.set(talk="beside")
    url = "https://gone.example.org/x?a={{PAGENAME}}&b=~~~~".replace("{{", "%7B%7B").replace("}}", "%7D%7D")
    title, _ = harness.page(PAGE.replace(URL, url), {})
    page_id = harness.writer.ask(action="query", titles=title)["query"]["pages"][0]["pageid"]
    harness.know(title, page_id, {url_key_or_empty(url): LinkState.DEAD})
    harness.give_copy(url_key_or_empty(url))

    await harness.run(title)

    talk = harness.text(f"Talk:{title}")
    assert talk.count("[[User:Repairer") == 1
