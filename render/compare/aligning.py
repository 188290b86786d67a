"""Which row of the shown picture stands for each row of the seen one, strip by strip.

A banner or a line that was put in shifts all that follows, in its column. So the page is cut into
strips from top to bottom, and each strip into bands of a few rows; of the offsets that are likely each
band takes the one at which it fits, and a change of offset costs something (a shortest path, found by
dynamic programming). What no row of the seen picture claims was added; what finds no row is lost.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from render.compare.anchors import offsets
from render.compare.paths import Places, find_moves
from render.compare.sheets import TILE_PX, Floats, Grey, Rows, Sheet

STRIP_TILES = 10
_MOST_PARTS = 500  # of a strip that are put in order; with more there is none


@dataclass(frozen=True, slots=True)
class Alignment:
    """How rows of two pictures belong together.

    Attributes:
        rows: for each strip and row of the seen picture its row in the shown one; -1: there is none.
        free: for each strip and row of the shown picture, whether no row of the seen one claims it.
        bounds: left edges of the strips in pixels, and the right edge of the last.
        moved: share of the rows that stand elsewhere.
    """

    rows: Places
    free: NDArray[np.bool_]
    bounds: tuple[int, ...]

    moved: float


def align(seen: Sheet, shown: Sheet) -> Alignment:
    """Find for each row of `seen` its row of `shown`; both sheets are equally wide."""
    width = seen.rows.grey.shape[1]
    edges = [*range(0, width, STRIP_TILES * TILE_PX), width]
    one, other = seen.rows.grey[: seen.height], shown.rows.grey[: shown.height]
    likely = offsets(one, other, edges[:-1])
    if len(likely) == 1:
        rows = np.tile(np.arange(seen.height, dtype=np.int32), (len(edges) - 1, 1))
        rows[:, shown.height :] = -1
    else:
        found = find_moves(one, other, likely, edges[:-1])
        rows = np.stack([_claimed(*strip, shown.height) for strip in zip(*found, strict=True)])
    return _settled(rows, shown.height, tuple(edges))


def _claimed(moves: Places, fits: Floats, height: int) -> Places:
    """Rows of a strip by their moves; a row that two claim is of the one that it fits better."""
    own = np.arange(len(moves), dtype=np.int32)
    rows = own + moves
    rows[(rows < 0) | (rows >= height)] = -1
    order = np.argsort(-fits, kind="stable").astype(np.int32)
    order = order[rows[order] >= 0]
    owner = np.full(height, -1, np.int32)
    owner[rows[order]] = order
    rows[(rows >= 0) & (owner[rows] != own)] = -1
    return _ordered(rows)


def _ordered(rows: Places) -> Places:
    """The rows without those that would change the order: what is kept is the most that can be."""
    parts = _runs(rows)
    if len(parts) > _MOST_PARTS:
        return rows
    sources = np.array([source for _, _, source in parts])
    lengths = np.array([end - first for first, end, _ in parts])
    most = lengths.copy()
    before = np.full(len(parts), -1)
    for at in range(1, len(parts)):
        fits = np.where(sources[:at] + lengths[:at] <= sources[at], most[:at], 0)
        best = int(fits.argmax())
        if fits[best]:
            most[at], before[at] = most[at] + fits[best], best
    kept = np.full_like(rows, -1)
    at = int(most.argmax()) if parts else -1
    while at >= 0:
        first, end, _ = parts[at]
        kept[first:end] = rows[first:end]
        at = int(before[at])
    return kept


def _settled(rows: Places, height: int, edges: tuple[int, ...]) -> Alignment:
    """Rows that found nothing take what is free between their neighbours': it was drawn in their place."""
    free = np.ones((len(rows), height), np.bool_)
    for strip, own in enumerate(rows):
        free[strip, own[own >= 0]] = False
        for first, end in _gaps(own):
            start = int(own[first - 1]) + 1 if first else 0
            room = free[strip, start : start + end - first]
            count = len(room) if room.all() else int(room.argmin())
            own[first : first + count] = np.arange(start, start + count)
            free[strip, start : start + count] = False
    elsewhere = rows != np.arange(rows.shape[1], dtype=np.int32)
    moved = float((elsewhere & (rows >= 0)).mean())
    return Alignment(rows, free, edges, moved)


def _gaps(rows: Places) -> list[tuple[int, int]]:
    """Where rows are -1: first ones, and ends."""
    none = np.concatenate(([False], rows < 0, [False]))
    edges = np.flatnonzero(none[1:] != none[:-1])
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def aligned(shown: Sheet, alignment: Alignment, first: int, end: int) -> Rows:
    """What is shown for some rows of the seen picture; ground where there is nothing for them."""
    grey = aligned_grey(shown, alignment, first, end)
    return Rows(grey, _taken(shown.rows.pixels, shown.ground, alignment, first, end))


def aligned_grey(shown: Sheet, alignment: Alignment, first: int, end: int) -> Grey:
    """How bright that is."""
    return _taken(shown.rows.grey, shown.bright, alignment, first, end)


def _taken(
    plane: NDArray[np.uint8],
    ground: int | tuple[int, int, int],
    alignment: Alignment,
    first: int,
    end: int,
) -> NDArray[np.uint8]:
    places = alignment.rows[:, first:end]
    count = places.shape[1]
    start = int(places[0, 0]) if places.size else -1
    if start >= 0 and count == end - first and (places == np.arange(start, start + count)).all():
        return plane[start : start + count]
    made = np.empty((end - first, *plane.shape[1:]), np.uint8)
    made[count:] = ground
    for strip, rows in enumerate(places):
        part = made[:count, alignment.bounds[strip] : alignment.bounds[strip + 1]]
        part[...] = plane[rows, alignment.bounds[strip] : alignment.bounds[strip + 1]]
        none = rows < 0
        if none.any():
            part[none] = ground
    return made


def _runs(rows: Places) -> list[tuple[int, int, int]]:
    """Rows that follow each other in both pictures: first, end, and the first in the shown one."""
    none = rows < 0
    parted = ((np.diff(rows) != 1) | none[:-1]) & ~(none[:-1] & none[1:])
    breaks = [0, *(np.flatnonzero(parted) + 1).tolist(), len(rows)]
    return [
        (first, end, int(rows[first]))
        for first, end in pairwise(breaks)
        if first < end and rows[first] >= 0
    ]
