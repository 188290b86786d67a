"""Server of the console: sign-in, sessions, forms of operations, HTTP API and pages, each for signed-in users only.

Requests to ``/api/v1`` may carry ``Authorization: Bearer TOKEN``; all others have the session's cookie. A form is accepted
with the session's ``csrf`` token only, and a request of a session that changes something from our own origin only.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.clock import Clock
from core.config.settings import Settings, store_environment
from core.errors import ConfigError, InputError, TransientError, UnavailableError, WeboidError
from core.layout import Layout
from crawler.frontier.base import STOP_ORDER
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.status.collection_status import StatusReader
from net.http_server import ConnectionLimits, HttpServer, connection_limit, open_listener
from net.http_server import running as running_server
from playback.access.control import AccessControl
from playback.access.decision_store import open_decisions
from playback.access.holds import HoldIndex
from playback.access.level_store import LevelStore
from playback.access.threat_lists import lists_folder
from playback.url_paths import http_origin
from playback.web.i18n import SOURCE, localized_path, noop, split_prefix, translate
from playback.web.page_renderer import fixed_headers, one_origin, scripted_headers, security_headers, with_language
from playback.web.rate_limits import (
    ClientAddresses,
    ReaderRates,
    RequestThrottle,
    TokenRate,
    parse_networks,
    reader_prefix,
)
from playback.web.registry.registry_service import READ_LIMIT_S, RegistrySource
from warc.index.database import open_database
from warc.text_index.reader import open_text_index
from weboid.app.collection_config import parse_origin, read_config
from weboid.console import page_frame
from weboid.console.accounts import COOKIE, AccountStore, ConsoleRole, SignedInUser, SignInDelayError, SignInError
from weboid.console.api import API_PATH, CHALLENGE, NOT_SIGNED_IN, create_api, perform, problem, problem_of
from weboid.console.background_tasks import BackgroundTasks
from weboid.console.oidc import ATTEMPT_AGE, IdentityProvider, ProviderRefusalError, ProviderSettings, read_provider
from weboid.console.operations import OPERATIONS, OperationContext
from weboid.console.task_operations import UPLOAD_BYTES, UPLOAD_PATH

BEGIN_PATH, CALLBACK_PATH = "/oidc/begin", "/oidc/callback"  # of a sign-in at the identity provider
PROVIDER_COOKIE = "weboid_oidc"
ENTERED_PATH = "/sign-in/entered"  # shows the fields of a form without a session
ACCOUNT_RATE = TokenRate(50, 1_500)  # of each account, and of each of its tokens
ADDRESS_RATES = ReaderRates(TokenRate(10, 300), TokenRate(30, 900), TokenRate(300, 3_000))  # of who is not signed in
_OPEN = ("/sign-in", "/enter", "/oidc/", "/static/", "/healthz")  # paths for everybody
_ACTION_PATHS = ("/do/", "/sign-in", "/enter", "/oidc/", "/sign-out", "/healthz")
_SAFE = ("GET", "HEAD")
_HIDDEN_FIELDS = ("csrf", "back", "password", "current", "version")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@contextmanager
def open_stores(
    layout: Layout,
    settings: Settings,
    *,
    clock: Clock,
    database_url: str = "",
    option_faults: Callable[[Path], Iterable[str]] = lambda _: (),
) -> Iterator[page_frame.ConsoleStores]:
    """Open the stores of a collection that the console shows and changes, until the end of the block.

    `option_faults` yields errors of the options of commands in the ``weboid.toml`` of a folder.
    """
    with ExitStack() as stack:
        frontier = stack.enter_context(open_frontier(layout, settings.frontier, settings.politeness))
        database = stack.enter_context(closing(open_database(layout, database_url)))
        decisions = stack.enter_context(closing(open_decisions(layout, database_url)))
        registry = stack.enter_context(closing(RegistrySource(layout, database_url, read_limit_s=READ_LIMIT_S)))
        texts = stack.enter_context(closing(open_text_index(layout, database_url)))
        status = StatusReader(layout, lambda: frontier, settings=settings, clock=clock, background=True)
        environment = store_environment(database_url, settings.frontier.url)
        order = partial(frontier.give_order, STOP_ORDER, "", ""), partial(frontier.take_back, STOP_ORDER, "")
        tasks = stack.enter_context(closing(BackgroundTasks(layout, clock, environment, *order)))
        holds = HoldIndex(decisions, lists_folder(layout.decisions_db))
        yield page_frame.ConsoleStores(
            layout=layout,
            settings=settings,
            status=status,
            frontier=frontier,
            database=database,
            access=AccessControl(decisions, database.rows, clock.now, holds),
            decisions=decisions,
            levels=LevelStore(decisions),
            registry=registry,
            texts=texts,
            clock=clock,
            tasks=tasks,
            accounts=stack.enter_context(
                closing(AccountStore(layout.console_db, clock, audit_days=settings.console.audit_days))
            ),
            option_faults=option_faults,
        )


class UserMiddleware:
    """ASGI middleware that sets ``request.state.user``, and refuses requests without a user, or from another origin."""

    def __init__(self, app: ASGIApp, accounts: AccountStore, origin: str, addresses: ClientAddresses) -> None:
        self._app = app
        self._accounts = accounts
        self._origin = origin
        self._addresses = addresses
        self._throttle = RequestThrottle(ADDRESS_RATES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        path = split_prefix(scope["raw_path"])[1].decode("latin-1")
        is_api = path.startswith(f"{API_PATH}/")
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        user: SignedInUser | None = None
        try:
            if is_api and scheme.lower() == "bearer":
                user = await run_in_threadpool(self._accounts.token, secret.strip())
            else:
                cookie = Request(scope).cookies.get(COOKIE, "")
                # Browsers name the origin of every request that is not GET or HEAD (Fetch, 3.2).
                if scope["method"] not in _SAFE and (cookie or not is_api) and headers.get("origin") != self._origin:
                    await problem(403, "The request comes from another site")(scope, receive, send)
                    return
                if cookie:  # a page that refreshes itself is no use of the session
                    user = await run_in_threadpool(self._accounts.session, cookie, is_used="hx-request" not in headers)
        except WeboidError as error:
            away = problem_of(error) if is_api else PlainTextResponse(str(error), 503, page_frame.RETRY_AFTER)
            await away(scope, receive, send)
            return
        scope.setdefault("state", {})["user"] = user
        response: Response | None = None
        now = time.monotonic()
        if user is None:
            wait_s = self._throttle.wait_s(self._addresses.address_of(Request(scope)), now)
        else:  # counted for its account or token
            wait_s = self._throttle.wait_of([(f"account {user.name}", ACCOUNT_RATE.per_s, ACCOUNT_RATE.burst)], now)
        if wait_s:
            text = f"Too many requests: wait {wait_s} s."
            response = problem(429, "Too many requests", text) if is_api else PlainTextResponse(text, 429)
            response.headers["Retry-After"] = str(wait_s)
        elif user is None and not is_api and not path.startswith(_OPEN):
            prefix = scope["raw_path"][: len(scope["raw_path"]) - len(path)].decode("latin-1")
            if scope["method"] in _SAFE:  # a page that refreshes a part of itself is left as a whole
                code, target = 401 if "hx-request" in headers else 303, f"{prefix}/sign-in"
                response = RedirectResponse(target, code, {"HX-Redirect": target})
            else:  # a form whose session has ended
                entered = f"{prefix}{ENTERED_PATH}"
                scope = {**scope, "path": entered, "raw_path": entered.encode("latin-1")}
        elif user is None and is_api and scope["method"] not in _SAFE:  # before its body is read
            response = problem(401, NOT_SIGNED_IN, headers=CHALLENGE)
        may_upload = user is not None and user.may(ConsoleRole.OPERATOR) and path == f"{API_PATH}{UPLOAD_PATH}"
        read, limit = 0, UPLOAD_BYTES if may_upload else page_frame.FORM_BYTES

        async def receive_bounded() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > limit:
                raise HTTPException(413, "The request is too large.")
            return message

        await (response or self._app)(scope, receive_bounded, send)


@dataclass(frozen=True, slots=True)
class ConsoleForms:
    """Sign-in and sign-out, sign-in links, and the forms of operations."""

    _stores: page_frame.ConsoleStores
    _frame: page_frame.ConsoleFrame
    _provider: IdentityProvider | None
    _addresses: ClientAddresses
    _is_secure: bool

    def app(self) -> Starlette:
        """Return the application of these routes."""
        routes: list[BaseRoute] = [
            Route("/sign-in", self.sign_in, methods=["GET", "POST"]),
            Route(ENTERED_PATH, self.show_entered, methods=["POST"]),
            Route("/enter", self.enter, methods=["GET", "POST"]),
            Route("/do/sign_out", self.sign_out, methods=["POST"]),
            Route("/do/{name}", self.act, methods=["POST"]),
            Route("/healthz", lambda _: JSONResponse({"status": "ok"})),
        ]
        if self._provider is not None:
            routes += [
                Route(BEGIN_PATH, partial(self.begin_at_provider, self._provider)),
                Route(CALLBACK_PATH, partial(self.return_from_provider, self._provider)),
            ]

        def unavailable(request: Request, _error: Exception) -> Response:
            return self._show_sign_in(request, page_frame.AWAY, 503)

        languages = Middleware(with_language, default=SOURCE)
        return Starlette(routes=routes, middleware=[languages], exception_handlers={TransientError: unavailable})

    async def sign_in(self, request: Request) -> Response:
        """Show the form, or begin a session."""
        error, code = "", 200
        if request.method == "POST":
            fields = await page_frame.read_form(request)
            name, password = (fields.get(key, [""])[0] for key in ("name", "password"))
            peer = reader_prefix(self._addresses.address_of(request))
            try:
                secret = await run_in_threadpool(self._stores.accounts.sign_in, name[:100], password[:1_000], peer=peer)
            except SignInDelayError as refused:
                response = self._show_sign_in(request, str(refused), 429)
                response.headers["Retry-After"] = str(refused.retry_after_s)
                return response
            except SignInError as refused:
                error, code = str(refused), 401
            else:
                return self._begin(secret, {"peer": peer})
        return self._show_sign_in(request, error, code)

    async def show_entered(self, request: Request) -> Response:
        """Show what a form without a session has, so that it is not lost; nothing is carried out."""
        fields = await page_frame.read_form(request)
        error = noop("Your session has ended, and nothing was done. Sign in, and enter again what is below.")
        return self._show_sign_in(request, error, 401, entered=entered_in(fields))

    def _show_sign_in(
        self, request: Request, error: str, code: int, link: str = "", entered: Sequence[tuple[str, str]] = ()
    ) -> Response:
        request.state.user = SignedInUser("", ConsoleRole.READER)
        response = self._frame(
            "sign_in.html",
            request,
            code,
            section=None,
            error=error and translate(error),
            link=link,
            entered=entered,
            sign_in_path=localized_path("/sign-in"),
            provider_path=localized_path(BEGIN_PATH) if self._provider is not None else "",
        )
        response.headers.update(page_frame.RETRY_AFTER if code == 503 else {})
        return response

    async def enter(self, request: Request) -> Response:
        """Begin the session of a sign-in link, after a click: programs that preview links do not use it up."""
        if request.method == "GET":
            return self._show_sign_in(request, "", 200, request.query_params.get("key", "")[:200])
        key = (await page_frame.read_form(request)).get("key", [""])[0][:200]
        try:
            return self._begin(await run_in_threadpool(self._stores.accounts.use_link, key), {"by": "link"})
        except SignInError as refused:
            return self._show_sign_in(request, str(refused), 401)
        except TransientError:  # the link was not used up
            return self._show_sign_in(request, page_frame.AWAY, 503, key)

    async def begin_at_provider(self, provider: IdentityProvider, request: Request) -> Response:
        """Send the browser to the identity provider."""
        try:
            address, cookie = await run_in_threadpool(provider.begin)
        except UnavailableError as error:
            return self._show_sign_in(request, str(error), 503)
        response = RedirectResponse(address, 303, {"Cache-Control": "no-store"})
        age = int(ATTEMPT_AGE.total_seconds())
        response.set_cookie(
            PROVIDER_COOKIE, cookie, max_age=age, path="/", secure=self._is_secure, httponly=True, samesite="lax"
        )
        return response

    async def return_from_provider(self, provider: IdentityProvider, request: Request) -> Response:
        """Begin the session of the person whom the identity provider signed in."""
        cookie = request.cookies.get(PROVIDER_COOKIE, "")

        def enter() -> Response:
            subject, name, role = provider.complete(request.query_params, cookie)
            secret = self._stores.accounts.sign_in_subject(subject, name, role)
            # A cookie with SameSite=Strict is not sent while redirects that another site began are followed.
            address = page_frame.console_path()
            page = f'<!doctype html><meta http-equiv="refresh" content="0;url={address}"><a href="{address}">Weboid</a>'
            return self._begin(secret, {"subject": subject}, Response(page, media_type="text/html"))

        try:
            response = await run_in_threadpool(enter)
        except (ProviderRefusalError, UnavailableError) as error:
            code = 401 if isinstance(error, ProviderRefusalError) else 503
            response = self._show_sign_in(request, str(error), code)
        response.delete_cookie(PROVIDER_COOKIE, path="/")
        return response

    def _begin(self, secret: str, details: dict[str, str], response: Response | None = None) -> Response:
        user = self._stores.accounts.session(secret)
        self._stores.accounts.log(user.name if user is not None else "", "sign_in", details, "done")
        response = response or RedirectResponse(page_frame.console_path(), 303)
        response.set_cookie(COOKIE, secret, httponly=True, samesite="strict", secure=self._is_secure, path="/")
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        user: SignedInUser = request.state.user
        if (await page_frame.read_form(request)).get("csrf") == [user.csrf]:
            self._stores.accounts.sign_out(user.session)
        response = RedirectResponse(localized_path("/sign-in"), 303)
        response.delete_cookie(COOKIE, path="/")
        return response

    async def act(self, request: Request) -> Response:
        """Perform the operation that a form names; redirect to its page, or show why it was refused."""
        user: SignedInUser = request.state.user
        fields = await page_frame.read_form(request)
        back = _own_path(fields.pop("back", [""])[0])
        operation = OPERATIONS.get(request.path_params["name"])
        if operation is None or fields.pop("csrf", [""]) != [user.csrf]:
            text = translate("This form is too old. Go back, reload the page, and try again.")
            return self._frame.problem(request, 403, text, back)
        if not user.may(operation.role):
            return self._frame.problem(request, 403, translate("Your role does not allow this."), back)
        only = request.query_params.getlist("only")  # of a form whose buttons call several operations
        document = {
            key: values if len(values) > 1 else values[0] for key, values in fields.items() if not only or key in only
        }
        try:
            arguments = operation.fields.model_validate(document)
            answer = await run_in_threadpool(perform, operation, OperationContext(self._stores, user), arguments)
        except (ValidationError, WeboidError) as error:
            code = 422 if isinstance(error, ValidationError | InputError) else 503
            draft = document if operation.name == "write_settings" and document.keys() >= {"text", "version"} else None
            return self._frame.problem(request, code, page_frame.fault_of(error), back, draft, entered_in(fields))
        if "token" in answer:  # is shown once, and never stored in an address
            return self._frame("secret.html", request, section="users", name=answer["name"], secret=answer["token"])
        parts = urlsplit(back)
        query = f"{parts.query}&" if parts.query else ""
        return RedirectResponse(f"{parts.path}?{query}done={operation.name}", 303)


def entered_in(fields: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return what a form has, to be shown when it was not carried out."""
    texts = ((name, "\n".join(values)) for name, values in fields.items() if name not in _HIDDEN_FIELDS)
    return [each for each in texts if each[1]]


def _own_path(back: str) -> str:
    """Return the path and query of one of our pages; the overview for anything else."""
    parts = urlsplit(back)
    is_own = not parts.scheme and not parts.netloc and back.startswith("/") and not back.startswith(("//", "/\\"))
    return back if is_own and f"{page_frame.CONSOLE_PATH}" in parts.path else page_frame.console_path()


def create_app(
    stores: page_frame.ConsoleStores,
    *,
    origin: str,
    name: str = "",
    front_origin: str = "",
    oidc: ProviderSettings | None = None,
) -> ASGIApp:
    """Create the application for browsers that know it as `origin`."""
    frame = page_frame.ConsoleFrame(
        archive_name=name,
        front_origin=front_origin,
        operation_path=lambda operation: localized_path(f"/do/{operation}"),
        has_registry=stores.registry.is_there,
    )
    api = create_api(stores)
    provider = IdentityProvider(oidc, f"{origin}{CALLBACK_PATH}", stores.clock) if oidc is not None else None
    is_secure = origin.startswith("https:")
    behind = read_config(stores.layout.root).options("serve").get("behind", ())
    local = ("127.0.0.0/8", "::1") if is_secure else ()  # the proxy that has the certificate
    addresses = ClientAddresses(parse_networks((*behind, *local)))
    forms = ConsoleForms(stores, frame, provider, addresses, is_secure).app()
    pages = page_frame.pages_app(stores, frame)

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        path = split_prefix(scope["raw_path"])[1].decode("latin-1").partition("?")[0]
        if path.startswith(f"{API_PATH}/"):
            inner = {**scope, "path": scope["path"][len(API_PATH) :], "root_path": ""}
            await api({**inner, "raw_path": path[len(API_PATH) :].encode("latin-1")}, receive, send)
        elif path.startswith(_ACTION_PATHS):
            await forms(scope, receive, send)
        elif path in ("", "/"):
            await RedirectResponse(page_frame.console_path(), 303)(scope, receive, send)
        else:
            await pages(scope, receive, send)

    return fixed_headers(
        one_origin(UserMiddleware(dispatch, stores.accounts, origin, addresses), origin),
        {**security_headers(""), **scripted_headers("")},
    )


async def serve_console(
    stores: page_frame.ConsoleStores,
    *,
    listen: tuple[str, int],
    origin: str,
    titles: tuple[str, str],
    on_ready: Callable[[str], object],
) -> None:
    """Serve the console until SIGTERM or SIGINT; `on_ready` gets its origin. Raises ConfigError, UnavailableError.

    `titles` are the archive's name and the origin of its reader pages, which may be empty.
    An address that other machines reach needs `origin` with https: a proxy in front of it has the certificate.
    """
    origin = parse_origin(origin)
    host, port = listen
    if host not in _LOOPBACK and not origin.startswith("https://"):
        raise ConfigError(
            "The console can only be reached from this machine, unless a proxy with TLS is in front of it: give that "
            "address as --origin https://console.example, or listen on 127.0.0.1."
        )
    listener = open_listener(host, port)
    origin = origin or http_origin(host, listener.getsockname()[1])
    oidc = read_provider(read_config(stores.layout.root))
    name, front = titles[0], parse_origin(titles[1])
    app = create_app(stores, origin=origin, name=name, front_origin=front, oidc=oidc)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stopped.set)
    server: Any = HttpServer(app, ConnectionLimits(connection_limit(256)), timeout_graceful_shutdown=2)
    async with running_server(server, listener):
        on_ready(origin)
        await stopped.wait()
