"""The bot on a real MediaWiki: what it edits, and what it leaves alone."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

import pytest

from core.errors import InputError
from links.archives.archive_answers import ArchiveMemento
from links.archives.copy_check import CopyVerdict
from links.archives.copy_store import put_versions
from links.check_result import StatusCode
from links.registry.bot_edits import BotBusyError, EditState, take_edit_lock
from links.registry.urls import find_urls
from links.states import LinkState
from tests.support.bot_harness import STAMP, BotHarness
from tests.support.wiki_writer import BOT, BOT_SECRET, WikiWriter
from wiki.api.edit_request import EditingStoppedError
from wiki.bot import wiki_bot
from wiki.bot.page_edit import EditContext, EditTask, PageEditResult, PageEditStatus, edit_page

pytestmark = pytest.mark.slow
URL = "https://gone.example.org/a"
PAGE = f"A fact.<ref>{{{{cite web|url={URL}|title=A|access-date=2025-03-11}}}}</ref>\n\nMore."
RUN_PAGE = "User:Repairer/Run"


async def test_a_dead_citation_gets_its_copy(harness: BotHarness) -> None:
    """The archive's address, its date and the status are put in; nothing else changes."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    copy = harness.give_copy(URL)

    tally, _ = await harness.run()

    assert tally.did[PageEditStatus.EDITED] == 1
    text = harness.text(title)
    assert f"|archive-url={copy}" in text
    assert "|archive-date=2025-03-10" in text
    assert text.startswith("A fact.<ref>{{cite web|url=" + URL)
    assert text.endswith("}}</ref>\n\nMore.")
    newest = harness.revisions(title)[0]
    assert newest["user"] == BOT
    assert newest["minor"]
    assert harness.edits()[0].state is EditState.MADE
    assert harness.edits()[0].rev == newest["revid"]
    assert harness.edits()[0].job in newest["comment"]


async def test_each_page_gets_the_version_of_its_own_day(harness: BotHarness) -> None:
    """B06: the registry keeps a version for each day on which the link is cited."""
    first, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    later, _ = harness.page(PAGE.replace("2025-03-11", "2026-02-01"), {URL: LinkState.DEAD})
    copy = harness.give_copy(URL)
    newer = copy.replace("/2025", "/2026", 1).replace("/20260310", "/20260120")
    with harness.store.writing() as rows:
        number = find_urls(rows, [URL])[URL].id
        put_versions(rows, number, [ArchiveMemento("wayback", newer, "20260120000000", 200)], 3_000)

    await harness.run()

    assert f"|archive-url={copy}" in harness.text(first)
    assert f"|archive-url={newer}" in harness.text(later)


async def test_a_second_run_has_nothing_to_do(harness: BotHarness) -> None:
    """A repaired page is not read again until it changes or what is known of its links changes."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    await harness.run()

    second, _ = await harness.run()
    third, _ = await harness.run()

    assert second.did == {PageEditStatus.NOTHING: 1}
    assert (third.skipped, third.did) == (1, {})
    assert len(harness.revisions(title)) == 2


async def test_only_what_is_confirmed_dead_is_mended(harness: BotHarness) -> None:
    """A link that may work is left as it is."""
    title, _ = harness.page(PAGE, {URL: LinkState.DYING})
    harness.give_copy(URL)

    tally, _ = await harness.run(title)

    assert tally.did == {}
    assert len(harness.revisions(title)) == 1


async def test_a_dry_run_shows_and_writes_nothing(harness: BotHarness) -> None:
    """Even a bot that is switched off shows what it would do; neither wiki nor book have it."""
    harness.set(enabled=False)
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)

    tally, page_edits = await harness.run(is_dry=True)

    assert tally.did == {PageEditStatus.PROPOSED: 1}
    assert isinstance(page_edits[0], PageEditResult)
    diff = page_edits[0].diff()
    assert [line[0] for line in diff if not line.startswith(("---", "+++", "@@"))] == ["-", "+", " "]
    assert (len(harness.revisions(title)), harness.edits()) == (1, [])


async def test_a_bot_that_is_off_edits_nothing(harness: BotHarness) -> None:
    """Nothing happens by default, and the message tells how it would."""
    harness.set(enabled=False)
    harness.page(PAGE, {URL: LinkState.DEAD})

    with pytest.raises(InputError, match="weboid wiki bot on"):
        await harness.run()


async def test_switching_off_stops_a_run_at_the_next_batch(harness: BotHarness) -> None:
    """The settings are read again before each batch of pages (B01)."""
    harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    async with harness.bot() as bot:
        harness.set(enabled=False)
        with pytest.raises(InputError, match="off"):
            await bot.run()


async def test_a_page_that_wants_no_bots_is_left_alone(harness: BotHarness) -> None:
    """{{bots}} and {{nobots}} are obeyed, and so is who is at work on a page."""
    templates = ["{{nobots}}", "{{bots|deny=Repairer}}", "{{bots|allow=none}}", "{{in use}}"]
    titles = [harness.page(each + PAGE, {URL: LinkState.DEAD})[0] for each in templates]
    harness.give_copy(URL)

    tally, _ = await harness.run()

    assert tally.did == {PageEditStatus.FORBIDDEN: 4}
    assert [len(harness.revisions(title)) for title in titles] == [1, 1, 1, 1]


async def test_a_run_page_that_says_no_stops_everything(harness: BotHarness) -> None:
    """Missing, or without a yes in its first line: nothing is edited."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    harness.set(run_page=RUN_PAGE + " first")

    with pytest.raises(EditingStoppedError, match="missing"):
        await harness.run()
    harness.writer.write(RUN_PAGE + " first", "<!-- yes --> no")
    with pytest.raises(EditingStoppedError, match="does not say"):
        await harness.run()
    assert len(harness.revisions(title)) == 1
    harness.writer.write(RUN_PAGE + " first", "<!-- no --> Yes\n\nThe bot runs.")
    tally, _ = await harness.run()
    assert tally.did == {PageEditStatus.EDITED: 1}


async def test_a_run_page_that_changes_stops_a_run(harness: BotHarness) -> None:
    """A no is obeyed in the middle of a run, half a minute later at most."""
    harness.writer.write(RUN_PAGE, "yes")
    harness.set(run_page=RUN_PAGE, edits_per_minute=1.0)
    titles = [harness.page(PAGE, {URL: LinkState.DEAD})[0] for _ in range(2)]
    harness.give_copy(URL)

    def stop(step: str) -> None:
        if step == "booked":
            harness.writer.write(RUN_PAGE, "no")

    harness.step = stop
    with pytest.raises(EditingStoppedError, match="does not say"):
        await harness.run()
    assert sorted(len(harness.revisions(title)) for title in titles) == [1, 2]


async def test_edits_are_no_faster_than_allowed(harness: BotHarness) -> None:
    """Between two edits passes what the settings say, over runs, too."""
    harness.set(edits_per_minute=2.0)
    for _ in range(3):
        harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)

    await harness.run(limit=2)
    await harness.run()

    moments = [each.moment for each in reversed(harness.edits()) if each.rev is not None]
    assert len(moments) == 3
    assert all(after - before >= 29 for before, after in pairwise(moments))
    assert all(0 < each <= 30 for each in harness.slept)


async def test_a_message_to_the_bot_stops_it(harness: BotHarness) -> None:
    """Whoever writes on its talk page is heard first, unless the settings say otherwise."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    harness.writer.write(f"User talk:{BOT}", "Stop!", section="new")

    with pytest.raises(EditingStoppedError, match="talk page"):
        await harness.run()
    assert len(harness.revisions(title)) == 1
    harness.set(stop_on_messages=False)
    tally, _ = await harness.run()
    assert tally.did == {PageEditStatus.EDITED: 1}
    clear_messages(harness)


def clear_messages(harness: BotHarness) -> None:
    WikiWriter(harness.writer.api, name=harness.login, password=BOT_SECRET).act(action="clearhasmsg")


async def test_a_protected_page_is_refused_and_others_go_on(harness: BotHarness) -> None:
    """A refusal is about its page; it is not asked again until the page changes or a week is over."""
    first, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    second, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    protect(harness, first)
    tally, _ = await harness.run()
    again, _ = await harness.run()

    assert tally.did == {PageEditStatus.REFUSED: 1, PageEditStatus.EDITED: 1}
    assert harness.edits()[-1].state is EditState.FAILED
    assert "protected" in harness.edits()[-1].note
    assert again.skipped == 1
    assert (len(harness.revisions(second)), harness.text(first)) == (2, PAGE)


def protect(harness: BotHarness, title: str) -> None:
    harness.writer.act(action="protect", title=title, protections="edit=sysop", expiry="infinite")


@pytest.fixture
def blocked(harness: BotHarness) -> Iterator[None]:
    """Block the bot for a test."""
    harness.writer.act(action="block", user=BOT, reason="edits wildly", expiry="infinite")
    yield
    harness.writer.act(action="unblock", user=BOT)


@pytest.mark.usefixtures("blocked")
async def test_a_blocked_account_stops_everything(harness: BotHarness) -> None:
    """No page is even tried, and the message has the administrator's reason."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)

    with pytest.raises(EditingStoppedError, match="edits wildly"):
        await harness.run()
    assert (len(harness.revisions(title)), harness.edits()) == (1, [])


async def test_a_block_in_the_middle_of_an_edit_stops_everything(harness: BotHarness) -> None:
    """The wiki's refusal is told apart from one of a page, and nothing stays open in the book."""
    harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)

    def block(step: str) -> None:
        if step == "intended":
            harness.writer.act(action="block", user=BOT, reason="edits wildly", expiry="infinite")

    harness.step = block
    try:
        with pytest.raises(EditingStoppedError, match="edits wildly"):
            await harness.run()
    finally:
        harness.writer.act(action="unblock", user=BOT)
    assert harness.edits() == []


async def test_a_block_from_one_page_is_about_that_page(harness: BotHarness) -> None:
    """A partial block stops nothing else."""
    first, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    harness.writer.act(
        action="block", user=BOT, reason="here", expiry="infinite", partial=1, pagerestrictions=first, allowusertalk=1
    )
    try:
        tally, _ = await harness.run()
    finally:
        harness.writer.act(action="unblock", user=BOT)
    assert tally.did == {PageEditStatus.REFUSED: 1, PageEditStatus.EDITED: 1}


async def test_two_runs_never_edit_one_wiki(harness: BotHarness) -> None:
    """The second is told who is at work; a killed run keeps it out for a while only."""
    harness.page(PAGE, {URL: LinkState.DEAD})
    now = int(harness.clock.now().timestamp())
    with harness.store.writing() as rows:
        take_edit_lock(rows, harness.wiki.id, "another", now=now, length_s=600)

    with pytest.raises(BotBusyError, match="another"):
        await harness.run()
    await harness.clock.sleep(601)
    tally, _ = await harness.run()
    assert sum(tally.did.values()) == 1


async def test_an_edit_of_somebody_else_in_between_is_kept(harness: BotHarness) -> None:
    """Text that others save between the bot's reading and saving is kept, together with the repair."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    copy = harness.give_copy(URL)
    once = iter([True])

    def write(step: str) -> None:
        if step == "intended" and next(once, False):
            harness.writer.write(title, PAGE.replace("title=A", "title=Better"))

    harness.step = write
    tally, _ = await harness.run()

    text = harness.text(title)
    assert tally.did == {PageEditStatus.EDITED: 1}
    assert "title=Better" in text
    assert f"archive-url={copy}" in text


async def test_an_edit_of_our_own_account_in_between_is_kept(harness: BotHarness) -> None:
    """MediaWiki hides conflicts with oneself: what the account wrote meanwhile is brought back."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    copy = harness.give_copy(URL)
    own = WikiWriter(harness.writer.api, name=harness.login, password=BOT_SECRET)
    # The account's own edit is the last one before, too, so that a conflict would be with itself.
    own.write(title, PAGE + "\n\nBy us.")
    once = iter([True])

    def write(step: str) -> None:
        if step == "intended" and next(once, False):
            own.write(title, PAGE + "\n\nBy us, meanwhile.")

    harness.step = write
    await harness.run()

    text = harness.text(title)
    assert "By us, meanwhile." in text
    assert f"archive-url={copy}" in text


async def test_a_page_that_is_deleted_meanwhile_is_not_made_again(harness: BotHarness) -> None:
    """`nocreate`: what was deleted stays deleted."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    harness.step = lambda step: harness.writer.delete(title) if step == "intended" else None

    tally, _ = await harness.run()

    assert tally.did == {PageEditStatus.GONE: 1}
    assert harness.edits()[0].state is EditState.FAILED


async def test_a_moved_page_is_still_mended(harness: BotHarness) -> None:
    """Pages go by their numbers: a new title changes nothing."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    harness.writer.move(title, title + " moved", noredirect=1)

    tally, page_edits = await harness.run()

    assert tally.did == {PageEditStatus.EDITED: 1}
    assert isinstance(page_edits[0], PageEditResult)
    assert page_edits[0].title == title + " moved"


async def test_a_link_that_works_again_is_said_to(harness: BotHarness) -> None:
    """Only where we said that it is dead, and once."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    other, _ = harness.page(
        PAGE.replace(
            "}}",
            "|archive-url=https://web.archive.org/web/20250310000000/"
            f"{URL}|archive-date=2025-03-10|url-status=dead}}}}",
        ),
        {URL: LinkState.DEAD},
    )
    harness.give_copy(URL)
    await harness.run()
    harness.turn(URL, LinkState.ALIVE)

    tally, _ = await harness.run()
    again, _ = await harness.run()

    assert tally.did == {PageEditStatus.EDITED: 1}
    assert "url-status=live" in harness.text(title)
    assert "url-status=dead" in harness.text(other)
    assert again.did[PageEditStatus.EDITED] == 0


async def test_a_dead_link_without_a_copy_is_tagged(harness: BotHarness) -> None:
    """Unfixable: the wiki's dead-link tag is put behind it (B12), unless the settings say not to."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})

    await harness.run()

    assert "{{dead link|" in harness.text(title).lower()
    assert "fix-attempted" not in harness.text(title)  # nobody was asked
    harness.set(tag_dead=False)
    other, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    tally, _ = await harness.run(other)
    assert (tally.did, harness.text(other)) == ({PageEditStatus.NOTHING: 1}, PAGE)


async def test_a_copy_that_is_not_shown_gives_way_to_the_next_best(harness: BotHarness) -> None:
    """And each address that stands on the page afterwards was fetched before."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    first, second = harness.give_copy(URL), f"https://arquivo.pt/wayback/{STAMP}/{URL}"
    harness.give_copy(URL, service="arquivo", address=second)
    harness.sights.cited_as[first] = CopyVerdict.GONE

    await harness.run()

    assert second in harness.text(title)
    assert harness.sights.addresses[-1] == second


async def test_a_copy_on_the_page_that_shows_nothing_is_replaced(harness: BotHarness) -> None:
    """B13: its archive said so when it was looked at; one about which nobody can tell stays."""
    bad = f"https://arquivo.pt/wayback/{STAMP}/{URL}"
    cited = f"{{{{cite web|url={URL}|title=A|archive-url={bad}|archive-date=2025-03-10}}}}"
    title, _ = harness.page(cited, {URL: LinkState.DEAD})
    copy = harness.give_copy(URL)

    await harness.run(title)
    assert bad in harness.text(title)
    harness.sights.standing_as[bad] = CopyVerdict.OTHER_PAGE
    await harness.run(title)

    assert (bad in harness.text(title), copy in harness.text(title)) == (False, True)


async def test_a_refusal_at_a_subscribers_page_tags_nothing(harness: BotHarness) -> None:
    """A link that the page marks as requiring a subscription is not called dead for a 403."""
    walled = PAGE.replace("|title=A", "|title=A|url-access=subscription")
    title, _ = harness.page(walled, {URL: LinkState.DEAD})
    harness.turn(URL, LinkState.DEAD, code=StatusCode.NO_ACCESS)

    tally, _ = await harness.run(title)

    assert (harness.text(title), tally.refused) == (walled, {"paywall": 1})
    harness.turn(URL, LinkState.DEAD, code=StatusCode.NOT_FOUND)
    await harness.run(title)
    assert "{{dead link|" in harness.text(title)


async def test_a_copy_from_after_the_death_is_none(harness: BotHarness) -> None:
    """A capture of the error page is not offered as the source (T193158)."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL, f"{harness.clock.now():%Y%m%d}000000")
    harness.set(tag_dead=False)

    tally, _ = await harness.run()

    assert (tally.did, harness.text(title)) == ({PageEditStatus.NOTHING: 1}, PAGE)


async def test_five_refusals_in_a_row_stop_a_run(harness: BotHarness) -> None:
    """Whoever is refused everywhere asks the administrators, not the next page."""
    for _ in range(6):
        title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
        protect(harness, title)
    harness.give_copy(URL)

    with pytest.raises(EditingStoppedError, match="5 pages in a row"):
        await harness.run()
    assert len(harness.edits()) == 5


async def test_every_form_of_link_is_mended_once(harness: BotHarness) -> None:
    """Brackets, bare links and references in one edit; the next run finds nothing more to do."""
    forms = {
        "brackets": "* [{} In brackets]",
        "bare": "* see {} for more",
        "reference": "<ref>{}</ref>",
        "titled": "<ref>[{} With a title], visited.</ref>",
        "infobox": "{{{{Article|url={}}}}}",
        "named": "<ref name=x>{{{{cite news\n | url = {}\n | title = N\n}}}}</ref><ref name=x />",
    }
    links = {f"https://gone.example.org/{name}": LinkState.DEAD for name in forms}
    text = "\n".join(form.format(url) for form, url in zip(forms.values(), links, strict=True))
    title, _ = harness.page(text + "\n<references />", links)
    for url in links:
        harness.give_copy(url)

    tally, page_edits = await harness.run(title)
    again, _ = await harness.run(title)

    assert tally.did == {PageEditStatus.EDITED: 1}, page_edits
    assert again.did == {PageEditStatus.NOTHING: 1}
    written = harness.text(title)
    assert [url for url in links if f"/20250310000000/{url}" not in written] == ["https://gone.example.org/infobox"]
    kinds = {change.kind for change in harness.edits()[-1].changes}
    assert len(harness.edits()[-1].changes) == 5, kinds


async def test_a_usurped_link_may_have_the_last_copy_before_it_was_cited(harness: BotHarness) -> None:
    """When nobody says when it was read, the page's history says when it was added (B06)."""
    text = PAGE.replace("|access-date=2025-03-11", "")
    title, _ = harness.page(text, {URL: LinkState.USURPED})
    # After the day on which the registry first saw the page, before the one on which it was written.
    copy = harness.give_copy(URL, f"{harness.clock.now() - timedelta(days=100):%Y%m%d}000000")

    tally, _ = await harness.run(title)

    assert tally.did == {PageEditStatus.EDITED: 1}
    assert f"archive-url={copy}" in harness.text(title)
    assert "url-status=usurped" in harness.text(title)


async def test_internal_error_over_one_page_keeps_no_other_from_being_mended(
    harness: BotHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told as one, and the log has its traceback."""
    bad, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    good, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)

    async def faulty(context: EditContext, task: EditTask, *, is_dry: bool) -> PageEditResult:
        if task.title == bad:
            raise OverflowError("int too large")
        return await edit_page(context, task, is_dry=is_dry)

    monkeypatch.setattr(wiki_bot, "edit_page", faulty)
    tally, _ = await harness.run()

    assert (tally.did[PageEditStatus.BROKEN], tally.did[PageEditStatus.EDITED]) == (1, 1)
    assert "archive-url" in harness.text(good)
    assert "archive-url" not in harness.text(bad)
    assert "int too large" in caplog.text


async def test_internal_errors_page_after_page_stop_the_bot(
    harness: BotHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash loop is broken, with a sentence."""

    async def faulty(_context: EditContext, _task: EditTask, *, is_dry: bool) -> PageEditResult:
        raise OverflowError(f"int too large {is_dry}")

    harness.page(PAGE, {URL: LinkState.DEAD})
    harness.page(PAGE, {URL: LinkState.DEAD})
    monkeypatch.setattr(wiki_bot, "edit_page", faulty)
    monkeypatch.setattr(wiki_bot, "REFUSALS_LIMIT", 2)
    with pytest.raises(EditingStoppedError, match="2 pages in a row ended with an internal error"):
        await harness.run()
