"""Rules and thresholds that turn comparison figures into a verdict. Pure.

A page is broken when a reader does not get what the visitor saw; changes that a page makes by itself between visits,
and a strip or a banner next to it, are not faults. Each rule is a bound on one figure, set on labelled pairs in the
middle of the widest gap between broken pages and others: docs/decisions/025-what-counts-as-broken.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from core.playback_check import PlaybackFault, QaVerdict
from qa.compare.content_comparison import ResourceComparison, TextComparison
from qa.compare.damage_regions import SCREEN_SHAPE, DamageRegion, RegionKind

if TYPE_CHECKING:  # which is judged separately
    from qa.compare.picture_comparison import PictureComparison

# Of advertisements, in CSS pixels (IAB's fixed sizes): the content of such a box differs at every visit.
_ADVERTISEMENTS = (
    (300, 250), (336, 280), (250, 250), (728, 90), (970, 90), (970, 250), (468, 60), (160, 600),
    (120, 600), (300, 600), (320, 50), (320, 100), (300, 50),
)  # fmt: skip
_MOST_ADVERTISEMENTS = 3  # more boxes of one size are a gallery
_BOX_SLACK_PX = 24  # boxes are of whole tiles
# So narrow a picture is from a phone, whose screen is twice as high as wide.
_PHONE_PX, _PHONE_SHAPE = 600, 2.0
_NOTHING = 0.005  # so little is not worth a word


@dataclass(frozen=True, slots=True)
class VerdictThresholds:
    """Bounds of broken and doubtful pages; areas are in screens, other figures are shares."""

    lost: float = 0.12  # share of the content that is not drawn any more
    changed: float = 0.28  # share of the content that has other content in its place
    harm: float = 0.26  # sum of both
    rewritten: float = 0.22  # share of the text that has other text in its place; where the words are unknown
    wall: float = 0.28  # area of an overlay over the page
    emptied: float = 0.10  # area of places that had content in most tiles and now have one colour
    kept: float = 0.70  # least share of the words
    parts: float = 0.55  # least score of the parts
    doubt: float = 0.55  # share of a bound from which a page is doubtful


THRESHOLDS = VerdictThresholds()
_EMPTY, _DRAWN = 0.8, 0.3  # of the tiles of a place that was emptied
_LEAST_PLACE = 0.02  # of a screen: a smaller place is an icon
_EDGE_STRIP = 0.18  # of a screen: a strip at an edge is not higher
_ANOTHER = 0.5  # a blank picture that is so little alike is another one
_DOUBTED = 0.75  # weight of a loss that is doubtful by itself
_FEWEST_WORDS = 12  # for a text to be judged
# Another slide of a carousel: minimum share of the damage in one place, and the maximum size of that place in screens.
_WORDS_OF_PAGE, _ALL_KEPT, _ALONE, _SLIDE = 40, 0.97, 0.8, 0.5
_NOT_QUITE = 0.99  # of a bound


@dataclass(frozen=True, slots=True)
class CopyJudgement:
    """Judgement of a copy."""

    verdict: QaVerdict  # UNCHECKED when nothing was compared
    score: float | None  # the lowest score of the comparisons; None when nothing was compared
    faults: tuple[PlaybackFault, ...]  # faults, each once; those of a doubtful page are possible ones
    reason: str  # a sentence or two for users; empty for a good copy


class _RuleFinding(NamedTuple):
    """Rule that was violated, or nearly; `weight` is 1 at the bound."""

    fault: PlaybackFault
    weight: float
    words: str


def judge_copy(
    picture: "PictureComparison | None",
    text: TextComparison | None = None,
    resources: ResourceComparison | None = None,
    *,
    bounds: VerdictThresholds = THRESHOLDS,
) -> CopyJudgement:
    """Judge a copy by the available comparisons; None: not available."""
    compared = [each.score for each in (picture, text, resources) if each is not None]
    if not compared:
        return CopyJudgement(QaVerdict.UNCHECKED, None, (), "Nothing could be compared.")
    findings = list(_findings(picture, text, resources, bounds))
    if picture is not None and text is not None and _is_slide(picture, text):
        of_picture = (PlaybackFault.OTHER, PlaybackFault.LAYOUT, PlaybackFault.LOST)
        findings = [
            each._replace(weight=min(each.weight, _NOT_QUITE)) if each.fault in of_picture else each
            for each in findings
        ]
    broken = [each for each in findings if each.weight >= 1]
    reported = broken or [each for each in findings if each.weight >= bounds.doubt]
    reported.sort(key=lambda each: -each.weight)
    verdict = QaVerdict.BROKEN if broken else QaVerdict.DOUBTFUL if reported else QaVerdict.GOOD
    return CopyJudgement(
        verdict,
        min(compared),
        tuple(dict.fromkeys(each.fault for each in reported)),
        " ".join(dict.fromkeys(each.words for each in reported)),
    )


def _findings(
    picture: "PictureComparison | None",
    text: TextComparison | None,
    resources: ResourceComparison | None,
    bounds: VerdictThresholds,
) -> Iterator[_RuleFinding]:
    known = text is not None and text.words_seen >= _FEWEST_WORDS
    if picture is not None:
        yield from _of_picture(picture, bounds, words_known=known)
    if text is not None and known:
        missing = 1 - text.kept
        words = f"{missing:.0%} of the words are missing."
        yield _RuleFinding(PlaybackFault.TEXT, _weight(missing, 1 - bounds.kept), words)
    if resources is not None and resources.lost:
        count = len(resources.lost)
        subject = "1 resource is" if count == 1 else f"{count} resources are"
        words = f"{subject} missing: {resources.lost[0].url[:120]}."
        yield _RuleFinding(PlaybackFault.RESOURCES, _weight(1 - resources.score, 1 - bounds.parts), words)
        if resources.main:
            # However complete the rest is: if the picture does not show it, a person should review.
            words = f"A resource that the page depends on is missing: {resources.main[:120]}."
            yield _RuleFinding(PlaybackFault.RESOURCES, _DOUBTED, words)


def _of_picture(
    picture: "PictureComparison", bounds: VerdictThresholds, *, words_known: bool
) -> Iterator[_RuleFinding]:
    if picture.blank:
        yield _RuleFinding(PlaybackFault.BLANK, 2.0, "The replayed page is blank.")
        return
    if picture.seen_blank:
        # Nothing of it can be lost. A different picture needs a person's review.
        words = "The capture is blank, but the copy is not."
        yield _RuleFinding(PlaybackFault.OTHER, _DOUBTED if picture.score < _ANOTHER else 0.0, words)
        return
    excused = _excused(picture)
    regions = [each for each in picture.regions if each not in excused]
    # The share of the harm outside the excused regions.
    harm = picture.lost + picture.changed
    rest = 1 - min(sum(each.share for each in excused) / harm, 1.0) if harm > _NOTHING else 0.0
    lost, changed, recoloured = (share * rest for share in (picture.lost, picture.changed, picture.recoloured))
    screen = _screen(picture.size_seen)
    yield _RuleFinding(PlaybackFault.LOST, _weight(lost, bounds.lost), f"{lost:.0%} of the visible content is missing.")

    def weight(changed: float) -> float:
        return max(_weight(changed, bounds.changed), _weight(lost + changed, bounds.harm))

    other = max(changed - recoloured, 0.0)
    fault = PlaybackFault.OTHER if picture.changed >= picture.lost else PlaybackFault.LAYOUT
    words = f"{lost + other:.0%} of the visible content is missing or different."
    yield _RuleFinding(fault, weight(other), words)
    if recoloured > _NOTHING:  # it is readable, so only doubtful
        words = f"{recoloured:.0%} of the visible content has different colours."
        yield _RuleFinding(PlaybackFault.LAYOUT, min(weight(changed), _NOT_QUITE), words)
    if not words_known:
        share = picture.rewritten * rest
        words = f"{share:.0%} of the text is different."
        yield _RuleFinding(PlaybackFault.OTHER, _weight(share, bounds.rewritten), words)
    walls = [each for each in regions if each.kind is RegionKind.COVERED]
    if walls:
        widest = max(walls, key=_area)
        words = f"An overlay covers {_box(widest)}."
        yield _RuleFinding(PlaybackFault.COVERED, _weight(_area(widest) / screen, bounds.wall), words)
    places = [
        each
        for each in regions
        if each.empty >= _EMPTY
        and each.drawn >= _DRAWN
        and each.kind is not RegionKind.ADDED
        and _area(each) >= _LEAST_PLACE * screen
    ]
    if places:
        area = sum(map(_area, places)) / screen
        largest = max(places, key=_area)
        subject = "1 area is" if len(places) == 1 else f"{len(places)} areas are"
        words = f"{subject} empty that had content; the largest is {_box(largest)}."
        yield _RuleFinding(PlaybackFault.LOST, _weight(area, bounds.emptied), words)


def _is_slide(picture: "PictureComparison", text: TextComparison) -> bool:
    """Return whether the only difference is one place with another picture, as in a carousel, with every word kept."""
    if text.words_seen < _WORDS_OF_PAGE or text.kept < _ALL_KEPT or picture.blank:
        return False
    most = max(picture.regions, key=lambda each: each.share, default=None)
    return (
        most is not None
        and most.kind is RegionKind.CHANGED
        and most.empty < _EMPTY / 2
        and most.share >= _ALONE * (picture.lost + picture.changed)
        and _area(most) <= _SLIDE * _screen(picture.size_seen)
    )


def _excused(picture: "PictureComparison") -> list[DamageRegion]:
    """Return regions that have the shape of a page's own changes: advertisements, edge strips."""
    ads = [
        each
        for each in picture.regions
        if any(
            abs(each.w - width) <= _BOX_SLACK_PX and abs(each.h - height) <= _BOX_SLACK_PX
            for width, height in _ADVERTISEMENTS
        )
    ]
    if len(ads) > _MOST_ADVERTISEMENTS:
        ads = []
    _, height = picture.size_seen
    shown = _screen_height(picture.size_seen)
    strip = _EDGE_STRIP * shown
    edges = [
        each
        for each in picture.regions
        if each not in ads
        and any(
            each.y >= foot - strip - _BOX_SLACK_PX and each.y + each.h <= foot + _BOX_SLACK_PX
            for foot in (strip, shown, height)
        )
    ]
    return ads + edges


def _screen(size: tuple[int, int]) -> float:
    return max(size[0] * _screen_height(size), 1.0)


def _screen_height(size: tuple[int, int]) -> int:
    shape = SCREEN_SHAPE if size[0] > _PHONE_PX else _PHONE_SHAPE
    return min(size[1], round(size[0] * shape))


def _area(region: DamageRegion) -> int:
    return region.w * region.h


def _box(region: DamageRegion) -> str:
    return f"{region.w}x{region.h} at {region.x},{region.y}"


def _weight(value: float, bound: float) -> float:
    return value / bound if bound > 0 else float("inf")
