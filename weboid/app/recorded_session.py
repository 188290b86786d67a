"""Recorded sessions: what a command, or a person's browser, requests is archived as pages with manifests.

A session is a visit at a recorder of its own: credentials, limits, dedup and durability are those of visits. All of a
command's requests are one page; in a browser each page that a tab shows is one, and the captures belong to the first.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from core.captures import ArtifactKind, artifact_uri
from core.clock import Clock
from core.config.settings import Settings
from core.errors import InputError, TransientError
from core.hosts import ProxyEndpoint
from core.page_manifest import PageInfo, PagePicture, VisitOutcome
from core.timestamps import from_unix_milliseconds
from crawler.capture.reconciliation import build_page_info
from crawler.collection import open_collection
from crawler.pools.resource_pool import BYTE_COUNTER_FILE, ProxyProcess
from proxy.control.client import NewArtifact, ProxyClient, ProxyVisit
from proxy.request_log import RequestLogEntry
from render.artifacts import PageArtifact
from render.chromium import BrowserExecutable
from render.screenshot import picture_size, thumbnail
from render.sign_in import ShownPage, open_recorded_window
from render.visit import Visit
from warc.index.database import is_complete
from warc.local_storage import ScratchKind, scratch_folder
from warc.rebuild import complete_index

FAILURES_SHOWN = 5
COUNT_S = 1.0  # interval of the live counts
# A session may last for hours: limits of a visit that are for one page are raised to these.
SESSION_REQUESTS = 1_000_000
SESSION_BYTES = 1 << 40
_HTML = ("text/html", "application/xhtml+xml")


@dataclass(frozen=True, slots=True)
class SessionAccess:
    """Way to the recorder for the clients of a session."""

    endpoint: ProxyEndpoint
    authority: Path  # the certificate of the recorder's authority, PEM
    spki: str  # digest of its key, as browsers take it

    @property
    def url(self) -> str:
        """Return the proxy's address with the session's credentials."""
        each = self.endpoint
        return f"http://{each.username}:{each.password}@{each.server.removeprefix('http://')}"

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a command whose HTTP clients use the recorder and trust its authority."""
        proxied = ("http_proxy", "https_proxy", "all_proxy")
        removed_names = (*proxied, "no_proxy", "ftp_proxy")  # in either case
        variables = {name: value for name, value in inherited.items() if name.lower() not in removed_names}
        proxies = dict.fromkeys((*proxied, *map(str.upper, proxied)), self.url)
        names = (
            *("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
            *("PIP_CERT", "AWS_CA_BUNDLE", "WEBOID_RECORD_CA"),
        )
        own = {
            "WEBOID_RECORD_PROXY": self.endpoint.server,
            "WEBOID_RECORD_USERNAME": self.endpoint.username,
            "WEBOID_RECORD_PASSWORD": self.endpoint.password,
            "WEBOID_RECORD_SPKI": self.spki,
            "NODE_USE_ENV_PROXY": "1",  # fetch of Node.js
        }
        # GNU Wget takes the certificate from a configuration file only, written next to it.
        configured = Path(variables.get("WGETRC") or Path(variables.get("HOME", "/nonexistent")) / ".wgetrc")
        settings = self.authority.with_name("wgetrc")
        before = configured.read_text(errors="surrogateescape") if configured.is_file() else ""
        settings.write_text(f"{before}\nca_certificate = {self.authority}\n", errors="surrogateescape")
        return {**variables, **proxies, **dict.fromkeys(names, str(self.authority)), **own, "WGETRC": str(settings)}


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """Live counts of a session."""

    requests: int = 0
    hosts: int = 0
    failed: int = 0  # without a response, or refused by us
    in_flight: int = 0


@dataclass(slots=True)
class SessionResult:
    """Result of a session: the manifests of its pages, and its counts."""

    pages: list[PageInfo] = field(default_factory=list)
    counts: SessionCounts = SessionCounts()
    records: int = 0
    stored_bytes: int = 0
    failures: Sequence[str] = ()  # URL and reason of the first requests without a response


# Runs the clients of a session; returns the pages that they have shown, none where that is not known.
SessionClients = Callable[[SessionAccess], Awaitable[Sequence[ShownPage]]]


async def record_session(
    root: Path, settings: Settings, clients: SessionClients, *, clock: Clock, on_counts: Callable[[SessionCounts], None]
) -> SessionResult:
    """Record what the clients request into the collection; return when its pages are on disk and in the index.

    Raises InputError: the settings are a cluster's; UnavailableError: another process writes, or the recorder died.
    """
    if settings.frontier.url:
        raise InputError("Sessions are recorded on this machine: omit the shared frontier.")
    limits = {"visit_limit_requests": SESSION_REQUESTS, "visit_limit_bytes": SESSION_BYTES}
    raised = {name: max(value, getattr(settings.proxy, name)) for name, value in limits.items()}
    settings = replace(settings, proxy=replace(settings.proxy, processes=1, **raised))
    async with open_collection(root, clock=clock) as collection:
        layout = collection.layout
        if settings.index.url or not await asyncio.to_thread(is_complete, layout):
            await asyncio.to_thread(complete_index, layout, settings.proxy, index=settings.index, report=lambda _: None)
        with scratch_folder(ScratchKind.RUN) as folder:
            (folder / BYTE_COUNTER_FILE).write_bytes(bytes(8))
            recorder = ProxyProcess(0, collection, settings, folder, lambda _recovered: None)
            await recorder.start()
            try:
                return await _record(recorder.client, folder, settings, clients, clock, on_counts)
            finally:
                await recorder.stop()


async def _record(
    client: ProxyClient,
    folder: Path,
    settings: Settings,
    clients: SessionClients,
    clock: Clock,
    on_counts: Callable[[SessionCounts], None],
) -> SessionResult:
    status = await client.status()
    authority = folder / "authority.pem"
    authority.write_text(str(status["authority"]))
    bucket = settings.proxy.dedup_bucket
    page_id = str(uuid4())
    async with client.visit(page_id, bucket=bucket, headers=settings.visit.headers) as session:
        access = SessionAccess(session.credentials, authority, str(status["spki"]))
        async with _counting(session, on_counts):
            shown = await clients(access)
        ledger = await session.seal(grace_s=settings.proxy.seal_grace_s)
        failures = [f"{each.url} ({each.reason or each.kept})" for each in ledger if each.status is None]
        result = SessionResult(counts=counts_of(ledger), failures=failures[:FAILURES_SHOWN])
        on_counts(result.counts)
        visits = session_visits(shown, ledger, now=clock.now())
        for number, (capture, entries) in enumerate(visits):
            own_id = page_id if not number else str(uuid4())
            # The artifacts of a page bear its own identifier.
            writing = client.visit(own_id, bucket=bucket) if number else nullcontext(session)
            async with writing as visit:
                result.pages.append(await _write_page(visit, own_id, capture, entries))
        written = [each for each in ledger if each.filename]
        result.records = len(written)
        result.stored_bytes = sum(each.length for each in written)
        return result


@asynccontextmanager
async def _counting(session: ProxyVisit, on_counts: Callable[[SessionCounts], None]) -> AsyncIterator[None]:
    """Report live counts until the end of the block."""

    async def count() -> None:
        while True:
            await asyncio.sleep(COUNT_S)
            with suppress(TransientError):  # the end of the session reports it
                so_far = await session.ledger()
                on_counts(replace(counts_of(so_far.entries), in_flight=len(so_far.in_flight)))

    counting = asyncio.create_task(count())
    try:
        yield
    finally:
        counting.cancel()
        await asyncio.gather(counting, return_exceptions=True)


async def _write_page(visit: ProxyVisit, page_id: str, capture: Visit, ledger: Sequence[RequestLogEntry]) -> PageInfo:
    written = await visit.write(
        [NewArtifact(artifact_uri(each.kind, capture.url), each.content_type, each.data) for each in capture.artifacts],
        document=capture.final_url,
        date=capture.started_at,
    )
    page = build_page_info(page_id, capture, ledger, written)
    manifest = NewArtifact(artifact_uri(ArtifactKind.PAGEINFO, capture.url), "application/json", page.to_json())
    await visit.write([manifest], document=capture.final_url, date=capture.started_at)
    return page


def counts_of(entries: Sequence[RequestLogEntry]) -> SessionCounts:
    """Count the requests of a session."""
    hosts = {urlsplit(each.url).netloc for each in entries}
    return SessionCounts(len(entries), len(hosts), sum(each.status is None for each in entries))


def session_visits(
    shown: Sequence[ShownPage], ledger: Sequence[RequestLogEntry], *, now: datetime
) -> list[tuple[Visit, list[RequestLogEntry]]]:
    """Return the session's pages as visits, each with its requests; none without a response.

    A page has the requests since its document was requested, until the next page's. Without pages that a browser
    has shown, all are of one: its URL is the first document's, else the first successful request's.
    """
    answered = [each for each in ledger if each.status is not None]
    if not answered:
        return []
    if not shown:
        good = [each for each in answered if each.status is not None and each.status < 300]
        documents = [each for each in good if each.mime in _HTML]
        main = (documents or good or answered)[0]
        return [(_visit_of(main, None, now=now), list(ledger))]
    starts: list[tuple[int, ShownPage]] = []  # place of the document in the ledger
    for page in shown:
        since = starts[-1][0] + 1 if starts else 0
        places = (n for n, each in enumerate(ledger) if n >= since and _is_document(each, page))
        # Otherwise it came from the browser's cache, and is archived with the previous page.
        starts += [(place, page) for place in islice(places, 1)]
    visits = []
    ends = [*(start for start, _ in starts[1:]), len(ledger)]
    for number, ((start, page), end) in enumerate(zip(starts, ends, strict=False)):
        entries = list(ledger[start if number else 0 : end])
        # A server may ask for a password first, and no tab shows that answer.
        answers = (each for each in ledger[start:end] if _is_document(each, page) and each.status not in {401, None})
        visits.append((_visit_of(next(answers, ledger[start]), page, now=now), entries))
    return visits


def _is_document(entry: RequestLogEntry, page: ShownPage) -> bool:
    return entry.url == page.url and entry.method != "OPTIONS"


def _visit_of(main: RequestLogEntry, page: ShownPage | None, *, now: datetime) -> Visit:
    artifacts: list[PageArtifact] = []
    pictures: list[PagePicture] = []
    if page is not None and page.picture:
        for kind, data in ((ArtifactKind.VIEW, page.picture), (ArtifactKind.THUMBNAIL, thumbnail(page.picture))):
            content_type, width, height = picture_size(data)
            artifacts.append(PageArtifact(kind, content_type, data))
            pictures.append(PagePicture(str(kind), width, height))
    if page is not None and page.text:
        text = page.text.encode("utf-8", "replace")
        artifacts.append(PageArtifact(ArtifactKind.TEXT, "text/plain; charset=utf-8", text))
    started = from_unix_milliseconds(main.started_ms)
    return Visit(
        url=main.url,
        final_url=main.url,
        started_at=started,
        outcome=VisitOutcome.COMPLETE if main.status is not None else VisitOutcome.FAILED,
        reason="" if main.status is not None else main.reason,
        status=main.status,
        mime=main.mime,
        headers={},
        title="" if page is None else page.title,
        redirects=(),
        requests=(),
        artifacts=tuple(artifacts),
        outlinks=(),
        timings={},
        console=(),
        seconds=max((now - started).total_seconds(), 0.0),
        pictures=tuple(pictures),
    )


async def run_command(command: Sequence[str], access: SessionAccess, stop: asyncio.Event) -> int:
    """Run the command, until `stop` at most; return its exit status. Raises InputError if it cannot be started."""
    try:
        process = await asyncio.create_subprocess_exec(*command, env=access.environment(os.environ))
    except OSError as error:
        raise InputError(f"{command[0]} cannot be run: {error.strerror or error}.") from error
    ending, stopping = asyncio.create_task(process.wait()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((ending, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            # A terminal's Ctrl-C may have ended it just now: `terminate` would then take its exit status from asyncio.
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
        return await ending
    finally:
        stopping.cancel()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()


async def show_window(
    url: str,
    executable: BrowserExecutable,
    access: SessionAccess,
    stop: asyncio.Event,
    *,
    screen: Mapping[str, str] | None,
    clock: Clock,
) -> list[ShownPage]:
    """Show a browser at the URL until it is closed, or `stop`; return its pages. Raises as `open_recorded_window`."""
    opening = open_recorded_window(url, executable, screen=screen, proxy=access.endpoint, spki=access.spki, clock=clock)
    async with opening as window:
        watching, stopping = asyncio.create_task(window.watch()), asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((watching, stopping), return_when=asyncio.FIRST_COMPLETED)
            window.over.set()
            await watching
        finally:
            watching.cancel()
            stopping.cancel()
        return window.pages
