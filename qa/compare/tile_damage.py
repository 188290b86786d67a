"""Damage of each tile (lost, changed, added, dimmed, shifted, rewritten) and its weight.

A tile is drawn when its brightness varies, filled when it is flat but not of the background colour. Tiles are weighted
by their content. A damaged tile is searched around its place in the other picture: by the means of a few of its rows,
then by structural similarity. A sample against the mirror image measures matches by chance, and decides whether to
search for all (docs/explanation/comparing.md).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from qa.compare import picture_tiles
from qa.compare.alignment import RowAlignment
from qa.compare.picture_tiles import TILE_PX, Flags, Floats, Grey, TiledPicture, TileMetrics, chunks

DRAWN = 24  # of 255, from a tile's darkest to its brightest pixel: less is ground, a gradient or noise
FILLED_WEIGHT = 0.2
GROUND_WEIGHT = 0.03
ADDED_WEIGHT = 0.25  # added content hides nothing, but the visitor did not see it
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

TileKinds = NDArray[np.uint8]
FINE, LOST, CHANGED, ADDED, DIMMED = range(5)


@dataclass(frozen=True, slots=True)
class TileDamage:
    """Damage of each tile of the seen picture."""

    alike: Floats  # unchanged share of the tile, 0 to 1
    kinds: TileKinds  # `FINE`, `LOST`, `CHANGED`, `ADDED` or `DIMMED`
    weight: Floats  # weight of the tile by its content in either picture
    weight_seen: Floats  # weight by content in the seen picture alone; background weighs nothing
    weight_shown: Floats  # weight by content in the shown picture alone

    def share(self, *kinds: int) -> float:
        """Return the share of the seen content with that kind of damage; 0 without content."""
        return self.within(np.isin(self.kinds, kinds))

    def within(self, flags: Flags) -> float:
        """Return the share of the seen content damaged within the mask; 0 without content."""
        whole = float(self.weight_seen.sum())
        part = self.weight_seen * (1 - self.alike) * flags
        return float(part.sum()) / whole if whole else 0.0


def classify_tiles(
    tiles: TileMetrics, seen: TiledPicture, shown: TiledPicture, beside: Floats | None = None
) -> TileDamage:
    """Classify the damage of each tile; `beside` is its similarity to a place some pixels away."""
    drawn = tiles.range_seen >= DRAWN, tiles.range_shown >= DRAWN
    filled = (
        ~drawn[0] & _off_ground(tiles.colour_seen, seen.ground),
        ~drawn[1] & _off_ground(tiles.colour_shown, shown.ground),
    )
    weight_seen, weight_shown = (_weights(drawn[at], filled[at]) for at in (0, 1))
    apart = np.abs(tiles.colour_seen - tiles.colour_shown).max(-1)
    few = 1 - np.clip((tiles.missed - _FEW_MISSED) / (_MANY_MISSED - _FEW_MISSED), 0, 1)
    flat = 1 - np.clip((apart - _FLAT_NEAR) / (_FLAT_FAR - _FLAT_NEAR), 0, 1)
    alike = np.maximum(_ramp(tiles.alike), tiles.missed <= _FEW_MISSED)
    likeness = np.where(drawn[0] & drawn[1], alike, few * flat)
    likeness = np.where(drawn[0] | drawn[1], likeness, flat)
    likeness = (likeness * (1 - 0.7 * tiles.hued)).astype(np.float32)
    if beside is not None:
        # Where brightness matches in place, only the colour differs, which is not searched for.
        better = np.where(beside > tiles.alike + _BETTER, beside, -1)
        likeness = np.maximum(likeness, _ramp(better, _UNLIKE_BESIDE, _LIKE_BESIDE))
    # The same content at less contrast, as behind an overlay.
    paler = tiles.spread_shown < _DIMMED_SPREAD * tiles.spread_seen
    dimmed = drawn[0] & (tiles.follows > _DIMMED_FOLLOWS) & paler & (tiles.missed > 0.2)
    dimmed &= likeness < 1
    likeness[dimmed] = np.minimum(likeness[dimmed], _DIMMED_LIKE)
    visible = drawn[0] | filled[0], drawn[1] | filled[1]
    kinds = np.zeros(likeness.shape, np.uint8)
    bad = likeness < 0.5
    kinds[bad] = CHANGED
    kinds[bad & drawn[0] & ~drawn[1]] = LOST
    kinds[bad & filled[0] & ~visible[1]] = LOST
    kinds[bad & ~drawn[0] & drawn[1]] = ADDED
    kinds[bad & ~visible[0] & visible[1]] = ADDED
    kinds[bad & dimmed] = DIMMED
    weight = np.maximum(np.maximum(weight_seen, ADDED_WEIGHT * weight_shown), GROUND_WEIGHT)
    return TileDamage(likeness, kinds, weight, weight_seen, weight_shown)


def _ramp(alike: Floats, unlike: float = _UNLIKE, like: float = _LIKE) -> Floats:
    ramp: Floats = np.clip((alike - unlike) / (like - unlike), 0, 1)
    return ramp


def _off_ground(colours: Floats, ground: tuple[int, int, int]) -> Flags:
    """Return which colours, YCbCr, differ from the background, RGB."""
    own = np.array(Image.new("RGB", (1, 1), ground).convert("YCbCr").getpixel((0, 0)), np.float32)
    apart = np.abs(colours - own)
    is_off: Flags = apart.max(-1) > _NEAR_GROUND
    return is_off


def added_weight(shown: TiledPicture, alignment: RowAlignment) -> float:
    """Return the weight of the shown rows that no row of the seen picture claims."""
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
        ranges, colours = picture_tiles.tile_ranges(shown.rows.part(rows.start, rows.stop))
        weights = _weights(ranges >= DRAWN, _off_ground(colours, shown.ground))
        total += float((np.repeat(shares, columns, axis=1) * weights).sum())
    return total


def _weights(drawn: Flags, off: Flags) -> Floats:
    weights: Floats = np.where(drawn, 1, np.where(off, FILLED_WEIGHT, 0)).astype(np.float32)
    return weights


# Correlation of brightness, either way round; tiles that have nothing in common hardly ever reach it.
_FOLLOWS = 0.8
_CONTRAST = 60  # of 255, from a tile's darkest to its brightest pixel: letters have it
_ONE_COLOUR = 12  # of 255
_FEWEST, _MOST = 0.35, 0.93  # of a tile's pixels: the ground that letters leave


def find_recoloured(tiles: TileMetrics, damage: TileDamage) -> Flags:
    """Return the changed tiles that have the same lines in other colours."""
    drawn = (tiles.range_seen >= DRAWN) & (tiles.range_shown >= DRAWN)
    recoloured: Flags = drawn & (damage.kinds == CHANGED) & (np.abs(tiles.follows) >= _FOLLOWS)
    return recoloured


def rewritten_share(seen: Grey, tiles: TileMetrics, damage: TileDamage) -> float:
    """Return the share of text tiles with other text; other colours do not count."""
    other = (damage.kinds == CHANGED) & ~find_recoloured(tiles, damage)
    sharp = tiles.range_seen >= _CONTRAST
    if not (other & sharp).any():
        return 0.0
    # Much of a tile with text is its darkest or its brightest colour.
    written = np.zeros_like(sharp)
    for first, end in chunks(len(sharp)):
        rows, columns = np.nonzero(sharp[first:end])
        part = seen[first * TILE_PX : end * TILE_PX]
        boxes = part.reshape(end - first, TILE_PX, -1, TILE_PX)[rows, :, columns]
        flat = boxes.reshape(len(rows), TILE_PX * TILE_PX)
        # The contrast is so large that neither leaves a byte.
        bright = flat >= flat.max(1, keepdims=True) - _ONE_COLOUR
        dark = flat <= flat.min(1, keepdims=True) + _ONE_COLOUR
        share = np.maximum(bright.mean(1), dark.mean(1))
        written[rows + first, columns] = (share >= _FEWEST) & (share <= _MOST)
    return float((written & other).sum()) / max(int(written.sum()), 1)


SIDEWAYS_PX = 8
UPRIGHT_PX = 2
_EVERY = 4  # rows of a tile that are compared together, first
_ALIKE = 0.9  # tiles that are more alike need not be looked for
_SAMPLE = 256  # tiles
_WORTH = 0.08  # share of the sample that must be found, beyond chance, for the rest to be looked for
_SURELY = 0.4  # share that cannot be chance
_FOUND = 0.75  # structural similarity

Shown = Callable[[int, int], Grey]
_Positions = NDArray[np.intp]
_WORD = 8
_EVEN_BYTES = np.uint64(0x00FF00FF00FF00FF)


def find_shifted(seen: Grey, shown: Shown, damage: TileDamage) -> Floats:
    """Return the similarity of damaged tiles to nearby places; -1 where not computed."""
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
        if share < _WORTH:
            return best
        if share < _SURELY:
            # Matches by chance, measured with the mirrored picture, do not count.
            by_chance = np.full(few.shape, -1, np.float32)
            _search(seen, lambda first, end: shown(first, end)[:, ::-1], few, np.zeros_like(few), by_chance)
            if share - float((by_chance[few] > _FOUND).mean()) < _WORTH:
                return best
        wanted &= ~few
    _search(seen, shown, wanted, damage.kinds == ADDED, best)
    return best


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
                best[rows + first, columns] = _best(*sources, rows * TILE_PX, columns * TILE_PX)


def _framed(grey: Grey) -> Grey:
    """Pad with some pixels on every side by repeating the edges."""
    height, width = grey.shape
    padded = np.empty((height + 2 * UPRIGHT_PX, width + 2 * SIDEWAYS_PX), np.uint8)
    inner = padded[UPRIGHT_PX:-UPRIGHT_PX]
    inner[:, SIDEWAYS_PX:-SIDEWAYS_PX] = grey
    inner[:, :SIDEWAYS_PX] = grey[:, :1]
    inner[:, -SIDEWAYS_PX:] = grey[:, -1:]
    padded[:UPRIGHT_PX], padded[-UPRIGHT_PX:] = inner[0], inner[-1]
    return padded


def _best(one: Grey, other: Grey, tops: _Positions, lefts: _Positions) -> Floats:
    """Return the structural similarity of tiles of the first at the best position in the second."""
    tall = TILE_PX - _EVERY + 1
    middle, smeared = tops + UPRIGHT_PX, _smeared(other)
    few = _taken(_smeared(one), middle, lefts + SIDEWAYS_PX, tall, TILE_PX, every=_EVERY)
    rough = _taken(smeared, middle, lefts, tall, TILE_PX + 2 * SIDEWAYS_PX, every=_EVERY)
    side = _least(few, [rough[:, step : step + TILE_PX] for step in range(2 * SIDEWAYS_PX + 1)])[: len(tops)]
    rough = _taken(smeared, tops, lefts + side, tall + 2 * UPRIGHT_PX, TILE_PX)
    up = _least(few, [rough[step : step + tall : _EVERY] for step in range(2 * UPRIGHT_PX + 1)])[: len(tops)]
    own = _windows(one, TILE_PX, TILE_PX)[middle, lefts + SIDEWAYS_PX]
    nearest = _windows(other, TILE_PX, TILE_PX)[tops + up, lefts + side]
    flat = (boxes.reshape(len(own), TILE_PX * TILE_PX).astype(np.float32) for boxes in (own, nearest))
    return picture_tiles.similarity(*flat)[0]


def _smeared(grey: Grey) -> Grey:
    """Average each row with those below it, so that a few rows represent all."""
    means = np.zeros((len(grey) - _EVERY + 1, grey.shape[1]), np.uint16)
    for step in range(_EVERY):
        means += grey[step : step + len(means)]
    means //= _EVERY
    return means.astype(np.uint8)


def _windows(grey: Grey, height: int, width: int) -> Grey:
    """Return views of all boxes of that size, by top and left edge."""
    down, right = grey.strides
    shape = (len(grey) - height + 1, grey.shape[1] - width + 1, height, width)
    return np.ndarray(shape, np.uint8, grey, 0, (down, right, down, right))


def _taken(grey: Grey, tops: _Positions, lefts: _Positions, height: int, width: int, *, every: int = 1) -> Grey:
    """Return the boxes at these places, at intervals of their rows: rows by columns by boxes, padded to whole words."""
    boxes = _windows(grey, height, width)[:, :, ::every][tops, lefts]
    count, rows, columns = boxes.shape
    padded = np.zeros((rows, columns, -(-count // _WORD) * _WORD), np.uint8)
    padded[..., :count] = boxes.transpose(1, 2, 0)
    return padded


def _least(own: Grey, others: list[Grey]) -> _Positions:
    """Return the nearest of the others for each box, the first of equal ones."""
    apart = np.empty((len(others), own.shape[2]), np.uint16)
    for step, other in enumerate(others):
        differences = np.maximum(own, other)
        differences -= np.minimum(own, other)
        # Eight bytes are added at a time, in two halves that leave each byte room for its sum.
        words = differences.view(np.uint64)
        sums = apart[step].reshape(-1, _WORD)
        even, odd = words & _EVEN_BYTES, (words >> np.uint64(8)) & _EVEN_BYTES
        sums[:, ::2] = np.add.reduce(even, (0, 1)).view(np.uint16).reshape(-1, _WORD // 2)
        sums[:, 1::2] = np.add.reduce(odd, (0, 1)).view(np.uint16).reshape(-1, _WORD // 2)
    nearest: _Positions = apart.argmin(0)
    return nearest
