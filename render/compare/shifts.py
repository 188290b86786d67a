"""Tiles that are found again a few pixels beside their place.

A scroll bar, a wider column or another rounding moves parts of a page by some pixels, each by its own.
So a damaged tile is looked for around its place in the other picture: first by the means of a few of its
rows at a time, then,
where it fits best, by its structure. A sample says whether that is worth while for all.
"""

from collections.abc import Callable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from render.compare.damage import ADDED, Damage
from render.compare.sheets import TILE_PX, Flags, Floats, Grey, Rows, chunks
from render.compare.tiles import similarity

SIDEWAYS_PX = 8
UPRIGHT_PX = 2
_EVERY = 4  # rows of a tile that are looked at together, first
_ALIKE = 0.9  # tiles that are more alike need not be looked for
_SAMPLE = 256  # tiles
_WORTH = 0.08  # share of the sample that must be found for the rest to be looked for
_FOUND = 0.75  # structural similarity

Shown = Callable[[int, int], Rows]
_Place = NDArray[np.intp]


def found_beside(seen: Rows, shown: Shown, damage: Damage) -> Floats:
    """Structural similarity of damaged tiles to what is beside their place; -1 where nobody looked."""
    wanted = damage.alike < _ALIKE
    wanted &= (damage.weight_seen == 1) | (damage.kinds == ADDED)
    count = int(wanted.sum())
    best = np.full(wanted.shape, -1, np.float32)
    if not count:
        return best
    if count > 2 * _SAMPLE:
        sample = np.zeros(wanted.size, np.bool_)
        sample[np.flatnonzero(wanted)[:: count // _SAMPLE]] = True
        few = sample.reshape(wanted.shape)
        _search(seen, shown, few, damage.kinds == ADDED, best)
        if float((best[few] > _FOUND).mean()) < _WORTH:
            return best
        wanted &= ~few
    _search(seen, shown, wanted, damage.kinds == ADDED, best)
    return best


def _search(seen: Rows, shown: Shown, wanted: Flags, added: Flags, best: Floats) -> None:
    for first, end in chunks(len(wanted)):
        part = wanted[first:end]
        if not part.any():
            continue
        one = _framed(seen.grey[first * TILE_PX : end * TILE_PX])
        other = _framed(shown(first * TILE_PX, end * TILE_PX).grey)
        for flags, sources in ((~added, (one, other)), (added, (other, one))):
            rows, columns = np.nonzero(part & flags[first:end])
            if len(rows):
                found = _best(*sources, rows * TILE_PX, columns * TILE_PX)
                at = (rows + first, columns)
                best[at] = found


def _framed(grey: Grey) -> Grey:
    return np.pad(grey, ((UPRIGHT_PX, UPRIGHT_PX), (SIDEWAYS_PX, SIDEWAYS_PX)), mode="edge")


def _best(one: Grey, other: Grey, tops: _Place, lefts: _Place) -> Floats:
    """Structural similarity of tiles of the first to where they fit best in the second."""
    windows = sliding_window_view(other, (TILE_PX, TILE_PX))
    own = sliding_window_view(one, (TILE_PX, TILE_PX))[tops + UPRIGHT_PX, lefts + SIDEWAYS_PX]
    tall = TILE_PX - _EVERY + 1
    rough = sliding_window_view(_smeared(other), (tall, TILE_PX))[:, :, ::_EVERY]
    few = sliding_window_view(_smeared(one), (tall, TILE_PX))[:, :, ::_EVERY]
    few = few[tops + UPRIGHT_PX, lefts + SIDEWAYS_PX]
    side = _least(few, rough, tops + UPRIGHT_PX, lefts, sideways=True)
    up = _least(few, rough, tops, lefts + side, sideways=False)
    taken = windows[tops + up, lefts + side]
    shape = (len(own), TILE_PX * TILE_PX)
    flat = own.reshape(shape).astype(np.float32), taken.reshape(shape).astype(np.float32)
    return similarity(*flat)[0]


def _smeared(grey: Grey) -> Grey:
    """Each row with those below it, so that few rows tell of all."""
    found = np.zeros((len(grey) - _EVERY + 1, grey.shape[1]), np.uint16)
    for step in range(_EVERY):
        found += grey[step : step + len(found)]
    return (found // _EVERY).astype(np.uint8)


def _least(
    own: Grey, windows: Grey, tops: _Place, lefts: _Place, *, sideways: bool
) -> NDArray[np.intp]:
    """By how many pixels to go, from the least, to where each tile fits best."""
    steps = 2 * (SIDEWAYS_PX if sideways else UPRIGHT_PX) + 1
    apart = np.empty((steps, len(own)), np.uint32)
    for step in range(steps):
        at = (tops, lefts + step) if sideways else (tops + step, lefts)
        there = windows[at]
        differences = np.maximum(own, there) - np.minimum(own, there)
        apart[step] = differences.reshape(len(own), -1).sum(1, dtype=np.uint32)
    found: _Place = apart.argmin(0)
    return found
