"""How much a copy looks like what was captured: two pictures of a page, compared (A20); pure.

Pictures are compared as a person glances at them: by the colour of small blocks, and by how much is
drawn in each. So a substitute typeface, a line that breaks a word earlier or another rendering of a
shadow costs little, and a lost column, background or picture costs all of its blocks. Blocks where
neither picture has anything count little: pages are mostly ground.
"""

import io
from dataclasses import dataclass

from PIL import Image, ImageChops, ImageFilter

from core.errors import PermanentError

_BLOCK_PX = 16
_TALLEST_PX = 8_000  # below, both pictures are cut off: a page is known by its beginning
_MOST_PIXELS = 150_000_000
_INK = 24  # how much brighter than what is beside it a pixel is that counts as drawn
_GROUND_WEIGHT = 0.08
_FAR = 0.3  # colours so far apart share nothing
_FORMATS = ("PNG", "JPEG", "WEBP")


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike two pictures of a page are; each from 0 to 1.

    Attributes:
        score: all together.
        colour: of the blocks' colours.
        ink: of what is drawn in them.
        height: the lower picture's height by the other's.
    """

    score: float
    colour: float
    ink: float
    height: float


def compare(seen: bytes, shown: bytes) -> Likeness:
    """How much of what was `seen` at capture is `shown` by the copy; pictures of the whole page.

    Raises:
        PermanentError: one of them is no picture, or too large.
    """
    first, second = _opened(seen), _opened(shown)
    if second.width != first.width:
        height = max(1, round(second.height * first.width / second.width))
        second = second.resize((first.width, height), Image.Resampling.BOX)
    by_height = min(first.height, second.height) / max(first.height, second.height)
    tall = min(max(first.height, second.height), _TALLEST_PX)
    one, other = _Blocks(first, tall), _Blocks(second, tall)
    both = colour = ink = weights = 0.0
    for place in range(one.count):
        weight = max(one.weight(place), other.weight(place))
        weights += weight
        if one.is_there(place) and other.is_there(place):
            of_colour = _colour_likeness(one.colours[place], other.colours[place])
            of_ink = _ink_likeness(one.ink[place], other.ink[place])
            colour += weight * of_colour
            ink += weight * of_ink
            both += weight * of_colour * of_ink
    score, colour, ink = both / weights, colour / weights, ink / weights
    return Likeness(round(score, 4), round(colour, 4), round(ink, 4), round(by_height, 4))


def _opened(data: bytes) -> Image.Image:
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            if image.width * image.height > _MOST_PIXELS or min(image.size) < 1:
                raise PermanentError("A picture that is too large to be compared.")
            return image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise PermanentError(f"A picture that cannot be read: {error}.") from error


class _Blocks:
    """A picture as rows of blocks: each one's colour, and how much is drawn in it."""

    def __init__(self, image: Image.Image, tall: int) -> None:
        image = image.crop((0, 0, image.width, min(image.height, tall)))
        columns = max(1, image.width // _BLOCK_PX)
        rows = max(1, tall // _BLOCK_PX)
        own_rows = max(1, min(rows, image.height // _BLOCK_PX))
        self.count = columns * rows
        self._own = columns * own_rows
        size = (columns, own_rows)
        small = image.resize(size, Image.Resampling.BOX)
        self.colours = _triples(small.filter(ImageFilter.GaussianBlur(0.8)))
        edges = _edges(image).resize(size, Image.Resampling.BOX)
        self.ink = [value / 255 for value in edges.filter(ImageFilter.BoxBlur(1)).tobytes()]
        ground = _commonest(_triples(small))
        self._stands_out = [
            ink > 0.02 or _distance(colour, ground) > 0.06
            for ink, colour in zip(self.ink, self.colours, strict=True)
        ]

    def is_there(self, place: int) -> bool:
        return place < self._own

    def weight(self, place: int) -> float:
        return 1.0 if place < self._own and self._stands_out[place] else _GROUND_WEIGHT


def _edges(image: Image.Image) -> Image.Image:
    """White where something is drawn: a pixel differs from its neighbour to the right or below."""
    grey = image.convert("L")
    right = ImageChops.difference(grey, ImageChops.offset(grey, 1, 0))
    below = ImageChops.difference(grey, ImageChops.offset(grey, 0, 1))
    return ImageChops.lighter(right, below).point(lambda value: 255 if value > _INK else 0)


_Colour = tuple[int, int, int]


def _triples(image: Image.Image) -> list[_Colour]:
    data = image.tobytes()
    return list(zip(data[::3], data[1::3], data[2::3], strict=True))


def _commonest(colours: list[_Colour]) -> _Colour:
    counts: dict[_Colour, int] = {}
    for red, green, blue in colours:
        rough = (red & 0xF8, green & 0xF8, blue & 0xF8)
        counts[rough] = counts.get(rough, 0) + 1
    return max(counts, key=lambda each: counts[each])


def _distance(one: _Colour, other: _Colour) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) / 255


def _colour_likeness(one: _Colour, other: _Colour) -> float:
    return max(0.0, 1 - _distance(one, other) / _FAR)


def _ink_likeness(one: float, other: float) -> float:
    more = max(one, other)
    return 1.0 if more < 0.02 else 1 - abs(one - other) / max(more, 0.12)
