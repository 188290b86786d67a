"""The front's addresses for machines: TimeGate, TimeMaps, CDX and robots.txt, put together."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from playback.captures_queries import CaptureRows
from playback.database import Database
from playback.front.cdx import ARCHIVE_PATH, CdxServer
from playback.front.load_limit import LoadLimit
from playback.front.memento import MementoHeaders, TimeGate
from playback.front.pages import Page
from playback.front.skew import Skew, Skews
from playback.front.timemaps import TimeMaps
from playback.link_format import Places
from playback.mementos import Mementos
from playback.permits import Permits

_SKEWS_S = 3.0  # for all pages of a list


class Indexing(StrEnum):
    """What search engines may list (P-23)."""

    NONE = "none"
    FRONT = "front"  # the front's pages; copies never


@dataclass(frozen=True, slots=True)
class Openness:
    """What is told to machines.

    Attributes:
        indexing: what search engines may list.
        cdx_hosts: whether CDX queries may ask for whole hosts and domains.
        replay_inside: where the front itself reaches replay, when readers reach it elsewhere.
    """

    indexing: Indexing = Indexing.NONE
    cdx_hosts: bool = False
    replay_inside: str = ""

    @property
    def robots_tag(self) -> str:
        """The value of X-Robots-Tag on the front's pages."""
        return "noindex, noarchive" if self.indexing is Indexing.NONE else "noarchive"


CLOSED = Openness()


class Machines:
    """What answers machines, and what reader pages say to them."""

    def __init__(
        self,
        database: Database,
        permits: Permits,
        places: Places,
        openness: Openness,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._openness = openness
        self._mementos = Mementos(database, permits)
        self._headers = MementoHeaders(self._mementos, places)
        self.skews = Skews(places.replay, inner=openness.replay_inside)
        self._gate = TimeGate(self._mementos, places)
        self._maps = TimeMaps(self._mementos, places)
        self._cdx = CdxServer(
            CaptureRows(database), permits, self._mementos, places, wide=openness.cdx_hosts
        )

    def page_headers(self, page: Page) -> dict[str, str]:
        """What a reader page says of the copy that it shows."""
        return self._headers.of(page.url, page.timestamp, is_offered=page.is_usable)

    def skews_of(self, pages: Sequence[Page]) -> list[Skew | None]:
        """How far the parts of copies are from their moments, as far as replay says so soon."""
        until = self._monotonic() + _SKEWS_S
        return [
            self.skews.of(page.url, page.timestamp)
            if page.has_copy and self._monotonic() < until
            else None
            for page in pages
        ]

    def routes(self, costly: LoadLimit) -> list[BaseRoute]:
        """Return their addresses; `costly` limits those that list captures."""
        cdx = costly(self._cdx.answer)
        return [
            Route("/timegate/{rest:path}", self._gate.answer),
            Route("/timemap/{rest:path}", costly(self._maps.answer)),
            Route("/cdx", cdx),
            Route(ARCHIVE_PATH, cdx),
            Route("/robots.txt", self._robots),
        ]

    def _robots(self, _request: Request) -> Response:
        lists = ("/api/", "/cdx", "/timegate/", "/timemap/", "/links", "/externalLink")
        refused = ("/",) if self._openness.indexing is Indexing.NONE else lists
        text = "".join(f"Disallow: {path}\n" for path in refused)
        return PlainTextResponse(f"User-agent: *\n{text}")
