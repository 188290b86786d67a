"""Lengths of time and moments as people type and read them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.timestamps import LONGEST_DURATION, format_duration, parse_duration, parse_moment


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("45", 45),
        ("90s", 90),
        ("15m", 900),
        ("15 min", 900),
        ("2h", 7200),
        ("1h30m", 5400),
        ("30d", 2_592_000),
        ("4w", 2_419_200),
        ("1D", 86_400),
    ],
)
def test_a_length_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    """Seconds without one; several may follow each other."""
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "h", "2y", "-1h", "1.5h", "1h30", "٣h", "9" * 30 + "d", "999999999w", "1h\x00"])
def test_what_names_no_length_is_refused(text: str) -> None:
    """Also what is longer than a century, which no moment could be added to."""
    with pytest.raises(InputError):
        parse_duration(text)


@given(st.text(max_size=20))
def test_any_text_names_a_length_or_is_refused(text: str) -> None:
    """Nothing else is raised, and no length outgrows a calendar."""
    try:
        length = parse_duration(text)
    except InputError:
        return

    assert timedelta(0) <= length <= LONGEST_DURATION


@given(st.integers(0, int(LONGEST_DURATION.total_seconds())))
def test_what_is_told_can_be_typed(seconds: int) -> None:
    """It is rounded down to its second unit, never up."""
    text = format_duration(seconds)
    again = float(text.removesuffix(" s")) if seconds < 10 else parse_duration(text).total_seconds()

    assert again <= seconds
    assert again > seconds * 0.9 - 1


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0.0 s"), (9.94, "9.9 s"), (10, "10 s"), (60, "1 min"), (90_000, "1 d 1 h")]
)
def test_a_length_is_told_in_two_units(seconds: float, text: str) -> None:
    """The largest that it fills, and the next."""
    assert format_duration(seconds) == text


def test_a_moment_without_a_zone_is_in_utc() -> None:
    """A date is its first moment."""
    assert parse_moment("2026-12-01") == datetime(2026, 12, 1, tzinfo=UTC)
    assert parse_moment("2026-12-01T18:00+02:00") == datetime(2026, 12, 1, 16, tzinfo=UTC)
    for text in ("", "tomorrow", "2026-13-01", "0001-01-01T00:00+14:00"):
        with pytest.raises(InputError):
            parse_moment(text)
