"""APIs for machines: TimeGate, TimeMaps, CDX, robots.txt (RFC 7089; docs/reference/memento.md).

Mementos (URI-M) are served by replay, without a frame; the reader page of the same copy sends the same headers. A
TimeMap's form is ``link`` (RFC 7089), ``json`` or ``cdxj`` (Memento aggregators). A long list is paged; the address
without a number is then an index of the pages (RFC 7089, 5.1.2).
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from core.timestamps import parse_timestamp14
from playback.access.control import AccessControl
from playback.mementos import (
    LINK_FORMAT,
    MementoEndpoints,
    MementoIndex,
    PageMemento,
    format_link,
    link_header,
    memento_date,
    memento_link,
    memento_links,
    page_links,
)
from playback.web.cdx_server import ARCHIVE_PATH, CdxServer
from playback.web.copy_notices import DriftClient, TemporalDrift
from playback.web.page_request import archived_url, raw_rest
from playback.web.page_store import CapturedPage
from playback.web.rate_limits import LoadLimit
from warc.index.database import IndexDatabase
from warc.index.queries import CaptureQueries

_VARY = {"Vary": "accept-datetime", "Cache-Control": "no-cache"}
# RFC 7089, 2.1.1: the fixed-length form of RFC 1123, in GMT alone.
_DATE = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", re.ASCII)


def accepted_moment(text: str) -> datetime | None:
    """Parse a value of Accept-Datetime; None when it does not have the form of RFC 7089.

    >>> accepted_moment("Sun, 01 Mar 2026 12:00:00 GMT").isoformat()
    '2026-03-01T12:00:00+00:00'
    >>> accepted_moment("Sun, 30 Feb 2026 12:00:00 GMT"), accepted_moment("2026-03-01")
    (None, None)
    """
    if _DATE.fullmatch(text.strip()) is None:
        return None
    try:
        return datetime.strptime(text.strip(), "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    except ValueError:
        return None


PAGE_SIZE = 1_000  # mementos
_NUMBERED = re.compile(r"([1-9]\d{0,5})/(.+)", re.ASCII | re.DOTALL)
_FRESH = {"Cache-Control": "no-cache"}


@dataclass(frozen=True, slots=True)
class TimeMap:
    """TimeMap of an original (URI-R), oldest memento first, or the index of the parts of a paged one."""

    url: str
    number: int | None  # of the page; None: the complete list or the index
    mementos: tuple[PageMemento, ...]
    parts: tuple[tuple[PageMemento, PageMemento], ...] = ()  # the oldest and the newest memento of each
    is_first: bool = True  # with the first memento of all
    is_last: bool = True

    def listed(self) -> Iterator[tuple[PageMemento, list[str]]]:
        """Yield each memento with its roles."""
        newest = len(self.mementos) - 1
        for place, each in enumerate(self.mementos):
            roles = ["first"] if self.is_first and place == 0 else []
            yield each, [*roles, "last"] if self.is_last and place == newest else roles


def time_map(mementos: MementoIndex, url: str, number: int | None) -> TimeMap | None:
    """Return the TimeMap of a URL, or a page of it; None when it is empty."""
    all_mementos = mementos.listed(url)
    if number is not None:
        before = PAGE_SIZE * (number - 1)
        rows = tuple(islice(all_mementos, before, before + PAGE_SIZE + 1))
        is_last = len(rows) <= PAGE_SIZE
        part = rows[:PAGE_SIZE]
        return TimeMap(url, number, part, (), number == 1, is_last) if part else None
    rows = tuple(islice(all_mementos, PAGE_SIZE))
    parts: list[tuple[PageMemento, PageMemento]] = []
    chunk = rows
    while chunk:
        parts.append((chunk[0], chunk[-1]))
        chunk = tuple(islice(all_mementos, PAGE_SIZE))
    if not parts:
        return None
    return TimeMap(url, None, rows) if len(parts) == 1 else TimeMap(url, None, (), tuple(parts))


def _as_links(timemap: TimeMap, places: MementoEndpoints) -> bytes:
    me = places.timemap(timemap.url, page=timemap.number)
    span = (timemap.parts[0][0], timemap.parts[-1][1]) if timemap.parts else (timemap.mementos[0], timemap.mementos[-1])
    lines = [
        format_link(timemap.url, "original"),
        format_link(places.timegate(timemap.url), "timegate"),
        format_link(me, "self", type=LINK_FORMAT, **_span(*span)),
    ]
    if not (timemap.is_first and timemap.is_last):
        lines.append(format_link(places.timemap(timemap.url), "timemap", type=LINK_FORMAT))
    lines += [
        format_link(places.timemap(timemap.url, page=number), "timemap", type=LINK_FORMAT, **_span(*part))
        for number, part in enumerate(timemap.parts, 1)
    ]
    lines += [memento_link(places, each, *roles) for each, roles in timemap.listed()]
    return (",\n".join(lines) + "\n").encode()


def _span(oldest: PageMemento, newest: PageMemento) -> dict[str, str]:
    return {"from": memento_date(oldest), "until": memento_date(newest)}


def _about(timemap: TimeMap, places: MementoEndpoints) -> dict[str, object]:
    return {
        "original_uri": timemap.url,
        "timegate_uri": places.timegate(timemap.url),
        "timemap_uri": {f"{name}_format": places.timemap(timemap.url, form=name) for name in _FORMS},
    }


def _parts(timemap: TimeMap, places: MementoEndpoints, form: str) -> list[dict[str, str]]:
    return [
        {"from": _iso(oldest), "until": _iso(newest), "uri": places.timemap(timemap.url, form=form, page=number)}
        for number, (oldest, newest) in enumerate(timemap.parts, 1)
    ]


def _as_json(timemap: TimeMap, places: MementoEndpoints) -> bytes:
    answer = _about(timemap, places)
    answer["self"] = places.timemap(timemap.url, form="json", page=timemap.number)
    if timemap.parts:
        answer["timemap_index"] = _parts(timemap, places, "json")
        return json.dumps(answer, indent=1).encode()
    listed = [{"datetime": _iso(each), "uri": places.memento(each)} for each in timemap.mementos]
    answer["mementos"] = {
        "list": listed,
        **({"first": listed[0]} if timemap.is_first else {}),
        **({"last": listed[-1]} if timemap.is_last else {}),
    }
    if timemap.number is not None:
        near = (("prev", -1, timemap.is_first), ("next", 1, timemap.is_last))
        answer["pages"] = {
            name: {"uri": places.timemap(timemap.url, form="json", page=timemap.number + step)}
            for name, step, is_end in near
            if not is_end
        }
    return json.dumps(answer, indent=1).encode()


def _as_cdxj(timemap: TimeMap, places: MementoEndpoints) -> bytes:
    me = places.timemap(timemap.url, form="cdxj", page=timemap.number)
    lines = [
        '!context ["https://www.rfc-editor.org/rfc/rfc7089"]',
        f"!id {json.dumps({'uri': me})}",
        '!keys ["memento_datetime_YYYYMMDDhhmmss"]',
        *(f"!meta {json.dumps({name: value})}" for name, value in _about(timemap, places).items()),
    ]
    if timemap.parts:
        lines.append(f"!meta {json.dumps({'timemap_index': _parts(timemap, places, 'cdxj')})}")
    for each, roles in timemap.listed():
        entry = {"uri": places.memento(each), "rel": " ".join((*roles, "memento")), "datetime": memento_date(each)}
        lines.append(f"{each.timestamp} {json.dumps(entry)}")
    return ("\n".join(lines) + "\n").encode()


def _iso(memento: PageMemento) -> str:
    return f"{parse_timestamp14(memento.timestamp).isoformat(timespec='seconds')[:19]}Z"


_FORMS: dict[str, tuple[str, Callable[[TimeMap, MementoEndpoints], bytes]]] = {
    "link": (LINK_FORMAT, _as_links),
    "json": ("application/json", _as_json),
    "cdxj": ("application/cdxj+ors", _as_cdxj),
}


_SKEWS_S = 3.0  # for all pages of a list


class SearchIndexing(StrEnum):
    """Permission for search engines to index reader pages (P-23)."""

    NONE = "none"
    FRONT = "front"  # the front's pages; copies never


@dataclass(frozen=True, slots=True)
class MachineAccess:
    """Access of machines."""

    indexing: SearchIndexing = SearchIndexing.NONE
    cdx_hosts: bool = False  # allow CDX queries for whole hosts and domains
    replay_inside: str = ""  # internal origin of replay, if it differs from the public one


class MachineApi:
    """Routes for machines, and the headers for them on reader pages."""

    def __init__(
        self, database: IndexDatabase, permits: AccessControl, places: MementoEndpoints, openness: MachineAccess
    ) -> None:
        self._openness = openness
        self._places = places
        self._mementos = MementoIndex(database, permits)
        self.skews = DriftClient(places.replay, inner=openness.replay_inside)
        self._cdx = CdxServer(CaptureQueries(database), permits, self._mementos, places, openness.cdx_hosts)

    def routes(self, costly: LoadLimit) -> list[BaseRoute]:
        """Return the routes; `costly` limits those that list captures."""
        cdx = costly(self._cdx.answer)
        return [
            Route("/timegate/{rest:path}", self.timegate),
            Route("/timemap/{rest:path}", costly(self.timemap)),
            Route("/cdx", cdx),
            Route(ARCHIVE_PATH, cdx),
            Route("/robots.txt", self._robots),
        ]

    def page_headers(self, page: CapturedPage) -> dict[str, str]:
        """Return Link and, for a usable copy, Memento-Datetime: only such a copy is a memento."""
        links = page_links(self._places, page.url)
        if not page.is_usable:
            return {"Link": link_header(links)}
        shown = PageMemento(page.url, page.timestamp)
        return {"Link": self._links(links, shown), "Memento-Datetime": memento_date(shown)}

    def skews_of(self, pages: Sequence[CapturedPage]) -> list[TemporalDrift | None]:
        """Return the temporal drift of the copies; None where replay does not answer in time."""
        until = time.monotonic() + _SKEWS_S
        return [
            self.skews.of(page.url, page.timestamp) if page.has_copy and time.monotonic() < until else None
            for page in pages
        ]

    def timegate(self, request: Request) -> Response:
        """Redirect to the memento nearest to Accept-Datetime (RFC 7089, 4.1.2)."""
        url = archived_url(raw_rest(request, 1))
        if url is None:
            text = "A TimeGate looks like /timegate/https://example.org/."
            return PlainTextResponse(f"{text}\n", 404, _VARY)
        links = page_links(self._places, url)
        headers = {**_VARY, "Link": link_header(links)}
        dates = request.headers.getlist("accept-datetime")
        at = accepted_moment(dates[0]) if len(dates) == 1 else None
        if dates and at is None:
            text = "Accept-Datetime must look like this: Sun, 01 Mar 2026 12:00:00 GMT."
            return PlainTextResponse(f"{text}\n", 400, headers)
        memento = self._mementos.nearest(url, at)
        if memento is None:
            return PlainTextResponse("This archive has no copy of that page.\n", 404, headers)
        headers["Location"] = self._places.memento(memento)
        headers["Link"] = self._links(links, memento)
        return Response(status_code=302, headers=headers)

    def timemap(self, request: Request) -> Response:
        """Return a URL's mementos in the requested form; 404 when there are none."""
        form, _, rest = raw_rest(request, 1).partition("/")
        numbered = _NUMBERED.fullmatch(rest)
        number = int(numbered[1]) if numbered else None
        url = archived_url(numbered[2] if numbered else rest)
        if form not in _FORMS or url is None:
            text = f"A TimeMap looks like /timemap/{{{','.join(_FORMS)}}}/https://example.org/."
            return PlainTextResponse(f"{text}\n", 404, _FRESH)
        headers = {**_FRESH, "Link": link_header(page_links(self._places, url))}
        timemap = time_map(self._mementos, url, number)
        if timemap is None:
            text = "This archive has no such TimeMap of that page.\n"
            return PlainTextResponse(text, 404, headers)
        # No charset: link-format is UTF-8 by itself (RFC 6690, 7.3), and all of it is ASCII here.
        headers["Content-Type"], write = _FORMS[form]
        return Response(write(timemap, self._places), headers=headers)

    def _links(self, links: list[str], shown: PageMemento) -> str:
        around = self._mementos.around(shown.url, shown.timestamp)
        return link_header(links, memento_links(self._places, shown, around))

    def _robots(self, _request: Request) -> Response:
        lists = ("/api/", "/cdx", "/timegate/", "/timemap/", "/links", "/externalLink")
        refused = ("/",) if self._openness.indexing is SearchIndexing.NONE else lists
        text = "".join(f"Disallow: {path}\n" for path in refused)
        return PlainTextResponse(f"User-agent: *\n{text}")
