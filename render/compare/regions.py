"""Damaged tiles that lie together, as boxes."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from render.compare.damage import ADDED, CHANGED, DIMMED, DRAWN, FINE, LOST, Damage
from render.compare.sheets import TILE_PX, Flags, Floats
from render.compare.tiles import Tiles

MOST_REGIONS = 50
SCREEN_SHAPE = 0.625  # a screen is that high for its width: 1280 by 800
_SAME_COLOUR = 8  # of 255


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
        share: of what is drawn in the seen picture, what is damaged here.
        drawn: share of its tiles in which something is drawn in the seen picture, or filled and now ground.
        empty: share of its tiles that are flat and of one colour in the shown one.
    """

    x: int
    y: int
    w: int
    h: int
    kind: Kind
    share: float = 0.0
    drawn: float = 0.0
    empty: float = 0.0


@dataclass(frozen=True, slots=True)
class Regions:
    """Where a page is damaged.

    Attributes:
        boxes: the worst first; at most `MOST_REGIONS`.
        largest: damaged tiles of the largest region, share of all tiles.
        covered: which tiles lie in a region that is covered.
    """

    boxes: tuple[Region, ...]
    largest: float
    covered: Flags


def find_regions(damage: Damage, tiles: Tiles) -> Regions:
    """The regions of the damaged tiles; tiles with at most one whole tile between them are of one."""
    damaged = damage.kinds != FINE
    if not damaged.any():
        return Regions((), 0.0, damaged)
    labels = connected(_widened(damaged))
    labels[~damaged] = 0
    own = labels[damaged] - 1
    rows, columns = np.nonzero(damaged)
    count = int(own.max()) + 1
    weights = np.bincount(own, damage.weight[damaged] * (1 - damage.alike[damaged]), count)
    sizes = np.bincount(own, minlength=count)
    tallies = np.stack(
        [np.bincount(own[damage.kinds[damaged] == kind], minlength=count) for kind in range(5)],
        axis=1,
    )
    edges = _edges(own, rows, columns, count)
    covering = _covering(tallies, sizes, edges, damaged.shape)
    order = np.argsort(-weights, kind="stable")[:MOST_REGIONS]
    harm = damage.weight_seen[damaged] * (1 - damage.alike[damaged])
    shares = np.bincount(own, harm, count) / max(float(damage.weight_seen.sum()), 1.0)
    boxes = tuple(
        _region(
            edges[at], tallies[at], float(shares[at]), tiles, damage, covered=bool(covering[at])
        )
        for at in order.tolist()
    )
    covered = damaged & np.concatenate(([False], covering))[labels]
    return Regions(boxes, float(sizes.max()) / damaged.size, covered)


def _region(
    edges: NDArray[np.intp],
    tally: NDArray[np.intp],
    share: float,
    tiles: Tiles,
    damage: Damage,
    *,
    covered: bool,
) -> Region:
    first, end, left, right = (int(each) for each in edges)
    kinds = {LOST: Kind.LOST, CHANGED: Kind.CHANGED, ADDED: Kind.ADDED, DIMMED: Kind.COVERED}
    most = max(kinds, key=lambda kind: tally[kind])
    box = slice(first, end), slice(left, right)
    unfilled = (damage.weight_seen[box] > 0) & (damage.weight_shown[box] == 0)
    return Region(
        left * TILE_PX,
        first * TILE_PX,
        (right - left) * TILE_PX,
        (end - first) * TILE_PX,
        Kind.COVERED if covered else kinds[most],
        round(share, 4),
        round(float(((tiles.range_seen[box] >= DRAWN) | unfilled).mean()), 2),
        round(_empty(tiles.range_shown[box], tiles.colour_shown[box]), 2),
    )


def _empty(spans: Floats, colours: Floats) -> float:
    """Share of the tiles that are flat and have the colour that most flat ones have."""
    flat = colours[spans < DRAWN]
    if not len(flat):
        return 0.0
    near = (np.abs(flat - np.median(flat, axis=0)) < _SAME_COLOUR).all(-1)
    return float(near.sum()) / spans.size


def _edges(
    own: NDArray[np.intp], rows: NDArray[np.intp], columns: NDArray[np.intp], count: int
) -> NDArray[np.intp]:
    """Of each label the first row, that after the last, the first column and that after the last."""
    edges = np.empty((count, 4), np.intp)
    edges[:, (0, 2)] = np.iinfo(np.intp).max
    edges[:, (1, 3)] = 0
    np.minimum.at(edges[:, 0], own, rows)
    np.maximum.at(edges[:, 1], own, rows + 1)
    np.minimum.at(edges[:, 2], own, columns)
    np.maximum.at(edges[:, 3], own, columns + 1)
    return edges


def _covering(
    tallies: NDArray[np.intp],
    sizes: NDArray[np.intp],
    edges: NDArray[np.intp],
    shape: tuple[int, int],
) -> Flags:
    """Which regions are something that lies over the page.

    That is a box of a good part of a screen where much is gone and something else is there instead, or
    where what was there is dimmed.
    """
    screen = shape[1] * min(shape[0], shape[1] * SCREEN_SHAPE)
    area = (edges[:, 1] - edges[:, 0]) * (edges[:, 3] - edges[:, 2])
    large = (area >= 0.12 * screen) & (sizes >= 0.3 * area)
    gone = tallies[:, LOST] >= 0.1 * sizes
    instead = tallies[:, ADDED] + tallies[:, CHANGED] >= 0.1 * sizes
    dimmed = tallies[:, DIMMED] >= 0.2 * sizes
    found: Flags = large & ((gone & instead) | dimmed)
    return found


def _widened(flags: Flags) -> Flags:
    """The flags and those beside them, diagonally too."""
    wide = flags.copy()
    wide[:, 1:] |= flags[:, :-1]
    wide[:, :-1] |= flags[:, 1:]
    tall = wide.copy()
    tall[1:] |= wide[:-1]
    tall[:-1] |= wide[1:]
    return tall


def connected(flags: Flags) -> NDArray[np.intp]:
    """A number from 1 for each connected part, sides touching; 0 where there is none.

    Runs of each row are joined with those they touch above, by the least number, halving paths: a few
    rounds whatever the shape.
    """
    padded = np.zeros((flags.shape[0], flags.shape[1] + 1), np.bool_)
    padded[:, :-1] = flags
    line = np.concatenate(([False], padded.ravel()))
    edges = np.flatnonzero(line[1:] != line[:-1])
    starts = edges[::2]
    numbers = np.zeros(padded.size, np.intp)
    numbers[starts] = 1
    run = np.where(padded, np.cumsum(numbers).reshape(padded.shape), 0)
    touch = (run[1:] > 0) & (run[:-1] > 0)
    pairs = np.unique(np.stack([run[:-1][touch], run[1:][touch]], axis=1), axis=0)
    root = np.arange(len(starts) + 1)
    while len(pairs):
        one, other = root[pairs[:, 0]], root[pairs[:, 1]]
        apart = one != other
        if not apart.any():
            break
        pairs, low, high = (
            pairs[apart],
            np.minimum(one, other)[apart],
            np.maximum(one, other)[apart],
        )
        np.minimum.at(root, high, low)
        while True:
            shorter = root[root]
            if np.array_equal(shorter, root):
                break
            root = shorter
    _, compact = np.unique(root, return_inverse=True)
    found: NDArray[np.intp] = compact[run][:, :-1]
    return found
