"""Page classifier: judges of the page classes in order of precedence.

The class with the highest score above the threshold is chosen. Judges are conservative: an ordinary page classified as
a wall would be skipped in favour of an older capture, while a wall classified as a page is visible as one.
"""

from collections.abc import Callable
from dataclasses import dataclass

from classify import challenge, missing_page
from classify.challenge import judge_challenge, judge_consent_wall, judge_login_wall
from classify.evidence import ClassFindings, PageEvidence
from classify.missing_page import judge_near_empty, judge_parked, judge_soft_404
from core.page_classes import PageClass

MARKS: dict[str, str] = {**challenge.MARKS, **challenge.CONSENT_MARKS}
NEEDLES: tuple[str, ...] = (*challenge.NEEDLES, *missing_page.NEEDLES)


SURE = 0.7  # a finding, or several together, must make us so sure
_SENTENCES = 5
_SENTENCE_CHARS = 200
_HTML = ("text/html", "application/xhtml+xml")


@dataclass(frozen=True, slots=True)
class PageClassification:
    """Class of a page, its probability from 0 to 1, and the evidence as sentences."""

    kind: PageClass = PageClass.UNJUDGED
    score: float = 0.0
    evidence: tuple[str, ...] = ()


NOT_JUDGED = PageClassification()

# Asked in this order; of two that are equally sure the first is believed.
_JUDGES: tuple[tuple[PageClass, Callable[[PageEvidence], ClassFindings]], ...] = (
    (PageClass.CHALLENGE, judge_challenge),
    (PageClass.PARKED, judge_parked),
    (PageClass.LOGIN_WALL, judge_login_wall),
    (PageClass.CONSENT_WALL, judge_consent_wall),
    (PageClass.SOFT_404, judge_soft_404),
    (PageClass.NEAR_EMPTY, judge_near_empty),
)
# Classes that take precedence over an error status: recognised by more than wording.
_BEHIND_ERRORS = frozenset({PageClass.CHALLENGE, PageClass.PARKED, PageClass.LOGIN_WALL})


def classify(page: PageEvidence) -> PageClassification:
    """Classify a page; UNJUDGED when there is no page, or it could not be inspected."""
    if page.status is None:
        return NOT_JUDGED
    is_error = page.status >= 400
    best = NOT_JUDGED
    doubt = 0.0
    if page.mime in _HTML:
        for kind, judge in _JUDGES:
            if is_error and kind not in _BEHIND_ERRORS:
                continue
            case = judge(page)
            doubt = max(doubt, case.score)
            if round(case.score, 4) >= SURE and case.score > best.score:
                sentences = tuple(each[:_SENTENCE_CHARS] for each in case.evidence[:_SENTENCES])
                best = PageClassification(kind, round(case.score, 2), sentences)
            if kind is PageClass.CHALLENGE and best.kind is kind:
                return best  # whatever else the challenge page contains
    if best.kind is not PageClass.UNJUDGED:
        return best
    if is_error:
        return PageClassification(PageClass.HTTP_ERROR, 1.0, (f"The document came with status {page.status}.",))
    if page.mime in _HTML and page.traits is None:
        return NOT_JUDGED
    return PageClassification(PageClass.OK, round(1.0 - doubt, 2))
