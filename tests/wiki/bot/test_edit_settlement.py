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
from tests.support.bot_shop import Shop
from tests.support.sites.mediawiki import PASSWORD, Wiki
from tests.support.wiki_writer import BOT, BOT_SECRET, Writer
from wiki.bot.page_edit import PageEditStatus
from wiki.bot.past_edits import RevertReview, edits_to_review, review_revert

pytestmark = pytest.mark.slow
URL = "https://gone.example.org/a"
OTHER = "https://gone.example.org/b"
CITE = f"{{{{cite web|url={URL}|title=A|access-date=2025-03-11}}}}"
PAGE = f"A fact.<ref>{CITE}</ref>\n\nMore."


@pytest.fixture(scope="module")
def reader(wiki: Wiki) -> Writer:
    """Somebody who is no administrator."""
    wiki.maintain("createAndPromote.php", "Reader", PASSWORD)
    return Writer(wiki.api(), name="Reader", password=PASSWORD)


async def mended(shop: Shop) -> tuple[str, BotEdit]:
    """A page that the bot has mended, and its edit."""
    title, _ = shop.page(PAGE, {URL: LinkState.DEAD})
    shop.give_copy(URL)
    await shop.run(title)
    return title, shop.edits()[0]


def newest(shop: Shop, edit: BotEdit) -> BotEdit:
    """The edit as the book has it now."""
    return next(each for each in shop.edits() if each.id == edit.id)


async def test_an_undone_edit_is_reported_and_never_repeated(shop: Shop, reader: Writer) -> None:
    """Undo: whoever did it says that the link works; it is looked at today, and left alone there."""
    title, edit = await mended(shop)
    reader.act(action="edit", title=title, undo=edit.rev)

    tally, _ = await shop.run(title)

    found = newest(shop, edit)
    assert (found.state, found.undone_by) == (EditState.REVERTED, "Reader")
    assert found.undone_rev == shop.revisions(title)[0]["revid"]
    assert found.is_reported
    assert (tally.undone, tally.did) == (1, {PageEditStatus.HELD: 1})
    with shop.store.reading() as rows:
        row = find_urls(rows, [URL])[URL]
        assert rows.execute(select(reports.c.url_id)).scalars().all() == [row.id]
    assert row.due_day == day_of(shop.clock.now())
    await looked_at_again(shop)
    assert (await shop.run(title))[0].did == {PageEditStatus.HELD: 1}
    assert shop.text(title) == PAGE


async def looked_at_again(shop: Shop) -> None:
    """A day later the link was looked at: it is dead."""
    await shop.clock.sleep(timedelta(days=1).total_seconds())
    shop.turn(URL, LinkState.DEAD)


async def test_a_rollback_is_a_revert(shop: Shop) -> None:
    """Rolled back by an administrator: the same."""
    title, edit = await mended(shop)
    told = shop.writer.ask(action="query", meta="tokens", type="rollback")
    token = told["query"]["tokens"]["rollbacktoken"]
    shop.writer.ask(action="rollback", title=title, user=BOT, token=token)

    tally, _ = await shop.run(title)

    assert newest(shop, edit).state is EditState.REVERTED
    assert tally.did == {PageEditStatus.HELD: 1}


async def test_an_edit_taken_out_by_hand_is_a_revert(shop: Shop, reader: Writer) -> None:
    """Without any tag, and with other words changed at the same time."""
    title, edit = await mended(shop)
    reader.write(title, "Before. " + PAGE.replace("More.", "Something else."))
    reader.write(title, "Before. " + PAGE.replace("More.", "Something else again."))

    await shop.run(title)

    found = newest(shop, edit)
    assert (found.state, found.undone_by) == (EditState.REVERTED, "Reader")
    assert found.undone_rev == shop.revisions(title)[1]["revid"]


async def test_a_part_taken_back_holds_that_part_alone(shop: Shop, reader: Writer) -> None:
    """Of two mended links one is taken back: the other stands."""
    second = CITE.replace(URL, OTHER)
    title, _ = shop.page(f"{PAGE}\n{second}", {URL: LinkState.DEAD, OTHER: LinkState.DEAD})
    shop.give_copy(URL)
    shop.give_copy(OTHER)
    await shop.run(title)
    reader.write(title, shop.text(title).replace(shop.text(title).splitlines()[-1], second))

    await shop.run(title)

    found = shop.edits()[-1]
    assert found.state is EditState.REVERTED
    assert [change.is_undone for change in found.changes] == [False, True]
    assert shop.text(title).endswith(second)
    assert "archive-url" in shop.text(title)


@pytest.mark.parametrize("is_right", [None, True, False])
async def test_the_rest_taken_back_later_is_not_repeated_either(
    shop: Shop, reader: Writer, is_right: bool | None
) -> None:
    """One link first, then the whole old text; only what a review declined of the first is repeated."""
    second = CITE.replace(URL, OTHER)
    before = f"{PAGE}\n{second}"
    title, _ = shop.page(before, {URL: LinkState.DEAD, OTHER: LinkState.DEAD})
    shop.give_copy(URL)
    shop.give_copy(OTHER)
    await shop.run(title)
    edit = shop.edits()[-1]
    mended_second = shop.text(title).splitlines()[-1]
    reader.write(title, shop.text(title).replace(mended_second, second))
    await shop.run(title)
    if is_right is not None:
        decide(shop, edit, is_right=is_right)
    _, last = reader.write(title, before)
    await looked_at_again(shop)
    shop.turn(OTHER, LinkState.DEAD)

    for _ in range(2):  # the second run finds nothing new
        await shop.run(title)

        found = newest(shop, edit)
        assert (found.state, found.undone_by) == (EditState.REVERTED, "Reader")
        assert found.undone_rev == last
        is_declined = is_right is False
        assert [change.is_undone for change in found.changes] == [True, not is_declined]
        assert shop.text(title) == (f"{PAGE}\n{mended_second}" if is_declined else before)
    assert reported(shop, OTHER) is (is_right is not False)


def reported(shop: Shop, url: str) -> bool:
    """Return whether somebody has said that the link works."""
    with shop.store.reading() as rows:
        row = find_urls(rows, [url])[url]
        asked = select(reports.c.url_id).where(reports.c.url_id == row.id)
        return rows.execute(asked).first() is not None


async def test_a_citation_that_goes_is_no_revert(shop: Shop, reader: Writer) -> None:
    """Whoever takes the sentence away says nothing of its link; a blanked page says nothing either."""
    title, edit = await mended(shop)
    reader.write(title, "Something else.")

    await shop.run(title)

    assert newest(shop, edit).state is EditState.MADE


async def test_another_copy_is_no_revert(shop: Shop, reader: Writer) -> None:
    """Somebody found a better copy, and rewrote the citation."""
    title, edit = await mended(shop)
    text = shop.text(title).replace("20250310000000", "20250201000000").replace("title=A", "title=B")
    reader.write(title, text)

    tally, _ = await shop.run(title)

    assert newest(shop, edit).state is EditState.MADE
    assert (tally.did, shop.text(title)) == ({PageEditStatus.NOTHING: 1}, text)


async def test_vandalism_that_is_reverted_too_far_is_nobodys_objection(shop: Shop, reader: Writer) -> None:
    """An older text restored over a vandal's edit sweeps ours away: after a week it is made again."""
    title, edit = await mended(shop)
    reader.write(title, "VANDALISM")
    shop.writer.write(title, PAGE)

    tally, _ = await shop.run(title)

    assert newest(shop, edit).state is EditState.SWEPT
    assert tally.did == {PageEditStatus.HELD: 1}
    await shop.clock.sleep(timedelta(days=8).total_seconds())
    tally, _ = await shop.run(title)
    assert tally.did == {PageEditStatus.EDITED: 1}
    # The second time it is an objection.
    reader.write(title, "VANDALISM")
    shop.writer.write(title, PAGE)
    await shop.run(title)
    assert shop.edits()[0].state in (EditState.REVERTED, EditState.NOTHING)
    assert edits_to_review(shop.store, shop.wiki.id, limit=10)


async def test_our_own_account_taking_back_needs_no_review(shop: Shop) -> None:
    """Who runs the bot undid it with its account: settled at once, and not repeated."""
    title, edit = await mended(shop)
    own = Writer(shop.writer.api, name=shop.login, password=BOT_SECRET)
    own.act(action="edit", title=title, undo=edit.rev)

    tally, _ = await shop.run(title)

    assert newest(shop, edit).state is EditState.ACCEPTED
    assert tally.did == {PageEditStatus.HELD: 1}


async def test_a_revert_that_is_reverted_lets_the_edit_stand(shop: Shop, reader: Writer) -> None:
    """Another editor brings our edit back: nothing is held any more."""
    title, edit = await mended(shop)
    text = shop.text(title)
    reader.act(action="edit", title=title, undo=edit.rev)
    await shop.run(title)
    shop.writer.write(title, text)

    await shop.look_back()

    found = newest(shop, edit)
    assert (found.state, found.changes[0].is_undone) == (EditState.MADE, False)


async def test_a_declined_revert_is_repeated(shop: Shop, reader: Writer) -> None:
    """A review says that the edit was right; accepting it holds the link for good."""
    title, edit = await mended(shop)
    reader.act(action="edit", title=title, undo=edit.rev)
    await shop.run(title)
    assert [each.id for each in edits_to_review(shop.store, shop.wiki.id, limit=10)] == [edit.id]

    await looked_at_again(shop)
    decide(shop, edit, is_right=True)
    assert (await shop.run(title))[0].did == {PageEditStatus.HELD: 1}
    decide(shop, edit, is_right=False)
    tally, _ = await shop.run(title)

    assert tally.did == {PageEditStatus.EDITED: 1}
    found = newest(shop, edit)
    assert (found.state, found.reviewed_by, found.note) == (EditState.DECLINED, "Owner", "it is dead")


def decide(shop: Shop, edit: BotEdit, *, is_right: bool) -> None:
    verdict = RevertReview(is_right, "Owner", "it is dead")
    review_revert(shop.store, shop.wiki.id, edit.id, verdict, now=shop.clock.now())


async def test_what_stands_cannot_be_reviewed(shop: Shop) -> None:
    """Nor what is not there, or another wiki's."""
    _, edit = await mended(shop)

    with pytest.raises(InputError, match="nothing to review"):
        decide(shop, edit, is_right=True)
    with pytest.raises(InputError, match="no edit 99"):
        review_revert(shop.store, shop.wiki.id, 99, RevertReview(is_right=True, by=""), now=shop.clock.now())
    with pytest.raises(InputError, match="no edit"):
        review_revert(shop.store, 77, edit.id, RevertReview(is_right=True, by=""), now=shop.clock.now())


async def test_a_late_revert_is_seen_before_anything_is_repeated(shop: Shop, reader: Writer) -> None:
    """After a month nobody watches; but what is about to be done again is looked at first."""
    title, edit = await mended(shop)
    await shop.clock.sleep(timedelta(days=40).total_seconds())
    await shop.look_back()
    assert newest(shop, edit).state is EditState.KEPT
    shop.turn(URL, LinkState.DEAD)
    reader.act(action="edit", title=title, undo=edit.rev)

    tally, _ = await shop.run(title)

    assert tally.did == {PageEditStatus.HELD: 1}
    assert newest(shop, edit).state is EditState.REVERTED


async def test_a_deleted_page_is_gone_and_a_restored_one_is_back(shop: Shop) -> None:
    """Deleting is no revert; the edit stands again once the page does."""
    title, edit = await mended(shop)
    shop.writer.delete(title)
    await shop.look_back()
    assert newest(shop, edit).state is EditState.GONE

    shop.writer.restore(title)
    await shop.look_back()

    assert newest(shop, edit).state is EditState.MADE


async def test_a_link_that_was_reported_waits_for_another_look_everywhere(shop: Shop, reader: Writer) -> None:
    """While nobody has looked since, no other page is edited for that link either."""
    title, edit = await mended(shop)
    # Of a domain with one link a report would make all presumed reachable for months.
    shop.page("", {f"{URL}/{number}": LinkState.ALIVE for number in range(3)}, title="Many")
    reader.act(action="edit", title=title, undo=edit.rev)
    await shop.look_back()
    other, _ = shop.page(PAGE, {URL: LinkState.DEAD})

    waits, _ = await shop.run(other)
    await looked_at_again(shop)
    goes_on, _ = await shop.run(other)

    assert waits.did == {}
    assert goes_on.did == {PageEditStatus.EDITED: 1}


@pytest.mark.parametrize("text", [PAGE, f"* [{URL} A]"])
async def test_an_improvement_of_our_own_is_no_objection(shop: Shop, reader: Writer, text: str) -> None:
    """A tag gives way to a copy that was found later; what people undo then is the later edit alone."""
    title, _ = shop.page(text, {URL: LinkState.DEAD})
    await shop.run(title)
    copy = shop.give_copy(URL)
    await shop.run(title)
    improved, tagged = shop.edits()

    tally = await shop.look_back()

    assert copy in shop.text(title)
    assert tally.undone == 0
    assert newest(shop, tagged).state is EditState.MADE
    reader.act(action="edit", title=title, undo=improved.rev)
    tally = await shop.look_back()
    assert (tally.undone, tally.to_review) == (1, 1)
    assert [each.id for each in edits_to_review(shop.store, shop.wiki.id, limit=9)] == [improved.id]
    assert newest(shop, tagged).state is EditState.MADE


async def test_a_tag_that_we_took_back_may_be_put_again(shop: Shop) -> None:
    """The link worked for a while: that was no objection of anybody's."""
    title, _ = shop.page(PAGE, {URL: LinkState.DEAD})
    await shop.run(title)
    shop.turn(URL, LinkState.ALIVE)
    await shop.run(title)
    assert shop.text(title) == PAGE
    tally = await shop.look_back()
    assert tally.undone == 0

    shop.turn(URL, LinkState.DEAD)
    await shop.run(title)

    assert "{{dead link|" in shop.text(title)
