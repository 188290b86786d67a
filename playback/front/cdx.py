"""The CDX server: which captures there are, for pywb, cdx-toolkit and the clients of the Internet Archive.

``/cdx`` speaks pywb's dialect, ``/cdx/search/cdx`` that of the Archive's server. Nothing says where a
record lies (research 1.10). Answers are streamed, and bounded in rows and in time; whole hosts and
domains are asked for only where a setting allows it.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from core.errors import InputError
from core.timestamps import milliseconds, parse_timestamp14
from playback.captures_queries import CaptureRows, Row
from playback.front.cdx_query import (
    Query,
    TooWideError,
    is_field,
    parse_query,
    resume_key,
    value_of,
)
from playback.front.cdx_walk import CapturePermits, Walk
from playback.front.load_limit import BlockStream
from playback.link_format import LINK_FORMAT, Places, link, memento_link
from playback.mementos import Mementos

ANSWER_LIMIT_S = 20.0
ARCHIVE_PATH = "/cdx/search/cdx"
_FRESH = {"Cache-Control": "no-cache"}
_TYPES = {"text": "text/plain; charset=utf-8", "json": "text/x-ndjson", "cdxj": "text/x-cdxj"}


class CdxServer:
    """``/cdx?url=…``: the captures of a URL, or of all that begin with one."""

    def __init__(
        self,
        rows: CaptureRows,
        permits: CapturePermits,
        mementos: Mementos,
        places: Places,
        *,
        wide: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the index, who knows what of it may be told, and whether hosts may be asked for."""
        self._rows = rows
        self._permits = permits
        self._mementos = mementos
        self._places = places
        self._wide = wide
        self._monotonic = monotonic

    def answer(self, request: Request) -> Response:
        """The captures; 400 for what cannot be read, 403 for what is not told, 404 for nothing."""
        parameters = request.query_params.multi_items()
        as_json = ("output", "json") in parameters
        try:
            query = parse_query(
                parameters, archive_dialect=request.url.path == ARCHIVE_PATH, wide=self._wide
            )
            if query.output == "link":
                return self._link_format(query)
            until = self._monotonic() + ANSWER_LIMIT_S
            walk = Walk(self._rows, self._permits, query, lambda: self._monotonic() > until)
            if query.wants_pages:
                return _page_count(query, walk.pages())
            walk.start()
        except TooWideError as error:
            return _said(403, str(error), as_json=as_json)
        except InputError as error:
            return _said(400, str(error), as_json=as_json)
        return self._captures(request, query, walk)

    def _captures(self, request: Request, query: Query, walk: Walk) -> Response:
        told = walk.told()
        # The first rows now, while the answer can still be another.
        first: list[Row] = []
        for first in told:
            if first:
                break
        if not first and query.output == "json" and not query.archive_dialect and not walk.resume:
            text = f"No Captures found for: {query.url}"
            return _said(404, text, as_json=True)
        headers = dict(_FRESH)
        end = walk.end()
        if end is not None and not query.wants_key:
            kept = [pair for pair in request.query_params.multi_items() if pair[0] != "resumeKey"]
            more = urlencode([*kept, ("resumeKey", resume_key(end))])
            headers["Link"] = link(f"{self._places.front}{request.url.path}?{more}", "next")
        body = _WRITERS[query.output](query, walk, chain([first], told))
        headers["Content-Type"] = _content_type(query)
        return BlockStream((each.encode() for each in body if each), headers)

    def _link_format(self, query: Query) -> Response:
        """The URL's mementos, as a TimeMap lists them."""
        if not query.keys.is_one:
            raise InputError("output=link lists the mementos of one URL; leave matchType out.")
        between = query.between
        lines = (
            memento_link(self._places, each)
            for each in self._mementos.listed(query.url)
            if between.first_ms
            <= milliseconds(parse_timestamp14(each.timestamp))
            <= between.last_ms
        )
        body = ",\n".join(islice(lines, query.limit))
        headers = {**_FRESH, "Content-Type": LINK_FORMAT}
        return Response(f"{body}\n" if body else "", headers=headers)


def _said(status: int, text: str, *, as_json: bool) -> Response:
    if as_json:
        body = json.dumps({"message": text})
        return Response(body, status, _FRESH, media_type="application/json")
    return PlainTextResponse(f"{text}\n", status, _FRESH)


def _page_count(query: Query, pages: int) -> Response:
    if query.archive_dialect:
        return PlainTextResponse(f"{pages}\n", headers=_FRESH)
    # pywb counts blocks of a compressed index; ours are the pages themselves.
    body = json.dumps({"pages": pages, "pageSize": query.page_rows, "blocks": pages})
    return Response(body, headers=_FRESH, media_type="application/json")


def _content_type(query: Query) -> str:
    if query.output == "json" and query.archive_dialect:
        return "application/json"
    return _TYPES[query.output]


def _text(query: Query, walk: Walk, told: Iterable[list[Row]]) -> Iterator[str]:
    for rows in told:
        yield "".join(" ".join(value_of(row, name) for name in query.fields) + "\n" for row in rows)
    if query.wants_key and walk.resume is not None:
        yield f"\n{resume_key(walk.resume)}\n"


def _json(query: Query, walk: Walk, told: Iterable[list[Row]]) -> Iterator[str]:
    if query.archive_dialect:
        yield from _archive_json(query, walk, told)
        return
    for rows in told:
        yield "".join(_object(row, query.fields) + "\n" for row in rows)


def _archive_json(query: Query, walk: Walk, told: Iterable[list[Row]]) -> Iterator[str]:
    """A list of lists, the names of the fields first; nothing but ``[]`` when there is none."""
    before = f"[{json.dumps(query.fields)}"
    for rows in told:
        if rows:
            lines = (json.dumps([value_of(row, name) for name in query.fields]) for row in rows)
            yield f"{before},\n" + ",\n".join(lines)
            before = ""
    if query.wants_key and walk.resume is not None:
        yield f"{before},\n[],\n{json.dumps([resume_key(walk.resume)])}"
        before = ""
    yield "[]\n" if before else "]\n"


def _cdxj(query: Query, walk: Walk, told: Iterable[list[Row]]) -> Iterator[str]:
    names = tuple(name for name in query.fields if name not in ("urlkey", "timestamp"))
    for rows in told:
        yield "".join(
            f"{value_of(row, 'urlkey')} {row.timestamp} {_object(row, names)}\n" for row in rows
        )
    if query.wants_key and walk.resume is not None:
        yield f"\n{resume_key(walk.resume)}\n"


def _object(row: Row, names: tuple[str, ...]) -> str:
    fields = {name: value_of(row, name) for name in names if is_field(name)}
    return json.dumps(fields, separators=(",", ":"))


_WRITERS: dict[str, Callable[[Query, Walk, Iterable[list[Row]]], Iterator[str]]] = {
    "text": _text,
    "json": _json,
    "cdxj": _cdxj,
}
