"""Pictures as rows of tiles: decoder of untrusted PNG, JPEG and WebP files, and metrics of aligned tiles.

A PNG is read by Rust's image libraries (kornia-rs) in a third of Pillow's time, unless it has chunks that change its
appearance: transparency, orientation, animation. The size of a picture is checked before decompression: a small file
may declare a picture that exceeds memory.

A pixel matches when each picture has its brightness, or nearly, among the other's pixels around that place: letter
edges drawn with another subpixel placement differ in place, but not in their surroundings. Structure is the similarity
index of Wang, Bovik, Sheikh and Simoncelli (2004). Colour without brightness is compared in blocks.
"""

import io
import struct
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from kornia_rs import io as kornia_io
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from core.errors import PictureError

Pixels = NDArray[np.uint8]  # rows by columns by RGB

SIGNATURE = b"\x89PNG\r\n\x1a\n"
LEFT_OUT = {b"tRNS", b"acTL", b"eXIf"}  # transparency, animation, rotation: they change the picture
_MODES = {b"\x08\x02": "rgb", b"\x08\x06": "rgba"}  # depth and colour: PNG, 3rd edition, table 11.1


def decode_8bit_png(data: bytes) -> NDArray[np.uint8] | None:
    """Decode, after a check of the declared size, to rows by columns by RGB or RGBA; None: another kind, or damaged."""
    mode = _MODES.get(data[24:26])
    if not data.startswith(SIGNATURE) or mode is None:
        return None
    at = len(SIGNATURE)
    while at + 8 <= len(data):
        if data[at + 4 : at + 8] in LEFT_OUT:
            return None
        at += 12 + int.from_bytes(data[at : at + 4], "big")
    width, height = struct.unpack(">II", data[16:24])
    try:
        pixels: NDArray[np.uint8] = kornia_io.decode_image_png_u8(data, (height, width), mode)
    except Exception:  # noqa: BLE001 # the reader has no class of its own for what it cannot read
        return None
    return pixels


FORMATS = ("PNG", "JPEG", "WEBP")
MOST_PIXELS = 60_000_000
MOST_BYTES = 120_000_000
LONGEST_SIDE_PX = 65_535
_METHOD = 2  # of WebP, 0 to 6; 4 takes three times as long for a twentieth less
_UNREADABLE = (OSError, ValueError, SyntaxError, LookupError, struct.error)
# Operation for each EXIF orientation except the first, which is the identity.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def decode_picture(data: bytes) -> Pixels:
    """Decode a picture to RGB as a browser shows it: on white, oriented, the first frame. Raises PictureError."""
    if not data:
        raise PictureError("The picture file is empty.")
    if len(data) > MOST_BYTES:
        raise PictureError(f"The picture has {len(data):,} bytes; at most {MOST_BYTES:,} are read.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its size is judged below, strictly
            image = Image.open(io.BytesIO(data), formats=FORMATS)
        with image:
            width, height = image.size
            if max(width, height) > LONGEST_SIDE_PX or width * height > MOST_PIXELS:
                raise PictureError(
                    f"The picture is {width:,} by {height:,} pixels; at most {MOST_PIXELS:,} pixels"
                    f" and {LONGEST_SIDE_PX:,} on a side are compared."
                )
            pixels = decode_8bit_png(data) if image.format == "PNG" else None
            if pixels is not None:
                if pixels.shape[2] == 3:
                    return pixels
                if pixels[..., 3].min() == 255:
                    return np.ascontiguousarray(pixels[..., :3])
                return np.asarray(_opaque(Image.fromarray(pixels)))
            image.load()
            whole: Image.Image = image
            if image.mode.startswith("I"):  # Pillow's own conversion of 16-bit greys clips
                whole = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
                whole.info = image.info
            return np.asarray(_opaque(_turned(whole)))
    except UnidentifiedImageError as error:
        raise PictureError("This is not a PNG, JPEG or WebP picture.") from error
    except Image.DecompressionBombError as error:
        raise PictureError(f"The picture is too large: at most {MOST_PIXELS:,} pixels are compared.") from error
    except (*_UNREADABLE, EOFError, OverflowError) as error:
        raise PictureError(f"The picture is damaged: {error}.") from error


def shrink_picture(data: bytes, *, widest: int, tallest: int, quality: int) -> bytes | None:
    """Encode the top of a picture as WebP of a bounded size; None when it is not a picture."""
    try:
        image = Image.fromarray(decode_picture(data))
    except PictureError:
        return None
    if image.width > widest:
        height = max(1, round(image.height * widest / image.width))
        image = image.resize((widest, height), Image.Resampling.BOX, reducing_gap=2.0)
    if image.height > tallest:
        image = image.crop((0, 0, image.width, tallest))
    return encode_image(image, "WEBP", quality=quality, method=_METHOD)


def encode_image(image: Image.Image, form: str, **options: Any) -> bytes:
    """Encode an image in a form of Pillow's, with its options."""
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def _turned(image: Image.Image) -> Image.Image:
    """Apply the EXIF orientation; invalid EXIF is ignored."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            orientation = image.getexif().get(ExifTags.Base.Orientation)
    except (*_UNREADABLE, TypeError):
        return image
    turn = _TURNS.get(orientation) if isinstance(orientation, int) else None
    return image if turn is None else image.transpose(turn)


def _opaque(image: Image.Image) -> Image.Image:
    if image.mode == "RGB":
        return image
    if not image.has_transparency_data:
        return image.convert("RGB")
    whole = image.convert("RGBA")
    alpha = whole.getchannel("A")
    if alpha.getextrema() == (255, 255):
        return whole.convert("RGB")
    ground = Image.new("RGB", image.size, "white")
    ground.paste(whole, mask=alpha)
    return ground


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
    """Picture padded with its background colour to whole tiles."""

    rows: PictureRows
    height: int  # without padding
    width: int
    ground: tuple[int, int, int]  # the background's colour, RGB
    bright: int  # its brightness

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
    grey = np.empty(pixels.shape[:2], np.uint8)
    step = CHUNK_TILES * TILE_PX
    for first in range(0, len(pixels), step):
        part = pixels[first : first + step]
        if like is not None and np.array_equal(part, like.rows.pixels[first : first + step]):
            grey[first : first + step] = like.rows.grey[first : first + step]
        else:
            grey[first : first + step] = np.asarray(Image.fromarray(part).convert("L"))
    return TiledPicture(PictureRows(grey, pixels), height, own, ground, bright)


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
    """Bring both to a common width: one larger by a device pixel ratio is scaled down, else the narrower is padded."""
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


# Of 255. A tenth of the way from black to white, where pixelmatch's threshold is by default.
NEAR = 25
NEAR_COLOUR = 30
_STEADY_MEAN = (0.01 * 255) ** 2  # Wang et al. 2004, section III.B
_STEADY_SPREAD = (0.03 * 255) ** 2


@dataclass(frozen=True, slots=True)
class TileMetrics:
    """Metrics of every tile of two aligned pictures, rows by columns."""

    missed: Floats  # share of the pixels that do not match
    hued: Floats  # share of the blocks with different colours
    alike: Floats  # structural similarity, -1 to 1
    follows: Floats  # correlation of the brightness, regardless of contrast, -1 to 1
    range_seen: Floats  # difference of the tile's darkest and brightest pixel
    range_shown: Floats
    spread_seen: Floats  # standard deviation of the tile's brightness
    spread_shown: Floats
    colour_seen: Floats  # mean colour of the tile, YCbCr
    colour_shown: Floats


def measure_tiles(seen: PictureRows, shown: Callable[[int, int], PictureRows]) -> TileMetrics:
    """Measure every tile; `shown` returns the shown rows of a half-open range."""
    rows, columns = seen.grey.shape[0] // TILE_PX, seen.grey.shape[1] // TILE_PX
    metrics = TileMetrics(*(np.empty((rows, columns, *more), np.float32) for more in [()] * 8 + [(3,)] * 2))
    for first, end in chunks(rows):
        one = seen.part(first * TILE_PX, end * TILE_PX)
        other = shown(first * TILE_PX, end * TILE_PX)
        part = _equal_metrics(one) if one.equals(other) else _compared_metrics(one, other)
        for each in fields(TileMetrics):
            getattr(metrics, each.name)[first:end] = getattr(part, each.name)
    return metrics


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
    wider = tall.copy()
    # As one line it takes half the time; a row's ends have no neighbours in other rows.
    line, beside = wider.reshape(-1), tall.reshape(-1)
    most(line[1:], beside[:-1], out=line[1:])
    most(line[:-1], beside[1:], out=line[:-1])
    for end, inner in ((0, 1), (-1, -2)):
        most(tall[:, end], tall[:, inner], out=wider[:, end])
    return wider


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
