"""Edits of the bot that people take back on a real MediaWiki (B14)."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from core.errors import InputError
from links.check_history import day_of
from links.registry.bot_edits import BotEdit, EditState
from links.registry.schema import reports
from links.registry.urls import find_urls
from links.states import LinkState
from tests.support.bot_harness import BotHarness
from tests.support.sites.mediawiki import PASSWORD, RunningWiki
from tests.support.wiki_writer import BOT, BOT_SECRET, WikiWriter
from wiki.bot.page_edit import PageEditStatus
from wiki.bot.past_edits import RevertReview, edits_to_review, review_revert

pytestmark = pytest.mark.slow
URL = "https://gone.example.org/a"
OTHER = "https://gone.example.org/b"
CITE = f"{{{{cite web|url={URL}|title=A|access-date=2025-03-11}}}}"
PAGE = f"A fact.<ref>{CITE}</ref>\n\nMore."


@pytest.fixture(scope="module")
def reader(wiki: RunningWiki) -> WikiWriter:
    """Return a user who is not an administrator."""
    wiki.maintain("createAndPromote.php", "Reader", PASSWORD)
    return WikiWriter(wiki.api(), name="Reader", password=PASSWORD)


async def mended(harness: BotHarness) -> tuple[str, BotEdit]:
    """Have the bot repair a page; return the title and the edit."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    await harness.run(title)
    return title, harness.edits()[0]


def newest(harness: BotHarness, edit: BotEdit) -> BotEdit:
    """Return the edit as the registry has it now."""
    return next(each for each in harness.edits() if each.id == edit.id)


async def test_an_undone_edit_is_reported_and_never_repeated(harness: BotHarness, reader: WikiWriter) -> None:
    """Undo: whoever did it says that the link works; it is looked at today, and left alone there."""
    title, edit = await mended(harness)
    reader.act(action="edit", title=title, undo=edit.rev)

    tally, _ = await harness.run(title)

    latest_edit = newest(harness, edit)
    assert (latest_edit.state, latest_edit.undone_by) == (EditState.REVERTED, "Reader")
    assert latest_edit.undone_rev == harness.revisions(title)[0]["revid"]
    assert latest_edit.is_reported
    assert (tally.undone, tally.did) == (1, {PageEditStatus.HELD: 1})
    with harness.store.reading() as rows:
        row = find_urls(rows, [URL])[URL]
        assert rows.execute(select(reports.c.url_id)).scalars().all() == [row.id]
    assert row.due_day == day_of(harness.clock.now())
    await looked_at_again(harness)
    assert (await harness.run(title))[0].did == {PageEditStatus.HELD: 1}
    assert harness.text(title) == PAGE


async def looked_at_again(harness: BotHarness) -> None:
    """Advance the clock by a day, and set the link's state to dead, as after a check."""
    await harness.clock.sleep(timedelta(days=1).total_seconds())
    harness.turn(URL, LinkState.DEAD)


async def test_a_rollback_is_a_revert(harness: BotHarness) -> None:
    """Rolled back by an administrator: the same."""
    title, edit = await mended(harness)
    document = harness.writer.ask(action="query", meta="tokens", type="rollback")
    token = document["query"]["tokens"]["rollbacktoken"]
    harness.writer.ask(action="rollback", title=title, user=BOT, token=token)

    tally, _ = await harness.run(title)

    assert newest(harness, edit).state is EditState.REVERTED
    assert tally.did == {PageEditStatus.HELD: 1}


async def test_an_edit_taken_out_by_hand_is_a_revert(harness: BotHarness, reader: WikiWriter) -> None:
    """Without any tag, and with other words changed at the same time."""
    title, edit = await mended(harness)
    reader.write(title, "Before. " + PAGE.replace("More.", "Something else."))
    reader.write(title, "Before. " + PAGE.replace("More.", "Something else again."))

    await harness.run(title)

    latest_edit = newest(harness, edit)
    assert (latest_edit.state, latest_edit.undone_by) == (EditState.REVERTED, "Reader")
    assert latest_edit.undone_rev == harness.revisions(title)[1]["revid"]


async def test_a_part_taken_back_holds_that_part_alone(harness: BotHarness, reader: WikiWriter) -> None:
    """Of two mended links one is taken back: the other stands."""
    second = CITE.replace(URL, OTHER)
    title, _ = harness.page(f"{PAGE}\n{second}", {URL: LinkState.DEAD, OTHER: LinkState.DEAD})
    harness.give_copy(URL)
    harness.give_copy(OTHER)
    await harness.run(title)
    reader.write(title, harness.text(title).replace(harness.text(title).splitlines()[-1], second))

    await harness.run(title)

    latest_edit = harness.edits()[-1]
    assert latest_edit.state is EditState.REVERTED
    assert [change.is_undone for change in latest_edit.changes] == [False, True]
    assert harness.text(title).endswith(second)
    assert "archive-url" in harness.text(title)


@pytest.mark.parametrize("is_right", [None, True, False])
async def test_the_rest_taken_back_later_is_not_repeated_either(
    harness: BotHarness, reader: WikiWriter, is_right: bool | None
) -> None:
    """One link first, then the whole old text; only what a review declined of the first is repeated."""
    second = CITE.replace(URL, OTHER)
    before = f"{PAGE}\n{second}"
    title, _ = harness.page(before, {URL: LinkState.DEAD, OTHER: LinkState.DEAD})
    harness.give_copy(URL)
    harness.give_copy(OTHER)
    await harness.run(title)
    edit = harness.edits()[-1]
    mended_second = harness.text(title).splitlines()[-1]
    reader.write(title, harness.text(title).replace(mended_second, second))
    await harness.run(title)
    if is_right is not None:
        decide(harness, edit, is_right=is_right)
    _, last = reader.write(title, before)
    await looked_at_again(harness)
    harness.turn(OTHER, LinkState.DEAD)

    for _ in range(2):  # the second run finds nothing new
        await harness.run(title)

        latest_edit = newest(harness, edit)
        assert (latest_edit.state, latest_edit.undone_by) == (EditState.REVERTED, "Reader")
        assert latest_edit.undone_rev == last
        is_declined = is_right is False
        assert [change.is_undone for change in latest_edit.changes] == [True, not is_declined]
        assert harness.text(title) == (f"{PAGE}\n{mended_second}" if is_declined else before)
    assert reported(harness, OTHER) is (is_right is not False)


def reported(harness: BotHarness, url: str) -> bool:
    """Return whether somebody has said that the link works."""
    with harness.store.reading() as rows:
        row = find_urls(rows, [url])[url]
        query = select(reports.c.url_id).where(reports.c.url_id == row.id)
        return rows.execute(query).first() is not None


async def test_a_citation_that_goes_is_no_revert(harness: BotHarness, reader: WikiWriter) -> None:
    """Whoever takes the sentence away says nothing of its link; a blanked page says nothing either."""
    title, edit = await mended(harness)
    reader.write(title, "Something else.")

    await harness.run(title)

    assert newest(harness, edit).state is EditState.MADE


async def test_another_copy_is_no_revert(harness: BotHarness, reader: WikiWriter) -> None:
    """Somebody found a better copy, and rewrote the citation."""
    title, edit = await mended(harness)
    text = harness.text(title).replace("20250310000000", "20250201000000").replace("title=A", "title=B")
    reader.write(title, text)

    tally, _ = await harness.run(title)

    assert newest(harness, edit).state is EditState.MADE
    assert (tally.did, harness.text(title)) == ({PageEditStatus.NOTHING: 1}, text)


async def test_vandalism_that_is_reverted_too_far_is_nobodys_objection(harness: BotHarness, reader: WikiWriter) -> None:
    """An older text restored over a vandal's edit sweeps ours away: after a week it is made again."""
    title, edit = await mended(harness)
    reader.write(title, "VANDALISM")
    harness.writer.write(title, PAGE)

    tally, _ = await harness.run(title)

    assert newest(harness, edit).state is EditState.SWEPT
    assert tally.did == {PageEditStatus.HELD: 1}
    await harness.clock.sleep(timedelta(days=8).total_seconds())
    tally, _ = await harness.run(title)
    assert tally.did == {PageEditStatus.EDITED: 1}
    # The second time it is an objection.
    reader.write(title, "VANDALISM")
    harness.writer.write(title, PAGE)
    await harness.run(title)
    assert harness.edits()[0].state in (EditState.REVERTED, EditState.NOTHING)
    assert edits_to_review(harness.store, harness.wiki.id, limit=10)


async def test_our_own_account_taking_back_needs_no_review(harness: BotHarness) -> None:
    """The operator undid it with the bot's own account: it is settled at once, and not repeated."""
    title, edit = await mended(harness)
    own = WikiWriter(harness.writer.api, name=harness.login, password=BOT_SECRET)
    own.act(action="edit", title=title, undo=edit.rev)

    tally, _ = await harness.run(title)

    assert newest(harness, edit).state is EditState.ACCEPTED
    assert tally.did == {PageEditStatus.HELD: 1}


async def test_a_revert_that_is_reverted_lets_the_edit_stand(harness: BotHarness, reader: WikiWriter) -> None:
    """Another editor brings our edit back: nothing is held any more."""
    title, edit = await mended(harness)
    text = harness.text(title)
    reader.act(action="edit", title=title, undo=edit.rev)
    await harness.run(title)
    harness.writer.write(title, text)

    await harness.look_back()

    latest_edit = newest(harness, edit)
    assert (latest_edit.state, latest_edit.changes[0].is_undone) == (EditState.MADE, False)


async def test_a_declined_revert_is_repeated(harness: BotHarness, reader: WikiWriter) -> None:
    """A review says that the edit was right; accepting it holds the link for good."""
    title, edit = await mended(harness)
    reader.act(action="edit", title=title, undo=edit.rev)
    await harness.run(title)
    assert [each.id for each in edits_to_review(harness.store, harness.wiki.id, limit=10)] == [edit.id]

    await looked_at_again(harness)
    decide(harness, edit, is_right=True)
    assert (await harness.run(title))[0].did == {PageEditStatus.HELD: 1}
    decide(harness, edit, is_right=False)
    tally, _ = await harness.run(title)

    assert tally.did == {PageEditStatus.EDITED: 1}
    latest_edit = newest(harness, edit)
    assert (latest_edit.state, latest_edit.reviewed_by, latest_edit.note) == (EditState.DECLINED, "Owner", "it is dead")


def decide(harness: BotHarness, edit: BotEdit, *, is_right: bool) -> None:
    verdict = RevertReview(is_right, "Owner", "it is dead")
    review_revert(harness.store, harness.wiki.id, edit.id, verdict, now=harness.clock.now())


async def test_what_stands_cannot_be_reviewed(harness: BotHarness) -> None:
    """Nor what is not there, or another wiki's."""
    _, edit = await mended(harness)

    with pytest.raises(InputError, match="nothing to review"):
        decide(harness, edit, is_right=True)
    with pytest.raises(InputError, match="no edit 99"):
        review_revert(harness.store, harness.wiki.id, 99, RevertReview(is_right=True, by=""), now=harness.clock.now())
    with pytest.raises(InputError, match="no edit"):
        review_revert(harness.store, 77, edit.id, RevertReview(is_right=True, by=""), now=harness.clock.now())


async def test_a_late_revert_is_seen_before_anything_is_repeated(harness: BotHarness, reader: WikiWriter) -> None:
    """After a month nobody watches; but what is about to be done again is looked at first."""
    title, edit = await mended(harness)
    await harness.clock.sleep(timedelta(days=40).total_seconds())
    await harness.look_back()
    assert newest(harness, edit).state is EditState.KEPT
    harness.turn(URL, LinkState.DEAD)
    reader.act(action="edit", title=title, undo=edit.rev)

    tally, _ = await harness.run(title)

    assert tally.did == {PageEditStatus.HELD: 1}
    assert newest(harness, edit).state is EditState.REVERTED


async def test_a_deleted_page_is_gone_and_a_restored_one_is_back(harness: BotHarness) -> None:
    """Deleting is no revert; the edit stands again once the page does."""
    title, edit = await mended(harness)
    harness.writer.delete(title)
    await harness.look_back()
    assert newest(harness, edit).state is EditState.GONE

    harness.writer.restore(title)
    await harness.look_back()

    assert newest(harness, edit).state is EditState.MADE


async def test_a_link_that_was_reported_waits_for_another_look_everywhere(
    harness: BotHarness, reader: WikiWriter
) -> None:
    """While nobody has looked since, no other page is edited for that link either."""
    title, edit = await mended(harness)
    # Of a domain with one link a report would make all presumed reachable for months.
    harness.page("", {f"{URL}/{number}": LinkState.ALIVE for number in range(3)}, title="Many")
    reader.act(action="edit", title=title, undo=edit.rev)
    await harness.look_back()
    other, _ = harness.page(PAGE, {URL: LinkState.DEAD})

    waits, _ = await harness.run(other)
    await looked_at_again(harness)
    goes_on, _ = await harness.run(other)

    assert waits.did == {}
    assert goes_on.did == {PageEditStatus.EDITED: 1}


@pytest.mark.parametrize("text", [PAGE, f"* [{URL} A]"])
async def test_an_improvement_of_our_own_is_no_objection(harness: BotHarness, reader: WikiWriter, text: str) -> None:
    """A tag gives way to a copy that was found later; what people undo then is the later edit alone."""
    title, _ = harness.page(text, {URL: LinkState.DEAD})
    await harness.run(title)
    copy = harness.give_copy(URL)
    await harness.run(title)
    improved, tagged = harness.edits()

    tally = await harness.look_back()

    assert copy in harness.text(title)
    assert tally.undone == 0
    assert newest(harness, tagged).state is EditState.MADE
    reader.act(action="edit", title=title, undo=improved.rev)
    tally = await harness.look_back()
    assert (tally.undone, tally.to_review) == (1, 1)
    assert [each.id for each in edits_to_review(harness.store, harness.wiki.id, limit=9)] == [improved.id]
    assert newest(harness, tagged).state is EditState.MADE


async def test_a_tag_that_we_took_back_may_be_put_again(harness: BotHarness) -> None:
    """The link worked for a while: that was no objection of anybody's."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    await harness.run(title)
    harness.turn(URL, LinkState.ALIVE)
    await harness.run(title)
    assert harness.text(title) == PAGE
    tally = await harness.look_back()
    assert tally.undone == 0

    harness.turn(URL, LinkState.DEAD)
    await harness.run(title)

    assert "{{dead link|" in harness.text(title)
