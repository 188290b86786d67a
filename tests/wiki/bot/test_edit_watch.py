"""Later state of an edit, from texts and histories alone."""

from datetime import UTC, datetime

import pytest

from links.registry.bot_edits import BotEdit, EditChange, EditKind, EditState
from wiki.api.models import Revision
from wiki.bot.past_edits import find_our_revision, find_undone, judge_edit
from wiki.wikitext.citation_reader import read_citations
from wiki.wikitext.template_map import rules_for

URL = "https://gone.example.org/a"
BEFORE = f"{{{{cite web|url={URL}|title=A}}}}"
AFTER = (
    f"{{{{cite web|url={URL}|title=A|archive-url=https://web.archive.org/web/20250310000000/{URL}"
    "|archive-date=2025-03-10|url-status=dead}}"
)
MOMENT = datetime(2026, 11, 21, tzinfo=UTC)
ME = "Repairer"


def undone(text: str, *changes: EditChange) -> frozenset[int]:
    """Return the indexes of the changes that were undone in the text."""
    citations = read_citations(text, rules_for("en"), today=MOMENT.date())
    return find_undone(changes, text, citations, {1: URL})


ARCHIVED = EditChange(1, "archived", BEFORE, AFTER)


@pytest.mark.parametrize(
    ("text", "is_undone"),
    [
        (AFTER, False),
        (BEFORE, True),
        (f"<ref>{BEFORE}</ref> and more", True),
        (AFTER.replace("title=A", "title=B"), False),  # somebody else's words, our copy
        (BEFORE.replace("title=A", "title=B"), True),
        (AFTER.replace("20250310000000", "20240101000000"), False),  # a better copy
        ("", False),  # the page was blanked
        ("Somebody rewrote this.", False),
        (f"<!-- {AFTER} -->", False),
        (f"* [{URL} A]", True),  # another form, without the copy
        (f"{AFTER} {BEFORE}", False),  # it stands, and somebody cites it once more
    ],
)
def test_a_change_is_undone_when_its_link_stands_without_it(text: str, is_undone: bool) -> None:
    """And only then."""
    assert undone(text, ARCHIVED) == (frozenset({0}) if is_undone else frozenset())


def test_of_two_citations_that_read_alike_one_may_be_undone() -> None:
    """Each occurrence stands for one change."""
    assert undone(f"{AFTER} {BEFORE}", ARCHIVED, ARCHIVED) == {1}
    assert undone(f"{AFTER} {AFTER}", ARCHIVED, ARCHIVED) == frozenset()
    assert undone(f"{BEFORE} {BEFORE}", ARCHIVED, ARCHIVED) == {0, 1}


def test_a_tag_that_goes_is_undone_and_a_revival_that_goes_is() -> None:
    """A tagged link must still have a tag, and a revived link must not be marked as dead."""
    tagged = EditChange(1, "tagged", BEFORE, BEFORE + " {{dead link|date=May 2026}}")
    revived = EditChange(1, "revived", AFTER, AFTER.replace("=dead", "=live"))

    assert undone(BEFORE.replace("=A", "=B"), tagged) == {0}
    assert undone(BEFORE.replace("=A", "=B") + " {{dead link}}", tagged) == frozenset()
    assert undone(AFTER, revived) == {0}
    assert undone(BEFORE, revived) == frozenset()


def test_a_tidied_form_is_nobodys_objection() -> None:
    """Nor is what concerns a link that the registry has forgotten."""
    assert undone(BEFORE, EditChange(1, "tidied", AFTER, "x")) == frozenset()
    assert undone("x", EditChange(9, "archived", "", "y")) == frozenset()


def edit(rev: int = 11) -> BotEdit:
    """Return a page edit of the bot that added an archive copy."""
    return BotEdit(
        1, 1, 7, EditKind.PAGE, "20261121-abcdef", 0, 10, rev, "d" * 40, EditState.MADE, None, "",
        "", None, False, None, "", (ARCHIVED,),
    )  # fmt: skip


def revision(rev: int, user: str, *, sha1: str = "", comment: str = "", tags: tuple[str, ...] = ()) -> Revision:
    return Revision(rev, MOMENT, user, comment, sha1 or f"{rev:040x}", tags)


@pytest.mark.parametrize(
    ("later", "state"),
    [
        ([revision(12, "Reader", tags=("mw-undo",))], EditState.REVERTED),
        ([revision(12, "Reader", sha1="base", tags=("mw-rollback",))], EditState.REVERTED),
        ([revision(12, ME)], EditState.ACCEPTED),
        ([revision(12, "Vandal"), revision(13, "Admin", sha1="base")], EditState.SWEPT),
        ([revision(12, "Vandal"), revision(13, "Admin", sha1="older")], EditState.SWEPT),
        # Restored, and the comment names our revision: that was about us.
        ([revision(12, "Vandal"), revision(13, "Admin", sha1="base", comment="undo 11, no copy")], EditState.REVERTED),
        # An edit of somebody in between that was not taken back.
        ([revision(12, "Friend"), revision(13, "Reader")], EditState.REVERTED),
        # The same person edited in between: nothing of others was swept away.
        ([revision(12, "Reader"), revision(13, "Reader", sha1="base")], EditState.REVERTED),
    ],
)
def test_who_undid_an_edit_and_why(later: list[Revision], state: EditState) -> None:
    """A revert is about us, unless it swept others' edits away with ours."""
    history = ((revision(11, ME), *later), frozenset({"base", "older"}))

    judgement = judge_edit(edit(), frozenset({0}), later[-1], *history, me=ME)

    assert judgement.state is state
    assert judgement.by == later[-1]


def test_a_history_that_tells_nothing_is_a_revert_of_nobody() -> None:
    """The edit is held all the same."""
    judgement = judge_edit(edit(), frozenset({0}), None, me=ME)

    assert (judgement.state, judgement.by) == (EditState.REVERTED, None)
    assert judge_edit(edit(), frozenset(), None, me=ME).state is EditState.MADE


def test_an_edit_is_found_by_its_job_or_its_text() -> None:
    """MediaWiki trims texts and merges conflicts, so the digest alone would not do; another's never is."""
    by_job = revision(12, ME, comment="Mended (#20261121-abcdef)")
    by_text = revision(12, ME, sha1="d" * 40)

    assert find_our_revision(edit(), [revision(10, ME), by_job], me=ME) == by_job
    assert find_our_revision(edit(), [revision(10, ME), by_text], me=ME) == by_text
    assert find_our_revision(edit(), [revision(12, "Other", sha1="d" * 40)], me=ME) is None
    assert find_our_revision(edit(), [revision(10, ME, sha1="d" * 40)], me=ME) is None
    assert find_our_revision(edit(), [revision(12, ME)], me=ME) is None
