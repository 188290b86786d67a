"""Tests of `links.checker.timetable_feed`."""

from collections.abc import Callable

import pytest

from links.checker.timetable_feed import checks_sibling, uses_get
from links.registry.urls import UrlRow
from tests.support.check_rows import url_row

pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds


@pytest.mark.parametrize(("each", "goes"), [(4, uses_get), (16, checks_sibling)], ids=["get", "beside"])
def test_about_so_many_looks_go_closer(each: int, goes: Callable[[UrlRow, int], bool]) -> None:
    """With seven or eight days between looks every link has its turn."""
    looks = [url_row(f"http://a.example/{number}", checked_day=1) for number in range(50)]

    turns = [sum(goes(look, day) for day in range(0, 7 * 64, 7)) for look in looks]

    assert set(turns) == {64 // each}
    assert goes(url_row("http://a.example/"), 1)
