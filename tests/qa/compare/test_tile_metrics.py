"""Tests of `qa.compare.tile_metrics`."""

import numpy as np
import pytest

from qa.compare.tile_metrics import mismatches

pytestmark = pytest.mark.slow


def test_the_same_edge_drawn_another_way_matches() -> None:
    """A pixel aside, or half of one; a line that is gone does not."""
    sharp = np.full((40, 40), 255, np.uint8)
    soft, none = sharp.copy(), sharp.copy()
    sharp[:, 20:22] = 0
    soft[:, 19], soft[:, 20], soft[:, 21] = 128, 0, 128

    assert not mismatches(sharp, soft).any()
    assert not mismatches(sharp, np.roll(sharp, 1, 1)).any()
    assert mismatches(sharp, none).sum() == mismatches(none, sharp).sum() == 80
