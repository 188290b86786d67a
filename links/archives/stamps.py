"""Moments as archives write them: 14 digits, dates of many forms, and names that count the seconds."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import unquote

from core.timestamps import timestamp14

_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_NAMED_MONTH = re.compile(r"(\d{4})-([a-z]{3})[a-z]*-(\d{1,2})", re.IGNORECASE | re.ASCII)
_SHORT_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?=\D|$)", re.ASCII)
_NO_DIGITS = re.compile(r"\D", re.ASCII)
_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DATE_PARAMETER = re.compile(r"[?&]date=([\d%:T+-]+)", re.IGNORECASE)


def moment_of(timestamp: str) -> datetime:
    """The moment that 14 digits name; parts that no calendar has are taken for its nearest.

    >>> moment_of("20150000000000").isoformat()
    '2015-01-01T00:00:00+00:00'
    """
    year, month, day, hour, minute, second = (
        int(timestamp[start:end])
        for start, end in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14))
    )
    first = datetime(max(year, 1), min(max(month, 1), 12), 1, tzinfo=UTC)
    last = (
        (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
        if first.year < 9999
        else first
    )
    return first.replace(
        day=min(max(day, 1), last.day if first.year < 9999 else 28),
        hour=min(hour, 23),
        minute=min(minute, 59),
        second=min(second, 59),
    )


def stamp_written(text: str, zone_h: int = 0) -> str:
    """14 digits of a date as services write it; empty when it is none."""
    text = unquote(text)
    named = _NAMED_MONTH.fullmatch(text)
    if named is not None:
        month = named[2].lower()
        if month not in _MONTHS:
            return ""
        return f"{named[1]}{_MONTHS.index(month) + 1:02}{int(named[3]):02}000000"
    text = _SHORT_DAY.sub(lambda m: f"{m[1]}{int(m[2]):02}{int(m[3]):02}", text, count=1)
    digits = _NO_DIGITS.sub("", text)[:14]
    if len(digits) < 4:
        return ""
    stamp = digits.ljust(14, "0")
    if not zone_h or stamp < "0002":
        return stamp
    return timestamp14(moment_of(stamp) - timedelta(hours=zone_h))


def stamp_in_name(service: str, identifier: str, path: str) -> str:
    """The moment that a name of the service's tells: WebCite and FreezePage count seconds in theirs."""
    seconds = 0
    if service == "webcite":
        date = _DATE_PARAMETER.search(path)
        if date is not None:
            return stamp_written(date[1])
        asked = re.search(r"[?&]id=([0-9A-Za-z]+)", path)
        identifier = identifier or (asked[1] if asked is not None else "")
        if len(identifier) == 9:  # microseconds, in base 62
            value = 0
            for char in identifier:
                value = value * 62 + _BASE62.index(char)
            seconds = value // 1_000_000
        elif identifier[:10].isdigit() and len(identifier) >= 10:
            seconds = int(identifier[:10])
    elif service == "freezepage":
        seconds = int(identifier[:10])
    if not 800_000_000 < seconds < 4_000_000_000:
        return ""
    return timestamp14(datetime.fromtimestamp(seconds, UTC))
