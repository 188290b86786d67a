"""Operations of the console and of its API: one typed function for each, with its role and its address.

A function takes the context and validated fields, its other parameters, and returns JSON values, in which `message` is
a sentence for the user. Its annotation describes them in OpenAPI: a TypedDict of what it lists, `FactsOf` a class that
it renders. Pages send the same fields as forms. The work is done by the stores that the commands use.
"""

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Annotated, Any, Literal, NotRequired, TypeVar, get_type_hints
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, create_model
from typing_extensions import TypedDict

from core.config.settings import Settings
from core.errors import InputError
from core.hosts import host_name
from core.json_values import FactsOf, json_facts, json_value
from core.layout import CONFIG_FILE
from core.timestamps import LONGEST_DURATION, parse_duration
from core.urls import fetch_key
from crawler.frontier import frontier_export
from crawler.frontier.base import STOP_ORDER, Frontier, FrontierStats, HostReport, ItemRecord, ItemState, Lane, NewItem
from crawler.jobs.crawl_orders import Job, check_job_name, derive_job_name
from crawler.jobs.list_files import parse_lines, unique_urls
from crawler.profiles import builtin_profiles
from crawler.run.job_run import JobSubmission, submit_job
from crawler.status.collection_status import is_in_use, is_worked_on
from links.registry.database import RegistryStore
from playback.url_paths import page_path
from playback.web.i18n import noop
from playback.web.page_store import CapturedPage
from weboid.app.operator_identity import collection_settings
from weboid.console.accounts import ConsoleRole, SignedInUser
from weboid.console.page_frame import ConsoleStores

URLS_LIMIT = 10_000  # of one request
_PAST = datetime(1970, 1, 1, tzinfo=UTC)

Reason = Annotated[str, Field(max_length=500)]
Url = Annotated[str, Field(min_length=1, max_length=8_000)]
Number = Annotated[int, Field(ge=0, lt=1 << 63)]
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Day = Annotated[str, Field(json_schema_extra={"format": "date"})]
Name = Annotated[str, Field(min_length=1, max_length=100)]
HostName = Annotated[str, Field(min_length=1, max_length=300)]
Cursor = Annotated[str, Field(max_length=4_000, description="`next` of the previous answer.")]
Limit = Annotated[int, Field(ge=1, le=1_000)]


def names_of(kind: type[IntEnum]) -> Any:
    """Return the type of the lower-case names of an enumeration's members."""
    return Literal[tuple(each.name.lower() for each in kind)]


LaneName = Literal["now", "high", "standard"]


@dataclass(frozen=True, slots=True)
class OperationContext:
    """Stores and author of an operation."""

    stores: ConsoleStores
    user: SignedInUser

    @property
    def now(self) -> datetime:
        """Return the current time."""
        return self.stores.clock.now()

    @property
    def frontier(self) -> Frontier:
        """Return the frontier."""
        return self.stores.frontier

    @property
    def registry(self) -> RegistryStore:
        """Return the registry of links; UnknownThingError: the collection has none yet."""
        if not self.stores.registry.is_there():
            raise UnknownThingError(
                "There is no registry of links yet: `weboid wiki add` or `weboid links import` makes one."
            )
        return self.stores.registry.store()


class OperationFields(BaseModel):
    """Fields of an operation; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    @property
    def values(self) -> dict[str, Any]:
        """Return the arguments of the function."""
        return {name: getattr(self, name) for name in type(self).model_fields}


def fields_of(function: Callable[..., Any]) -> type[OperationFields]:
    """Return the model of a function's parameters after its context."""
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    fields: dict[str, Any] = {
        each.name: (hints[each.name], ... if each.default is each.empty else each.default) for each in parameters
    }
    title = "".join(map(str.capitalize, function.__name__.split("_"))) if fields else "No"
    return create_model(f"{title}Fields", __base__=OperationFields, **fields)


def call_with(read: Callable[..., Any], context: OperationContext, values: Mapping[str, Any]) -> Any:
    """Call a function with the values that its parameters name."""
    names = inspect.signature(read).parameters
    return read(context, **{name: value for name, value in values.items() if name in names})


@dataclass(frozen=True, slots=True)
class ConsoleOperation:
    """Operation, or resource to read, with its address below ``/api/v1``."""

    name: str
    path: str
    role: ConsoleRole
    fields: type[OperationFields]
    perform: Callable[..., Mapping[str, Any]]
    status: int = 200
    method: str = "POST"
    # The state that it changes, as its resource shows it, for If-Match. None: it has no resource.
    read_state: Callable[..., Any] | None = None
    # What of it the audit log has as it was before and after; a long list is not read for one line of it.
    read_logged: Callable[..., Any] | None = None

    @property
    def label(self) -> str:
        """Return the beginning of the docstring as its name on pages, where it is translated."""
        return re.split(r"[,;:]|\.\s*$|\.\s", self.perform.__doc__ or "", maxsplit=1)[0]


OPERATIONS: dict[str, ConsoleOperation] = {}
RESOURCES: dict[str, ConsoleOperation] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def operation(
    path: str,
    role: ConsoleRole,
    *,
    status: int = 200,
    method: str = "POST",
    state: Callable[..., Any] | None = None,
    logged: Callable[..., Any] | None = None,
    registered: dict[str, ConsoleOperation] = OPERATIONS,
) -> Callable[[_Function], _Function]:
    """Register the function, which takes a context and fields, under its name."""

    def register(perform: _Function) -> _Function:
        name, fields = perform.__name__, fields_of(perform)
        registered[name] = ConsoleOperation(name, path, role, fields, perform, status, method, state, logged or state)
        return perform

    return register


class StateConflictError(InputError):
    """State that is another one than the request expects: 409."""


class UnknownThingError(InputError):
    """Name of something that is not there: 404."""


def resource(path: str, role: ConsoleRole = ConsoleRole.READER) -> Callable[[_Function], _Function]:
    """Register the function, which takes a context and the parameters of a query, under its name."""
    return operation(path, role, method="GET", registered=RESOURCES)


def cursor_number(cursor: str) -> int:
    """Return the number that the cursor is; 0 without one. Raises InputError."""
    if cursor and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 19):
        raise InputError("That is not a cursor: take `next` from the previous answer.")
    return int(cursor or 0)


# ------------------------------------------------------------------------------------------------ captures and crawls

SavedUrl = TypedDict("SavedUrl", {"url": str, "state": str, "location": str, "message": str})
CreatedCrawl = TypedDict("CreatedCrawl", {
    "name": str, "seeds": int, "problems": list[str], "dry_run": bool, "added": NotRequired[int],
    "message": NotRequired[str],
})  # fmt: skip
CrawlState = TypedDict("CrawlState", {"paused": str | None, "stopping": bool})
CrawlChange = Annotated[dict[str, Any], FactsOf(
    "CrawlChange", FrontierStats, "paused claimed queued", stopping=bool, in_use=bool, message=str,
)]  # fmt: skip


@operation("/captures", ConsoleRole.OPERATOR, status=202)
def save_capture(context: OperationContext, url: Url, lane: LaneName = "now") -> SavedUrl:
    """Capture a URL before all others, also when it was captured before."""
    url = fetch_key(url)
    added = context.frontier.add([NewItem(url, Lane[lane.upper()])], now=context.now, again=timedelta(0))
    state = "queued" if added.added or added.requeued else "already queued"
    location = f"/api/v1/queue/item?url={quote(url, safe='')}"
    return {"url": url, "state": state, "location": location, "message": f"{url} is {state}."}


def url_lines(urls: str | list[str]) -> list[str]:
    """Return the lines of a list of URLs. Raises InputError: more than `URLS_LIMIT`."""
    lines = urls.splitlines() if isinstance(urls, str) else urls
    if len(lines) > URLS_LIMIT:
        raise InputError(
            noop("The list has %(count)s lines; at most %(limit)s go into one request."),
            count=f"{len(lines):,}",
            limit=f"{URLS_LIMIT:,}",
        )
    return lines


def crawl_settings(context: OperationContext, preset: str = "") -> Settings:
    """Return the settings of a crawl as commands have them: weboid.toml over a preset, never another file."""
    root = context.stores.layout.root
    if preset and preset not in builtin_profiles():
        raise InputError(noop("There is no preset %(name)s."), name=repr(preset[:100]))
    name = f"{root / CONFIG_FILE}{preset and f'@{preset}'}" if (root / CONFIG_FILE).exists() else preset or "default"
    return collection_settings(name, root, unattended=True)


@operation("/crawls", ConsoleRole.OPERATOR, status=201)
def create_crawl(
    context: OperationContext,
    *,
    urls: Annotated[str | list[Url], Field(description="Seeds, as a list or one a line.")],
    scope: Literal["page", "prefix", "host", "domain", "any"] = "prefix",
    page_limit: Annotated[int, Field(ge=0, le=10**9)] | Literal[""] = 0,
    depth: Annotated[int, Field(ge=0, le=10_000)] | Literal[""] = "",
    preset: Annotated[str, Field(description="Preset below weboid.toml; empty: the one that it extends.")] = "",
    name: str = "",
    lane: LaneName = "standard",
    dry_run: bool = False,
) -> CreatedCrawl:
    """Start a crawl of seeds; workers begin at once. With `dry_run` nothing is stored."""
    seeds, problems = unique_urls(parse_lines(url_lines(urls), source="urls"))
    if not seeds:
        raise InputError(str(problems[0]) if problems else noop("Name what to crawl: at least one URL."))
    settings = crawl_settings(context, preset)
    limits = replace(
        settings.scope,
        kind=scope,
        pages=page_limit or settings.scope.pages,
        depth=settings.scope.depth if depth == "" else depth,
    )
    name = check_job_name(name) if name else derive_job_name(seeds)
    job = Job(name, seeds, replace(settings, scope=limits), Lane[lane.upper()], context.now)
    facts = CreatedCrawl(name=name, seeds=len(seeds), problems=list(map(str, problems[:20])), dry_run=dry_run)
    if dry_run:
        return facts
    done = submit(context, job)
    context.frontier.take_back(STOP_ORDER, "")  # as the command does
    message = f"The crawl {name} was started with {len(seeds):,} seed{'s' * (len(seeds) != 1)}."
    return {**facts, "added": done.added.added, "message": message}


@resource("/crawl")
def read_crawl(context: OperationContext) -> CrawlState:
    """Return whether the crawl is paused, and why, and whether its runs are stopping."""
    frontier = context.frontier
    return {"paused": frontier.stats(context.now).paused, "stopping": "" in frontier.orders(STOP_ORDER)}


def submit(context: OperationContext, job: Job) -> JobSubmission:
    """Store a crawl, or its changes, and queue its seeds."""
    return asyncio.run(submit_job(job, context.frontier, local=context.stores.settings, clock=context.stores.clock))


@operation("/crawl/pause", ConsoleRole.OPERATOR, state=read_crawl)
def pause_crawl(context: OperationContext, reason: Reason = "paused in the console") -> CrawlChange:
    """Pause the crawl; pages in progress finish."""
    context.frontier.pause(reason)
    return _crawl_state(context, "The crawl is paused. Pages in progress finish.")


@operation("/crawl/resume", ConsoleRole.OPERATOR, state=read_crawl)
def resume_crawl(context: OperationContext) -> CrawlChange:
    """Resume the crawl, also after a stop order."""
    context.frontier.resume()
    context.frontier.take_back(STOP_ORDER, "")
    return _crawl_state(context, "The crawl is resumed.")


@operation("/crawl/stop", ConsoleRole.OPERATOR, state=read_crawl)
def stop_crawl(
    context: OperationContext,
    *,
    at_once: Annotated[bool, Field(description="Leave the pages in progress queued.")] = False,
) -> CrawlChange:
    """Stop the crawl after the pages in progress. Nothing is lost.

    The worker of console, watch or serve continues when the crawl is resumed or one is started.
    """
    is_shared, layout = bool(context.stores.settings.frontier.url), context.stores.layout
    if not (is_shared or is_worked_on(layout, context.frontier, now=context.now)):
        raise StateConflictError(noop("No run is active: there is nothing to stop."))
    context.frontier.give_order(STOP_ORDER, "", "now" if at_once else "")
    return _crawl_state(context, "The runs stop after the pages in progress.")


def _crawl_state(context: OperationContext, message: str) -> CrawlChange:
    return {
        **json_facts(context.frontier.stats(context.now), "paused claimed queued"),
        "stopping": "" in context.frontier.orders(STOP_ORDER),
        "in_use": is_in_use(context.stores.layout),
        "message": message,
    }


# ----------------------------------------------------------------------------------------------------- hosts and queue

HostFacts = Annotated[dict[str, Any], FactsOf("HostReport", HostReport)]
HostBlockState = Annotated[
    dict[str, Any], FactsOf("HostBlockState", HostReport, "host blocked_until blocked_reason down_until")
]
HostChange = Annotated[dict[str, Any], FactsOf("HostChange", HostReport, message=str)]
CaptureFacts = Annotated[dict[str, Any], FactsOf(
    "CaptureFacts", CapturedPage, "page_id url timestamp status outcome title", path=str | None,
)]  # fmt: skip
UrlProgress = TypedDict("UrlProgress", {"item": frontier_export.ItemFacts | None, "capture": CaptureFacts | None})
RequeuedItems = TypedDict("RequeuedItems", {"requeued": int, "message": str})
MovedItem = Annotated[dict[str, Any], FactsOf("MovedItem", frontier_export.ItemFacts, message=str)]
DroppedItems = TypedDict("DroppedItems", {"skipped": int, "message": str})


@resource("/hosts/host")
def read_host(context: OperationContext, host: HostName) -> HostFacts:
    """Return a host of the queue with its delay, failures and block."""
    report = context.frontier.host(host_name(host), now=context.now)
    if report is None:
        raise UnknownThingError(noop("The queue does not know the host %(host)s."), host=repr(host[:200]))
    return dict(json_value(asdict(report)))


@resource("/hosts/block")
def read_block(context: OperationContext, host: HostName) -> HostBlockState:
    """Return until when and why a host is not visited: its ETag is for If-Match, that of the host changes all the time."""
    names = ("host", "blocked_until", "blocked_reason", "down_until")
    return {name: value for name, value in read_host(context, host).items() if name in names}


@operation("/hosts/pause", ConsoleRole.OPERATOR, state=read_block)
def pause_host(
    context: OperationContext,
    host: HostName,
    duration: Annotated[str, Field(description="Duration such as 2h or 30d; by default until resumed.")] = "",
    reason: Reason = "paused in the console",
) -> HostChange:
    """Pause a host, for a time or until it is resumed."""
    length, host = parse_duration(duration) if duration else LONGEST_DURATION, host_name(host)
    context.frontier.block_until(host, context.now + length, reason, now=context.now)
    return {**read_host(context, host), "message": f"{host} is paused."}


@operation("/hosts/resume", ConsoleRole.OPERATOR, state=read_block)
def resume_host(context: OperationContext, host: HostName) -> HostChange:
    """Resume a host, whatever had blocked it."""
    host = host_name(host)
    context.frontier.block_until(host, _PAST, "", now=context.now)
    return {**read_host(context, host), "message": f"{host} may be visited again."}


@resource("/queue/item", ConsoleRole.REVIEWER)
def read_item(context: OperationContext, url: Url) -> UrlProgress:
    """Return the state of a URL in the queue, and its newest capture with its copy: what follows a saved URL."""
    record = context.frontier.find(fetch_key(url))
    captures = context.stores.pages(context.user).captures(url, limit=1)
    if record is None and not captures:
        raise UnknownThingError(noop("That URL is neither in the queue nor in the archive."))
    newest = capture_facts(captures[0]) if captures else None
    return {"item": None if record is None else frontier_export.record_facts(record), "capture": newest}


@operation("/queue/retry", ConsoleRole.OPERATOR, state=read_item)
def retry_items(
    context: OperationContext, url: str = "", state: Literal["dead", "skipped", ""] = "", host: str = ""
) -> RequeuedItems:
    """Queue failed or skipped pages again, with all their attempts."""
    frontier = context.frontier
    if bool(url) == bool(state):
        raise InputError(noop("Name one URL, or a state: dead or skipped."))
    batches: Iterable[Sequence[ItemRecord]]
    if url:
        records, problems = frontier_export.items_to_retry(frontier, [url])
        if problems:
            raise InputError(problems[0])
        batches = [records]
    else:
        selection = frontier_export.ItemSelection(host=host_name(host) if host else None)
        batches = frontier_export.select_items(frontier, ItemState(state), selection)
    seen = set[int]()
    count = sum(frontier_export.requeue(frontier, batch, seen, now=context.now) for batch in batches)
    return {"requeued": count, "message": f"{count} queued again."}


def _known(frontier: Frontier, url: str) -> ItemRecord:
    record = frontier.find(fetch_key(url))
    if record is None:
        raise InputError(noop("The queue does not know %(url)s."), url=url[:500])
    return record


def capture_facts(page: CapturedPage) -> CaptureFacts:
    """Return a capture as JSON values, with its copy's path on the front, without the title of one that is not shown."""
    return {
        **json_facts(page, "page_id url timestamp status outcome"),
        "path": page_path(page.timestamp, page.url) if page.has_copy else None,
        "title": "" if page.taken_down or page.withheld else page.title,
    }


@operation("/queue/move", ConsoleRole.OPERATOR, state=read_item)
def move_items(context: OperationContext, url: Url, lane: LaneName = "now") -> MovedItem:
    """Move a queued page to another lane; a lower one than its own has no effect."""
    moved = replace(frontier_export.item_again(_known(context.frontier, url)), lane=Lane[lane.upper()])
    context.frontier.add([moved], now=context.now, again=LONGEST_DURATION)
    return {
        **frontier_export.record_facts(_known(context.frontier, url)),
        "message": "It is visited before the others.",
    }


@operation("/queue/drop", ConsoleRole.OPERATOR, state=read_item)
def drop_items(context: OperationContext, url: Url, reason: Reason = "removed in the console") -> DroppedItems:
    """Skip a queued page unvisited; it can be queued again."""
    count = context.frontier.discard([fetch_key(url)], now=context.now, reason=reason)
    return {"skipped": count, "message": f"{count} removed from the queue."}
