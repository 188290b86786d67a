"""Service workers of a tab: their progress, and the responses that they made themselves.

What a worker answers from its own code, or from its cache under another URL, never reaches the proxy: the browser has
the only copy, which is read here within limits. Its answer for another site is no evidence of what that publishes, so
it is counted and not read.
"""

import asyncio
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from core.clock import Clock
from core.errors import BrowserUnavailableError
from render.cdp import CdpConnection, CommandError
from render.network_log import PendingRequest, origin_of

# A worker that takes longer for one step of its installation is not waited for.
PATIENCE_S = 5.0
RESPONSE_LIMIT = 200  # responses of one visit that are read
RESPONSE_LIMIT_BYTES = 5_000_000
TOTAL_LIMIT_BYTES = 20_000_000
# From the first worker on, the browser keeps bodies for us.
BODY_LIMITS = {
    "maxTotalBufferSize": TOTAL_LIMIT_BYTES,
    "maxResourceBufferSize": RESPONSE_LIMIT_BYTES,
    "maxPostDataSize": 0,
}
_VERSION_LIMIT = 100
# A worker that does not answer a question for so long is in a loop that never ends.
ANSWER_LIMIT_S = 5.0
_TRANSIENT = frozenset({"new", "installing", "activating"})


@dataclass(frozen=True, slots=True)
class SynthesisedResponse:
    """Response that a service worker made: its URL, Content-Type and decoded body."""

    url: str
    content_type: str
    data: bytes = field(repr=False)

    @property
    def mime(self) -> str:
        """Return the bare media type."""
        return self.content_type.partition(";")[0].strip().lower()


class ServiceWorkers:
    """Service workers of one tab."""

    def __init__(self, connection: CdpConnection, on_change: Callable[[], None], clock: Clock) -> None:
        self._connection = connection
        self._on_change = on_change
        self._clock = clock
        # Status of each version and when its patience ends, by version id; "" before the first is known
        self._versions: dict[str, tuple[str, float]] = {}
        self._read = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by URL: the first response to each counts
        self._bytes = 0
        self._foreign = self._cut = 0
        self._targets: dict[str, str] = {}  # target id of each worker, by session
        self._watches: dict[str, asyncio.Task[None]] = {}  # by session
        self._hung = 0
        self.responses: dict[str, SynthesisedResponse] = {}  # what they made, by URL

    @property
    def exist(self) -> bool:
        """Return whether the page has registered any."""
        return bool(self._targets)

    def started(self, session: str, target_id: str) -> None:
        """Handle a new worker, which is about to run."""
        self._targets[session] = target_id
        self._set("", "new")

    def script_arrived(self, session: str) -> None:
        """Watch a worker from its first response on, which is its script's; ignore other sessions."""
        if session in self._targets and session not in self._watches:
            self._watches[session] = asyncio.create_task(self._watch(session))

    def versions_updated(self, params: dict[str, Any]) -> None:
        """Handle ``ServiceWorker.workerVersionUpdated``."""
        self._versions.pop("", None)
        for version in params["versions"]:
            self._set(version["versionId"], version["status"])
        self._on_change()

    def until(self) -> float:
        """Return until when a worker that installs or activates is waited for; 0.0: there is none."""
        return max((until for status, until in self._versions.values() if status in _TRANSIENT), default=0.0)

    def answered(self, request: PendingRequest) -> None:
        """Read a response of a worker from the browser, unless a limit or its site forbids it."""
        if origin_of(request.url) != origin_of(request.document):
            self._foreign += 1
        elif len(self._tasks) >= RESPONSE_LIMIT:
            self._cut += 1
        elif request.url not in self._tasks:
            self._tasks[request.url] = asyncio.create_task(self._read_body(request))

    async def finish(self) -> None:
        """Return when all responses are read."""
        await asyncio.gather(*self._tasks.values())

    def notes(self) -> list[str]:
        """Return one sentence for each missing part."""
        pending = sum(status in _TRANSIENT for status, _ in self._versions.values())
        unread = sum(not task.done() for task in self._tasks.values())
        counts = {
            "never ended and were stopped": self._hung,
            "did not finish their installation": pending,
            "responses made for other sites are not archived": self._foreign,
            "responses are not archived: too many or too large": self._cut + unread,
        }
        return [f"service workers: {count} {problem}." for problem, count in counts.items() if count]

    async def _watch(self, session: str) -> None:
        """Stop the worker once it does not answer: its loop would take a processor from the page."""
        with suppress(CommandError, BrowserUnavailableError):
            while True:
                try:
                    async with asyncio.timeout(ANSWER_LIMIT_S):
                        await self._connection.send("Runtime.evaluate", {"expression": "0"}, session)
                except TimeoutError:
                    self._hung += 1
                    await self._connection.send("Target.closeTarget", {"targetId": self._targets[session]})
                    return
                await asyncio.sleep(ANSWER_LIMIT_S)

    def _set(self, version: str, status: str) -> None:
        known = self._versions.get(version)
        is_new = known is None and len(self._versions) < _VERSION_LIMIT
        if is_new or (known is not None and known[0] != status):
            self._versions[version] = (status, self._clock.monotonic() + PATIENCE_S)

    async def _read_body(self, request: PendingRequest) -> None:
        async with self._read:
            if self._bytes >= TOTAL_LIMIT_BYTES:
                self._cut += 1
                return
            try:
                wanted = {"requestId": request.identifier}
                answer = await self._connection.send("Network.getResponseBody", wanted, request.owner)
            except (CommandError, BrowserUnavailableError):
                self._cut += 1
                return
        content_type = request.content_type
        if answer["base64Encoded"]:
            data = b64decode(answer["body"])
        else:
            # The browser has decoded the text.
            data = answer["body"].encode("utf-8", "replace")
            mime = content_type.partition(";")[0].strip() or request.mime
            content_type = f"{mime}; charset=utf-8"
        self._bytes += len(data)
        self.responses[request.url] = SynthesisedResponse(request.url, content_type, data)
