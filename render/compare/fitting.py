"""Two pictures made comparable: equally wide."""

import numpy as np
from PIL import Image

from render.compare.opening import MOST_PIXELS, Pixels
from render.compare.sheets import Sheet, sheet_of

_SCALES = (1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)  # pixels of a screen to one of CSS
_NEAR_SCALE = 0.01


def fitted(seen: Pixels, shown: Pixels) -> tuple[Sheet, Sheet]:
    """Both as sheets of one width.

    Where one is as many times as wide as screens have pixels for one of CSS, and about as many times as
    high, it is scaled down. Else the narrower one is set on its ground: what the other has there is
    lost, or added.
    """
    seen, shown = _scaled(seen, shown), _scaled(shown, seen)
    width = max(seen.shape[1], shown.shape[1])
    first = sheet_of(seen, width)
    return first, sheet_of(shown, width, first)


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
