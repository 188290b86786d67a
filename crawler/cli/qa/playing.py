"""A playback of our own to look at, and what was kept beside it: what `crawler.quality` needs of both."""

import asyncio
import http.client
import re
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from core.clock import Clock
from core.errors import UnavailableError
from core.layout import Layout
from core.pages import PageInfo
from core.quality import LostPart
from core.records import ArtifactKind
from crawler.quality.checking import COMPARISON_VERSION
from crawler.quality.holding import ROWS_OF_PAGE, ROWS_OF_PAYLOAD, HeldRow, Holding
from crawler.quality.looking import Address
from playback.addresses import (
    LEVEL_MODIFIERS,
    LONGEST_URL,
    Memento,
    Modifier,
    memento_path,
    page_path,
    unescape_url,
)
from playback.database import Database, open_database
from playback.decisions.level_book import LevelBook
from playback.decisions.levels import DEFAULT_LEVEL, Level
from playback.decisions.store import DecisionStore, open_decisions
from playback.decisions.takedowns import Subject
from playback.front.pages import Page, PageStore
from playback.front.records import Records
from playback.full_origins import LOCAL
from playback.kinds import HTML_TYPES, TOO_LARGE
from playback.permits import Permits
from playback.replay.allowed import SANITISER_VERSION
from playback.server import serve

ENGINE = f"sanitiser {SANITISER_VERSION}, comparison {COMPARISON_VERSION}"
# What a browser must resolve by itself to look at copies in full.
NAMES = {"*.localhost": "127.0.0.1"}
_ANSWER_S = 30.0
_REFUSAL_S = 10.0
_REFUSAL_BYTES = 10_000
_DESTINATIONS = {"Stylesheet": "style", "Font": "font", "Image": "image"}
# Also with the modifiers that copies in full have for their parts.
_COPY = re.compile(
    r"https?://[^/]+(?:/w/[^/]+)?/c/\d{14}(?:[a-z]{2,4}_)?/(.+)", re.ASCII | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Origins:
    """Where the playback answers."""

    front: str
    replay: str


@asynccontextmanager
async def playing(
    layout: Layout,
    database_url: str,
    *,
    full: bool,
    fonts: bool,
    cached: bool,
) -> AsyncIterator[Origins]:
    """A playback on this machine, until the block ends.

    Args:
        layout: the collection.
        database_url: its index, when that is a server's.
        full: it shows copies in full, where the levels allow it.
        fonts: copies load their own fonts.
        cached: copies that were made before are shown again.

    Raises:
        UnavailableError: it does not start.
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    fronts: list[str] = []
    ready = asyncio.Event()

    def answer(front: str) -> None:
        fronts.append(front)
        ready.set()

    running = asyncio.create_task(
        serve(
            layout,
            replay_port=port,
            on_ready=answer,
            index_url=database_url,
            full=LOCAL if full else "",
            fonts=fonts,
            show_logins=True,  # checked like all others; no reader is told of this address
            signals=False,  # they are for the command around it
            cached=cached,
        )
    )
    started = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait([running, started], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
            raise UnavailableError("Playback ended before it began.")
        yield Origins(fronts[0], f"http://127.0.0.1:{port}")
    finally:
        running.cancel()
        started.cancel()
        await asyncio.gather(running, started, return_exceptions=True)


@contextmanager
def opened_playback(
    layout: Layout, database_url: str, origins: Origins, level: Level, *, clock: Clock
) -> Iterator["CollectionPlayback"]:
    """What a checker needs of the collection, until the block ends.

    Raises:
        ConfigError: `database_url` names no index.
        TransientError: the decisions cannot be read.
    """
    with ExitStack() as stack:
        database = stack.enter_context(closing(open_database(layout, database_url)))
        decisions = stack.enter_context(closing(open_decisions(layout, database_url)))
        yield CollectionPlayback(layout, database, decisions, origins, level, clock)


class CollectionPlayback:
    """A collection and its playback at one level: a `crawler.quality.playing.Playback`.

    Attributes:
        level: which one.
        engine: versions of what shows and compares.
    """

    def __init__(
        self,
        layout: Layout,
        database: Database,
        decisions: DecisionStore,
        origins: Origins,
        level: Level,
        clock: Clock,
    ) -> None:
        self.level = str(level)
        self.engine = ENGINE
        self._database = database
        self._origins = origins
        self._levels = LevelBook(decisions)
        self._permits = Permits(decisions, database.rows, clock.now, show_logins=True)
        self._store = PageStore(database, self._permits)
        self._holding = Holding(
            layout, self._rows_of, is_hidden=self.is_hidden, twins_of=self._twins_of
        )
        self._records = Records(layout)

    def page(self, page_id: str) -> "StoredPage | None":
        """What was kept of the page; None when it is hidden, or not there."""
        page = self._store.with_ids([page_id]).get(page_id)
        if page is None:
            return None
        return StoredPage(
            page, self._withheld(page), self._address(page), self._store, self._records
        )

    def lost(self, page: PageInfo) -> Sequence[LostPart]:
        """What of the page the archive does not hold as it was captured."""
        return self._holding.check(page).lost

    def is_hidden(self, url: str, digest: str) -> bool:
        """Whether a part was taken down, or is held back: its record may be gone."""
        permits = self._permits
        if not permits.are_open() and permits.subject(Subject(url, "", digest)) is not None:
            return True
        holds = permits.holds
        return bool(digest) and holds.any_threat() and holds.payload(digest) is not None

    def original(self, url: str) -> str | None:
        """The archived URL that an address of playback stands for; None when it stands for none."""
        found = _COPY.fullmatch(url)
        if found is None or len(found[1]) > LONGEST_URL:
            return None
        return unescape_url(found[1])

    def refusal(self, address: str, kind: str) -> tuple[int | None, str]:
        """Return the status and reason with which playback refuses a part; None: it does not answer."""
        parts = urlsplit(address)
        host = parts.hostname or ""
        connection = http.client.HTTPConnection(
            NAMES["*.localhost"] if host.endswith(".localhost") else host,
            parts.port,
            timeout=_REFUSAL_S,
        )
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
        """Whether playback is there at all."""
        parts = urlsplit(self._origins.replay)
        try:
            async with asyncio.timeout(_ANSWER_S):
                reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
                try:
                    writer.write(f"GET / HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
                    return (await reader.read(4)) == b"HTTP"
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False

    def _rows_of(self, page_id: str) -> list[HeldRow]:
        return self._held(ROWS_OF_PAGE, {"page_id": page_id})

    def _twins_of(self, digest: str) -> list[HeldRow]:
        rows = self._held(ROWS_OF_PAYLOAD, {"digest": digest})
        return [row for row in rows if not self.is_hidden(row.url, row.digest)]

    def _held(self, query: str, values: Mapping[str, str]) -> list[HeldRow]:
        rows = self._database.rows(query, values)
        return [HeldRow(**{name: row[name] for name in HeldRow._fields}) for row in rows]

    def _withheld(self, page: Page) -> str:
        if page.taken_down is not None:
            return "Taken down: nothing of it is shown."
        if self._store.threatened([page]):
            return "Held back: a scanner found a threat in it."
        most = self._levels.now().of_page((page.url, page.final_url), "")
        if not most.covers(Level(self.level)):
            return f"The level rules show no more of it than {most}."
        if self.level == Level.FULL and page.mime not in HTML_TYPES:
            return "In full only HTML is shown."
        if not page.has_copy and page.is_showable and self.level != DEFAULT_LEVEL:
            return f"Of a page of the class {page.page_class} no copy is offered at this level."
        return ""

    def _address(self, page: Page) -> Address:
        """Of that very capture; the default level shows also what is offered to nobody."""
        replay = urlsplit(self._origins.replay)
        if self.level == Level.FULL:
            front = urlsplit(self._origins.front)
            path = page_path(page.timestamp, page.url, view="full-view")
            hosts = (front.netloc, replay.netloc, f"*.localhost:{replay.port}")
            return Address(self._origins.front + path, hosts, framed=True)
        level = Level(self.level)
        modifier = Modifier.VERY if level is DEFAULT_LEVEL else LEVEL_MODIFIERS[level]
        path = memento_path(Memento(page.timestamp, modifier, page.url))
        return Address(self._origins.replay + path, (replay.netloc,))


class StoredPage:
    """What was kept of one page: a `crawler.quality.playing.KeptPage`.

    Attributes:
        withheld: why nothing of it may be shown, or looked at; empty: it may be.
        address: where its copy is.
    """

    def __init__(
        self, page: Page, withheld: str, address: Address, store: PageStore, records: Records
    ) -> None:
        self._page = page
        self.withheld = withheld
        self.address = address
        self._store = store
        self._records = records

    def manifest(self) -> PageInfo | None:
        """Its manifest; None when none was kept."""
        place = self._store.place(self._page, ArtifactKind.PAGEINFO)
        return None if place is None else self._records.manifest(place)

    def artifact(self, kind: ArtifactKind) -> bytes | None:
        """An artifact; None when none was kept."""
        place = self._store.place(self._page, kind)
        if place is None:
            return None
        if kind is ArtifactKind.TEXT:
            return self._records.text(place).encode()
        return self._records.picture(place)
