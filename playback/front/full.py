"""The front's two pages for a copy in full: what it is, and the copy in its frame.

The frame stands in a document of ours, so nothing archived can paint over the banner, and it holds the
one origin of that capture (P-08, P-09). Without the possibility these routes do not exist.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urldefrag

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from playback.addresses import is_web_url, page_path
from playback.front.asking import asked, moment_of
from playback.front.cautions import Cautions
from playback.front.headers import security_headers
from playback.front.languages import here
from playback.front.pages import Page, PageStore
from playback.full_origins import FullOrigins
from playback.full_permission import FullPermission
from playback.kinds import HTML_TYPES

_NOTICE, _VIEW = "full", "full-view"
_SAFE = "!$&'()*+,/:;=?@[]~%-._"


@dataclass(frozen=True, slots=True)
class FullCopies:
    """Which copies may be shown in full, and where."""

    origins: FullOrigins
    permission: FullPermission

    def frame_of(self, page: Page, wiki: str = "") -> str | None:
        """The address of the copy in full, for readers of that wiki; None when there is none.

        Raises:
            TransientError: the decisions cannot be read.
        """
        if not page.has_copy or page.mime not in HTML_TYPES or not is_web_url(page.url):
            return None
        if not self.permission.allows(page.url, page.final_url, wiki):
            return None
        # A wiki without rules of its own is as good as none.
        wiki = wiki if self.permission.knows(wiki) else ""
        origin = self.origins.origin_of(page.page_id, page.timestamp, page.url, wiki)
        if origin is None:
            return None
        url, fragment = urldefrag(page.url)
        place = quote(url, safe=_SAFE, errors="replace")
        end = f"#{quote(fragment, safe=_SAFE, errors='replace')}" if fragment else ""
        return f"{origin}/c/{page.timestamp}mp_/{place}{end}"


def full_routes(
    store: PageStore,
    copies: FullCopies,
    replay_origin: str,
    render: Callable[..., Response],
    cautions: Cautions,
) -> Sequence[Route]:
    """The routes of both pages, with and without a wiki before them."""
    pages = _FullPages(store, copies, replay_origin, render, cautions)
    return [
        Route(f"{before}/{view}/{{rest:path}}", pages.answer)
        for before in ("", "/w/{wiki}")
        for view in (_NOTICE, _VIEW)
    ]


class _FullPages:
    def __init__(
        self,
        store: PageStore,
        copies: FullCopies,
        replay_origin: str,
        render: Callable[..., Response],
        cautions: Cautions,
    ) -> None:
        self._store = store
        self._copies = copies
        self._replay = replay_origin
        self._render = render
        self._cautions = cautions

    def answer(self, request: Request) -> Response:
        """The notice, or the copy behind it; a plain function, so Starlette runs it in a thread."""
        wanted = asked(request)
        at = moment_of(wanted.timestamp) if wanted.timestamp else None
        page = self._store.nearest(wanted.url, at)
        if page is None:
            return self._render("never.html", 404, url=wanted.url, standing=None)
        if (page.timestamp, page.url) != (wanted.timestamp, wanted.url):
            # The notice comes first, and tells the true date.
            return RedirectResponse(here(_path(page, _NOTICE, wanted.wiki)), 302)
        frame = self._copies.frame_of(page, wanted.wiki)
        plain = here(page_path(page.timestamp, page.url, wiki=wanted.wiki))
        if frame is None:
            return self._render("full_refused.html", 403, page=page, plain=plain)
        caution = self._cautions.of(page)
        if caution.threat is not None:
            return RedirectResponse(plain, 302)  # there it is said
        if wanted.view == _NOTICE:
            view = here(_path(page, _VIEW, wanted.wiki))
            return self._render(
                "full_notice.html", page=page, plain=plain, view=view, caution=caution
            )
        return self._render(
            "full.html", headers=self._headers(frame), page=page, plain=plain, frame=frame
        )

    def _headers(self, frame: str) -> dict[str, str]:
        """The front's policy, which lets this page hold a frame of this one capture only."""
        headers = dict(security_headers(self._replay))
        origin = "/".join(frame.split("/", 3)[:3])
        policy = [
            f"frame-src {origin}" if each.startswith("frame-src") else each
            for each in headers["Content-Security-Policy"].split("; ")
        ]
        return {"Content-Security-Policy": "; ".join(policy)}


def _path(page: Page, view: str, wiki: str) -> str:
    return page_path(page.timestamp, page.url, view=view, wiki=wiki)
