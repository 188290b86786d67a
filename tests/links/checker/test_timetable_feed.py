"""Tests of `links.checker.timetable_feed`."""

import pytest

from links.checker.timetable_feed import GET_EACH, SIBLING_EACH, is_stricter
from tests.support.check_rows import url_row


@pytest.mark.parametrize("each", [GET_EACH, SIBLING_EACH], ids=["get", "beside"])
def test_about_so_many_looks_go_closer(each: int) -> None:
    """With seven or eight days between looks every link has its turn."""
    looks = [url_row(f"http://a.example/{number}", checked_day=1) for number in range(50)]

    turns = [sum(is_stricter(look, day, each) for day in range(0, 7 * 64, 7)) for look in looks]

    assert set(turns) == {64 // each}
    assert is_stricter(url_row("http://a.example/"), 1, each)
