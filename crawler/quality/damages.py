"""What it means for a copy that the archive does not hold a part as it was captured (pure)."""

from collections.abc import Sequence

from core.pages import PageInfo
from core.quality import LostPart, Verdict
from core.records import ArtifactKind, parse_artifact_uri
from render.compare.resources import KINDS

_TINY_BYTES = 600  # a tracking pixel or a bullet, its head included


def weighed(lost: Sequence[LostPart], page: PageInfo | None, level: str) -> Verdict:
    """What to think of the copy, by these losses alone: BROKEN when it is made of one of them.

    A part that the level does not show, a pixel that nobody sees, and evidence such as a picture or
    the text are reasons for doubt.

    Args:
        lost: what is not held; at least one.
        page: its manifest; None when even that cannot be read.
        level: of the copy.
    """
    shown = {"Document", *KINDS.get(level, ())}
    needed = {
        each.url
        for each in (page.resources if page is not None else ())
        if each.resource_type in shown
        and (each.resource_type != "Image" or (each.wire_bytes or _TINY_BYTES + 1) > _TINY_BYTES)
    }
    if any(each.url in needed or _is_copy(each.url) for each in lost):
        return Verdict.BROKEN
    return Verdict.DOUBTFUL


def told(lost: Sequence[LostPart]) -> str:
    """What is lost, as a sentence."""
    first = lost[0]
    more = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
    return f"The archive does not hold what was captured: {first.url} ({first.reason}){more}."


def _is_copy(url: str) -> bool:
    """Whether copies are made from it: the final document."""
    artifact = parse_artifact_uri(url)
    return artifact is not None and artifact[0] is ArtifactKind.DOM
