"""Console pages of the crawl: overview, progress, workers, queue and log."""

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import func, select
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from core.errors import BadUrlError, InputError, TransientError, WeboidError
from core.urls import fetch_key
from crawler.frontier.base import JOB_ORDER, Frontier, HostReport, ItemRecord, ItemState, MinuteCounts
from crawler.jobs.list_files import parse_lines, unique_urls
from crawler.jobs.scope import describe_span
from crawler.profiles import builtin_profiles
from crawler.status.collection_status import CollectionStatus, FrontierOverview, ThrottledValue
from crawler.worker.live_view import ask_for_pictures, live_picture, live_pictures, picture_key
from links.registry.schema import urls
from links.states import LinkState
from playback.web.i18n import noop, translate
from playback.web.page_renderer import PICTURE_HEADERS
from playback.web.page_store import COLUMNS, CapturedPage
from playback.web.registry.registry_service import NoRegistryError
from weboid.console import page_frame
from weboid.console.crawl_operations import read_job
from weboid.console.link_pages import STATE_GROUPS, StateChart, read_state_chart, wiki_edits
from weboid.console.operations import OPERATIONS, OperationContext, create_crawl, url_lines

LATEST_SHOWN = 10
WORKERS_SHOWN = 12
TROUBLE_SHOWN = 6
LISTED = 100
LOG_READ_BYTES = 4 << 20  # of the crawl log for one answer
LINKS_COUNTED = 1_000_000  # the newest; counted in the background
_EDITS_SHOWN = 5
SEEDS_SHOWN = 10
_SCOPES = {
    "page": noop("These pages only"),
    "prefix": noop("Everything below their folders"),
    "host": noop("Their hosts"),
    "domain": noop("Their hosts and all below them"),
}


@dataclass(frozen=True, slots=True)
class MinuteChart:
    """Pages that ended in each of the last minutes, stacked by result, and their sums."""

    bars: tuple[tuple[str, int, float, float], ...]  # result, x, y and height in a chart of 600 by 100 units
    most: int  # in one minute
    done: int
    skipped: int
    dead: int


def minute_chart(minutes: Sequence[MinuteCounts]) -> MinuteChart:
    """Lay out the chart of at most 60 minutes, the newest at the right."""
    most = max((each.done + each.skipped + each.dead for each in minutes), default=0)
    bars = []
    for place, each in enumerate(reversed(minutes)):
        base = 100.0
        for kind in ("done", "skipped", "dead"):
            height = 100 * getattr(each, kind) / most if most else 0
            if height:
                base -= height
                bars.append((kind, 591 - 10 * place, round(base, 2), round(height, 2)))
    sums = [sum(getattr(each, kind) for each in minutes) for kind in ("done", "skipped", "dead")]
    return MinuteChart(tuple(bars), most, *sums)


def hosts_in_trouble(view: FrontierOverview, frontier: Frontier) -> list[HostReport]:
    """Return hosts that are blocked or down, with the most waiting items first."""
    names = [each.host for each in view.blocked[:50]]
    known = {each.host: each for each in (*view.slowest, *view.longest)}
    reports_by_host = {name: known.get(name) or frontier.host(name, now=view.at) for name in names}
    reports_by_host |= {each.host: each for each in known.values() if each.down_until is not None}
    return sorted((each for each in reports_by_host.values() if each), key=lambda each: (-each.waiting, each.host))[
        :TROUBLE_SHOWN
    ]


def link_parts(counts: Mapping[LinkState, int]) -> list[tuple[str, str, int, str]]:
    """Return class, name, count and address of each state that occurs."""
    return [
        (kind, translate(name), counts[state], "")
        for state, (kind, name) in page_frame.LINK_STATES.items()
        if state in counts
    ]


class CrawlPages(page_frame.ConsolePages):
    """Pages of the crawl."""

    def __init__(self, stores: page_frame.ConsoleStores, frame: page_frame.ConsoleFrame) -> None:
        super().__init__(stores, frame)
        self._links = ThrottledValue(stores.clock, self._count_links, background=True)

    @page_frame.console_page("")
    def overview(self, request: Request) -> Response:
        """Return the overview."""
        status = self._status(request)
        view = status.frontier
        trend: StateChart | None = None
        with suppress(NoRegistryError, TransientError):
            trend = read_state_chart(self._stores)
        edits: list[Any] = []
        with suppress(NoRegistryError, TransientError), self._stores.registry.store().snapshot() as reader:
            edits = wiki_edits(reader, limit=_EDITS_SHOWN)
        return self._frame(
            "overview.html",
            request,
            status=status,
            chart=minute_chart(view.minutes) if view else None,
            days_left=status.days_left,
            trouble=hosts_in_trouble(view, self._stores.frontier) if view else (),
            links=self._links.read() if self._stores.registry.is_there() else None,
            link_parts=link_parts,
            links_counted=LINKS_COUNTED,
            trend=trend,
            groups=[translate(name) for name in STATE_GROUPS.values()],
            edits=edits,
            latest=self._latest(request),
        )

    @page_frame.console_page("crawl")
    def crawl(self, request: Request) -> Response:
        """Return progress, workers, hosts and errors."""
        status = self._status(request)
        view = status.frontier
        known = {each.host: each for each in (*view.longest, *view.slowest)} if view else {}
        return self._frame(
            "crawl.html",
            request,
            status=status,
            queue_hosts=sorted(known.values(), key=lambda each: (-each.waiting, each.host))[:20],
            latest=self._latest(request),
            **self._workers(request, status),
        )

    def _status(self, request: Request) -> CollectionStatus:
        """Return the status; after an operation the one that it has changed."""
        return self._stores.status.status(is_fresh="done" in request.query_params)

    @page_frame.console_page("crawl/workers")
    def workers(self, request: Request) -> Response:
        """Return the pages in the workers, as a part of the page."""
        return self._frame("workers.html", request, **self._workers(request, self._stores.status.status()))

    @page_frame.console_page("crawl/queue")
    def queue(self, request: Request) -> Response:
        """Return items of the queue by state, host or address."""
        query = request.query_params
        state = query.get("state", "queued") if query.get("state") in set(ItemState) else "queued"
        host, words = query.get("host", "").strip().lower()[:300], query.get("q", "").strip()[:5000]
        records: Sequence[ItemRecord] = ()
        frontier = self._stores.frontier
        if words:
            with suppress(BadUrlError):
                spelled = [words] if "://" in words else [f"https://{words}", f"http://{words}"]
                records = [each for each in frontier.find_all([fetch_key(url) for url in spelled]) if each]
        else:
            records = frontier.ls(ItemState(state), limit=LISTED, host=host or None)
        return self._frame(
            "queue.html",
            request,
            state=state,
            host=host,
            words=words,
            states=[(str(each), page_frame.state_name(each)) for each in ItemState],
            found=records,
            total=frontier.counts()[ItemState(state)],
            limit=LISTED,
        )

    @page_frame.console_page("crawl/new")
    def new(self, request: Request) -> Response:
        """Return the empty form of a crawl."""
        return self._new(request, dict[str, str]())

    @page_frame.console_page("crawl/new", "POST")
    async def estimate(self, request: Request) -> Response:
        """Return the filled form with scope and estimate, or with its error; nothing is queued."""
        fields = {name: values[0] for name, values in (await page_frame.read_form(request)).items()}
        return await run_in_threadpool(self._estimate, request, fields)

    def _estimate(self, request: Request, fields: Mapping[str, str]) -> Response:
        planned = {name: value for name, value in fields.items() if name not in ("csrf", "back")}
        try:
            values = OPERATIONS["create_crawl"].fields.model_validate({**planned, "dry_run": True}).values
            name = create_crawl(OperationContext(self._stores, request.state.user), **values)["name"]
        except (ValidationError, WeboidError) as error:
            return self._new(request, fields, error=page_frame.fault_of(error))
        known = name if name in self._stores.frontier.orders(JOB_ORDER) else ""
        estimate = estimate_crawl(values["urls"], values["scope"], values["page_limit"], self._stores.status.status())
        return self._new(request, fields, estimate=estimate, known=known)

    def _new(self, request: Request, fields: Mapping[str, str], **values: Any) -> Response:
        return self._frame(
            "new.html",
            request,
            fields=defaultdict(str, fields),
            scopes=[(kind, translate(name)) for kind, name in _SCOPES.items()],
            presets=builtin_profiles(),
            **{"estimate": None, **values},
        )

    @page_frame.console_page("crawl/job")
    def job(self, request: Request) -> Response:
        """Return a crawl with its limits."""
        context = OperationContext(self._stores, request.state.user)
        try:
            job = read_job(context, request.query_params.get("name", ""))
        except InputError:
            raise HTTPException(404) from None
        kind = str(job["scope"])
        return self._frame("job.html", request, job=job, scope=translate(_SCOPES.get(kind, kind)))

    @page_frame.console_page("crawl/log")
    def log(self, request: Request) -> Response:
        """Return lines of the crawl log, the newest first."""
        parameters = request.query_params
        words, outcome = parameters.get("q", "")[:300], parameters.get("outcome", "")
        before = parameters.get("before", "")
        lines, further = search_log(
            self._stores.layout.crawl_log,
            words.lower().split(),
            outcome,
            before=int(before) if before.isascii() and before.isdecimal() and len(before) < 16 else None,
        )
        query = {"q": words, "outcome": outcome, "before": str(further)}
        return self._frame(
            "log.html",
            request,
            lines=lines,
            words=words,
            outcome=outcome,
            older=page_frame.console_path("crawl", "log", **query) if further else "",
        )

    @page_frame.console_page("crawl/frame")
    def frame(self, request: Request) -> Response:
        """Return the live picture of a worker's page."""
        now = self._stores.clock.now()
        picture = live_picture(self._stores.frontier, request.query_params.get("page", "")[:64], now=now)
        if not picture:
            raise HTTPException(404)
        return Response(picture, headers={**PICTURE_HEADERS, "Cache-Control": "no-store"}, media_type="image/jpeg")

    def _workers(self, request: Request, status: CollectionStatus) -> dict[str, Any]:
        """Return the pages in progress; with ``live`` in the query their pictures are asked for."""
        is_live, pictures = request.query_params.get("live") == "1", dict[str, int]()
        if is_live:
            now = self._stores.clock.now()
            ask_for_pictures(self._stores.frontier, now=now)
            pictures = live_pictures(self._stores.frontier, now=now)
        leases = status.frontier.leases if status.frontier else ()
        shown = [(lease, picture_key(lease.url)) for lease in leases[:WORKERS_SHOWN]]
        return {
            "is_live": is_live,
            "workers": [(lease, key, pictures.get(key)) for lease, key in shown],
            "now": status.at,
        }

    def _latest(self, request: Request) -> tuple[CapturedPage, ...]:
        rows = self._stores.database.rows(
            f"SELECT {COLUMNS} FROM pages ORDER BY captured_ms DESC LIMIT {LATEST_SHOWN}",  # noqa: S608 ours
            {},
        )
        return self._stores.pages(request.state.user).pages_of(rows)

    def _count_links(self) -> dict[LinkState, int]:
        newest = select(urls.c.state).order_by(urls.c.id.desc()).limit(LINKS_COUNTED).subquery()
        query = select(newest.c.state, func.count()).group_by(newest.c.state)
        with self._stores.registry.store().reading() as connection:
            return {LinkState(state): int(count) for state, count in connection.execute(query)}


def estimate_crawl(urls: str, scope: str, page_limit: int | str, status: CollectionStatus) -> dict[str, Any]:
    """Return seeds, problems, pages at most, and bytes and seconds by measurements so far; None: not limited, unknown."""
    seeds, problems = unique_urls(parse_lines(url_lines(urls), source=translate("The list")))
    pages = len(seeds) if scope == "page" else int(page_limit or 0) or None
    each_bytes = status.holdings.bytes_per_page if status.holdings is not None else None
    rate = status.frontier.per_minute[10] if status.frontier is not None else 0  # of the last ten minutes
    return {
        "seeds": [(url, describe_span(scope, url)) for url in seeds[:SEEDS_SHOWN]],
        "count": len(seeds),
        "problems": list(map(str, problems[:SEEDS_SHOWN])),
        "pages": pages,
        "bytes": pages * each_bytes if pages is not None and each_bytes is not None else None,
        "seconds": pages * 60 / rate if pages is not None and rate else None,
    }


_LINE = {"outcome": "", "status": None, "reason": "", "bytes": 0, "seconds": 0, "page_id": ""}


def search_log(
    path: Path, words: Sequence[str], outcome: str, *, before: int | None = None
) -> tuple[list[dict[str, Any]], int]:
    """Return at most `LISTED` matching lines of the crawl log, newest first, and where to continue; 0: at its begin.

    The part of `LOG_READ_BYTES` before the offset `before` is read; lower-case `words` must all be in the line.
    """
    entries: list[dict[str, Any]] = []
    try:
        with path.open("rb") as file:
            end = os.fstat(file.fileno()).st_size if before is None else min(before, os.fstat(file.fileno()).st_size)
            start = max(0, end - LOG_READ_BYTES)
            file.seek(start)
            part = file.read(end - start)
    except OSError:
        return [], 0
    skipped = part.find(b"\n") + 1 if start else 0
    position = start + len(part)
    for line in reversed(part[skipped:].splitlines(keepends=True)):
        position -= len(line)
        text = line.decode(errors="replace").lower()
        if not all(word in text for word in words):
            continue
        try:
            facts = json.loads(line)
        except ValueError:
            continue
        if isinstance(facts, dict) and isinstance(facts.get("url"), str) and outcome in ("", facts.get("outcome")):
            facts["time"] = str(facts.get("time", ""))[:19].replace("T", " ")
            entries.append(_LINE | facts)
            if len(entries) == LISTED:
                return entries, position
    return entries, start + skipped if start else 0
