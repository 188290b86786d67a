"""Operations of the console and of its API: one typed function for each, with its role and its address.

A function takes the context and validated fields, and returns JSON values, in which `message` is a sentence for the
user. Pages send the same fields as forms. The work is done by the stores that the commands use.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from core.config.settings import SCOPE_KINDS, Settings
from core.errors import InputError, UnavailableError
from core.hosts import host_name
from core.json_values import json_facts, json_value
from core.timestamps import LONGEST_DURATION, parse_duration, parse_timestamp14
from core.urls import fetch_key
from crawler.frontier.base import POLICY_ORDER, STOP_ORDER, Frontier, ItemRecord, ItemState, Lane, NewItem
from crawler.frontier.frontier_export import (
    ItemSelection,
    item_again,
    items_to_retry,
    record_facts,
    requeue,
    select_items,
)
from crawler.jobs.crawl_orders import Job, check_job_name, derive_job_name
from crawler.jobs.list_files import parse_lines, unique_urls
from crawler.policy.policy_entries import PolicyEntry, PolicyKind, new_entry, read_entries
from crawler.run.job_run import JobSubmission, submit_job
from crawler.status.collection_status import is_in_use
from links.registry.database import RegistryStore
from playback.access import takedowns as decided_takedowns
from playback.access.levels import Level, LevelActor, LevelTarget, target_of
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind
from playback.web.page_store import CapturedPage
from weboid.app.operator_identity import collection_settings
from weboid.console.accounts import ConsoleRole, SignedInUser
from weboid.console.page_frame import ConsoleStores

URLS_LIMIT = 10_000  # of one request
_PAST = datetime(1970, 1, 1, tzinfo=UTC)

Reason = Annotated[str, Field(max_length=500)]
Url = Annotated[str, Field(min_length=1, max_length=8_000)]
Number = Annotated[int, Field(ge=0, lt=1 << 63)]
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
        """Return the registry of links; UnavailableError: the collection has none yet."""
        if not self.stores.registry.is_there():
            raise UnavailableError(
                "There is no registry of links yet: `weboid wiki add` or `weboid links import` makes one."
            )
        return self.stores.registry.store()


class OperationFields(BaseModel):
    """Fields of an operation; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


@dataclass(frozen=True, slots=True)
class ConsoleOperation:
    """Operation with its address below ``/api/v1``."""

    name: str
    path: str
    role: ConsoleRole
    fields: type[OperationFields]
    perform: Callable[..., dict[str, Any]]
    status: int = 200
    method: str = "POST"
    # The state that it changes, as its resource shows it: for If-Match and the audit log. None: it has no resource.
    read_state: Callable[..., Any] | None = None


OPERATIONS: dict[str, ConsoleOperation] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def operation(
    path: str, role: ConsoleRole, *, status: int = 200, method: str = "POST", state: Callable[..., Any] | None = None
) -> Callable[[_Function], _Function]:
    """Register the function, which takes a context and fields, under its name."""

    def register(perform: _Function) -> _Function:
        fields = perform.__annotations__["fields"]
        name = perform.__name__
        OPERATIONS[name] = ConsoleOperation(name, path, role, fields, perform, status, method, state)
        return perform

    return register


class StateConflictError(InputError):
    """State that is another one than the request expects: 409."""


class UnknownThingError(InputError):
    """Name of something that is not there: 404."""


@dataclass(frozen=True, slots=True)
class ConsoleResource:
    """Resource to read, with its address below ``/api/v1`` and the parameters of its query."""

    path: str
    role: ConsoleRole
    query: type[OperationFields]
    read: Callable[..., Any]


RESOURCES: dict[str, ConsoleResource] = {}


def resource(path: str, role: ConsoleRole = ConsoleRole.READER) -> Callable[[_Function], _Function]:
    """Register the function, which takes a context and a query, under its name."""

    def register(read: _Function) -> _Function:
        RESOURCES[read.__name__] = ConsoleResource(path, role, read.__annotations__["query"], read)
        return read

    return register


class ListFields(OperationFields):
    """Part of a list that is read."""

    cursor: str = Field(default="", max_length=4_000, description="`next` of the answer before.")
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100

    @property
    def after(self) -> int:
        """Return the number that the cursor is; 0 without one. Raises InputError."""
        if self.cursor and not (self.cursor.isascii() and self.cursor.isdecimal() and len(self.cursor) < 19):
            raise InputError("That is no cursor: take `next` from the answer before.")
        return int(self.cursor or 0)


class NoFields(OperationFields):
    """No fields."""


# ------------------------------------------------------------------------------------------------ captures and crawls


class SaveFields(OperationFields):
    """URL to capture now."""

    url: Url
    lane: LaneName = "now"


@operation("/captures", ConsoleRole.OPERATOR, status=202)
def save_capture(context: OperationContext, fields: SaveFields) -> dict[str, Any]:
    """Queue a URL before all others, also when it was captured before."""
    url = fetch_key(fields.url)
    lane = Lane[fields.lane.upper()]
    added = context.frontier.add([NewItem(url, lane)], now=context.now, again=timedelta(0))
    state = "queued" if added.added or added.requeued else "already queued"
    location = f"/api/v1/queue/item?url={quote(url, safe='')}"
    return {"url": url, "state": state, "location": location, "message": f"{url} is {state}."}


class CrawlFields(OperationFields):
    """Crawl from seeds along their links."""

    urls: str | list[Url] = Field(description="Seeds, as a list or one a line.")
    scope: Literal["page", "prefix", "host", "domain", "any"] = "prefix"
    page_limit: Annotated[int, Field(ge=0, le=10**9)] | Literal[""] = 0
    depth: Annotated[int, Field(ge=0, le=10_000)] | Literal[""] = ""
    preset: str = "default"
    name: str = ""
    lane: LaneName = "standard"
    dry_run: bool = False


@operation("/crawls", ConsoleRole.OPERATOR, status=201)
def create_crawl(context: OperationContext, fields: CrawlFields) -> dict[str, Any]:
    """Store a crawl and queue its seeds; workers begin at once. With `dry_run` nothing is stored."""
    lines = fields.urls.splitlines() if isinstance(fields.urls, str) else fields.urls
    urls, problems = unique_urls(parse_lines(lines[:URLS_LIMIT], source="urls"))
    if not urls:
        raise InputError(str(problems[0]) if problems else "Name what to crawl: at least one URL.")
    if fields.scope not in SCOPE_KINDS:
        raise InputError(f"The scope is one of {', '.join(SCOPE_KINDS)}.")
    settings: Settings = collection_settings(fields.preset, context.stores.layout.root, unattended=True)
    scope = replace(
        settings.scope,
        kind=fields.scope,
        pages=fields.page_limit or settings.scope.pages,
        depth=settings.scope.depth if fields.depth == "" else fields.depth,
    )
    name = check_job_name(fields.name) if fields.name else derive_job_name(urls)
    job = Job(name, urls, replace(settings, scope=scope), Lane[fields.lane.upper()], context.now)
    facts = {"name": name, "seeds": len(urls), "problems": list(map(str, problems[:20])), "dry_run": fields.dry_run}
    if fields.dry_run:
        return facts
    done = submit(context, job)
    return {**facts, "added": done.added.added, "message": f"The crawl {name} has begun with {len(urls)} seeds."}


@resource("/crawl")
def read_crawl(context: OperationContext, query: NoFields) -> dict[str, Any]:  # noqa: ARG001
    """Return whether the crawl is paused, and why, and whether its runs are stopping."""
    frontier = context.frontier
    return {"paused": frontier.stats(context.now).paused, "stopping": "" in frontier.orders(STOP_ORDER)}


def submit(context: OperationContext, job: Job) -> JobSubmission:
    """Store a crawl, or its changes, and queue its seeds."""
    return asyncio.run(submit_job(job, context.frontier, local=context.stores.settings, clock=context.stores.clock))


class PauseFields(OperationFields):
    """Pause of the crawl."""

    reason: Reason = "paused in the console"


@operation("/crawl/pause", ConsoleRole.OPERATOR, state=read_crawl)
def pause_crawl(context: OperationContext, fields: PauseFields) -> dict[str, Any]:
    """Pause the crawl; pages in progress finish."""
    context.frontier.pause(fields.reason)
    return _crawl_state(context, "The crawl is paused. Pages in progress finish.")


@operation("/crawl/resume", ConsoleRole.OPERATOR, state=read_crawl)
def resume_crawl(context: OperationContext, fields: NoFields) -> dict[str, Any]:  # noqa: ARG001 one form for all
    """Resume a paused crawl, and cancel a stop order."""
    context.frontier.resume()
    context.frontier.take_back(STOP_ORDER, "")
    return _crawl_state(context, "The crawl goes on.")


class StopFields(OperationFields):
    """Stop of the runs."""

    at_once: bool = Field(default=False, description="Leave the pages in progress queued.")


@operation("/crawl/stop", ConsoleRole.OPERATOR, state=read_crawl)
def stop_crawl(context: OperationContext, fields: StopFields) -> dict[str, Any]:
    """Stop the current runs after the pages in progress. Nothing is lost; the next run continues."""
    context.frontier.give_order(STOP_ORDER, "", "now" if fields.at_once else "")
    return _crawl_state(context, "The runs stop after the pages in progress.")


def _crawl_state(context: OperationContext, message: str) -> dict[str, Any]:
    stats = context.frontier.stats(context.now)
    return {
        **json_facts(stats, "paused claimed queued"),
        "stopping": "" in context.frontier.orders(STOP_ORDER),
        "in_use": is_in_use(context.stores.layout),
        "message": message,
    }


# ----------------------------------------------------------------------------------------------------- hosts and queue


class HostFields(OperationFields):
    """A host of the queue."""

    host: Annotated[str, Field(min_length=1, max_length=300)]


@resource("/hosts/host")
def read_host(context: OperationContext, query: HostFields) -> dict[str, Any]:
    """Return a host of the queue with its delay, failures and block."""
    report = context.frontier.host(host_name(query.host), now=context.now)
    if report is None:
        raise UnknownThingError(f"The queue does not know the host {query.host[:200]!r}.")
    return dict(json_value(asdict(report)))


class HostPauseFields(HostFields):
    """Pause of a host."""

    duration: str = Field(default="", description="As 2h or 30d; until it is resumed without one.")
    reason: Reason = "paused in the console"


@operation("/hosts/pause", ConsoleRole.OPERATOR, state=read_host)
def pause_host(context: OperationContext, fields: HostPauseFields) -> dict[str, Any]:
    """Pause a host, for a time or until it is resumed."""
    length, host = parse_duration(fields.duration) if fields.duration else LONGEST_DURATION, host_name(fields.host)
    context.frontier.block_until(host, context.now + length, fields.reason, now=context.now)
    return {**read_host(context, fields), "message": f"{host} is paused."}


@operation("/hosts/resume", ConsoleRole.OPERATOR, state=read_host)
def resume_host(context: OperationContext, fields: HostFields) -> dict[str, Any]:
    """End the block of a host, whatever its origin."""
    host = host_name(fields.host)
    context.frontier.block_until(host, _PAST, "", now=context.now)
    return {**read_host(context, fields), "message": f"{host} may be visited again."}


class RetryFields(OperationFields):
    """Items to queue again: one URL, or all in a state."""

    url: str = ""
    state: Literal["dead", "skipped", ""] = ""
    host: str = ""


def _read_retried(context: OperationContext, fields: Any) -> Any:
    return read_item(context, fields) if fields.url else None


@operation("/queue/retry", ConsoleRole.OPERATOR, state=_read_retried)
def retry_items(context: OperationContext, fields: RetryFields) -> dict[str, Any]:
    """Queue failed or skipped pages again, with fresh attempts."""
    frontier = context.frontier
    if bool(fields.url) == bool(fields.state):
        raise InputError("Name one URL, or a state: dead or skipped.")
    batches: Iterable[Sequence[ItemRecord]]
    if fields.url:
        records, problems = items_to_retry(frontier, [fields.url])
        if problems:
            raise InputError(problems[0])
        batches = [records]
    else:
        selection = ItemSelection(host=host_name(fields.host) if fields.host else None)
        batches = select_items(frontier, ItemState(fields.state), selection)
    seen = set[int]()
    count = sum(requeue(frontier, batch, seen, now=context.now) for batch in batches)
    return {"requeued": count, "message": f"{count} queued again."}


def _known(frontier: Frontier, url: str) -> ItemRecord:
    record = frontier.find(fetch_key(url))
    if record is None:
        raise InputError(f"The queue does not know {url[:500]}.")
    return record


class UrlFields(OperationFields):
    """A URL."""

    url: Url


@resource("/queue/item")
def read_item(context: OperationContext, query: UrlFields) -> dict[str, Any]:
    """Return the state of a URL in the queue, and its newest capture: what follows a saved URL."""
    record = context.frontier.find(fetch_key(query.url))
    captures = context.stores.pages(context.user).captures(query.url, limit=1)
    if record is None and not captures:
        raise UnknownThingError("Neither the queue nor the archive has that URL.")
    newest = capture_facts(captures[0]) if captures else None
    return {"item": None if record is None else record_facts(record), "capture": newest}


def capture_facts(page: CapturedPage) -> dict[str, Any]:
    """Return a capture as JSON values, without the title of one that is not shown."""
    return {
        **json_facts(page, "page_id url timestamp status outcome"),
        "title": "" if page.taken_down or page.withheld else page.title,
    }


class MoveFields(UrlFields):
    """Item and its new lane."""

    lane: LaneName = "now"


@operation("/queue/move", ConsoleRole.OPERATOR, state=read_item)
def move_items(context: OperationContext, fields: MoveFields) -> dict[str, Any]:
    """Move a queued page to another lane; a lower one than its own has no effect."""
    record = _known(context.frontier, fields.url)
    context.frontier.add(
        [replace(item_again(record), lane=Lane[fields.lane.upper()])], now=context.now, again=LONGEST_DURATION
    )
    return {**record_facts(_known(context.frontier, fields.url)), "message": "It is visited before the others."}


class DropFields(UrlFields):
    """Item to skip."""

    reason: Reason = "removed in the console"


@operation("/queue/drop", ConsoleRole.OPERATOR, state=read_item)
def drop_items(context: OperationContext, fields: DropFields) -> dict[str, Any]:
    """Skip a queued page unvisited; it can be queued again."""
    count = context.frontier.discard([fetch_key(fields.url)], now=context.now, reason=fields.reason)
    return {"skipped": count, "message": f"{count} removed from the queue."}


# --------------------------------------------------------------------------------------------------------------- rules


@resource("/policy")
def list_policy(context: OperationContext, query: NoFields) -> dict[str, Any]:  # noqa: ARG001
    """Return the archiving rules."""
    entries = read_entries(context.frontier.orders(POLICY_ORDER))
    return {"entries": [{"id": key, **entry.facts} for key, entry in entries.by_id.items()]}


class PolicyFields(OperationFields):
    """Archiving rule."""

    pattern: Annotated[str, Field(min_length=1, max_length=2_000)]
    kind: Literal["blacklist", "whitelist"] = "blacklist"
    reason: Annotated[str, Field(min_length=1, max_length=500)]
    duration: str = Field(default="", description="As 30d; without one the rule does not end.")


@operation("/policy", ConsoleRole.CURATOR, status=201, state=list_policy)
def add_policy(context: OperationContext, fields: PolicyFields) -> dict[str, Any]:
    """Add an archiving rule, which crawls follow within a second."""
    expires = context.now + parse_duration(fields.duration) if fields.duration else None
    entry = new_entry(
        PolicyEntry(
            kind=PolicyKind(fields.kind),
            pattern=fields.pattern,
            reason=fields.reason,
            actor=context.user.name,
            made_at=context.now,
            expires_at=expires,
            key="",
            value="",
        )
    )
    context.frontier.give_order(POLICY_ORDER, entry.id, entry.to_json())
    return {"id": entry.id, **entry.facts, "message": f"The rule for {fields.pattern} holds."}


class PolicyEntryFields(OperationFields):
    """Stored archiving rule."""

    entry_id: str


@operation("/policy/remove", ConsoleRole.CURATOR, state=list_policy)
def remove_policy(context: OperationContext, fields: PolicyEntryFields) -> dict[str, Any]:
    """Remove an archiving rule."""
    if not context.frontier.take_back(POLICY_ORDER, fields.entry_id):
        raise InputError(f"There is no rule {fields.entry_id[:100]!r}.")
    return {"id": fields.entry_id, "message": "The rule was removed."}


@resource("/takedowns", ConsoleRole.OPERATOR)
def read_takedowns(context: OperationContext, query: NoFields) -> dict[str, Any]:  # noqa: ARG001
    """Return the take-downs with their tickets, lifted ones too."""
    found = decided_takedowns.list_takedowns(context.stores.decisions)
    return {"takedowns": [{**json_value(asdict(each)), "holds": each.holds(context.now)} for each in found]}


class TakedownFields(OperationFields):
    """Content that readers are not shown."""

    url: Url
    kind: Literal["url", "prefix", "host", "capture", "digest"] = "url"
    timestamp: str = Field(default="", pattern="^([0-9]{14})?$", description="Of a single capture.")
    effect: Literal["block", "hide"] = "block"
    reason: Reason = ""
    ticket: Annotated[str, Field(max_length=200)] = ""
    duration: str = ""


@operation("/takedowns", ConsoleRole.CURATOR, status=201, state=read_takedowns)
def add_takedown(context: OperationContext, fields: TakedownFields) -> dict[str, Any]:
    """Take down content, from the next request on."""
    from playback.takedown_coverage import not_in_force, takedown_targets

    kind, now = TakedownKind(fields.kind), context.now
    if kind is TakedownKind.CAPTURE:
        parse_timestamp14(fields.timestamp)
    model = Takedown(
        number=0,
        kind=kind,
        what="",
        timestamp=fields.timestamp if kind is TakedownKind.CAPTURE else "",
        effect=TakedownEffect(fields.effect),
        reason=fields.reason,
        ticket=fields.ticket,
        actor=context.user.name,
        decided_at=now,
        expires_at=now + parse_duration(fields.duration) if fields.duration else None,
    )
    wanted, decisions = takedown_targets(context.stores.database, model, [fields.url]), context.stores.decisions
    decided_takedowns.add_takedowns(decisions, not_in_force(decisions, wanted, now))
    what = wanted[0].what
    return {"kind": fields.kind, "what": what, "effect": fields.effect, "message": f"{what} is not shown any more."}


class LiftFields(OperationFields):
    """Take-down to lift."""

    number: Number
    reason: Reason = "lifted in the console"


@operation("/takedowns/lift", ConsoleRole.CURATOR, state=read_takedowns)
def lift_takedown(context: OperationContext, fields: LiftFields) -> dict[str, Any]:
    """Lift a take-down; it stays in the history."""
    held = [each for each in decided_takedowns.list_takedowns(context.stores.decisions) if each.lifted_at is None]
    if fields.number not in {each.number for each in held}:
        raise InputError(f"No take-down in force has the number {fields.number}.")
    decided_takedowns.lift_takedowns(
        context.stores.decisions, [fields.number], actor=context.user.name, reason=fields.reason, now=context.now
    )
    return {"number": fields.number, "message": f"Take-down {fields.number} was lifted."}


class LevelQuery(OperationFields):
    """A link or a domain."""

    link: str = ""
    domain: str = ""

    @property
    def target(self) -> LevelTarget:
        """Return what is named. Raises InputError."""
        if bool(self.link) == bool(self.domain):
            raise InputError("Name a link or a domain.")
        return target_of(link=self.link) if self.link else target_of(domain=self.domain)


@resource("/levels")
def read_level(context: OperationContext, query: LevelQuery) -> dict[str, Any]:
    """Return the rule for a link or a domain, and for a link the level that holds."""
    target = query.target
    rules = context.stores.levels.now()
    own = next((str(each.level) for each in rules.rules if each.target == target), None)
    return {"what": target.what, "rule": own, "level": str(rules.of(query.link)) if query.link else None}


class LevelFields(LevelQuery):
    """Level of a link or a domain; without a level its rule is removed."""

    level: str = Field(default="", description=f"One of {', '.join(Level)}; empty: the more general rules apply again.")
    reason: Reason = ""


@operation("/levels", ConsoleRole.CURATOR, state=read_level)
def set_level(context: OperationContext, fields: LevelFields) -> dict[str, Any]:
    """Set how much of a link's or a domain's copies readers are shown."""
    target = fields.target
    if fields.level and fields.level not in set(Level):
        raise InputError(f"The level is one of {', '.join(Level)}.")
    level = Level(fields.level) if fields.level else None
    context.stores.levels.decide(
        [target], level, actor=LevelActor(context.user.name), now=context.now, reason=fields.reason, is_stored=False
    )
    return {
        "what": target.what,
        "level": level,
        "message": f"{target.what} is shown at the level {level or 'of its rules'}.",
    }


# ------------------------------------------------------------------------------------------------------------ accounts


@resource("/users", ConsoleRole.ADMIN)
def list_users(context: OperationContext, query: NoFields) -> dict[str, Any]:  # noqa: ARG001
    """Return the accounts."""
    return {"users": [json_value(asdict(each)) for each in context.stores.accounts.users()]}


class UserFields(OperationFields):
    """Account and its role."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    role: ConsoleRole
    password: str | None = Field(
        default=None, max_length=1_000, description="Without one it signs in by a link or OIDC."
    )


@operation("/users", ConsoleRole.ADMIN, status=201, state=list_users)
def set_user(context: OperationContext, fields: UserFields) -> dict[str, Any]:
    """Add an account, or change its role and password; its sessions end."""
    context.stores.accounts.set_user(fields.name, fields.role, password=fields.password or None)
    return {"name": fields.name, "role": fields.role, "message": f"{fields.name} is {fields.role}."}


class UserNameFields(OperationFields):
    """An account."""

    name: str


@operation("/users/remove", ConsoleRole.ADMIN, state=list_users)
def remove_user(context: OperationContext, fields: UserNameFields) -> dict[str, Any]:
    """Remove an account with its sessions and tokens."""
    context.stores.accounts.remove_user(fields.name)
    return {"name": fields.name, "message": f"{fields.name} was removed."}


@resource("/tokens")
def list_tokens(context: OperationContext, query: NoFields) -> dict[str, Any]:  # noqa: ARG001
    """Return the API tokens of your account without their secrets; of all accounts to administrators."""
    user, found = context.user, context.stores.accounts.tokens()
    return {"tokens": [each for each in found if user.may(ConsoleRole.ADMIN) or each["owner"] == user.name]}


class TokenFields(OperationFields):
    """API token."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    role: ConsoleRole = ConsoleRole.READER
    scopes: list[str] = Field(
        default=[], description="Operations that it may call, and `read` for resources; none: all that the role may."
    )
    duration: str = Field(default="365d", description="Until it expires.")


@operation("/tokens", ConsoleRole.READER, status=201, state=list_tokens)
def add_token(context: OperationContext, fields: TokenFields) -> dict[str, Any]:
    """Create an API token of your account; the answer has its secret, which is not shown again."""
    if unknown := sorted(set(fields.scopes) - {*OPERATIONS, "read", "upload_file"}):
        raise InputError(f"There is no operation {unknown[0]!r}.")
    if context.user.scopes or ":" in context.user.name:
        raise InputError("A token cannot make tokens: sign in.")
    age = parse_duration(fields.duration)
    secret = context.stores.accounts.add_token(
        fields.name, context.user, fields.role, scopes=tuple(fields.scopes), age=age
    )
    return {"name": fields.name, "role": fields.role, "token": secret, "message": f"The token {fields.name} was made."}


class TokenNumberFields(OperationFields):
    """An API token."""

    id: Number


@operation("/tokens/remove", ConsoleRole.READER, state=list_tokens)
def remove_token(context: OperationContext, fields: TokenNumberFields) -> dict[str, Any]:
    """Remove an API token of your account, or as an administrator any."""
    own = "" if context.user.may(ConsoleRole.ADMIN) else context.user.name
    context.stores.accounts.remove_token(fields.id, owner=own)
    return {"id": fields.id, "message": "The token was removed."}
