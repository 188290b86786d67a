"""Playback before and after an upgrade: did what a page shows get better or worse (pure).

Two things speak: both looks compared with each other, and each compared with the capture. A look that
shows less than the one before is worse, whatever the capture says; one that is closer to the capture is
better. What differs in neither direction has changed, and a person should see it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from core.errors import PermanentError
from core.quality import Check, Fault, Verdict
from crawler.quality.baselines import Shown
from render.compare.pictures import PictureComparison, compare_pictures
from render.compare.texts import TextComparison, compare_texts

SAME = 0.999  # a score from here on is that of the same picture, or text
STEP = 0.01  # a change of the score against the capture below this is none
LOST = 0.02  # share of what was shown that may be gone before that counts as worse
_RANKS = {Verdict.BROKEN: 0, Verdict.DOUBTFUL: 1, Verdict.GOOD: 2}


class Course(StrEnum):
    """Where a page went."""

    WORSE = "worse"
    GONE = "gone"  # it is not in the archive any more, or was taken down
    CHANGED = "changed"
    BETTER = "better"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Regression:
    """What became of one page's playback.

    Attributes:
        course: where it went.
        reason: a sentence; empty when it is unchanged.
        before: the check then.
        after: the check now.
        picture: both looks' pictures compared; None when one is missing.
        text: their texts; None when one is missing.
    """

    course: Course
    reason: str
    before: Check
    after: Check
    picture: PictureComparison | None = None
    text: TextComparison | None = None

    @property
    def likeness(self) -> float:
        """The least of both scores; 1 where nothing was compared."""
        return min((each.score for each in (self.picture, self.text) if each), default=1.0)

    @property
    def step(self) -> float | None:
        """How far the score against the capture moved; None when one is missing."""
        if self.before.score is None or self.after.score is None:
            return None
        return self.after.score - self.before.score


def regression(before: Shown, after: Shown, *, heat: bool = False) -> Regression:
    """What became of the page's playback.

    Args:
        before: how it was.
        after: how it is.
        heat: also draw where the pictures differ.
    """
    told = _without_looking(before.check, after.check)
    if told is not None:
        return Regression(*told, before.check, after.check)
    picture, text = _pictures(before, after, heat=heat), None
    if before.text is not None and after.text is not None:
        text = compare_texts(before.text, after.text)
    found = Regression(Course.UNCHANGED, "", before.check, after.check, picture, text)
    course, reason = _judged(found)
    return Regression(course, reason, before.check, after.check, picture, text)


def counted(found: Iterable[Regression]) -> dict[Course, int]:
    """How many pages went where; every course is there."""
    counts = Counter(each.course for each in found)
    return {course: counts[course] for course in Course}


def facts_of(found: Regression) -> dict[str, Any]:
    """What became of it, as JSON has it."""
    return {
        "page_id": found.after.page_id,
        "url": found.after.url,
        "course": str(found.course),
        "reason": found.reason,
        "picture": None if found.picture is None else round(found.picture.score, 4),
        "text": None if found.text is None else round(found.text.score, 4),
        "before": {"verdict": str(found.before.verdict), "score": found.before.score},
        "after": {"verdict": str(found.after.verdict), "score": found.after.score},
    }


def worst_first(found: Iterable[Regression]) -> list[Regression]:
    """In the order in which people should look at them."""
    courses = list(Course)
    return sorted(
        found,
        key=lambda each: (
            courses.index(each.course),
            each.step or 0.0,
            each.likeness,
            each.after.url,
        ),
    )


def _without_looking(before: Check, after: Check) -> tuple[Course, str] | None:
    """What the checks alone say, where one of them has nothing to show."""
    was, is_ = _is_shown(before), _is_shown(after)
    if was and is_:
        return None
    if not was and not is_:
        return Course.UNCHANGED, ""
    if is_:
        return Course.BETTER, f"It was not shown: {before.reason}"
    gone = Fault.NOT_SHOWN not in after.faults
    return (Course.GONE if gone else Course.WORSE), f"It is not shown any more: {after.reason}"


def _is_shown(check: Check) -> bool:
    return check.verdict is not Verdict.UNCHECKED and Fault.NOT_SHOWN not in check.faults


def _judged(found: Regression) -> tuple[Course, str]:
    step = found.step or 0.0
    fell = _RANKS.get(found.after.verdict, 0) - _RANKS.get(found.before.verdict, 0)
    if step <= -STEP or (fell < 0 and step < 0):
        return Course.WORSE, f"{_against(found)} {found.after.reason}".strip()
    if step >= STEP:
        return Course.BETTER, _against(found)
    if found.likeness >= SAME:
        return Course.UNCHANGED, ""
    picture, text = found.picture, found.text
    if picture is not None and (picture.verdict is Verdict.BROKEN or picture.lost > LOST):
        return Course.WORSE, f"{_percent(picture.lost)} of what was drawn is not drawn any more."
    if text is not None and text.kept < 1 - LOST:
        return Course.WORSE, f"{_percent(1 - text.kept)} of the words are not there any more."
    return Course.CHANGED, f"Both looks are alike by {_percent(found.likeness)}."


def _against(found: Regression) -> str:
    scores = f"{found.before.score or 0.0:.3f} to {found.after.score or 0.0:.3f}"
    return f"Its likeness to the capture went from {scores}."


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _pictures(before: Shown, after: Shown, *, heat: bool) -> PictureComparison | None:
    if before.picture is None or after.picture is None:
        return None
    try:
        return compare_pictures(before.picture, after.picture, heat=heat)
    except PermanentError:
        return None
