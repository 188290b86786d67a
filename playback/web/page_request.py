"""Request target of a reader page: archived URL, timestamps, level, wiki, capture facets.

Facets precede time and URL, ``/url/device=phone;language=de/2026/https://…``, since the query belongs to the archived
URL, which is read from the raw request target (`playback.url_paths`). Invalid ones raise HTTPException 404.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Scope

from core.errors import InputError
from core.page_manifest import DeviceType
from core.timestamps import parse_timestamp14
from playback.url_paths import PageAddress, parse_page_path, parse_page_rest

if TYPE_CHECKING:
    from playback.web.page_store import CapturedPage, CaptureMoment

_SEGMENT = re.compile(r"(?=[dl])(?:device=(desktop|phone))?;?(?:language=([A-Za-z0-9-]{1,35}))?", re.ASCII)
_MOST_LANGUAGES = 20  # offered to choose from, the most frequent


@dataclass(frozen=True, slots=True)
class CaptureFacets:
    """Filter for captures."""

    device: str = ""  # name of a `DeviceType`; empty: all
    language: str = ""  # empty: all

    def __bool__(self) -> bool:
        """Return True when the filter is not empty."""
        return bool(self.device or self.language)

    def include(self, capture: "CapturedPage | CaptureMoment") -> bool:
        """Return True when the capture passes the filter."""
        return self.device in ("", capture.device) and self.language in ("", capture.language)

    @property
    def segment(self) -> str:
        """Return the path segment; empty for an empty filter.

        >>> CaptureFacets("phone", "de").segment, CaptureFacets(language="de").segment, CaptureFacets().segment
        ('device=phone;language=de', 'language=de', '')
        """
        named = (("device", self.device), ("language", self.language))
        return ";".join(f"{name}={value}" for name, value in named if value)


EVERYTHING = CaptureFacets()


def parse_facets(segment: str) -> CaptureFacets | None:
    """Parse a path segment; None when it is not a filter.

    >>> parse_facets("language=de-AT")
    CaptureFacets(device='', language='de-AT')
    >>> parse_facets("device=fridge"), parse_facets("")
    (None, None)
    """
    match = _SEGMENT.fullmatch(segment)
    facets = None if match is None else CaptureFacets(match[1] or "", match[2] or "")
    return facets if facets and facets.segment == segment else None


@dataclass(frozen=True, slots=True)
class FacetChoice:
    """Facet value offered to the reader."""

    value: str  # empty for all
    count: int  # number of captures with it, the other facet unchanged
    facets: CaptureFacets  # the resulting filter
    is_chosen: bool


def facet_choices(
    captures: "Iterable[CapturedPage | CaptureMoment]", chosen: CaptureFacets
) -> dict[str, tuple[FacetChoice, ...]]:
    """Return the values of each facet with counts, the most frequent languages first; none without a choice."""
    pairs = Counter((each.device, each.language) for each in captures)
    devices: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    of_devices: Counter[str] = Counter()
    of_languages: Counter[str] = Counter()
    for (device, language), count in pairs.items():
        devices[device] += count
        languages[language] += count
        of_devices[device] += count * (chosen.language in ("", language))
        of_languages[language] += count * (chosen.device in ("", device))
    frequent = [value for value, _ in languages.most_common(_MOST_LANGUAGES + 1) if value]

    def choices(name: str, values: Iterable[str], counts: Counter[str]) -> tuple[FacetChoice, ...]:
        current = getattr(chosen, name)
        return tuple(
            FacetChoice(
                str(each),
                counts[each] if each else counts.total(),
                replace(chosen, **{name: str(each)}),
                each == current,
            )
            for each in ("", *values)
            if not each or counts[each] or each == current
        )

    named = [each for each in DeviceType if devices[each]]
    return {
        "devices": choices("device", named, of_devices) if len(devices) > 1 else (),
        "languages": choices("language", frequent[:_MOST_LANGUAGES], of_languages) if len(languages) > 1 else (),
    }


def scope_target(scope: Scope) -> str:
    """Return the raw path with the query."""
    target: str = scope["raw_path"].decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    return f"{target}?{query}" if query else target


def raw_rest(request: Request, segments: int) -> str:
    """Return the raw path after the first `segments` segments, including the query."""
    return (scope_target(request.scope).split("/", segments + 1) + [""] * segments)[segments + 1]


def archived_url(rest: str) -> str | None:
    """Return the archived URL in an address; None when it is not an HTTP URL."""
    parsed = parse_page_rest(rest)
    return None if parsed is None or parsed[0] is not None else parsed[1]


_PERIOD = re.compile(r"(\d{4}|\d{6}|\d{8})/(.+)", re.ASCII | re.DOTALL)
_TWO = re.compile(r"(\d{14})/(\d{14})/(.+)", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """Request for captures: all, those of a period (4, 6 or 8 digits), or up to 14 digits; filtered."""

    period: str
    url: str
    facets: CaptureFacets = EVERYTHING


def parse_page_request(request: Request) -> PageAddress:
    """Parse view, timestamp, URL, requested level and the reader's wiki."""
    address = parse_page_path(scope_target(request.scope))
    if address is None:
        raise HTTPException(404)
    return address


def url_of(request: Request) -> str:
    """Return the archived URL of an address of any kind."""
    view = scope_target(request.scope).split("/", 2)[1]
    if view == "changes":
        return parse_comparison_request(request)[2]
    return parse_history_request(request).url if view == "url" else parse_page_request(request).url


def parse_history_request(request: Request) -> HistoryRequest:
    """Parse the URL, the period and the facets."""
    rest = raw_rest(request, 1)
    first, _, behind = rest.partition("/")
    facets = parse_facets(first) or EVERYTHING
    if facets:
        rest = behind
    match = _PERIOD.fullmatch(rest)
    if match is not None:
        return HistoryRequest(match[1], _page_rest(match[2], timestamped=False)[1], facets)
    timestamp, url = _page_rest(rest)
    return HistoryRequest(timestamp or "", url, facets)


def parse_comparison_request(request: Request) -> tuple[str, str, str]:
    """Parse the two timestamps and the URL."""
    match = _TWO.fullmatch(raw_rest(request, 1))
    if match is None:
        raise HTTPException(404)
    return match[1], match[2], _page_rest(match[3], timestamped=False)[1]


def moment_of(timestamp: str) -> datetime:
    """Parse a timestamp of 14 digits."""
    try:
        return parse_timestamp14(timestamp)
    except InputError:
        raise HTTPException(404) from None


def _page_rest(rest: str, *, timestamped: bool = True) -> tuple[str | None, str]:
    parsed = parse_page_rest(rest)
    if parsed is None or (parsed[0] is not None and not timestamped):
        raise HTTPException(404)
    return parsed
