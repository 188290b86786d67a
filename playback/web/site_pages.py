"""Site pages: home page with lists of pages, their Atom feed, and the page about the crawler."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from core.json_values import json_facts
from playback.url_paths import page_path
from playback.web import text_search
from playback.web.copy_notices import MOST_DRIFTS_LISTED
from playback.web.page_renderer import PageRenderer, WebContext, path_with_query, tagged_response
from playback.web.page_search import (
    PAGE_SIZE,
    PageListCursor,
    PageSearchQuery,
    PageSearchResult,
    SearchField,
    parse_cursor,
    parse_question,
)
from playback.web.page_store import CapturedPage, TimeSpan
from playback.web.registry.answer_formats import xml_text

ABOUT_PATH: Final = "/about-crawler"
MORE_PARTS: Final = 3  # of the list, that are searched for changes
COMPARED: Final = 5  # captures among which the one before is looked for


@dataclass(frozen=True, slots=True)
class Crawler:
    """Operator details of the archive and its crawler."""

    contact: str = ""  # a page or mail address; empty: none
    addresses: str = ""  # its source addresses; empty: not stated
    name: str = ""  # the archive's name for readers; empty: Weboid


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

    def __init__(self, context: WebContext, archive_name: str = "") -> None:
        self._context = context
        self._archive_name = archive_name or "Weboid"

    def home(self, request: Request) -> Response:
        """Return the newest pages, or search results."""
        if (by_text := find_texts(self._context.texts, request.query_params)) is not None:
            return self._context.render(
                "search.html",
                found=by_text,
                question=PageSearchQuery(SearchField.TEXT, by_text.words),
                has_texts=True,
                older=text_address("/", by_text, by_text.next),
                narrowed=lambda name, value: text_address("/", by_text, None, {name: value}),
            )
        texts = self._context.texts
        matches = self._search(request)
        return self._context.render(
            "home.html",
            found=matches,
            question=matches.question,
            has_texts=texts is not None and texts.is_there(),
            is_first=matches.newer is None,
            older=_address("/", matches.question, "before", matches.older),
            newer=_address("/", matches.question, "after", matches.newer),
        )

    def api(self, request: Request) -> Response:
        """Return the same as JSON; ``older`` is the address of the next part."""
        if (by_text := find_texts(self._context.texts, request.query_params)) is not None:
            return JSONResponse(texts_as_json(by_text))
        matches = self._search(request)
        listed = [as_json(page) for page in matches.pages]
        if request.query_params.get("skew") == "1" or len(listed) <= MOST_DRIFTS_LISTED:
            for each, skew in zip(listed, self._context.skews(matches.pages), strict=True):
                each["skew"] = skew and asdict(skew)
        return JSONResponse(
            {
                "pages": listed,
                "page_size": PAGE_SIZE,
                "older": _address("/api/pages", matches.question, "before", matches.older),
                "newer": _address("/api/pages", matches.question, "after", matches.newer),
                "read_to": matches.read_to.isoformat() if matches.read_to else None,
                "has_more": matches.older is not None,
            }
        )

    def feed(self, request: Request) -> Response:
        """Return the newest copies as an Atom feed (RFC 4287), ``host=`` of a site, ``changes=1`` those with news."""
        origin = self._context.origin or f"{request.url.scheme}://{request.url.netloc}"
        host, changes = request.query_params.get("host", "")[:300], request.query_params.get("changes") == "1"
        question = parse_question(host, SearchField.HOST if host else "")
        matches = self._context.search.find(question)
        pages = [*matches.pages]
        for _ in range(MORE_PARTS if changes and matches.older else 0):
            if matches.older is None:
                break
            matches = self._context.search.find(question, before=matches.older)
            pages += matches.pages
        threatened = self._context.store.threatened(pages)
        query = {"host": host, "changes": "1" if changes else ""}
        feed = Element("feed", xmlns="http://www.w3.org/2005/Atom")
        add_element(feed, "title", f"{self._archive_name}: {'changed' if changes else 'archived'} pages {host}".strip())
        add_element(feed, "id", origin + path_with_query("/feed.atom", query))
        SubElement(feed, "link", rel="self", href=origin + path_with_query("/feed.atom", query))
        SubElement(feed, "link", rel="alternate", href=f"{origin}/")
        add_element(SubElement(feed, "author"), "name", self._archive_name)
        updated, count = datetime.fromtimestamp(0, UTC), 0
        for page in pages:
            if page.page_id in threatened or not (page.has_copy or page.is_download) or count >= PAGE_SIZE:
                continue
            older = self._changed_since(page) if changes else None
            if changes and older is None:
                continue
            count += 1
            updated = max(updated, page.captured_at)
            entry = SubElement(feed, "entry")
            add_element(entry, "title", page.label)
            address = origin + page_path(page.timestamp, page.url)
            add_element(entry, "id", address)
            SubElement(entry, "link", rel="alternate", href=address)
            if page.live_url is not None:
                SubElement(entry, "link", rel="via", href=xml_text(page.live_url))
            if older is not None:
                between = page_path(f"{older.timestamp}/{page.timestamp}", page.url, view="changes")
                SubElement(entry, "link", rel="related", href=origin + between)
            add_element(entry, "updated", page.captured_at.isoformat(timespec="seconds"))
            add_element(entry, "summary", page.url)
        add_element(feed, "updated", updated.isoformat(timespec="seconds"))
        body = tostring(feed, encoding="utf-8", xml_declaration=True)
        headers = {"Cache-Control": "no-cache"}
        if count:
            headers["Last-Modified"] = format_datetime(updated, usegmt=True)
        return tagged_response(request, body, headers, "application/atom+xml")

    def _changed_since(self, page: CapturedPage) -> CapturedPage | None:
        """Return the capture before that shows the page with another text; None: it is unchanged, new or unknown."""
        if not page.text_digest or not page.is_good:
            return None
        span = TimeSpan(datetime.fromtimestamp(0, UTC), page.captured_at)
        earlier = self._context.store.captures(page.url, span=span, limit=COMPARED)
        older = next((each for each in earlier if each.has_copy and each.is_good and each.text_digest), None)
        return None if older is None or older.text_digest == page.text_digest else older

    def _search(self, request: Request) -> PageSearchResult:
        query = request.query_params
        question = parse_question(query.get("q", ""), query.get("in", ""))
        before, after = parse_cursor(query.get("before", "")), parse_cursor(query.get("after", ""))
        return self._context.search.find(question, before=before, after=after)


def add_element(parent: Element, name: str, text: str) -> None:
    """Add an element with a text, without the characters that XML 1.0 forbids."""
    SubElement(parent, name).text = xml_text(text)


def as_json(page: CapturedPage) -> dict[str, object]:
    """Convert a page to its JSON form."""
    return {
        **json_facts(
            page,
            "url final_url timestamp title outcome reason status mime class_score text_digest",
            has_copy="is_usable",
        ),
        "captured_at": page.captured_at.isoformat(timespec="milliseconds"),
        "class": page.page_class,
        "class_evidence": page.class_evidence.splitlines(),
        "page": page_path(page.timestamp, page.url),
        "artifacts": sorted(page.artifacts),
        "blocked": None if page.taken_down is None else page.taken_down.reason,
    }


def texts_as_json(hits: text_search.TextSearchResult) -> dict[str, object]:
    """Convert results of the full-text search to their JSON form."""
    pages = [
        {
            **as_json(each.page),
            "language": each.language,
            "snippet": [{"text": text, "hit": is_hit} for text, is_hit in each.snippet],
        }
        for each in hits.results
    ]
    return {
        "pages": pages,
        "page_size": text_search.TEXT_PAGE_SIZE,
        "older": text_address("/api/pages", hits, hits.next),
        "newer": None,
        "read_to": None,
        "has_more": hits.next is not None,
        "total": hits.total,
        "total_is_exact": hits.is_exact,
        "facets": {name: dict(values) for name, values in hits.counts},
    }


def find_texts(texts: text_search.TextSearch | None, query: Mapping[str, str]) -> text_search.TextSearchResult | None:
    """Return results of the full-text search; None when something else is searched, or there is no such index."""
    question = parse_question(query.get("q", ""), query.get("in", ""))
    if texts is None or question.where is not SearchField.TEXT or not question.words or not texts.is_there():
        return None
    limit = query.get("limit", "")
    size = min(max(1, int(limit)), PAGE_SIZE) if re.fullmatch("[0-9]{1,4}", limit) else text_search.TEXT_PAGE_SIZE
    at = text_search.parse_text_cursor(query.get("before", ""))
    return texts.find(question.words, text_search.parse_facets(dict(query)), at=at, limit=size)


def text_address(
    path: str,
    hits: text_search.TextSearchResult,
    cursor: text_search.TextCursor | None,
    changes: Mapping[str, str] | None = None,
) -> str | None:
    """Return the address of another part of the results, or of those with other facets; None without either."""
    if cursor is None and changes is None:
        return None
    values = {"q": hits.words, "in": "text", **asdict(hits.facets), **(changes or {})}
    return path_with_query(path, values, {"before": "" if cursor is None else str(cursor)})


def _address(path: str, question: PageSearchQuery, name: str, cursor: PageListCursor | None) -> str | None:
    if cursor is None:
        return None
    where = "" if question.where is SearchField.ANY else str(question.where)
    return path_with_query(path, {"q": question.words, "in": where, name: str(cursor)})
