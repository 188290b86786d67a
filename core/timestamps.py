"""14-digit timestamp <-> aware datetime <-> WARC-Date.

>>> from datetime import UTC, datetime, timedelta
>>> when = datetime(2026, 11, 21, 9, 5, 7, 123456, tzinfo=UTC)
>>> timestamp14(when)
'20261121090507'
>>> warc_date(when)
'2026-11-21T09:05:07.123Z'
>>> parse_warc_date('2026-11-21T09:05:07.123Z') == to_milliseconds(when)
True
>>> moment(milliseconds(when)) == to_milliseconds(when)
True
>>> warc_date_at(milliseconds(when)), timestamp14_at(milliseconds(when))
('2026-11-21T09:05:07.123Z', '20261121090507')
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from core.errors import InputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MICROSECOND = timedelta(microseconds=1)
_DIGITS_ONLY = str.maketrans("", "", "-:T")
_WARC_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?Z", re.ASCII)


def to_milliseconds(when: datetime) -> datetime:
    """The moment in UTC, cut (not rounded) to whole milliseconds, the precision we archive."""
    when = _utc(when)
    return when.replace(microsecond=when.microsecond // 1000 * 1000)


def milliseconds(when: datetime) -> int:
    """The moment as whole milliseconds since 1970 UTC, cut: how stores keep moments."""
    return (_utc(when) - _EPOCH) // _MILLISECOND


def milliseconds_up(when: datetime) -> int:
    """The same rounded up: how stores keep a moment before which nothing may happen."""
    return -((_EPOCH - _utc(when)) // _MILLISECOND)


def microseconds(when: datetime) -> int:
    """The moment as whole microseconds since 1970 UTC."""
    return (_utc(when) - _EPOCH) // _MICROSECOND


def moment(count: int) -> datetime:
    """The moment so many milliseconds after 1970 UTC."""
    return _EPOCH + count * _MILLISECOND


def timestamp14(when: datetime) -> str:
    """The moment as the 14-digit UTC string of CDX and URI-M."""
    # isoformat is several times faster than strftime, and pads years before 1000.
    text = _utc(when).isoformat(timespec="seconds")
    return text[:4] + text[5:7] + text[8:10] + text[11:13] + text[14:16] + text[17:19]


@lru_cache(maxsize=256)
def _second(count: int) -> tuple[str, str]:
    """Both spellings of the second so many seconds after 1970 UTC; a crawl asks for few."""
    text = (_EPOCH + timedelta(seconds=count)).isoformat(timespec="seconds")[:19]
    return text, text.translate(_DIGITS_ONLY)


def timestamp14_at(count: int) -> str:
    """`timestamp14` of the moment so many milliseconds after 1970 UTC."""
    return _second(count // 1000)[1]


def warc_date_at(count: int) -> str:
    """`warc_date` of the moment so many milliseconds after 1970 UTC."""
    seconds, rest = divmod(count, 1000)
    return f"{_second(seconds)[0]}.{rest:03d}Z"


def parse_timestamp14(text: str) -> datetime:
    """The moment a 14-digit timestamp names.

    Raises:
        InputError: it is not 14 digits, or names no moment.
    """
    if len(text) != 14 or not (text.isascii() and text.isdigit()):
        raise InputError(f"A timestamp has 14 digits, YYYYMMDDhhmmss; this is {text!r}.")
    try:
        return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError as error:
        raise InputError(f"The timestamp {text!r} names no moment: {error}.") from error


def warc_date(when: datetime) -> str:
    """The moment as a WARC-Date with milliseconds (WARC/1.1, 5.4)."""
    return _utc(when).isoformat(timespec="milliseconds")[:23] + "Z"


def parse_warc_date(text: str) -> datetime:
    """The moment of a WARC-Date with whole seconds or a fraction (WARC/1.0 and 1.1).

    Raises:
        InputError: it is no WARC-Date in UTC, or names no moment.
    """
    match = _WARC_DATE.fullmatch(text)
    if match is None:
        raise InputError(f"A WARC-Date looks like 2026-01-31T12:00:00Z; this is {text!r}.")
    *whole, fraction = match.groups()
    microsecond = int((fraction or "0").ljust(6, "0")[:6])
    try:
        return datetime(*map(int, whole), microsecond, tzinfo=UTC)  # type: ignore[misc,arg-type]
    except ValueError as error:
        raise InputError(f"The WARC-Date {text!r} names no moment: {error}.") from error


def _utc(when: datetime) -> datetime:
    if when.tzinfo is None:
        raise InputError("A moment needs a time zone; this datetime is naive.")
    return when if when.tzinfo is UTC else when.astimezone(UTC)
