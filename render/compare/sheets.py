"""A picture as it is compared: its brightness and its colours, as high and wide as whole tiles."""

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
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a picture.

    Attributes:
        grey: how bright each pixel is, 0 to 255: the Y of YCbCr.
        pixels: their colours, RGB.
    """

    grey: Grey
    pixels: Pixels

    def part(self, first: int, end: int) -> "Rows":
        """The rows from one to before another."""
        return Rows(self.grey[first:end], self.pixels[first:end])

    def equals(self, other: "Rows") -> bool:
        """Whether all are the same."""
        return np.array_equal(self.grey, other.grey) and np.array_equal(self.pixels, other.pixels)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A picture, set on its own ground so that its sides are whole tiles.

    Attributes:
        rows: all of them.
        height: of the picture itself; below are rows of ground.
        width: of the picture itself.
        ground: the colour that most of the page has, RGB.
        bright: how bright that is, 0 to 255.
    """

    rows: Rows
    height: int
    width: int
    ground: tuple[int, int, int]
    bright: int

    @property
    def tiles(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        return self.rows.grey.shape[0] // TILE_PX, self.rows.grey.shape[1] // TILE_PX


def sheet_of(pixels: Pixels, width: int, like: Sheet | None = None) -> Sheet:
    """The picture with as many columns as `width`, or more, take; quicker where it is `like` another."""
    height, own = pixels.shape[:2]
    ground = ground_of(pixels)
    size = (_whole(height), _whole(max(width, own)))
    if size != (height, own):
        larger = np.empty((*size, 3), np.uint8)
        larger[:height, :own] = pixels
        larger[height:] = ground
        larger[:height, own:] = ground
        pixels = larger
    bright = int(np.asarray(Image.new("RGB", (1, 1), ground).convert("L"))[0, 0])
    return Sheet(rows_of(pixels, like.rows if like else None), height, own, ground, bright)


def rows_of(pixels: Pixels, like: Rows | None = None) -> Rows:
    """The rows of a picture whose sides are whole tiles; what is `like` other rows is taken from them."""
    grey = np.empty(pixels.shape[:2], np.uint8)
    step = CHUNK_TILES * TILE_PX
    for first in range(0, len(pixels), step):
        part = pixels[first : first + step]
        if like is not None and np.array_equal(part, like.pixels[first : first + step]):
            grey[first : first + step] = like.grey[first : first + step]
        else:
            grey[first : first + step] = np.asarray(Image.fromarray(part).convert("L"))
    return Rows(grey, pixels)


def ground_of(pixels: Pixels) -> tuple[int, int, int]:
    """The commonest colour of a sample of the pixels, RGB."""
    height, width = pixels.shape[:2]
    few = pixels[:: max(1, height // 150) | 1, :: max(1, width // 150) | 1].reshape(-1, 3)
    keys = (few >> 2).astype(np.int32) @ np.array([1 << 12, 1 << 6, 1], np.int32)
    alike = few[keys == np.bincount(keys).argmax()]
    red, green, blue = alike.mean(0).round().astype(int).tolist()
    return red, green, blue


def chunks(rows: int) -> Iterator[tuple[int, int]]:
    """Parts of so many rows of tiles, from the top to the bottom."""
    for first in range(0, rows, CHUNK_TILES):
        yield first, min(first + CHUNK_TILES, rows)


def _whole(length: int) -> int:
    return -(-length // TILE_PX) * TILE_PX
