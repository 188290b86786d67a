"""The status over HTTP: ``/stats.json``, ``/metrics`` for Prometheus, ``/healthz``.

It only reads, and knows no secret, but the URLs being archived are nobody else's business: it listens
where it is told, on loopback unless told otherwise, and answers only to a Host that is an address,
``localhost`` or a name it was given, so that no page in a browser gets at it by a name of its own
(DNS rebinding).
"""

import asyncio
import contextlib
import ipaddress
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from importlib.metadata import version
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from core.errors import ConfigError, WeboidError
from crawler.metrics import CONTENT_TYPE, exposition
from crawler.reporting import Status, StatusReader
from proxy.http_server import ConnectionLimits, HttpServer, open_listener, running

_LOG = logging.getLogger(__name__)
DEFAULT_LISTEN = "127.0.0.1:9464"
_LIMITS = ConnectionLimits(64, head_s=10)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def parse_listen(text: str) -> tuple[str, int]:
    """The host and port of ``127.0.0.1:9464``, ``[::1]:9464`` or ``:9464`` (every address).

    Raises:
        ConfigError: it names none.
    """
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{text[:80]!r} is no HOST:PORT.") from error
    if port is None or parts.netloc != text or "@" in text:
        raise ConfigError(f"{text[:80]!r} is no HOST:PORT, such as {DEFAULT_LISTEN}.")
    return parts.hostname or "", port


def create_app(read: Callable[[], Awaitable[Status]], *, names: Collection[str] = ()) -> ASGIApp:
    """The application.

    Args:
        read: gives the status; a `WeboidError` says that it cannot be had now.
        names: names it may be asked by, besides ``localhost``.
    """
    program = version("weboid")

    async def stats(_request: Request) -> Response:
        try:
            body = json.dumps((await read()).to_dict(), ensure_ascii=False)
        except WeboidError as error:
            return _unavailable(error)
        return Response(body, media_type="application/json")

    async def metrics(_request: Request) -> Response:
        try:
            status = await read()
        except WeboidError as error:
            _LOG.warning("monitor.unreadable error=%s", error)
            status = None
        return Response(exposition(status, version=program), headers={"Content-Type": CONTENT_TYPE})

    async def healthz(_request: Request) -> Response:
        try:
            await read()
        except WeboidError as error:
            return _unavailable(error)
        return PlainTextResponse("ok\n")

    async def index(_request: Request) -> Response:
        return PlainTextResponse("weboid: /stats.json /metrics /healthz\n")

    app = Starlette(
        routes=[
            Route("/", index),
            Route("/stats.json", stats),
            Route("/metrics", metrics),
            Route("/healthz", healthz),
        ]
    )
    return _Guard(app, names)


def _unavailable(error: WeboidError) -> Response:
    return PlainTextResponse(f"{error}\n", status_code=503, headers={"Retry-After": "5"})


_REFUSAL = PlainTextResponse(
    "This name is not ours: use an address, or give the name with --name.\n", 421
)


class _Guard:
    """Refuses foreign names, and gives every answer its headers."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = {"localhost", *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: "dict[str, object]") -> None:
            if message["type"] == "http.response.start":
                given = message["headers"]
                assert isinstance(given, list)
                given += [(key.lower().encode(), value.encode()) for key, value in _HEADERS.items()]
            await send(message)

        app = self._app if self._is_ours(Request(scope).headers.get("host", "")) else _REFUSAL
        await app(scope, receive, with_headers)  # type: ignore[arg-type]

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._names:
            return True
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name)
            return True
        return False


@asynccontextmanager
async def serve_metrics(
    reader: StatusReader, listen: str, *, names: Collection[str] = ()
) -> AsyncIterator[str]:
    """Serve the status until the end of the block, beside whatever else the loop does.

    Args:
        reader: reads the status, in a thread of its own.
        listen: HOST:PORT; port 0 takes a free one.
        names: names it may be asked by, besides ``localhost`` and addresses.

    Yields:
        The address, such as ``http://127.0.0.1:9464``.

    Raises:
        ConfigError: `listen` names no host and port.
        UnavailableError: nothing can listen there.
    """
    listener = open_listener(*parse_listen(listen))
    app = create_app(lambda: asyncio.to_thread(reader.status), names=names)
    async with running(HttpServer(app, _LIMITS, timeout_graceful_shutdown=1), listener):
        yield _address(listener)


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
