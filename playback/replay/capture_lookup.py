"""Look-ups of captures and pages in the captures index for replay.

The key of their URL (`core.url_keys`) merges distinct pages, so captures of the exact URL are preferred.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from core.captures import ArtifactKind, Capture, RecordLocation, RecordType, artifact_uri
from core.errors import BadUrlError
from core.timestamps import from_unix_milliseconds, parse_timestamp14, timestamp14, unix_milliseconds
from core.url_keys import replay_key
from playback.access.control import PAGE_FACTS, AccessControl, PageFacts, TakenDownError, page_facts
from playback.access.takedowns import url_within
from warc.index.database import IndexDatabase, key_values
from warc.index.queries import OFFERED, RANK, SHOWN, BestPageQuery, best_pages

_NEAREST = 16  # rows read on either side of the requested time
_REACH = 128  # times as many are read to find equals among them
_BEYOND = 8  # factor of rows to request where equal URLs cannot be distinguished
_VISIT_MS = 600_000  # a capture further from a page's moment is not the page's
_MOST_NEAREST = 4_096  # when those are all taken down

CAPTURE_COLUMNS = (
    'url, urlkey, captured_ms, record_type, mime, status, digest, filename, "offset", length,'
    " orig_filename, orig_offset, orig_length, page_id, truncated, login"
)
_OF_THE_URL = f"""
SELECT * FROM (SELECT {CAPTURE_COLUMNS} FROM captures WHERE {{has_key}} AND captured_ms <= :at
    AND captured_ms >= :first AND url = :url ORDER BY captured_ms DESC LIMIT :limit) AS before
UNION ALL
SELECT * FROM (SELECT {CAPTURE_COLUMNS} FROM captures WHERE {{has_key}} AND captured_ms > :at
    AND captured_ms <= :last AND url = :url ORDER BY captured_ms LIMIT :limit) AS after
"""  # noqa: S608 constants of ours
# Equals of a URL that was captured very often are looked for near the moment only.
_OF_EQUALS = f"""
SELECT * FROM (SELECT * FROM (SELECT {CAPTURE_COLUMNS} FROM captures WHERE {{has_key}}
    AND captured_ms <= :at AND captured_ms >= :first ORDER BY captured_ms DESC LIMIT :reach)
    AS nearer WHERE url <> :url ORDER BY captured_ms DESC LIMIT :limit) AS before
UNION ALL
SELECT * FROM (SELECT * FROM (SELECT {CAPTURE_COLUMNS} FROM captures WHERE {{has_key}}
    AND captured_ms > :at AND captured_ms <= :last ORDER BY captured_ms LIMIT :reach)
    AS nearer WHERE url <> :url ORDER BY captured_ms LIMIT :limit) AS after
"""  # noqa: S608 constants of ours
# Most rows of a frequent payload are revisits: only this many are read.
_OF_DIGEST = (
    f"SELECT {CAPTURE_COLUMNS} FROM"  # noqa: S608 constants of ours
    f" (SELECT {CAPTURE_COLUMNS} FROM captures WHERE digest = :digest LIMIT 2000) AS same"
    " WHERE record_type = 'response' LIMIT 4"
)
_MOST_ALTERNATIVES = 500
_OF_THE_PATH = (
    f"SELECT {CAPTURE_COLUMNS} FROM captures"  # noqa: S608 constants of ours
    f" WHERE page_id = :page AND (url = :path OR substr(url, 1, :length) = :path || '?')"
    f" LIMIT {_MOST_ALTERNATIVES}"
)
# Parameters that pages add so that no cache answers, links carry for statistics, or name a callback by
# the moment; the rules are those of pywb and wabac.
_BUSTERS = re.compile(
    r"(?<=[?&])(?:(?:_|cb|rnd|rand|random|nocache|uncache|fbclid|utm_\w+)=[^&]*"
    r"|\w*(?:bust|ts|time|cache|_t)\w*=1\d{9,15}|_?t=1\d{9,15})(?:&|$)",
    re.IGNORECASE,
)
# Values that are new at each visit: milliseconds since 1970, a random fraction, a UUID, a long random number.
FRESH_VALUE = r"(?:1[4-9]\d{11}|0\.\d{6,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{24,})"
_FRESH = re.compile(rf"(?<==){FRESH_VALUE}(?=&|$)", re.IGNORECASE)
_CALLBACK = re.compile(r"(?<=[?&])(\w+=(?:jquery|jsonp)\w*?)\d[\d_]*(?=&|$)", re.IGNORECASE)
# Paths that name a file are the same file with any query, unless a program answers there.
_FILE = re.compile(r"[^/]+\.(?!(?:asp|aspx|cgi|dll|exe|jsp|php\d?|pl)$)[a-z0-9]{1,5}", re.IGNORECASE)
_PAGE_COLUMNS = f"{PAGE_FACTS}, captured_ms, device"


Beyond = Callable[[str, int, int], list[dict[str, Any]]]


def call_inline(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call the function synchronously."""
    return function(*arguments)


@dataclass(frozen=True, slots=True)
class CaptureLookup:
    """Look-ups in a captures index; a collection without an index counts as empty.

    Taken-down captures are not found; a look-up that finds nothing else raises TakenDownError. All methods raise
    TransientError when the index cannot be read.
    """

    database: IndexDatabase  # the index, owned by the caller
    _: KW_ONLY
    permits: AccessControl | None = None  # access control; None: everything may be found
    call: Callable[..., Any] = call_inline  # calls a function with arguments, e.g. in another thread
    # finds captures in another index (`warc.index.outback`): of a URL, near a moment in
    # milliseconds, at most so many. They belong to the page with their URL and moment
    beyond: Beyond | None = None

    @property
    def has_key(self) -> str:
        """The condition that a row's urlkey is `key`; see `warc.index.database.IndexDatabase`."""
        return self.database.has_key

    def rows(self, query: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a query, for other modules, too (`playback.mementos`)."""
        result: list[Any] = self.call(self.database.rows, (query, values))
        return result

    def captures(self, url: str, at: datetime, *, window: timedelta | None = None) -> Iterator[Capture]:
        """Yield captures of `url` within `window` of `at`: of exactly this URL first, then the nearest.

        Raises TakenDownError: after the last one, when further captures are blocked.
        """
        limit, blocked = _NEAREST, None
        while True:
            row_count = shown = refused = 0
            for row in self._nearest(url, at, window, limit):
                row_count += 1
                capture = self._with_page_id(capture_of(row))
                if (error := self._refusal(capture)) is not None:
                    refused += 1
                    blocked = blocked or (error if error.is_disclosed else None)
                elif capture is not None:
                    shown += 1
                    yield capture
            if shown or not refused or row_count < limit or limit >= _MOST_NEAREST:
                break
            limit *= 16
        if blocked is not None:
            raise blocked

    def alternative(self, url: str, page_id: str) -> Capture | None:
        """Return the page's capture of the same URL but for parameters without meaning; None without one.

        Cache-busting parameters and moments in callback names do not count. A file is found with any query; of several
        the one with most parameters in common. Values that are new at each visit may differ where there is one only.
        """
        path, _, query = url.partition("?")
        values = {"page": page_id, "length": len(path) + 1, "path": path}
        plain_url, parameters = _without_busters(url), set(query.split("&"))
        is_file = _FILE.fullmatch(path.rpartition("/")[2]) is not None
        best: Capture | None = None
        best_rank = -1
        rows = self.rows(_OF_THE_PATH, values)
        plain_urls = {row["url"]: _without_busters(row["url"]) for row in rows}
        lasting = _FRESH.sub("", plain_url)
        similar = {each for each, plain in plain_urls.items() if _FRESH.sub("", plain) == lasting}
        for row in rows:
            is_same = plain_urls[row["url"]] == plain_url or similar == {row["url"]}
            if not (is_same or is_file):
                continue
            capture = capture_of(row)
            if capture is None or self._refusal(capture) is not None:
                continue
            shared = len(parameters & set(capture.url.partition("?")[2].split("&")))
            rank = shared + (len(parameters) + 1 if is_same else 0)
            if (capture.status or 0) < 400 and rank > best_rank:
                best, best_rank = capture, rank
        return best

    def twins(self, digest: str) -> list[Capture]:
        """Return some captures with that payload digest that may be shown."""
        if not digest:
            return []
        return [each for each in captures_of(self.rows(_OF_DIGEST, {"digest": digest})) if self._refusal(each) is None]

    def _with_page_id(self, capture: Capture | None) -> Capture | None:
        """Return the capture with its page, when it comes from an index without pages."""
        if capture is None or self.beyond is None or capture.page_id is not None:
            return capture
        url, at = url_within(capture.url), unix_milliseconds(capture.captured_at)
        try:
            key = key_values(replay_key(url))
        except BadUrlError:
            return capture
        values = {**key, "url": url, "at": at, "first": at - _VISIT_MS, "last": at + _VISIT_MS}
        for row in self.rows(
            f"SELECT page_id, login FROM pages WHERE {self.database.has_key}"  # noqa: S608 constants of ours
            " AND captured_ms BETWEEN :first AND :last AND (url = :url OR final_url = :url)"
            " ORDER BY abs(captured_ms - :at) LIMIT 1",
            values,
        ):
            return replace(capture, page_id=row["page_id"], login=row["login"] or None)
        return capture

    def _refusal(self, capture: Capture | None) -> TakenDownError | None:
        """Return the reason why the capture must not be found, or None."""
        if self.permits is None or capture is None:
            return None
        takedown = self.permits.capture(capture)
        return None if takedown is None else TakenDownError(takedown)

    def page(self, url: str, at: datetime, *, on_purpose: bool = False) -> PageFacts | None:
        """Return the page of `url` to show for the moment `at`: neither failed nor skipped.

        The capture whose timestamp `at` names is shown whatever its class; else the best, and then the nearest.
        Withheld pages, such as bot challenges, are shown only `on_purpose`, by their timestamp. Raises TakenDownError:
        that very page is blocked, or every one that could be shown.
        """
        shown = OFFERED if on_purpose else SHOWN
        try:
            key = key_values(replay_key(url))
        except BadUrlError:
            return None  # the index has no such key
        timestamp, blocked = timestamp14(at), None
        best = BestPageQuery(url, unix_milliseconds(at), timestamp, shown)
        for row in best_pages(self.rows, self.database.has_key, key, _PAGE_COLUMNS, best):
            page, error = self._page_and_refusal(row)
            if error is None:
                return page
            if error.is_disclosed and (page.timestamp, page.url) == (timestamp, url):
                raise error  # another capture would not answer a request for this one
            blocked = blocked or (error if error.is_disclosed else None)
        if blocked is not None:
            raise blocked
        return None

    def page_by_id(self, page_id: str) -> PageFacts | None:
        """Return the page of that identifier if it is offered to readers; TakenDownError when taken down."""
        for row in self.rows(
            f"SELECT {_PAGE_COLUMNS} FROM pages WHERE page_id = :page AND {SHOWN}",  # noqa: S608 constants of ours
            {"page": page_id},
        ):
            page, error = self._page_and_refusal(row)
            if error is not None:
                raise error
            return page
        return None

    def _page_and_refusal(self, row: Any) -> tuple[PageFacts, TakenDownError | None]:
        page = page_facts(row)
        takedown = None if self.permits is None else self.permits.page(page)
        return page, None if takedown is None else TakenDownError(takedown)

    def documents(self, url: str, at: datetime, *, of_page: str | None = None) -> Iterator[Capture]:
        """Yield captures of `url` that may be a page's copy, good ones before others, then the nearest.

        Those of a failed, skipped or withheld page are left out, unless it is `of_page`. Raises as `captures`.
        """
        later: list[tuple[int, Capture]] = []
        blocked = None
        captures = self.captures(url, at)
        while True:
            try:
                each = next(captures, None)
            except TakenDownError as error:
                blocked, each = error, None
            if later and (each is None or each.url != url):
                yield from [each for _, each in sorted(later, key=lambda ranked: ranked[0])]
                later.clear()
            if each is None:
                break
            standing: int | None = 0
            if each.page_id not in (None, of_page):
                query = (
                    f"SELECT {RANK} AS standing, {SHOWN} AS shown"  # noqa: S608 constants of ours
                    " FROM pages WHERE page_id = :page"
                )
                for row in self.rows(query, {"page": each.page_id}):
                    standing = row["standing"] if row["shown"] else None
            if standing == 0:
                yield each
            elif standing is not None:
                later.append((standing, each))
        if blocked is not None:
            raise blocked

    def artifact(self, page: PageFacts, kind: ArtifactKind) -> Capture | None:
        """Return the page's artifact of that kind, under either of the page's URLs."""
        prefix = artifact_uri(kind, "")
        for row in self.rows(
            f"SELECT {CAPTURE_COLUMNS} FROM captures"  # noqa: S608 constants of ours
            " WHERE page_id = :page AND substr(url, 1, :length) = :prefix"
            " ORDER BY captured_ms DESC LIMIT 1",
            {"page": page.page_id, "length": len(prefix), "prefix": prefix},
        ):
            return self._permitted(capture_of(row))
        # The same where no pages are known: by its URL, near the page's moment.
        if self.beyond is None:
            return None
        at = unix_milliseconds(parse_timestamp14(page.timestamp))
        artifacts: list[Capture] = []
        for url in {page.url, page.final_url}:
            uri = artifact_uri(kind, url)
            rows = [row for row in self.beyond(uri, at, _NEAREST) if row["url"] == uri]
            near = (row for row in rows if abs(row["captured_ms"] - at) <= _VISIT_MS)
            artifacts += [replace(each, page_id=page.page_id) for each in captures_of(near)]
        if not artifacts:
            return None
        return self._permitted(min(artifacts, key=lambda each: abs(unix_milliseconds(each.captured_at) - at)))

    def _permitted(self, capture: Capture | None) -> Capture | None:
        error = self._refusal(capture)
        if error is not None and error.is_disclosed:
            raise error
        return capture if error is None else None

    def _nearest(self, url: str, at: datetime, window: timedelta | None, limit: int) -> Iterator[Any]:
        try:
            key = replay_key(url)
        except BadUrlError:
            return  # the index has no such key
        at_ms = unix_milliseconds(at)
        reach = window // timedelta(milliseconds=1) if window is not None else 2**53
        values = {
            **key_values(key),
            "url": url,
            "at": at_ms,
            "first": at_ms - reach,
            "last": at_ms + reach,
            "limit": limit,
            "reach": _REACH * limit,
        }
        for form in (_OF_THE_URL, _OF_EQUALS):
            rows = self.rows(form.format(has_key=self.database.has_key), values)
            if self.beyond is not None:
                places = {(row["filename"], row["offset"]) for row in rows}
                rows = rows + [
                    row
                    for row in self.beyond(url, at_ms, _BEYOND * limit)
                    if abs(row["captured_ms"] - at_ms) <= reach
                    and (row["filename"], row["offset"]) not in places
                    and (row["url"] == url) is (form is _OF_THE_URL)
                ]
            # Responses of the site precede those that a service worker made, whatever their time.
            yield from sorted(rows, key=lambda row: (_is_synthesised(row), abs(row["captured_ms"] - at_ms)))


def _is_synthesised(row: Any) -> bool:
    return row["record_type"] == RecordType.RESOURCE and not row["url"].startswith("urn:")


def _without_busters(url: str) -> str:
    return _CALLBACK.sub(r"\1", _BUSTERS.sub("", url)).rstrip("?&")


def captures_of(rows: Iterable[Any]) -> Iterator[Capture]:
    """Yield those rows that are well-formed as captures."""
    yield from (each for each in map(capture_of, rows) if each is not None)


def capture_of(row: Any) -> Capture | None:
    """Return the row as a capture; None when it is malformed."""
    try:
        original = None
        if row["orig_filename"] is not None:
            original = RecordLocation(row["orig_filename"], int(row["orig_offset"]), int(row["orig_length"]))
        return Capture(
            url=row["url"],
            urlkey=row["urlkey"],
            captured_at=from_unix_milliseconds(row["captured_ms"]),
            record_type=RecordType(row["record_type"]),
            mime=row["mime"],
            status=row["status"],
            digest=row["digest"],
            location=RecordLocation(row["filename"], int(row["offset"]), int(row["length"])),
            original=original,
            page_id=row["page_id"],
            truncated=row["truncated"],
            login=row["login"],
        )
    except (ValueError, TypeError, OverflowError):
        return None
