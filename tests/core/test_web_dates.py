"""Dates and waits as servers send them."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.web_dates import parse_http_date, parse_mail_date, parse_retry_after, parse_web_date

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LIMIT = timedelta(days=1)
NUMBERS = st.integers(-5, 70).map(str) | st.sampled_from(("9" * 5, "9" * 20, "1" * 4400, "٣", "-"))
DATES = st.builds(
    "{}{} {} {} {}:{}:{} {}".format,
    st.sampled_from(("", "Mon, ", "Monday, ", "Mon ")),
    NUMBERS,
    st.sampled_from(("Jan", "Foo", "13", "")),
    NUMBERS,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.sampled_from(("GMT", "", "-0000", "+2359", "+" + "9" * 20, "-9999", "EST", "٣")),
)


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37+00:00"),
        ("Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37+00:00"),
        ("Sun Nov  6 08:49:37 1994", "1994-11-06T08:49:37+00:00"),
        ("Sun, 06 Nov 1994 08:49:37 -0000", "1994-11-06T08:49:37+00:00"),
        ("Sun, 06 Nov 1994 08:49:37 +0200", "1994-11-06T06:49:37+00:00"),
        ("Sat, 31 Dec 2016 23:59:60 GMT", "2016-12-31T23:59:59+00:00"),
        ("Sun, 31 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:61 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 -1400", None),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 99999999999999999999 Jan 2026 00:00:00 GMT", None),
        ("Mon, 01 Jan 2026 99999999999999999999:00:00 GMT", None),
        ("Mon, 01 Jan 2026 00:00:00 +99999999999999999999", None),
        ("soon", None),
        ("", None),
    ],
)
def test_http_dates_of_all_forms_are_read(text: str, iso: str | None) -> None:
    """RFC 9110, 5.6.7; a date that is on no calendar is none."""
    moment = parse_http_date(text)

    assert (moment.isoformat() if moment else None) == iso


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 0 ", 0),
        ("000000000000000120", 120),
        ("1.5", 1.5),
        ("9" * 5000, 86_400),
        ("Sat, 21 Nov 2026 12:02:00 GMT", 120),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0),
        ("Fri, 01 Jan 9999 00:00:00 GMT", 86_400),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", 86_400),
        ("Mon, 01 Jan 2026 00:00:00 +99999999999999999999", None),
        ("-5", None),
        ("1e9", None),
        ("١٢", None),
        ("soon", None),
        ("", None),
    ],
)
def test_retry_after_is_read_within_its_limit(value: str, seconds: float | None) -> None:
    """RFC 9110, 10.2.3: seconds or a date; what lies beyond every calendar is the limit."""
    wait = parse_retry_after(value, now=NOW, limit=LIMIT)

    assert wait == (None if seconds is None else timedelta(seconds=seconds))


def test_retry_after_without_a_clock_reads_seconds_only() -> None:
    """A date says nothing to who does not know the time there."""
    date = format_datetime(NOW, usegmt=True)

    assert parse_retry_after(date, now=None, limit=LIMIT) is None
    assert parse_retry_after("5", now=None, limit=LIMIT) == timedelta(seconds=5)


@given(st.text(max_size=150) | DATES)
def test_no_text_breaks_a_date_parser(text: str) -> None:
    """Any text is a moment in UTC, or none; any wait is within its limit, or none."""
    for read in (parse_http_date, parse_web_date):
        moment = read(text)
        assert moment is None or moment.tzinfo is UTC
    parse_mail_date(text)
    wait = parse_retry_after(text, now=NOW, limit=LIMIT)
    assert wait is None or timedelta(0) <= wait <= LIMIT


@given(st.integers(0, 253_402_300_799))
def test_formatted_dates_are_read_back(seconds: int) -> None:
    """Dates that Python's standard library formats are parsed to the same moment."""
    moment = datetime.fromtimestamp(seconds, UTC)

    assert parse_http_date(format_datetime(moment, usegmt=True)) == moment
    assert parse_web_date(moment.isoformat()) == moment
