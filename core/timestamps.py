"""Timestamps and durations: 14 digits, WARC-Date, Unix milliseconds, `1h30m`.

>>> from datetime import UTC, datetime
>>> when = datetime(2026, 11, 21, 9, 5, 7, 123456, tzinfo=UTC)
>>> timestamp14(when), warc_date(when), warc_date_at(unix_milliseconds(when))
('20261121090507', '2026-11-21T09:05:07.123Z', '2026-11-21T09:05:07.123Z')
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from core.errors import InputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MICROSECOND = timedelta(microseconds=1)
_DIGITS_ONLY = str.maketrans("", "", "-:T")
_WARC_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):([0-5]\d))", re.ASCII
)


def unix_milliseconds(when: datetime) -> int:
    """Return the moment as Unix milliseconds, rounded down, as stores keep moments."""
    return (_utc(when) - _EPOCH) // _MILLISECOND


def unix_milliseconds_ceil(when: datetime) -> int:
    """Return the moment as Unix milliseconds, rounded up. Use for not-before times, so that none is early."""
    return -((_EPOCH - _utc(when)) // _MILLISECOND)


def unix_microseconds(when: datetime) -> int:
    """Return the moment as whole Unix microseconds."""
    return (_utc(when) - _EPOCH) // _MICROSECOND


def from_unix_milliseconds(count: int) -> datetime:
    """Return the moment of Unix milliseconds."""
    return _EPOCH + count * _MILLISECOND


def timestamp14(when: datetime) -> str:
    """Format the moment as the 14-digit UTC string of CDX and URI-M."""
    # isoformat is several times faster than strftime, and pads years before 1000.
    return _utc(when).isoformat(timespec="seconds")[:19].translate(_DIGITS_ONLY)


@lru_cache(maxsize=256)
def _second(count: int) -> tuple[str, str]:
    """Format Unix seconds in both spellings; cached, as a crawl needs few."""
    text = (_EPOCH + timedelta(seconds=count)).isoformat(timespec="seconds")[:19]
    return text, text.translate(_DIGITS_ONLY)


def timestamp14_at(count: int) -> str:
    """Format Unix milliseconds as `timestamp14`."""
    return _second(count // 1000)[1]


def warc_date_at(count: int) -> str:
    """Format Unix milliseconds as `warc_date`."""
    seconds, rest = divmod(count, 1000)
    return f"{_second(seconds)[0]}.{rest:03d}Z"


def parse_timestamp14(text: str) -> datetime:
    """Parse a 14-digit timestamp. Raises InputError if it is not 14 digits, or no valid moment."""
    if len(text) != 14 or not (text.isascii() and text.isdigit()):
        raise InputError(f"A timestamp has 14 digits, YYYYMMDDhhmmss; this is {text!r}.")
    try:
        return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError as error:
        raise InputError(f"The timestamp {text!r} is not a date: {error}.") from error


def warc_date(when: datetime) -> str:
    """Format the moment as a WARC-Date with milliseconds (WARC/1.1, 5.4)."""
    return _utc(when).isoformat(timespec="milliseconds")[:23] + "Z"


@lru_cache(maxsize=1024)
def parse_warc_date(text: str) -> datetime:
    """Parse a WARC-Date with whole seconds or a fraction (WARC/1.0, 1.1), or InputError; some tools write an offset."""
    match = _WARC_DATE.fullmatch(text)
    if match is None:
        raise InputError(f"A WARC-Date looks like 2026-01-31T12:00:00Z; this is {text!r}.")
    *whole, fraction, sign, hours, minutes = match.groups()
    microsecond = int((fraction or "0").ljust(6, "0")[:6])
    try:
        moment = datetime(*map(int, whole), microsecond, tzinfo=UTC)  # type: ignore[misc,arg-type]
        if sign is None:
            return moment
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        return moment - offset if sign == "+" else moment + offset
    except (ValueError, OverflowError) as error:
        raise InputError(f"The WARC-Date {text!r} is not a date: {error}.") from error


def _utc(when: datetime) -> datetime:
    if when.tzinfo is None:
        raise InputError("A time zone is needed; this datetime is naive.")
    return when if when.tzinfo is UTC else when.astimezone(UTC)


LONGEST_DURATION = timedelta(days=36_525)  # maximum that can be added to any valid time
_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "min": 60, "s": 1, "": 1}
_DURATION = re.compile(r"(?:\d{1,9}(?:w|d|h|min|m|s))+|\d{1,9}", re.ASCII)
_PART = re.compile(r"(\d+)([a-z]*)", re.ASCII)
_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def parse_duration(text: str) -> timedelta:
    """Parse ``45``, ``90s``, ``15m``, ``1h30m``, ``30d`` or ``4w``, up to a century, or InputError."""
    compact = "".join(text.split()).lower()
    if not _DURATION.fullmatch(compact):
        raise InputError(f"{text[:40]!r} is not a duration: write 90s, 15m, 1h30m, 30d or 4w.")
    seconds = sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(compact))
    if seconds > LONGEST_DURATION.total_seconds():
        raise InputError(f"{text[:40]!r} is too long: the limit is a century.")
    return timedelta(seconds=seconds)


def parse_moment(text: str) -> datetime:
    """Parse an ISO 8601 date, or date and time, in UTC without a zone; or raise InputError."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{text[:40]!r} is not a date: write 2026-12-31 or 2026-12-31T18:00 (UTC).") from error


def format_duration(seconds: float) -> str:
    """Format the duration in two units at most; tenths below ten seconds."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    left = round(seconds)
    for number, (step, unit) in enumerate(_STEPS):
        if left >= step:
            whole, rest = divmod(left, step)
            smaller, small_unit = _STEPS[min(number + 1, len(_STEPS) - 1)]
            more = rest // smaller if unit != "s" else 0
            # Hours are shown only with few days.
            if not more or (unit == "d" and whole >= 10):
                return f"{whole} {unit}"
            return f"{whole} {unit} {more} {small_unit}"
    return "0 s"
