"""Dates of the web: HTTP dates, Retry-After, and dates written in pages.

An ambiguous or invalid one of a page stays as it is: a wrong date in a citation is worse than an unusual one.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta, timezone
from email.utils import parsedate_tz

HTTP_DATE_LIMIT_CHARS = 128  # maximum length of a date
_SECONDS = re.compile(r"0*(\d+)(\.\d*)?", re.ASCII)
_DIGITS = 12  # maximum number of seconds; all limits are smaller


def parse_mail_date(text: str) -> datetime | None:
    """Parse an RFC 5322 date, which HTTP dates are (RFC 9110, 5.6.7), in its zone or UTC; or None."""
    fields = _fields(text)
    return None if fields is None else _moment(fields)


def parse_http_date(text: str) -> datetime | None:
    """Parse an HTTP date, in UTC (RFC 9110, 5.6.7); None when it is not valid."""
    return _in_utc(parse_mail_date(text))


def parse_web_date(text: str) -> datetime | None:
    """Parse an ISO 8601 date or an HTTP date, in UTC; None when it is neither."""
    if len(text) > HTTP_DATE_LIMIT_CHARS:
        return None
    try:
        return _in_utc(datetime.fromisoformat(text.strip()))
    except ValueError:
        return parse_http_date(text)


def parse_retry_after(value: str, *, now: datetime | None, limit: timedelta) -> timedelta | None:
    """Parse Retry-After (RFC 9110, 10.2.3), seconds or with `now` a date, up to `limit`; None if invalid."""
    text = value.strip()
    if seconds := _SECONDS.fullmatch(text):
        whole, fraction = seconds[1], seconds[2] or ""
        if len(whole) > _DIGITS:
            return limit
        return min(timedelta(seconds=float(whole + fraction[:_DIGITS])), limit)
    fields = _fields(text)
    if fields is None or now is None:
        return None
    if fields[0] > MAXYEAR:
        return limit
    moment = _in_utc(_moment(fields))
    return None if moment is None else min(max(moment - now, timedelta(0)), limit)


def _fields(text: str) -> list[int] | None:
    """Return year, month, day, hour, minute, second, three unused fields, offset in seconds."""
    if len(text) > HTTP_DATE_LIMIT_CHARS:
        return None
    try:
        parsed = parsedate_tz(text.strip())
        return None if parsed is None else [each or 0 for each in parsed]
    except (ValueError, TypeError, IndexError, OverflowError):
        return None  # bugs of the standard library's parser, e.g. with digits that are not ASCII


def _moment(fields: list[int]) -> datetime | None:
    year, month, day, hour, minute, second, *_, offset = fields
    try:
        zone = timezone(timedelta(seconds=offset))
        # A leap second (RFC 9110, 5.6.7) is one that datetime does not have.
        whole = 59 if second == 60 else second
        return datetime(year, month, day, hour, minute, whole, tzinfo=zone)
    except (ValueError, OverflowError):
        return None


def _in_utc(moment: datetime | None) -> datetime | None:
    try:
        if moment is None or moment.tzinfo is None:
            return None if moment is None else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except OverflowError:
        return None


PAGE_DATE_LIMIT_CHARS = 60
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
    r"(\d{4})(\d{2})(\d{2})(?:T?(\d{2})(\d{2})(\d{2})?(Z|[+-]\d{2}:?\d{2})?)?", re.IGNORECASE | re.ASCII
)
_DAY_FIRST = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?\.?\s+([a-z]{3,9})\.?,?\s+(\d{4})", re.IGNORECASE)
_MONTH_FIRST = re.compile(r"([a-z]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})", re.IGNORECASE | re.ASCII)
_NUMBERED = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})", re.ASCII)


def iso_date(words: str) -> str:
    """Convert the date to ISO 8601 in its precision; an ambiguous text is returned, shortened."""
    text = " ".join(words[: 4 * PAGE_DATE_LIMIT_CHARS].split())[:PAGE_DATE_LIMIT_CHARS]
    with suppress(ValueError, OverflowError):
        for pattern, read in _READINGS:
            if match := pattern.fullmatch(text):
                return read(*match.groups()) or text
        if text[:3].isalpha() and len(text) > 20:
            moment = parse_mail_date(text)  # RFC 5322, 3.3
            return text if moment is None else _with_zone(moment)
    return text


def _day(year: str, month: str, day: str, *clock: str | None) -> str:
    whole = date(int(year), int(month), int(day))
    hours, minutes, seconds, zone = clock
    if hours is None or minutes is None:
        return whole.isoformat()
    moment = datetime.combine(whole, time(int(hours), int(minutes), int(seconds or 0)))
    if zone is None:
        return moment.isoformat()
    digits, offset = zone[1:].replace(":", ""), timedelta()  # Z has none
    if digits.isdigit():
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    return _with_zone(moment.replace(tzinfo=timezone(-offset if zone[0] == "-" else offset)))


def _with_zone(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _day_first(day: str, month: str, year: str) -> str | None:
    word = month.lower()
    months = [number for number, name in enumerate(_MONTHS, 1) if name.startswith(word)]
    if word == "sept":
        months = [9]
    if len(months) != 1:
        return None
    return date(int(year), months[0], int(day)).isoformat()


def _numbered(one: str, _: str, other: str, year: str) -> str | None:
    """Convert numeric day and month, if only one order is valid or both are equal; else None."""
    first, second = int(one), int(other)
    if first > 12 or first == second:
        return date(int(year), second, first).isoformat()
    if second > 12:
        return date(int(year), first, second).isoformat()
    return None


_READINGS: tuple[tuple[re.Pattern[str], Callable[..., str | None]], ...] = (
    (_YEAR, lambda year: f"{date(int(year), 1, 1).year:04}"),
    (_MONTH, lambda year, month: date(int(year), int(month), 1).isoformat()[:7]),
    (_NUMBERS, lambda year, _, *rest: _day(year, *rest)),
    (_COMPACT, _day),
    (_DAY_FIRST, _day_first),
    (_MONTH_FIRST, lambda month, day, year: _day_first(day, month, year)),
    (_NUMBERED, _numbered),
)
