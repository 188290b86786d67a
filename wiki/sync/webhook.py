"""Webhook for change notifications and stored-level requests: signatures, HTTP, UDP (docs/how-to/wiki.md).

Datagrams (MediaWiki's ``$wgRCFeeds`` in JSON) are unauthenticated, so they only trigger an earlier poll of the
wiki; HTTP requests are signed with the secret of one wiki. Requests and datagrams are limited in length, number
and age; a signature is accepted once, also after a restart.
"""

import asyncio
import hashlib
import hmac
import json
import logging
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from core.clock import Clock
from core.errors import InputError, ListenError, TransientError, WeboidError
from links.registry.wikis import WikiName, parse_wiki
from net.http_server import ConnectionLimits, HttpServer, open_listener, running

BODY_LIMIT_BYTES = 1 << 20
BODY_LIMIT_S = 10.0
PAGES_LIMIT = 10_000  # in one request
AGE_LIMIT_S = 300
SECRET_LEAST_CHARS = 32
SECRET_MOST_CHARS = 4_096
ANY_WIKI = ""  # whose secret signs for the only wiki that is watched
_LIMITS = ConnectionLimits(50, per_peer=20, head_s=5)
_SIGNATURE = re.compile(r"t=(?P<at>[0-9]{1,12}),n=(?P<nonce>[0-9a-f]{16,64}),v2=(?P<mac>[0-9a-f]{64})", re.ASCII)
_OLD_SIGNATURE = re.compile(r"t=[0-9]{1,12},v1=", re.ASCII)
_TEXT_LIMIT = 8_192
_CLOSE = {"Connection": "close"}
_STORED_LEVEL = "/stored-level"  # a separate path, so that an older release does not confuse the two

log = logging.getLogger(__name__)


class RefusedRequestError(InputError):
    """Refusal of a request: invalid signature, or the user may not set that level for that link."""


@dataclass(frozen=True, slots=True)
class LevelRequest:
    """Request of a user for a level of a link."""

    wiki: WikiName
    user: str
    url: str
    level: str | None  # of playback or of recording; None: withdraw the earlier request
    reason: str
    is_stored: bool = False  # it concerns recording


@dataclass(frozen=True, slots=True)
class WikiLevelsRequest:
    """Levels that a wiki's LocalSettings.php sets for all copies."""

    wiki: WikiName
    shown: str | None  # the level of playback; None: not set, an earlier value is withdrawn
    stored: str | None  # level of what is recorded for links of its pages; likewise


# Sets the levels of a wiki. InputError: they are refused, with the reason.
SetWikiLevels = Callable[[WikiLevelsRequest], Awaitable[None]]
# Sets a level; returns the effective level. RefusedRequestError: 403; InputError: 400.
SetLevel = Callable[[LevelRequest], Awaitable[str | None]]
# Arguments: a wiki's database, its farm if known, and the changed pages, if named.
NotifyWiki = Callable[[str, str | None, tuple[int, ...]], bool]
# Records a signature (32 bytes) of that time as used; False: it was used before.
UseSignature = Callable[[bytes, datetime], Awaitable[bool]]


@dataclass(frozen=True)
class WebhookOptions:
    """Callbacks and secrets of the webhook."""

    notify: NotifyWiki  # notifies a wiki's feed; returns False when the wiki is not watched
    secrets: Mapping[str, bytes]  # by wiki or `ANY_WIKI`; empty: datagrams only
    clock: Clock  # for the age of signatures
    use_signature: UseSignature  # records used signatures
    watched: Callable[[], frozenset[str]] = frozenset  # the wikis `ANY_WIKI` may stand for
    set_level: SetLevel | None = None  # None: levels cannot be set here
    set_wiki_levels: SetWikiLevels | None = None  # likewise


def check_secret(text: str) -> bytes:
    """Validate the secret in a file's text. Raises InputError: it is too short or too long."""
    text = text.strip()
    if not SECRET_LEAST_CHARS <= len(text) <= SECRET_MOST_CHARS:
        raise InputError(
            f"The webhook's secret must have {SECRET_LEAST_CHARS} to {SECRET_MOST_CHARS} characters: "
            "make one with `openssl rand -hex 32`."
        )
    return text.encode()


def sign_request(secret: bytes, body: bytes, *, at: int, nonce: str, path: str) -> str:
    """Return the signature header of a POST at that time (seconds since 1970)."""
    return f"t={at},n={nonce},v2={_mac(secret, hashlib.sha256(body).hexdigest(), at, nonce, path)}"


def find_signer(secrets: Mapping[str, bytes], header: str, body: bytes, *, now: float, path: str) -> str | None:
    """Return the owner of the secret that signed the POST within `AGE_LIMIT_S` of now; None without one."""
    match = _SIGNATURE.fullmatch(header)
    if match is None or abs(now - int(match["at"])) > AGE_LIMIT_S:
        return None
    digest = hashlib.sha256(body).hexdigest()
    for owner, secret in secrets.items():
        expected_mac = _mac(secret, digest, int(match["at"]), match["nonce"], path)
        if secret and hmac.compare_digest(expected_mac, match["mac"]):
            return owner
    return None


def _mac(secret: bytes, digest: str, at: int, nonce: str, path: str) -> str:
    text = "\n".join(("v2", str(at), nonce, "POST", path, digest))
    return hmac.digest(secret, text.encode(), "sha256").hex()


def parse_datagram(datagram: bytes) -> str:
    """Return the wiki's database named in a datagram; empty without one.

    >>> parse_datagram(b'{"id": 7, "type": "edit", "title": "Foo", "wiki": "dewiki"}')
    'dewiki'
    """
    try:
        document = json.loads(datagram)
    except (ValueError, RecursionError):
        return ""
    name = document.get("wiki") if isinstance(document, dict) else None
    return name if isinstance(name, str) and len(name) <= 100 else ""


def parse_changes(document: Any) -> tuple[WikiName, tuple[int, ...]]:
    """Return the wiki and the page ids of ``POST /changes``; raises InputError."""
    if not isinstance(document, dict) or not isinstance(document.get("wiki"), str):
        raise InputError("wiki is missing: the name of the wiki, such as dewiki@WMF.")
    pages = document.get("pages")
    if not isinstance(pages, list) or len(pages) > PAGES_LIMIT:
        raise InputError(f"pages is missing: a list of at most {PAGES_LIMIT} objects.")
    ids: list[Any] = [each.get("page_id") if isinstance(each, dict) else None for each in pages]
    if not all(type(each) is int and each > 0 for each in ids):
        raise InputError("Each page needs page_id, a number above 0.")
    return parse_wiki(document["wiki"]), tuple(dict.fromkeys(ids))


def parse_level(document: Any) -> LevelRequest:
    """Parse the body of ``POST /level``. Raises InputError: a field is missing or of the wrong type."""
    if not isinstance(document, dict):
        raise InputError("An object is needed.")
    texts = [document.get(name) for name in ("wiki", "user", "url", "reason")]
    level = document.get("level")
    are_texts = all(isinstance(each, str) and len(each) <= _TEXT_LIMIT for each in texts)
    if not are_texts or not (level is None or (isinstance(level, str) and len(level) <= 100)):
        raise InputError("wiki, user, url and reason are texts, level is one or null.")
    wiki, user, url, reason = (str(each) for each in texts)
    if not user.strip() or not url.strip():
        raise InputError("user and url are required.")
    return LevelRequest(parse_wiki(wiki), user, url, level, reason)


def parse_wiki_levels(document: Any, wiki: WikiName) -> WikiLevelsRequest | None:
    """Return the wiki's levels in ``POST /changes``, None without any; raises InputError."""
    levels = document.get("wiki_levels")
    if levels is None:
        return None
    if not isinstance(levels, dict):
        raise InputError("wiki_levels is an object.")
    shown, stored = levels.get("shown"), levels.get("stored")
    for each in (shown, stored):
        if each is not None and not (isinstance(each, str) and len(each) <= 100):
            raise InputError("wiki_levels: shown and stored are levels or null.")
    return WikiLevelsRequest(wiki, shown, stored)


def create_app(options: WebhookOptions) -> Starlette:
    """Create the HTTP application of the webhook."""
    webhook = _WebhookRoutes(options)
    routes = {"/changes": webhook.changes, "/level": webhook.level, _STORED_LEVEL: webhook.level, "/test": webhook.test}
    return Starlette(
        routes=[Route(path, handler, methods=["POST"]) for path, handler in routes.items()],
        exception_handlers=dict.fromkeys((InputError, TransientError), _error_response),
    )


class _WebhookRoutes:
    def __init__(self, options: WebhookOptions) -> None:
        self._options = options

    async def changes(self, request: Request) -> Response:
        owner, document = await self._signed(request)
        wiki, ids = parse_changes(document)
        self._check_signer(owner, wiki)
        if not self._options.notify(wiki.dbname, wiki.farm, ids):
            return _error(404, f"No process here watches {wiki}.")
        set_levels = self._options.set_wiki_levels
        try:
            if set_levels is not None and (levels := parse_wiki_levels(document, wiki)) is not None:
                await set_levels(levels)
        except WeboidError as error:  # the pages are heard all the same
            log.warning("%s: its levels are not accepted: %s", wiki, error)
            return JSONResponse({"error": str(error)}, headers=_CLOSE)
        return Response(status_code=204, headers=_CLOSE)

    async def level(self, request: Request) -> Response:
        """Set a level, of the kind given by the path."""
        owner, document = await self._signed(request)
        level_request = replace(parse_level(document), is_stored=request.url.path == _STORED_LEVEL)
        self._check_signer(owner, level_request.wiki)
        if self._options.set_level is None:
            return _error(404, "Levels cannot be set here.")
        held = await self._options.set_level(level_request)
        return JSONResponse({"url": level_request.url, "level": held}, headers=_CLOSE)

    async def test(self, request: Request) -> Response:
        """Answer as `changes` would, without effect."""
        owner, document = await self._signed(request)
        wiki, _ = parse_changes(document)
        self._check_signer(owner, wiki)
        if str(wiki) not in self._options.watched():
            return _error(404, f"No process here watches {wiki}.")
        return Response(status_code=204, headers=_CLOSE)

    async def _signed(self, request: Request) -> tuple[str, Any]:
        body = await _body(request)
        header = request.headers.get("x-weboid-signature", "")
        now = self._options.clock.now().timestamp()
        owner = find_signer(self._options.secrets, header, body, now=now, path=request.url.path)
        match = _SIGNATURE.fullmatch(header)
        if owner is None or match is None:
            if _OLD_SIGNATURE.match(header):
                raise RefusedRequestError(
                    "The signature uses the format of an older release: update the wiki's extension."
                )
            if match is not None and abs(age := now - int(match["at"])) > AGE_LIMIT_S:
                raise RefusedRequestError(
                    f"The signature is {age:.0f} s old: set the clocks of both machines, which may "
                    f"differ by {AGE_LIMIT_S} s."
                )
            raise RefusedRequestError("The signature is missing or wrong: both sides need the same secret.")
        moment = datetime.fromtimestamp(int(match["at"]), UTC)
        if not await self._options.use_signature(bytes.fromhex(match["mac"]), moment):
            raise RefusedRequestError("This request was sent before: each request needs its own nonce.")
        try:
            return owner, json.loads(body)
        except (ValueError, RecursionError) as error:
            raise InputError("The body is not JSON.") from error

    def _check_signer(self, owner: str, wiki: WikiName) -> None:
        is_valid = owner == str(wiki)
        if owner == ANY_WIKI:
            has_own = str(wiki) in self._options.secrets
            is_valid = not has_own and self._options.watched() <= {str(wiki)}
        if not is_valid:
            raise RefusedRequestError(
                f"The secret is not valid for {wiki}: give each wiki its own, --webhook-secret-file {wiki}=FILE."
            )


@asynccontextmanager
async def serve_webhook(host: str, port: int, options: WebhookOptions) -> AsyncIterator[tuple[str, int]]:
    """Serve the webhook until the end of the block; yield host and port. Raises ListenError."""
    listener = open_listener(host, port)  # and a UDP socket at the same port
    try:
        datagrams = socket.socket(listener.family, socket.SOCK_DGRAM)
        datagrams.setblocking(False)  # noqa: FBT003 the library's own
        datagrams.bind(listener.getsockname()[:2])
    except OSError as error:
        listener.close()
        raise ListenError(host, port, error) from error
    loop = asyncio.get_running_loop()
    server = HttpServer(create_app(options), _LIMITS, timeout_keep_alive=1, timeout_graceful_shutdown=1)
    transport, _ = await loop.create_datagram_endpoint(lambda: _DatagramProtocol(options.notify), sock=datagrams)
    try:
        async with running(server, listener):
            yield listener.getsockname()[:2]
    finally:
        transport.close()


class _DatagramProtocol(asyncio.DatagramProtocol):
    def __init__(self, notify: NotifyWiki) -> None:
        self._ring = notify

    def datagram_received(self, data: bytes, _addr: object) -> None:
        name = parse_datagram(data)
        if name:
            self._ring(name, None, ())


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_LIMIT_S):
            async for piece in request.stream():
                body += piece
                if len(body) > BODY_LIMIT_BYTES:
                    raise InputError(f"The body is limited to {BODY_LIMIT_BYTES} bytes.")
    except (ClientDisconnect, TimeoutError) as error:
        raise InputError("The body did not arrive.") from error
    return bytes(body)


async def _error_response(_request: Request, error: Exception) -> Response:
    is_refused = isinstance(error, RefusedRequestError)
    return _error(403 if is_refused else 400 if isinstance(error, InputError) else 503, str(error))


def _error(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text}, status_code=status, headers=_CLOSE)
