"""14-digit timestamp <-> aware datetime <-> WARC-Date.

>>> from datetime import UTC, datetime
>>> moment = datetime(2026, 11, 21, 9, 5, 7, 123456, tzinfo=UTC)
>>> timestamp14(moment)
'20261121090507'
>>> warc_date(moment)
'2026-11-21T09:05:07.123Z'
>>> parse_warc_date('2026-11-21T09:05:07.123Z') == to_milliseconds(moment)
True
"""

import re
from datetime import UTC, datetime

from core.errors import InputError

_WARC_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?Z", re.ASCII)


def to_milliseconds(moment: datetime) -> datetime:
    """The moment in UTC, cut (not rounded) to whole milliseconds, the precision we archive."""
    moment = _utc(moment)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def timestamp14(moment: datetime) -> str:
    """The moment as the 14-digit UTC string of CDX and URI-M."""
    return _utc(moment).strftime("%Y%m%d%H%M%S").zfill(14)


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


def warc_date(moment: datetime) -> str:
    """The moment as a WARC-Date with milliseconds (WARC/1.1, 5.4)."""
    moment = _utc(moment)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z".zfill(24)


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


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise InputError("A moment needs a time zone; this datetime is naive.")
    return moment.astimezone(UTC)
