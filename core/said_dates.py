"""Dates as pages write them, made ISO 8601 where there is only one way to read them. Pure.

What can be read in two ways, such as ``01/02/2024``, or names no day that there is, is given back as
it was: a wrong date in a citation is worse than an odd one.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone

from core.http_dates import parse_mail_date

LONGEST = 60
_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_YEAR = re.compile(r"(\d{4})", re.ASCII)
_MONTH = re.compile(r"(\d{4})[-/.](\d{1,2})", re.ASCII)
# ISO 8601 and what CMSs make of it: a space for the T, slashes, no colon in the offset, a zone's "Z".
_NUMBERS = re.compile(
    r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})"
    r"(?:[T ]{1,3}(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d{1,9})?)?\s?(Z|UTC|GMT|[+-]\d{2}:?\d{2}|[+-]\d{2})?)?",
    re.IGNORECASE | re.ASCII,
)
_COMPACT = re.compile(
    r"(\d{4})(\d{2})(\d{2})(?:T?(\d{2})(\d{2})(\d{2})?(Z|[+-]\d{2}:?\d{2})?)?",
    re.IGNORECASE | re.ASCII,
)
_DAY_FIRST = re.compile(
    r"(\d{1,2})(?:st|nd|rd|th)?\.?\s+([a-z]{3,9})\.?,?\s+(\d{4})", re.IGNORECASE
)
_MONTH_FIRST = re.compile(
    r"([a-z]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})", re.IGNORECASE | re.ASCII
)
_NUMBERED = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})", re.ASCII)


def iso_date(said: str) -> str:
    """The date in ISO 8601, as precise as it was said; what is not sure comes back as it was, shortened.

    >>> iso_date("2024/05/01"), iso_date("1 May 2024"), iso_date("01/02/2024")
    ('2024-05-01', '2024-05-01', '01/02/2024')
    """
    text = " ".join(said[: 4 * LONGEST].split())[:LONGEST]
    try:
        return _read(text) or text
    except (ValueError, OverflowError):
        return text


def _read(text: str) -> str | None:
    for pattern, read in _READINGS:
        if match := pattern.fullmatch(text):
            return read(*match.groups())
    if text[:3].isalpha() and len(text) > 20:
        moment = parse_mail_date(text)  # RFC 5322, 3.3
        return None if moment is None else _with_zone(moment)
    return None


def _year(year: str) -> str:
    return f"{date(int(year), 1, 1).year:04}"


def _month(year: str, month: str) -> str:
    return date(int(year), int(month), 1).isoformat()[:7]


def _day(year: str, _: str, month: str, day: str, *clock: str | None) -> str:
    return _moment(date(int(year), int(month), int(day)), clock)


def _compact(year: str, month: str, day: str, *clock: str | None) -> str:
    return _moment(date(int(year), int(month), int(day)), clock)


def _moment(day: date, clock: tuple[str | None, ...]) -> str:
    hours, minutes, seconds, zone = clock
    if hours is None or minutes is None:
        return day.isoformat()
    moment = datetime.combine(day, time(int(hours), int(minutes), int(seconds or 0)))
    if zone is None:
        return moment.isoformat()
    return _with_zone(moment.replace(tzinfo=_zone(zone)))


def _zone(said: str) -> timezone:
    digits = said[1:].replace(":", "")
    if not digits.isdigit():
        return UTC
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    return timezone(-offset if said[0] == "-" else offset)


def _with_zone(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _day_first(day: str, month: str, year: str) -> str | None:
    word = month.lower()
    found = [number for number, name in enumerate(_MONTHS, 1) if name.startswith(word)]
    if word == "sept":
        found = [9]
    if len(found) != 1:
        return None
    return date(int(year), found[0], int(day)).isoformat()


def _month_first(month: str, day: str, year: str) -> str | None:
    return _day_first(day, month, year)


def _numbered(one: str, _: str, other: str, year: str) -> str | None:
    """Day and month by numbers: sure only when one of them can be no month, or both are the same."""
    first, second = int(one), int(other)
    if first > 12 or first == second:
        return date(int(year), second, first).isoformat()
    if second > 12:
        return date(int(year), first, second).isoformat()
    return None


_READINGS: tuple[tuple[re.Pattern[str], Callable[..., str | None]], ...] = (
    (_YEAR, _year),
    (_MONTH, _month),
    (_NUMBERS, _day),
    (_COMPACT, _compact),
    (_DAY_FIRST, _day_first),
    (_MONTH_FIRST, _month_first),
    (_NUMBERED, _numbered),
)
