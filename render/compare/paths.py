"""The cheapest way down each strip of a page: at which of the likely offsets its bands of rows stand."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render.compare.sheets import TILE_PX, Floats, Grey

_BAND_PX = 8
_TALL_BAND_PX = 16  # of pictures that are higher than `_TALL_PX`
_TALL_PX = 2_500
_FAR = 40  # of 255: profiles that far apart are as unlike as can be
_FULL = 0.25  # share of a band's tiles that need be as unlike as can be, for all of it to be so
_CHANGE = 1.2  # what a change of offset costs, in bands that do not fit at all
_AWAY = 0.01  # what a band costs that is elsewhere than it was
_FITS = 0.25  # a band that costs less is found again
_FEW_BANDS = 3  # that an offset must mend to be believed
_MOST_REFINED = 300  # changes of offset whose row is found exactly

Places = NDArray[np.int32]


def find_moves(
    seen: Grey, shown: Grey, likely: list[int], bounds: list[int]
) -> tuple[Places, Floats]:
    """By how many rows each row of `seen` moved, and how badly it fits there, 0 to 1: strips by rows.

    `likely` are the offsets to choose from, the first of them 0; `bounds` the strips' left edges.
    """
    band = _BAND_PX if len(seen) <= _TALL_PX else _TALL_BAND_PX
    profiles = _profile(seen), _profile(shown)
    parts = [bound // TILE_PX for bound in bounds]
    costs = np.stack([_costs(*profiles, offset, parts, band) for offset in likely])
    helps = _helpful(costs)
    offsets = np.array(likely, np.int32)[helps]
    chosen = _cheapest(costs[helps])
    fits = np.take_along_axis(costs[helps], chosen[None], 0)[0]
    moves = np.repeat(offsets[chosen], band, axis=0)[: len(seen)]
    if len(offsets) > 1:
        _refine(moves, profiles, parts, band)
    return moves.T, np.repeat(fits, band, axis=0)[: len(seen)].T


def _profile(grey: Grey) -> Grey:
    """The rows, each tile's width of them as its mean."""
    return np.asarray(Image.fromarray(grey).reduce((TILE_PX, 1)))


def _costs(seen: Grey, shown: Grey, offset: int, parts: list[int], band: int) -> Floats:
    """How badly each band of each strip fits at an offset, 0 to 1."""
    bands = -(-len(seen) // band)
    apart = np.full((bands * band, seen.shape[1]), np.uint8(_FAR))
    apart[len(seen) :] = 0
    top, end = max(0, -offset), min(len(seen), len(shown) - offset)
    if end > top:
        apart[top:end] = _apart(seen[top:end], shown[top + offset : end + offset])
    by_band = apart.reshape(bands, band, -1).sum(1, dtype=np.uint16).astype(np.float32)
    found = np.add.reduceat(by_band, parts, axis=1)
    columns = np.diff([*parts, seen.shape[1]])
    # A strip is mostly ground: what fits badly fits badly where something is drawn.
    found /= (columns * (band * _FAR * _FULL)).astype(np.float32)
    costs: Floats = np.minimum(found, 1, out=found) + np.float32(_AWAY if offset else 0)
    return costs


def _apart(one: Grey, other: Grey) -> Grey:
    found: Grey = np.minimum(np.maximum(one, other) - np.minimum(one, other), np.uint8(_FAR))
    return found


def _helpful(costs: Floats) -> NDArray[np.bool_]:
    """Which offsets fit some bands that do not fit where they were; the first always."""
    mended = ((costs < _FITS) & (costs[0] > 2 * _FITS)).sum((1, 2))
    helpful: NDArray[np.bool_] = mended >= _FEW_BANDS
    helpful[0] = True
    return helpful


def _cheapest(costs: Floats) -> NDArray[np.intp]:
    """For each band and strip the number of the offset that the cheapest way has there."""
    count, bands, strips = costs.shape
    chosen = np.zeros((bands, strips), np.intp)
    if count == 1:
        return chosen
    own, each = np.arange(count)[:, None], np.arange(strips)
    total = costs[:, 0]
    came = np.empty((bands, count, strips), np.int8)
    for band in range(1, bands):
        best = total.argmin(0)
        changed = total[best, each] + np.float32(_CHANGE)
        came[band] = np.where(total <= changed, own, best)
        total = np.minimum(total, changed) + costs[:, band]
    chosen[-1] = total.argmin(0)
    for band in range(bands - 1, 0, -1):
        chosen[band - 1] = came[band, chosen[band], each]
    return chosen


def _refine(moves: Places, profiles: tuple[Grey, Grey], parts: list[int], band: int) -> None:
    """Put each change of offset at the row where it fits best, within the two bands that it parts."""
    rows, strips = np.nonzero(moves[1:] != moves[:-1])
    edges = [*parts, profiles[0].shape[1]]
    for last, strip in zip(
        rows[:_MOST_REFINED].tolist(), strips[:_MOST_REFINED].tolist(), strict=True
    ):
        first, end = max(last + 1 - band, 0), min(last + 1 + band, len(moves))
        columns = slice(edges[strip], edges[strip + 1])
        before, after = int(moves[last, strip]), int(moves[last + 1, strip])
        here = np.arange(first, end)
        apart = [_row_costs(profiles, here, offset, columns) for offset in (before, after)]
        # Before a split at k the rows cost what they do at the one offset, from it on at the other.
        splits = np.concatenate(([0], np.cumsum(apart[0] - apart[1])))
        split = first + int(splits.argmin())
        moves[first:split, strip] = before
        moves[split:end, strip] = after


def _row_costs(
    profiles: tuple[Grey, Grey], rows: NDArray[np.intp], offset: int, columns: slice
) -> NDArray[np.int64]:
    seen, shown = profiles
    there = rows + offset
    known = (there >= 0) & (there < len(shown))
    apart = _apart(seen[rows, columns], shown[np.clip(there, 0, len(shown) - 1), columns])
    costs = apart.sum(1, dtype=np.int64)
    worst = _FAR * (columns.stop - columns.start)
    found: NDArray[np.int64] = np.where(known, costs, worst)
    return found
