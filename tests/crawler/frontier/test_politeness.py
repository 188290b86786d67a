"""How gently a host is asked."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.settings import FrontierSettings, PolitenessSettings
from crawler.frontier.politeness import host_delay, retry_at

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SETTINGS = PolitenessSettings(delay_factor=2.0, min_delay_s=1.0, max_delay_s=30.0)


@pytest.mark.parametrize(("duration", "delay"), [(0, 1), (0.4, 1), (3, 6), (15, 30), (600, 30), (-5, 1)])
def test_a_host_rests_in_proportion_within_bounds(duration: float, delay: float) -> None:
    """A slow host is asked more slowly; none is hammered, none forgotten."""
    rested = host_delay(timedelta(seconds=duration), SETTINGS)

    assert rested == timedelta(seconds=delay)


def test_where_settings_contradict_the_longer_delay_holds() -> None:
    """A mistake in a profile must not hurt a host."""
    contradicting = PolitenessSettings(min_delay_s=10.0, max_delay_s=5.0)

    assert host_delay(timedelta(seconds=7), contradicting) == timedelta(seconds=10)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=9)))
def test_a_longer_visit_never_shortens_the_rest(duration: timedelta) -> None:
    """The rule is monotonic."""
    longer = host_delay(duration + timedelta(seconds=1), SETTINGS)

    assert longer >= host_delay(duration, SETTINGS)


def test_retries_double_up_to_a_week() -> None:
    """A04: exponential back-off, without end and without overflow."""
    settings = FrontierSettings(retry_delay_s=30.0)
    delays = [retry_at(NOW, failures, settings) - NOW for failures in (1, 2, 3, 50, 10_000)]

    assert delays[:3] == [timedelta(seconds=s) for s in (30, 60, 120)]
    assert delays[3:] == [timedelta(days=7)] * 2
