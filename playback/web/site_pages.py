"""Site pages: home page with lists of pages, and the page about the crawler."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from playback.url_paths import page_path
from playback.web.copy_notices import MOST_DRIFTS_LISTED
from playback.web.page_renderer import PageRenderer, WebContext, path_with_query
from playback.web.page_search import (
    PAGE_SIZE,
    PageListCursor,
    PageSearchQuery,
    PageSearchResult,
    SearchField,
    parse_cursor,
    parse_question,
)
from playback.web.page_store import CapturedPage
from playback.web.text_search import TEXT_PAGE_SIZE, TextCursor, TextSearchResult, parse_facets, parse_text_cursor

ABOUT_PATH: Final = "/about-crawler"


@dataclass(frozen=True, slots=True)
class Crawler:
    """Operator details of the archive and its crawler."""

    contact: str = ""  # a page or mail address; empty: none
    addresses: str = ""  # its source addresses; empty: not stated
    name: str = ""  # the archive's name for readers; empty: Weboid


NOBODY: Final = Crawler()


def about_crawler(crawler: Crawler, render: PageRenderer) -> Callable[[Request], Response]:
    """Return the endpoint of the page about the crawler."""
    contact = crawler.contact
    is_url = contact.startswith(("http://", "https://"))
    address = contact if is_url else f"mailto:{contact}" if "@" in contact else ""

    def answer(_request: Request) -> Response:
        return render("about_crawler.html", contact=contact, contact_url=address, addresses=crawler.addresses)

    return answer


class PageLists:
    """Lists of pages. Plain functions, run by Starlette in threads."""

    def __init__(self, means: WebContext) -> None:
        self._means = means

    def home(self, request: Request) -> Response:
        """Return the newest pages, or search results."""
        if (by_text := self._found_texts(request)) is not None:
            return self._means.render(
                "search.html",
                found=by_text,
                question=PageSearchQuery(SearchField.TEXT, by_text.words),
                has_texts=True,
                older=_text_address("/", by_text, by_text.next),
                narrowed=lambda name, value: _text_address("/", by_text, None, {name: value}),
            )
        texts = self._means.texts
        found = self._found(request)
        return self._means.render(
            "home.html",
            found=found,
            question=found.question,
            has_texts=texts is not None and texts.is_there(),
            is_first=found.newer is None,
            older=_address("/", found.question, "before", found.older),
            newer=_address("/", found.question, "after", found.newer),
        )

    def api(self, request: Request) -> Response:
        """Return the same as JSON; ``older`` is the address of the next part."""
        if (by_text := self._found_texts(request)) is not None:
            return JSONResponse(texts_as_json(by_text))
        found = self._found(request)
        listed = [as_json(page) for page in found.pages]
        if request.query_params.get("skew") == "1" or len(listed) <= MOST_DRIFTS_LISTED:
            for each, skew in zip(listed, self._means.skews(found.pages), strict=True):
                each["skew"] = None if skew is None else skew.as_json()
        return JSONResponse(
            {
                "pages": listed,
                "page_size": PAGE_SIZE,
                "older": _address("/api/pages", found.question, "before", found.older),
                "newer": _address("/api/pages", found.question, "after", found.newer),
                "read_to": found.read_to.isoformat() if found.read_to else None,
                "has_more": found.older is not None,
            }
        )

    def _found_texts(self, request: Request) -> TextSearchResult | None:
        """Return results of the full-text search; None when something else is searched, or there is no such index."""
        query = request.query_params
        question = parse_question(query.get("q", ""), query.get("in", ""))
        texts = self._means.texts
        if texts is None or question.where is not SearchField.TEXT or not question.words or not texts.is_there():
            return None
        limit = query.get("limit", "")
        size = min(max(1, int(limit)), PAGE_SIZE) if re.fullmatch("[0-9]{1,4}", limit) else TEXT_PAGE_SIZE
        at = parse_text_cursor(query.get("before", ""))
        return texts.find(question.words, parse_facets(dict(query)), at=at, limit=size)

    def _found(self, request: Request) -> PageSearchResult:
        query = request.query_params
        question = parse_question(query.get("q", ""), query.get("in", ""))
        before, after = parse_cursor(query.get("before", "")), parse_cursor(query.get("after", ""))
        return self._means.search.find(question, before=before, after=after)


def is_search(request: Request) -> bool:
    """Return True when the home page is requested with a search or a cursor."""
    return bool(request.query_params)


def as_json(page: CapturedPage) -> dict[str, object]:
    """Convert a page to its JSON form."""
    return {
        "url": page.url,
        "final_url": page.final_url,
        "timestamp": page.timestamp,
        "captured_at": page.captured_at.isoformat(timespec="milliseconds"),
        "title": page.title,
        "outcome": page.outcome,
        "reason": page.reason,
        "status": page.status,
        "mime": page.mime,
        "class": page.page_class,
        "class_score": page.class_score,
        "class_evidence": page.class_evidence.splitlines(),
        "page": page_path(page.timestamp, page.url),
        "has_copy": page.is_usable,
        "artifacts": sorted(page.artifacts),
        "text_digest": page.text_digest,
        "blocked": None if page.taken_down is None else page.taken_down.reason,
    }


def texts_as_json(found: TextSearchResult) -> dict[str, object]:
    """Convert results of the full-text search to their JSON form."""
    pages = [
        {
            **as_json(each.page),
            "language": each.language,
            "snippet": [{"text": text, "hit": is_hit} for text, is_hit in each.snippet],
        }
        for each in found.results
    ]
    return {
        "pages": pages,
        "page_size": TEXT_PAGE_SIZE,
        "older": _text_address("/api/pages", found, found.next),
        "newer": None,
        "read_to": None,
        "has_more": found.next is not None,
        "total": found.total,
        "total_is_exact": found.is_exact,
        "facets": {name: dict(values) for name, values in found.counts},
    }


def _text_address(
    path: str, found: TextSearchResult, cursor: TextCursor | None, changes: Mapping[str, str] | None = None
) -> str | None:
    if cursor is None and changes is None:
        return None
    values = {"q": found.words, "in": "text", **asdict(found.facets), **(changes or {})}
    return path_with_query(path, values, {"before": "" if cursor is None else str(cursor)})


def _address(path: str, question: PageSearchQuery, name: str, cursor: PageListCursor | None) -> str | None:
    if cursor is None:
        return None
    where = "" if question.where is SearchField.ANY else str(question.where)
    return path_with_query(path, {"q": question.words, "in": where, name: str(cursor)})
