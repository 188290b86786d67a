"""A picture as it is compared: as high and wide as whole tiles, and which colour its ground has."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render.compare.opening import Pixels

TILE_PX = 16
BLOCK_PX = 4  # colour is compared in blocks: eyes see less of it than of brightness
CHUNK_TILES = 8  # rows of tiles that are worked on together, so that they fit a processor's cache

Grey = NDArray[np.uint8]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A picture, set on its own ground so that its sides are whole tiles.

    Attributes:
        pixels: rows by columns by RGB.
        height: of the picture itself; below are rows of ground.
        width: of the picture itself.
        ground: the colour that most of the page has, RGB.
    """

    pixels: Pixels
    height: int
    width: int
    ground: tuple[int, int, int]

    @property
    def tiles(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        return self.pixels.shape[0] // TILE_PX, self.pixels.shape[1] // TILE_PX


def sheet_of(pixels: Pixels, width: int) -> Sheet:
    """The picture with as many columns as `width`, or more, take."""
    height, own = pixels.shape[:2]
    ground = ground_of(pixels)
    size = (_whole(height), _whole(max(width, own)))
    if size == (height, own):
        return Sheet(pixels, height, own, ground)
    larger = np.empty((*size, 3), np.uint8)
    larger[:height, :own] = pixels
    larger[height:] = ground
    larger[:height, own:] = ground
    return Sheet(larger, height, own, ground)


def greys(pixels: Pixels) -> Grey:
    """How bright each pixel is: the Y of YIQ, from 0 to 255."""
    return np.asarray(Image.fromarray(pixels).convert("L"))


def ground_of(pixels: Pixels) -> tuple[int, int, int]:
    """The commonest colour of a sample of the pixels."""
    height, width = pixels.shape[:2]
    few = pixels[:: max(1, height // 200) | 1, :: max(1, width // 200) | 1].reshape(-1, 3)
    keys = (few.astype(np.int32) >> 2) @ np.array([1 << 12, 1 << 6, 1], np.int32)
    found, counts = np.unique(keys, return_counts=True)
    alike = few[keys == found[int(np.argmax(counts))]]
    red, green, blue = (int(each) for each in np.median(alike, axis=0))
    return red, green, blue


def chunks(rows: int) -> Iterator[tuple[int, int]]:
    """Parts of so many rows of tiles, from the top to the bottom."""
    for first in range(0, rows, CHUNK_TILES):
        yield first, min(first + CHUNK_TILES, rows)


def _whole(length: int) -> int:
    return -(-length // TILE_PX) * TILE_PX
