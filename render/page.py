"""Browser tab: commands, scripts in the isolated world, dialogs, child targets.

A page is hostile. It may close itself, crash, navigate endlessly, or open any number of windows and dialogs.

Whatever takes a page, in this module and in those above it, raises PageClosedError, CommandError and
BrowserUnavailableError as `BrowserPage.send` does, unless it says otherwise.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from core.clock import Clock
from core.errors import TransientError
from core.hosts import ProxyEndpoint
from render.browser import DOCUMENT_PATTERNS, BrowserContext, ProxyLogin
from render.cdp import CommandError
from render.child_targets import AUTO_ATTACH, NETWORK_LIMITS, TIMER_BINDING, ChildTargets, PageTimers, longest_timer_s
from render.chromium import PageOptions
from render.network_log import NetworkLog
from render.service_workers import BODY_LIMITS, ServiceWorkers

WORLD = "weboid"
COMMIT_LIMIT = 20
CLOSE_LIMIT_S = 2.0  # of a tab whose unload handlers may run
TAB_VISITS = 20  # of one tab: its process grows with each page
# After a document was left: what a fresh tab would not have.
_FORGET = "try { sessionStorage.clear(); } catch {} name = ''"
CONSOLE_LINES = 50
CONSOLE_CHARS = 300
SCRIPT_ATTEMPTS = 3
LIVE_PICTURE = {"format": "jpeg", "quality": 45, "maxWidth": 640, "maxHeight": 400}
LIVE_PICTURE_S = 2.0  # one a second costs 5 to 6 % of the pages per CPU second
_INCLUDE = re.compile(r"include\(\"(\w+)\"\)")


class PageClosedError(TransientError):
    """Error of a page that ended before its visit; `reason` is ``crashed`` or ``closed``."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The page {reason}.")
        self.reason = reason


class BrowserPage:
    """Browser tab, created by `open_page`."""

    def __init__(
        self,
        context: BrowserContext,
        target_id: str,
        session_id: str,
        *,
        proxy: ProxyEndpoint | None,
        options: PageOptions,
        clock: Clock,
    ) -> None:
        self.connection = context.connection
        self.context = context
        self._session = session_id
        self._options = options
        self._clock = clock
        self._world: int | None = None
        self._cut_off = False
        self._halted = False
        self.held = False  # True while navigation is blocked; see `hold`
        self.picture_css = ""  # CSS rules applied in its pictures only; empty for none
        self.target_id = target_id
        # Frame that scripts run in, and its session; see `enter`
        self.main_id, self.main_session = target_id, ""
        self.log = NetworkLog(target_id)
        self.log.on_change = self._log_changed
        self.commits: list[str] = []  # loader ids of the main frame's documents, oldest first
        self.url = ""  # URL of the latest document, without its fragment
        self.unreachable = False  # True when the document is the browser's own error page
        self.dom_ready = False  # True once the document was parsed completely
        self.loaded = False  # True once its load event fired
        self.gone = ""  # reason for which the page has ended; empty while it exists
        self.console: list[str] = []  # console error lines, shortened
        # Counts of attempts that no visit allows, by kind: ``alert``, ``popup``, ``download``, …
        self.tried: Counter[str] = Counter()
        self.timers = PageTimers(clock, longest_timer_s())
        self.changed = asyncio.Event()  # set whenever one of these, or the log, may have changed
        self.workers = ServiceWorkers(self.connection, self.changed.set, clock)
        self._shared_workers: list[str] = []  # their target ids
        self._live: str | None = None  # newest live picture, base64 of a JPEG; None: none are made
        self._is_drawing = False  # True while the browser makes the next one
        self._drawn_at = self.now()  # when the last one was begun
        self.log.on_worker_response = self.workers.answered
        # Its cross-site frames and workers
        self.children = ChildTargets(
            self.connection,
            options,
            self.log,
            self.tried,
            on_timer=self._timer_set,
            on_response=self.workers.script_arrived,
            clock=clock,
        )
        self.login = ProxyLogin(proxy, self.post)
        self.detached = asyncio.Event()  # set once the tab does not exist any more
        self._handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "Page.frameNavigated": self._navigated,
            "Page.frameStoppedLoading": self._stopped,
            "Target.attachedToTarget": self.children.attached,
            "Target.detachedFromTarget": lambda params: self.children.gone(params["sessionId"]),
            "Inspector.targetCrashed": lambda _: self.end("crashed"),
            "Page.screencastFrame": self._live_picture_made,
            "Fetch.requestPaused": self._request_paused,
            "Fetch.authRequired": self.login.authenticate,
            "Runtime.bindingCalled": self._timer_set,
            "ServiceWorker.workerVersionUpdated": self.workers.versions_updated,
        }

    async def send(self, method: str, params: dict[str, Any] | None = None, session: str = "") -> dict[str, Any]:
        """Send a command to the page, or to the frame of `session`; return its result.

        Raises PageClosedError (it crashed or closed), CommandError (the command was refused), BrowserUnavailableError.
        """
        if self.gone:
            raise PageClosedError(self.gone)
        try:
            return await self.connection.send(method, params, session or self._session)
        except CommandError:
            if self.gone:
                raise PageClosedError(self.gone) from None
            raise

    def post(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a command and ignore its result."""
        self.connection.post(method, params, self._session)

    async def call(self, name: str, *arguments: object) -> Any:
        """Return the result of the script `name` in the isolated world, run again when the page navigates meanwhile."""
        return await self.run(name, load_script(name), *arguments)

    async def run(self, name: str, source: str, *arguments: object) -> Any:
        """Return the result of a function expression, run as `call` does."""
        values = [{"value": argument} for argument in arguments]
        for attempt in range(SCRIPT_ATTEMPTS):
            try:
                context = await self.world()
                answer = await self.evaluate(f"{name}.js", source, values, context=context, session=self.main_session)
                return answer.get("value")
            except CommandError:
                if attempt == SCRIPT_ATTEMPTS - 1:
                    raise
                self._world = None
        raise AssertionError

    async def evaluate(  # noqa: PLR0913 parameters of one CDP command
        self,
        name: str,
        source: str,
        arguments: Sequence[Mapping[str, object]],
        *,
        context: int,
        session: str = "",
        by_value: bool = True,
        gesture: bool = False,
    ) -> dict[str, Any]:
        """Return the `Runtime.RemoteObject` of a function's result; CommandError of `name` if it fails; as `send`."""
        answer = await self.send(
            "Runtime.callFunctionOn",
            {
                "functionDeclaration": source,
                "executionContextId": context,
                "arguments": [*arguments],
                "returnByValue": by_value,
                "awaitPromise": True,
                "silent": True,
                "userGesture": gesture,
            },
            session,
        )
        if (failure := answer.get("exceptionDetails")) is not None:
            message = failure.get("exception", {}).get("description", failure.get("text", ""))
            raise CommandError(name, " ".join(message.split())[:CONSOLE_CHARS])
        result: dict[str, Any] = answer["result"]
        return result

    @property
    def broke_off(self) -> bool:
        """Return whether the current document failed while loading: it may be empty."""
        return bool(self.commits and self.log.document_errors.get(self.commits[-1]))

    async def wait_changed(self) -> None:
        """Return when anything happened since the last call."""
        await self.changed.wait()
        self.changed.clear()

    def now(self) -> float:
        """Return the time in seconds on the clock of the request log."""
        return self._clock.monotonic()

    def draw_small(self, scale: float) -> None:
        """Draw a page, unless it is a phone's, at a fraction of its size: scroll steps cost less, layout stays."""
        if not self._options.mobile:
            self.post("Emulation.setDeviceMetricsOverride", {**self._options.screen(), "scale": scale})

    def hold(self) -> None:
        """Block navigation until `release`, so that clicks cannot leave the page; service workers are bypassed."""
        self.held = True
        self._bypass_workers(bypass=True)
        self.post("Fetch.enable", {"patterns": DOCUMENT_PATTERNS})

    def release(self) -> None:
        """End `hold`; no effect without one."""
        if self.held and not self._halted:
            self.post("Fetch.disable")
            self._bypass_workers(bypass=False)
        self.held = False

    async def stay(self) -> None:
        """Call `hold`, and return when the arriving document is parsed: one stopped before its body is never drawn."""
        self.held = True
        self._bypass_workers(bypass=True)
        await self.send("Fetch.enable", {"patterns": DOCUMENT_PATTERNS})
        # New navigations are aborted; one that was started before still arrives.
        held_at = self.now()
        while not self.dom_ready or self.log.arriving(held_at, self.commits):
            await self.wait_changed()
            if self.gone:
                raise PageClosedError(self.gone)

    def take_live_picture(self) -> str:
        """Return the newest live picture, base64 of a JPEG, once, else ""; request the next after `LIVE_PICTURE_S`."""
        picture, self._live = self._live or "", ""
        if not self._is_drawing and self.now() - self._drawn_at >= LIVE_PICTURE_S:
            self._is_drawing, self._drawn_at = True, self.now()
            self.post("Page.startScreencast", LIVE_PICTURE)
        return picture

    def end_live_pictures(self) -> None:
        """Stop `take_live_picture`."""
        if self._is_drawing:
            self._is_drawing = False
            self.post("Page.stopScreencast")
        self._live = None

    def _live_picture_made(self, params: dict[str, Any]) -> None:
        if self._is_drawing:
            self.end_live_pictures()
            self._live = params["data"]

    def halt(self) -> None:
        """Stop scripts, even one that never ends, and loading; abort navigation, which leaves the document in place."""
        self._halted = True
        self._bypass_workers(bypass=True)
        self.post("Fetch.enable", {"patterns": DOCUMENT_PATTERNS})
        self.post("Emulation.setScriptExecutionDisabled", {"value": True})
        self.post("Runtime.terminateExecution")
        self.post("Page.stopLoading")

    async def start(self, guard: str, *, is_fresh: bool = True) -> None:
        """Configure the tab, which is paused if it is fresh, and let it run."""
        self.children.guard = guard
        self.connection.listen(self._session, self._handle_event)
        self.post("Page.enable")
        self.post("Page.setInterceptFileChooserDialog", {"enabled": True})
        self.post("Inspector.enable")
        self.post("Runtime.enable")
        self.post("Network.enable", NETWORK_LIMITS)
        self.post("Runtime.addBinding", {"name": TIMER_BINDING})
        if is_fresh:
            self.post("Page.addScriptToEvaluateOnNewDocument", {"source": guard})
        for method, params in self._options.commands("page"):
            self.post(method, params)
        self.post("Target.setAutoAttach", AUTO_ATTACH)
        # Downloads went through the proxy, which fetches the rest without the browser: nothing is
        # written here, and nothing is requested twice (C-11).
        self.post("Browser.setDownloadBehavior", {"behavior": "deny", "browserContextId": self.context.id})
        self.login.start()
        # The tab's own process carries most of this out; a navigation must not overtake it.
        await self.send("Runtime.runIfWaitingForDebugger")

    def other_target(self, session_id: str, info: dict[str, Any]) -> None:
        """Handle a target of this context that is no child of the tab, such as a popup."""
        if info["targetId"] == self.target_id:
            return  # a session of a relay (`render.behaviours.flows`)
        if info["type"] in ("shared_worker", "service_worker"):
            if info["type"] == "service_worker":
                self.workers.started(session_id, info["targetId"])
                self.post("Network.enable", BODY_LIMITS)
                self.post("ServiceWorker.enable")
            else:
                self._shared_workers.append(info["targetId"])
            self.children.adopt(session_id, info["type"])
        else:
            self.tried["popup"] += info["type"] == "page"
            self.connection.post("Target.closeTarget", {"targetId": info["targetId"]})

    def target_gone(self, session_id: str) -> None:
        """Handle the end of a target of this context; without the tab itself the page is closed."""
        if session_id == self._session:
            self.detached.set()
            self.end("closed")
        elif session_id in self.children:
            self.children.gone(session_id)

    async def leave(self) -> bool:
        """End the document, as its unload handlers allow; return whether it went within `CLOSE_LIMIT_S`.

        The next visit of a shared context gets the tab: the empty document has the site's origin, and so its process.
        """
        context = self.context
        context.tab_visits += 1
        is_usual = bool(self.commits) and not self.held and self.main_id == self.target_id
        if not is_usual or context.tab_visits >= TAB_VISITS:
            return await self.close()
        left = asyncio.Event()

        def arrived(event: dict[str, Any]) -> None:
            if not event["frame"].get("parentId") and event["frame"]["url"] == "about:blank":
                left.set()

        self._handlers["Page.frameNavigated"] = arrived
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S):
                await self.send("Runtime.evaluate", {"expression": "location.replace('about:blank')"})
                await left.wait()
                await self.send("Runtime.evaluate", {"expression": _FORGET})
                await self.send("Page.resetNavigationHistory")
        except (TimeoutError, CommandError, PageClosedError):
            return await self.close()
        context.tab = (self.target_id, self._session)
        return True

    async def close(self) -> bool:
        """Close the tab, as its unload handlers allow; return whether it went within `CLOSE_LIMIT_S`."""
        self.connection.post("Target.closeTarget", {"targetId": self.target_id})
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S):
                await self.detached.wait()
        except TimeoutError:
            return False
        return True

    def end(self, reason: str) -> None:
        """Mark the page as ended, wake all that waits for it, and end its shared workers, which may outlive a page."""
        if not self.gone:
            self.context.on_target = None
            for target in self._shared_workers:
                self.connection.post("Target.closeTarget", {"targetId": target})
            self.end_live_pictures()
            self.gone = reason
            self.connection.forget(self._session, reason)
            if self.context.tab == (self.target_id, self._session):
                self.connection.listen(self._session, self.context.tab_event)
            self.children.forget(reason)
            self.changed.set()

    async def world(self) -> int:
        """Return the isolated world's execution context in the main document, created if missing."""
        if self._world is None:
            self._world = await self.isolated_world(self.main_id, self.main_session)
        return self._world

    async def enter(self, selector: str) -> None:
        """Take the frame of the element that matches for the page: scripts run there; CommandError: no frame."""
        answer = await self.send("DOM.getDocument", {"depth": 0})
        node = await self.send("DOM.querySelector", {"nodeId": answer["root"]["nodeId"], "selector": selector})
        frame_id = (await self.send("DOM.describeNode", {"nodeId": node["nodeId"]}))["node"].get("frameId")
        if frame_id is None:
            raise CommandError("enter", f"There is no frame {selector}.")
        self.main_id, self.main_session = frame_id, self.children.frames.get(frame_id, "")
        self._world = None

    async def isolated_world(self, frame_id: str, session: str = "") -> int:
        """Create an isolated world in the frame and return its execution context."""
        response = await self.send("Page.createIsolatedWorld", {"frameId": frame_id, "worldName": WORLD}, session)
        return int(response["executionContextId"])

    def _handle_event(self, method: str, params: dict[str, Any]) -> None:
        if (handler := self._handlers.get(method)) is not None:
            handler(params)
            return
        match method:
            case "Page.domContentEventFired":
                self.dom_ready = True
                self.changed.set()
            case "Page.loadEventFired":
                self.loaded = True
                self.changed.set()
            case "Page.javascriptDialogOpening":
                # "Leave this page?" is agreed to, everything else is dismissed.
                self.tried[str(params.get("type"))] += 1
                self.post("Page.handleJavaScriptDialog", {"accept": params.get("type") == "beforeunload"})
            case "Page.fileChooserOpened":
                # Intercepted: the dialog never opens, and nothing is chosen.
                self.tried["file"] += 1
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self._note(details.get("exception", {}).get("description") or details.get("text", ""))
            case "Runtime.consoleAPICalled":
                if params["type"] in ("error", "assert"):
                    self._note(" ".join(str(a.get("value", a.get("description", ""))) for a in params["args"]))
            case _:
                if method == "Page.downloadWillBegin":
                    self.tried["download"] += 1
                self.log.handle_event(method, params, owner=self._session, now=self._clock.monotonic())

    def _log_changed(self) -> None:
        if self.log.overflowed and not self._cut_off:
            self._cut_off = True
            self.post("Network.setBlockedURLs", {"urls": ["*"]})
            self.children.cut_off()
        self.changed.set()

    def _navigated(self, params: dict[str, Any]) -> None:
        frame = params["frame"]
        blank = frame["url"] == "about:blank" and not self.commits
        if frame.get("parentId") or blank:
            return
        self._world = None
        self.timers.clear()
        self.commits.append(frame["loaderId"])
        self.url = frame["url"]
        self.unreachable = bool(frame.get("unreachableUrl"))
        self.dom_ready = self.loaded = False
        self.changed.set()

    def _stopped(self, params: dict[str, Any]) -> None:
        # A document that set out for elsewhere and got no page there never fires its load event.
        if params["frameId"] == self.target_id and self.commits:
            self.loaded = self.dom_ready = True
            self.changed.set()

    def _timer_set(self, params: dict[str, Any], session: str = "") -> None:
        if self.timers.handle_binding(params, session):
            self.changed.set()

    def _request_paused(self, params: dict[str, Any]) -> None:
        leaves = self.held and params.get("frameId") == self.target_id
        if self._halted or leaves:
            self.post("Fetch.failRequest", {"requestId": params["requestId"], "errorReason": "Aborted"})
        else:
            self.post("Fetch.continueRequest", {"requestId": params["requestId"]})

    def _bypass_workers(self, *, bypass: bool) -> None:
        if self.workers.exist:
            self.post("Network.setBypassServiceWorker", {"bypass": bypass})

    def _note(self, line: str) -> None:
        if len(self.console) >= CONSOLE_LINES:
            return
        self.console.append(" ".join(line[: 4 * CONSOLE_CHARS].split())[:CONSOLE_CHARS])
        if len(self.console) == CONSOLE_LINES:
            self.post("Runtime.disable")


@cache
def load_script(name: str) -> str:
    """Return the function in ``scripts/NAME.js``, with each ``include("OTHER")`` expanded."""
    source = files("render.scripts").joinpath(f"{name}.js").read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda match: f"({load_script(match[1])})", source)


async def open_page(
    context: BrowserContext, proxy: ProxyEndpoint | None, options: PageOptions, clock: Clock, *, patience_s: float = 2.0
) -> BrowserPage:
    """Return the context's blank tab, or a fresh one, restricted; timers of up to `patience_s` are waited for.

    Raises CommandError, BrowserUnavailableError: the browser creates none.
    """
    arrived: asyncio.Future[tuple[str, dict[str, Any]]] = asyncio.get_running_loop().create_future()
    page: BrowserPage | None = None

    def targeted(session_id: str, info: dict[str, Any]) -> None:
        if not arrived.done() and info["type"] == "page" and not info.get("openerId"):
            arrived.set_result((session_id, info))
        elif page is not None:
            page.other_target(session_id, info)

    tab, context.tab = context.tab, None
    is_fresh, context.on_target = tab is None, targeted
    if tab is not None:
        arrived.cancel()
    else:
        context.tab_visits = 0
        await context.connection.send("Target.createTarget", {"url": "about:blank", "browserContextId": context.id})
        session_id, info = await arrived
        tab = info["targetId"], session_id
    page = BrowserPage(context, *tab, proxy=proxy, options=options, clock=clock)
    page.timers = PageTimers(clock, longest_timer_s(patience_s))
    context.on_detached = page.target_gone
    patience_ms = round(patience_s * 1000)
    longest_ms = round(longest_timer_s(patience_s) * 1000)
    timers = f'({load_script("timers")})("{TIMER_BINDING}", {patience_ms}, {longest_ms})'
    guard = f"({load_script('guard')})();{timers}"
    if is_fresh:
        await page.start(guard)
        return page
    try:
        async with asyncio.timeout(CLOSE_LIMIT_S):
            await page.start(guard, is_fresh=False)
    except (TimeoutError, CommandError, PageClosedError):
        page.end("closed")  # with its context; it is of no more use
        return await open_page(context, proxy, options, clock, patience_s=patience_s)
    return page
