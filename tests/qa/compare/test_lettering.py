"""Changed text in its place: other colours are for a person to look at, other words are another page."""

import random

import numpy as np
from PIL import Image, ImageDraw

from core.playback_check import QaVerdict
from qa.compare.picture_comparison import PictureComparison, compare_pictures
from tests.support.drawing import Pixels, font, packed, page, photo, words

LINES = 14
PAGE = page(1)


def entry(*, changed: int = 0) -> Pixels:
    """Draw a register's entry: a photo that all have, and lines, the first `changed` of another entry."""
    image = Image.new("RGB", (1280, 800), (255, 255, 255))
    image.paste(Image.fromarray(photo(7, 1200, 340)), (40, 40))
    pen = ImageDraw.Draw(image)
    for line in range(LINES):
        chosen = random.Random(line + (100 if line < changed else 0))
        pen.text((40, 410 + 26 * line), words(chosen, 9), fill=(20, 20, 20), font=font(16))
    return np.array(image)


def compared(seen: Pixels, shown: Pixels) -> PictureComparison:
    return compare_pictures(packed(seen), packed(shown))


def test_other_words_in_the_same_layout_are_another_page() -> None:
    """Most of what is drawn is a photo that did not change; the text is another all the same."""
    comparison = compared(entry(), entry(changed=LINES))

    assert comparison.lost + comparison.changed < 0.26  # too little for the other rules
    assert comparison.rewritten > 0.5
    assert comparison.verdict is QaVerdict.BROKEN


def test_a_line_that_changed_is_no_other_page() -> None:
    """A date, a counter."""
    comparison = compared(entry(), entry(changed=1))

    assert 0 < comparison.rewritten < 0.12
    assert comparison.verdict is QaVerdict.GOOD


def test_a_page_in_its_dark_colours_is_doubtful() -> None:
    """Every line is where it was and can be read."""
    comparison = compared(PAGE, 255 - PAGE)

    assert comparison.recoloured > 0.8
    assert comparison.rewritten < 0.05
    assert comparison.verdict is QaVerdict.DOUBTFUL


def test_another_page_in_other_colours_is_broken() -> None:
    """A page with other lines is not excused by its other colours."""
    comparison = compared(PAGE, 255 - page(2))

    assert comparison.recoloured < 0.25
    assert comparison.verdict is QaVerdict.BROKEN
