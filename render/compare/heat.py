"""A picture of what differs: the page in pale grey, lost red, changed orange, covered violet, added blue.

It has the seen picture's rows. What was lost is drawn from the seen picture, all else from the shown
one; a blue line says where rows were put in.
"""

import io
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

from render.compare.aligning import Alignment
from render.compare.damage import ADDED, CHANGED, DIMMED, LOST, Damage
from render.compare.opening import Pixels
from render.compare.regions import Kind, Region
from render.compare.sheets import TILE_PX, Grey, Sheet, chunks

MOST_WIDTH_PX = 1_280
MOST_HEIGHT_PX = 4_000  # what is higher is drawn smaller
_PALE = 0.35  # how much of the page's contrast is left
_TINT = 0.45
_COLOURS = {
    LOST: (214, 40, 40),
    CHANGED: (240, 140, 0),
    ADDED: (30, 100, 220),
    DIMMED: (130, 60, 190),
}
_BOXES = {
    Kind.LOST: _COLOURS[LOST],
    Kind.CHANGED: _COLOURS[CHANGED],
    Kind.ADDED: _COLOURS[ADDED],
    Kind.COVERED: _COLOURS[DIMMED],
}
_MOST_MARKS = 100  # of a strip
_LEAST_BOX_TILES = 2  # smaller ones are seen by their tint


def draw_heat(
    seen: Sheet,
    shown: Callable[[int, int], Grey],
    damage: Damage,
    boxes: tuple[Region, ...],
    alignment: Alignment,
) -> bytes:
    """The picture as PNG; at most `MOST_WIDTH_PX` wide and `MOST_HEIGHT_PX` high."""
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
        if min(box.w, box.h) >= _LEAST_BOX_TILES * TILE_PX:
            _draw_box(pen, box, scale, size)
    for left, right, row in _put_in(alignment):
        place = [left * scale, row * scale - 1, right * scale, row * scale + 1]
        pen.rectangle(place, fill=_COLOURS[ADDED])
    out = io.BytesIO()
    canvas.save(out, "PNG", compress_level=3)
    return out.getvalue()


def _tinted(seen: Grey, shown: Grey, kinds: Grey) -> Pixels:
    """A part of the page in pale grey, its damaged tiles in their colours."""
    by_pixel = np.repeat(np.repeat(kinds, TILE_PX, axis=0), TILE_PX, axis=1)
    grey = np.where(by_pixel == LOST, seen, shown).astype(np.float32)
    pale = 255 - (255 - grey) * np.where(by_pixel == 0, _PALE, 1 - _TINT).astype(np.float32)
    page = np.repeat(pale[..., None], 3, axis=2)
    for kind, colour in _COLOURS.items():
        there = by_pixel == kind
        page[there] = page[there] * (1 - _TINT) + np.array(colour, np.float32) * _TINT
    return page.astype(np.uint8)


def _draw_box(pen: ImageDraw.ImageDraw, box: Region, scale: float, size: tuple[int, int]) -> None:
    left, top = round(box.x * scale), round(box.y * scale)
    right = min(round((box.x + box.w) * scale), size[0]) - 1
    bottom = min(round((box.y + box.h) * scale), size[1]) - 1
    if right > left and bottom > top:
        pen.rectangle([left, top, right, bottom], outline=_BOXES[box.kind], width=2)


def _put_in(alignment: Alignment) -> list[tuple[int, int, int]]:
    """Left and right edge, and the row of the seen picture, where rows were put in before it."""
    found = []
    for strip, free in enumerate(alignment.free):
        rows = alignment.rows[strip]
        left, right = alignment.bounds[strip], alignment.bounds[strip + 1]
        known = np.flatnonzero(rows > 0)
        after = known[free[rows[known] - 1]]
        found += [(left, right, int(row)) for row in after[:_MOST_MARKS]]
    return found
