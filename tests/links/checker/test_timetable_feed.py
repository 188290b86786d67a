"""Tests of `links.checker.timetable_feed`."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from links.checker.due_urls import DueUrl
from links.checker.timetable_feed import checks_sibling, uses_get
from links.states import LinkHealth

pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds


@pytest.mark.parametrize(("each", "goes"), [(4, uses_get), (16, checks_sibling)], ids=["get", "beside"])
def test_about_so_many_looks_go_closer(each: int, goes: Callable[[DueUrl, int], bool]) -> None:
    """With seven or eight days between looks every link has its turn."""
    url = DueUrl(1, bytes(16), 1, "a.example", "http://a.example/", 0, LinkHealth(), is_new=False)
    looks = [replace(url, key=bytes([first]) * 16) for first in range(0, 256, 5)]

    turns = [sum(goes(look, day) for day in range(0, 7 * 64, 7)) for look in looks]

    assert set(turns) == {64 // each}
    assert goes(replace(url, is_new=True), 1)
