"""What a request asks for: an archived URL with what stands before it, taken from the raw target.

Addresses hold archived URLs as they are, so everything after the first segments is read from the
undecoded request target (`playback.addresses`), never from the decoded path.
"""

import re
from dataclasses import dataclass
from datetime import datetime

from starlette.exceptions import HTTPException
from starlette.requests import Request

from core.errors import InputError
from core.timestamps import parse_timestamp14
from playback.addresses import PageAddress, parse_page_path, parse_page_rest
from playback.front.facets import EVERYTHING, Facets, parse_facets

_PERIOD = re.compile(r"(\d{4}|\d{6}|\d{8})/(.+)", re.ASCII | re.DOTALL)
_TWO = re.compile(r"(\d{14})/(\d{14})/(.+)", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class History:
    """A URL's captures: of a period of 4, 6 or 8 digits, or up to a moment of 14; or all; and which."""

    period: str
    url: str
    facets: Facets = EVERYTHING


@dataclass(frozen=True, slots=True)
class Pair:
    """Two moments of a URL."""

    first: str
    second: str
    url: str


def asked(request: Request) -> PageAddress:
    """View, timestamp and URL, the level that was chosen and the wiki whose reader asks.

    Raises:
        HTTPException: 404, it names no URL.
    """
    address = parse_page_path(_target(request))
    if address is None:
        raise HTTPException(404)
    return address


def url_of(request: Request) -> str:
    """The URL that an address of any kind is about.

    Raises:
        HTTPException: 404, it names none.
    """
    view = _target(request).split("/", 2)[1]
    if view == "changes":
        return asked_pair(request).url
    return asked_history(request).url if view == "url" else asked(request).url


def asked_history(request: Request) -> History:
    """The URL and which of its captures.

    Raises:
        HTTPException: 404, it names no URL.
    """
    rest = _rest(request)
    first, _, behind = rest.partition("/")
    facets = parse_facets(first) or EVERYTHING
    if facets:
        rest = behind
    match = _PERIOD.fullmatch(rest)
    if match is not None:
        return History(match[1], _page_rest(match[2], timestamped=False)[1], facets)
    timestamp, url = _page_rest(rest)
    return History(timestamp or "", url, facets)


def asked_pair(request: Request) -> Pair:
    """The URL and the two moments.

    Raises:
        HTTPException: 404, it names no URL, or not two moments.
    """
    rest = _rest(request)
    match = _TWO.fullmatch(rest)
    if match is None:
        raise HTTPException(404)
    return Pair(match[1], match[2], _page_rest(match[3], timestamped=False)[1])


def moment_of(timestamp: str) -> datetime:
    """The moment that 14 digits name.

    Raises:
        HTTPException: 404, they name none.
    """
    try:
        return parse_timestamp14(timestamp)
    except InputError:
        raise HTTPException(404) from None


def _target(request: Request) -> str:
    target = request.scope["raw_path"].decode("latin-1")
    query = request.scope["query_string"].decode("latin-1")
    return f"{target}?{query}" if query else target


def _rest(request: Request) -> str:
    """What follows the first segment."""
    return _target(request).split("/", 2)[2]


def _page_rest(rest: str, *, timestamped: bool = True) -> tuple[str | None, str]:
    parsed = parse_page_rest(rest)
    if parsed is None or (parsed[0] is not None and not timestamped):
        raise HTTPException(404)
    return parsed
