"""The console of a collection on a real server, with a user of each role."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from core.clock import SystemClock
from core.config.settings import Settings
from core.layout import Layout
from crawler.frontier.base import Frontier
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.status.collection_status import StatusReader
from net.http_server import ConnectionLimits, HttpServer, open_listener, running
from playback.access.control import AccessControl
from playback.access.decision_store import open_decisions
from playback.access.level_store import LevelStore
from playback.web.registry.registry_service import RegistrySource
from warc.index.database import open_database
from weboid.console.page_frame import ConsoleFrame, ConsoleStores, pages_app

ROLES = ("reader", "reviewer", "curator", "operator", "admin")


@dataclass
class SignedIn:
    """A user of a test."""

    role: str = "operator"
    name: str = "Ada"
    csrf: str = "token"

    def may(self, role: str) -> bool:
        """Whether the role suffices."""
        return ROLES.index(self.role) >= ROLES.index(role)


class TestAccounts:
    """Two accounts, a token, and two changes."""

    __test__ = False

    def users(self) -> list[SimpleNamespace]:
        """The accounts."""
        added = datetime(2026, 11, 1, 9, tzinfo=UTC)
        return [
            SimpleNamespace(name=name, role=role, is_external=name == "Grace", added=added)
            for name, role in (("Ada", "admin"), ("Grace", "curator"))
        ]

    def tokens(self) -> list[dict[str, Any]]:
        """The tokens."""
        about = {"id": 1, "name": "wiki", "owner": "Ada", "role": "operator", "scopes": ["save_capture"]}
        return [{**about, "added": 1_795_000_000, "expires": None, "used": 1_795_600_000}]

    def log_entries(self, *, before: int | None = None, limit: int = 50) -> list[dict[str, Any]]:
        """The changes."""
        about = {
            "moment": 1_795_600_000,
            "actor": "Grace",
            "fields": '{"host": "<b>refuses.example"}',
            "outcome": "done",
        }
        entries: list[dict[str, Any]] = [
            {**about, "id": number, "operation": "pause_host"} for number in range(150, 0, -1)
        ]
        return [each for each in entries if before is None or each["id"] < before][:limit]


@dataclass
class Console:
    """A served console; `user` is who looks."""

    address: str
    layout: Layout
    stores: ConsoleStores
    frontier: Frontier
    user: SignedIn = field(default_factory=SignedIn)

    def get(self, path: str = "", **query: str) -> httpx.Response:
        """A page."""
        return httpx.get(f"{self.address}/console{path}", params=query or None, timeout=30)

    def sign_in(self, client: httpx.Client) -> None:
        """Let the client be the user."""

    def page_ids(self, url: str) -> list[str]:
        """The captures of a URL, the newest first."""
        query = "SELECT page_id FROM pages WHERE url = :url ORDER BY captured_ms DESC"
        return [row["page_id"] for row in self.stores.database.rows(query, {"url": url})]


class AsUser:
    """Middleware that signs everyone in."""

    def __init__(self, app: ASGIApp, user: SignedIn) -> None:
        self._app, self._user = app, user

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        scope.setdefault("state", {})["user"] = self._user
        await self._app(scope, receive, send)


@contextmanager
def serve_console(layout: Layout) -> Iterator[Console]:
    """Serve the console of a collection until the end of the block."""
    settings, clock, user = Settings(), SystemClock(), SignedIn()
    with (
        open_frontier(layout, settings.frontier, settings.politeness) as frontier,
        closing(open_database(layout, "")) as database,
        closing(open_decisions(layout)) as decisions,
        closing(RegistrySource(layout)) as registry,
    ):
        status = StatusReader(layout, lambda: frontier, settings=settings, clock=clock, background=True)
        access = AccessControl(decisions, database.rows, clock.now)
        stores = ConsoleStores(
            *(layout, settings, status, lambda: frontier, database),
            *(access, decisions, LevelStore(decisions), registry, clock),
        )
        frame = ConsoleFrame(
            archive_name="Example Library",
            front_origin="https://archive.example",
            operation_path=lambda name: f"/do/{name}",
            has_registry=registry.is_there,
            has_accounts=True,
        )
        app = AsUser(pages_app(stores, frame, TestAccounts()), user)
        with serving(lambda _: app) as address:
            yield Console(address, layout, stores, frontier, user)


@contextmanager
def serving(make_app: Callable[[str], ASGIApp]) -> Iterator[str]:
    """Serve the application that is made for an origin until the end of the block; the origin."""
    listener = open_listener("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = make_app(address)
    ready, done = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with running(HttpServer(app, ConnectionLimits(64), timeout_graceful_shutdown=1), listener):
            ready.set()
            await done.wait()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait(30)
    try:
        yield address
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(30)
        loop.close()
