"""Regions of damaged tiles as boxes, and the heat map that shows them on the rows of the seen picture."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from qa.compare.alignment import RowAlignment
from qa.compare.picture_tiles import TILE_PX, Flags, Grey, Pixels, TiledPicture, TileMetrics, chunks, encode_image
from qa.compare.tile_damage import ADDED, CHANGED, DIMMED, DRAWN, FINE, LOST, TileDamage

MOST_REGIONS = 50
SCREEN_SHAPE = 0.625  # a screen is that high for its width: 1280 by 800
_SAME_COLOUR = 8  # of 255


class RegionKind(StrEnum):
    """Kind of damage of a region."""

    LOST = "lost"  # drawn in the seen picture, flat in the shown one
    CHANGED = "changed"  # drawn in both, and not alike
    ADDED = "added"  # flat in the seen picture, drawn in the shown one
    COVERED = "covered"  # an overlay covers or dims the content


_KINDS = {LOST: RegionKind.LOST, CHANGED: RegionKind.CHANGED, ADDED: RegionKind.ADDED, DIMMED: RegionKind.COVERED}


@dataclass(frozen=True, slots=True)
class DamageRegion:
    """Box of the page in which the pictures differ, in pixels of the seen picture."""

    x: int
    y: int
    w: int
    h: int
    kind: RegionKind  # most frequent kind of damage
    share: float = 0.0  # share of all drawn content of the seen picture that is damaged here
    drawn: float = 0.0  # share of its tiles with content in the seen picture, or filled there and background now
    empty: float = 0.0  # share of its tiles that are flat and of one colour in the shown picture


def find_regions(damage: TileDamage, tiles: TileMetrics) -> tuple[tuple[DamageRegion, ...], float, Flags]:
    """Group damaged tiles, at most one tile apart: the worst `MOST_REGIONS`, the largest's share, the covered tiles."""
    damaged = damage.kinds != FINE
    if not damaged.any():
        return (), 0.0, damaged
    # The flags and their neighbours, diagonal ones too.
    wide = damaged.copy()
    wide[:, 1:] |= damaged[:, :-1]
    wide[:, :-1] |= damaged[:, 1:]
    tall = wide.copy()
    tall[1:] |= wide[:-1]
    tall[:-1] |= wide[1:]
    labels = label_connected(tall)
    labels[~damaged] = 0
    own = labels[damaged] - 1
    rows, columns = np.nonzero(damaged)
    count = int(own.max()) + 1
    weights = np.bincount(own, damage.weight[damaged] * (1 - damage.alike[damaged]), count)
    sizes = np.bincount(own, minlength=count)
    tallies = np.stack([np.bincount(own[damage.kinds[damaged] == kind], minlength=count) for kind in range(5)], axis=1)
    # First row, end row, first column and end column of each region.
    edges = np.zeros((count, 4), np.intp)
    edges[:, (0, 2)] = np.iinfo(np.intp).max
    np.minimum.at(edges[:, 0], own, rows)
    np.maximum.at(edges[:, 1], own, rows + 1)
    np.minimum.at(edges[:, 2], own, columns)
    np.maximum.at(edges[:, 3], own, columns + 1)
    # Regions that are overlays.
    screen = damaged.shape[1] * min(damaged.shape[0], damaged.shape[1] * SCREEN_SHAPE)
    area = (edges[:, 1] - edges[:, 0]) * (edges[:, 3] - edges[:, 2])
    large = (area >= 0.12 * screen) & (sizes >= 0.3 * area)
    lost = tallies[:, LOST] >= 0.1 * sizes
    instead = tallies[:, ADDED] + tallies[:, CHANGED] >= 0.1 * sizes
    dimmed = tallies[:, DIMMED] >= 0.2 * sizes
    covering = large & ((lost & instead) | dimmed)
    order = np.argsort(-weights, kind="stable")[:MOST_REGIONS]
    harm = damage.weight_seen[damaged] * (1 - damage.alike[damaged])
    shares = np.bincount(own, harm, count) / max(float(damage.weight_seen.sum()), 1.0)
    boxes = []
    for at in order.tolist():
        first, end, left, right = map(int, edges[at])
        box = slice(first, end), slice(left, right)
        unfilled = (damage.weight_seen[box] > 0) & (damage.weight_shown[box] == 0)
        # Empty are tiles that are flat and have the commonest colour of flat tiles.
        flat = tiles.colour_shown[box][tiles.range_shown[box] < DRAWN]
        middle = np.median(flat, axis=0) if len(flat) else 0.0
        near = (np.abs(flat - middle) < _SAME_COLOUR).all(-1)
        most = max(_KINDS, key=lambda kind: tallies[at][kind])
        boxes.append(
            DamageRegion(
                left * TILE_PX,
                first * TILE_PX,
                (right - left) * TILE_PX,
                (end - first) * TILE_PX,
                RegionKind.COVERED if covering[at] else _KINDS[most],
                round(float(shares[at]), 4),
                round(float(((tiles.range_seen[box] >= DRAWN) | unfilled).mean()), 2),
                round(float(near.sum()) / unfilled.size, 2),
            )
        )
    covered = damaged & np.concatenate(([False], covering))[labels]
    return tuple(boxes), float(sizes.max()) / damaged.size, covered


def label_connected(flags: Flags) -> NDArray[np.intp]:
    """Number the 4-connected components from 1; 0 is background. Runs are joined with those they touch above."""
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
        pairs, low, high = (pairs[apart], np.minimum(one, other)[apart], np.maximum(one, other)[apart])
        np.minimum.at(root, high, low)
        while True:
            shorter = root[root]
            if np.array_equal(shorter, root):
                break
            root = shorter
    _, compact = np.unique(root, return_inverse=True)
    labels: NDArray[np.intp] = compact[run][:, :-1]
    return labels


MOST_WIDTH_PX = 1_280
MOST_HEIGHT_PX = 4_000  # higher pictures are scaled down
_PALE = 0.35  # remaining contrast of the page
_TINT = 0.45
_COLOURS = {LOST: (214, 40, 40), CHANGED: (240, 140, 0), ADDED: (30, 100, 220), DIMMED: (130, 60, 190)}
_BOXES = {_KINDS[kind]: colour for kind, colour in _COLOURS.items()}
_MOST_MARKS = 100  # of a strip
_LEAST_BOX_TILES = 2  # smaller ones are seen by their tint


def draw_heat_map(
    seen: TiledPicture,
    shown: Callable[[int, int], Grey],
    damage: TileDamage,
    boxes: tuple[DamageRegion, ...],
    alignment: RowAlignment,
) -> bytes:
    """Draw the heat map as PNG, at most `MOST_WIDTH_PX` wide and `MOST_HEIGHT_PX` high."""
    scale = min(1.0, MOST_WIDTH_PX / seen.width, MOST_HEIGHT_PX / seen.height)
    size = (max(1, round(seen.width * scale)), max(1, round(seen.height * scale)))
    canvas = Image.new("RGB", size)
    for first, end in chunks(seen.tiles[0]):
        rows = slice(first * TILE_PX, min(end * TILE_PX, seen.height))
        if rows.start >= rows.stop:
            continue
        part = _tinted(
            seen.rows.grey[first * TILE_PX : end * TILE_PX],
            shown(first * TILE_PX, end * TILE_PX),
            damage.kinds[first:end],
        )[: rows.stop - rows.start, : seen.width]
        top, bottom = round(rows.start * scale), round(rows.stop * scale)
        piece = Image.fromarray(np.ascontiguousarray(part))
        if scale < 1 and bottom > top:
            piece = piece.resize((size[0], bottom - top), Image.Resampling.BOX)
        if bottom > top:
            canvas.paste(piece, (0, top))
    pen = ImageDraw.Draw(canvas)
    for box in boxes:
        left, top = round(box.x * scale), round(box.y * scale)
        right = min(round((box.x + box.w) * scale), size[0]) - 1
        bottom = min(round((box.y + box.h) * scale), size[1]) - 1
        is_large = min(box.w, box.h) >= _LEAST_BOX_TILES * TILE_PX
        if is_large and right > left and bottom > top:
            pen.rectangle([left, top, right, bottom], outline=_BOXES[box.kind], width=2)
    for strip, free in enumerate(alignment.free):  # a line before the rows that were put in
        rows_of = alignment.rows[strip]
        known = np.flatnonzero(rows_of > 0)
        edges = (alignment.bounds[strip] * scale, alignment.bounds[strip + 1] * scale)
        for row in known[free[rows_of[known] - 1]][:_MOST_MARKS].tolist():
            pen.rectangle([edges[0], row * scale - 1, edges[1], row * scale + 1], fill=_COLOURS[ADDED])
    return encode_image(canvas, "PNG", compress_level=3)


def _tinted(seen: Grey, shown: Grey, kinds: Grey) -> Pixels:
    """Draw a part of the page in pale grey, with damaged tiles tinted by kind."""
    by_pixel = np.repeat(np.repeat(kinds, TILE_PX, axis=0), TILE_PX, axis=1)
    grey = np.where(by_pixel == LOST, seen, shown).astype(np.float32)
    pale = 255 - (255 - grey) * np.where(by_pixel == 0, _PALE, 1 - _TINT).astype(np.float32)
    page = np.repeat(pale[..., None], 3, axis=2)
    for kind, colour in _COLOURS.items():
        mask = by_pixel == kind
        page[mask] = page[mask] * (1 - _TINT) + np.array(colour, np.float32) * _TINT
    return page.astype(np.uint8)
