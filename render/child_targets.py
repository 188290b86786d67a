"""Child targets of a tab (cross-site frames, workers) and the page's pending timers.

``scripts/timers.js`` reports through a binding in how many milliseconds the last short timer fires and, with a leading
plus, the last timer of up to `longest_timer_s`. A page could call it, too, but only prolong the wait a little.

Each child target starts paused, so it makes no request before its events are listened to. Targets beyond the limits
stay paused, or run without a listener through the same proxy.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

from core.clock import Clock
from render.cdp import CdpConnection
from render.chromium import PageOptions
from render.network_log import NetworkLog
from render.service_workers import BODY_LIMITS

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
# Bodies are not read, so the browser need not buffer any.
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
        if kind in WORKER_LIMITS and list(self._kinds.values()).count(kind) >= WORKER_LIMITS[kind]:
            # It is paused until resumed, so it takes no CPU time from other pages.
            self.tried["worker"] += 1
            return
        if kind == "service_worker" and self._limits is not BODY_LIMITS:
            self._limits = BODY_LIMITS
            for other in self:
                post("Network.enable", BODY_LIMITS, other)
        if len(self) < CHILD_LIMIT:
            self._kinds[session] = kind
            self.connection.listen(session, partial(self._handle_event, session))
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
        listed = [{"name": name, "value": value} for name, value in headers.items()]
        self.connection.post("Fetch.continueRequest", {"requestId": params["requestId"], "headers": listed}, session)
        self.connection.post("Fetch.disable", session_id=session)

    def _handle_event(self, session: str, method: str, params: dict[str, Any]) -> None:
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
