"""Schedules: when a link is looked at again, and whether everything is looked at in time."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from links.check_history import LAST_DAY
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.checker.check_schedule import forecast_checks, next_due
from links.states import DEFAULT, IABOT, PRESETS, CheckPreset, LinkHealth, LinkState, next_health
from links.url_parts import key_of

_KEY = key_of("http://example.org/")
_OK = CheckResult(StatusCode.FINE, CheckVerdict.OK, CheckMethod.HEAD)
_GONE = CheckResult(StatusCode.NOT_FOUND, CheckVerdict.GONE, CheckMethod.GET)
_LIMITED = CheckResult(StatusCode.TOO_MANY, CheckVerdict.UNDECIDED, CheckMethod.GET)
_ALIVE = LinkHealth(LinkState.ALIVE)
_DYING = LinkHealth(LinkState.DYING, 1, 0, 0)


def _days(
    before: LinkHealth, now: LinkHealth, finding: CheckResult, preset: CheckPreset = DEFAULT, key: bytes = _KEY
) -> int:
    due = next_due(before, now, finding, 100, preset, key)
    assert due is not None
    return due - 100


def test_a_link_that_works_is_looked_at_after_seven_days() -> None:
    """B09; by the default a day is added to some, so that what is due parts."""
    assert _days(_ALIVE, _ALIVE, _OK, IABOT) == 7
    days = {_days(_ALIVE, _ALIVE, _OK, key=key_of(str(number))) for number in range(50)}
    assert days == {7, 8}


def test_what_is_imported_on_one_day_is_spread_over_the_week() -> None:
    """The first good look decides on which day of the week a link is due."""
    counts = dict.fromkeys(range(1, 8), 0)
    for number in range(7000):
        counts[_days(LinkHealth(), _ALIVE, _OK, key=key_of(str(number)))] += 1
    assert min(counts.values()) > 800
    assert {_days(LinkHealth(), _ALIVE, _OK, IABOT, key_of(str(number))) for number in range(99)} == {7}


@pytest.mark.parametrize("before", [_ALIVE, _DYING, LinkHealth()])
def test_a_link_that_fails_is_looked_at_after_three_days(before: LinkHealth) -> None:
    """B09: three days after a failure."""
    assert _days(before, _DYING, _GONE) == 3
    assert _days(before, _DYING, _GONE, IABOT) == 3


def test_a_dead_link_is_looked_at_less_and_less() -> None:
    """Seven days, then a day more each time, thirty at most."""
    day, standing = 100, LinkHealth(LinkState.DEAD, 4, 91, 100)
    due = next_due(_DYING, standing, _GONE, day, DEFAULT, _KEY)
    gaps = []
    for _ in range(30):
        assert due is not None
        gaps.append(due - day)
        day, before = due, standing
        standing = next_health(before, _GONE, day, DEFAULT, browser=False)
        due = next_due(before, standing, _GONE, day, DEFAULT, _KEY)
    assert gaps == [*range(7, 30), 30, 30, 30, 30, 30, 30, 30]


def test_a_dead_link_is_looked_at_weekly_by_iabot() -> None:
    """B09: back to seven days once dead."""
    dead = LinkHealth(LinkState.DEAD, 4, 91, 100)
    assert _days(replace(dead, last_fail=80), dead, _GONE, IABOT) == 7


@pytest.mark.parametrize("state", [LinkState.PERMALIVE, LinkState.PERMADEAD, LinkState.INVALID, LinkState.EXCLUDED])
def test_what_is_decided_is_never_looked_at(state: LinkState) -> None:
    """B10, B11, W48."""
    standing = LinkHealth(state)
    assert next_due(standing, standing, _OK, 100, DEFAULT, _KEY) is None


@pytest.mark.parametrize("state", [LinkState.BLOCKED, LinkState.USURPED, LinkState.DEVIATED])
def test_what_hardly_changes_is_due_within_a_month(state: LinkState) -> None:
    """So that a pass over everything is over in four weeks."""
    assert 7 <= _days(LinkHealth(state), LinkHealth(state), _OK) <= 29


@pytest.mark.parametrize(("asked_s", "days"), [(1.0, 2), (4 * 86_400, 4), (4 * 86_400 + 1, 5), (1e12, 30)])
def test_who_says_when_is_not_asked_before(asked_s: float, days: int) -> None:
    """Retry-After holds up to thirty days; a shorter one changes nothing."""
    assert _days(_ALIVE, _ALIVE, replace(_LIMITED, retry_after_s=asked_s)) == days


def test_a_look_that_said_nothing_hurries_nobody() -> None:
    """The living are looked at two days later, the dead a week later."""
    assert _days(_ALIVE, _ALIVE, _LIMITED) == 2
    dead = LinkHealth(LinkState.DEAD, 4, 1, 9)
    assert _days(dead, dead, _LIMITED) == 7


@given(
    st.sampled_from(LinkState),
    st.sampled_from(LinkState),
    st.sampled_from(CheckVerdict),
    st.integers(0, LAST_DAY - 1),
    st.sampled_from(list(PRESETS.values())),
    st.binary(min_size=16, max_size=16),
    st.none() | st.floats(-1e9, 1e15),
)
def test_the_next_look_is_in_the_days_to_come(
    before: LinkState,
    now: LinkState,
    verdict: CheckVerdict,
    day: int,
    preset: CheckPreset,
    key: bytes,
    retry_after_s: float | None,
) -> None:
    """Never today, never later than in thirty days, whatever was found; and always the same."""
    finding = CheckResult(StatusCode.FINE, verdict, CheckMethod.GET, retry_after_s=retry_after_s)
    old, new = LinkHealth(before, 3, 0, max(day - 40, 0)), LinkHealth(now, 4, 0, day)
    due = next_due(old, new, finding, day, preset, key)
    assert due is None or day < due <= min(day + 30, LAST_DAY)
    assert due == next_due(old, new, finding, day, preset, key)


# The outlook


def test_a_small_wiki_fits_easily() -> None:
    """30,000 links at one look in two seconds: 17 hours."""
    outlook = forecast_checks({7: 30_000}, 0.5)
    assert outlook.fits
    assert outlook.days == pytest.approx(30_000 / 43_200)
    assert "17 hours" in outlook.sentence


def test_a_pass_of_more_than_four_weeks_is_told_with_what_would_help() -> None:
    """W38: more hardware."""
    outlook = forecast_checks({7: 40_000_000}, 10.0)
    assert not outlook.fits
    assert outlook.days == pytest.approx(46.3, abs=0.1)
    assert "16.53 checks per second are needed" in outlook.sentence
    assert "another machine" in outlook.sentence


def test_a_host_that_takes_longer_than_the_pass_is_told() -> None:
    """One request at a time with a gap: no machine makes that faster."""
    outlook = forecast_checks({7: 600_000}, 100.0, largest_host=500_000, host_gap_s=6.0)
    assert not outlook.fits
    assert outlook.days == pytest.approx(34.7, abs=0.1)
    assert "500,000" in outlook.sentence
    assert "gap" in outlook.sentence


def test_looks_that_come_late_although_the_pass_fits_are_told() -> None:
    """More falls due each day than can be done."""
    outlook = forecast_checks({3: 1_000_000, 7: 9_000_000}, 10.0)
    assert outlook.fits
    assert outlook.load > 1
    assert "times as many links are due" in outlook.sentence


def test_nothing_to_do_and_nobody_to_do_it() -> None:
    """No links are looked at in no time; some by nobody never."""
    assert forecast_checks({}, 0.0).fits
    never = forecast_checks({7: 1}, 0.0)
    assert math.isinf(never.days)
    assert not never.fits
    assert "never" in never.sentence or "forever" in never.sentence


@given(st.dictionaries(st.integers(0, 100), st.integers(0, 10**9)), st.floats(0, 1e6), st.integers(0, 10**9))
def test_the_outlook_is_a_sentence(links: dict[int, int], rate: float, largest: int) -> None:
    """Whatever the numbers are."""
    outlook = forecast_checks(links, rate, largest_host=largest)
    assert outlook.sentence.endswith(".")
    assert outlook.fits == (outlook.days <= 28)
