"""What a tab spawns: frames of other sites and workers, each heard, told who we are, and let run.

Each is a target of its own that waits when it is made, so nothing of it asks for anything before it is
heard. What is too much waits for ever, or runs unheard through the same proxy.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from core.clock import Clock
from render.cdp import CdpConnection, EventHandler
from render.identity import PageOptions
from render.network import NetworkLog
from render.timers import BINDING

CHILD_LIMIT = 200
WORKER_LIMIT = 32
# We read no bodies, so the browser need keep none for us.
NETWORK = {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0, "maxPostDataSize": 0}
AUTO_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}


class Children:
    """The frames of other sites and the workers of one tab.

    Attributes:
        frames: the session of each frame that has a process of its own, by frame id.
        guard: what runs in each document before its first script.
    """

    def __init__(
        self,
        connection: CdpConnection,
        options: PageOptions,
        log: NetworkLog,
        tried: Counter[str],
        *,
        timer_told: Callable[[dict[str, Any], str], None],
        clock: Clock,
    ) -> None:
        """None yet.

        Args:
            connection: to the browser.
            options: how they present themselves.
            log: where their requests go.
            tried: where it is counted what they tried that no visit allows.
            timer_told: told of each call of the timers' binding, and of its session.
            clock: the time.
        """
        self._connection = connection
        self._options = options
        self._log = log
        self._tried = tried
        self._timer_told = timer_told
        self._clock = clock
        self._kinds: dict[str, str] = {}
        self._cut_off = False
        self.frames: dict[str, str] = {}
        self.guard = ""

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def attached(self, params: dict[str, Any]) -> None:
        """One was made."""
        info = params["targetInfo"]
        if info["type"] == "iframe" and len(self) < CHILD_LIMIT:
            # A target that is a frame has the frame's id.
            self.frames[info["targetId"]] = params["sessionId"]
        self.adopt(params["sessionId"], info["type"])

    def adopt(self, session: str, kind: str) -> None:
        """Hear it, tell it who we are, and let it run."""
        post = self._connection.post
        if kind == "worker":
            running = sum(each == "worker" for each in self._kinds.values())
            if running >= WORKER_LIMIT:
                # It waits for us to let it run, and never takes a processor from other pages.
                self._tried["worker"] += 1
                return
        if len(self) < CHILD_LIMIT and kind != "service_worker":
            self._kinds[session] = kind
            self._connection.listen(session, self._listener(session))
            post("Network.enable", NETWORK, session)
            post("Target.setAutoAttach", AUTO_ATTACH, session)
            for method, params in self._options.commands(kind):
                post(method, params, session)
            if self._cut_off:
                post("Network.setBlockedURLs", {"urls": ["*"]}, session)
            if kind == "iframe":
                self._prepare_frame(session)
        if kind != "service_worker":
            post("Runtime.runIfWaitingForDebugger", {}, session)

    def gone(self, session: str) -> None:
        """It ended."""
        self.frames = {frame: owner for frame, owner in self.frames.items() if owner != session}
        self._kinds.pop(session, None)
        self._connection.forget(session, "detached")
        self._log.owner_gone(session)

    def cut_off(self) -> None:
        """None of them reaches the network any more, nor those that are still to come."""
        self._cut_off = True
        for session in self:
            self._connection.post("Network.setBlockedURLs", {"urls": ["*"]}, session)

    def forget(self, reason: str) -> None:
        """The tab ended, and they with it."""
        for session in self:
            self._connection.forget(session, reason)

    def _prepare_frame(self, session: str) -> None:
        post = self._connection.post
        post("Network.setBypassServiceWorker", {"bypass": True}, session)
        post("Page.enable", {}, session)
        post("Runtime.enable", {}, session)
        post("Runtime.addBinding", {"name": BINDING}, session)
        post("Page.addScriptToEvaluateOnNewDocument", {"source": self.guard}, session)

    def _listener(self, session: str) -> EventHandler:
        def heard(method: str, params: dict[str, Any]) -> None:
            if method == "Target.attachedToTarget":
                self.attached(params)
            elif method == "Target.detachedFromTarget":
                self.gone(params["sessionId"])
            elif method == "Runtime.bindingCalled":
                self._timer_told(params, session)
            elif method == "Page.javascriptDialogOpening":
                self._tried[str(params.get("type"))] += 1
                self._connection.post("Page.handleJavaScriptDialog", {"accept": False}, session)
            else:
                self._log.heard(method, params, owner=session, now=self._clock.monotonic())

        return heard
