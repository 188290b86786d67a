"""Levels that readers may choose for a copy, and the pages of the level "full".

The frame stands in a document of ours, so nothing archived can paint over the banner, and it holds the
one origin of that capture (P-08, P-09). Without the possibility these routes do not exist.

Asked anew for each page, so a change of the rules counts at once. What replay then shows it asks the same
rules itself (`playback.replay.replay_context`); nothing here is a lock.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, urldefrag

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from core.captures import ArtifactKind
from playback.access.level_store import LevelStore
from playback.access.levels import Level, lowest_level
from playback.full_origins import FullOrigins, FullPermission
from playback.media_types import HTML_TYPES
from playback.url_paths import LEVEL_MODIFIERS, PageAddress, is_web_url, page_path
from playback.web.copy_notices import CopyWarnings
from playback.web.i18n import localized_path
from playback.web.page_renderer import reader_path, security_headers
from playback.web.page_request import moment_of, parse_page_request
from playback.web.page_store import CapturedPage, PageStore

_NOTICE, _VIEW = "full", "full-view"
_SAFE = "!$&'()*+,/:;=?@[]~%-._"


@dataclass(frozen=True, slots=True)
class FullCopyAccess:
    """Which copies may be shown in full, and where."""

    origins: FullOrigins
    permission: FullPermission

    def frame_of(self, page: CapturedPage, wiki: str = "") -> str | None:
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
    copies: FullCopyAccess,
    replay_origin: str,
    render: Callable[..., Response],
    cautions: CopyWarnings,
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
        copies: FullCopyAccess,
        replay_origin: str,
        render: Callable[..., Response],
        cautions: CopyWarnings,
    ) -> None:
        self._store = store
        self._copies = copies
        self._replay = replay_origin
        self._render = render
        self._cautions = cautions

    def answer(self, request: Request) -> Response:
        """The notice, or the copy behind it; a plain function, so Starlette runs it in a thread."""
        wanted = parse_page_request(request)
        at = moment_of(wanted.timestamp) if wanted.timestamp else None
        page = self._store.nearest(wanted.url, at)
        if page is None:
            return self._render("never.html", 404, url=wanted.url, standing=None)
        if (page.timestamp, page.url) != (wanted.timestamp, wanted.url):
            # The notice comes first, and tells the true date.
            return RedirectResponse(localized_path(_path(page, _NOTICE, wanted.wiki)), 302)
        frame = self._copies.frame_of(page, wanted.wiki)
        plain = localized_path(page_path(page.timestamp, page.url, wiki=wanted.wiki))
        if frame is None:
            return self._render("full_refused.html", 403, page=page, plain=plain)
        caution = self._cautions.of(page)
        if caution.threat is not None:
            return RedirectResponse(plain, 302)  # there it is said
        if wanted.view == _NOTICE:
            view = localized_path(_path(page, _VIEW, wanted.wiki))
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


def _path(page: CapturedPage, view: str, wiki: str) -> str:
    return page_path(page.timestamp, page.url, view=view, wiki=wiki)


_PICTURES = {ArtifactKind.VIEW, ArtifactKind.FULL_PAGE, ArtifactKind.THUMBNAIL}


@dataclass(frozen=True, slots=True)
class LevelChoice:
    """A level that may be chosen, and where it is seen."""

    level: Level
    address: str
    is_current: bool


class LevelOffers:
    """What readers may choose.

    Args:
        book: the decisions about levels.
        full: which copies may be shown with their scripts; None: none.
    """

    def __init__(self, book: LevelStore, full: FullCopyAccess | None) -> None:
        self._book = book
        self._full = full

    def speak_of(self, wiki: str) -> bool:
        """Whether anything was decided for that wiki's readers; else they see what everybody sees.

        Raises:
            TransientError: the decisions cannot be read.
        """
        return self._book.now().speak_of(wiki)

    def most(self, page: CapturedPage, wiki: str = "") -> Level:
        """The most that readers of the wiki (empty: of none) are shown of the page.

        Raises:
            TransientError: the decisions cannot be read.
        """
        return self._book.now().of_page((page.url, page.final_url), wiki)

    def shows_pictures(self, page: CapturedPage, asked: PageAddress | None = None) -> bool:
        """Whether screenshots of the page are shown: they are images of it.

        Raises:
            TransientError: the decisions cannot be read.
        """
        return self.most(page, asked.wiki if asked is not None else "").covers(Level.IMAGES)

    def allowed(self, page: CapturedPage, asked: PageAddress) -> CapturedPage:
        """The page without what its level leaves out: its screenshots, and files that are no text.

        Raises:
            TransientError: the decisions cannot be read.
        """
        if self.shows_pictures(page, asked):
            return page
        kept = {kind: uri for kind, uri in page.artifacts.items() if kind not in _PICTURES}
        return replace(page, artifacts=kept, mime="" if _is_file(page) else page.mime)

    def is_above(self, page: CapturedPage, asked: PageAddress) -> bool:
        """Whether a level is asked for that is not allowed, or that a file has not.

        Raises:
            TransientError: the decisions cannot be read.
        """
        if asked.level is None:
            return False
        return _is_file(page) or not self.most(page, asked.wiki).covers(asked.level)

    def choices(self, page: CapturedPage, asked: PageAddress) -> Sequence[LevelChoice]:
        """The levels from the least to the most that is allowed; none where there is no choice.

        Raises:
            TransientError: the decisions cannot be read.
        """
        if not page.has_copy or _is_file(page) or asked.view not in {"page", "beside"}:
            return ()
        most = self.most(page, asked.wiki)
        usual = lowest_level(most, Level.IMAGES)
        current = asked.level or usual
        found = [
            LevelChoice(
                level,
                # What the rules give anyway needs no word in the address.
                _address(page, replace(asked, level=None if level is usual else level)),
                level is current,
            )
            for level in LEVEL_MODIFIERS
            if most.covers(level)
        ]
        if self._full is not None and self._full.frame_of(page, asked.wiki) is not None:
            full = replace(asked, view="full", level=None)
            found.append(LevelChoice(Level.FULL, _address(page, full), is_current=False))
        return found if len(found) > 1 else ()


def _is_file(page: CapturedPage) -> bool:
    """True for what is no text at any level: a picture, or what is downloaded."""
    is_picture = page.mime.startswith("image/") and ArtifactKind.DOM not in page.artifacts
    return is_picture or page.is_file


def _address(page: CapturedPage, asked: PageAddress) -> str:
    return reader_path(page.timestamp, page.url, view=asked.view, asked=asked)
