"""The reader's pages: the list of captures, and the cached copy of one URL.

Addresses hold archived URLs as they are, so everything after the first segments is taken from the
raw request target (`playback.addresses`), never from the decoded path.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from core.clock import Clock, SystemClock
from core.errors import InputError, TransientError
from core.records import ArtifactKind
from core.timestamps import parse_timestamp14
from playback.addresses import (
    Memento,
    Modifier,
    escape_url,
    memento_path,
    page_path,
    parse_page_rest,
)
from playback.database import Database
from playback.decisions.store import DecisionStore
from playback.front.headers import FixedHeaders, OneOrigin, security_headers
from playback.front.machines import Machines, Openness
from playback.front.pages import PAGE_SIZE, Page, PageStore
from playback.front.skew import SKEWS_S, SKEWS_UNASKED, rough, skews_of
from playback.link_format import Places
from playback.permits import Permits, TakenDownError

_LOG = logging.getLogger(__name__)

_HERE = Path(__file__).parent
_VIEWS = ("page", "screenshot", "text", "as-captured")
_MOST_PAGES_BACK = 10_000
_LONGEST_SEARCH = 500  # characters


def create_app(
    database: Database,
    decisions: DecisionStore,
    *,
    replay_origin: str,
    origin: str | None = None,
    clock: Clock | None = None,
    openness: Openness | None = None,
) -> Starlette:
    """The reader's pages of a collection, as an ASGI application.

    Args:
        database: its captures index, which belongs to the caller; it may still be empty, or not
            exist.
        decisions: what of it may be shown; the caller's, too.
        replay_origin: where replay answers, e.g. ``http://127.0.0.1:8081``.
        origin: the one origin to answer to; None answers to any Host.
        clock: tells when a take-down is over; None: the machine's.
        openness: what is told to machines.
    """
    permits = Permits(decisions, database.rows, (clock or SystemClock()).now)
    machines = Machines(database, permits, Places(origin or "", replay_origin), openness)
    front = _Front(PageStore(database, permits), decisions, replay_origin, machines)
    headers = security_headers(replay_origin)
    headers["X-Robots-Tag"] = (openness or Openness()).robots_tag
    return Starlette(
        routes=[
            Route("/", front.home, name="home"),
            Route("/api/pages", front.api_pages),
            *(Route(f"/{view}/{{rest:path}}", front.reader) for view in _VIEWS),
            Route("/latest/{rest:path}", front.latest),
            *machines.routes(),
            Mount("/static", StaticFiles(directory=_HERE / "static"), name="static"),
        ],
        middleware=[
            Middleware(FixedHeaders, headers=headers),
            *([Middleware(OneOrigin, origin=origin)] if origin is not None else []),
        ],
        exception_handlers={
            HTTPException: front.http_error,
            TakenDownError: front.taken_down,
            TransientError: front.unavailable,
            Exception: front.server_error,
        },
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a reader address names."""

    view: str
    timestamp: str | None
    url: str


class _Front:
    def __init__(
        self,
        store: PageStore,
        decisions: DecisionStore,
        replay_origin: str,
        machines: Machines,
    ) -> None:
        self._store = store
        self._machines = machines
        self._decisions = decisions
        self._replay = replay_origin
        self._templates = _environment(replay_origin)
        self._templates.globals.update(skew_of=machines.skews.of, rough=rough)

    # Endpoints that ask the database are plain functions: Starlette runs them in threads.

    def home(self, request: Request) -> Response:
        words, number = _search_of(request)
        found = self._store.search(words, number=number)
        return self._render(
            "home.html", pages=found.pages, has_more=found.has_more, words=words, number=number
        )

    def api_pages(self, request: Request) -> Response:
        words, number = _search_of(request)
        found = self._store.search(words, number=number)
        listed = [self._as_json(page) for page in found.pages]
        if request.query_params.get("skew") == "1" or len(listed) <= SKEWS_UNASKED:
            skews = skews_of(self._machines.skews, found.pages, patience_s=SKEWS_S)
            for each, skew in zip(listed, skews, strict=True):
                each["skew"] = skew and skew.as_json()
        return JSONResponse(
            {
                "pages": listed,
                "page": number,
                "page_size": PAGE_SIZE,
                "has_more": found.has_more,
            }
        )

    def reader(self, request: Request) -> Response:
        asked = _asked(request)
        try:
            at = parse_timestamp14(asked.timestamp) if asked.timestamp else None
        except InputError:
            raise HTTPException(404) from None
        page = self._store.nearest(asked.url, at)
        if page is None:
            return self._render("never.html", 404, url=asked.url)
        if (page.timestamp, page.url) != (asked.timestamp, asked.url):
            # The address that the reader ends on tells the true date and the true URL.
            return RedirectResponse(page_path(page.timestamp, page.url, view=asked.view), 302)
        return self._render(
            "page.html",
            headers=self._machines.headers.of(
                page.url, page.timestamp, is_offered=page.has_copy or page.is_download
            ),
            page=page,
            view=asked.view,
            better=self._store.better(page) if not page.is_good else None,
            siblings=[each for each in self._store.all_of(page.url) if each.url == page.url],
        )

    def latest(self, request: Request) -> Response:
        asked = _asked(request)
        page = self._store.nearest(asked.url, None)
        if page is None:
            return self._render("never.html", 404, url=asked.url)
        return RedirectResponse(page_path(page.timestamp, page.url), 302)

    def http_error(self, _request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        headers = error.headers if isinstance(error, HTTPException) else None
        return self._render("error.html", status, headers=headers, status=status)

    def unavailable(self, _request: Request, error: Exception) -> Response:
        _LOG.warning("front.index_unavailable: %s", error)
        return self._render("error.html", 503, status=503)

    def taken_down(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, TakenDownError)
        url = _asked(request).url
        if not error.is_told:
            return self._render("never.html", 404, url=url)
        origin = f"{request.url.scheme}://{request.url.netloc}"
        headers = {"Link": f'<{origin}/>; rel="blocked-by"'}  # RFC 7725, 4
        return self._render("blocked.html", 451, headers, url=url, reason=error.takedown.reason)

    def server_error(self, _request: Request, _error: Exception) -> Response:
        # Starlette sends this one outside all middleware, so it brings its headers along.
        headers = security_headers(self._replay)
        return self._render("error.html", 500, headers=headers, status=500)

    def _render(
        self, template: str, code: int = 200, headers: Any = None, **values: object
    ) -> Response:
        text = self._templates.get_template(template).render(**values)
        return HTMLResponse(text, code, headers=headers)

    def _as_json(self, page: Page) -> dict[str, object]:
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
            "has_copy": page.has_copy or page.is_download,
            "artifacts": sorted(page.artifacts),
            "blocked": None if page.taken_down is None else page.taken_down.reason,
        }


def _environment(replay_origin: str) -> Environment:
    """Templates that escape everything and know the addresses of replay.

    Text that people read stands in ``_()``, so that a catalogue can be put behind it.
    """
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def image_address(timestamp: str, uri: str) -> str:
        return replay_origin + memento_path(Memento(timestamp, Modifier.IMAGE, uri))

    def copy_address(page: Page) -> str:
        return replay_origin + memento_path(Memento(page.timestamp, Modifier.PAGE, page.url))

    def very_address(page: Page) -> str:
        return replay_origin + memento_path(Memento(page.timestamp, Modifier.VERY, page.url))

    def text_address(page: Page) -> str:
        uri = page.artifacts[ArtifactKind.TEXT]
        return replay_origin + memento_path(Memento(page.timestamp, Modifier.TEXT, uri))

    environment.globals.update(
        _=_untranslated,
        image_address=image_address,
        copy_address=copy_address,
        very_address=very_address,
        text_address=text_address,
        page_path=page_path,
        escape_url=escape_url,
    )
    environment.filters["when"] = lambda moment: f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    environment.filters["day"] = lambda moment: f"{moment.day} {moment:%B %Y}"
    return environment


def _untranslated(text: str, **values: object) -> str:
    return text % values if values else text


def _asked(request: Request) -> _Asked:
    """View, timestamp and URL from the raw target.

    Raises:
        HTTPException: 404, it names no URL.
    """
    target = request.scope["raw_path"].decode("latin-1")
    query = request.scope["query_string"].decode("latin-1")
    if query:
        target += f"?{query}"
    _, view, rest = target.split("/", 2)
    parsed = parse_page_rest(rest)
    if parsed is None:
        raise HTTPException(404)
    return _Asked(view, *parsed)


def _search_of(request: Request) -> tuple[str, int]:
    words = request.query_params.get("q", "").strip()[:_LONGEST_SEARCH]
    number = request.query_params.get("page", "1")
    is_number = number.isascii() and number.isdigit() and len(number) < 6
    return words, min(max(int(number), 1), _MOST_PAGES_BACK) if is_number else 1
