"""Status server: /stats.json, Prometheus /metrics and /healthz.

Every number comes from `crawler.status.collection_status.CollectionStatus`. Labels are bounded: states,
outcomes, verdicts, the words before the colon of the latest reasons, names of crawls and machines, and
the hosts of two short lists; never a URL. Values that can fall, such as the number of done pages when
some are queued again, are gauges; only values that never fall are counters.

The server only reads, and holds no secret, but the URLs being archived are confidential: it listens on
loopback unless configured otherwise, and answers only to a Host that is an address, ``localhost`` or a
configured name, which prevents DNS rebinding from a browser.
"""

import asyncio
import contextlib
import ipaddress
import json
import logging
import socket
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from core.errors import ConfigError, WeboidError
from crawler.frontier.base import JobCounts
from crawler.status.collection_status import (
    CollectionHoldings,
    CollectionStatus,
    CopyCheckSummary,
    FrontierOverview,
    StatusReader,
    member_number,
)
from net.http_server import ConnectionLimits, HttpServer, open_listener, running

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LABEL_LIMIT_CHARS = 120
_STATES = ("queued", "claimed", "done", "skipped", "dead")

_Rows = Iterable[tuple[tuple[str, ...], float]]


def exposition(status: CollectionStatus | None, *, version: str) -> bytes:
    """Format the metrics of a status; without one, because a store does not answer, `weboid_up` is 0."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_MetricFamilies(list(families(status, version=version))))
    return generate_latest(registry)


class _MetricFamilies(Collector):
    """Prometheus collector of prepared metrics."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        yield from self._found


def families(status: CollectionStatus | None, *, version: str) -> Iterator[Metric]:
    """Yield each metric with its samples."""
    up = 1.0 if status is not None else 0.0
    yield _gauge("weboid_up", "Whether the frontier and the collection could be read.", up)
    yield _gauges("weboid_build_info", "This program.", ("version",), [((version,), 1.0)])
    if status is None:
        return
    if status.holdings is not None:
        yield from _holdings(status.holdings)
    if status.checks is not None:
        yield from _checks(status.checks)
    if status.frontier is not None:
        yield from _frontier(status.frontier)
        yield from _hosts(status.frontier)
        yield from _members(status.frontier)


def _holdings(holdings: CollectionHoldings) -> Iterator[Metric]:
    yield _gauges(
        "weboid_pages",
        "Pages in the collection, by outcome.",
        ("outcome",),
        [((name,), count) for name, count in sorted(holdings.outcomes.items())],
    )
    yield _gauges(
        "weboid_page_classes",
        "Pages in the collection, by class; see docs/classification.md.",
        ("class",),
        [((name or "not judged",), count) for name, count in sorted(holdings.classes.items())],
    )
    records = {
        "response": holdings.responses,
        "revisit": holdings.revisits,
        "artifact": holdings.artifacts,
    }
    yield _gauges(
        "weboid_records",
        "Records in the collection, by kind.",
        ("kind",),
        [((kind,), count) for kind, count in records.items()],
    )
    yield _gauge("weboid_warc_files", "WARC files, open ones included.", holdings.warcs)
    yield _gauge("weboid_warc_bytes", "Size of all WARC files.", holdings.warc_bytes)
    yield _gauge("weboid_disk_free_bytes", "Free on the collection's disk.", holdings.free_bytes)
    yield _gauge(
        "weboid_disk_reserve_bytes",
        "No page begins when less is free.",
        holdings.reserve_bytes,
    )
    yield _gauge(
        "weboid_collection_in_use", "Whether a process writes the collection.", holdings.in_use
    )


def _checks(checks: CopyCheckSummary) -> Iterator[Metric]:
    yield _gauges(
        "weboid_checks",
        "Checked copies, by the verdict that counts; see docs/quality.md.",
        ("verdict",),
        [((verdict,), count) for verdict, count in checks.verdicts.items()],
    )
    yield _gauges(
        "weboid_checks_per_minute",
        "Copies checked per minute by the machine's verdict, over the last so many minutes.",
        ("verdict", "minutes"),
        list(_by_minutes(checks.per_minute)),
    )
    yield _gauges(
        "weboid_repairs",
        "Pages by how their repair stands.",
        ("state",),
        [((state,), count) for state, count in checks.repairs.items()],
    )
    yield _gauges(
        "weboid_repairs_per_minute",
        "Repairs ended a minute, by how, over the last so many minutes.",
        ("state", "minutes"),
        list(_by_minutes(checks.repairs_per_minute)),
    )
    yield _gauge(
        "weboid_checks_unrecorded",
        "Checks that are not in a WARC yet as they are.",
        checks.unrecorded,
    )


def _by_minutes(
    rates: Mapping[int, Mapping[str, float]],
) -> Iterator[tuple[tuple[str, str], float]]:
    for minutes, found in rates.items():
        for name, each in found.items():
            yield (name, str(minutes)), each


def _frontier(view: FrontierOverview) -> Iterator[Metric]:
    stats = view.stats
    yield _gauges(
        "weboid_frontier_items",
        "Items of the frontier, by state.",
        ("state",),
        [((state,), getattr(stats, state)) for state in _STATES],
    )
    yield _gauge(
        "weboid_frontier_later_items", "Queued items that wait for their moment.", stats.later
    )
    yield _gauge("weboid_frontier_due_items", "Done items that will be due again.", stats.due)
    yield _gauge("weboid_frontier_hosts", "Hosts that the frontier knows.", stats.hosts)
    yield _counter(
        "weboid_frontier_duplicates", "Known URLs that were offered again.", stats.duplicates
    )
    yield _counter("weboid_frontier_stored_bytes", "Bytes that visits stored.", stats.bytes)
    yield _gauge(
        "weboid_frontier_paused", "Whether the frontier is paused.", stats.paused is not None
    )
    yield _gauge(
        "weboid_frontier_stopping", "Whether an order to stop stands.", view.stopping is not None
    )
    yield _gauges(
        "weboid_frontier_pages_per_minute",
        "Pages ended a minute, over the last so many minutes.",
        ("minutes",),
        [((str(window),), each) for window, each in view.per_minute.items()],
    )
    yield _gauges(
        "weboid_job_items",
        "Items of each crawl, by state; the empty name is plain lists.",
        ("job", "state"),
        [((job, state), getattr(each, state)) for job, each, state in _job_states(view.jobs)],
    )
    for name, groups in (("dead", view.dead), ("skipped", view.skipped)):
        yield _gauges(
            f"weboid_frontier_recent_{name}",
            f"The latest {name} items by the beginning of their reason.",
            ("reason",),
            [((group.reason,), group.count) for group in groups],
        )


def _job_states(jobs: Mapping[str, JobCounts]) -> Iterator[tuple[str, JobCounts, str]]:
    for job, counts in jobs.items():
        for state in _STATES:
            yield job, counts, state


def _hosts(view: FrontierOverview) -> Iterator[Metric]:
    yield _gauge("weboid_hosts_blocked", "Blocked hosts; a thousand at most.", len(view.blocked))
    yield _gauges(
        "weboid_host_visit_seconds",
        "How long a visit takes lately, of the slowest hosts.",
        ("host",),
        [((each.host,), each.mean.total_seconds()) for each in view.slowest],
    )
    yield _gauges(
        "weboid_host_waiting_items",
        "What waits, of the hosts with the longest queues.",
        ("host",),
        [((each.host,), each.waiting) for each in view.longest],
    )


def _members(view: FrontierOverview) -> Iterator[Metric]:
    yield _gauge("weboid_proxies", "Proxies that gave a sign of life.", len(view.proxies))
    yield _gauge("weboid_workers", "Workers that gave a sign of life.", len(view.workers))
    for key, name, text in (
        ("visits", "visits", "Visits that are open"),
        ("free_bytes", "free_bytes", "Free on the disk"),
        ("reserve_bytes", "reserve_bytes", "Kept free on the disk"),
    ):
        yield _gauges(
            f"weboid_proxy_{name}",
            f"{text} of each proxy.",
            ("proxy",),
            _member_count(view.proxies, key),
        )


def _member_count(
    found: Mapping[str, Mapping[str, Any]], key: str
) -> Iterator[tuple[tuple[str], float]]:
    for name, facts in found.items():
        value = member_number(facts, key)
        if value is not None:
            yield (name,), value


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=float(value))


def _gauges(name: str, text: str, labels: tuple[str, ...], rows: _Rows) -> Metric:
    """Build a gauge with labels; rows whose labels are equal after truncation are summed."""
    family = GaugeMetricFamily(name, text, labels=labels)
    sums: dict[tuple[str, ...], float] = {}
    for values, number_ in rows:
        key = tuple(value[:LABEL_LIMIT_CHARS] for value in values)
        sums[key] = sums.get(key, 0.0) + float(number_)
    for values, total in sums.items():
        family.add_metric(values, total)
    return family


_LOG = logging.getLogger(__name__)
DEFAULT_LISTEN = "127.0.0.1:9464"
_LIMITS = ConnectionLimits(64, head_s=10)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def parse_listen_address(text: str) -> tuple[str, int]:
    """Parse ``127.0.0.1:9464``, ``[::1]:9464`` or ``:9464`` (every address); ConfigError for no port."""
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{text[:80]!r} is no HOST:PORT.") from error
    if port is None or parts.netloc != text or "@" in text:
        raise ConfigError(f"{text[:80]!r} is no HOST:PORT, such as {DEFAULT_LISTEN}.")
    return parts.hostname or "", port


def create_app(
    read: Callable[[], Awaitable[CollectionStatus]], *, names: Collection[str] = ()
) -> ASGIApp:
    """Create the application; `names` are accepted Host names, besides ``localhost``.

    A `WeboidError` of `read` means that the status is not available now.
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
    return _HostGuard(app, names)


def _unavailable(error: WeboidError) -> Response:
    return PlainTextResponse(f"{error}\n", status_code=503, headers={"Retry-After": "5"})


_REFUSAL = PlainTextResponse(
    "This name is not ours: use an address, or give the name with --name.\n", 421
)


class _HostGuard:
    """Middleware that refuses foreign Host names, and adds headers to every response."""

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
async def serve_status(
    reader: StatusReader, listen: str, *, names: Collection[str] = ()
) -> AsyncIterator[str]:
    """Serve the status until the end of the block, as tasks of the running loop; yield the address.

    `listen` is HOST:PORT, where port 0 takes a free one; `names` are as for `create_app`.

    Raises:
        ConfigError: `listen` names no host and port.
        UnavailableError: the address cannot be bound.
    """
    listener = open_listener(*parse_listen_address(listen))
    app = create_app(lambda: asyncio.to_thread(reader.status), names=names)
    async with running(HttpServer(app, _LIMITS, timeout_graceful_shutdown=1), listener):
        yield _address(listener)


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
