"""The judge: each rule alone, what a page changes by itself, and what could not be compared."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.playback_check import LostPart, PlaybackFault, QaVerdict
from qa.compare.content_comparison import ResourceComparison, TextComparison
from qa.compare.damage_regions import DamageRegion, RegionKind
from qa.compare.picture_comparison import PictureComparison as Picture
from qa.compare.verdict_rules import THRESHOLDS, judge_copy

SCREEN = (1280, 800)
WHOLE = ResourceComparison(score=1.0, seen=9, shown=9, lost=())
SAME_WORDS = TextComparison(score=1.0, kept=1.0, added=0.0, words_seen=400, words_shown=400)


FINE = Picture()


def place(w: int, h: int, kind: RegionKind = RegionKind.LOST, **more: float) -> DamageRegion:
    """Return a region in the middle of the screen."""
    return DamageRegion(160, 160, w, h, kind, **more)


def test_what_was_not_compared_is_not_judged() -> None:
    """Without any comparison the verdict is none, and neither good nor broken."""
    judgement = judge_copy(None, None, None)

    assert (judgement.verdict, judgement.score, judgement.faults) == (QaVerdict.UNCHECKED, None, ())
    assert judgement.reason


@pytest.mark.parametrize(
    ("picture", "text", "parts"),
    [(FINE, None, None), (None, SAME_WORDS, None), (None, None, WHOLE), (FINE, SAME_WORDS, WHOLE)],
)
def test_each_comparison_alone_makes_a_verdict(
    picture: Picture | None, text: TextComparison | None, parts: ResourceComparison | None
) -> None:
    """Whatever is missing, what is there is judged."""
    judgement = judge_copy(picture, text, parts)

    assert (judgement.verdict, judgement.score, judgement.reason) == (QaVerdict.GOOD, 1.0, "")


@pytest.mark.parametrize(
    ("picture", "fault"),
    [
        (replace(FINE, blank=True), PlaybackFault.BLANK),
        (replace(FINE, lost=0.3), PlaybackFault.LOST),
        (replace(FINE, changed=0.5), PlaybackFault.OTHER),
        (replace(FINE, regions=(place(900, 560, RegionKind.COVERED, empty=0.6),)), PlaybackFault.COVERED),
        (replace(FINE, regions=(place(640, 400, drawn=0.9, empty=0.97),)), PlaybackFault.LOST),
    ],
)
def test_one_rule_is_enough_to_be_broken(picture: Picture, fault: PlaybackFault) -> None:
    """Each rule stands alone, names its fault first and says a sentence."""
    judgement = judge_copy(picture, SAME_WORDS, WHOLE)

    assert judgement.verdict is QaVerdict.BROKEN
    assert judgement.faults[0] is fault
    assert judgement.reason.endswith(".")


def test_missing_words_break_a_page_that_looks_the_same() -> None:
    """Another language in the same design: the picture hardly differs, the words do."""
    text = TextComparison(score=0.02, kept=0.04, added=0.9, words_seen=300, words_shown=290)
    judgement = judge_copy(FINE, text, WHOLE)

    assert (judgement.verdict, judgement.faults, judgement.score) == (QaVerdict.BROKEN, (PlaybackFault.TEXT,), 0.02)


def test_a_few_words_say_nothing_of_a_text() -> None:
    """A poster with five words, one of them a date, is not broken for want of it."""
    text = TextComparison(score=0.5, kept=0.6, added=0.4, words_seen=5, words_shown=5)

    assert judge_copy(FINE, text).verdict is QaVerdict.GOOD


def test_lost_parts_are_named() -> None:
    """The reason says how many parts do not come, and the heaviest."""
    lost = (LostPart("https://a.example/main.css", "status: 404"), LostPart("https://a.example/b", ""))
    judgement = judge_copy(FINE, SAME_WORDS, ResourceComparison(score=0.4, seen=9, shown=7, lost=lost))

    assert (judgement.verdict, judgement.faults) == (QaVerdict.BROKEN, (PlaybackFault.RESOURCES,))
    assert judgement.reason == "2 resources are missing: https://a.example/main.css."


@pytest.mark.parametrize("size", [(300, 250), (728, 90), (160, 600), (304, 608)])
def test_an_advertisement_is_no_loss(size: tuple[int, int]) -> None:
    """A box of an advertiser's size shows another advertisement, or none, at every visit."""
    region = place(*size, drawn=0.9, empty=1.0, share=0.2)

    assert judge_copy(replace(FINE, lost=0.2, regions=(region,))).verdict is QaVerdict.GOOD


def test_a_gallery_of_such_boxes_is_no_advertisement() -> None:
    """Four boxes of 300 by 250 that are empty are missing pictures."""
    regions = tuple(replace(place(300, 250, drawn=0.9, empty=1.0, share=0.1), x=310 * n) for n in range(4))

    assert judge_copy(replace(FINE, lost=0.4, regions=regions)).verdict is QaVerdict.BROKEN


@pytest.mark.parametrize("y", [0, 672])
def test_a_strip_at_an_edge_of_the_screen_is_no_loss(y: int) -> None:
    """A banner fixed to the window hides what is behind it, and nobody minds."""
    strip = DamageRegion(0, y, 1280, 128, RegionKind.COVERED, share=0.2, drawn=0.6, empty=0.7)
    judgement = judge_copy(replace(FINE, lost=0.14, changed=0.06, regions=(strip,)))

    assert judgement.verdict is QaVerdict.GOOD


def test_another_slide_is_doubtful_when_every_word_is_there() -> None:
    """A place with another picture is a carousel's; without the words nobody can say, and it is broken."""
    slide = DamageRegion(60, 160, 1152, 300, RegionKind.CHANGED, share=0.4, drawn=1.0, empty=0.1)
    picture = replace(FINE, score=0.5, changed=0.42, regions=(slide,))

    assert judge_copy(picture, SAME_WORDS).verdict is QaVerdict.DOUBTFUL
    assert judge_copy(picture).verdict is QaVerdict.BROKEN
    assert judge_copy(picture, replace(SAME_WORDS, kept=0.5)).verdict is QaVerdict.BROKEN


def test_other_text_is_judged_by_the_picture_only_where_the_words_are_not_known() -> None:
    """Another typeface looks like other words, and the words know better."""
    picture = replace(FINE, score=0.9, changed=0.12, rewritten=0.9)

    assert judge_copy(picture).verdict is QaVerdict.BROKEN
    assert judge_copy(picture, SAME_WORDS).verdict is QaVerdict.GOOD
    assert judge_copy(picture, replace(SAME_WORDS, kept=0.1)).verdict is QaVerdict.BROKEN
    assert judge_copy(picture, replace(SAME_WORDS, words_seen=3)).verdict is QaVerdict.BROKEN


def test_other_colours_are_doubtful_and_excuse_nothing_else() -> None:
    """All of a page in other colours is for a person to look at; what is lost besides still counts."""
    picture = replace(FINE, score=0.1, changed=0.9, recoloured=0.88)

    assert judge_copy(picture).verdict is QaVerdict.DOUBTFUL
    assert judge_copy(picture).reason == "88% of the visible content has different colours."
    assert judge_copy(replace(picture, lost=0.2)).verdict is QaVerdict.BROKEN
    assert judge_copy(replace(picture, recoloured=0.4)).verdict is QaVerdict.BROKEN


def test_doubt_begins_before_a_bound() -> None:
    """Between good and broken a person should look."""
    near = THRESHOLDS.lost * (1 + THRESHOLDS.doubt) / 2
    judgement = judge_copy(replace(FINE, lost=near))

    assert (judgement.verdict, judgement.faults) == (QaVerdict.DOUBTFUL, (PlaybackFault.LOST,))


@given(lost=st.floats(0, 1), changed=st.floats(0, 1), more=st.floats(0, 1), kept_share=st.floats(0, 1))
def test_more_harm_never_makes_a_better_verdict(lost: float, changed: float, more: float, kept_share: float) -> None:
    """Verdicts follow their figures in one direction."""
    order = [QaVerdict.GOOD, QaVerdict.DOUBTFUL, QaVerdict.BROKEN]
    text = replace(SAME_WORDS, kept=kept_share)
    less = judge_copy(replace(FINE, lost=lost, changed=changed), text).verdict
    worse = judge_copy(replace(FINE, lost=min(lost + more, 1), changed=changed), text).verdict

    assert order.index(worse) >= order.index(less)


@given(st.lists(st.builds(
    DamageRegion, st.integers(0, 5000), st.integers(0, 30_000), st.integers(0, 5000),
    st.integers(0, 30_000), st.sampled_from(RegionKind), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1),
), max_size=50), st.tuples(st.integers(1, 5000), st.integers(1, 30_000)))  # fmt: skip
def test_any_regions_make_a_verdict(regions: list[DamageRegion], size: tuple[int, int]) -> None:
    """A judge never fails, whatever it is told."""
    judgement = judge_copy(Picture(score=0.5, lost=0.1, changed=0.1, size_seen=size, regions=tuple(regions)))

    assert judgement.verdict in (QaVerdict.GOOD, QaVerdict.DOUBTFUL, QaVerdict.BROKEN)
