"""What became of each tile of the page, and how much of the page that is.

A tile is drawn when its brightness varies, filled when it is flat but not of the page's ground. Pages
are mostly ground, so tiles weigh by what is in them, and every share is one of weights.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render.compare.aligning import Alignment
from render.compare.sheets import TILE_PX, Flags, Floats, Rows, Sheet, chunks
from render.compare.tiles import Tiles, glance

DRAWN = (
    24  # of 255, from a tile's darkest to its brightest pixel: less is ground, a gradient or noise
)
FILLED_WEIGHT = 0.2
GROUND_WEIGHT = 0.03
ADDED_WEIGHT = 0.25  # what was put in hides nothing, but is not what the visitor saw
_NEAR_GROUND = 18  # of 255, in any of brightness and two colours
_FEW_MISSED = 0.02  # share of a tile's pixels: a cursor, an edge
_MANY_MISSED = 0.12
_UNLIKE, _LIKE = 0.40, 0.75  # structural similarity: below nothing is alike, above it is noise
_UNLIKE_BESIDE, _LIKE_BESIDE = 0.60, 0.85  # of many places tried one fits a little
_BETTER = 0.05
_FLAT_NEAR, _FLAT_FAR = 10, 40  # of 255: between colours of flat tiles
_DIMMED_FOLLOWS = 0.9
_DIMMED_SPREAD = 0.85
_DIMMED_LIKE = 0.4

Kinds = NDArray[np.uint8]
FINE, LOST, CHANGED, ADDED, DIMMED = range(5)


@dataclass(frozen=True, slots=True)
class Damage:
    """What became of each tile of the seen picture.

    Attributes:
        alike: how much of the tile is as it was, 0 to 1.
        kinds: `FINE`, `LOST`, `CHANGED`, `ADDED` or `DIMMED`.
        weight: how much of the page the tile is, by what is drawn in either picture.
        weight_seen: by what is drawn in the seen picture alone; ground weighs nothing.
        weight_shown: the same of the shown one.
    """

    alike: Floats
    kinds: Kinds
    weight: Floats
    weight_seen: Floats
    weight_shown: Floats

    def share(self, *kinds: int) -> float:
        """How much of what is drawn in the seen picture became that; 0 when nothing is drawn."""
        return self.within(np.isin(self.kinds, kinds))

    def within(self, flags: Flags) -> float:
        """How much of what is drawn in the seen picture is damaged there; 0 when nothing is drawn."""
        whole = float(self.weight_seen.sum())
        part = self.weight_seen * (1 - self.alike) * flags
        return float(part.sum()) / whole if whole else 0.0


def judge_tiles(tiles: Tiles, seen: Sheet, shown: Sheet, beside: Floats | None = None) -> Damage:
    """Say what became of each tile; `beside` is its similarity to what is a few pixels away."""
    drawn = tiles.range_seen >= DRAWN, tiles.range_shown >= DRAWN
    filled = (
        ~drawn[0] & _off_ground(tiles.colour_seen, seen.ground),
        ~drawn[1] & _off_ground(tiles.colour_shown, shown.ground),
    )
    weight_seen, weight_shown = (_weights(drawn[at], filled[at]) for at in (0, 1))
    likeness = _likeness(tiles, drawn)
    if beside is not None:
        # Where brightness fits in place, it is the colour that does not, and it would not be looked at.
        found = np.where(beside > tiles.alike + _BETTER, beside, -1)
        likeness = np.maximum(likeness, _ramp(found, _UNLIKE_BESIDE, _LIKE_BESIDE))
    dimmed = _dimmed(tiles, drawn) & (likeness < 1)
    likeness[dimmed] = np.minimum(likeness[dimmed], _DIMMED_LIKE)
    there = drawn[0] | filled[0], drawn[1] | filled[1]
    kinds = np.zeros(likeness.shape, np.uint8)
    bad = likeness < 0.5
    kinds[bad] = CHANGED
    kinds[bad & drawn[0] & ~drawn[1]] = LOST
    kinds[bad & filled[0] & ~there[1]] = LOST
    kinds[bad & ~drawn[0] & drawn[1]] = ADDED
    kinds[bad & ~there[0] & there[1]] = ADDED
    kinds[bad & dimmed] = DIMMED
    weight = np.maximum(np.maximum(weight_seen, ADDED_WEIGHT * weight_shown), GROUND_WEIGHT)
    return Damage(likeness, kinds, weight, weight_seen, weight_shown)


def _ramp(alike: Floats, unlike: float = _UNLIKE, like: float = _LIKE) -> Floats:
    found: Floats = np.clip((alike - unlike) / (like - unlike), 0, 1)
    return found


def _likeness(tiles: Tiles, drawn: tuple[Flags, Flags]) -> Floats:
    both = drawn[0] & drawn[1]
    apart = np.abs(tiles.colour_seen - tiles.colour_shown).max(-1)
    few = 1 - np.clip((tiles.missed - _FEW_MISSED) / (_MANY_MISSED - _FEW_MISSED), 0, 1)
    flat = 1 - np.clip((apart - _FLAT_NEAR) / (_FLAT_FAR - _FLAT_NEAR), 0, 1)
    found = np.where(both, np.maximum(_ramp(tiles.alike), tiles.missed <= _FEW_MISSED), few * flat)
    found = np.where(~drawn[0] & ~drawn[1], flat, found)
    coloured: Floats = (found * (1 - 0.7 * tiles.hued)).astype(np.float32)
    return coloured


def _dimmed(tiles: Tiles, drawn: tuple[Flags, Flags]) -> Flags:
    """Where the same is drawn with less contrast, as behind a veil."""
    paler = tiles.spread_shown < _DIMMED_SPREAD * tiles.spread_seen
    found: Flags = drawn[0] & (tiles.follows > _DIMMED_FOLLOWS) & paler & (tiles.missed > 0.2)
    return found


def _off_ground(colours: Floats, ground: tuple[int, int, int]) -> Flags:
    """Which colours, YCbCr, are not that of the ground, RGB."""
    own = np.array(Image.new("RGB", (1, 1), ground).convert("YCbCr").getpixel((0, 0)), np.float32)
    apart = np.abs(colours - own)
    found: Flags = apart.max(-1) > _NEAR_GROUND
    return found


def added_weight(shown: Sheet, alignment: Alignment) -> float:
    """How much is drawn in the rows of the shown picture that no row of the seen one claims."""
    total = 0.0
    columns = np.diff([bound // TILE_PX for bound in alignment.bounds])
    for first, end in chunks(shown.tiles[0]):
        rows = slice(first * TILE_PX, end * TILE_PX)
        free = np.zeros((len(alignment.free), (end - first) * TILE_PX), np.float32)
        part = alignment.free[:, rows]
        if not part.any():
            continue
        free[:, : part.shape[1]] = part
        shares = free.reshape(len(free), end - first, TILE_PX).mean(2).T
        weights = weights_of(shown.rows.part(rows.start, rows.stop), shown.ground)
        total += float((np.repeat(shares, columns, axis=1) * weights).sum())
    return total


def weights_of(rows: Rows, ground: tuple[int, int, int]) -> Floats:
    """How much each tile of a picture weighs by itself; ground weighs nothing."""
    ranges, colours = glance(rows)
    return _weights(ranges >= DRAWN, _off_ground(colours, ground))


def _weights(drawn: Flags, off: Flags) -> Floats:
    found: Floats = np.where(drawn, 1, np.where(off, FILLED_WEIGHT, 0)).astype(np.float32)
    return found
