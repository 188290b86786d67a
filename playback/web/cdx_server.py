"""CDX server: rows of the captures index, read in chunks and streamed (`playback.web.cdx_query`).

Rows and time of a response are limited; a truncated one carries a resumption key. Record locations are not exposed.
Queries for whole hosts and domains need a setting.
"""

import heapq
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from core.captures import Capture, RecordLocation, RecordType
from core.errors import InputError, TransientError
from core.timestamps import from_unix_milliseconds, parse_timestamp14, unix_milliseconds
from playback.access.control import AccessControl
from playback.access.takedowns import TakedownEffect
from playback.mementos import LINK_FORMAT, MementoEndpoints, MementoIndex, format_link, memento_link
from playback.web import cdx_query
from playback.web.rate_limits import BlockStream
from warc.index.queries import CaptureQueries, IndexPosition, ListedCapture, TimeRange

_CHUNK = 1_000  # rows
_MOST_SORTED = 10_000  # rows held in memory for sorting
_NOWHERE = RecordLocation("", 0, 0)  # the location of a record is irrelevant here


class CdxWalk:
    """Iteration over matching rows; then `resume` is the next position or None, `ended_late` True after a time-out."""

    def __init__(
        self, rows: CaptureQueries, permits: AccessControl, query: cdx_query.CdxQuery, late: Callable[[], bool]
    ) -> None:
        """Prepare the query; iteration ends when `late` returns True."""
        self._rows = rows
        self._permits = permits
        self._query = query
        self._left = cdx_query.MOST_ROWS if query.page is None else query.page_rows  # rows to read
        self._late = late
        self._after = query.after
        self.resume: IndexPosition | None = None
        self.ended_late = False

    def start(self) -> None:
        """Seek to the requested page; raise InputError when it does not exist."""
        query = self._query
        if not query.page:
            return
        before = query.page * query.page_rows
        if before < cdx_query.MOST_PAGED:
            self._after = self._place(before - 1)
            if self._after is not None and self._place(before) is not None:
                return
        last = max(self.pages() - 1, 0)
        raise InputError(f"There is no page {query.page}: the first page is 0, the last {last}.")

    def pages(self) -> int:
        """Return the number of pages of rows."""
        query = self._query
        return -(-self._rows.count(query.keys, query.between, most=cdx_query.MOST_PAGED) // query.page_rows)

    def end(self) -> IndexPosition | None:
        """Return the position of truncation if it is known before iteration; else None."""
        query = self._query
        is_whole = query.limit is not None and query.limit < cdx_query.MOST_ROWS
        if is_whole or query.page is not None or query.closest is not None or query.newest:
            return None
        last = self._place(cdx_query.MOST_ROWS - 1)
        return last if last is not None and self._place(cdx_query.MOST_ROWS) is not None else None

    def _place(self, offset: int) -> IndexPosition | None:
        query = self._query
        return self._rows.place(
            query.keys, query.between, offset=offset, after=query.after, descending=query.descending
        )

    def matching(self) -> Iterator[list[ListedCapture]]:
        """Yield the matching rows in chunks; TransientError: out of time without a resumption key."""
        query = self._query
        if query.closest is not None:
            closest, whole = query.closest, query.between
            earlier = TimeRange(whole.first_ms, min(closest - 1, whole.last_ms))
            later = TimeRange(max(closest, whole.first_ms), whole.last_ms)
            sides = (
                chain.from_iterable(self._chunks(replace(query, between=between, descending=is_before)))
                for between, is_before in ((earlier, True), (later, False))
            )
            # Nearest first; the earlier one of equal distance.
            rows = heapq.merge(*sides, key=lambda row: abs(row.position.captured_ms - closest))
            near = ([row] for row in rows)
            yield from _limited(map(self._of_chunk, near), query.skip, query.limit)
            self.resume = None  # this order cannot be continued
        elif query.newest:
            reverse = replace(query, descending=not query.descending, newest=False)
            held = min(query.limit or 0, _MOST_SORTED)
            chunks = _limited(map(self._of_chunk, self._chunks(reverse)), query.skip, held)
            yield [*chain.from_iterable(chunks)][::-1]
            self.resume = None
        else:
            yield from self._in_order()

    def _in_order(self) -> Iterator[list[ListedCapture]]:
        query, skip, left = self._query, self._query.skip, self._query.limit
        chunks = self._chunks(query)
        for chunk in chunks:
            matching = self._of_chunk(chunk)
            skipped = min(skip, len(matching))
            skip -= skipped
            matching = matching[skipped:]
            if left is not None and len(matching) >= left:
                matching = matching[:left]
                if matching and (matching[-1].position != chunk[-1].position or next(chunks, None) is not None):
                    self.resume = matching[-1].position
                yield matching
                return
            if left is not None:
                left -= len(matching)
            yield matching
        if self.ended_late and not query.wants_key:
            raise TransientError("The captures index is too slow for this query.")

    def _chunks(self, query: cdx_query.CdxQuery) -> Iterator[list[ListedCapture]]:
        after = self._after if query.closest is None else None
        while True:
            if self._late():
                self.resume, self.ended_late = after, True
                return
            if self._left <= 0:
                if query.page is None and self._next(query, after, 1):
                    self.resume = after
                return
            limit = min(_CHUNK, self._left)
            rows = self._next(query, after, limit)
            self._left -= len(rows)
            if rows:
                after = rows[-1].position
                yield rows
            if len(rows) < limit:
                return

    def _next(self, query: cdx_query.CdxQuery, after: IndexPosition | None, limit: int) -> list[ListedCapture]:
        if query.keys.is_one:
            return self._rows.of_key(
                query.keys.low, query.between, after=after, descending=query.descending, limit=limit
            )
        return self._rows.of_range(query.keys, after=after, descending=query.descending, limit=limit)

    def _of_chunk(self, chunk: list[ListedCapture]) -> list[ListedCapture]:
        """Return the rows of a chunk that pass access control, filters and collapsing."""
        between, filters, passed = self._query.between, self._query.filters, []
        for row in chunk:
            if not between.first_ms <= row.position.captured_ms <= between.last_ms or not all(
                matches(row) for matches in filters
            ):
                continue
            captured_at = from_unix_milliseconds(row.position.captured_ms)
            takedown = self._permits.capture(
                Capture(
                    *(row.url, row.urlkey, captured_at, RecordType.RESPONSE),
                    *(row.mime, row.status, row.digest, _NOWHERE),
                    page_id=row.page_id or None,
                    login=row.login,
                )
            )
            if takedown is not None and takedown.effect is TakedownEffect.HIDE:
                continue
            before, self._last = self._last, tuple(each.key(row) for each in self._query.collapses)
            if not any(old == new for old, new in zip(before, self._last, strict=False)):
                passed.append(row)
        return passed

    _last: tuple[tuple[str, ...], ...] = ()


def _limited(chunks: Iterable[list[ListedCapture]], skip: int, limit: int | None) -> Iterator[list[ListedCapture]]:
    rows = islice(chain.from_iterable(chunks), skip, None if limit is None else skip + limit)
    while chunk := list(islice(rows, _CHUNK)):
        yield chunk


ANSWER_LIMIT_S = 20.0
ARCHIVE_PATH = "/cdx/search/cdx"
_FRESH = {"Cache-Control": "no-cache"}
_TYPES = {"text": "text/plain; charset=utf-8", "json": "text/x-ndjson", "cdxj": "text/x-cdxj"}


@dataclass(frozen=True, slots=True)
class CdxServer:
    """Route ``/cdx?url=…``: captures of a URL or a URL prefix."""

    _rows: CaptureQueries
    _permits: AccessControl
    _mementos: MementoIndex
    _places: MementoEndpoints
    _wide: bool  # whether whole hosts and domains may be queried

    def answer(self, request: Request) -> Response:
        """Return the captures; 400 for invalid parameters, 403 for wide queries, 404 for no result."""
        parameters = request.query_params.multi_items()
        as_json = ("output", "json") in parameters
        try:
            query = cdx_query.parse_query(parameters, archive_dialect=request.url.path == ARCHIVE_PATH, wide=self._wide)
            if query.output == "link":
                return self._link_format(query)
            until = time.monotonic() + ANSWER_LIMIT_S
            walk = CdxWalk(self._rows, self._permits, query, lambda: time.monotonic() > until)
            if query.wants_pages:
                pages = walk.pages()
                if query.archive_dialect:
                    return PlainTextResponse(f"{pages}\n", headers=_FRESH)
                # pywb counts blocks of a compressed index; here they are pages of results.
                body = json.dumps({"pages": pages, "pageSize": query.page_rows, "blocks": pages})
                return Response(body, headers=_FRESH, media_type="application/json")
            walk.start()
        except cdx_query.TooWideError as error:
            return _message(403, str(error), as_json=as_json)
        except InputError as error:
            return _message(400, str(error), as_json=as_json)
        return self._captures(request, query, walk)

    def _captures(self, request: Request, query: cdx_query.CdxQuery, walk: CdxWalk) -> Response:
        chunks = walk.matching()
        # The first rows now, while the answer can still be another.
        first: list[ListedCapture] = []
        for first in chunks:
            if first:
                break
        if not first and query.output == "json" and not query.archive_dialect and not walk.resume:
            return _message(404, f"No Captures found for: {query.url}", as_json=True)
        headers = dict(_FRESH)
        end = walk.end()
        if end is not None and not query.wants_key:
            others = [pair for pair in request.query_params.multi_items() if pair[0] != "resumeKey"]
            more = urlencode([*others, ("resumeKey", cdx_query.resume_key(end))])
            headers["Link"] = format_link(f"{self._places.front}{request.url.path}?{more}", "next")
        is_list = query.output == "json" and query.archive_dialect
        body = (_json_list if is_list else _lines)(query, walk, chain([first], chunks))
        headers["Content-Type"] = "application/json" if is_list else _TYPES[query.output]
        return BlockStream((each.encode() for each in body if each), headers)

    def _link_format(self, query: cdx_query.CdxQuery) -> Response:
        if not query.keys.is_one:
            raise InputError("output=link lists the mementos of one URL; leave matchType out.")
        between = query.between
        lines = (
            memento_link(self._places, each)
            for each in self._mementos.listed(query.url)
            if between.first_ms <= unix_milliseconds(parse_timestamp14(each.timestamp)) <= between.last_ms
        )
        body = ",\n".join(islice(lines, query.limit))
        return Response(f"{body}\n" if body else "", headers={**_FRESH, "Content-Type": LINK_FORMAT})


def _message(status: int, text: str, *, as_json: bool) -> Response:
    if as_json:
        return Response(json.dumps({"message": text}), status, _FRESH, media_type="application/json")
    return PlainTextResponse(f"{text}\n", status, _FRESH)


def _lines(query: cdx_query.CdxQuery, walk: CdxWalk, chunks: Iterable[list[ListedCapture]]) -> Iterator[str]:
    """Yield a line for each row: text, CDXJ, or pywb's JSON, which has no resumption key."""
    names = query.fields
    if query.output == "cdxj":
        names = tuple(name for name in names if name not in ("urlkey", "timestamp"))

    def line(row: ListedCapture) -> str:
        if query.output == "text":
            return " ".join(cdx_query.value_of(row, name) for name in names)
        fields = {name: cdx_query.value_of(row, name) for name in names if cdx_query.is_field(name)}
        written = json.dumps(fields, separators=(",", ":"))
        if query.output == "json":
            return written
        return f"{cdx_query.value_of(row, 'urlkey')} {row.timestamp} {written}"

    for rows in chunks:
        yield "".join(line(row) + "\n" for row in rows)
    if query.output != "json" and query.wants_key and walk.resume is not None:
        yield f"\n{cdx_query.resume_key(walk.resume)}\n"


def _json_list(query: cdx_query.CdxQuery, walk: CdxWalk, chunks: Iterable[list[ListedCapture]]) -> Iterator[str]:
    """Yield the Archive's JSON list of lists with a header row; ``[]`` without results."""
    before = f"[{json.dumps(query.fields)}"
    for rows in chunks:
        if rows:
            lines = (json.dumps([cdx_query.value_of(row, name) for name in query.fields]) for row in rows)
            yield f"{before},\n" + ",\n".join(lines)
            before = ""
    if query.wants_key and walk.resume is not None:
        yield f"{before},\n[],\n{json.dumps([cdx_query.resume_key(walk.resume)])}"
        before = ""
    yield "[]\n" if before else "]\n"
