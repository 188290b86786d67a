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
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
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
    FrontierOverview,
    StatusReader,
    member_number,
)
from net.http_server import ConnectionLimits, HttpServer, open_listener, running

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LABEL_LIMIT_CHARS = 120
_STATES = ("queued", "claimed", "done", "skipped", "dead")

_METRICS = tomllib.loads(Path(__file__).with_name("metrics.toml").read_text("utf-8"))
_Values = Mapping[str, float] | Mapping[tuple[str, ...], float]  # by label value, or by values of several labels


def exposition(status: CollectionStatus | None, *, version: str) -> bytes:
    """Format the metrics of a status; without one, because a store does not answer, `weboid_up` is 0."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_StatusCollector(list(families(status, version=version))))
    return generate_latest(registry)


@dataclass(eq=False)  # the registry keeps it in a dictionary
class _StatusCollector(Collector):
    """Prometheus collector of metrics that are made already."""

    metrics: list[Metric]

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        return iter(self.metrics)


def families(status: CollectionStatus | None, *, version: str) -> Iterator[Metric]:
    """Yield each metric with its samples."""
    yield _metric("weboid_up", status is not None)
    yield _metric("weboid_build_info", {version: 1.0})
    if status is None:
        return
    if status.holdings is not None:
        yield from _holdings(status.holdings)
    if (checks := status.checks) is not None:
        yield _metric("weboid_checks", checks.verdicts)
        yield _metric("weboid_checks_per_minute", _by_minutes(checks.per_minute))
        yield _metric("weboid_repairs", checks.repairs)
        yield _metric("weboid_repairs_per_minute", _by_minutes(checks.repairs_per_minute))
        yield _metric("weboid_checks_unrecorded", checks.unrecorded)
    if status.frontier is not None:
        yield from _frontier(status.frontier)


def _holdings(holdings: CollectionHoldings) -> Iterator[Metric]:
    yield _metric("weboid_pages", dict(sorted(holdings.outcomes.items())))
    classes = {name or "not judged": count for name, count in sorted(holdings.classes.items())}
    yield _metric("weboid_page_classes", classes)
    kinds = {"response": "responses", "revisit": "revisits", "artifact": "artifacts"}
    yield _metric("weboid_records", {kind: getattr(holdings, each) for kind, each in kinds.items()})
    yield _metric("weboid_warc_files", holdings.warcs)
    yield _metric("weboid_warc_bytes", holdings.warc_bytes)
    if holdings.uploads is not None:
        yield _metric("weboid_upload_pending_files", holdings.uploads.pending_files)
        yield _metric("weboid_upload_pending_bytes", holdings.uploads.pending_bytes)
        yield _metric("weboid_upload_failing", bool(holdings.uploads.error))
    yield _metric("weboid_disk_free_bytes", holdings.free_bytes)
    yield _metric("weboid_disk_reserve_bytes", holdings.reserve_bytes)
    yield _metric("weboid_collection_in_use", holdings.in_use)


def _by_minutes(rates: Mapping[int, Mapping[str, float]]) -> dict[tuple[str, ...], float]:
    return {(name, str(minutes)): each for minutes, rate in rates.items() for name, each in rate.items()}


def _frontier(view: FrontierOverview) -> Iterator[Metric]:
    stats = view.stats
    yield _metric("weboid_frontier_items", {state: getattr(stats, state) for state in _STATES})
    yield _metric("weboid_frontier_later_items", stats.later)
    yield _metric("weboid_frontier_due_items", stats.due)
    yield _metric("weboid_frontier_hosts", stats.hosts)
    yield _metric("weboid_frontier_paused", stats.paused is not None)
    yield _metric("weboid_frontier_stopping", view.stopping is not None)
    yield _metric("weboid_frontier_duplicates", stats.duplicates)
    yield _metric("weboid_frontier_stored_bytes", stats.bytes)
    rates = {str(window): each for window, each in view.per_minute.items()}
    yield _metric("weboid_frontier_pages_per_minute", rates)
    jobs: dict[tuple[str, ...], float] = {
        (job, state): getattr(each, state) for job, each in view.jobs.items() for state in _STATES
    }
    yield _metric("weboid_job_items", jobs)
    for name, groups in (("dead", view.dead), ("skipped", view.skipped)):
        counts = {group.reason: group.count for group in groups}
        yield _metric(f"weboid_frontier_recent_{name}", counts)
    # Hosts, and the members of a cluster.
    yield _metric("weboid_hosts_blocked", len(view.blocked))
    seconds = {each.host: each.mean.total_seconds() for each in view.slowest}
    yield _metric("weboid_host_visit_seconds", seconds)
    yield _metric("weboid_host_waiting_items", {each.host: each.waiting for each in view.longest})
    yield _metric("weboid_proxies", len(view.proxies))
    yield _metric("weboid_workers", len(view.workers))
    for key in ("visits", "free_bytes", "reserve_bytes"):
        numbers = {name: member_number(facts, key) for name, facts in view.proxies.items()}
        known = {name: number for name, number in numbers.items() if number is not None}
        yield _metric(f"weboid_proxy_{key}", known)


def _metric(name: str, values: float | _Values) -> Metric:
    """Build a metric of ``metrics.toml``; values whose labels are equal after truncation are summed."""
    described = _METRICS[name]
    kind = CounterMetricFamily if described.get("counter") else GaugeMetricFamily
    family = kind(name, described["help"], labels=described.get("labels", ()))
    sums: dict[tuple[str, ...], float] = {}
    by_label = values if isinstance(values, Mapping) else dict[tuple[str, ...], float]({(): values})
    for label, number in by_label.items():
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
        raise ConfigError(f"{text[:80]!r} is not HOST:PORT.") from error
    if port is None or parts.netloc != text or "@" in text:
        raise ConfigError(f"{text[:80]!r} is not HOST:PORT, such as {DEFAULT_LISTEN}.")
    return parts.hostname or "", port


def create_app(read: Callable[[], Awaitable[CollectionStatus]], *, names: Collection[str] = ()) -> ASGIApp:
    """Create the application for these Host names and ``localhost``; WeboidError of `read`: there is no status."""
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
        routes=[Route("/", index), Route("/stats.json", stats), Route("/metrics", metrics), Route("/healthz", healthz)]
    )
    return _HostGuard(app, names)


def _unavailable(error: WeboidError) -> Response:
    return PlainTextResponse(f"{error}\n", status_code=503, headers={"Retry-After": "5"})


_REFUSAL = PlainTextResponse("Unknown host name: use an address, or allow the name with --name.\n", 421)


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
                headers += [(key.lower().encode(), value.encode()) for key, value in _HEADERS.items()]
            await send(message)

        app = self._app if self._is_ours(Request(scope).headers.get("host", "")) else _REFUSAL
        await app(scope, receive, with_headers)  # type: ignore[arg-type]

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        with contextlib.suppress(ValueError):
            return name in self._names or bool(ipaddress.ip_address(name))
        return False


@asynccontextmanager
async def serve_status(reader: StatusReader, listen: str, *, names: Collection[str] = ()) -> AsyncIterator[str]:
    """Serve the status at HOST:PORT (0: a free port); yield the address. Raises ConfigError, UnavailableError."""
    listener = open_listener(*parse_listen_address(listen))
    app = create_app(lambda: asyncio.to_thread(reader.status), names=names)
    async with running(HttpServer(app, _LIMITS, timeout_graceful_shutdown=1), listener):
        host, port = listener.getsockname()[:2]
        yield f"http://{join_host_port(host, port)}"
