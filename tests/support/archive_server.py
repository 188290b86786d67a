"""Archives of the world on one loopback server: each host a prefix of its paths, answers in real formats.

Their clients are the real ones and speak real HTTP; only where a host is found is bent.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from aiohttp import web

from core.config.settings import EgressSettings
from links.archives.archive_client import ArchiveClient, ArchiveRequest, ArchiveResponse, HttpFetch
from tests.support.clocks import ManualClock

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
EGRESS = EgressSettings(allow=("127.0.0.0/8",))


@dataclass(frozen=True)
class ServiceAnswer:
    """Response of a path."""

    status: int = 200
    body: str | bytes = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: asyncio.Event | None = None


@dataclass
class ServiceCall:
    """Request that was received."""

    method: str
    place: str  # host, path and query as they were sent
    headers: Mapping[str, str]
    body: str


class ArchiveServer:
    """The server: give it `answers` by host and path, see what was `requests`."""

    def __init__(self) -> None:
        self.answers: dict[str, ServiceAnswer | list[ServiceAnswer] | Callable[[ServiceCall], ServiceAnswer]] = {}
        self.requests: list[ServiceCall] = []
        self.origin = ""
        self.clock = ManualClock(seconds=1_000.0)

    def put(self, place: str, body: str | bytes = "", status: int = 200, **headers: str) -> None:
        """Set the answer for a place; underscores in header names stand for hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[place.partition("://")[2]] = ServiceAnswer(status, body, named)

    @property
    def places(self) -> list[str]:
        """Return the requested places (host, path and query), in order."""
        return [each.place for each in self.requests]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        place = request.raw_path[1:]
        body = (await request.read()).decode()
        call = ServiceCall(request.method, place, dict(request.headers), body)
        self.requests.append(call)
        entry = self.answers.get(place) or self.answers.get(place.partition("?")[0])
        if isinstance(entry, list):
            entry = entry.pop(0) if len(entry) > 1 else entry[0]
        answer = entry(call) if callable(entry) else entry or ServiceAnswer(404, "not here")
        if answer.delay is not None:
            await answer.delay.wait()
        data = answer.body if isinstance(answer.body, bytes) else answer.body.encode()
        return web.Response(status=answer.status, body=data, headers=dict(answer.headers))

    def client(self, fetch: HttpFetch, *, gap_s: float = 0.0) -> ArchiveClient:
        """Return a client whose requests to archives reach this server."""

        async def rerouted(question: ArchiveRequest) -> ArchiveResponse:
            scheme, _, rest = question.url.partition("://")
            place = question.url if question.url.startswith(self.origin) else f"{self.origin}/{rest}"
            reply = await fetch(dataclasses.replace(question, url=place))
            shown = reply.url.replace(f"{self.origin}/", f"{scheme}://", 1)
            return dataclasses.replace(reply, url=shown)

        clock = self.clock
        return ArchiveClient(rerouted, now=lambda: NOW, monotonic=clock.monotonic, sleep=clock.sleep, gap_s=gap_s)


@asynccontextmanager
async def running_archive_server() -> AsyncIterator[ArchiveServer]:
    """Run an archive server on a free port of loopback."""
    archive_server = ArchiveServer()
    runner = web.ServerRunner(web.Server(archive_server.handle))
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        archive_server.origin = f"http://{host}:{port}"
        yield archive_server
    finally:
        await runner.cleanup()


def fetcher(egress: EgressSettings = EGRESS, *, limit_s: float = 30.0) -> HttpFetch:
    """Return the real `HttpFetch`, which by default may reach loopback."""
    return HttpFetch(egress, is_own=lambda _address: False, user_agent="Weboid", limit_s=limit_s)
