"""The bell: whoever knows of a change rings, and the wiki is asked at once.

It listens at one port, for two kinds of ringing:

- UDP: MediaWiki's own ``$wgRCFeeds`` in JSON, a datagram for each change. Anybody can send one, so all
  that it does is let the wiki be asked a little earlier.
- HTTP: ``POST /changes`` names pages, also those that a template has changed; ``POST /level`` asks for
  a level of playback for a link, in the name of a wiki's user. Both are signed:
  ``X-Weboid-Signature: t=UNIXSECONDS,v1=HEX``, HEX = HMAC-SHA256(secret, "T." + body).

Nothing that rings is believed to say what is on a page. Requests and datagrams are bounded in length,
number and age, and a signature counts once.
"""

import asyncio
import contextlib
import hmac
import json
import logging
import re
import socket
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from core.clock import Clock
from core.errors import InputError, InvariantError, TransientError, UnavailableError
from links.books.wikis import WikiName, parse_wiki

BODY_LIMIT_BYTES = 1 << 20
BODY_LIMIT_S = 10.0
PAGES_LIMIT = 10_000  # in one request
AGE_LIMIT_S = 300
SIGNATURES_KEPT = 10_000
SECRET_LEAST_CHARS = 32
SECRET_MOST_CHARS = 4_096
CONNECTIONS_LIMIT = 50
_START_LIMIT_S = 10.0
_SIGNATURE = re.compile(r"t=([0-9]{1,12}),v1=([0-9a-f]{64})", re.ASCII)
_TEXT_LIMIT = 8_192

log = logging.getLogger(__name__)


class LevelRefusedError(InputError):
    """The user may not set that level for that link."""


@dataclass(frozen=True, slots=True)
class LevelAsked:
    """A user asks for a level of playback.

    Attributes:
        level: of playback; None: what was said before is taken back.
    """

    wiki: WikiName
    user: str
    url: str
    level: str | None
    reason: str


# What sets a level: gives the level that holds then. LevelRefusedError: 403; InputError: 400.
SetLevel = Callable[[LevelAsked], Awaitable[str | None]]
# What is rung: a wiki's database, its farm if that is known, and pages that changed, if they are named.
Ring = Callable[[str, str | None, tuple[int, ...]], bool]


@dataclass(frozen=True)
class Ringing:
    """What the bell does.

    Attributes:
        ring: rings for a wiki; False: nobody watches it.
        secret: what signatures are made with; empty: only datagrams ring.
        clock: for the age of signatures.
        set_level: None: levels cannot be set here.
    """

    ring: Ring
    secret: bytes
    clock: Clock
    set_level: SetLevel | None = None


def check_secret(text: str) -> bytes:
    """The secret in a file's text.

    Raises:
        InputError: it is too short, or far too long.
    """
    text = text.strip()
    if not SECRET_LEAST_CHARS <= len(text) <= SECRET_MOST_CHARS:
        raise InputError(
            f"The bell's secret must have {SECRET_LEAST_CHARS} to {SECRET_MOST_CHARS} characters: "
            "make one with `openssl rand -hex 32`."
        )
    return text.encode()


def signature(secret: bytes, body: bytes, *, at: int) -> str:
    """The header's value that signs a body at that moment (seconds since 1970)."""
    return f"t={at},v1={hmac.digest(secret, f'{at}.'.encode() + body, 'sha256').hex()}"


def is_signed(secret: bytes, header: str, body: bytes, *, now: float) -> bool:
    """Whether the header signs the body, and did so within `AGE_LIMIT_S`."""
    found = _SIGNATURE.fullmatch(header)
    if found is None or not secret or abs(now - int(found[1])) > AGE_LIMIT_S:
        return False
    return hmac.compare_digest(signature(secret, body, at=int(found[1])), header)


def rung_by(datagram: bytes) -> str:
    """The database of the wiki that a datagram tells of; empty: of none.

    >>> rung_by(b'{"id": 7, "type": "edit", "title": "Foo", "wiki": "dewiki"}')
    'dewiki'
    """
    try:
        found = json.loads(datagram)
    except (ValueError, RecursionError):
        return ""
    name = found.get("wiki") if isinstance(found, dict) else None
    return name if isinstance(name, str) and len(name) <= 100 else ""


def pages_in(document: Any) -> tuple[WikiName, tuple[int, ...]]:
    """The wiki and the pages that ``POST /changes`` tells of.

    Raises:
        InputError: it tells of none.
    """
    if not isinstance(document, dict) or not isinstance(document.get("wiki"), str):
        raise InputError("wiki is missing: the name of the wiki, such as dewiki@WMF.")
    pages = document.get("pages")
    if not isinstance(pages, list) or len(pages) > PAGES_LIMIT:
        raise InputError(f"pages is missing: a list of at most {PAGES_LIMIT} objects.")
    ids = [id_ for each in pages if (id_ := _page_id(each))]
    if len(ids) < len(pages):
        raise InputError("Each page needs page_id, a number above 0.")
    return parse_wiki(document["wiki"]), tuple(dict.fromkeys(ids))


def _page_id(given: Any) -> int:
    found = given.get("page_id") if isinstance(given, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def level_in(document: Any) -> LevelAsked:
    """What ``POST /level`` asks for.

    Raises:
        InputError: something is missing or of another kind.
    """
    if not isinstance(document, dict):
        raise InputError("An object is needed.")
    texts = [document.get(name) for name in ("wiki", "user", "url", "reason")]
    level = document.get("level")
    are_texts = all(isinstance(each, str) and len(each) <= _TEXT_LIMIT for each in texts)
    if not are_texts or not (level is None or (isinstance(level, str) and len(level) <= 100)):
        raise InputError("wiki, user, url and reason are texts, level is one or null.")
    wiki, user, url, reason = (str(each) for each in texts)
    if not user.strip() or not url.strip():
        raise InputError("user and url must be said.")
    return LevelAsked(parse_wiki(wiki), user, url, level, reason)


def create_app(ringing: Ringing) -> Starlette:
    """The bell's side of HTTP."""
    used: OrderedDict[str, None] = OrderedDict()

    async def signed(request: Request) -> Any:
        body = await _body(request)
        header = request.headers.get("x-weboid-signature", "")
        now = ringing.clock.now().timestamp()
        if not is_signed(ringing.secret, header, body, now=now):
            raise LevelRefusedError(
                "The signature is missing, wrong or too old: both sides need the same secret and clocks "
                f"that differ by less than {AGE_LIMIT_S} s."
            )
        if request.url.path == "/level" and header in used:
            raise LevelRefusedError("That was asked for already.")
        used[header] = None
        while len(used) > SIGNATURES_KEPT:
            used.popitem(last=False)
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise InputError("The body is no JSON.") from error

    async def changes(request: Request) -> Response:
        wiki, ids = pages_in(await signed(request))
        if not ringing.ring(wiki.dbname, wiki.farm, ids):
            return _error(404, f"Nobody watches {wiki} here.")
        return Response(status_code=204)

    async def level(request: Request) -> Response:
        asked = level_in(await signed(request))
        if ringing.set_level is None:
            return _error(404, "Levels cannot be set here.")
        held = await ringing.set_level(asked)
        return JSONResponse({"url": asked.url, "level": held})

    return Starlette(
        routes=[
            Route("/changes", _answered(changes), methods=["POST"]),
            Route("/level", _answered(level), methods=["POST"]),
        ]
    )


@asynccontextmanager
async def hanging(host: str, port: int, ringing: Ringing) -> AsyncIterator[tuple[str, int]]:
    """A bell at that address until the end of the block; port 0 takes a free one.

    Yields:
        Host and port.

    Raises:
        UnavailableError: nothing can listen there.
    """
    listener, datagrams = _sockets(host, port)
    loop = asyncio.get_running_loop()
    config = uvicorn.Config(
        create_app(ringing),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        limit_concurrency=CONNECTIONS_LIMIT,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    transport, _ = await loop.create_datagram_endpoint(
        lambda: _Datagrams(ringing.ring), sock=datagrams
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await _started(server, serving)
        yield listener.getsockname()[:2]
    finally:
        transport.close()
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        listener.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, ring: Ring) -> None:
        self._ring = ring

    def datagram_received(self, data: bytes, _addr: object) -> None:
        name = rung_by(data)
        if name:
            self._ring(name, None, ())


class _Server(uvicorn.Server):
    """Uvicorn that leaves signals to whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them alone."""
        yield


def _sockets(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    """A listener for HTTP and one for datagrams, at the same port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener: socket.socket | None = None
    try:
        listener = socket.create_server((host, port), family=family, backlog=64)
        datagrams = socket.socket(family, socket.SOCK_DGRAM)
        datagrams.setblocking(False)  # noqa: FBT003 the library's own
        datagrams.bind(listener.getsockname()[:2])
    except (OSError, OverflowError) as error:
        if listener is not None:
            listener.close()
        raise UnavailableError(
            f"The bell cannot listen at {host}:{port}: {error}. Free the port, or name another."
        ) from error
    return listener, datagrams


async def _started(server: uvicorn.Server, serving: "asyncio.Task[None]") -> None:
    async with asyncio.timeout(_START_LIMIT_S):
        while not server.started:
            if serving.done():
                serving.result()
                raise InvariantError("The bell's server ended before it began.")
            await asyncio.sleep(0.01)


async def _body(request: Request) -> bytes:
    kept = bytearray()
    try:
        async with asyncio.timeout(BODY_LIMIT_S):
            async for piece in request.stream():
                kept += piece
                if len(kept) > BODY_LIMIT_BYTES:
                    raise InputError(f"A body has at most {BODY_LIMIT_BYTES} bytes.")
    except (ClientDisconnect, TimeoutError) as error:
        raise InputError("The body did not come.") from error
    return bytes(kept)


def _answered(
    handler: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """The handler with our errors as answers."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except LevelRefusedError as error:
            return _error(403, str(error))
        except InputError as error:
            return _error(400, str(error))
        except TransientError as error:
            return _error(503, str(error))

    return handle


def _error(status: int, said: str) -> JSONResponse:
    return JSONResponse({"error": said}, status_code=status)
