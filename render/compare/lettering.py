"""What became of text, as far as a picture tells: other colours, or other words in the same layout.

A page in its dark colours has every line where it was, darker or brighter; a page in another language,
or another entry of a register, has the same boxes and pictures, and other letters in its lines.
"""

import numpy as np

from render.compare.damage import CHANGED, DRAWN, Damage
from render.compare.sheets import TILE_PX, Flags, Grey, chunks
from render.compare.tiles import Tiles

# Correlation of brightness, either way round; tiles that have nothing in common hardly ever reach it.
_FOLLOWS = 0.8
_CONTRAST = 60  # of 255, from a tile's darkest to its brightest pixel: letters have it
_ONE_COLOUR = 12  # of 255
_FEWEST, _MOST = 0.35, 0.93  # of a tile's pixels: the ground that letters leave


def recoloured(tiles: Tiles, damage: Damage) -> Flags:
    """Which tiles are changed, but have the same lines in other colours."""
    drawn = (tiles.range_seen >= DRAWN) & (tiles.range_shown >= DRAWN)
    found: Flags = drawn & (damage.kinds == CHANGED) & (np.abs(tiles.follows) >= _FOLLOWS)
    return found


def rewritten(seen: Grey, tiles: Tiles, damage: Damage) -> float:
    """Share of the tiles with text whose text is another; text in other colours is the same."""
    other = (damage.kinds == CHANGED) & ~recoloured(tiles, damage)
    sharp = tiles.range_seen >= _CONTRAST
    if not (other & sharp).any():
        return 0.0
    written = _written(seen, sharp)
    return float((written & other).sum()) / max(int(written.sum()), 1)


def _written(grey: Grey, sharp: Flags) -> Flags:
    """Which of the sharp tiles hold text: much of them has one colour, their darkest or brightest."""
    found = np.zeros_like(sharp)
    for first, end in chunks(len(sharp)):
        rows, columns = np.nonzero(sharp[first:end])
        part = grey[first * TILE_PX : end * TILE_PX]
        boxes = part.reshape(end - first, TILE_PX, -1, TILE_PX)[rows, :, columns]
        flat = boxes.reshape(len(rows), TILE_PX * TILE_PX)
        # The contrast is so large that neither leaves a byte.
        bright = flat >= flat.max(1, keepdims=True) - _ONE_COLOUR
        dark = flat <= flat.min(1, keepdims=True) + _ONE_COLOUR
        share = np.maximum(bright.mean(1), dark.mean(1))
        found[rows + first, columns] = (share >= _FEWEST) & (share <= _MOST)
    return found
