"""What people decided about how links are looked at reaches the looks, and their schedule (A16)."""

from dataclasses import replace

import pytest

from links.checking.judging import Rules
from links.presets import DEFAULT, IABOT
from links.store.store import Store
from tests.links.checking.farm import Days, Decided, checking, farming
from tests.links.checking.rows import row_of, watch

pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds

URL = "https://example.org/"


def test_a_setting_changes_the_rules_of_its_urls() -> None:
    """The preset, and how often what works is looked at; all else stays."""
    plain = Rules(DEFAULT, browser=True)
    assert plain.of(URL) is plain
    none = replace(plain, settings=Decided())
    assert none.of(URL) is none
    seldom = replace(plain, settings=Decided(settings={"every_days": "30"})).of(URL)
    assert (seldom.preset.alive_days, seldom.preset.spread_days) == (30, 0)
    assert seldom.preset.failing_days == DEFAULT.failing_days
    other = replace(plain, settings=Decided(settings={"preset": "iabot"})).of(URL)
    assert other.preset == IABOT
    assert other.browser


@pytest.mark.parametrize(("method", "asked"), [("get", {"GET"}), ("head", {"HEAD"})])
async def test_a_pass_asks_and_comes_back_as_was_decided(
    method: str, asked: set[str], sqlite_store: Store
) -> None:
    """By that method first, and again after so many days."""
    days = Days()
    marks = Decided(settings={"method": method, "every_days": "90"})
    (id_,) = watch(sqlite_store, ["http://a.example/"], day=days.day).values()
    async with (
        farming() as farm,
        checking(sqlite_store, farm, ["a.example"], days=days, marks=marks) as checker,
    ):
        await checker.check()
        assert {each.method for each in farm.asked} == asked

    assert row_of(sqlite_store, id_).due_day == days.day + 90
