"""Frame of the console's pages: the stores that they read, templates, navigation and results of operations.

An application mounts `pages_app` to signed-in users only: ``request.state.user`` is a `SignedInUser`. Pages change
nothing: their forms are posted to ``operation_path(id)`` with the fields of the operation, ``csrf`` and ``back``. The
operation redirects to ``back`` with ``done=id`` in the query, whose message is in `DONE`, or answers with
`ConsoleFrame.problem`.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, urlencode

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from core.clock import Clock
from core.config.settings import Settings
from core.errors import InputError, TransientError, UnavailableError
from core.layout import Layout
from core.timestamps import format_duration
from crawler.frontier.base import Frontier
from crawler.status.collection_status import StatusReader
from links.check_history import date_of
from links.check_result import words_of
from links.feedback.marks import MarkKind
from links.feedback.replacements import ProposalStage
from links.registry.bot_edits import EditState
from links.states import LinkState
from playback.access.control import AccessControl
from playback.access.decision_store import DecisionStore
from playback.access.level_store import LevelStore
from playback.web.i18n import SOURCE, localized_path, noop, page_language, short_moment, translate
from playback.web.page_renderer import HERE as READER_FOLDER
from playback.web.page_renderer import PageRenderer, path_with_query, scripted_headers, with_language
from playback.web.page_store import PageRecords, PageStore
from playback.web.registry.registry_forms import read_body
from playback.web.registry.registry_service import RegistrySource
from warc.artifact_reader import ArtifactReader
from warc.index.database import IndexDatabase
from warc.text_index.reader import TextIndex
from weboid.console.accounts import AccountStore, SignedInUser
from weboid.console.background_tasks import BackgroundTasks

HERE = Path(__file__).parent
CONSOLE_PATH = "/console"
ALL_CAPTURES_ROLE = "curator"  # sees captures that readers are not shown
FORM_BYTES = 4 << 20  # some 50,000 URLs
_NO_RIGHT = noop("Your role does not allow this. Ask an administrator of this archive.")
_MISSING = noop("There is no such page, or it has been removed.")
AWAY = noop("A database does not answer at the moment. Try again in a few seconds.")
_FIELD_FAULTS = (  # of pydantic, about what people leave out or mistype
    noop("Field required"),
    noop("String should have at least 1 character"),
    noop("Input should be a valid integer, unable to parse string as an integer"),
    noop("Input should be a valid number, unable to parse string as a number"),
)
RETRY_AFTER = {"Retry-After": "5"}  # of answers while a store is not available
_LOG = logging.getLogger(__name__)
_Handler = TypeVar("_Handler", bound=Callable[..., Any])
_SECTIONS = (
    ("", noop("Overview"), "reader"),
    ("crawl", noop("Crawl"), "reader"),
    ("captures", noop("Captures"), "reader"),
    ("links", noop("Links"), "reader"),
    ("bot", noop("Bot"), "reviewer"),
    ("rules", noop("Rules"), "reviewer"),
    ("settings", noop("Settings"), "operator"),
    ("health", noop("Health"), "operator"),
    ("users", noop("Access"), "reader"),
    ("audit", noop("Changes"), "admin"),
)
_PAGE_ROLES = {
    **{key: role for key, _, role in _SECTIONS},
    "crawl/queue": "reviewer",
    "crawl/log": "reviewer",
    "crawl/new": "operator",
}
_OUTCOMES = {
    "complete": noop("Complete"),
    "partial": noop("Partial"),
    "failed": noop("Failed"),
    "skipped": noop("Skipped"),
    "retry": noop("Will be retried"),
}
_STATES = {
    "queued": noop("Waiting"),
    "claimed": noop("In progress"),
    "done": noop("Archived"),
    "skipped": noop("Skipped"),
    "dead": noop("Failed"),
}
LINK_STATES = {
    LinkState.ALIVE: ("good", noop("Works")),
    LinkState.DYING: ("fair", noop("Failing")),
    LinkState.DEAD: ("bad", noop("Dead")),
    LinkState.BLOCKED: ("fair", noop("Blocks checks")),
    LinkState.USURPED: ("bad", noop("Usurped")),
    LinkState.DEVIATED: ("fair", noop("Changed")),
    LinkState.PERMALIVE: ("good", noop("Marked as working")),
    LinkState.PERMADEAD: ("bad", noop("Marked as dead")),
    LinkState.UNKNOWN: ("unknown", noop("Not checked yet")),
    LinkState.INVALID: ("unknown", noop("Invalid")),
    LinkState.EXCLUDED: ("unknown", noop("Excluded")),
}
EDIT_STATES = {
    EditState.INTENDED: ("", noop("being sent")),
    EditState.MADE: ("good", noop("made")),
    EditState.KEPT: ("good", noop("kept")),
    EditState.FAILED: ("bad", noop("failed")),
    EditState.REVERTED: ("fair", noop("reverted")),
    EditState.ACCEPTED: ("fair", noop("revert accepted")),
    EditState.DECLINED: ("", noop("revert declined")),
    EditState.SWEPT: ("", noop("gone with other edits")),
    EditState.GONE: ("", noop("page deleted")),
}
_MARKS = {
    MarkKind.PERMALIVE: noop("Marked as working"),
    MarkKind.PERMADEAD: noop("Marked as dead"),
    MarkKind.NEVER: noop("never checked"),
    MarkKind.ALWAYS: noop("checked as others"),
    MarkKind.SETTING: noop("checked differently"),
}
_STAGES = {
    ProposalStage.WAITING: ("", noop("not tested yet")),
    ProposalStage.WORKS: ("good", noop("works")),
    ProposalStage.FAILED: ("bad", noop("fails")),
}
ROLE_NAMES = {
    "reader": noop("Reader"),
    "reviewer": noop("Reviewer"),
    "curator": noop("Curator"),
    "operator": noop("Operator"),
    "admin": noop("Administrator"),
}


@dataclass(frozen=True, slots=True)
class ConsoleStores:
    """Stores of a collection that the console reads and changes. Thread-safe."""

    layout: Layout
    settings: Settings
    status: StatusReader
    frontier: Frontier
    database: IndexDatabase
    access: AccessControl
    decisions: DecisionStore
    levels: LevelStore
    registry: RegistrySource
    texts: TextIndex
    clock: Clock
    tasks: BackgroundTasks
    accounts: AccountStore
    option_faults: Callable[[Path], Iterable[str]]  # errors of options in a folder's weboid.toml

    def pages(self, user: SignedInUser) -> PageStore:
        """Return the captures that the user may see: curators all, others those that readers are shown."""
        return PageStore(self.database, None if user.may(ALL_CAPTURES_ROLE) else self.access)

    def records(self, user: SignedInUser) -> PageRecords:
        """Return the artifacts of these captures."""
        return PageRecords(self.pages(user), ArtifactReader(self.layout))


class ConsoleFrame:
    """Renderer of the console's pages."""

    def __init__(
        self,
        *,
        archive_name: str = "",
        front_origin: str = "",
        operation_path: Callable[[str], str],
        has_registry: Callable[[], bool],
    ) -> None:
        """Create the templates; `operation_path` gives the address of an operation's form by its name."""
        self.front_origin = front_origin  # of the reader pages; empty when they are not known
        self._render = PageRenderer(
            front_origin,
            archive_name,
            (HERE / "templates",),
            front_origin=front_origin,
            console_path=console_path,
            operation_path=operation_path,
            sign_out_path=operation_path("sign_out"),
            navigation=lambda user: [
                (key, translate(name))
                for key, name, role in _SECTIONS
                if user.may(role) and (has_registry() or key not in ("links", "bot"))
            ],
            role_name=lambda role: translate(ROLE_NAMES[role]),
            outcome_name=lambda outcome: translate(_OUTCOMES[outcome]) if outcome in _OUTCOMES else outcome,
            state_name=state_name,
            advice=lambda reason: translate(next_step(reason)),
            filters={
                "duration": lambda value: format_duration(
                    value.total_seconds() if isinstance(value, timedelta) else value
                ),
                "clock": short_moment,
                "at": lambda seconds: datetime.fromtimestamp(seconds, UTC),
                "date": lambda number: "" if number is None else str(date_of(number)),
                "result": lambda code: translate(words_of(code)),
                "link_state": lambda state: _marked(LINK_STATES[state]),
                "edit_state": lambda state: _marked(EDIT_STATES[state]),
                "stage": lambda stage: _marked(_STAGES[ProposalStage(stage)]),
                "mark": lambda kind: translate(_MARKS[kind]),
            },
        )

    def __call__(self, template: str, request: Request, code: int = 200, **values: Any) -> Response:
        """Render a page for the request's user, ``request.state.user``; ``done`` in its query names a done operation."""
        done = DONE.get(request.query_params.get("done", ""), "")
        query = [(key, value) for key, value in request.query_params.multi_items() if key != "done"]
        path = page_language.get().prefix + page_language.get().path.partition("?")[0]
        here = f"{path}?{urlencode(query)}" if query else path
        section = request.url.path.removeprefix(CONSOLE_PATH).strip("/").partition("/")[0]
        values = {"done": done and translate(done), "error": "", "here": here, "section": section, **values}
        user = request.state.user
        return self._render(f"console/{template}", code, scripted_headers(""), user=user, **values)

    def problem(
        self,
        request: Request,
        code: int,
        text: str,
        back: str = "",
        draft: Mapping[str, Any] | None = None,
        entered: Sequence[tuple[str, str]] = (),
    ) -> Response:
        """Return the page of a refused operation: the reason, the way back, settings to correct, what was entered."""
        values = {"error": text, "back": back or console_path(), "draft": draft, "entered": entered}
        return self("problem.html", request, code, section=None, **values)


async def read_form(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form; HTTPException: it is none, or too large."""
    body = await read_body(request, ("application/x-www-form-urlencoded",), FORM_BYTES)
    try:
        return parse_qs(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=20_000)
    except ValueError as error:
        raise HTTPException(413, "The form has too many fields.") from error


def fault_of(error: Exception) -> str:
    """Return the text of an error in the user's language; of one of a form's fields the first, with the field's name."""
    if isinstance(error, InputError):
        return translate(error.template, **error.values)
    if not isinstance(error, ValidationError):
        return translate(str(error))
    first = error.errors()[0]
    field, message = first["loc"][0] if first["loc"] else "form", first["msg"]
    return f"{field}: {translate(message)}"


def console_page(path: str, *methods: str) -> Callable[[_Handler], _Handler]:
    """Make a method of `ConsolePages` the answer to requests, by default GET, of a path below `CONSOLE_PATH`."""

    def mark(handler: _Handler) -> _Handler:
        handler.__dict__["route"] = path, methods or None
        return handler

    return mark


class ConsolePages:
    """Pages of one section of the console: functions of a request, which Starlette runs in threads."""

    def __init__(self, stores: ConsoleStores, frame: ConsoleFrame) -> None:
        self._stores = stores
        self._frame = frame

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the methods that are a `console_page`, plain paths before those with parameters."""
        handlers = [getattr(self, name) for name, each in vars(type(self)).items() if hasattr(each, "route")]
        handlers.sort(key=lambda each: "{" in each.route[0])
        return [Route(f"{CONSOLE_PATH}/{each.route[0]}".rstrip("/"), each, methods=each.route[1]) for each in handlers]


def pages_app(stores: ConsoleStores, frame: ConsoleFrame) -> Starlette:
    """Create the application of all pages below `CONSOLE_PATH`, with their style sheets and scripts at ``/static``."""
    from weboid.console.admin_pages import AdminPages
    from weboid.console.capture_pages import CapturePages
    from weboid.console.crawl_pages import CrawlPages
    from weboid.console.link_pages import BotPages, LinkPages

    def failed(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            is_missing = error.status_code == 404 and error.detail == "Not Found"
            return frame.problem(request, error.status_code, translate(_MISSING) if is_missing else error.detail)
        _LOG.warning("console.store_unavailable error=%s", error)
        answer = frame.problem(request, 503, translate(AWAY), str(request.url.path))
        answer.headers.update(RETRY_AFTER)
        return answer

    sections: tuple[type[ConsolePages], ...] = (CrawlPages, CapturePages, LinkPages, BotPages, AdminPages)
    routes = [route for each in sections for route in each(stores, frame).routes()]
    static = StaticFiles(directory=READER_FOLDER / "static", packages=[("weboid.console", "static")])
    return Starlette(
        routes=[*routes, Mount("/static", static)],
        middleware=[Middleware(with_language, default=SOURCE), Middleware(_with_roles, frame=frame)],
        exception_handlers={HTTPException: failed, TransientError: failed, UnavailableError: failed},
    )


def _with_roles(app: ASGIApp, frame: ConsoleFrame) -> ASGIApp:
    """Return an ASGI application that refuses pages whose role the user lacks."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        inner = app
        if scope["type"] == "http":
            request = Request(scope)
            steps = request.url.path.removeprefix(CONSOLE_PATH).strip("/").split("/")
            roles = [_PAGE_ROLES.get("/".join(steps[:count]), "reader") for count in (1, 2)]
            if not all(map(request.state.user.may, roles)):
                inner = frame.problem(request, 403, translate(_NO_RIGHT))
        await inner(scope, receive, send)

    return answer


def console_path(*parts: str, **query: str) -> str:
    """Return the path of a console page, with the language prefix that the user chose."""
    steps = "/".join(quote(part, safe="") for part in parts if part)
    return path_with_query(localized_path(f"{CONSOLE_PATH}/{steps}" if steps else CONSOLE_PATH), query)


def _marked(named: tuple[str, str]) -> tuple[str, str]:
    return named[0], translate(named[1])


def state_name(state: str) -> str:
    """Return the name of an `ItemState` in the user's language."""
    return translate(_STATES[state])


DONE = {
    "save_capture": noop("The page will be captured."),
    "create_crawl": noop("The crawl has been queued."),
    "change_limits": noop("The limits have been changed."),
    "pause_crawl": noop("The crawl is paused; pages in progress finish."),
    "resume_crawl": noop("The crawl continues."),
    "stop_crawl": noop("The crawl stops after the pages in progress."),
    "pause_host": noop("The host is paused."),
    "resume_host": noop("The host may be visited again."),
    "retry_items": noop("The pages have been queued again."),
    "move_items": noop("The page has been moved to the front of the queue."),
    "drop_items": noop("The page has been removed from the queue."),
    "add_policy": noop("The rule applies within a second."),
    "remove_policy": noop("The rule has been removed."),
    "add_takedown": noop("The content has been taken down."),
    "lift_takedown": noop("The take-down has been lifted."),
    "set_level": noop("The level has been set."),
    "mark_links": noop("The links have been marked."),
    "remove_replacement": noop("The proposal has been removed."),
    "check_links": noop("The links are checked next."),
    "remove_marks": noop("The marks have been removed."),
    "report_links": noop("The links have been reported as reachable."),
    "withdraw_link_reports": noop("The reports have been removed."),
    "propose_link_replacement": noop("The replacement has been proposed. It is tested before it is shown."),
    "approve_link_replacement": noop("The replacement is shown."),
    "set_bot": noop("The setting of the bot has been changed."),
    "switch_bot": noop("The setting of the bot has been changed."),
    "approve_repair": noop("The page has been edited."),
    "skip_repair": noop("The bot skips the page until it changes."),
    "review_edit": noop("The review has been stored."),
    "set_user": noop("The account has been stored."),
    "change_password": noop("Your password has been changed, and your other sessions have ended."),
    "remove_user": noop("The account has been removed."),
    "add_token": noop("The token has been created."),
    "write_settings": noop("Saved. It takes effect when the processes start again."),
    "remove_token": noop("The token has been removed."),
}
_NEXT_STEPS = (
    (("host down",), noop("The host could not be reached several times. Check its address, then resume the host.")),
    (("dns",), noop("The name does not resolve. Correct the address, or remove it.")),
    (("connect", "net::ERR_CONNECTION"), noop("The server did not answer. Retry later.")),
    (("tls", "net::ERR_CERT", "net::ERR_SSL"), noop("The certificate or TLS failed. Retry later, or accept the loss.")),
    (("deadline", "net::ERR_TIMED_OUT"), noop("The page took too long. Raise visit.timeout_s for this host.")),
    (("crashed", "closed", "browser"), noop("The page crashed its browser. Raise browser.page_memory_mb, or retry.")),
    (("internal error",), noop("A bug in Weboid. Report it with the traceback in the log.")),
    (("robots",), noop("robots.txt forbids the page. Set policy.robots where you have permission.")),
    (("blacklist", "list"), noop("A rule of this archive forbids the page. Change the rule if it is wrong.")),
    (("autoblacklist", "challenge"), noop("The site refuses crawlers. Slow down, or ask its operator for access.")),
    (("scope", "budget"), noop("The page is outside the crawl's scope or limits. Raise them to include it.")),
    (("address", "host", "port"), noop("The address is not on the public web. Allow its network under [egress].")),
    (("failed link",), noop("The last visit found no page there. It is tried again later.")),
    (("noarchive",), noop("The page opts out of archiving.")),
)
_OTHER_STEP = noop("See the examples, then retry the pages.")


def next_step(reason: str) -> str:
    """Return the advice for a group of failures by the first words of their reason, in the source language.

    >>> next_step("dns")
    'The name does not resolve. Correct the address, or remove it.'
    """
    return next((text for starts, text in _NEXT_STEPS if reason.startswith(starts)), _OTHER_STEP)
