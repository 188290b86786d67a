"""Reader page: copy, screenshot, text, or both side by side."""

import logging
from dataclasses import replace

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from core.errors import TransientError
from playback.url_paths import (
    Memento,
    MementoModifier,
    is_web_url,
    memento_path,
    page_path,
)
from playback.web import citation_formats
from playback.web.copy_lookup import UrlQueueState, UrlQueueStatus
from playback.web.copy_notices import CopyWarning
from playback.web.page_renderer import WebContext, view_path
from playback.web.page_request import moment_of, parse_page_request
from playback.web.page_store import CapturedPage

VIEWS = ("page", "screenshot", "text", "beside", "as-captured", "cite")
MOST_SIBLINGS = 50
_LOG = logging.getLogger(__name__)


class ReaderPages:
    """Views of one capture. Plain functions, run by Starlette in threads."""

    def __init__(self, means: WebContext) -> None:
        self._means = means

    def view(self, request: Request) -> Response:
        """Return a view of the requested capture, or a redirect to its canonical address."""
        wanted = parse_page_request(request)
        at = moment_of(wanted.timestamp) if wanted.timestamp else None
        page = self._means.store.nearest(wanted.url, at)
        if page is None:
            return no_copy(self._means, wanted.url)
        if (page.timestamp, page.url) != (wanted.timestamp, wanted.url):
            # The final address contains the actual date and URL.
            return RedirectResponse(view_path(page, wanted), 302)
        if self._means.offers.is_above(page, wanted):
            return RedirectResponse(view_path(page, replace(wanted, level=None)), 302)
        page = self._means.offers.allowed(page, wanted)
        if wanted.view == "cite":
            if not page.is_usable:
                raise HTTPException(404)
            origin = self._means.origin or f"{request.url.scheme}://{request.url.netloc}"
            manifest = self._means.records.manifest(page)
            facts = manifest.facts if manifest is not None else ()
            said = {fact.name: fact.value for fact in reversed(facts)}
            source = citation_formats.CitedSource(
                url=page.url,
                archive_url=origin + page_path(page.timestamp, page.url),
                memento_url=self._means.replay_origin
                + memento_path(Memento(page.timestamp, MementoModifier.PAGE, page.url)),
                captured_at=page.captured_at,
                accessed_at=self._means.clock.now(),
                title=page.label,
                authors=[fact.value for fact in facts if fact.name == "author"],
                published=said.get("published", ""),
                site=said.get("site", ""),
                language=said.get("language", ""),
            )
            return self._means.render(
                "cite.html", page=page, source=source, citing=citation_formats
            )
        siblings = self._means.store.captures(page.url, limit=MOST_SIBLINGS + 1)
        caution = self._means.cautions.of(page)
        return self._means.render(
            "page.html",
            status_of(page, caution),
            headers=self._means.page_headers(page),
            page=page,
            asked=wanted,
            caution=caution,
            view=wanted.view,
            file=self._means.store.document(page) if page.is_pdf else None,
            levels=self._means.offers.choices(page, wanted),
            better=self._means.store.better(page) if page.rank else None,
            siblings=siblings[:MOST_SIBLINGS],
            has_more_siblings=len(siblings) > MOST_SIBLINGS,
            standing=queue_status_of(self._means, page.url) if not page.is_usable else None,
            origin=self._means.origin,
            archive=self._means.origin.partition("://")[2],
        )

    def live(self, request: Request) -> Response:
        """Return the warning before the link to the live page of a listed URL."""
        url = parse_page_request(request).url
        if not is_web_url(url):
            raise HTTPException(404)
        caution = CopyWarning(listed=self._means.cautions.of_url(url))
        return self._means.render("live.html", url=url, caution=caution)

    def latest(self, request: Request) -> Response:
        """Return a redirect to the newest copy."""
        wanted = parse_page_request(request)
        page = self._means.store.nearest(wanted.url, None)
        if page is None:
            return no_copy(self._means, wanted.url)
        return RedirectResponse(view_path(page, replace(wanted, view="page")), 302)


def no_copy(means: WebContext, url: str) -> Response:
    """Return the response for a URL without a capture, with its state in the crawl queue."""
    return means.render("never.html", 404, url=url, standing=queue_status_of(means, url))


def status_of(page: CapturedPage, caution: CopyWarning) -> int:
    """Return the HTTP status of a reader page: 200 only for a usable copy that is shown.

    404 for a failed visit, an error page or a bot challenge, 403 when a threat holds the copy back.
    The bot checks it before it cites an address.
    """
    if caution.holds("page", is_download=page.is_download):
        return 403
    return 200 if page.is_usable else 404


def queue_status_of(means: WebContext, url: str) -> UrlQueueStatus | None:
    """Return the state of the URL in the crawl queue; None when unknown or unavailable.

    A finished visit is not disclosed: without a copy to show, it may have been hidden (P-22).
    """
    if means.status is None:
        return None
    try:
        standing = means.status.standing(url)
        return None if standing is None or standing.standing is UrlQueueState.DONE else standing
    except TransientError as error:
        _LOG.warning("front.status_unavailable: %s", error)
        return None
