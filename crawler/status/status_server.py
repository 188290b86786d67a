"""Status server: /stats.json, Prometheus /metrics and /healthz.

Labels are bounded: states, outcomes, verdicts, the words before the colon of the latest reasons, names of
crawls and machines, and the hosts of two short lists; never a URL. Values that can fall, such as the
number of done pages when some are queued again, are gauges; only values that never fall are counters.

The URLs being archived are confidential: the server listens on loopback unless configured otherwise, and
answers only to a Host that is an address, ``localhost`` or a configured name (no DNS rebinding).
"""

import asyncio
import contextlib
import ipaddress
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
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
from core.hosts import join_host_port
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

# By label value, or by values of several labels.
_Values = Mapping[str, float] | Mapping[tuple[str, ...], float]


def exposition(status: CollectionStatus | None, *, version: str) -> bytes:
    """Format the metrics of a status; without one, because a store does not answer, `weboid_up` is 0."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_MetricFamilies(list(families(status, version=version))))
    return generate_latest(registry)


class _MetricFamilies(Collector):
    """Prometheus collector of prepared metrics."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        yield from self._metrics


def families(status: CollectionStatus | None, *, version: str) -> Iterator[Metric]:
    """Yield each metric with its samples."""
    is_up = status is not None
    yield _gauge(
        "weboid_up",
        "1 if frontier and collection could be read; if 0, the other metrics are missing.",
        is_up,
    )
    yield _gauges(
        "weboid_build_info",
        "Version of the program, as a label; always 1.",
        {version: 1.0},
        "version",
    )
    if status is None:
        return
    if status.holdings is not None:
        yield from _holdings(status.holdings)
    if status.checks is not None:
        yield from _checks(status.checks)
    if status.frontier is not None:
        yield from _frontier(status.frontier)


def _holdings(holdings: CollectionHoldings) -> Iterator[Metric]:
    outcomes = dict(sorted(holdings.outcomes.items()))
    yield _gauges("weboid_pages", "Pages in the collection by outcome.", outcomes, "outcome")
    classes = {name or "not judged": count for name, count in sorted(holdings.classes.items())}
    text = "Pages in the collection by page class."
    yield _gauges("weboid_page_classes", text, classes, "class")
    records = {
        "response": holdings.responses,
        "revisit": holdings.revisits,
        "artifact": holdings.artifacts,
    }
    yield _gauges(
        "weboid_records",
        "Records in the collection by kind: response, revisit, artifact.",
        records,
        "kind",
    )
    for name, text, value in (
        ("warc_files", "WARC files on the collection's disk, open ones included.", holdings.warcs),
        ("warc_bytes", "Size of all WARC files.", holdings.warc_bytes),
        ("disk_free_bytes", "Free bytes on the collection's disk.", holdings.free_bytes),
        ("disk_reserve_bytes", "Free bytes below which no page begins.", holdings.reserve_bytes),
        ("collection_in_use", "1 while a process writes the collection.", holdings.in_use),
    ):
        yield _gauge(f"weboid_{name}", text, value)


def _checks(checks: CopyCheckSummary) -> Iterator[Metric]:
    text = "Checked copies by verdict: good, doubtful, broken, unchecked; a person's verdict overrides."
    yield _gauges("weboid_checks", text, checks.verdicts, "verdict")
    text = "Copies checked per minute by automatic verdict, over the last 1, 10 and 60 minutes."
    rates = _by_minutes(checks.per_minute)
    yield _gauges("weboid_checks_per_minute", text, rates, "verdict", "minutes")
    yield _gauges(
        "weboid_repairs",
        "Pages by state of their recapture: wanted, begun, done-better, done-not-better, failed.",
        checks.repairs,
        "state",
    )
    text = "Recaptures ended per minute by state, over the last 1, 10 and 60 minutes."
    rates = _by_minutes(checks.repairs_per_minute)
    yield _gauges("weboid_repairs_per_minute", text, rates, "state", "minutes")
    text = "Checks whose current state is not in a WARC yet."
    yield _gauge("weboid_checks_unrecorded", text, checks.unrecorded)


def _by_minutes(rates: Mapping[int, Mapping[str, float]]) -> dict[tuple[str, ...], float]:
    return {
        (name, str(minutes)): each for minutes, rate in rates.items() for name, each in rate.items()
    }


def _frontier(view: FrontierOverview) -> Iterator[Metric]:
    stats = view.stats
    states = {state: getattr(stats, state) for state in _STATES}
    yield _gauges(
        "weboid_frontier_items",
        "Frontier items by state: queued, claimed, done, skipped, dead.",
        states,
        "state",
    )
    for name, text, value in (
        ("later_items", "Queued items with a later start time.", stats.later),
        ("due_items", "Done items that will be due again.", stats.due),
        ("hosts", "Known hosts.", stats.hosts),
        ("paused", "1 while the crawl is paused.", stats.paused is not None),
        ("stopping", "1 while an order to stop is in force.", view.stopping is not None),
    ):
        yield _gauge(f"weboid_frontier_{name}", text, value)
    for name, text, value in (
        ("duplicates", "Known URLs that were submitted again.", stats.duplicates),
        ("stored_bytes", "Bytes stored by visits.", stats.bytes),
    ):
        yield CounterMetricFamily(f"weboid_frontier_{name}", text, value=float(value))
    text = "Pages ended per minute, over the last 1, 10 and 60 minutes."
    rates = {str(window): each for window, each in view.per_minute.items()}
    yield _gauges("weboid_frontier_pages_per_minute", text, rates, "minutes")
    text = "Items of the first 50 crawls by state; the empty name is plain lists."
    jobs: dict[tuple[str, ...], float] = {
        (job, state): getattr(each, state) for job, each in view.jobs.items() for state in _STATES
    }
    yield _gauges("weboid_job_items", text, jobs, "job", "state")
    for name, groups in (("dead", view.dead), ("skipped", view.skipped)):
        text = f"The latest 200 {name} items by their reason up to the colon; 20 reasons at most."
        counts = {group.reason: group.count for group in groups}
        yield _gauges(f"weboid_frontier_recent_{name}", text, counts, "reason")
    # Hosts, and the members of a cluster.
    yield _gauge("weboid_hosts_blocked", "Blocked hosts; 1,000 at most.", len(view.blocked))
    text = "Mean duration of recent visits, of the 20 slowest hosts."
    seconds = {each.host: each.mean.total_seconds() for each in view.slowest}
    yield _gauges("weboid_host_visit_seconds", text, seconds, "host")
    text = "Queued items, of the 20 hosts with the longest queues."
    waiting = {each.host: each.waiting for each in view.longest}
    yield _gauges("weboid_host_waiting_items", text, waiting, "host")
    yield _gauge("weboid_proxies", "Proxies with a heartbeat within 15 s.", len(view.proxies))
    yield _gauge("weboid_workers", "Workers with a heartbeat within 15 s.", len(view.workers))
    for key, text in (
        ("visits", "Open visits"),
        ("free_bytes", "Free bytes on the disk"),
        ("reserve_bytes", "Reserved bytes on the disk"),
    ):
        numbers = {name: member_number(facts, key) for name, facts in view.proxies.items()}
        known = {name: number for name, number in numbers.items() if number is not None}
        yield _gauges(f"weboid_proxy_{key}", f"{text} of each proxy.", known, "proxy")


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


def _gauges(name: str, text: str, values: _Values, *labels: str) -> Metric:
    """Build a gauge with labels; values whose labels are equal after truncation are summed."""
    family = GaugeMetricFamily(name, text, labels=labels)
    sums: dict[tuple[str, ...], float] = {}
    for label, number in values.items():
        parts = (label,) if isinstance(label, str) else label
        key = tuple(value[:LABEL_LIMIT_CHARS] for value in parts)
        sums[key] = sums.get(key, 0.0) + float(number)
    for key, total in sums.items():
        family.add_metric(key, total)
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
                headers = message["headers"]
                assert isinstance(headers, list)
                headers += [
                    (key.lower().encode(), value.encode()) for key, value in _HEADERS.items()
                ]
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
        host, port = listener.getsockname()[:2]
        yield f"http://{join_host_port(host, port)}"
