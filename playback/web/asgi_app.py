"""ASGI application of reader pages: all routes, middleware and error pages."""

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from core.clock import Clock, SystemClock
from core.errors import TransientError, UnavailableError
from links.feedback.reporter_limits import ReporterDigests, open_reporter_digests
from playback.access.control import AccessControl, TakenDownError
from playback.access.decision_store import DecisionStore
from playback.access.holds import HoldIndex
from playback.access.level_store import LevelStore
from playback.mementos import MementoEndpoints
from playback.web import page_renderer
from playback.web.cached_links.cached_api import GADGET_PATH, CachedLinks, LinkEvidenceReader, gadget_script
from playback.web.copy_lookup import CopyLookup, QueueStatusReader
from playback.web.copy_notices import CopyWarnings, representations
from playback.web.i18n import SOURCE, localized_path
from playback.web.machine_api import MachineAccess, MachineApi, SearchIndexing
from playback.web.page_request import url_of
from playback.web.page_saves import SaveOptions, SavePages, save_addresses
from playback.web.page_search import PageSearch
from playback.web.page_store import PageRecords, PageStore
from playback.web.rate_limits import RateLimiter, RateLimitPolicy, load_limits
from playback.web.reader_page import FullCopyAccess, LevelOffers, ReaderPages
from playback.web.registry.registry_api import RegistryApi
from playback.web.registry.registry_forms import FormTokens
from playback.web.registry.registry_pages import FORM_PATH, RegistryPages
from playback.web.registry.registry_service import LinkRegistry, RegistryService
from playback.web.registry.user_reports import ReportPages, ReportService, report_addresses
from playback.web.site_pages import ABOUT_PATH, Crawler, PageLists, about_crawler
from playback.web.text_search import TextSearch
from playback.web.url_history import HistoryPages
from warc.artifact_reader import ArtifactReader
from warc.index.database import IndexDatabase
from warc.text_index.reader import TextIndex

_LOG = logging.getLogger(__name__)


def registry_routes(
    registry: LinkRegistry, database: IndexDatabase, context: page_renderer.WebContext
) -> list[BaseRoute]:
    """Return the routes of the link registry."""
    lookup = CopyLookup(database, context.store)
    service = RegistryService(registry.source, lookup, context.clock)
    limiter = RateLimiter(registry.access, monotonic=context.clock.monotonic)
    reporters = ReporterDigests(secrets.token_bytes(32))  # of this process
    if registry.layout is not None:
        try:
            reporters = open_reporter_digests(registry.layout)
        except UnavailableError as error:
            _LOG.warning("front.form_key_unavailable: %s", error)
    pages = RegistryPages(service, limiter, FormTokens(reporters), context)
    finder = LinkEvidenceReader(registry.source, lookup, context.status, context.clock)
    routes = [
        *RegistryApi(service, limiter, pages, context).routes(),
        *pages.routes(),
        *CachedLinks(finder, limiter, context, service.note).routes(),
        Route(GADGET_PATH, gadget_script),
    ]
    if registry.report_options is not None:
        acts = ReportService(registry.source, registry.report_options, context.clock)
        routes += ReportPages(acts, limiter, context).routes()
    return routes


class SiteMount(Protocol):
    """Part of the site added by a package above playback, next to the link registry."""

    def routes(self, registry: LinkRegistry, context: page_renderer.WebContext) -> list[BaseRoute]:
        """Return its routes."""
        ...

    def navigation_link(self, registry: LinkRegistry) -> tuple[str, str] | None:
        """Return (address, text) for the navigation, or None when there is nothing to show."""
        ...


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Optional components and settings of a front."""

    records: ArtifactReader | None = None  # None where the WARCs are not here
    texts: TextIndex | None = None  # full-text index, which the caller closes; None: titles and addresses are searched
    status: QueueStatusReader | None = None  # reads the crawl queue; None: not available
    language: str = SOURCE  # default for readers whose browser accepts no available language
    full: FullCopyAccess | None = None  # access to copies with scripts; None disables these routes
    holds: HoldIndex | None = None  # None: no threat lists
    openness: MachineAccess = field(default_factory=MachineAccess)
    links: LinkRegistry | None = None
    mounts: Sequence[SiteMount] = ()  # shown with a link registry
    access: RateLimitPolicy = field(default_factory=RateLimitPolicy)
    crawler: Crawler = field(default_factory=Crawler)
    show_logins: bool = False  # show captures made with a login to all readers
    saves: SaveOptions | None = None  # pages that readers save; None: they may not


DEFAULTS: Final = WebOptions()


def create_app(
    database: IndexDatabase,
    decisions: DecisionStore,
    *,
    replay_origin: str,
    origin: str | None = None,
    clock: Clock | None = None,
    around: WebOptions = DEFAULTS,
) -> Starlette:
    """Create the ASGI application of reader pages; the caller closes `database` and `decisions`."""
    clock = clock or SystemClock()
    permits = AccessControl(decisions, database.rows, clock.now, around.holds, show_logins=around.show_logins)
    store = PageStore(database, permits)
    registry = around.links
    mounts = [(each, registry) for each in around.mounts] if registry is not None else []
    records = PageRecords(store, around.records)
    offers = LevelOffers(LevelStore(decisions), around.full)
    places = MementoEndpoints(origin or "", replay_origin)
    machines = MachineApi(database, permits, places, around.openness)
    context = page_renderer.WebContext(
        store=store,
        search=PageSearch(database, store),
        texts=TextSearch(around.texts, store) if around.texts is not None else None,
        records=records,
        status=around.status,
        clock=clock,
        origin=origin or "",
        replay_origin=replay_origin,
        render=page_renderer.PageRenderer(
            replay_origin,
            archive_name=around.crawler.name,
            shows_pictures=offers.shows_pictures,
            skew_of=machines.skews.of,
            representation_of=representations(records),
            say_address=report_addresses(registry, origin or ""),
            links_address=lambda: localized_path(FORM_PATH) if registry and registry.source.is_there() else "",
            save_address=save_addresses(around.saves),
            mount_links=lambda: [link for each, links in mounts if (link := each.navigation_link(links))],
        ),
        offers=offers,
        copy_warnings=CopyWarnings(permits),
        page_headers=machines.page_headers,
        skews=machines.skews_of,
    )
    lists, history = PageLists(context, around.crawler.name), HistoryPages(context)
    costly, comparing = load_limits(around.access, clock.monotonic)
    headers = page_renderer.security_headers(replay_origin)
    if around.openness.indexing is SearchIndexing.FRONT:
        headers["X-Robots-Tag"] = "noarchive"

    def health(_request: Request) -> Response:
        """Return 200 while the captures index can be read, else 503."""
        database.rows("SELECT page_id FROM pages LIMIT 1", {})
        return PlainTextResponse("ok\n", headers={"Cache-Control": "no-store"})

    return Starlette(
        routes=[
            Route("/", costly(lists.home, when=lambda request: bool(request.query_params)), name="home"),
            Route("/healthz", health),
            Route("/api/pages", costly(lists.api)),
            Route("/feed.atom", costly(lists.feed)),
            Route(ABOUT_PATH, about_crawler(around.crawler, context.render)),
            *ReaderPages(context).routes(),
            Route("/url/{rest:path}", costly(history.captures)),
            Route("/changes/{rest:path}", comparing(history.changes)),
            *(SavePages(around.saves, around.access, context).routes() if around.saves else ()),
            *machines.routes(costly),
            *(registry_routes(registry, database, context) if registry else ()),
            *(route for each, links in mounts for route in each.routes(links, context)),
            Mount("/static", StaticFiles(directory=page_renderer.HERE / "static"), name="static"),
        ],
        middleware=[
            Middleware(page_renderer.fixed_headers, headers=headers),
            *([Middleware(page_renderer.one_origin, origin=origin)] if origin is not None else []),
            Middleware(page_renderer.with_language, default=around.language),
        ],
        exception_handlers=dict.fromkeys(
            (HTTPException, TakenDownError, TransientError, Exception), _error_page(context, headers)
        ),
    )


def _error_page(context: page_renderer.WebContext, headers: dict[str, str]) -> Callable[[Request, Exception], Response]:
    """Return the handler of errors; its pages never repeat the requested address."""

    def show(request: Request, error: Exception) -> Response:
        match error:
            case TakenDownError():
                url = url_of(request)
                if not error.is_disclosed:
                    return context.render("never.html", 404, url=url, standing=None)
                origin = context.origin or f"{request.url.scheme}://{request.url.netloc}"
                blocked_by = {"Link": f'<{origin}/>; rel="blocked-by"'}  # RFC 7725, 4
                return context.render("blocked.html", 451, blocked_by, url=url, reason=error.takedown.reason)
            case HTTPException(status_code=status, headers=own):
                pass
            case TransientError():
                _LOG.warning("front.index_unavailable: %s", error)
                status, own = 503, None
            case _:
                status, own = 500, headers  # Starlette sends this one outside all middleware
        return context.render("error.html", status, own, status=status, address="/")

    return show
