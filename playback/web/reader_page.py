"""Reader page: copy, screenshot, text, or both side by side, at the level that the reader chose.

A document of the front frames the full copy, of an origin of its own (P-08, P-09), so that it cannot cover the
banner. Replay enforces the same rules; this module only offers choices.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, urldefrag

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from core.captures import ArtifactKind
from core.errors import TransientError
from core.media_types import HTML_TYPES
from playback import url_paths
from playback.access.level_store import LevelStore
from playback.access.levels import Level, lowest_level
from playback.web import citation_formats
from playback.web.copy_lookup import UrlQueueState, UrlQueueStatus
from playback.web.copy_notices import CopyWarning
from playback.web.i18n import localized_path
from playback.web.page_renderer import WebContext, security_headers, view_path
from playback.web.page_request import moment_of, parse_page_request
from playback.web.page_store import CapturedPage

VIEWS = ("page", "screenshot", "text", "beside", "as-captured", "cite")
MOST_SIBLINGS = 50
_LOG = logging.getLogger(__name__)


class ReaderPages:
    """Views of one capture. Plain functions, run by Starlette in threads."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    def routes(self) -> Iterator[Route]:
        """Yield the routes of the views, with and without a wiki prefix."""
        views = {**dict.fromkeys(VIEWS, self.view), "latest": self.latest}
        if self._context.offers.full is not None:
            views |= {_NOTICE: self.full, _VIEW: self.full}
        for wiki in ("", "/w/{wiki}"):
            for view, endpoint in views.items():
                yield Route(f"{wiki}/{view}/{{rest:path}}", endpoint)
        yield Route("/live/{rest:path}", self.live)

    def _find(self, wanted: url_paths.PageAddress, redirected: url_paths.PageAddress) -> CapturedPage | Response:
        """Return the requested capture; or a redirect to its actual date and URL, or that there is none."""
        at = moment_of(wanted.timestamp) if wanted.timestamp else None
        page = self._context.store.nearest(wanted.url, at)
        if page is None:
            return no_copy(self._context, wanted.url)
        if (page.timestamp, page.url) != (wanted.timestamp, wanted.url):
            return RedirectResponse(view_path(page, redirected), 302)
        return page

    def view(self, request: Request) -> Response:
        """Return a view of the requested capture, or a redirect to its canonical address."""
        wanted = parse_page_request(request)
        page = self._find(wanted, wanted)
        if isinstance(page, Response):
            return page
        if self._context.offers.is_above(page, wanted):
            return RedirectResponse(view_path(page, replace(wanted, level=None)), 302)
        page = self._context.offers.allowed(page, wanted)
        if wanted.view == "cite":
            if not page.is_usable:
                raise HTTPException(404)
            origin = self._context.origin or f"{request.url.scheme}://{request.url.netloc}"
            manifest = self._context.records.manifest(page)
            facts = manifest.facts if manifest is not None else ()
            values = {fact.name: fact.value for fact in reversed(facts)}
            source = citation_formats.CitedSource(
                url=page.url,
                archive_url=origin + url_paths.page_path(page.timestamp, page.url),
                memento_url=self._context.replay_origin
                + url_paths.memento_path(url_paths.Memento(page.timestamp, url_paths.MementoModifier.PAGE, page.url)),
                captured_at=page.captured_at,
                accessed_at=self._context.clock.now(),
                title=page.label,
                authors=[fact.value for fact in facts if fact.name == "author"],
                published=values.get("published", ""),
                site=values.get("site", ""),
                language=values.get("language", ""),
            )
            return self._context.render("cite.html", page=page, source=source, citing=citation_formats)
        siblings = self._context.store.captures(page.url, limit=MOST_SIBLINGS + 1)
        caution = self._context.copy_warnings.of(page)
        status = 200 if page.is_usable else 404  # which the bot checks
        return self._context.render(
            "page.html",
            403 if caution.holds("page", is_download=page.is_download) else status,
            headers=self._context.page_headers(page),
            page=page,
            asked=wanted,
            caution=caution,
            view=wanted.view,
            file=self._context.store.document(page) if page.is_pdf else None,
            levels=self._context.offers.choices(page, wanted),
            better=self._context.store.better(page) if page.rank else None,
            siblings=siblings[:MOST_SIBLINGS],
            has_more_siblings=len(siblings) > MOST_SIBLINGS,
            standing=queue_status_of(self._context, page.url) if not page.is_usable else None,
            origin=self._context.origin,
        )

    def full(self, request: Request) -> Response:
        """Return the notice before the full copy, or the full copy."""
        wanted = parse_page_request(request)
        page = self._find(wanted, replace(wanted, view=_NOTICE, level=None))
        if isinstance(page, Response):
            return page
        copies = self._context.offers.full
        frame = copies.frame_of(page, wanted.wiki) if copies is not None else None
        plain = localized_path(url_paths.page_path(page.timestamp, page.url, wiki=wanted.wiki))
        if frame is None:
            return self._context.render("full_refused.html", 403, page=page, plain=plain)
        caution = self._context.copy_warnings.of(page)
        if caution.threat is not None:
            return RedirectResponse(plain, 302)  # that page explains it
        if wanted.view == _NOTICE:
            view = view_path(page, replace(wanted, view=_VIEW, level=None))
            return self._context.render("full_notice.html", page=page, plain=plain, view=view, caution=caution)
        # The front's policy, for this capture's frame only.
        headers = {_POLICY: security_headers(self._context.replay_origin, "/".join(frame.split("/", 3)[:3]))[_POLICY]}
        return self._context.render("full.html", headers=headers, page=page, plain=plain, frame=frame)

    def live(self, request: Request) -> Response:
        """Return the warning before the link to the live page of a listed URL."""
        url = parse_page_request(request).url
        if not url_paths.is_web_url(url):
            raise HTTPException(404)
        caution = CopyWarning(listed=self._context.copy_warnings.of_url(url))
        return self._context.render("live.html", url=url, caution=caution)

    def latest(self, request: Request) -> Response:
        """Return a redirect to the newest copy."""
        wanted = parse_page_request(request)
        page = self._context.store.nearest(wanted.url, None)
        if page is None:
            return no_copy(self._context, wanted.url)
        return RedirectResponse(view_path(page, replace(wanted, view="page")), 302)


def no_copy(context: WebContext, url: str) -> Response:
    """Return the response for a URL without a capture, with its state in the crawl queue."""
    return context.render("never.html", 404, url=url, standing=queue_status_of(context, url))


def queue_status_of(context: WebContext, url: str) -> UrlQueueStatus | None:
    """Return the URL's state in the crawl queue, or None; a finished visit may have been hidden (P-22)."""
    if context.status is None:
        return None
    try:
        standing = context.status.standing(url)
        return None if standing is None or standing.standing is UrlQueueState.DONE else standing
    except TransientError as error:
        _LOG.warning("front.status_unavailable: %s", error)
        return None


_NOTICE, _VIEW = "full", "full-view"
_POLICY = "Content-Security-Policy"
_SAFE = "!$&'()*+,/:;=?@[]~%-._"


@dataclass(frozen=True, slots=True)
class FullCopyAccess:
    """Copies that may be shown in full, and their origins."""

    origins: url_paths.FullOrigins
    levels: LevelStore

    def frame_of(self, page: CapturedPage, wiki: str = "") -> str | None:
        """Return the address of the full copy for readers of that wiki; None when there is none."""
        if not page.has_copy or page.mime not in HTML_TYPES or not url_paths.is_web_url(page.url):
            return None
        rules = self.levels.now()
        if rules.of_page((page.url, page.final_url), wiki) is not Level.FULL:
            return None
        # A wiki without its own rules counts as no wiki.
        wiki = wiki if wiki in rules.wikis else ""
        origin = self.origins.origin_of(page.page_id, page.timestamp, page.url, wiki)
        if origin is None:
            return None
        url, fragment = urldefrag(page.url)
        place = quote(url, safe=_SAFE, errors="replace")
        end = f"#{quote(fragment, safe=_SAFE, errors='replace')}" if fragment else ""
        return f"{origin}/c/{page.timestamp}mp_/{place}{end}"


_PICTURES = {ArtifactKind.VIEW, ArtifactKind.FULL_PAGE, ArtifactKind.THUMBNAIL}


class LevelOffers:
    """Levels offered to readers. TransientError means that the decisions cannot be read."""

    def __init__(self, book: LevelStore, full: FullCopyAccess | None) -> None:
        self._book = book
        self.full = full

    def has_rules_for(self, wiki: str) -> bool:
        """Return True when the wiki has rules of its own; else the rules for all wikis apply."""
        return wiki in self._book.now().wikis

    def most(self, page: CapturedPage, wiki: str = "") -> Level:
        """Return the highest level shown of the page to readers of the wiki (empty: no wiki)."""
        return self._book.now().of_page((page.url, page.final_url), wiki)

    def shows_pictures(self, page: CapturedPage, address: url_paths.PageAddress | None = None) -> bool:
        """Return True when screenshots may be shown; they count as images of the page."""
        return self.most(page, address.wiki if address is not None else "").covers(Level.IMAGES)

    def allowed(self, page: CapturedPage, address: url_paths.PageAddress) -> CapturedPage:
        """Return the page without what its level excludes: screenshots and non-text files."""
        if self.shows_pictures(page, address):
            return page
        artifacts = {kind: uri for kind, uri in page.artifacts.items() if kind not in _PICTURES}
        return replace(page, artifacts=artifacts, mime="" if _is_file(page) else page.mime)

    def is_above(self, page: CapturedPage, address: url_paths.PageAddress) -> bool:
        """Return True when the requested level is not allowed, or does not exist for a file."""
        if address.level is None:
            return False
        return _is_file(page) or not self.most(page, address.wiki).covers(address.level)

    def choices(self, page: CapturedPage, address: url_paths.PageAddress) -> Sequence[tuple[Level, str, bool]]:
        """Return the allowed levels in ascending order, with address, and whether it is shown; empty without a choice."""
        if not page.has_copy or _is_file(page) or address.view not in {"page", "beside"}:
            return ()
        most = self.most(page, address.wiki)
        usual = lowest_level(most, Level.IMAGES)
        current = address.level or usual
        levels = [
            # The default level is not written in the address.
            (level, view_path(page, replace(address, level=None if level is usual else level)), level is current)
            for level in url_paths.LEVEL_MODIFIERS
            if most.covers(level)
        ]
        if self.full is not None and self.full.frame_of(page, address.wiki) is not None:
            levels.append((Level.FULL, view_path(page, replace(address, view=_NOTICE, level=None)), False))
        return levels if len(levels) > 1 else ()


def _is_file(page: CapturedPage) -> bool:
    """Return True for captures without text at any level: images and downloads."""
    is_picture = page.mime.startswith("image/") and ArtifactKind.DOM not in page.artifacts
    return is_picture or page.is_file
