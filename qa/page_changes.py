"""Changes of a page: between two captures or a capture and the live page, and between two playbacks.

Words count before pictures: a page with a new design keeps its words. With too few words the picture decides, and
without either the result is undecided. The playback of one capture is compared before and after an upgrade: both views
with each other, and each with the capture (docs/how-to/quality.md).
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from core.json_values import json_facts
from core.page_classes import PageClass
from core.playback_check import PlaybackCheck, PlaybackFault, QaVerdict
from links.check_result import CheckVerdict
from links.checker import browser_check
from links.checker.browser_check import PageLikeness, PageText, VisitSummary, page_likeness, result_of_visit
from qa.compare.content_comparison import TextComparison, compare_texts
from qa.compare.picture_comparison import PictureComparison, compare_if_readable

SAME_TEXT = 0.995  # score of `compare_texts`: a clock in the footer is not a change
SAME_PICTURE = 0.995
MOST_WORDS = 0.6  # of the older text's runs of words: below, it was rewritten
MOST_PICTURE = 0.7  # score of `compare_pictures`
LITTLE_PICTURE = 0.3  # below this nothing of the old picture is left
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSnapshot(VisitSummary):
    """Page as seen by one visit; None in place of what was not stored."""

    captured_at: datetime
    page_id: str = ""
    title: str = ""
    text: str | None = None  # visible text
    picture: bytes | None = field(default=None, repr=False)  # of the whole page rather than of the viewport
    outlinks: frozenset[str] | None = None  # absolute URLs
    parts: frozenset[str] | None = None  # URLs of parts that were loaded


@dataclass(frozen=True, slots=True)
class UrlDifferences:
    """Differences of two sets of URLs in alphabetical order, up to the first `MOST_NAMED`."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    added_count: int
    removed_count: int
    kept_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentChanges:
    """Comparisons of two texts and of two pictures; None when one is missing or unreadable."""

    text: TextComparison | None = None
    picture: PictureComparison | None = None

    @property
    def likeness(self) -> float:
        """Return the lower of both scores; 1 when nothing was compared."""
        return min((each.score for each in (self.picture, self.text) if each), default=1.0)


@dataclass(frozen=True, slots=True)
class PageChanges(ContentChanges):
    """Changes between two snapshots; None in place of what cannot be compared."""

    drift: PageDrift  # kind of change
    reason: str = ""  # the evidence, a sentence; empty when nothing changed
    words: float | None = None  # share of the older text's runs of three words that the newer has
    title: float | None = None  # share of both titles' words that are in both
    owner_signs: tuple[str, ...] = ()  # phrases of parked domains that the older page did not have
    links: UrlDifferences | None = None  # of outlinks
    parts: UrlDifferences | None = None

    @property
    def distance(self) -> float:
        """Return a sort key of the amount of change: greater is further; undecided comes last."""
        return _DISTANCE[self.drift] + (1.0 - self.likeness) * 0.999


def compare_snapshots(then: PageSnapshot, now: PageSnapshot, *, heat: bool = False) -> PageChanges:
    """Compare two snapshots of a page; an unreadable picture counts as missing; `heat` draws a heat map, too."""
    words = page_likeness(PageText(then.title, then.text or ""), PageText(now.title, now.text or ""))
    content = _compare_content((then.text, now.text), (then.picture, now.picture), heat=heat)
    if content.text is None:  # a text that was not stored is not an empty one
        words = replace(words, text=None)
    drift, reason = _page_drift(then, now, words, content)
    return PageChanges(
        drift=drift,
        reason=reason,
        words=words.text,
        title=words.title,
        text=content.text,
        picture=content.picture,
        owner_signs=words.usurper_words,
        links=_differing(then.outlinks, now.outlinks),
        parts=_differing(then.parts, now.parts),
    )


def _compare_content(
    texts: tuple[str | None, str | None], pictures: tuple[bytes | None, bytes | None], *, heat: bool
) -> ContentChanges:
    text = None if texts[0] is None or texts[1] is None else compare_texts(texts[0], texts[1])
    return ContentChanges(text=text, picture=compare_if_readable(*pictures, heat=heat))


def changes_as_json(changes: PageChanges, then: PageSnapshot, now: PageSnapshot) -> dict[str, Any]:
    """Convert the changes to a JSON object, without pictures."""
    return {
        "url": now.url,
        **json_facts(changes, "drift reason owner_signs"),
        "distance": round(changes.distance, 4),
        "words": _rounded(changes.words),
        "title_alike": _rounded(changes.title),
        "text": _score(changes.text),
        "picture": _score(changes.picture),
        "links": None if changes.links is None else asdict(changes.links),
        "parts": None if changes.parts is None else asdict(changes.parts),
        "then": _snapshot_facts(then),
        "now": _snapshot_facts(now),
    }


def _page_drift(
    then: PageSnapshot, now: PageSnapshot, words: PageLikeness, content: ContentChanges
) -> tuple[PageDrift, str]:
    text, picture = content.text, content.picture
    before, after = result_of_visit(then).verdict, result_of_visit(now).verdict
    if after is not CheckVerdict.OK and after is not before:
        evidence = "; ".join(now.evidence[:2]) or now.reason or _status(now)
        return _NO_PAGE.get(after, PageDrift.UNKNOWN), evidence
    if before is not CheckVerdict.OK and after is CheckVerdict.OK:
        return PageDrift.UNKNOWN, f"The older capture is not the page: {_status(then)}."
    if words.usurper_words:
        return PageDrift.OTHER_OWNER, f"It mentions {', '.join(words.usurper_words[:5])}."
    if words.text is not None:
        drift = _drift_by_words(words, text, picture)
    elif picture is not None and not picture.seen_blank:
        drift = _drift_by_picture(words, text, picture.score)
    elif text is not None and text.words_seen and text.score >= SAME_TEXT:
        drift = PageDrift.UNCHANGED, ""  # few words, but equal ones
    else:
        drift = PageDrift.UNKNOWN, "Neither words nor pictures can be compared."
    if drift[0] is PageDrift.UNCHANGED and then.title != now.title and words.title != 1.0:
        return PageDrift.LITTLE, "The title is different."
    return drift


def _drift_by_words(
    words: PageLikeness, text: TextComparison | None, picture: PictureComparison | None
) -> tuple[PageDrift, str]:
    share = words.text or 0.0
    still_there = f"{round(100 * share)} % of the words are still there"
    looks = None if picture is None else picture.score
    if share < browser_check.STILL_THERE:
        drift = PageDrift.REWRITTEN
        if (words.title or 0.0) >= browser_check.SAME_TITLE:
            reason = f"The title is the same; {still_there}."
        elif text is not None and text.score >= browser_check.SAME_WORDS:
            reason = f"The words are in another order; {still_there} in their places."
        elif looks is not None and looks >= browser_check.SAME_LOOK:
            reason = f"It looks the same; {still_there}."
        else:
            drift, reason = PageDrift.OTHER_PAGE, f"The title is different; {still_there}."
        return drift, reason
    if share < MOST_WORDS:
        return PageDrift.REWRITTEN, f"{still_there}."
    if text is None or text.score < SAME_TEXT:
        return PageDrift.LITTLE, f"{still_there}{'' if looks is None else f'; {_look(looks)}'}."
    if looks is None or looks >= SAME_PICTURE:
        return PageDrift.UNCHANGED, ""
    if looks < LITTLE_PICTURE:
        return PageDrift.REWRITTEN, "The words are the same, the picture is different."
    return PageDrift.LITTLE, f"The words are the same; {_look(looks)}."


def _drift_by_picture(words: PageLikeness, text: TextComparison | None, looks: float) -> tuple[PageDrift, str]:
    if looks >= SAME_PICTURE and (text is None or text.score >= SAME_TEXT):
        return PageDrift.UNCHANGED, ""
    if looks >= MOST_PICTURE:
        return PageDrift.LITTLE, f"{_look(looks).capitalize()}."
    few = f"Too few words to compare; {_look(looks)}"
    if looks >= LITTLE_PICTURE or (words.title or 0.0) >= browser_check.SAME_TITLE:
        return PageDrift.REWRITTEN, f"{few}."
    return PageDrift.OTHER_PAGE, f"{few}, and the title is different."


def _look(score: float) -> str:
    return f"{round(100 * score)} % of the picture is the same"


def _status(page: PageSnapshot) -> str:
    page_class = page.page_class if page.page_class not in ("", PageClass.OK) else ""
    return ", ".join(each for each in (page_class, f"status {page.status}", page.reason) if each)


def _differing(then: frozenset[str] | None, now: frozenset[str] | None) -> UrlDifferences | None:
    if then is None or now is None:
        return None
    added, removed = (tuple(sorted(urls)[:MOST_NAMED]) for urls in (now - then, then - now))
    return UrlDifferences(added, removed, len(now - then), len(then - now), len(then & now))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _score(comparison: TextComparison | PictureComparison | None) -> float | None:
    return None if comparison is None else round(comparison.score, 4)


def _snapshot_facts(page: PageSnapshot) -> dict[str, Any]:
    return {**json_facts(page, "url page_id captured_at final_url status title outcome"), "class": str(page.page_class)}


@dataclass(frozen=True, slots=True)
class BaselineView:
    """View of a page: its check, a lossless PNG or WebP, and the visible text; None when missing."""

    check: PlaybackCheck
    picture: bytes | None = None
    text: str | None = None


SAME = 0.999  # a score from here on is that of the same picture, or text
STEP = 0.01  # smaller changes of the score are ignored
LOST_SHARE = 0.02  # share of the shown content that may be lost before it counts as worse
_RANKS = {QaVerdict.BROKEN: 0, QaVerdict.DOUBTFUL: 1, QaVerdict.GOOD: 2}


class RegressionKind(StrEnum):
    """Direction of change of a page's playback."""

    WORSE = "worse"
    GONE = "gone"  # it is not in the archive any more, or was taken down
    CHANGED = "changed"
    BETTER = "better"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class PlaybackRegression(ContentChanges):
    """Change of one page's playback."""

    kind: RegressionKind  # direction of change
    reason: str  # a sentence; empty when it is unchanged
    before: PlaybackCheck  # check before the upgrade
    after: PlaybackCheck  # present check

    @property
    def step(self) -> float | None:
        """Return the change of the score against the capture; None when one is missing."""
        if self.before.score is None or self.after.score is None:
            return None
        return self.after.score - self.before.score


def compare_playback(before: BaselineView, after: BaselineView, *, heat: bool = False) -> PlaybackRegression:
    """Compare two views of a page; with `heat`, draw a heat map of the differences, too."""
    was, is_ = before.check, after.check
    if not (_is_shown(was) and _is_shown(is_)):
        kind, reason = RegressionKind.UNCHANGED, ""
        if _is_shown(is_):
            kind, reason = RegressionKind.BETTER, f"It was not shown: {was.reason}"
        elif _is_shown(was):
            is_worse = PlaybackFault.NOT_SHOWN in is_.faults
            kind = RegressionKind.WORSE if is_worse else RegressionKind.GONE
            reason = f"It is no longer shown: {is_.reason}"
        return PlaybackRegression(kind, reason, was, is_)
    content = _compare_content((before.text, after.text), (before.picture, after.picture), heat=heat)
    unjudged = PlaybackRegression(RegressionKind.UNCHANGED, "", was, is_, text=content.text, picture=content.picture)
    kind, reason = _regression_kind(unjudged)
    return replace(unjudged, kind=kind, reason=reason)


def count_by_kind(regressions: Iterable[PlaybackRegression]) -> dict[RegressionKind, int]:
    """Count pages by direction of change; every direction has an entry."""
    counts = Counter(each.kind for each in regressions)
    return {kind: counts[kind] for kind in RegressionKind}


def regression_as_json(regression: PlaybackRegression) -> dict[str, Any]:
    """Convert to a JSON object."""
    return {
        **json_facts(regression.after, "page_id url"),
        **json_facts(regression, "kind reason"),
        "picture": _score(regression.picture),
        "text": _score(regression.text),
        "before": json_facts(regression.before, "verdict score"),
        "after": json_facts(regression.after, "verdict score"),
    }


def sort_worst_first(regressions: Iterable[PlaybackRegression]) -> list[PlaybackRegression]:
    """Sort in the order of review, the worst first."""
    order = list(RegressionKind).index
    return sorted(regressions, key=lambda each: (order(each.kind), each.step or 0.0, each.likeness, each.after.url))


def _is_shown(check: PlaybackCheck) -> bool:
    return check.verdict is not QaVerdict.UNCHECKED and PlaybackFault.NOT_SHOWN not in check.faults


def _regression_kind(pages: PlaybackRegression) -> tuple[RegressionKind, str]:
    step = pages.step or 0.0
    was, is_ = pages.before, pages.after
    against = f"Its similarity to the capture changed from {was.score or 0.0:.3f} to {is_.score or 0.0:.3f}."
    fell = _RANKS.get(is_.verdict, 0) - _RANKS.get(was.verdict, 0)
    if step <= -STEP or (fell < 0 and step < 0):
        return RegressionKind.WORSE, f"{against} {is_.reason}".strip()
    if step >= STEP:
        return RegressionKind.BETTER, against
    if pages.likeness >= SAME:
        return RegressionKind.UNCHANGED, ""
    picture, text = pages.picture, pages.text
    if picture is not None and (picture.verdict is QaVerdict.BROKEN or picture.lost > LOST_SHARE):
        share, loss = picture.lost, "what was drawn is missing"
    elif text is not None and text.kept < 1 - LOST_SHARE:
        share, loss = 1 - text.kept, "the words are missing"
    else:
        return RegressionKind.CHANGED, f"Both pictures are similar by {100 * pages.likeness:.1f} %."
    return RegressionKind.WORSE, f"{100 * share:.1f} % of {loss} any more."
