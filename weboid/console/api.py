"""HTTP API of the console below ``/api/v1``: FastAPI routes of the operations, and resources to read.

Every route has a role; errors are problem details (RFC 9457); lists have a cursor; `Idempotency-Key` makes a repeated
request answer as the first one did; resources have an ETag; ``/events`` sends the crawl's counts when they change.
"""

import asyncio
import inspect
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, NotRequired

from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Query, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.routing import APIRoute, iter_route_contexts
from fastapi.security import APIKeyCookie, HTTPBearer
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as StarletteHTTPException
from typing_extensions import TypedDict

from core.errors import CollectionInUseError, InputError, OverloadedError, TransientError, UnavailableError, WeboidError
from core.json_values import FactsOf, json_value
from core.page_manifest import PageInfo
from crawler.frontier.base import JOB_ORDER, HostOrder, ItemState, JobCounts
from crawler.frontier.frontier_export import ItemFacts, record_facts
from crawler.jobs.crawl_orders import parse_job
from crawler.status.collection_status import CollectionStatus
from links.feedback.replacements import ProposalTakenError
from playback.web.page_renderer import tag_of, tagged_response
from playback.web.page_search import PageSearch, parse_cursor, parse_question
from weboid.app.setup_check import SetupFinding, check_setup
from weboid.console import (  # noqa: F401 they register themselves
    admin_operations,
    bot_operations,
    collection_operations,
    crawl_operations,
    link_operations,
    operations,
    task_operations,
)
from weboid.console.accounts import COOKIE, ConsoleRole, LogEntry, SignedInUser
from weboid.console.page_frame import RETRY_AFTER, ConsoleStores
from weboid.console.task_operations import UPLOAD_PATH, upload_endpoint

API_PATH = "/api/v1"
EVENTS_S = 1.0  # interval at which the counts of events are read
NOT_SIGNED_IN = "Sign in, or send a token as `Authorization: Bearer TOKEN`."
CHALLENGE = {"WWW-Authenticate": "Bearer"}
_PROBLEM = "application/problem+json"
MATCHED_LIMIT = 200  # URLs of a request, each with its ETag in If-Match
_MEDIA_TYPES = {"send_events": "text/event-stream", "download_task_file": "application/octet-stream"}  # others: JSON
_UNLOGGED = ("password", "text")  # fields; of texts the log has the changed lines
_Limit = Annotated[int, Query(ge=1, le=1_000)]


class ProblemDetails(TypedDict):
    """Problem details (RFC 9457); `errors` has the fields that are not valid."""

    type: str
    title: str
    status: int
    detail: str
    errors: NotRequired[list[Annotated[dict[str, Any], FactsOf("InvalidField", field=str, fault=str)]]]


def problem(
    status: int, title: str, detail: str = "", headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
    """Return a problem details response."""
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(document, status, headers, media_type=_PROBLEM)


def problem_of(error: WeboidError) -> JSONResponse:
    """Return the problem details of a Weboid error."""
    if isinstance(error, ProposalTakenError | operations.StateConflictError | CollectionInUseError):
        return problem(409, "The state has changed", str(error))
    if isinstance(error, OverloadedError):
        return problem(429, "Too many requests", str(error), {"Retry-After": str(error.retry_after_s)})
    if isinstance(error, operations.UnknownThingError):
        return problem(404, "Not found", str(error))
    if isinstance(error, InputError):
        return problem(422, "The request cannot be carried out", str(error))
    if isinstance(error, TransientError | UnavailableError):
        return problem(503, "A store is not available", str(error), RETRY_AFTER)
    return problem(500, "Internal error", str(error))


def require(role: ConsoleRole, name: str = "") -> Callable[[Request], SignedInUser]:
    """Return a dependency: the request's user, who has the role and the scope `name`."""

    def user_of(request: Request) -> SignedInUser:
        user: SignedInUser | None = getattr(request.state, "user", None)
        if user is None:
            raise HTTPException(401, NOT_SIGNED_IN, CHALLENGE)
        if not user.may(role) or (user.scopes and name not in user.scopes):
            raise HTTPException(403, f"This needs the role {role}{f' and the scope {name}' if user.scopes else ''}.")
        return user

    return user_of


def perform(
    operation: operations.ConsoleOperation, context: operations.OperationContext, fields: operations.OperationFields
) -> Mapping[str, Any]:
    """Perform an operation and log it; raises as the operation does."""
    shown = {key: value for key, value in fields.model_dump().items() if key not in _UNLOGGED}
    log = partial(context.stores.accounts.log, context.user.name, operation.name, shown)
    before = state_of(operation.read_logged, context, fields)
    try:
        answer = operation.perform(context, **fields.values)
    except WeboidError as error:
        log(f"refused: {error}")
        raise
    was, becomes = difference(before, state_of(operation.read_logged, context, fields))
    log("done", before=was, after=becomes)
    return answer


def state_of(
    read: Callable[..., Any] | None, context: operations.OperationContext, fields: operations.OperationFields
) -> Any:
    """Return what an operation changes as JSON values; None when nothing reads it, or it is not there."""
    try:
        return None if read is None else jsonable_encoder(operations.call_with(read, context, fields.values))
    except WeboidError:
        return None


def difference(before: Any, after: Any) -> tuple[Any, Any]:
    """Return what of two JSON values differs: of objects the keys that do, of lists and texts the items of one only.

    >>> difference({"a": 1, "b": [1, 2]}, {"a": 1, "b": [2, 3]})
    ({'b': [1]}, {'b': [3]})
    """
    if isinstance(before, dict) and isinstance(after, dict):
        parts = {
            key: difference(before.get(key), after.get(key))
            for key in {**before, **after}
            if before.get(key) != after.get(key)
        }
        return {key: was for key, (was, _) in parts.items()}, {key: new for key, (_, new) in parts.items()}
    if isinstance(before, str) and isinstance(after, str) and "\n" in before + after:
        before, after = before.splitlines(), after.splitlines()
    if isinstance(before, list) and isinstance(after, list):
        texts = [{json.dumps(each, sort_keys=True): each for each in side} for side in (before, after)]
        one, other = ([each for key, each in texts[place].items() if key not in texts[1 - place]] for place in (0, 1))
        return one, other
    return before, after


class TaggedRoute(APIRoute):
    """Route whose JSON has an ETag; a client that has it gets 304."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler with that."""
        handle = super().get_route_handler()

        async def tagged(request: Request) -> Response:
            response = await handle(request)
            if not isinstance(response, JSONResponse) or response.status_code != 200:
                return response
            headers = {"Cache-Control": "private, no-cache"}
            return tagged_response(request, bytes(response.body), headers, "application/json")

        return tagged


class _AnswerSchema(GenerateJsonSchema):
    """JSON Schema of the objects that `json_value` makes: with all attributes, enumerations by name, durations in seconds."""

    def enum_schema(self, schema: Any) -> JsonSchemaValue:
        return {"type": "string", "enum": [json_value(each) for each in schema["members"]]}

    def timedelta_schema(self, schema: Any) -> JsonSchemaValue:  # noqa: ARG002
        return {"type": "number"}

    def field_is_required(self, field: Any, total: bool) -> bool:  # noqa: ARG002, FBT001
        return bool(field.get("required", True))  # whatever its default

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


class _DescribedApi(FastAPI):
    """Application whose OpenAPI document has the answers as the return annotations of their handlers say."""

    def openapi(self) -> dict[str, Any]:
        """Return the document; answers are described only, so that nothing is validated when they are sent."""
        if self.openapi_schema is not None:
            return self.openapi_schema
        document, kinds = super().openapi(), dict[str, Any]({_PROBLEM: ProblemDetails})
        for route in (each.original_route for each in iter_route_contexts(self.routes)):
            if isinstance(route, APIRoute) and route.operation_id not in _MEDIA_TYPES:
                kinds[route.operation_id or route.name] = inspect.signature(route.endpoint).return_annotation
        schemas, definitions = TypeAdapter.json_schemas(
            [(name, "serialization", TypeAdapter(kind)) for name, kind in kinds.items()],
            schema_generator=_AnswerSchema,
            ref_template="#/components/schemas/{model}",
        )
        for each in definitions["$defs"].values():
            if "properties" in each:
                each["additionalProperties"] = False
        document["components"]["schemas"] |= definitions["$defs"]
        for methods in document["paths"].values():
            for operation in methods.values():
                for status, response in operation["responses"].items():
                    content = response.get("content", {})
                    if "application/json" in content and status.startswith("2"):
                        content["application/json"]["schema"] = schemas[operation["operationId"], "serialization"]
                    elif _PROBLEM in content:
                        content[_PROBLEM]["schema"] = schemas[_PROBLEM, "serialization"]
        return document


def create_api(stores: ConsoleStores) -> FastAPI:
    """Create the application that is mounted at `API_PATH`; middleware sets ``request.state.user``."""
    api = _DescribedApi(
        title="Weboid console API",
        version="1",
        servers=[{"url": API_PATH}],
        # Described here, checked by the middleware.
        dependencies=[
            Depends(HTTPBearer(scheme_name="token", description="An API token.", auto_error=False)),
            Depends(APIKeyCookie(name=COOKIE, scheme_name="session", auto_error=False)),
        ],
        docs_url=None,
        redoc_url=None,
        description="Operations and resources of one archive. Sign in to the console, or send an API token.",
        responses={
            code: {"description": text, "content": {_PROBLEM: {}}}
            for code, text in (
                (400, "A header or the body cannot be read, or If-Match has no meaning here"),
                (401, "Not signed in"),
                (403, "Role or scope is missing"),
                (404, "Not found"),
                (409, "The state is not the one that the request expects"),
                (412, "Changed since it was read (If-Match)"),
                (413, "The request is too large"),
                (422, "The request is not valid"),
                (429, "Too many requests; Retry-After"),
                (503, "A store is not available"),
            )
        },
    )
    changes = threading.Lock()
    for each in operations.OPERATIONS.values():
        _add_operation(api, each, stores, changes)
    api.include_router(ApiResources(stores).routes())

    def failed(_request: Request, error: Exception) -> Response:
        if isinstance(error, StarletteHTTPException):
            return problem(error.status_code, str(error.detail), headers=error.headers)
        if isinstance(error, WeboidError):
            return problem_of(error)
        assert isinstance(error, RequestValidationError)
        faults = [{"field": ".".join(map(str, each["loc"][1:])), "fault": each["msg"]} for each in error.errors()]
        detail = "; ".join(f"{each['field'] or 'body'}: {each['fault']}" for each in faults[:5])
        return problem(422, "The request is not valid", detail, errors=faults[:50])

    for kind in (StarletteHTTPException, RequestValidationError, WeboidError):
        api.add_exception_handler(kind, failed)
    return api


def _add_operation(
    api: FastAPI, operation: operations.ConsoleOperation, stores: ConsoleStores, changes: threading.Lock
) -> None:
    """Add the route of an operation, whose body are its fields; `changes` is held while a resource is compared."""

    def endpoint(
        fields: operations.OperationFields,
        user: Annotated[SignedInUser, Depends(require(operation.role, operation.name))],
        response: Response,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
        if_match: Annotated[str | None, Header(min_length=1, max_length=40 * MATCHED_LIMIT)] = None,
    ) -> Mapping[str, Any]:
        context = operations.OperationContext(stores, user)

        def act() -> Mapping[str, Any]:
            if if_match is None or if_match == "*":
                return perform(operation, context, fields)
            if operation.read_state is None:
                raise HTTPException(
                    400, "If-Match has no meaning here: this operation changes no resource with an ETag."
                )
            names = getattr(fields, "url", "")
            if isinstance(names, list) and len(names) > MATCHED_LIMIT:
                raise HTTPException(400, f"If-Match can be compared with {MATCHED_LIMIT} URLs at most.")
            one_by_one = [fields.model_copy(update={"url": each}) for each in names] if isinstance(names, list) else []
            with changes:
                states = [state_of(operation.read_state, context, each) for each in one_by_one or [fields]]
                if not all(tag_of(bytes(JSONResponse(each).body)) in if_match for each in states):
                    raise HTTPException(412, "The resource has changed since you read it. Read it again.")
                return perform(operation, context, fields)

        if idempotency_key is None:
            answer = act()
        else:
            request = f"{operation.name} {fields.model_dump_json()}"
            answer = stores.accounts.answer_once(f"{user.name} {idempotency_key}", request, act)
        if "location" in answer:
            response.headers["Location"] = answer["location"]
        return answer

    # FastAPI reads them.
    endpoint.__annotations__ |= {"fields": operation.fields, "return": operation.perform.__annotations__["return"]}
    summary, _, text = (operation.perform.__doc__ or "").partition("\n")
    api.add_api_route(
        operation.path,
        endpoint,
        methods=[operation.method],
        operation_id=operation.name,
        status_code=operation.status,
        summary=summary.rstrip("."),
        description=f"{text.strip()}\n\nRole: {operation.role}.".strip(),
        tags=[operation.path.split("/")[1]],
        response_model=dict[str, Any],
        openapi_extra={"x-role": str(operation.role)},
    )


_Reader = Annotated[SignedInUser, Depends(require(ConsoleRole.READER, "read"))]
CallerFacts = TypedDict("CallerFacts", {"name": str, "role": ConsoleRole, "scopes": tuple[str, ...]})
StatusFacts = Annotated[dict[str, Any], FactsOf("CollectionStatus", CollectionStatus)]
CaptureList = TypedDict("CaptureList", {"captures": list[operations.CaptureFacts], "next": str | None})
CaptureManifest = Annotated[dict[str, Any], FactsOf("CaptureManifest", PageInfo, version=int)]
CaptureDocument = Annotated[
    dict[str, Any], FactsOf("CaptureDocument", operations.CaptureFacts, manifest=CaptureManifest)
]
QueueList = TypedDict("QueueList", {"items": list[ItemFacts], "total": int})
QueuePart = TypedDict("QueuePart", {"items": list[ItemFacts], "next": str | None})
HostList = TypedDict("HostList", {"hosts": list[operations.HostFacts]})
CrawlCounts = Annotated[dict[str, Any], FactsOf("JobCounts", JobCounts)]
CrawlSummary = TypedDict("CrawlSummary", {"name": str, "seeds": int, "scope": str, "counts": CrawlCounts})
CrawlList = TypedDict("CrawlList", {"crawls": list[CrawlSummary]})
HealthCheck = Annotated[dict[str, Any], FactsOf("SetupFinding", SetupFinding)]
HealthChecks = TypedDict("HealthChecks", {"checks": list[HealthCheck]})
AuditLog = TypedDict("AuditLog", {"entries": list[LogEntry], "next": int | None})


class ApiResources:
    """Resources to read; each method is a route."""

    def __init__(self, stores: ConsoleStores) -> None:
        self._stores = stores

    def routes(self) -> APIRouter:
        """Return the routes."""
        router = APIRouter(route_class=TaggedRoute)

        def add(path: str, read: Callable[..., Any], role: ConsoleRole, endpoint: Any = None, **more: Any) -> None:
            media_type = _MEDIA_TYPES.get(read.__name__)
            if media_type is not None:
                more |= {"response_class": Response, "responses": {200: {"content": {media_type: {}}}}}
            elif "methods" not in more:
                more["responses"] = {304: {"description": "Not changed since the ETag in If-None-Match"}}
            router.add_api_route(
                path,
                endpoint or read,
                operation_id=read.__name__,
                summary=(read.__doc__ or "").partition("\n")[0].rstrip("."),
                tags=[path.split("/")[1]],
                **{"response_model": None, "openapi_extra": {"x-role": str(role)}, **more},
            )

        for path, read, role in (
            ("/me", self.who_am_i, ConsoleRole.READER),
            ("/status", self.read_status, ConsoleRole.READER),
            ("/captures", self.list_captures, ConsoleRole.READER),
            ("/captures/{page_id}", self.read_capture, ConsoleRole.READER),
            ("/queue", self.list_queue, ConsoleRole.REVIEWER),
            ("/queue/items", self.scan_queue, ConsoleRole.REVIEWER),
            ("/hosts", self.list_hosts, ConsoleRole.READER),
            ("/crawls", self.list_crawls, ConsoleRole.READER),
            ("/health", self.read_health, ConsoleRole.OPERATOR),
            ("/audit", self.read_audit, ConsoleRole.ADMIN),
            ("/events", self.send_events, ConsoleRole.READER),
        ):
            add(path, read, role, dependencies=[Depends(require(role, "read"))])
        for each in operations.RESOURCES.values():
            add(each.path, each.perform, each.role, self._endpoint(each))
        role = ConsoleRole.OPERATOR
        upload = upload_endpoint(self._stores, require(role, "upload_file"))
        openapi_extra = {"x-role": str(role), "requestBody": {"content": {"application/octet-stream": {}}}}
        more = {"status_code": 201, "response_model": dict[str, Any], "openapi_extra": openapi_extra}
        add(UPLOAD_PATH, upload, role, methods=["POST"], **more)
        return router

    def _endpoint(self, resource: operations.ConsoleOperation) -> Callable[..., Any]:
        """Return a function whose parameters FastAPI reads: the user, and the query."""

        def endpoint(
            user: Annotated[SignedInUser, Depends(require(resource.role, "read"))], query: operations.OperationFields
        ) -> Any:
            return resource.perform(operations.OperationContext(self._stores, user), **query.values)

        returned = resource.perform.__annotations__["return"]
        endpoint.__annotations__ |= {"query": Annotated[resource.fields, Query()], "return": returned}
        return endpoint

    def who_am_i(self, user: _Reader) -> CallerFacts:
        """Return name, role and scopes of the caller."""
        return {"name": user.name, "role": user.role, "scopes": user.scopes}

    def read_status(self) -> StatusFacts:
        """Return counts, rates and sizes of crawl and collection."""
        return dict(json_value(asdict(self._stores.status.status())))

    def list_captures(self, user: _Reader, q: str = "", cursor: str = "") -> CaptureList:
        """Return captures, the newest first; `q` as in the console's search: words, or host:, url:, title:."""
        matches = PageSearch(self._stores.database, self._stores.pages(user)).find(
            parse_question(q), before=parse_cursor(cursor)
        )
        following = str(matches.older) if matches.older else None
        return {"captures": [operations.capture_facts(each) for each in matches.pages], "next": following}

    def read_capture(self, page_id: str, user: _Reader) -> CaptureDocument:
        """Return the manifest of a capture."""
        page = self._stores.pages(user).with_ids([page_id]).get(page_id)
        manifest = None if page is None else self._stores.records(user).manifest(page)
        if page is None or manifest is None:
            raise HTTPException(404, "There is no such capture.")
        return {**operations.capture_facts(page), "manifest": json.loads(manifest.to_json())}

    def list_queue(self, state: ItemState = ItemState.QUEUED, host: str | None = None, limit: _Limit = 50) -> QueueList:
        """Return items of the queue: queued ones in the order of their visits, others the latest first."""
        records = self._stores.frontier.ls(state, limit=limit, host=host)
        return {"items": [record_facts(each) for each in records], "total": self._stores.frontier.counts()[state]}

    def scan_queue(self, state: ItemState = ItemState.QUEUED, cursor: str = "", limit: _Limit = 1_000) -> QueuePart:
        """Return all items in a state, in no order: continue with `next` as the cursor until it is null."""
        records, following = self._stores.frontier.scan(state, cursor=cursor, limit=limit)
        return {"items": [record_facts(each) for each in records], "next": following or None}

    def list_hosts(self, order: HostOrder = HostOrder.LONGEST, limit: _Limit = 50) -> HostList:
        """Return hosts of the queue with their delays, failures and blocks."""
        hosts = self._stores.frontier.hosts(order, now=self._stores.clock.now(), limit=limit)
        return {"hosts": [json_value(asdict(each)) for each in hosts]}

    def list_crawls(self) -> CrawlList:
        """Return the crawls with their counts."""
        crawls: list[CrawlSummary] = []
        for name, text in self._stores.frontier.orders(JOB_ORDER).items():
            job = parse_job(name, text)
            counts = json_value(asdict(self._stores.frontier.job_counts(name)))
            crawls.append({"name": name, "seeds": len(job.seeds), "scope": job.settings.scope.kind, "counts": counts})
        return {"crawls": crawls}

    async def read_health(self) -> HealthChecks:
        """Return the checks of `weboid doctor`."""
        checks = await asyncio.to_thread(check_setup, self._stores.layout.root, self._stores.settings)
        return {"checks": [json_value(asdict(each)) for each in checks]}

    def read_audit(self, cursor: Annotated[int | None, Query(ge=0, lt=1 << 63)] = None, limit: _Limit = 50) -> AuditLog:
        """Return the audit log, the newest first."""
        entries = self._stores.accounts.log_entries(before=cursor, limit=limit)
        return {"entries": json_value(entries), "next": entries[-1]["id"] if len(entries) == limit else None}

    def send_events(self, user: _Reader) -> StreamingResponse:
        """Send the crawl's counts as server-sent events, whenever they change, until the session or token ends."""

        async def events() -> AsyncIterator[str]:
            last = ""
            while await run_in_threadpool(self._stores.accounts.is_valid, user):
                stats = await run_in_threadpool(self._stores.frontier.stats, self._stores.clock.now())
                text = json.dumps(asdict(stats), default=str)
                yield ": still here\n\n" if text == last else f"event: crawl\ndata: {text}\n\n"
                last = text
                await asyncio.sleep(EVENTS_S)

        return StreamingResponse(events(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
