"""Changes of a page between two captures, or between a capture and the live page.

    a visit that found no page                 ─> gone, another owner, hidden, or undecided
    the vocabulary of parked domains           ─> another owner
    the same words, the same picture           ─> unchanged
    most of the words, most of the picture     ─> changed a little
    few of the words under the same title,
      or another picture                       ─> rewritten
    few of the words and another title         ─> another page

Words count before pictures: a page with a new design keeps its words. With too few words the
picture decides, and without either the result is undecided. `compare_snapshots` is a pure function
of two `PageSnapshot`; `qa.snapshot_reader` makes them from the captures of a collection.
"""

from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from links.check_result import CheckVerdict
from links.checker.browser_check import (
    SAME_LOOK,
    SAME_TITLE,
    SAME_WORDS,
    STILL_THERE,
    PageLikeness,
    PageText,
    VisitSummary,
    page_likeness,
    result_of_visit,
)
from qa.compare.picture_comparison import PictureComparison, compare_if_readable
from qa.compare.text_comparison import TextComparison, compare_texts

SAME_TEXT = 0.995  # score of `compare_texts`: a clock in the footer is no news
SAME_PICTURE = 0.995
MOST_WORDS = 0.6  # of the older text's runs of words: below, it was rewritten
MOST_PICTURE = 0.7  # score of `compare_pictures`
LITTLE_PICTURE = 0.3  # below it nothing of the old picture is left
MOST_NAMED = 200  # links and parts that are named on each side


class PageDrift(StrEnum):
    """Kind of change of a page, in user-visible terms."""

    UNCHANGED = "unchanged"
    LITTLE = "changed a little"
    REWRITTEN = "rewritten"
    OTHER_PAGE = "another page"
    OTHER_OWNER = "another owner"
    GONE = "gone"
    HIDDEN = "hidden"  # behind a wall, a login or a bot challenge
    UNKNOWN = "unknown"  # no answer, or nothing to compare


# Distance from the captured page, the most changed first.
_DISTANCE = {
    PageDrift.OTHER_OWNER: 6,
    PageDrift.GONE: 5,
    PageDrift.OTHER_PAGE: 4,
    PageDrift.REWRITTEN: 3,
    PageDrift.HIDDEN: 2,
    PageDrift.LITTLE: 1,
    PageDrift.UNCHANGED: 0,
    PageDrift.UNKNOWN: -1,
}
# Kind of change by the verdict of a visit without a page; failed visits have no entry.
_NO_PAGE = {
    CheckVerdict.GONE: PageDrift.GONE,
    CheckVerdict.SUSPECT: PageDrift.GONE,
    CheckVerdict.USURPED: PageDrift.OTHER_OWNER,
    CheckVerdict.REFUSED: PageDrift.HIDDEN,
    CheckVerdict.FAILING: PageDrift.UNKNOWN,
    CheckVerdict.UNDECIDED: PageDrift.UNKNOWN,
    CheckVerdict.INVALID: PageDrift.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class PageSnapshot:
    """Page as seen by one visit.

    Attributes:
        final_url: URL after redirects.
        reason: reason for which `outcome` is not COMPLETE.
        status: HTTP status of the final document; None without a response.
        mime: its bare media type.
        evidence: evidence for the class.
        text: visible text; None when none was stored.
        picture: PNG, JPEG or WebP, of the whole page rather than of the viewport; None when none
            was stored.
        outlinks: absolute URLs; None when they were not recorded.
        parts: URLs of parts that were loaded; None when they were not recorded.
    """

    url: str
    final_url: str
    captured_at: datetime
    page_id: str = ""
    outcome: VisitOutcome = VisitOutcome.COMPLETE
    reason: str = ""
    status: int | None = None
    mime: str = ""
    title: str = ""
    page_class: PageClass = PageClass.UNJUDGED
    evidence: tuple[str, ...] = ()
    text: str | None = None
    picture: bytes | None = field(default=None, repr=False)
    outlinks: frozenset[str] | None = None
    parts: frozenset[str] | None = None

    def finding(self) -> CheckVerdict:
        """Return the result of the visit alone, as the link registry would record it."""
        seen = VisitSummary(
            url=self.url,
            final_url=self.final_url,
            outcome=self.outcome,
            reason=self.reason,
            status=self.status,
            mime=self.mime,
            page_class=self.page_class,
            evidence=self.evidence,
        )
        return result_of_visit(seen).verdict


@dataclass(frozen=True, slots=True)
class UrlDifferences:
    """Differences of two sets of URLs in alphabetical order, up to the first `MOST_NAMED`."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    added_count: int
    removed_count: int
    kept_count: int


@dataclass(frozen=True, slots=True)
class PageChanges:
    """Changes between two snapshots.

    Attributes:
        drift: kind of change.
        reason: the evidence, a sentence; empty when nothing changed.
        words: share of the older text's runs of three words that the newer has, 0 to 1; None when
            there are too few words.
        title: share of both titles' words that are in both; None when one has none.
        text, picture: comparisons; None when one is missing or unreadable.
        owner_signs: phrases of parked domains that the older page did not have.
        links, parts: differences of outlinks and loaded parts; None when one visit did not record
            them.
    """

    drift: PageDrift
    reason: str = ""
    words: float | None = None
    title: float | None = None
    text: TextComparison | None = None
    picture: PictureComparison | None = None
    owner_signs: tuple[str, ...] = ()
    links: UrlDifferences | None = None
    parts: UrlDifferences | None = None

    @property
    def distance(self) -> float:
        """Return a sort key of the amount of change: greater is further; undecided comes last."""
        scores = [each.score for each in (self.text, self.picture) if each is not None]
        return _DISTANCE[self.drift] + (1.0 - min(scores, default=1.0)) * 0.999


def compare_snapshots(then: PageSnapshot, now: PageSnapshot, *, heat: bool = False) -> PageChanges:
    """Compare the snapshots `then` and `now` of a page.

    Pure, and safe with arbitrary content: texts in linear time, pictures within the limits of
    `compare_pictures`. An unreadable picture counts as missing. `heat` draws a heat map, too.
    """
    found = page_likeness(
        PageText(then.title, then.text or ""), PageText(now.title, now.text or "")
    )
    # A text that was not stored is not an empty one.
    words, text = replace(found, text=None), None
    if then.text is not None and now.text is not None:
        words, text = found, compare_texts(then.text, now.text)
    picture = compare_if_readable(then.picture, now.picture, heat=heat)
    drift, reason = _judged(then, now, words, text, picture)
    return PageChanges(
        drift=drift,
        reason=reason,
        words=words.text,
        title=words.title,
        text=text,
        picture=picture,
        owner_signs=words.usurper,
        links=_differing(then.outlinks, now.outlinks),
        parts=_differing(then.parts, now.parts),
    )


def changes_as_json(found: PageChanges, then: PageSnapshot, now: PageSnapshot) -> dict[str, Any]:
    """Convert the changes to a JSON object, without pictures."""
    picture = found.picture
    return {
        "url": now.url,
        "drift": str(found.drift),
        "reason": found.reason,
        "distance": round(found.distance, 4),
        "words": _rounded(found.words),
        "title_alike": _rounded(found.title),
        "text": None if found.text is None else _rounded(found.text.score),
        "picture": None if picture is None else _rounded(picture.score),
        "owner_signs": list(found.owner_signs),
        "links": None if found.links is None else asdict(found.links),
        "parts": None if found.parts is None else asdict(found.parts),
        "then": _sight_facts(then),
        "now": _sight_facts(now),
    }


def _judged(
    then: PageSnapshot,
    now: PageSnapshot,
    words: PageLikeness,
    text: TextComparison | None,
    picture: PictureComparison | None,
) -> tuple[PageDrift, str]:
    before, after = then.finding(), now.finding()
    if after is not CheckVerdict.OK and after is not before:
        evidence = "; ".join(now.evidence[:2]) or now.reason or _status(now)
        return _NO_PAGE.get(after, PageDrift.UNKNOWN), evidence
    if before is not CheckVerdict.OK and after is CheckVerdict.OK:
        return PageDrift.UNKNOWN, f"The older capture is not the page: {_status(then)}."
    if words.usurper:
        return PageDrift.OTHER_OWNER, f"It speaks of {', '.join(words.usurper[:5])}."
    if words.text is not None:
        found = _by_words(words, text, picture)
    elif picture is not None and not picture.seen_blank:
        found = _by_picture(words, text, picture.score)
    elif text is not None and text.words_seen and text.score >= SAME_TEXT:
        found = PageDrift.UNCHANGED, ""  # few words, but equal ones
    else:
        found = PageDrift.UNKNOWN, "Neither words nor pictures can be compared."
    if found[0] is PageDrift.UNCHANGED and then.title != now.title and words.title != 1.0:
        return PageDrift.LITTLE, "The title is another."
    return found


def _by_words(
    words: PageLikeness, text: TextComparison | None, picture: PictureComparison | None
) -> tuple[PageDrift, str]:
    share = words.text or 0.0
    kept = f"{round(100 * share)} % of the words are still there"
    looks = None if picture is None else picture.score
    if share < STILL_THERE:
        drift = PageDrift.REWRITTEN
        if (words.title or 0.0) >= SAME_TITLE:
            reason = f"The title is the same; {kept}."
        elif text is not None and text.score >= SAME_WORDS:
            reason = f"The words stand in another order; {kept} in their places."
        elif looks is not None and looks >= SAME_LOOK:
            reason = f"It looks as it did; {kept}."
        else:
            drift, reason = PageDrift.OTHER_PAGE, f"The title is another; {kept}."
        return drift, reason
    if share < MOST_WORDS:
        return PageDrift.REWRITTEN, f"{kept}."
    if text is None or text.score < SAME_TEXT:
        return PageDrift.LITTLE, f"{kept}{'' if looks is None else f'; {_look(looks)}'}."
    if looks is None or looks >= SAME_PICTURE:
        return PageDrift.UNCHANGED, ""
    if looks < LITTLE_PICTURE:
        return PageDrift.REWRITTEN, "The words are the same, the picture is another."
    return PageDrift.LITTLE, f"The words are the same; {_look(looks)}."


def _by_picture(
    words: PageLikeness, text: TextComparison | None, looks: float
) -> tuple[PageDrift, str]:
    if looks >= SAME_PICTURE and (text is None or text.score >= SAME_TEXT):
        return PageDrift.UNCHANGED, ""
    if looks >= MOST_PICTURE:
        return PageDrift.LITTLE, f"{_look(looks).capitalize()}."
    few = f"Too few words to compare; {_look(looks)}"
    if looks >= LITTLE_PICTURE or (words.title or 0.0) >= SAME_TITLE:
        return PageDrift.REWRITTEN, f"{few}."
    return PageDrift.OTHER_PAGE, f"{few}, and the title is another."


def _look(score: float) -> str:
    return f"{round(100 * score)} % of the picture is the same"


def _status(sight: PageSnapshot) -> str:
    what = sight.page_class if sight.page_class not in ("", PageClass.OK) else ""
    return ", ".join(each for each in (what, f"status {sight.status}", sight.reason) if each)


def _differing(then: frozenset[str] | None, now: frozenset[str] | None) -> UrlDifferences | None:
    if then is None or now is None:
        return None
    added, removed = (tuple(sorted(urls)[:MOST_NAMED]) for urls in (now - then, then - now))
    return UrlDifferences(added, removed, len(now - then), len(then - now), len(then & now))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _sight_facts(sight: PageSnapshot) -> dict[str, Any]:
    return {
        "url": sight.url,
        "page_id": sight.page_id,
        "captured_at": sight.captured_at.isoformat(),
        "final_url": sight.final_url,
        "status": sight.status,
        "class": str(sight.page_class),
        "title": sight.title,
        "outcome": str(sight.outcome),
    }
