"""What it means for a copy that the archive does not hold a part as it was captured (pure)."""

from collections.abc import Sequence

from core.pages import PageInfo, PageResource
from core.quality import LostPart, Verdict
from core.records import ArtifactKind, parse_artifact_uri
from render.compare.resources import KINDS, TINY_BYTES


def weighed(lost: Sequence[LostPart], page: PageInfo | None, level: str) -> Verdict:
    """What to think of the copy, by these losses alone: BROKEN when it is made of one of them.

    A part that the level does not show, and evidence such as a picture or the text, are reasons for
    doubt. Pixels that nobody sees are none, however many.

    Args:
        lost: what is not held; at least one.
        page: its manifest; None when even that cannot be read.
        level: of the copy.
    """
    shown = {"Document", *KINDS.get(level, ())}
    parts = page.resources if page is not None else ()
    tiny = {each.url for each in parts if _is_tiny(each)}
    needed = {each.url for each in parts if each.resource_type in shown} - tiny
    if any(each.url in needed or _is_copy(each.url) for each in lost):
        return Verdict.BROKEN
    return Verdict.GOOD if all(each.url in tiny for each in lost) else Verdict.DOUBTFUL


def told(lost: Sequence[LostPart]) -> str:
    """What is lost, as a sentence."""
    first = lost[0]
    more = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
    return f"The archive does not hold what was captured: {first.url} ({first.reason}){more}."


def _is_tiny(part: PageResource) -> bool:
    return part.resource_type == "Image" and 0 < (part.wire_bytes or 0) <= TINY_BYTES


def _is_copy(url: str) -> bool:
    """Whether copies are made from it: the final document."""
    artifact = parse_artifact_uri(url)
    return artifact is not None and artifact[0] is ArtifactKind.DOM
