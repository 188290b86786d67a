"""Local replay server, stored pages and browsers that checkers work with."""

import asyncio
import http.client
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from core.captures import ArtifactKind
from core.clock import Clock
from core.config.settings import BrowserSettings
from core.errors import UnavailableError
from core.layout import Layout
from core.media_types import HTML_TYPES, TOO_LARGE
from core.page_manifest import PageInfo
from core.playback_check import LostPart
from crawler.pools.resource_pool import BrowserPool, ProxyAccess
from playback import url_paths
from playback.access.control import AccessControl
from playback.access.decision_store import DecisionStore, open_decisions
from playback.access.level_store import LevelStore
from playback.access.levels import DEFAULT_LEVEL, Level, LevelRules
from playback.access.takedowns import TakedownSubject
from playback.playback_server import ServerOrigins, serve
from playback.replay.sanitizer.allowlist import SANITISER_VERSION
from playback.web.asgi_app import WebOptions
from playback.web.page_store import CapturedPage, PageStore
from qa.copy_view import CopyAddress
from qa.holdings import ROWS_OF_PAGE, ROWS_OF_PAYLOAD, HoldingsRow, HoldingsVerifier
from render.browser import Browser
from render.chromium import find_browser
from warc.artifact_reader import ArtifactReader
from warc.index.database import IndexDatabase, open_database

COMPARISON_VERSION = 2
ENGINE = f"sanitiser {SANITISER_VERSION}, comparison {COMPARISON_VERSION}"
LendBrowser = Callable[[], AbstractAsyncContextManager[Browser]]
# Host names that the browser must resolve by itself for full copies.
HOST_MAPPING = {"*.localhost": "127.0.0.1"}
_ANSWER_S = 30.0
_REFUSAL_S = 10.0
_REFUSAL_BYTES = 10_000
_DESTINATIONS = {"Stylesheet": "style", "Font": "font", "Image": "image", "Media": "video"}
# Also with the modifiers that copies in full have for their parts.
_COPY = re.compile(r"https?://[^/]+(?:/w/[^/]+)?/c/\d{14}(?:[a-z]{2,4}_)?/(.+)", re.ASCII | re.DOTALL)


# Captures with a login are checked like all others; no page links to such a server.
_SHOWS_ALL = WebOptions(show_logins=True)


@asynccontextmanager
async def running_replay(  # noqa: PLR0913 independent options
    layout: Layout,
    database_url: str,
    *,
    full: bool = False,
    fonts: bool = True,
    cached: bool = True,
    options: WebOptions = _SHOWS_ALL,
    signals: bool = False,  # by default they are for the command around it
) -> AsyncIterator[ServerOrigins]:
    """Run a replay server on this machine until the block ends; UnavailableError: it does not start."""
    attempts = 3  # the port may be taken meanwhile
    while True:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        front: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(
            serve(
                layout,
                replay_port=port,
                on_ready=front.set_result,
                index_url=database_url,
                full=url_paths.LOCAL if full else "",
                fonts=fonts,
                options=options,
                signals=signals,
                cached=cached,
            )
        )
        try:
            await asyncio.wait((front, running), return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                yield ServerOrigins(front.result(), f"http://127.0.0.1:{port}")
                return
            attempts -= 1
            if not attempts or running.exception() is None:
                running.result()
                raise UnavailableError("The replay server exited during start-up. See the log for its output.")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@contextmanager
def open_collection_replay(
    layout: Layout, database_url: str, origins: ServerOrigins, level: Level, *, clock: Clock
) -> Iterator["CollectionReplay"]:
    """Open the collection for a checker until the block ends."""
    with (
        closing(open_database(layout, database_url)) as database,
        closing(open_decisions(layout, database_url)) as decisions,
    ):
        yield CollectionReplay(layout, database, decisions, origins, level, clock)


class CollectionReplay:
    """Collection and its playback at one level. Thread-safe; raises TransientError."""

    def __init__(
        self,
        layout: Layout,
        database: IndexDatabase,
        decisions: DecisionStore,
        origins: ServerOrigins,
        level: Level,
        clock: Clock,
    ) -> None:
        self.level = str(level)
        self.root = layout.root
        self._database = database
        self._origins = origins
        self._levels = LevelStore(decisions)
        self._permits = AccessControl(decisions, database.rows, clock.now, show_logins=True)
        self._store = PageStore(database, self._permits)
        self._holding = HoldingsVerifier(
            layout,
            lambda page_id: self._held(ROWS_OF_PAGE, {"page_id": page_id}),
            is_hidden=self.is_hidden,
            twins_of=lambda digest: [
                row
                for row in self._held(ROWS_OF_PAYLOAD, {"digest": digest})
                if not self.is_hidden(row.url, row.digest)
            ],
        )
        self._records = ArtifactReader(layout)

    def page(self, page_id: str) -> "StoredPage | None":
        """Return the stored page; None when it is hidden or missing."""
        page = self._store.with_ids([page_id]).get(page_id)
        if page is None:
            return None
        replay, level = urlsplit(self._origins.replay), Level(self.level)
        if level is Level.FULL:
            front = urlsplit(self._origins.front)
            path = url_paths.page_path(page.timestamp, page.url, view="full-view")
            hosts = (front.netloc, replay.netloc, f"*.localhost:{replay.port}")
            address = CopyAddress(self._origins.front + path, hosts, framed=True)
        else:
            # The address of that exact capture; the default level shows unoffered ones, too.
            modifier = url_paths.MementoModifier.VERY if level is DEFAULT_LEVEL else url_paths.LEVEL_MODIFIERS[level]
            path = url_paths.memento_path(url_paths.Memento(page.timestamp, modifier, page.url))
            address = CopyAddress(self._origins.replay + path, (replay.netloc,))
        return StoredPage(page, self._withheld(page), address, self._store, self._records)

    def lost(self, page: PageInfo) -> Sequence[LostPart]:
        """Return the parts of the page that the archive does not hold as captured."""
        return self._holding.check(page)

    def is_hidden(self, url: str, digest: str) -> bool:
        """Return whether a part was taken down or is held back: its record may be gone."""
        permits = self._permits
        if not permits.are_open() and permits.subject(TakedownSubject(url, "", digest)) is not None:
            return True
        holds = permits.holds
        return bool(digest) and holds.any_threat() and holds.payload(digest) is not None

    def original(self, url: str) -> str | None:
        """Return the archived URL of a playback address; None when it has none."""
        match = _COPY.fullmatch(url)
        if match is None or len(match[1]) > url_paths.LONGEST_URL:
            return None
        url = url_paths.unescape_url(match[1])
        # Scripts leave the scheme out; nearly every page has this one.
        return f"https:{url}" if url.startswith("//") else url

    def refusal(self, address: str, kind: str, timeout_s: float = _REFUSAL_S) -> tuple[int | None, str]:
        """Return the status and reason with which playback refuses a part; None: no answer."""
        parts = urlsplit(address)
        host = parts.hostname or ""
        server = HOST_MAPPING["*.localhost"] if host.endswith(".localhost") else host
        connection = http.client.HTTPConnection(server, parts.port, timeout=timeout_s)
        target = address.partition(parts.netloc)[2]
        headers = {"Host": parts.netloc, "Sec-Fetch-Dest": _DESTINATIONS.get(kind, "image")}
        try:
            with closing(connection):
                connection.request("GET", target, headers=headers)
                answer = connection.getresponse()
                is_too_large = TOO_LARGE.encode() in answer.read(_REFUSAL_BYTES)
                return answer.status, "too large" if is_too_large else ""
        except (OSError, http.client.HTTPException):
            return None, ""

    async def answers(self) -> bool:
        """Return whether the replay server answers."""
        status, _ = await asyncio.to_thread(self.refusal, f"{self._origins.replay}/", "Document", _ANSWER_S)
        return status is not None

    def _held(self, query: str, values: Mapping[str, str]) -> list[HoldingsRow]:
        rows = self._database.rows(query, values)
        return [HoldingsRow(**{name: row[name] for name in HoldingsRow._fields}) for row in rows]

    def _withheld(self, page: CapturedPage) -> str:
        if page.taken_down is not None:
            return "Taken down: it is not shown."
        if self._store.threatened([page]):
            return "Held back: a scanner found a threat in it."
        most = self._levels.now().of_page((page.url, page.final_url), "")
        if not most.covers(Level(self.level)):
            return f"The level rules allow at most {most}."
        if self.level == Level.FULL and page.mime not in HTML_TYPES:
            return "Only HTML is shown at level full."
        if not page.has_copy and page.is_showable and self.level != DEFAULT_LEVEL:
            return f"Pages of the class {page.page_class} have no copy at this level."
        return ""


@dataclass(frozen=True, slots=True)
class StoredPage:
    """Stored artifacts of one page. Thread-safe; a damaged artifact raises PermanentError."""

    _page: CapturedPage
    withheld: str  # reason for which it must not be shown at the level, a sentence; empty: it may
    address: CopyAddress
    _store: PageStore
    _records: ArtifactReader

    def manifest(self) -> PageInfo | None:
        """Return its manifest; None when none was stored."""
        place = self._store.place(self._page, ArtifactKind.PAGEINFO)
        return None if place is None else self._records.manifest(place)

    def artifact(self, kind: ArtifactKind) -> bytes | None:
        """Return an artifact; None when none was stored."""
        place = self._store.place(self._page, kind)
        if place is None:
            return None
        if kind is ArtifactKind.TEXT:
            return self._records.text(place).encode()
        return self._records.picture(place)


def is_checkable(level: Level, urls: Iterable[str], rules: LevelRules) -> bool:
    """Return whether copies of a page with these URLs are checked at the level; full ones where the rules allow."""
    return level is not Level.FULL or rules.of_page(urls).covers(level)


@asynccontextmanager
async def open_browsers(settings: BrowserSettings, *, clock: Clock) -> AsyncIterator[LendBrowser]:
    """Open browsers for views until the end of the block."""
    executable = find_browser(settings.executable)
    browsers = BrowserPool(settings, executable, clock, needs=lambda: ProxyAccess(hosts=HOST_MAPPING))
    try:
        await browsers.start()
        yield browsers.lend
    finally:
        await browsers.stop()
