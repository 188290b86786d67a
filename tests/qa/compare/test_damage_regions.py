"""Tests of `qa.compare.damage_regions`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qa.compare.damage_regions import label_connected

pytestmark = pytest.mark.slow


def test_connected_parts_are_numbered_whatever_their_shape() -> None:
    """A spiral is one part, a chess board has as many as black squares."""
    spiral = np.zeros((41, 41), np.bool_)
    row, column, step, (down, right) = 20, 20, 1, (0, 1)
    while 0 < row < 40 and 0 < column < 40:
        for _ in range(2):
            for _ in range(2 * step):
                spiral[row % 41, column % 41] = True
                row, column = row + down, column + right
            down, right = right, -down
        step += 1
    board = np.indices((40, 40)).sum(0) % 2 == 0

    assert label_connected(spiral).max() == 1
    assert label_connected(board).max() == 800
    assert label_connected(~(spiral & False)).max() == 1
    assert label_connected(spiral & False).max() == 0


@given(st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=1, max_size=9))
def test_connected_parts_are_those_that_touch(rows: list[list[bool]]) -> None:
    """Held to a search that walks from square to square."""
    flags = np.array(rows)
    labels = label_connected(flags)
    seen: set[tuple[int, int]] = set()
    parts = []
    for start in zip(*np.nonzero(flags), strict=True):
        if start in seen:
            continue
        part, ahead = set(), [start]
        while ahead:
            row, column = ahead.pop()
            inside = 0 <= row < flags.shape[0] and 0 <= column < 7
            if not inside or (row, column) in part or not flags[row, column]:
                continue
            part.add((row, column))
            ahead += [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
        seen |= part
        parts.append(part)

    assert labels.max() == len(parts)
    assert (labels > 0).tolist() == flags.tolist()
    for part in parts:
        assert len({int(labels[place]) for place in part}) == 1
