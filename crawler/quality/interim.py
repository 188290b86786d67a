"""What stands in for the verdict until it is here."""

from dataclasses import dataclass

from core.quality import Fault, Verdict
from render.compare.pictures import PictureComparison
from render.compare.resources import ResourceComparison
from render.compare.texts import TextComparison


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
