"""docs/explanation/comparing.md says what is so.

With ``WEBOID_PICTURES=docs/pictures`` it also makes the page's picture.
"""

import doctest
import io
import os
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from qa.compare.picture_comparison import PictureComparison, compare_pictures
from tests.support.drawing import banner, packed, page, photo

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "comparing.md"


def test_the_example_runs() -> None:
    """The document's own lines, with what they print."""
    done = doctest.testfile(str(DOCUMENT), module_relative=False, optionflags=doctest.ELLIPSIS)

    assert done.attempted > 5
    assert done.failed == 0


def test_every_figure_is_explained() -> None:
    """The table has a row for each; sizes and the map speak for themselves."""
    text = DOCUMENT.read_text(encoding="utf-8")
    plain = {"size_seen", "size_shown", "heat"}

    for each in fields(PictureComparison):
        assert each.name in plain or f"`{each.name}`" in text


@pytest.mark.slow
def test_a_heat_map_shows_each_kind_of_damage() -> None:
    """A picture lost, one changed, a banner put in, and a box over the words."""
    seen = page(11, 1000, photos=0)
    seen[130:330, 900:1200] = photo(3, 300, 200)
    seen[400:560, 900:1200] = photo(4, 300, 160)
    shown = seen.copy()
    shown[130:330, 900:1200] = 255
    shown[400:560, 900:1200] = photo(5, 300, 160)
    shown[640:960, 300:1100] = 250
    shown[660:940, 320:1080] = page(12, photos=0)[96:376, 280:1040]
    shown = np.concatenate([shown[:64], banner(shown[:1], 50)[:50], shown[64:]])
    comparison = compare_pictures(packed(seen), packed(shown), heat=True)
    assert comparison.heat is not None
    heat = Image.open(io.BytesIO(comparison.heat)).convert("RGB")

    assert {each.kind.value for each in comparison.regions} >= {"lost", "changed", "covered"}
    assert comparison.moved > 0.8
    if folder := os.environ.get("WEBOID_PICTURES"):
        small = heat.resize((960, heat.height * 960 // heat.width), Image.Resampling.LANCZOS)
        small.quantize(255).save(Path(folder, "compare-heat.png"), optimize=True)
