"""A registry filled for tests, and the real front that shows it, called without a socket."""

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import event, insert, select, update
from starlette.types import ASGIApp

from core.layout import Layout
from links.check_history import HistoryRun, day_of, pack_history
from links.check_result import StatusCode
from links.feedback.replacements import ProposalStage
from links.registry.database import RegistryStore
from links.registry.pages import PageName, PutPage, number_of, put_pages
from links.registry.quirks import HostQuirk, UrlQuirk
from links.registry.schema import (
    copies,
    host_quirks,
    observations,
    pages,
    replacements,
    reports,
    spam_hits,
    url_quirks,
    urls,
    wikis,
)
from links.registry.urls import ensure_urls
from links.registry.wikis import ensure_wiki, parse_wiki, put_farm
from links.rules.link_class import MISSING_TARGET, ClassifiedLink, LinkClass, classify_link
from links.states import LinkState
from links.url_parts import key_of
from playback.access.decision_store import open_decisions
from playback.web.asgi_app import SiteMount, WebOptions, create_app
from playback.web.copy_lookup import QueueStatusReader
from playback.web.rate_limits import RateLimitPolicy
from playback.web.registry.registry_service import LinkRegistry, NoRegistryError, RegistrySource, ReportOptions
from tests.support.clocks import ManualClock
from tests.support.playback_fixtures import CollectionBuilder
from warc.index.database import open_database

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
TODAY = day_of(NOW)
ORIGIN = "http://127.0.0.1:8080"
WIKI = "dewiki@WMF"
DEAD, FINE = "https://verlag.de/gone", "https://verlag.de/fine"
CODES = StatusCode


@dataclass
class RegistryBuilder:
    """Fills a registry as feeder and checker do."""

    store: RegistryStore
    root: Path = Path()

    def wiki(self, name: str = WIKI, pages_url: str = "") -> int:
        """Return a wiki's number; create the wiki and its farm when they are new."""
        parsed = parse_wiki(name)
        with self.store.writing() as rows:
            if parsed.farm not in ("WMF", "wmflabs"):
                put_farm(rows, parsed.farm)
            wiki = ensure_wiki(rows, parsed, day=TODAY)
            if pages_url:
                changed = update(wikis).where(wikis.c.id == wiki.id)
                rows.execute(changed.values(pages_url=pages_url))
            return wiki.id

    def settings(self, settings: dict[str, Any], name: str = WIKI) -> None:
        """Set the wiki's settings."""
        number = self.wiki(name)
        with self.store.writing() as rows:
            changed = update(wikis).where(wikis.c.id == number)
            rows.execute(changed.values(settings=json.dumps(settings)))

    def page(self, page_id: int, title: str, *links: str, wiki: str = WIKI, day: int = TODAY - 3) -> int:
        """Store a page with its links as written; return its number in the registry."""
        wiki_id = self.wiki(wiki)
        put = PutPage(PageName(page_id, title), tuple(map(classify_link, links)))
        with self.store.writing() as rows:
            put_pages(rows, wiki_id, [put], day=day)
        return number_of(wiki_id, page_id)

    def state(self, url: str, state: LinkState, **facts: Any) -> int:
        """Store a URL in that state; return its row's number."""
        with self.store.writing() as rows:
            number = ensure_urls(rows, [url], day=TODAY)[url]
            rows.execute(update(urls).where(urls.c.id == number).values(state=state, **facts))
        return number

    def missing(self, page_id: int, title: str, *links: str) -> None:
        """Store a page whose links lead to missing pages of the farm."""
        wiki_id = self.wiki()
        lost = tuple(ClassifiedLink(each, LinkClass.MISSING, note=MISSING_TARGET) for each in links)
        with self.store.writing() as rows:
            put_pages(rows, wiki_id, [PutPage(PageName(page_id, title), lost)], day=TODAY - 3)

    def fill(self) -> None:
        """Store a page with a dead link, a working one, and one that cannot be requested."""
        self.page(1, "Foo bar", DEAD, FINE, "http://example.com:8o8o/foo/bar")
        failing = {"first_fail_day": TODAY - 183, "fails": 9, "checked_day": TODAY - 14}
        self.state(DEAD, LinkState.DEAD, code=StatusCode.NOT_FOUND, **failing)
        self.state(FINE, LinkState.ALIVE, code=StatusCode.FINE, checked_day=TODAY - 1)

    def fill_richly(self) -> None:
        """Store the page of `fill` with all facts that a link can have, and a hit of a spam list."""
        self.fill()
        number = self.state(
            DEAD,
            LinkState.DEAD,
            mime="pdf",
            kib=12,
            history=pack_history(
                (
                    HistoryRun(StatusCode.FINE, TODAY - 400, TODAY - 190),
                    HistoryRun(StatusCode.NOT_FOUND, TODAY - 183, TODAY - 1),
                )
            ),
        )
        days = {"first_day": TODAY, "last_day": TODAY}
        self.seen(number, "http: 404", "https://verlag.de/")
        self.add(url_quirks, url_id=number, kind=UrlQuirk.MOVED, value="https://verlag.de/new", **days)
        self.add(host_quirks, host_id=self.host_of(number), kind=HostQuirk.SERVER_ERROR, **days)
        self.copy(number, "wayback", "https://web.archive.org/web/20200101000000/https://verlag.de/", "20200101000000")
        self.copy(number, "archive-it")
        self.report(number)
        self.replace(number, "https://verlag.de/there", ProposalStage.WORKS)
        self.spam(number_of(self.wiki(), 1), "https://spam.top/buy")

    def replace(self, number: int, address: str, stage: ProposalStage) -> None:
        """Store a proposed and tested replacement URL of a link."""
        self.add(
            replacements, url_id=number, address=address, state=stage, moment=0,
            reporter=b"x" * 16, tested_day=TODAY,
        )  # fmt: skip

    def copy(self, number: int, service: str, address: str = "", timestamp: str = "", by: str = "") -> None:
        """Store a copy in an archive."""
        self.add(
            copies, url_id=number, service=service, address=address, timestamp=timestamp,
            found_day=TODAY, checked_day=TODAY, chosen_by=by,
        )  # fmt: skip

    def report(self, number: int, expires_day: int = TODAY + 100) -> None:
        """Store a reader's report that the URL is reachable."""
        self.add(
            reports, url_id=number, host_id=self.host_of(number), moment=0,
            expires_day=expires_day, reporter=number.to_bytes(16, "big"),
        )  # fmt: skip

    def host_of(self, number: int) -> int:
        """Return the id of a URL's host."""
        with self.store.reading() as rows:
            return int(rows.execute(select(urls.c.host_id).where(urls.c.id == number)).scalar_one())

    def captured(self, url: str) -> None:
        """Write a capture of the URL to our own collection."""
        builder = CollectionBuilder(self.root / "collection")
        builder.page(url, "<p>x</p>", text="x")
        builder.close()

    def on_write(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with each later statement that changes data."""

        def before(_c: Any, _r: Any, statement: str, *_rest: Any) -> None:
            if not statement.lstrip().upper().startswith(("SELECT", "WITH", "BEGIN")):
                callback(statement)

        event.listen(self.store.engine, "before_cursor_execute", before)

    def reopened(self, root: Path) -> RegistrySource:
        """Return the same registry, opened as `weboid serve` does."""
        return RegistrySource(Layout(root))

    def seen(self, number: int, note: str, final_url: str = "") -> None:
        """Store an observation with a note."""
        values = {
            "url_id": number, "moment": int(NOW.timestamp()), "how": 2, "code": 18,
            "verdict": "gone", "note": note, "final_url": final_url,
        }  # fmt: skip
        self.add(observations, **values)

    def spam(self, page: int, url: str, name: str = "MediaWiki:Spam-blacklist", *, last_day: int = TODAY) -> None:
        """Store a spam list's hit for a URL that the page had until `last_day`."""
        self.add(
            spam_hits, page=page, key=key_of(url), wiki_id=self.wiki(), url=url, list=name,
            line=7, first_day=last_day, last_day=last_day,
        )  # fmt: skip

    def add(self, table: Any, **values: Any) -> None:
        """Insert a row."""
        with self.store.writing() as rows:
            rows.execute(insert(table).values(**values))

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each table."""
        with self.store.reading() as rows:
            return {
                name: rows.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one()
                for name in sorted(pages.metadata.tables)
            }


class FixedRegistry(RegistrySource):
    """A source that a test fills: a registry, none, or an error."""

    def __init__(self, value: RegistryStore | Exception | None) -> None:
        """Take the registry, None, or the error to raise."""
        self.value = value

    def is_there(self) -> bool:
        """Return whether there is a registry, or an error in its place."""
        return self.value is not None

    def store(self) -> RegistryStore:
        """Return the registry, or raise the error that stands for it."""
        if self.value is None:
            raise NoRegistryError
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@dataclass
class RegistryFront:
    """The front, and the clock that it goes by.

    Attributes:
        app: as a server calls it.
        peer: who asks, by the socket.
    """

    app: ASGIApp
    clock: ManualClock
    runner: asyncio.Runner
    peer: str = "198.51.100.7"

    def get(self, path: str, *, method: str = "GET", body: bytes | None = None, **headers: Any) -> httpx.Response:
        """Return the response to a request, once its background tasks are done.

        Sec-Fetch-Mode is ``navigate``, as of a browser's reader, unless `sec_fetch_mode` is given.
        """
        headers = {"sec_fetch_mode": "navigate", **headers}
        return self.runner.run(self._ask(path, method, headers, body))

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        """Return the response to a POST request."""
        return self.runner.run(self._ask(path, "POST", headers, body))

    def page(self, query: str = "dbname=dewiki@WMF&curid=1", **headers: Any) -> httpx.Response:
        """Request page information."""
        return self.get(f"/links/api/page?{query}", **headers)

    def stamp(self) -> str:
        """Return the stamp that the form submits."""
        return stamp_in(self.get("/links").text)

    async def _ask(self, path: str, method: str, headers: dict[str, Any], body: bytes | None = b"") -> httpx.Response:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(self.peer, 50_000))
        named = {
            name.replace("_", "-").encode(): value.encode("latin-1")
            for name, value in headers.items()
            if value is not None
        }
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            return await client.request(method, path, headers=named, content=body)


def stamp_in(text: str) -> str:
    """Return the stamp of the form on a page."""
    match = re.search(r'name="stamp" value="([^"]+)"', text)
    assert match is not None
    return match[1]


@contextlib.contextmanager
def open_front(
    root: Path,
    source: RegistrySource | None,
    *,
    access: RateLimitPolicy | None = None,
    report_options: ReportOptions | None = None,
    status: QueueStatusReader | None = None,
    peer: str = "198.51.100.7",
    origin: str | None = ORIGIN,
    mounts: Sequence[SiteMount] = (),
) -> Iterator[RegistryFront]:
    """Yield the front of a collection with that registry; without `origin` it answers any Host."""
    layout = Layout(root / "collection")
    layout.databases.mkdir(parents=True, exist_ok=True)
    clock = ManualClock(NOW)
    links = LinkRegistry(source, access or RateLimitPolicy(), report_options, layout) if source else None
    with (
        contextlib.closing(open_database(layout, "")) as database,
        contextlib.closing(open_decisions(layout, "")) as decisions,
        asyncio.Runner() as runner,
    ):
        app = create_app(
            database, decisions, replay_origin="http://127.0.0.1:8081", origin=origin, clock=clock,
            around=WebOptions(links=links, status=status, mounts=mounts),
        )  # fmt: skip
        yield RegistryFront(app, clock, runner, peer)
