"""Tiles that are found again a few pixels beside their place.

A scroll bar, a wider column or another rounding moves parts of a page by some pixels, each by its own.
So a damaged tile is looked for around its place in the other picture: first by the means of a few of its
rows at a time, then, where it fits best, by its structure. A sample says whether that is worth while for
all: of tiles that have nothing in common some fit somewhere, too, and in a mirror image as often.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from render.compare.damage import ADDED, Damage
from render.compare.sheets import TILE_PX, Flags, Floats, Grey, chunks
from render.compare.tiles import similarity

SIDEWAYS_PX = 8
UPRIGHT_PX = 2
_EVERY = 4  # rows of a tile that are looked at together, first
_ALIKE = 0.9  # tiles that are more alike need not be looked for
_SAMPLE = 256  # tiles
_WORTH = (
    0.08  # share of the sample that must be found, beyond chance, for the rest to be looked for
)
_SURELY = 0.4  # share that is no chance
_FOUND = 0.75  # structural similarity

Shown = Callable[[int, int], Grey]
_Place = NDArray[np.intp]
_WORD = 8
_EVEN_BYTES = np.uint64(0x00FF00FF00FF00FF)


def found_beside(seen: Grey, shown: Shown, damage: Damage) -> Floats:
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
        share = float((best[few] > _FOUND).mean())
        if share < _WORTH or (share < _SURELY and share - _chance(seen, shown, few) < _WORTH):
            return best
        wanted &= ~few
    _search(seen, shown, wanted, damage.kinds == ADDED, best)
    return best


def _chance(seen: Grey, shown: Shown, few: Flags) -> float:
    """Share of the tiles that are found where they cannot be: in the other picture's mirror image."""
    best = np.full(few.shape, -1, np.float32)

    def mirrored(first: int, end: int) -> Grey:
        return shown(first, end)[:, ::-1]

    _search(seen, mirrored, few, np.zeros_like(few), best)
    return float((best[few] > _FOUND).mean())


def _search(seen: Grey, shown: Shown, wanted: Flags, added: Flags, best: Floats) -> None:
    for first, end in chunks(len(wanted)):
        part = wanted[first:end]
        if not part.any():
            continue
        one = _framed(seen[first * TILE_PX : end * TILE_PX])
        other = _framed(shown(first * TILE_PX, end * TILE_PX))
        for flags, sources in ((~added, (one, other)), (added, (other, one))):
            rows, columns = np.nonzero(part & flags[first:end])
            if len(rows):
                found = _best(*sources, rows * TILE_PX, columns * TILE_PX)
                at = (rows + first, columns)
                best[at] = found


def _framed(grey: Grey) -> Grey:
    """With some pixels more on every side, like those beside them."""
    height, width = grey.shape
    made = np.empty((height + 2 * UPRIGHT_PX, width + 2 * SIDEWAYS_PX), np.uint8)
    inner = made[UPRIGHT_PX:-UPRIGHT_PX]
    inner[:, SIDEWAYS_PX:-SIDEWAYS_PX] = grey
    inner[:, :SIDEWAYS_PX] = grey[:, :1]
    inner[:, -SIDEWAYS_PX:] = grey[:, -1:]
    made[:UPRIGHT_PX], made[-UPRIGHT_PX:] = inner[0], inner[-1]
    return made


def _best(one: Grey, other: Grey, tops: _Place, lefts: _Place) -> Floats:
    """Structural similarity of tiles of the first to where they fit best in the second."""
    tall = TILE_PX - _EVERY + 1
    middle, smeared = tops + UPRIGHT_PX, _smeared(other)
    few = _taken(_smeared(one), middle, lefts + SIDEWAYS_PX, tall, TILE_PX, every=_EVERY)
    rough = _taken(smeared, middle, lefts, tall, TILE_PX + 2 * SIDEWAYS_PX, every=_EVERY)
    side = _least(few, [rough[:, step : step + TILE_PX] for step in range(2 * SIDEWAYS_PX + 1)])[
        : len(tops)
    ]
    rough = _taken(smeared, tops, lefts + side, tall + 2 * UPRIGHT_PX, TILE_PX)
    up = _least(few, [rough[step : step + tall : _EVERY] for step in range(2 * UPRIGHT_PX + 1)])[
        : len(tops)
    ]
    own = _windows(one, TILE_PX, TILE_PX)[middle, lefts + SIDEWAYS_PX]
    there = _windows(other, TILE_PX, TILE_PX)[tops + up, lefts + side]
    shape = (len(own), TILE_PX * TILE_PX)
    flat = own.reshape(shape).astype(np.float32), there.reshape(shape).astype(np.float32)
    return similarity(*flat)[0]


def _smeared(grey: Grey) -> Grey:
    """Each row with those below it, so that few rows tell of all."""
    found = np.zeros((len(grey) - _EVERY + 1, grey.shape[1]), np.uint16)
    for step in range(_EVERY):
        found += grey[step : step + len(found)]
    found //= _EVERY
    return found.astype(np.uint8)


def _windows(grey: Grey, height: int, width: int) -> Grey:
    """Views of all boxes of that size, by their upper and left edges."""
    down, right = grey.strides
    shape = (len(grey) - height + 1, grey.shape[1] - width + 1, height, width)
    return np.ndarray(shape, np.uint8, grey, 0, (down, right, down, right))


def _taken(
    grey: Grey, tops: _Place, lefts: _Place, height: int, width: int, *, every: int = 1
) -> Grey:
    """Boxes at these places, every so many of their rows: rows by columns by boxes.

    There may be some boxes more at the end, so that they are whole words.
    """
    boxes = _windows(grey, height, width)[:, :, ::every][tops, lefts]
    count, rows, columns = boxes.shape
    made = np.zeros((rows, columns, -(-count // _WORD) * _WORD), np.uint8)
    made[..., :count] = boxes.transpose(1, 2, 0)
    return made


def _least(own: Grey, others: list[Grey]) -> _Place:
    """Which of the others each box is nearest to, the first of equal ones."""
    apart = np.empty((len(others), own.shape[2]), np.uint16)
    for step, there in enumerate(others):
        differences = np.maximum(own, there)
        differences -= np.minimum(own, there)
        # Eight bytes are added at a time, in two halves that leave each byte room for its sum.
        words = differences.view(np.uint64)
        sums = apart[step].reshape(-1, _WORD)
        even, odd = words & _EVEN_BYTES, (words >> np.uint64(8)) & _EVEN_BYTES
        sums[:, ::2] = np.add.reduce(even, (0, 1)).view(np.uint16).reshape(-1, _WORD // 2)
        sums[:, 1::2] = np.add.reduce(odd, (0, 1)).view(np.uint16).reshape(-1, _WORD // 2)
    found: _Place = apart.argmin(0)
    return found
