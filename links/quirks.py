"""What is odd about a host or a URL: the kinds, and how long each is believed (W47, W56).

A quirk is a row with the first and the last day it was seen. It is written anew only when it was last
seen some days ago, so that a host that is asked each second costs no write each second. A host's quirk
holds for all hosts below it as well; a host below may have its own.

>>> is_over(HostQuirk.GET_NEEDED, 0, 150, 199), is_over(HostQuirk.GET_NEEDED, 0, 150, 200)
(False, True)
>>> is_over(HostQuirk.DNS_ERROR, 0, 0, 99), is_over(HostQuirk.DNS_ERROR, 0, 0, 100)
(False, True)
"""

from enum import IntEnum

REFRESH_DAYS = 10  # what was last seen so long ago is written anew when it is met again (W47)
GET_ONLY_DAYS = 200  # then HEAD is tried again, and GET has to be earned anew (W42)


class HostQuirk(IntEnum):
    """What is odd about a host, by the numbers that the registry keeps."""

    HTTPS_NEEDED = 1  # http:// leads to https:// of the same host
    HTTP_NEEDED = 2  # https:// has no certificate that verifies, http:// answers
    GET_NEEDED = 3  # HEAD is answered otherwise than GET
    DNS_ERROR = 4  # its name has no address
    SERVER_ERROR = 5  # it does not answer, or with a severe error whatever it is asked
    PRESUMED_REACHABLE = 6  # readers reach at least half of what is watched on it (W16)
    UNVERIFIABLE = 7  # a browser saw pages where we saw failures: our failures say nothing there


class UrlQuirk(IntEnum):
    """What is odd about a URL, by the numbers that the registry keeps; each has a text."""

    MOVED = 1  # for good; the text is where to
    CERTIFICATE = 2  # does not verify, though the page answers; the text is why
    RATE_LIMIT = 3  # it told us to come later; the text is how many seconds


_KEPT_DAYS = {HostQuirk.PRESUMED_REACHABLE: 183, HostQuirk.UNVERIFIABLE: 183}
HOST_QUIRK_DAYS = 100  # W47
URL_QUIRK_DAYS = 180  # W56
CONSOLIDATED_DAYS = 100  # "info standing > 100 days may be given" (W47)


def is_over(kind: HostQuirk, first_day: int, last_day: int, day: int) -> bool:
    """Whether nobody believes a host's quirk any more, and its row may go.

    GET alone is forgotten by its first day: using it never shows whether HEAD works again.
    """
    if kind is HostQuirk.GET_NEEDED:
        return day - first_day >= GET_ONLY_DAYS
    return day - last_day >= _KEPT_DAYS.get(kind, HOST_QUIRK_DAYS)


def is_consolidated(kind: HostQuirk, first_day: int, day: int) -> bool:
    """Return whether readers are told of a host's quirk: those of W47 once they stand so long.

    What readers or a browser said of the host (W16) is told at once.

    >>> is_consolidated(HostQuirk.DNS_ERROR, 0, 100), is_consolidated(HostQuirk.DNS_ERROR, 0, 101)
    (False, True)
    """
    return kind in _KEPT_DAYS or day - first_day > CONSOLIDATED_DAYS


def is_url_quirk_over(last_day: int, day: int) -> bool:
    """Whether nobody believes a URL's quirk any more."""
    return day - last_day >= URL_QUIRK_DAYS


def is_to_refresh(last_day: int, day: int) -> bool:
    """Whether a quirk that was met again is worth a write."""
    return day - last_day >= REFRESH_DAYS
