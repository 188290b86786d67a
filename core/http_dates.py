"""Dates and waits as servers send them: HTTP dates, ISO 8601, Retry-After. Pure; nothing here raises.

>>> from datetime import UTC, datetime, timedelta
>>> parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT") == parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT")
True
>>> parse_web_date("2004-12-23T18:00:15+01:00").isoformat(), parse_web_date("soon")
('2004-12-23T17:00:15+00:00', None)
>>> parse_retry_after("120", now=None, limit=timedelta(days=1)).seconds
120
"""

import re
from datetime import MAXYEAR, UTC, datetime, timedelta, timezone
from email.utils import parsedate_tz

LONGEST = 128  # characters of a date; what is longer is none
_SECONDS = re.compile(r"0*(\d+)(\.\d*)?", re.ASCII)
_DIGITS = 12  # of a number of seconds; beyond that every limit of ours is reached


def parse_mail_date(text: str) -> datetime | None:
    """Return the moment of an RFC 5322 date, in the zone that it names; None when it is none.

    The three forms of an HTTP date (RFC 9110, 5.6.7) are such dates. Without a zone it is in UTC.
    """
    fields = _fields(text)
    return None if fields is None else _moment(fields)


def parse_http_date(text: str) -> datetime | None:
    """Return the moment of an HTTP date in UTC (RFC 9110, 5.6.7); None when it names none."""
    return _in_utc(parse_mail_date(text))


def parse_web_date(text: str) -> datetime | None:
    """Return the moment of an ISO 8601 date or of an HTTP date, in UTC; None when it is neither."""
    if len(text) > LONGEST:
        return None
    try:
        return _in_utc(datetime.fromisoformat(text.strip()))
    except ValueError:
        return parse_http_date(text)


def parse_retry_after(value: str, *, now: datetime | None, limit: timedelta) -> timedelta | None:
    """Return how long a Retry-After header asks to wait (RFC 9110, 10.2.3); None when it says nothing.

    Args:
        value: of the header: seconds or a date. A fraction of a second, which no RFC allows, is read.
        now: the moment that a date is compared with; None: dates cannot be read.
        limit: the longest wait; whoever asks for longer, in a year of any length, gets this.
    """
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
    if len(text) > LONGEST:
        return None
    try:
        found = parsedate_tz(text.strip())
        return None if found is None else [each or 0 for each in found]
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
