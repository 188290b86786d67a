"""Metrics of aligned tiles: matching pixels, structural similarity, colour.

A pixel matches when each picture has its brightness, or nearly, among the other's pixels around
that place: letter edges drawn with another subpixel placement differ in place, but not in their
surroundings. Structure is the similarity index of Wang, Bovik, Sheikh and Simoncelli (2004), over
the whole tile. Colour without brightness is compared in blocks.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from qa.compare.picture_decoder import BLOCK_PX, TILE_PX, Floats, Grey, PictureRows, Pixels, chunks

# Of 255. A tenth of the way from black to white, where pixelmatch's threshold is by default.
NEAR = 25
NEAR_COLOUR = 30
_STEADY_MEAN = (0.01 * 255) ** 2  # Wang et al. 2004, section III.B
_STEADY_SPREAD = (0.03 * 255) ** 2


@dataclass(frozen=True, slots=True)
class TileMetrics:
    """Metrics of every tile of two aligned pictures, rows by columns.

    Attributes:
        range_seen, range_shown: difference of the tile's darkest and brightest pixel.
        spread_seen, spread_shown: standard deviation of the tile's brightness.
        colour_seen, colour_shown: mean colour of the tile, YCbCr.
    """

    missed: Floats  # share of the pixels that do not match
    hued: Floats  # share of the blocks with different colours
    alike: Floats  # structural similarity, -1 to 1
    follows: Floats  # correlation of the brightness, regardless of contrast, -1 to 1
    range_seen: Floats
    range_shown: Floats
    spread_seen: Floats
    spread_shown: Floats
    colour_seen: Floats
    colour_shown: Floats


def measure_tiles(seen: PictureRows, shown: Callable[[int, int], PictureRows]) -> TileMetrics:
    """Measure every tile; `shown` returns the shown rows of a half-open range."""
    rows, columns = seen.grey.shape[0] // TILE_PX, seen.grey.shape[1] // TILE_PX
    made = TileMetrics(*(np.empty((rows, columns, *more), np.float32) for more in [()] * 8 + [(3,)] * 2))
    for first, end in chunks(rows):
        one = seen.part(first * TILE_PX, end * TILE_PX)
        other = shown(first * TILE_PX, end * TILE_PX)
        part = _equal_metrics(one) if one.equals(other) else _compared_metrics(one, other)
        for each in fields(TileMetrics):
            getattr(made, each.name)[first:end] = getattr(part, each.name)
    return made


def tile_ranges(rows: PictureRows) -> tuple[Floats, Floats]:
    """Return the range of brightness and the mean colour (YCbCr) of each tile of one picture."""
    return _range(rows.grey), _colours(_blocks(rows))


def similarity(seen: Floats, shown: Floats) -> tuple[Floats, Floats]:
    """Return structural similarity and correlation of tiles of brightness, along the last axis."""
    mean_seen, mean_shown = seen.mean(-1), shown.mean(-1)
    square_seen = np.einsum("...i,...i->...", seen, seen) / seen.shape[-1]
    square_shown = np.einsum("...i,...i->...", shown, shown) / seen.shape[-1]
    product = np.einsum("...i,...i->...", seen, shown) / seen.shape[-1]
    return _index((mean_seen, mean_shown), (square_seen, square_shown), product)[:2]


def _equal_metrics(rows: PictureRows) -> TileMetrics:
    """Return the metrics of a part that is equal in both pictures."""
    span = _range(rows.grey)
    bright = rows.grey.astype(np.float32)
    spread = np.sqrt(np.maximum(_means(bright * bright) - np.square(_means(bright)), 0))
    colour = _colours(_blocks(rows))
    one, none = np.ones_like(span), np.zeros_like(span)
    return TileMetrics(none, none, one, one, span, span, spread, spread, colour, colour)


def _compared_metrics(seen: PictureRows, shown: PictureRows) -> TileMetrics:
    one, other = seen.grey.astype(np.float32), shown.grey.astype(np.float32)
    means = _means(one), _means(other)
    squares = _means(one * one), _means(other * other)
    alike, follows, spreads = _index(means, squares, _means(one * other))
    blocks = _blocks(seen), _blocks(shown)
    flags = mismatches(seen.grey, shown.grey)
    height, width = flags.shape
    by_rows = np.add.reduce(flags.view(np.uint8).reshape(-1, TILE_PX, width), 1, dtype=np.uint8)
    shape = (height // TILE_PX, -1, TILE_PX)
    missed: Floats = by_rows.reshape(shape).sum(-1, dtype=np.uint16).astype(np.float32)
    # The share of each tile's blocks whose colours differ in more than brightness.
    apart = (np.maximum(*blocks) - np.minimum(*blocks))[..., 1:]
    far = (apart > NEAR_COLOUR).any(-1).view(np.uint8)
    rows, columns = far.shape[0] // 4, far.shape[1] // 4
    far_by_rows = far.reshape(rows, 4, -1).sum(1, dtype=np.uint8).reshape(rows, columns, 4)
    hued: Floats = far_by_rows.sum(2, dtype=np.uint8).astype(np.float32)
    hued /= 16
    colours = _colours(blocks[0]), _colours(blocks[1])
    ranges = _range(seen.grey), _range(shown.grey)
    return TileMetrics(missed / np.float32(256), hued, alike, follows, *ranges, *spreads, *colours)


def mismatches(seen: Grey, shown: Grey) -> NDArray[np.bool_]:
    """Return the pixels that differ by more than the rendering of an edge."""
    far: NDArray[np.bool_] = np.maximum(seen, shown) - np.minimum(seen, shown) > NEAR
    if far.any():
        far &= _outside(seen, shown) | _outside(shown, seen)
    return far


def _outside(one: Grey, other: Grey) -> NDArray[np.bool_]:
    """Return the pixels of the first without a match among the second's 3 by 3 neighbours."""
    # Between arrays, never with a bound: numpy takes ten times as long for a minimum with one number.
    below = _around(other, np.minimum)
    np.maximum(below, one, out=below)
    below -= one
    above = _around(other, np.maximum)
    np.minimum(above, one, out=above)
    np.subtract(one, above, out=above)
    below |= above  # at every place one of them is 0
    return below > NEAR


def _around(grey: Grey, most: np.ufunc) -> Grey:
    tall = grey.copy()
    most(tall[1:], grey[:-1], out=tall[1:])
    most(tall[:-1], grey[1:], out=tall[:-1])
    result = tall.copy()
    # As one line it takes half the time; a row's ends have no neighbours in other rows.
    line, beside = result.reshape(-1), tall.reshape(-1)
    most(line[1:], beside[:-1], out=line[1:])
    most(line[:-1], beside[1:], out=line[:-1])
    for end, inner in ((0, 1), (-1, -2)):
        most(tall[:, end], tall[:, inner], out=result[:, end])
    return result


def _index(
    means: tuple[Floats, Floats], squares: tuple[Floats, Floats], product: Floats
) -> tuple[Floats, Floats, tuple[Floats, Floats]]:
    """Return structural similarity, correlation and standard deviations from means of tiles."""
    one, other = means
    spread_one = np.maximum(squares[0] - one * one, 0)
    spread_other = np.maximum(squares[1] - other * other, 0)
    together = product - one * other
    bright = (2 * one * other + _STEADY_MEAN) / (one * one + other * other + _STEADY_MEAN)
    shape = (2 * together + _STEADY_SPREAD) / (spread_one + spread_other + _STEADY_SPREAD)
    roots = np.sqrt(spread_one), np.sqrt(spread_other)
    follows = together / np.maximum(roots[0] * roots[1], 1.0)
    return np.asarray(bright * shape, np.float32), follows, roots


def _means(values: Floats) -> Floats:
    height, width = values.shape
    by_rows = values.reshape(-1, TILE_PX, width).sum(1)
    means: Floats = by_rows.reshape(height // TILE_PX, -1, TILE_PX).sum(-1, dtype=np.float32)
    means /= TILE_PX * TILE_PX
    return means


def _range(grey: Grey) -> Floats:
    height, width = grey.shape
    tall = grey.reshape(-1, TILE_PX, width)
    shape = (height // TILE_PX, -1, TILE_PX)
    high, low = tall.max(1).reshape(shape).max(-1), tall.min(1).reshape(shape).min(-1)
    ranges: Floats = (high - low).astype(np.float32)
    return ranges


def _blocks(rows: PictureRows) -> Pixels:
    return np.asarray(Image.fromarray(rows.pixels).reduce(BLOCK_PX).convert("YCbCr"))


def _colours(blocks: Pixels) -> Floats:
    rows, columns = blocks.shape[0] // 4, blocks.shape[1] // 4
    by_rows = blocks.reshape(rows, 4, -1).sum(1, dtype=np.uint16).reshape(rows, columns, 4, 3)
    colours: Floats = by_rows.sum(2, dtype=np.uint16).astype(np.float32)
    colours /= 16
    return colours
