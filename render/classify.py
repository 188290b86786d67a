"""What sort of page a visit was shown, with the evidence for it; pure.

Each class but `ok` has its judge (`render.classing`), who collects findings; what is sure enough and
surest is the page's class. A judge prefers to be silent: an ordinary page that is taken for a wall
would be passed over in favour of an older capture, a wall that is taken for a page is seen as one.

>>> page = Evidence("https://a.example/x", "https://a.example/x", 404)
>>> classify(page).evidence
('The document came with status 404.',)
"""

from collections.abc import Callable
from dataclasses import dataclass

from core.classes import PageClass
from render.classing.challenge import challenge
from render.classing.evidence import Case, Evidence
from render.classing.missing import missing, near_empty
from render.classing.parked import parked
from render.classing.walls import consent_wall, login_wall

SURE = 0.7  # a finding, or several together, must make us so sure
_SENTENCES = 5
_SENTENCE_CHARS = 200
_HTML = ("text/html", "application/xhtml+xml")


@dataclass(frozen=True, slots=True)
class Classification:
    """A page's class, how sure it is, from 0 to 1, and what speaks for it, a sentence each."""

    kind: PageClass = PageClass.UNJUDGED
    score: float = 0.0
    evidence: tuple[str, ...] = ()


NOT_JUDGED = Classification()

# Asked in this order; of two that are equally sure the first is believed.
_JUDGES: tuple[tuple[PageClass, Callable[[Evidence], Case]], ...] = (
    (PageClass.CHALLENGE, challenge),
    (PageClass.PARKED, parked),
    (PageClass.LOGIN_WALL, login_wall),
    (PageClass.CONSENT_WALL, consent_wall),
    (PageClass.SOFT_404, missing),
    (PageClass.NEAR_EMPTY, near_empty),
)
# What a page with an error's status may be all the same: these are known by more than words.
_BEHIND_ERRORS = frozenset({PageClass.CHALLENGE, PageClass.PARKED, PageClass.LOGIN_WALL})


def classify(page: Evidence) -> Classification:
    """The page's class; UNJUDGED when there is no page, or nothing of it could be looked at."""
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
                best = _judged(kind, case)
            if kind is PageClass.CHALLENGE and best.kind is kind:
                return best  # whatever else a challenge looks like
    if best.kind is not PageClass.UNJUDGED:
        return best
    if is_error:
        sentence = f"The document came with status {page.status}."
        return Classification(PageClass.HTTP_ERROR, 1.0, (sentence,))
    if page.mime in _HTML and page.traits is None:
        return NOT_JUDGED
    return Classification(PageClass.OK, round(1.0 - doubt, 2))


def _judged(kind: PageClass, case: Case) -> Classification:
    sentences = tuple(each[:_SENTENCE_CHARS] for each in case.evidence[:_SENTENCES])
    return Classification(kind, round(case.score, 2), sentences)
