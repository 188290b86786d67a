"""Ranges of a body that a reader downloads (RFC 9110, 14): one at a time, or all of it."""

import re

_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})", re.ASCII)


class UnsatisfiableRangeError(Exception):
    """What is asked for begins behind the end."""


def wanted_range(text: str, if_range: str, etag: str, size: int) -> tuple[int, int] | None:
    """First byte and the one behind the last; None when all of it is to be sent.

    Several ranges, other units and what is malformed count as not asked for, as the RFC allows; so
    does a range of another version than `etag` (13.1.5).

    Raises:
        UnsatisfiableRangeError: to be answered with 416.

    >>> wanted_range("bytes=2-", "", '"a"', 10)
    (2, 10)
    >>> wanted_range("bytes=-3", "", '"a"', 10)
    (7, 10)
    """
    match = _RANGE.fullmatch(text)
    if match is None or (if_range and if_range != etag):
        return None
    first, last = match[1], match[2]
    if not first:
        if not last:
            return None
        length = min(int(last), size)
        if length == 0:
            raise UnsatisfiableRangeError
        return size - length, size
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        raise UnsatisfiableRangeError
    return int(first), min(int(last) + 1, size) if last else size
