"""Memento (RFC 7089): the TimeGate, and the headers of reader pages.

A memento's address (URI-M) is replay's, where the copy stands without a frame. The reader page of the
same copy says the same of itself, so that a client finds its way from either.
"""

import re
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from playback.front.targets import archived_url, raw_rest
from playback.link_format import (
    Places,
    link_header,
    memento_date,
    memento_links,
    page_links,
)
from playback.mementos import Mementos, PageMemento

_VARY = {"Vary": "accept-datetime", "Cache-Control": "no-cache"}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# RFC 7089, 2.1.1: the fixed-length form of RFC 1123, in GMT alone.
_DATE = re.compile(
    rf"(?:{'|'.join(_DAYS)}), (\d\d) ({'|'.join(_MONTHS)}) (\d{{4}}) (\d\d):(\d\d):(\d\d) GMT",
    re.ASCII,
)


def accepted_moment(text: str) -> datetime | None:
    """The moment that a value of Accept-Datetime names; None when it is not of RFC 7089's form.

    >>> accepted_moment("Sun, 01 Mar 2026 12:00:00 GMT").isoformat()
    '2026-03-01T12:00:00+00:00'
    >>> accepted_moment("Sun, 30 Feb 2026 12:00:00 GMT"), accepted_moment("2026-03-01")
    (None, None)
    """
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    day, month, year, hour, minute, second = match.groups()
    date = int(year), _MONTHS.index(month) + 1, int(day)
    try:
        return datetime(*date, int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError:
        return None


class TimeGate:
    """``/timegate/<url>``: leads to the memento nearest to Accept-Datetime (RFC 7089, 4.1.2)."""

    def __init__(self, mementos: Mementos, places: Places) -> None:
        self._mementos = mementos
        self._places = places

    def answer(self, request: Request) -> Response:
        """302 to the memento; 404 when there is none, 400 for a date that cannot be read."""
        url = archived_url(raw_rest(request, 1))
        if url is None:
            return _said(404, "A TimeGate looks like /timegate/https://example.org/.", [])
        links = page_links(self._places, url)
        dates = request.headers.getlist("accept-datetime")
        at = accepted_moment(dates[0]) if len(dates) == 1 else None
        if dates and at is None:
            text = "Accept-Datetime must look like this: Sun, 01 Mar 2026 12:00:00 GMT."
            return _said(400, text, links)
        found = self._mementos.nearest(url, at)
        if found is None:
            return _said(404, "This archive has no copy of that page.", links)
        around = self._mementos.around(url, found.timestamp)
        headers = {
            **_VARY,
            "Location": self._places.memento(found),
            "Link": link_header(links, memento_links(self._places, found, around)),
        }
        return Response(status_code=302, headers=headers)


def _said(status: int, text: str, links: list[str]) -> Response:
    headers = {**_VARY, "Link": link_header(links)} if links else _VARY
    return PlainTextResponse(f"{text}\n", status, headers)


class MementoHeaders:
    """What a reader page says of the copy that it shows."""

    def __init__(self, mementos: Mementos, places: Places) -> None:
        self._mementos = mementos
        self._places = places

    def of(self, url: str, timestamp: str, *, is_offered: bool) -> dict[str, str]:
        """Link, and for a copy that is offered Memento-Datetime: it alone is a memento."""
        links = page_links(self._places, url)
        if not is_offered:
            return {"Link": link_header(links)}
        shown = PageMemento(url, timestamp)
        around = self._mementos.around(url, timestamp)
        return {
            "Link": link_header(links, memento_links(self._places, shown, around)),
            "Memento-Datetime": memento_date(shown),
        }
