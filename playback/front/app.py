"""The reader's pages as one application: which address is answered by whom, and what surrounds it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from core.clock import Clock, SystemClock
from core.errors import TransientError
from playback.database import Database
from playback.decisions.level_book import LevelBook
from playback.decisions.store import DecisionStore
from playback.front.about import ABOUT_PATH, NOBODY, Crawler, about_crawler
from playback.front.asking import url_of
from playback.front.cautions import Cautions
from playback.front.full import FullCopies, full_routes
from playback.front.headers import FixedHeaders, OneOrigin, security_headers
from playback.front.history import History
from playback.front.languages import SOURCE
from playback.front.levels import Offers
from playback.front.lists import Lists, is_search
from playback.front.load_limit import load_limits
from playback.front.machines import CLOSED, Machines, Openness
from playback.front.pages import PageStore
from playback.front.quality.site import Quality, quality_addresses, quality_routes
from playback.front.reader import VIEWS, Reader
from playback.front.records import Records
from playback.front.registry.access import Access
from playback.front.registry.desk import LinkRegistry
from playback.front.registry.site import links_addresses, registry_routes
from playback.front.representations import Representations
from playback.front.saying.addresses import say_addresses
from playback.front.searching import Search
from playback.front.speaking import Speaking
from playback.front.standing import Status
from playback.front.views import HERE, Means, Render
from playback.holds import Holds
from playback.link_format import Places
from playback.permits import Permits, TakenDownError

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Around:
    """What a front may have beside the index.

    Attributes:
        records: reads texts and manifests; None where the WARCs are not.
        status: knows what is queued; None when nobody does.
        language: for readers whose browser asks for none that there is.
        full: which copies may be shown with their scripts; None: none, and no such routes.
        holds: what is held back; None: payloads with a threat, and no list is asked.
        openness: what is told to machines.
        links: the link registry; None: there is none, and no such routes.
        quality: what shows the registry's checks of copies; None: no such routes.
        access: how a reader's address is found, and who may ask as often as they like.
        crawler: what the page about the crawler says of its operator.
        show_logins: captures that were made with a login are shown to every reader.
    """

    records: Records | None = None
    status: Status | None = None
    language: str = SOURCE
    full: FullCopies | None = None
    holds: Holds | None = None
    openness: Openness = CLOSED
    links: LinkRegistry | None = None
    quality: Quality | None = None
    access: Access = field(default_factory=Access)
    crawler: Crawler = NOBODY
    show_logins: bool = False


_NOTHING = Around()


def create_app(
    database: Database,
    decisions: DecisionStore,
    *,
    replay_origin: str,
    origin: str | None = None,
    clock: Clock | None = None,
    around: Around = _NOTHING,
) -> Starlette:
    """The reader's pages of a collection, as an ASGI application.

    Args:
        database: its captures index, which belongs to the caller; it may still be empty, or not
            exist.
        decisions: what of it may be shown; the caller's, too.
        replay_origin: where replay answers, e.g. ``http://127.0.0.1:8081``.
        origin: the one origin to answer to; None answers to any Host.
        clock: tells the time; None: the machine's.
        around: what else there is.
    """
    clock = clock or SystemClock()
    permits = Permits(
        decisions, database.rows, clock.now, around.holds, show_logins=around.show_logins
    )
    store = PageStore(database, permits)
    offers = Offers(LevelBook(decisions), around.full)
    places = Places(origin or "", replay_origin)
    machines = Machines(database, permits, places, around.openness)
    means = Means(
        store=store,
        search=Search(database, store),
        records=around.records,
        status=around.status,
        clock=clock,
        origin=origin or "",
        replay_origin=replay_origin,
        render=Render(
            replay_origin,
            shows_pictures=offers.shows_pictures,
            skew_of=machines.skews.of,
            representation_of=Representations(store, around.records).of,
            say_address=say_addresses(around.links, origin or ""),
            links_address=links_addresses(around.links),
            quality_address=quality_addresses(around.links, around.quality),
        ),
        offers=offers,
        cautions=Cautions(permits),
        page_headers=machines.page_headers,
        skews=machines.skews_of,
    )
    lists, reader, history = Lists(means), Reader(means), History(means)
    costly, comparing = load_limits(around.access, clock.monotonic)
    headers = security_headers(replay_origin)
    headers["X-Robots-Tag"] = around.openness.robots_tag
    errors = _Errors(means, headers)
    return Starlette(
        routes=[
            Route("/", costly(lists.home, when=is_search), name="home"),
            Route("/healthz", _health(database)),
            Route("/api/pages", costly(lists.api)),
            Route(ABOUT_PATH, about_crawler(around.crawler, means.render)),
            *(
                Route(
                    f"{wiki}/{view}/{{rest:path}}",
                    reader.latest if view == "latest" else reader.view,
                )
                for wiki in ("", "/w/{wiki}")
                for view in (*VIEWS, "latest")
            ),
            Route("/live/{rest:path}", reader.live),
            Route("/url/{rest:path}", costly(history.captures)),
            Route("/changes/{rest:path}", comparing(history.changes)),
            *(
                full_routes(store, around.full, replay_origin, means.render, means.cautions)
                if around.full
                else ()
            ),
            *machines.routes(costly),
            *(registry_routes(around.links, database, means) if around.links else ()),
            *_quality_routes(around, means),
            Mount("/static", StaticFiles(directory=HERE / "static"), name="static"),
        ],
        middleware=[
            Middleware(FixedHeaders, headers=headers),
            *([Middleware(OneOrigin, origin=origin)] if origin is not None else []),
            Middleware(Speaking, default=around.language),
        ],
        exception_handlers={
            HTTPException: errors.http_error,
            TakenDownError: errors.taken_down,
            TransientError: errors.unavailable,
            Exception: errors.server_error,
        },
    )


def _quality_routes(around: Around, means: Means) -> list[BaseRoute]:
    if around.links is None or around.quality is None:
        return []
    return quality_routes(around.quality, around.links, means)


def _health(database: Database) -> Callable[[Request], Response]:
    """Return the handler for load balancers: 200 while the captures index can be read, else 503."""

    def health(_request: Request) -> Response:
        database.rows("SELECT page_id FROM pages LIMIT 1", {})
        return PlainTextResponse("ok\n", headers={"Cache-Control": "no-store"})

    return health


class _Errors:
    """The pages for what went wrong. They repeat nothing of the address that was asked for."""

    def __init__(self, means: Means, headers: dict[str, str]) -> None:
        self._render = means.render
        self._origin = means.origin
        self._headers = headers

    def http_error(self, _request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        headers = error.headers if isinstance(error, HTTPException) else None
        return self._render("error.html", status, headers=headers, status=status, address="/")

    def taken_down(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, TakenDownError)
        url = url_of(request)
        if not error.is_told:
            return self._render("never.html", 404, url=url, standing=None)
        origin = self._origin or f"{request.url.scheme}://{request.url.netloc}"
        headers = {"Link": f'<{origin}/>; rel="blocked-by"'}  # RFC 7725, 4
        return self._render("blocked.html", 451, headers, url=url, reason=error.takedown.reason)

    def unavailable(self, _request: Request, error: Exception) -> Response:
        _LOG.warning("front.index_unavailable: %s", error)
        return self._render("error.html", 503, status=503, address="/")

    def server_error(self, _request: Request, _error: Exception) -> Response:
        # Starlette sends this one outside all middleware, so it brings its headers along.
        return self._render("error.html", 500, headers=self._headers, status=500, address="/")
