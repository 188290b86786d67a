"""The baseline of `bench.qa_labelled`: pictures compared pixel by pixel, texts by edit distance.

So browsertrix scores the pages of its QA runs: the share of pixels that pixelmatch (threshold 0.1) does
not count, and one minus the edit distance over the longer text's length; below 0.5 a match is
"severe" to its reviewers, below 0.9 "moderate". This is our own writing of what pixelmatch publishes: a
pixel differs when its distance in YIQ (Kotsarenko, Ramos 2010) is beyond the threshold, unless it is part
of a smoothed edge in one of the pictures (Vysniauskas 2009). Where sizes differ, which browsertrix does
not compare, the shown picture is cut, or filled up with white, to the size of the seen one.
"""

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SEVERE, MODERATE = 0.5, 0.9  # browsertrix's own bounds
THRESHOLD = 0.1
_MOST_DISTANT = 35_215  # the largest distance in YIQ
_MOST_CHARACTERS = 2_000  # of each text: edit distance takes the product of the lengths
_AROUND = tuple((y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0))

Pixels = NDArray[np.float32]
Places = NDArray[np.intp]
Bytes = NDArray[np.uint8]


def picture_match(seen: bytes, shown: bytes) -> float:
    """Share of the seen picture's pixels that match."""
    with Image.open(io.BytesIO(seen)) as image:
        first = image.convert("RGB")
    with Image.open(io.BytesIO(shown)) as image:
        second = Image.new("RGB", first.size, (255, 255, 255))
        second.paste(image.convert("RGB"))
    one, other = (np.asarray(each.convert("RGBA")) for each in (first, second))
    rows, columns = np.nonzero(_packed(one) != _packed(other))
    if not rows.size:
        return 1.0
    far = _distances(one[rows, columns], other[rows, columns]) > _MOST_DISTANT * THRESHOLD**2
    for drawn, beside in ((one, other), (other, one)):
        rows, columns = rows[far], columns[far]
        far = ~_smoothed(drawn, beside, rows, columns)
    return 1 - int(far.sum()) / (first.width * first.height)


def text_match(seen: str, shown: str) -> float:
    """Return one minus the edit distance of the texts' beginnings over the longer one's length."""
    one, other = seen[:_MOST_CHARACTERS], shown[:_MOST_CHARACTERS]
    longest = max(len(one), len(other))
    return 1 - distance(one, other) / longest if longest else 1.0


def distance(one: str, other: str) -> int:
    """Return the edit distance (insertions, deletions, substitutions), computed a row at a time.

    >>> distance("kitten", "sitting")
    3
    """
    letters = np.array([ord(each) for each in other], dtype=np.int64)
    places = np.arange(letters.size + 1)
    row = places.copy()
    for number, letter in enumerate(one, 1):
        after = np.minimum(row[1:] + 1, row[:-1] + (letters != ord(letter)))
        after = np.concatenate(([number], after))
        # From the left each step costs one: the least of what stands before, less its place.
        row = np.minimum.accumulate(after - places) + places
    return int(row[-1])


def _packed(image: Bytes) -> NDArray[np.uint32]:
    """Return each pixel as one number."""
    return image.view(np.uint32)[..., 0]


def _distances(one: Bytes, other: Bytes) -> Pixels:
    apart = one[:, :3].astype(np.float32) - other[:, :3]
    red, green, blue = apart.T
    y = red * 0.29889531 + green * 0.58662247 + blue * 0.11448223
    i = red * 0.59597799 - green * 0.27417610 - blue * 0.32180189
    q = red * 0.21147017 - green * 0.52261711 + blue * 0.31114694
    return np.asarray(0.5053 * y * y + 0.299 * i * i + 0.1957 * q * q, dtype=np.float32)


def _smoothed(one: Bytes, other: Bytes, rows: Places, columns: Places) -> NDArray[np.bool_]:
    """Return which of the pixels belong to a smoothed edge of `one`.

    Such a pixel has a darker and a brighter neighbour, at most two neighbours of its own brightness, and
    the darkest or the brightest of them lies in an even area in both pictures.
    """
    weights = np.array([0.29889531, 0.58662247, 0.11448223, 0.0], dtype=np.float32)
    bright = np.pad(one @ weights, 1, constant_values=np.nan)
    own = bright[rows + 1, columns + 1]
    around = np.stack([bright[rows + 1 + y, columns + 1 + x] for y, x in _AROUND]) - own
    equal = (around == 0).sum(axis=0) + np.isnan(around).any(axis=0)
    inside = np.nan_to_num(around)
    darkest, brightest = inside.argmin(axis=0), inside.argmax(axis=0)
    pick = np.arange(rows.size)
    possible = (equal <= 2) & (inside[darkest, pick] < 0) & (inside[brightest, pick] > 0)
    steps = np.array(_AROUND)
    mask = np.zeros(rows.size, dtype=bool)
    for chosen in (darkest, brightest):
        indices = np.flatnonzero(possible & ~mask)
        y, x = rows[indices] + steps[chosen[indices], 0], columns[indices] + steps[chosen[indices], 1]
        mask[indices] = _even(one, y, x) & _even(other, y, x)
    return mask


def _even(image: Bytes, rows: Places, columns: Places) -> NDArray[np.bool_]:
    """Return which pixels have at least three neighbours of the very same colour; an edge counts for one."""
    packed = np.pad(_packed(image), 1)  # no pixel is 0: all are opaque
    own = packed[rows + 1, columns + 1]
    around = np.stack([packed[rows + 1 + y, columns + 1 + x] for y, x in _AROUND])
    even: NDArray[np.bool_] = (around == own).sum(axis=0) + (around == 0).any(axis=0) > 2
    return even
