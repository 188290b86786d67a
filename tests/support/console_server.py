"""The console of a collection on a real server, with a user of each role; answers of its API, held to its description."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx
import jsonschema_rs
from starlette.types import ASGIApp

from core.clock import SystemClock
from core.config.settings import Settings
from core.layout import Layout
from crawler.frontier.base import Frontier
from net.http_server import ConnectionLimits, HttpServer, open_listener, running
from scripts.interfaces import console_description
from tests.support.browser_screen import BrowserScreen
from weboid.cli.init import option_faults
from weboid.console.accounts import COOKIE, AccountStore, ConsoleRole
from weboid.console.page_frame import ConsoleStores
from weboid.console.server import create_app, open_stores

ROLES = [str(role) for role in ConsoleRole]
NAMES = dict(zip(ROLES, ("Rosa", "Ravi", "Grace", "Olu", "Ada"), strict=True))


@dataclass
class ServedConsole:
    """A served console; `role` is that of who looks."""

    address: str
    layout: Layout
    stores: ConsoleStores
    accounts: AccountStore
    sessions: dict[str, str]  # by role
    role: str = "operator"

    @property
    def frontier(self) -> Frontier:
        """Return the crawl queue."""
        return self.stores.frontier

    def get(self, path: str = "", **query: str) -> httpx.Response:
        """Request a page as a user of the current role."""
        with httpx.Client(timeout=120, verify=False) as client:
            self.sign_in(client)
            return client.get(
                f"{self.address}{path if path.startswith('/de/') else f'/console{path}'}", params=query or None
            )

    def post(self, path: str, fields: dict[str, str]) -> httpx.Response:
        """Submit a form as a user of the current role."""
        with httpx.Client(timeout=120, verify=False) as client:
            self.sign_in(client)
            return client.post(f"{self.address}{path}", data=fields, headers={"Origin": self.address})

    def sign_in(self, client: httpx.Client) -> None:
        """Let the client be the user."""
        client.cookies.set(COOKIE, self.sessions[self.role])

    async def show(self, screen: BrowserScreen, path: str = "", **window: object) -> None:
        """Open a page in a window of the user's."""
        await screen.send("Network.setCookie", name=COOKIE, value=self.sessions[self.role], url=self.address)
        whole = path if path.startswith("/de/") else f"/console{path}"
        await screen.open(f"{self.address}{whole}", **window)  # type: ignore[arg-type]

    def page_ids(self, url: str) -> list[str]:
        """Return the page ids of a URL's captures, newest first."""
        query = "SELECT page_id FROM pages WHERE url = :url ORDER BY captured_ms DESC"
        return [row["page_id"] for row in self.stores.database.rows(query, {"url": url})]


API = "/api/v1"
_DESCRIBING = threading.Lock()  # FastAPI's models are built when first used, which threads must not do at once
_description = cache(console_description)


def api_document() -> dict[str, Any]:
    """Return the description of the API; safe in threads."""
    with _DESCRIBING:
        return _description()


@cache
def _answer_schema(path: str, method: str, status: str, media_type: str) -> jsonschema_rs.Validator:
    document = api_document()
    responses = document["paths"][path][method]["responses"]
    assert status in responses, (path, method, status)
    schema = responses[status]["content"][media_type]["schema"]
    return jsonschema_rs.validator_for({**schema, "components": document["components"]}, validate_formats=True)


def check_answer(response: httpx.Response) -> None:
    """Hold a JSON answer of the API to its description; a hook of clients. Raises AssertionError."""
    method, path = response.request.method.lower(), response.url.path.removeprefix(API)
    media_type = response.headers.get("content-type", "").partition(";")[0]
    path = "/captures/{page_id}" if path.startswith("/captures/") else path
    if response.url.path.startswith(API) and "json" in media_type and method in api_document()["paths"].get(path, ()):
        validator = _answer_schema(path, method, str(response.status_code), media_type)
        faults = [
            f"{each.instance_path}: {each.message}" for each in validator.iter_errors(json.loads(response.read()))
        ]
        assert not faults, (method, path, faults)


CHECKED: dict[str, list[Callable[..., Any]]] = {"response": [check_answer]}


@contextmanager
def api_client(address: str, secret: str) -> Iterator[httpx.Client]:
    """Yield a client of the API with a session; its answers are checked against the API's description."""
    headers = {"Origin": address}
    with httpx.Client(base_url=f"{address}{API}", headers=headers, timeout=120, event_hooks=CHECKED) as it:
        it.cookies.set(COOKIE, secret)
        yield it


@contextmanager
def serve_console(layout: Layout) -> Iterator[ServedConsole]:
    """Serve the console of a collection until the end of the block."""
    with open_stores(layout, Settings(), clock=SystemClock(), option_faults=option_faults) as stores:
        for role, name in NAMES.items():
            stores.accounts.set_user(name, ConsoleRole(role))
        sessions = {role: stores.accounts.use_link(stores.accounts.make_link(name)) for role, name in NAMES.items()}
        with serving(
            lambda origin: create_app(
                stores, origin=origin, name="Example Library", front_origin="https://archive.example"
            )
        ) as address:
            yield ServedConsole(address, layout, stores, stores.accounts, sessions)


@contextmanager
def serving(make_app: Callable[[str], ASGIApp]) -> Iterator[str]:
    """Serve the application made for an origin until the end of the block; yield the origin."""
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
    ready.wait(120)
    try:
        yield address
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(120)
        loop.close()
