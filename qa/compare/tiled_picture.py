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
    """Range of rows of a picture: brightness 0 to 255 (the Y of YCbCr), and RGB colours."""

    grey: Grey
    pixels: Pixels

    def part(self, first: int, end: int) -> "PictureRows":
        """Return the rows of a half-open range."""
        return PictureRows(self.grey[first:end], self.pixels[first:end])

    def equals(self, other: "PictureRows") -> bool:
        """Return whether all rows are equal."""
        return np.array_equal(self.grey, other.grey) and np.array_equal(self.pixels, other.pixels)


@dataclass(frozen=True, slots=True)
class TiledPicture:
    """Picture padded with its background colour to whole tiles; height and width are without padding.

    `ground` is the background's colour, RGB; `bright` its brightness.
    """

    rows: PictureRows
    height: int
    width: int
    ground: tuple[int, int, int]
    bright: int

    @property
    def tiles(self) -> tuple[int, int]:
        """Return the numbers of rows and columns of tiles."""
        return self.rows.grey.shape[0] // TILE_PX, self.rows.grey.shape[1] // TILE_PX


def tile_picture(pixels: Pixels, width: int, like: TiledPicture | None = None) -> TiledPicture:
    """Pad the picture to at least `width` columns; faster where it equals the picture `like`."""
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
    """Convert a picture of whole tiles to rows; parts equal to `like` are shared with it."""
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
    """Return the commonest colour of a sample of the pixels, RGB."""
    height, width = pixels.shape[:2]
    few = pixels[:: max(1, height // 150) | 1, :: max(1, width // 150) | 1].reshape(-1, 3)
    keys = (few >> 2).astype(np.int32) @ np.array([1 << 12, 1 << 6, 1], np.int32)
    alike = few[keys == np.bincount(keys).argmax()]
    red, green, blue = alike.mean(0).round().astype(int).tolist()
    return red, green, blue


def chunks(rows: int) -> Iterator[tuple[int, int]]:
    """Yield half-open ranges of several rows of tiles, from top to bottom."""
    for first in range(0, rows, CHUNK_TILES):
        yield first, min(first + CHUNK_TILES, rows)


def _whole(length: int) -> int:
    return -(-length // TILE_PX) * TILE_PX


_SCALES = (1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)  # pixels of a screen to one of CSS
_NEAR_SCALE = 0.01


def fit_widths(seen: Pixels, shown: Pixels) -> tuple[TiledPicture, TiledPicture]:
    """Bring both pictures to a common width.

    When one is larger by a device pixel ratio in width, and about as much in height, it is scaled
    down. Else the narrower one is padded with its background: content of the other there is lost,
    or added.
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
