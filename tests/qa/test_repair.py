"""Of two captures of a URL the better one is offered; whatever they are, one is."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.page_classes import PageClass
from core.playback_check import PlaybackCheck, PlaybackFault, QaVerdict, VerdictSource
from qa.check_table import RepairState
from qa.compare.content_comparison import TextComparison
from qa.page_changes import PageChanges, PageDrift
from qa.repair import CaptureSide, RepairOutcome, choose_capture

OLD = PlaybackCheck("old", "https://a.example/", "2026-01-01T00:00:00Z", "images", "2026-01-02T00:00:00Z",
            "1", QaVerdict.BROKEN, score=0.4, faults=(PlaybackFault.LOST,))  # fmt: skip
NEW = replace(OLD, page_id="new", captured_at="2026-01-03T00:00:00Z")

sides = st.builds(
    lambda verdict, score, kind, status, faults: CaptureSide(
        replace(OLD, verdict=verdict, score=score, faults=tuple(faults)), kind, status
    ),
    st.sampled_from(QaVerdict),
    st.none() | st.floats(0, 1),
    st.sampled_from(PageClass),
    st.sampled_from((None, 200, 404, 503)),
    st.sets(st.sampled_from(PlaybackFault)),
)


def offered(old: CaptureSide, new: CaptureSide, choice: RepairOutcome) -> str:
    """Return the capture, "old" or "new", that readers are offered after the choice was recorded."""
    if choice.state is RepairState.DONE_BETTER:
        old = replace(old, check=replace(old.check, better="new"))
    if choice.old_stays:
        new = replace(new, check=replace(new.check, better="old"))
    return "new" if new.offered <= old.offered else "old"


def side(check: PlaybackCheck, page_class: PageClass = PageClass.OK, status: int = 200) -> CaptureSide:
    return CaptureSide(check, page_class, status)


def test_a_good_new_capture_takes_the_place_of_a_broken_one() -> None:
    """That is what a repair is for."""
    old, new = side(OLD), side(replace(NEW, verdict=QaVerdict.GOOD))
    choice = choose_capture(old, new)

    assert choice.state is RepairState.DONE_BETTER
    assert offered(old, new, choice) == "new"


@pytest.mark.parametrize(
    ("page_class", "status"),
    [
        (PageClass.HTTP_ERROR, 404),
        (PageClass.SOFT_404, 200),
        (PageClass.CONSENT_WALL, 200),
        (PageClass.LOGIN_WALL, 200),
        (PageClass.PARKED, 200),
        (PageClass.NEAR_EMPTY, 200),
    ],
)
def test_another_page_never_takes_the_place_of_the_page(page_class: PageClass, status: int) -> None:
    """A broken copy may be the best there is, however faithful that of an error page."""
    old, new = side(OLD), side(replace(NEW, verdict=QaVerdict.GOOD), page_class, status)
    choice = choose_capture(old, new)

    assert choice.state is RepairState.DONE_NOT_BETTER
    assert offered(old, new, choice) == "old"


def test_a_check_for_robots_is_no_capture() -> None:
    """It fails, and the old one stays as it is."""
    new = side(replace(NEW, verdict=QaVerdict.GOOD), PageClass.CHALLENGE, 403)

    assert choose_capture(side(OLD), new).state is RepairState.FAILED


def test_the_page_takes_the_place_of_an_error_page() -> None:
    """Even of one that is shown well: somebody asked for another capture."""
    old = side(replace(OLD, verdict=QaVerdict.GOOD), PageClass.HTTP_ERROR, 503)
    new = side(replace(NEW, verdict=QaVerdict.DOUBTFUL))
    choice = choose_capture(old, new)

    assert choice.state is RepairState.DONE_BETTER
    assert offered(old, new, choice) == "new"


def test_two_that_are_broken_alike_are_a_fault_of_playback() -> None:
    """The reviewer is told so, and readers keep the one they had."""
    old, new = side(OLD), side(NEW)
    choice = choose_capture(old, new)

    assert (choice.state, choice.old_stays) == (RepairState.DONE_NOT_BETTER, True)
    assert choice.reason == "Captured again, no better: a playback fault (lost)."
    assert offered(old, new, choice) == "old"


def test_an_archive_that_is_damaged_twice_is_no_fault_of_playback() -> None:
    """Playback cannot show what does not exist."""
    damaged = (PlaybackFault.LOST, PlaybackFault.DAMAGED)
    choice = choose_capture(side(replace(OLD, faults=damaged)), side(replace(NEW, faults=damaged)))

    assert choice.reason == "Captured again, no better."


def test_of_two_broken_ones_that_which_shows_more_is_offered() -> None:
    """Some of a page is better than less of it."""
    old, new = side(OLD), side(replace(NEW, score=0.6))
    choice = choose_capture(old, new)

    assert choice.state is RepairState.DONE_BETTER
    assert "20%" in choice.reason
    assert "still broken" in choice.reason
    assert offered(old, new, choice) == "new"


@pytest.mark.parametrize("drift", [PageDrift.OTHER_PAGE, PageDrift.OTHER_OWNER, PageDrift.GONE])
def test_what_stands_at_the_url_now_is_not_offered_for_the_page(drift: PageDrift) -> None:
    """A faithful copy of the front page is no copy of the page, of which all words are still shown."""
    old, new = side(replace(OLD, text=1.0)), side(replace(NEW, verdict=QaVerdict.GOOD, score=1.0))
    choice = choose_capture(old, new, PageChanges(drift))

    assert (choice.state, choice.old_stays) == (RepairState.DONE_NOT_BETTER, True)
    assert offered(old, new, choice) == "old"


def test_another_page_is_better_than_a_copy_that_shows_nothing() -> None:
    """A copy without words has nothing to keep."""
    old, new = side(replace(OLD, text=0.0)), side(replace(NEW, verdict=QaVerdict.GOOD, score=1.0))

    assert choose_capture(old, new, PageChanges(PageDrift.OTHER_PAGE)).state is RepairState.DONE_BETTER


def test_much_less_of_a_page_is_not_better_than_nearly_all_of_it() -> None:
    """It counts what is left of the old copy: of one without its style sheet little is."""
    whole = replace(OLD, score=0.95, text=1.0, parts_seen=10, parts_shown=9)
    poor = side(replace(NEW, verdict=QaVerdict.GOOD, score=1.0, parts_seen=3, parts_shown=3))
    cut = PageChanges(PageDrift.REWRITTEN, text=TextComparison(0.2, 0.2, 0.0, 500, 100))
    rich = side(replace(poor.check, parts_seen=9, parts_shown=9))

    assert "30% of the parts" in choose_capture(side(whole), poor).reason
    assert "20% of the words" in choose_capture(side(whole), rich, cut).reason
    assert choose_capture(side(replace(whole, score=0.1)), poor).state is RepairState.DONE_BETTER
    assert choose_capture(side(whole), rich).state is RepairState.DONE_BETTER


def test_what_a_person_calls_bad_needs_no_second_word() -> None:
    """Another page may be what they wish for: a wall that no machine saw is gone, say."""
    marked = replace(OLD, judge=VerdictSource.PERSON, score=1.0, text=1.0)
    new = side(replace(NEW, verdict=QaVerdict.GOOD, score=1.0))

    assert choose_capture(side(marked), new, PageChanges(PageDrift.OTHER_PAGE)).state is RepairState.DONE_BETTER


@given(sides, sides)
def test_what_is_said_is_what_readers_get(old: CaptureSide, new: CaptureSide) -> None:
    """Better: the new one is offered. Not better: never a worse one than before."""
    choice = choose_capture(old, new)
    offered_side = offered(old, new, choice)

    if choice.state is RepairState.DONE_BETTER:
        assert offered_side == "new"
    elif choice.state is RepairState.FAILED:
        assert new.page_class is PageClass.CHALLENGE
    elif (new.rank, new.check.verdict) != (old.rank, old.check.verdict) or new.check.verdict is QaVerdict.BROKEN:
        assert offered_side == "old"
    assert choice.reason.endswith(".")


@given(sides)
def test_a_capture_is_not_better_than_itself(one: CaptureSide) -> None:
    """The same again repairs nothing."""
    assert choose_capture(one, one).state is not RepairState.DONE_BETTER
