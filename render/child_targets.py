"""Child targets of a tab (cross-site frames, workers) the page's pending timers, and its service workers.

``scripts/timers.js`` runs in each document before its first script. Through a binding it reports in
how many milliseconds the last short timer fires and, with a leading plus, the last timer of up to
`longest_timer_s`. A page could call the binding, too, but could only prolong the wait a little.

Each child target starts paused, so it makes no request before its events are listened to. Targets
beyond the limits stay paused, or run without a listener through the same proxy.

Requests of a service worker go through the proxy, too. What it answers from its own code, or from its cache
under another URL, never reaches the proxy: the browser has the only copy, which is read here within limits.
Its answers to requests for other sites are no evidence of what those publish: they are counted and not read.
"""

import asyncio
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from core.clock import Clock
from core.errors import BrowserUnavailableError
from render.cdp import CdpConnection, CommandError, EventHandler
from render.identity import PageOptions
from render.network_log import NetworkLog, WorkerResponse, origin_of

TIMER_BINDING = "weboidTimer"
TIMER_LIMIT = 500  # documents, each with short and late timers, that are tracked


def longest_timer_s(patience_s: float = 2.0) -> float:
    """Return the longest delay of timers that are waited for while a page is not finished."""
    return max(5.0, 2.5 * patience_s)


class PageTimers:
    """Due times of the timers in a page's documents."""

    def __init__(self, clock: Clock, longest_s: float) -> None:
        self._clock = clock
        self._longest_s = longest_s
        self._due: dict[tuple[str, int, bool], float] = {}

    def handle_binding(self, params: dict[str, Any], session: str) -> bool:
        """Handle a binding call from a document of the session; return whether it was valid."""
        payload: str = params["payload"]
        wait_ms = payload.removeprefix("+")
        if len(wait_ms) > 6 or not (wait_ms.isascii() and wait_ms.isdigit()):
            return False
        timer = (session, params["executionContextId"], wait_ms != payload)
        if timer not in self._due and len(self._due) >= TIMER_LIMIT:
            return False
        self._due[timer] = self._clock.monotonic() + min(int(wait_ms) / 1000, self._longest_s)
        return True

    def until(self, *, late: bool = False) -> float:
        """Return when the last known timer fires; 0.0: none. Timers up to the longest count if `late`."""
        return max((due for (*_, is_late), due in self._due.items() if late or not is_late), default=0.0)

    def clear(self) -> None:
        """Clear all timers after a navigation."""
        self._due.clear()


CHILD_LIMIT = 200
WORKER_LIMITS = {"worker": 32, "service_worker": 4}
# We read no bodies, so the browser need keep none for us.
NETWORK_LIMITS = {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0, "maxPostDataSize": 0}
AUTO_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}


@dataclass(eq=False, repr=False)
class ChildTargets:
    """Cross-site frames and workers of one tab."""

    connection: CdpConnection
    options: PageOptions
    log: NetworkLog
    tried: Counter[str]  # counts attempts that no visit allows
    _: KW_ONLY
    on_timer: Callable[[dict[str, Any], str], None]
    on_response: Callable[[str], None]  # called with the session of each response
    clock: Clock
    # Session id of each out-of-process frame, by frame id.
    frames: dict[str, str] = field(default_factory=dict, init=False)
    # Source of the script that runs in each document before its first script.
    guard: str = field(default="", init=False)
    _kinds: dict[str, str] = field(default_factory=dict, init=False)
    _cut_off: bool = field(default=False, init=False)
    _limits: dict[str, int] = field(default_factory=lambda: NETWORK_LIMITS, init=False)

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def attached(self, params: dict[str, Any]) -> None:
        """Handle a newly attached target."""
        info = params["targetInfo"]
        if info["type"] == "service_worker":
            # It is adopted as a target of the context, and waits for this session, too.
            self.connection.post("Runtime.runIfWaitingForDebugger", {}, params["sessionId"])
            return
        if info["type"] == "iframe" and len(self) < CHILD_LIMIT:
            # A target that is a frame has the frame's id.
            self.frames[info["targetId"]] = params["sessionId"]
        self.adopt(params["sessionId"], info["type"])

    def adopt(self, session: str, kind: str) -> None:
        """Listen to a target, set its identity, and let it run."""
        post = self.connection.post
        if kind in WORKER_LIMITS:
            running = sum(each == kind for each in self._kinds.values())
            if running >= WORKER_LIMITS[kind]:
                # It waits for us to let it run, and never takes a processor from other pages.
                self.tried["worker"] += 1
                return
        if kind == "service_worker":
            self._keep_bodies()
        if len(self) < CHILD_LIMIT:
            self._kinds[session] = kind
            self.connection.listen(session, self._listener(session))
            post("Network.enable", self._limits, session)
            post("Target.setAutoAttach", AUTO_ATTACH, session)
            for method, params in self.options.commands(kind):
                post(method, params, session)
            if self._cut_off:
                post("Network.setBlockedURLs", {"urls": ["*"]}, session)
            if kind == "service_worker":
                # The browser itself requests the script, without the page's identity.
                post("Fetch.enable", {"patterns": [{"urlPattern": "*"}]}, session)
            if kind == "iframe":
                post("Page.enable", {}, session)
                post("Runtime.enable", {}, session)
                post("Runtime.addBinding", {"name": TIMER_BINDING}, session)
                post("Page.addScriptToEvaluateOnNewDocument", {"source": self.guard}, session)
        post("Runtime.runIfWaitingForDebugger", {}, session)

    def _keep_bodies(self) -> None:
        """Make the browser keep bodies of responses from now on, for those that a service worker makes."""
        if self._limits is not BODY_LIMITS:
            self._limits = BODY_LIMITS
            for session in self:
                self.connection.post("Network.enable", BODY_LIMITS, session)

    def gone(self, session: str) -> None:
        """Handle a detached target."""
        self.frames = {frame: owner for frame, owner in self.frames.items() if owner != session}
        self._kinds.pop(session, None)
        self.connection.forget(session, "detached")
        self.log.owner_gone(session)

    def cut_off(self) -> None:
        """Block network access of all current and future targets."""
        self._cut_off = True
        for session in self:
            self.connection.post("Network.setBlockedURLs", {"urls": ["*"]}, session)

    def forget(self, reason: str) -> None:
        """Drop all sessions after the tab has ended."""
        for session in self:
            self.connection.forget(session, reason)

    def _identify_script(self, params: dict[str, Any], session: str) -> None:
        """Give the request for a service worker's script the identity of the page's other requests."""
        identity = self.options.identity()
        own = {"user-agent": identity["userAgent"], "accept-language": identity["acceptLanguage"]}
        others = params["request"]["headers"].items()
        headers = own | {name: value for name, value in others if name.lower() not in own}
        answer = {
            "requestId": params["requestId"],
            "headers": [{"name": name, "value": value} for name, value in headers.items()],
        }
        self.connection.post("Fetch.continueRequest", answer, session)
        self.connection.post("Fetch.disable", session_id=session)

    def _listener(self, session: str) -> EventHandler:
        def handle(method: str, params: dict[str, Any]) -> None:
            if method == "Target.attachedToTarget":
                self.attached(params)
            elif method == "Target.detachedFromTarget":
                self.gone(params["sessionId"])
            elif method == "Runtime.bindingCalled":
                self.on_timer(params, session)
            elif method == "Fetch.requestPaused":
                self._identify_script(params, session)
            elif method == "Page.javascriptDialogOpening":
                self.tried[str(params.get("type"))] += 1
                self.connection.post("Page.handleJavaScriptDialog", {"accept": False}, session)
            else:
                if method == "Network.responseReceived":
                    self.on_response(session)
                self.log.handle_event(method, params, owner=session, now=self.clock.monotonic())

        return handle


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

    def answered(self, response: WorkerResponse) -> None:
        """Read a response of a worker from the browser, unless a limit or its site forbids it."""
        if origin_of(response.url) != origin_of(response.document):
            self._foreign += 1
        elif len(self._tasks) >= RESPONSE_LIMIT:
            self._cut += 1
        elif response.url not in self._tasks:
            self._tasks[response.url] = asyncio.create_task(self._read_body(response))

    async def finish(self) -> None:
        """Return when all responses are read."""
        await asyncio.gather(*self._tasks.values())

    def notes(self) -> list[str]:
        """Return what is missing, a sentence each."""
        pending = sum(status in _TRANSIENT for status, _ in self._versions.values())
        unread = sum(not task.done() for task in self._tasks.values())
        counts = {
            "never ended and were stopped": self._hung,
            "did not finish their installation": pending,
            "responses made for other sites are not archived": self._foreign,
            "responses are not archived: too many or too large": self._cut + unread,
        }
        return [f"service workers: {count} {what}." for what, count in counts.items() if count]

    async def _watch(self, session: str) -> None:
        """Stop the worker once it does not answer: its loop would take a processor from the page."""
        with suppress(CommandError, BrowserUnavailableError):
            while True:
                try:
                    async with asyncio.timeout(ANSWER_LIMIT_S):
                        await self._connection.send("Runtime.evaluate", {"expression": "0"}, session)
                except TimeoutError:
                    self._hung += 1
                    target = {"targetId": self._targets[session]}
                    await self._connection.send("Target.closeTarget", target)
                    return
                await asyncio.sleep(ANSWER_LIMIT_S)

    def _set(self, version: str, status: str) -> None:
        known = self._versions.get(version)
        if known is None and len(self._versions) >= _VERSION_LIMIT:
            return
        if known is None or known[0] != status:
            self._versions[version] = (status, self._clock.monotonic() + PATIENCE_S)

    async def _read_body(self, response: WorkerResponse) -> None:
        async with self._read:
            if self._bytes >= TOTAL_LIMIT_BYTES:
                self._cut += 1
                return
            try:
                answer = await self._connection.send(
                    "Network.getResponseBody", {"requestId": response.request_id}, response.session
                )
            except (CommandError, BrowserUnavailableError):
                self._cut += 1
                return
        content_type = response.content_type
        if answer["base64Encoded"]:
            data = b64decode(answer["body"])
        else:
            # The browser has decoded the text.
            data = answer["body"].encode("utf-8", "replace")
            mime = content_type.partition(";")[0].strip() or response.mime
            content_type = f"{mime}; charset=utf-8"
        self._bytes += len(data)
        self.responses[response.url] = SynthesisedResponse(response.url, content_type, data)
