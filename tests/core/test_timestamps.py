"""Moments as 14 digits, as WARC-Date, as milliseconds."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.timestamps import (
    from_unix_milliseconds,
    parse_timestamp14,
    parse_warc_date,
    timestamp14,
    unix_milliseconds,
    warc_date,
)

MOMENTS = st.datetimes(min_value=datetime(1, 1, 2), timezones=st.just(UTC))  # noqa: DTZ001 naive bounds


def cut(when: datetime) -> datetime:
    """Return the moment truncated to milliseconds, the precision that is archived."""
    return when.replace(microsecond=when.microsecond // 1000 * 1000)


@given(MOMENTS)
def test_each_form_reads_back_to_its_precision(when: datetime) -> None:
    """14 digits keep the second; WARC-Date and milliseconds keep the millisecond."""
    assert parse_timestamp14(timestamp14(when)) == when.replace(microsecond=0)
    assert parse_warc_date(warc_date(when)) == cut(when)
    assert from_unix_milliseconds(unix_milliseconds(when)) == cut(when)


@given(MOMENTS, MOMENTS)
def test_the_forms_sort_as_the_moments_do(one: datetime, other: datetime) -> None:
    """Text order is time order, so an index needs no parsing."""
    early, late = sorted((cut(one), cut(other)))

    assert timestamp14(early) <= timestamp14(late)
    assert warc_date(early) <= warc_date(late)


def test_another_time_zone_is_the_same_moment() -> None:
    """Everything is written in UTC."""
    berlin = timezone(timedelta(hours=2))

    assert warc_date(datetime(2026, 7, 1, 1, 30, tzinfo=berlin)) == "2026-06-30T23:30:00.000Z"


@pytest.mark.parametrize("form", [timestamp14, warc_date, unix_milliseconds])
def test_a_naive_moment_is_refused(form: object) -> None:
    """Nobody knows when it was."""
    assert callable(form)
    with pytest.raises(InputError, match="time zone"):
        form(datetime(2026, 1, 1))  # noqa: DTZ001 the point of the test


@pytest.mark.parametrize("text", ["", "2026", "20261301000000", "2026010100000x", "٢٠٢٦٠١٠١٠٠٠٠٠٠"])
def test_what_is_no_timestamp_is_refused(text: str) -> None:
    """Fourteen ASCII digits that name a moment, and nothing else."""
    with pytest.raises(InputError):
        parse_timestamp14(text)


@pytest.mark.parametrize(
    "text", ["", "2026-01-01", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", "0001-01-01T00:00:00+02:00", "x"]
)
def test_what_is_no_warc_date_is_refused(text: str) -> None:
    """WARC/1.1, 5.4: a moment in UTC; an offset, which some tools write, does as well as Z."""
    with pytest.raises(InputError):
        parse_warc_date(text)


@pytest.mark.parametrize(
    ("text", "microsecond"),
    [("2026-01-01T00:00:00Z", 0), ("2026-01-01T00:00:00.5Z", 500_000), ("2026-01-01T00:00:00.123456789Z", 123_456)],
)
def test_a_warc_date_may_have_any_fraction(text: str, microsecond: int) -> None:
    """WARC/1.1 allows up to nine digits; other tools write them."""
    assert parse_warc_date(text).microsecond == microsecond


def test_a_warc_date_with_an_offset_is_in_utc() -> None:
    """As some tools write it."""
    assert warc_date(parse_warc_date("2026-01-01T01:30:00.5+02:00")) == "2025-12-31T23:30:00.500Z"
    assert warc_date(parse_warc_date("2026-01-01T00:00:00-00:30")) == "2026-01-01T00:30:00.000Z"
