"""Browser tab: commands, scripts in the isolated world, dialogs, child targets.

A page is hostile. It may close itself, crash, navigate for ever, open windows and dialogs without
end; here each of these becomes a fact that the visit reads.
"""

import asyncio
import re
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Any

from core.clock import Clock
from core.errors import TransientError
from render.browser import BrowserContext, ProxyEndpoint, ProxyLogin
from render.cdp import CommandError
from render.child_targets import (
    AUTO_ATTACH,
    LONGEST_MS,
    NETWORK_LIMITS,
    TIMER_BINDING,
    ChildTargets,
    PageTimers,
)
from render.identity import PageOptions
from render.network_log import NetworkLog

WORLD = "weboid"
COMMIT_LIMIT = 20
CONSOLE_LINES = 50
CONSOLE_CHARS = 300
SCRIPT_ATTEMPTS = 3
_INCLUDE = re.compile(r"include\(\"(\w+)\"\)")
_DOCUMENTS = [{"urlPattern": "*", "resourceType": "Document"}]


class PageClosedError(TransientError):
    """The page ended before its visit did; `reason` is ``crashed`` or ``closed``."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The page {reason}.")
        self.reason = reason


class BrowserPage:
    """A tab. `open_page` makes one.

    Attributes:
        log: its requests.
        commits: loader ids of the main frame's documents, oldest first.
        url: of the last of them; its fragment is left out.
        unreachable: True when that is the browser's own error page.
        dom_ready: True once the document was parsed to its end.
        loaded: True once its load event fired.
        gone: why there is no page any more; empty while there is one.
        console: error lines, shortened.
        login: what answers the proxy.
        held: True while it may go nowhere else; see `hold`.
        children: its frames of other sites, and workers.
        timers: those that it has set and that are still to fire.
        picture_css: rules that hold in its pictures only; empty for none.
        tried: what it tried that no visit allows, by kind: ``alert``, ``popup``, ``download``, ….
        changed: set whenever one of these, or the log, may have changed.
    """

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
        self._connection = context.connection
        self._context = context
        self._session = session_id
        self._options = options
        self._clock = clock
        self._world: int | None = None
        self._cut_off = False
        self._halted = False
        self.held = False
        self.picture_css = ""
        self.target_id = target_id
        self.log = NetworkLog(target_id)
        self.log.on_change = self._log_changed
        self.commits: list[str] = []
        self.url = ""
        self.unreachable = False
        self.dom_ready = False
        self.loaded = False
        self.gone = ""
        self.console: list[str] = []
        self.tried: Counter[str] = Counter()
        self.timers = PageTimers(clock)
        self.children = ChildTargets(
            self._connection,
            options,
            self.log,
            self.tried,
            timer_told=self._timer_told,
            clock=clock,
        )
        self.login = ProxyLogin(proxy, self.post)
        self.changed = asyncio.Event()
        self._handlers = {
            "Page.frameNavigated": self._navigated,
            "Page.domContentEventFired": self._parsed,
            "Page.loadEventFired": self._load_fired,
            "Page.frameStoppedLoading": self._stopped,
            "Page.javascriptDialogOpening": self._dialog,
            "Page.fileChooserOpened": self._file_asked,
            "Page.downloadWillBegin": self._download,
            "Target.attachedToTarget": self.children.attached,
            "Target.detachedFromTarget": self._child_gone,
            "Inspector.targetCrashed": self._crashed,
            "Fetch.requestPaused": self._request_paused,
            "Fetch.authRequired": self.login.asked,
            "Runtime.exceptionThrown": self._exception,
            "Runtime.consoleAPICalled": self._console_called,
            "Runtime.bindingCalled": self._timer_told,
        }

    def __repr__(self) -> str:
        return f"<Page {self.url!r} [{self.gone or 'here'}, {len(self.children)} children]>"

    async def send(
        self, method: str, params: dict[str, Any] | None = None, session: str = ""
    ) -> dict[str, Any]:
        """The result of a command to the page, or to the frame of another site that has `session`.

        Raises:
            PageClosedError: the page crashed or closed.
            CommandError: the browser refused the command.
            BrowserUnavailableError: the browser is gone.
        """
        if self.gone:
            raise PageClosedError(self.gone)
        try:
            return await self._connection.send(method, params, session or self._session)
        except CommandError:
            if self.gone:
                raise PageClosedError(self.gone) from None
            raise

    def post(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a command whose result nobody needs."""
        self._connection.post(method, params, self._session)

    async def call(self, name: str, *arguments: object) -> Any:
        """What our script `name` returns, run where the page's own scripts cannot tamper with it.

        A page that navigates meanwhile gets the script again, a few times.

        Raises:
            PageClosedError, BrowserUnavailableError: as `send`.
            CommandError: the script failed, or the page never stood still.
        """
        return await self.run(name, load_script(name), *arguments)

    async def run(self, name: str, source: str, *arguments: object) -> Any:
        """What a function expression of ours returns, run as `call` does.

        Raises:
            PageClosedError, BrowserUnavailableError, CommandError: as `call`.
        """
        for attempt in range(SCRIPT_ATTEMPTS):
            try:
                return await self._call(name, source, arguments)
            except CommandError:
                if attempt == SCRIPT_ATTEMPTS - 1:
                    raise
                self._world = None
        raise AssertionError

    async def refer(self, name: str, source: str, *arguments: object) -> dict[str, Any]:
        """A reference to what a function expression of ours returns: a `Runtime.RemoteObject`.

        Raises:
            PageClosedError, BrowserUnavailableError, CommandError: as `call`; there is no second try.
        """
        return await self._evaluate(name, source, arguments, by_value=False)

    @property
    def broke_off(self) -> bool:
        """Return whether the document that is shown failed while it came: it may be empty."""
        return bool(self.commits and self.log.document_errors.get(self.commits[-1]))

    async def wait_changed(self) -> None:
        """Return when anything happened since the last call."""
        await self.changed.wait()
        self.changed.clear()

    def now(self) -> float:
        """Seconds of the clock that its requests are noted with."""
        return self._clock.monotonic()

    def hold(self) -> None:
        """Let the page go nowhere else, until `release`: who presses buttons must not lose it."""
        self.held = True
        self.post("Fetch.enable", {"patterns": _DOCUMENTS})

    def release(self) -> None:
        """The end of `hold`; without one, nothing."""
        if self.held and not self._halted:
            self.post("Fetch.disable")
        self.held = False

    async def stay(self) -> None:
        """`hold`, and return when the document that is there, or on its way, has been parsed.

        What is stopped before its body began is empty, and never drawn.

        Raises:
            PageClosedError, CommandError, BrowserUnavailableError: as `send`.
        """
        self.held = True
        await self.send("Fetch.enable", {"patterns": _DOCUMENTS})
        # What sets out from now on is turned back; what was faster than that still arrives.
        held_at = self.now()
        while not self.dom_ready or self.log.arriving(held_at, self.commits):
            await self.wait_changed()
            if self.gone:
                raise PageClosedError(self.gone)

    def halt(self) -> None:
        """Stop the page's scripts, even one that never ends, and what is loading; go nowhere else.

        A navigation that is aborted leaves the document where it was; blocked in any other way,
        it would be replaced by the browser's error page.
        """
        self._halted = True
        self.post("Fetch.enable", {"patterns": _DOCUMENTS})
        self.post("Emulation.setScriptExecutionDisabled", {"value": True})
        self.post("Runtime.terminateExecution")
        self.post("Page.stopLoading")

    async def start(self, guard: str) -> None:
        """Prepare the tab, which waits, and let it run.

        Raises:
            CommandError, PageClosedError, BrowserUnavailableError: as `send`.
        """
        self.children.guard = guard
        self._connection.listen(self._session, self._heard)
        self.post("Page.enable")
        self.post("Page.setInterceptFileChooserDialog", {"enabled": True})
        self.post("Inspector.enable")
        self.post("Runtime.enable")
        self.post("Network.enable", NETWORK_LIMITS)
        self.post("Network.setBypassServiceWorker", {"bypass": True})
        self.post("Runtime.addBinding", {"name": TIMER_BINDING})
        self.post("Page.addScriptToEvaluateOnNewDocument", {"source": guard})
        for method, params in self._options.commands("page"):
            self.post(method, params)
        self.post("Target.setAutoAttach", AUTO_ATTACH)
        # What a page saves instead of showing went through the proxy, which fetches the rest of it
        # without the browser: nothing is written here, and nothing asked for twice (C-11).
        self.post(
            "Browser.setDownloadBehavior",
            {"behavior": "deny", "browserContextId": self._context.id},
        )
        self.login.start()
        # The tab's own process carries most of this out; a navigation must not overtake it.
        await self.send("Runtime.runIfWaitingForDebugger")

    def other_target(self, session_id: str, info: dict[str, Any]) -> None:
        """A target of our context that is no child of the tab: a popup or a kind of worker."""
        if info["type"] == "shared_worker":
            self.children.adopt(session_id, info["type"])
        else:
            self.tried["popup"] += info["type"] == "page"
            self._connection.post("Target.closeTarget", {"targetId": info["targetId"]})

    def target_gone(self, session_id: str) -> None:
        """A target of our context ended; when it is the tab itself, the page closed."""
        if session_id == self._session:
            self.end("closed")
        elif session_id in self.children:
            self.children.gone(session_id)

    def end(self, reason: str) -> None:
        """There is no page any more: whatever waits for it is told."""
        if not self.gone:
            self.gone = reason
            self._connection.forget(self._session, reason)
            self.children.forget(reason)
            self.changed.set()

    async def world(self) -> int:
        """Where our scripts run in the main frame's document: its execution context, made if need be.

        Raises:
            CommandError, PageClosedError, BrowserUnavailableError: as `send`.
        """
        if self._world is None:
            made = await self.send(
                "Page.createIsolatedWorld", {"frameId": self.target_id, "worldName": WORLD}
            )
            self._world = made["executionContextId"]
        return self._world

    async def _call(self, name: str, source: str, arguments: tuple[object, ...]) -> Any:
        return (await self._evaluate(name, source, arguments, by_value=True)).get("value")

    async def _evaluate(
        self, name: str, source: str, arguments: tuple[object, ...], *, by_value: bool
    ) -> dict[str, Any]:
        answer = await self.send(
            "Runtime.callFunctionOn",
            {
                "functionDeclaration": source,
                "executionContextId": await self.world(),
                "arguments": [{"value": argument} for argument in arguments],
                "returnByValue": by_value,
                "awaitPromise": True,
                "silent": True,
            },
        )
        failure = answer.get("exceptionDetails")
        if failure is not None:
            said = failure.get("exception", {}).get("description", failure.get("text", ""))
            raise CommandError(f"{name}.js", said[:CONSOLE_CHARS])
        result: dict[str, Any] = answer["result"]
        return result

    def _heard(self, method: str, params: dict[str, Any]) -> None:
        handler = self._handlers.get(method)
        if handler is not None:
            handler(params)
        else:
            self.log.heard(method, params, owner=self._session, now=self._clock.monotonic())

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

    def _parsed(self, _: dict[str, Any]) -> None:
        self.dom_ready = True
        self.changed.set()

    def _load_fired(self, _: dict[str, Any]) -> None:
        self.loaded = True
        self.changed.set()

    def _stopped(self, params: dict[str, Any]) -> None:
        # A document that set out for elsewhere and got no page there never fires its load event.
        if params["frameId"] == self.target_id and self.commits:
            self.loaded = self.dom_ready = True
            self.changed.set()

    def _crashed(self, _: dict[str, Any]) -> None:
        self.end("crashed")

    def _dialog(self, params: dict[str, Any]) -> None:
        # "Leave this page?" is agreed to, everything else is dismissed.
        accept = params.get("type") == "beforeunload"
        self.tried[str(params.get("type"))] += 1
        self.post("Page.handleJavaScriptDialog", {"accept": accept})

    def _file_asked(self, _: dict[str, Any]) -> None:
        # Intercepted, the dialog never opens, and nothing is chosen.
        self.tried["file"] += 1

    def _download(self, params: dict[str, Any]) -> None:
        self.tried["download"] += 1
        now = self._clock.monotonic()
        self.log.heard("Page.downloadWillBegin", params, owner=self._session, now=now)

    def _timer_told(self, params: dict[str, Any], session: str = "") -> None:
        if self.timers.told(params, session):
            self.changed.set()

    def _child_gone(self, params: dict[str, Any]) -> None:
        self.children.gone(params["sessionId"])

    def _request_paused(self, params: dict[str, Any]) -> None:
        leaves = self.held and params.get("frameId") == self.target_id
        if self._halted or leaves:
            facts = {"requestId": params["requestId"], "errorReason": "Aborted"}
            self.post("Fetch.failRequest", facts)
        else:
            self.post("Fetch.continueRequest", {"requestId": params["requestId"]})

    def _exception(self, params: dict[str, Any]) -> None:
        details = params["exceptionDetails"]
        said = details.get("exception", {}).get("description") or details.get("text", "")
        self._note(said)

    def _console_called(self, params: dict[str, Any]) -> None:
        if params["type"] in ("error", "assert"):
            self._note(
                " ".join(str(a.get("value", a.get("description", ""))) for a in params["args"])
            )

    def _note(self, line: str) -> None:
        if len(self.console) >= CONSOLE_LINES:
            return
        self.console.append(" ".join(line[: 4 * CONSOLE_CHARS].split())[:CONSOLE_CHARS])
        if len(self.console) == CONSOLE_LINES:
            self.post("Runtime.disable")


@cache
def load_script(name: str) -> str:
    """The function expression in ``scripts/NAME.js``; where it says ``include("OTHER")``, that one is put."""
    source = files("render.scripts").joinpath(f"{name}.js").read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda found: f"({load_script(found[1])})", source)


async def open_page(
    context: BrowserContext,
    proxy: ProxyEndpoint | None,
    options: PageOptions,
    clock: Clock,
    *,
    patience_s: float = 2.0,
) -> BrowserPage:
    """A blank tab in the context, heard and harmless, which has not yet gone anywhere.

    Args:
        context: its.
        proxy: that it asks through.
        options: how it presents itself.
        clock: the time.
        patience_s: timers that a page sets to less are always waited for.

    Raises:
        CommandError, BrowserUnavailableError: the browser makes none.
    """
    arrived: asyncio.Future[tuple[str, dict[str, Any]]] = asyncio.get_running_loop().create_future()
    page: BrowserPage | None = None

    def targeted(session_id: str, info: dict[str, Any]) -> None:
        if not arrived.done() and info["type"] == "page" and not info.get("openerId"):
            arrived.set_result((session_id, info))
        elif page is not None:
            page.other_target(session_id, info)

    context.on_target = targeted
    await context.connection.send(
        "Target.createTarget", {"url": "about:blank", "browserContextId": context.id}
    )
    session_id, info = await arrived
    page = BrowserPage(
        context, info["targetId"], session_id, proxy=proxy, options=options, clock=clock
    )
    context.on_detached = page.target_gone
    patience_ms = round(patience_s * 1000)
    timers = f'({load_script("timers")})("{TIMER_BINDING}", {patience_ms}, {LONGEST_MS})'
    await page.start(f"({load_script('guard')})();{timers}")
    return page
