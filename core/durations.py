"""Lengths of time and moments as people type and read them.

>>> parse_duration("1h30m"), parse_duration("30d").days, parse_duration("45").seconds
(datetime.timedelta(seconds=5400), 30, 45)
>>> told(5400), told(0.25), told(86400 * 12)
('1 h 30 min', '0.2 s', '12 d')
>>> parse_moment("2026-12-01").isoformat(), parse_moment("2026-12-01T10:00+02:00").isoformat()
('2026-12-01T00:00:00+00:00', '2026-12-01T08:00:00+00:00')
"""

import re
from datetime import UTC, datetime, timedelta

from core.errors import InputError

LONGEST = timedelta(days=36_525)  # what a calendar can hold when it is added to any moment of ours
_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "min": 60, "s": 1, "": 1}
_DURATION = re.compile(r"(?:\d{1,9}(?:w|d|h|min|m|s))+|\d{1,9}", re.ASCII)
_PART = re.compile(r"(\d+)([a-z]*)", re.ASCII)
_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def parse_duration(text: str) -> timedelta:
    """The length that ``45``, ``90s``, ``15m``, ``1h30m``, ``30d`` or ``4w`` names.

    Raises:
        InputError: it names none, or more than a century.
    """
    compact = "".join(text.split()).lower()
    if not _DURATION.fullmatch(compact):
        raise InputError(f"{text[:40]!r} is no duration: write 90s, 15m, 2h, 30d or 4w.")
    seconds = sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(compact))
    if seconds > LONGEST.total_seconds():
        raise InputError(f"{text[:40]!r} is too long: a century is the most.")
    return timedelta(seconds=seconds)


def parse_moment(text: str) -> datetime:
    """The moment that an ISO 8601 date, or date and time, names; without a zone it is in UTC.

    Raises:
        InputError: it names none.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{text[:40]!r} is no moment: write 2026-12-31 or 2026-12-31T18:00 (UTC)."
        ) from error


def told(seconds: float) -> str:
    """The length for people, in two units at most; tenths below ten seconds."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    left = round(seconds)
    for number, (step, unit) in enumerate(_STEPS):
        if left >= step:
            whole, rest = divmod(left, step)
            smaller, small_unit = _STEPS[min(number + 1, len(_STEPS) - 1)]
            more = rest // smaller if unit != "s" else 0
            # Days are told with hours only while there are few of them.
            if not more or (unit == "d" and whole >= 10):
                return f"{whole} {unit}"
            return f"{whole} {unit} {more} {small_unit}"
    return "0 s"
