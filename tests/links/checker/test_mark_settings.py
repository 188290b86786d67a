"""Operator marks that change how links are checked, and their schedule (A16)."""

from dataclasses import replace
from itertools import pairwise

import pytest

from links.checker.result_store import CheckRules
from links.registry.database import RegistryStore
from links.states import DEFAULT, IABOT
from tests.support.check_rows import row_of, watch
from tests.support.server_farm import DayClock, FixedMarks, HostReply, checking, running_server_farm

pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds

URL = "https://example.org/"


def test_a_setting_changes_the_rules_of_its_urls() -> None:
    """The preset, and how often what works is looked at; all else stays."""
    plain = CheckRules(DEFAULT, browser=True)
    assert plain.of(URL) is plain
    none = replace(plain, settings=FixedMarks().setting)
    assert none.of(URL) is none
    seldom = replace(plain, settings=FixedMarks(settings={"every_days": "30"}).setting).of(URL)
    assert (seldom.preset.alive_days, seldom.preset.spread_days) == (30, 0)
    assert seldom.preset.failing_days == DEFAULT.failing_days
    other = replace(plain, settings=FixedMarks(settings={"preset": "iabot"}).setting).of(URL)
    assert other.preset == IABOT
    assert other.browser


@pytest.mark.parametrize(("method", "request_methods"), [("get", {"GET"}), ("head", {"HEAD"})])
async def test_a_pass_asks_and_comes_back_as_was_decided(
    method: str, request_methods: set[str], sqlite_store: RegistryStore
) -> None:
    """By that method first, and again after so many days."""
    days = DayClock()
    marks = FixedMarks(settings={"method": method, "every_days": "90"})
    (id_,) = watch(sqlite_store, ["http://a.example/"], day=days.day).values()
    async with (
        running_server_farm() as farm,
        checking(sqlite_store, farm, ["a.example"], days=days, marks=marks) as checker,
    ):
        await checker.check()
        assert {each.method for each in farm.requests} == request_methods

    assert row_of(sqlite_store, id_).due_day == days.day + 90


async def test_a_host_is_asked_with_the_gap_that_people_set(sqlite_store: RegistryStore) -> None:
    """In place of the general one, for every request to it (seed of W46)."""
    days = DayClock()
    marks = FixedMarks(settings={"gap_s": "0.3"})
    watch(sqlite_store, [f"http://a.example/{number}" for number in range(3)], day=days.day)
    async with (
        running_server_farm() as farm,
        checking(sqlite_store, farm, ["a.example"], days=days, marks=marks) as checker,
    ):
        await checker.check()

    requests = sorted(farm.requests_to("a.example"), key=lambda each: each.began)
    assert len(requests) >= 3
    assert all(after.began - before.ended >= 0.3 for before, after in pairwise(requests))


async def test_a_host_that_limited_us_is_asked_slowly_by_the_next_checker(sqlite_store: RegistryStore) -> None:
    """The limit learnt from 429 and Retry-After is stored with the URL (W56), and doubles its host's gap."""
    days = DayClock()
    url = "http://a.example/"
    async with running_server_farm() as farm:
        watch(sqlite_store, [url], day=days.day)
        farm.hosts["a.example"] = lambda _method, _path: HostReply(429, headers={"Retry-After": "90"})
        async with checking(sqlite_store, farm, ["a.example"], days=days) as checker:
            await checker.check()
        farm.hosts.clear()
        days.day += 2
        async with checking(sqlite_store, farm, ["a.example"], days=days) as checker:
            await checker.check()
            gaps = checker.context.turns.gaps
            assert (gaps.of("a.example"), gaps.of("b.example")) == (2 * gaps.gap_s, gaps.gap_s)
