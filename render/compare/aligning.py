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
from PIL import Image

from render.compare.anchors import offsets
from render.compare.opening import Pixels
from render.compare.sheets import TILE_PX, Floats, Grey, Sheet, greys

STRIP_TILES = 10
BAND_PX = 8
_FAR = 40  # of 255: profiles that far apart are as unlike as can be
_CHANGE = 1.2  # what a change of offset costs, in bands that do not fit at all
_AWAY = 0.01  # what a band costs that is elsewhere than it was
_FITS = 0.25  # a band that costs less is found again
_FEW_BANDS = 3  # that an offset must mend to be believed
_OUT = 0.5  # what a row costs for which there is none

Rows = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Alignment:
    """How rows of two pictures belong together.

    Attributes:
        rows: for each strip and row of the seen picture its row in the shown one; -1: there is none.
        free: for each strip and row of the shown picture, whether no row of the seen one claims it.
        bounds: left edges of the strips in pixels, and the right edge of the last.
        moved: share of the rows that stand elsewhere.
        in_place: every row stands where it stood.
    """

    rows: Rows
    free: NDArray[np.bool_]
    bounds: tuple[int, ...]

    moved: float
    in_place: bool


def align(seen: Sheet, shown: Sheet) -> Alignment:
    """Find for each row of `seen` its row of `shown`; both sheets are equally wide."""
    width = seen.pixels.shape[1]
    edges = [*range(0, width, STRIP_TILES * TILE_PX), width]
    one, other = greys(seen.pixels[: seen.height]), greys(shown.pixels[: shown.height])
    likely = offsets(one, other, edges[:-1])
    if likely == [0]:
        rows = np.tile(np.arange(seen.height, dtype=np.int32), (len(edges) - 1, 1))
        rows[:, shown.height :] = -1
    else:
        costs = _costs(one, other, likely, edges)
        helpful = _helpful(costs)
        likely = [offset for offset, helps in zip(likely, helpful, strict=True) if helps]
        rows = _rows(costs[helpful], likely, (seen.height, shown.height))
    return _settled(rows, shown.height, tuple(edges))


def _costs(one: Grey, other: Grey, likely: list[int], edges: list[int]) -> Floats:
    """How badly each band of each strip fits at each offset: offsets by bands by strips, 0 to 1."""
    first, second = _profile(one), _profile(other)
    bands = -(-len(first) // BAND_PX)
    parts = [edge // TILE_PX for edge in edges[:-1]]
    found = np.empty((len(likely), bands, len(parts)), np.float32)
    for at, offset in enumerate(likely):
        apart = np.full((bands * BAND_PX, first.shape[1]), np.uint8(_FAR * _OUT))
        apart[len(first) :] = 0
        top, end = max(0, -offset), min(len(first), len(second) - offset)
        if end > top:
            a, b = first[top:end], second[top + offset : end + offset]
            apart[top:end] = np.minimum(np.maximum(a, b) - np.minimum(a, b), _FAR)
        by_band = apart.reshape(bands, BAND_PX, -1).sum(1, dtype=np.uint16).astype(np.float32)
        found[at] = np.add.reduceat(by_band, parts, axis=1)
    columns = np.diff([*parts, first.shape[1]])
    # A strip is mostly ground: what fits badly fits badly where something is drawn.
    found /= (columns * (BAND_PX * _FAR * 0.25)).astype(np.float32)
    found += np.where(np.array(likely) == 0, 0.0, _AWAY)[:, None, None].astype(np.float32)
    return np.minimum(found, 1.0 + _AWAY, out=found)


def _helpful(costs: Floats) -> NDArray[np.bool_]:
    """Which offsets fit some bands that do not fit where they were; the first always."""
    mended = ((costs < _FITS) & (costs[0] > 2 * _FITS)).sum((1, 2))
    helpful: NDArray[np.bool_] = mended >= _FEW_BANDS
    helpful[0] = True
    return helpful


def _profile(grey: Grey) -> Grey:
    """The rows, each tile's width of them as its mean."""
    return np.asarray(Image.fromarray(grey).reduce((TILE_PX, 1)))


def _rows(costs: Floats, likely: list[int], heights: tuple[int, int]) -> Rows:
    """The rows of the cheapest way down each strip."""
    count, bands, strips = costs.shape
    own = np.arange(count)[:, None]
    total = costs[:, 0].copy()
    came = np.empty((bands, count, strips), np.int8)
    for band in range(1, bands):
        best = total.argmin(0)
        changed = total[best, np.arange(strips)] + _CHANGE
        stays = total <= changed
        came[band] = np.where(stays, own, best)
        total = np.where(stays, total, changed) + costs[:, band]
    chosen = np.empty((bands, strips), np.intp)
    chosen[-1] = total.argmin(0)
    for band in range(bands - 1, 0, -1):
        chosen[band - 1] = came[band, chosen[band], np.arange(strips)]
    moves = np.array(likely, np.int32)[chosen]
    fits = np.take_along_axis(costs, chosen[None], 0)[0]
    return np.stack([_claimed(moves[:, each], fits[:, each], heights) for each in range(strips)])


def _claimed(moves: Rows, fits: Floats, heights: tuple[int, int]) -> Rows:
    """Rows of a strip by its bands' moves; a row that two claim is of the one that it fits better."""
    height, other = heights
    rows = np.arange(height, dtype=np.int32) + np.repeat(moves, BAND_PX)[:height]
    rows[(rows < 0) | (rows >= other)] = -1
    order = np.argsort(-np.repeat(fits, BAND_PX)[:height], kind="stable").astype(np.int32)
    order = order[rows[order] >= 0]
    owner = np.full(other, -1, np.int32)
    owner[rows[order]] = order
    rows[(rows >= 0) & (owner[rows] != np.arange(height))] = -1
    return rows


def _settled(rows: Rows, height: int, edges: tuple[int, ...]) -> Alignment:
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
    return Alignment(rows, free, edges, moved, in_place=not elsewhere.any())


def _gaps(rows: Rows) -> list[tuple[int, int]]:
    """Where rows are -1: first ones, and ends."""
    none = np.concatenate(([False], rows < 0, [False]))
    edges = np.flatnonzero(none[1:] != none[:-1])
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def aligned(shown: Sheet, alignment: Alignment, first: int, end: int) -> Pixels:
    """What is shown for some rows of the seen picture; ground where there is nothing for them."""
    if alignment.in_place and end <= min(alignment.rows.shape[1], len(shown.pixels)):
        return shown.pixels[first:end]
    made = np.empty((end - first, shown.pixels.shape[1], 3), np.uint8)
    for strip, every in enumerate(alignment.rows):
        rows = np.full(end - first, -1, np.int32)
        known = every[first:end]
        rows[: len(known)] = known
        part = slice(alignment.bounds[strip], alignment.bounds[strip + 1])
        for begin, stop in _runs(rows):
            source = int(rows[begin])
            made[begin:stop, part] = (
                shown.pixels[source : source + stop - begin, part] if source >= 0 else shown.ground
            )
    return made


def _runs(rows: Rows) -> list[tuple[int, int]]:
    """First ones and ends of rows that follow each other in both pictures, or are in neither."""
    follows = (np.diff(rows) == 1) | ((rows[1:] < 0) & (rows[:-1] < 0))
    follows &= (rows[1:] >= 0) == (rows[:-1] >= 0)
    breaks = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(rows)]
    return list(pairwise(breaks))
