"""Pictures padded to whole tiles, as brightness and colour, scaled to a common width."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from qa.compare.picture_decoder import MOST_PIXELS, Pixels

TILE_PX = 16
BLOCK_PX = 4  # colour is compared in blocks: eyes see less of it than of brightness
CHUNK_TILES = 8  # rows of tiles that are worked on together, so that they fit a processor's cache

Grey = NDArray[np.uint8]
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PictureRows:
    """Rows of a picture.

    Attributes:
        grey: how bright each pixel is, 0 to 255: the Y of YCbCr.
        pixels: their colours, RGB.
    """

    grey: Grey
    pixels: Pixels

    def part(self, first: int, end: int) -> "PictureRows":
        """The rows from one to before another."""
        return PictureRows(self.grey[first:end], self.pixels[first:end])

    def equals(self, other: "PictureRows") -> bool:
        """Whether all are the same."""
        return np.array_equal(self.grey, other.grey) and np.array_equal(self.pixels, other.pixels)


@dataclass(frozen=True, slots=True)
class TiledPicture:
    """A picture, set on its own ground so that its sides are whole tiles.

    Attributes:
        rows: all of them.
        height: of the picture itself; below are rows of ground.
        width: of the picture itself.
        ground: the colour that most of the page has, RGB.
        bright: how bright that is, 0 to 255.
    """

    rows: PictureRows
    height: int
    width: int
    ground: tuple[int, int, int]
    bright: int

    @property
    def tiles(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        return self.rows.grey.shape[0] // TILE_PX, self.rows.grey.shape[1] // TILE_PX


def tile_picture(pixels: Pixels, width: int, like: TiledPicture | None = None) -> TiledPicture:
    """The picture with as many columns as `width`, or more, take; quicker where it is `like` another."""
    height, own = pixels.shape[:2]
    ground = background_of(pixels)
    size = (_whole(height), _whole(max(width, own)))
    if size != (height, own):
        larger = np.empty((*size, 3), np.uint8)
        larger[:height, :own] = pixels
        larger[height:] = ground
        larger[:height, own:] = ground
        pixels = larger
    bright = int(np.asarray(Image.new("RGB", (1, 1), ground).convert("L"))[0, 0])
    return TiledPicture(tile_rows(pixels, like.rows if like else None), height, own, ground, bright)


def tile_rows(pixels: Pixels, like: PictureRows | None = None) -> PictureRows:
    """The rows of a picture whose sides are whole tiles; what is `like` other rows is taken from them."""
    grey = np.empty(pixels.shape[:2], np.uint8)
    step = CHUNK_TILES * TILE_PX
    for first in range(0, len(pixels), step):
        part = pixels[first : first + step]
        if like is not None and np.array_equal(part, like.pixels[first : first + step]):
            grey[first : first + step] = like.grey[first : first + step]
        else:
            grey[first : first + step] = np.asarray(Image.fromarray(part).convert("L"))
    return PictureRows(grey, pixels)


def background_of(pixels: Pixels) -> tuple[int, int, int]:
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


_SCALES = (1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)  # pixels of a screen to one of CSS
_NEAR_SCALE = 0.01


def fit_widths(seen: Pixels, shown: Pixels) -> tuple[TiledPicture, TiledPicture]:
    """Both as sheets of one width.

    Where one is as many times as wide as screens have pixels for one of CSS, and about as many times as
    high, it is scaled down. Else the narrower one is set on its ground: what the other has there is
    lost, or added.
    """
    seen, shown = _scaled(seen, shown), _scaled(shown, seen)
    width = max(seen.shape[1], shown.shape[1])
    first = tile_picture(seen, width)
    return first, tile_picture(shown, width, first)


def _scaled(picture: Pixels, other: Pixels) -> Pixels:
    times = picture.shape[1] / other.shape[1]
    tall = picture.shape[0] / other.shape[0]
    scale = min(_SCALES, key=lambda each: abs(each - times))
    fits = abs(times / scale - 1) < _NEAR_SCALE and scale / 2 < tall < scale * 2
    too_large = times > 1 and picture.shape[1] * other.shape[0] > MOST_PIXELS
    if not (fits or too_large):
        return picture
    size = (other.shape[1], max(1, round(picture.shape[0] / times)))
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BOX))
