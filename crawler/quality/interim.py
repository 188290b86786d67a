"""What stands in for the comparison of parts and the verdict until they are here."""

from collections.abc import Sequence
from dataclasses import dataclass

from core.quality import Fault, LostPart, Verdict
from render.compare.pictures import PictureComparison
from render.compare.texts import TextComparison


@dataclass(frozen=True, slots=True)
class Part:
    """A part."""

    url: str
    kind: str
    status: int | None
    failed: str = ""


@dataclass(frozen=True, slots=True)
class ResourceComparison:
    """Parts compared."""

    score: float
    seen: int
    shown: int
    lost: tuple[LostPart, ...]


def compare_resources(seen: Sequence[Part], shown: Sequence[Part]) -> ResourceComparison:
    """By URL."""
    came = {each.url for each in seen if not each.failed and (each.status or 599) < 400}
    asked = {each.url: each for each in shown if each.url in came}
    lost = tuple(
        LostPart(url, each.failed or f"status: {each.status}")
        for url, each in asked.items()
        if each.failed or (each.status or 599) >= 400
    )
    score = 1 - len(lost) / len(asked) if asked else 1.0
    return ResourceComparison(score, len(asked), len(asked) - len(lost), lost)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict."""

    verdict: Verdict
    score: float | None
    faults: tuple[Fault, ...]
    reason: str


def judge(
    picture: PictureComparison | None,
    text: TextComparison | None,
    resources: ResourceComparison | None,
) -> Judgement:
    """A first one."""
    scores = [each.score for each in (picture, text, resources) if each is not None]
    if not scores:
        return Judgement(Verdict.UNCHECKED, None, (), "Nothing could be compared.")
    faults = list(picture.faults if picture is not None else ())
    if text is not None and text.score < 0.6:
        faults.append(Fault.TEXT)
    if resources is not None and resources.lost:
        faults.append(Fault.RESOURCES)
    score = min(scores)
    broken = score < 0.7 or (picture is not None and picture.verdict is Verdict.BROKEN)
    verdict = Verdict.BROKEN if broken else Verdict.DOUBTFUL if score < 0.9 else Verdict.GOOD
    return Judgement(verdict, score, tuple(faults), "")
