"""Running browser: launch, contexts, proxy endpoint and proxy login, health, shutdown.

Chromium answers a proxy's 407 only through a user dialog or an interceptor, and an interceptor
delays every request. So requests are intercepted up to the first 407 only: from then on the context
knows the credentials for every frame, worker and tunnel.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import psutil

from core.clock import Clock
from core.config.settings import BrowserSettings
from core.errors import BrowserUnavailableError
from core.hosts import ProxyEndpoint
from render import browser_process
from render.cdp import CdpConnection, CommandError
from render.chromium import BrowserExecutable, command_line
from render.guardian import is_of_kind, own_bytes, session_processes

if TYPE_CHECKING:
    from render.page import BrowserPage

# A healthy browser makes or disposes of a context in some 20 ms; after so long it hangs.
ANSWER_LIMIT_S = 10.0
# Maximum wait of a visit for the disposal of its context, which continues without it.
DISPOSE_WAIT_S = 2.0
# After a failed visit, the time within which a browser that is not to blame answers.
HANG_LIMIT_S = 5.0
PING_S = 2.0
MEASURE_S = 1.0
# A scene that is drawn endlessly uses at least this much CPU within this time, even on a busy machine.
SCENE_LOOK_S = 1.0
SCENE_BUSY_S = 0.05
DOCUMENT_PATTERNS = [{"urlPattern": "*", "resourceType": "Document"}]  # for Fetch.enable

TargetHandler = Callable[[str, dict[str, Any]], None]


class BrowserContext:
    """Cookies, cache, storage and proxy of visits, `opened` at the monotonic time just before it was created."""

    def __init__(self, connection: CdpConnection, identifier: str, opened: float) -> None:
        self.connection = connection
        self.id = identifier
        self.opened = opened
        self.visits = 0  # number of visits in it that have ended
        # Whether another visit may use it: the last one ended well, and its tab is closed.
        self.reusable = True
        # Tab that the last visit has left empty for the next one, with its session; its process has the site's
        # scripts and pictures at hand.
        self.tab: tuple[str, str] | None = None
        self.tab_visits = 0  # number of visits that this tab has had
        self.on_target: TargetHandler | None = None
        self.on_detached: Callable[[str], None] | None = None

    def tab_event(self, method: str, _: dict[str, Any]) -> None:
        """Handle an event of the tab that waits for the next visit: after a crash the context is not used again."""
        if method == "Inspector.targetCrashed" and self.tab is not None:
            self.connection.forget(self.tab[1], "crashed")
            self.tab, self.reusable = None, False

    def close_tab(self) -> None:
        """Close the tab that waits for the next visit, if there is one."""
        if self.tab is not None:
            self.connection.forget(self.tab[1], "closed")
            self.connection.post("Target.closeTarget", {"targetId": self.tab[0]})
        self.tab = None


class Browser:
    """Running browser, created by `Browser.launch`; as an async context manager, closed on exit."""

    def __init__(
        self,
        settings: BrowserSettings,
        process: browser_process.BrowserProcess,
        home: browser_process.BrowserHome,
        guardian: browser_process.BrowserGuardian,
        key_log: browser_process.KeyLogPipe,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._process = process
        self._home = home
        self._guardian = guardian
        self.key_log = key_log  # secrets of its TLS connections
        self._clock = clock
        self._started = clock.monotonic()
        self._contexts: dict[str, BrowserContext] = {}
        self._disposing: set[asyncio.Task[None]] = set()
        self._is_stuck = False
        self._scene_ended = False
        # Icon URLs that its visits request, and whether they were loaded; they are not requested again
        self.icons: dict[str, asyncio.Future[bool]] = {}
        self._asked_at: float | None = None
        self._watching: asyncio.Task[None] | None = None
        self._measured = (float("-inf"), 0)
        self.connection = CdpConnection(process.read_fd, process.write_fd)
        self.pid = process.pid
        self.died = process.died  # set once the browser's first process has ended
        self._main_pid: int | None = None  # not known yet
        self.version = ""  # e.g. ``"156.0.8078.79"``
        self.user_agent = ""  # the browser's default User-Agent
        self.visits = 0  # number of visits so far
        self.pages: dict[str, BrowserPage] = {}  # tabs of the visits under way, by the visited URL

    @classmethod
    async def launch(
        cls,
        settings: BrowserSettings,
        executable: BrowserExecutable,
        *,
        ca_spki: str | None = None,
        hosts: Mapping[str, str] | None = None,
        clock: Clock,
    ) -> "Browser":
        """Start a browser and return it once it answers; BrowserUnavailableError has its error output.

        `ca_spki` is the base64 SHA-256 of the public key of the proxy's authority; a certificate chain that holds it is
        accepted, so the proxy must send its authority's own certificate along. `hosts` are names that the browser may
        resolve by itself, "host" or "host:port", each with its "address" or "address:port"; the proxy resolves all
        others (C-04).
        """
        root = os.geteuid() == 0
        owner = browser_process.NOBODY if root else None
        prefix = browser_process.privilege_prefix(root=root, executable=executable.path)
        async with AsyncExitStack() as undoing:
            home = browser_process.BrowserHome(owner=owner)
            undoing.callback(home.close)
            key_log = browser_process.KeyLogPipe(home.inside, owner=owner)
            undoing.callback(key_log.close)
            line = command_line(
                executable,
                profile=home.profile,
                ca_spki=ca_spki,
                hosts=hosts,
                shared_memory=browser_process.shared_memory_suffices(),
                key_log=key_log.path,
            )
            process = browser_process.BrowserProcess([*prefix, *line], home=home.inside)
            undoing.push_async_callback(process.close)
            guardian = browser_process.BrowserGuardian(
                process.pid,
                home.root,
                silence_limit_s=settings.hang_limit_s,
                memory_limit_bytes=settings.page_memory_mb * 1_000_000,
            )
            browser = cls(settings, process, home, guardian, key_log, clock)
            undoing.pop_all()  # from here on they are the browser's to close
            undoing.push_async_callback(browser.close)
            await browser._read_version()
            browser._watching = asyncio.create_task(browser._watch())
            undoing.pop_all()
        return browser

    async def __aenter__(self) -> "Browser":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def context(self, proxy: ProxyEndpoint | None = None) -> AsyncIterator[BrowserContext]:
        """Open a fresh context as `open_context` does; dispose of it on exit."""
        context = await self.open_context(proxy)
        self.visits += 1
        try:
            yield context
        finally:
            await self.close_context(context)

    async def open_context(self, proxy: ProxyEndpoint | None = None) -> BrowserContext:
        """Open a fresh context through `proxy`, for the caller to close; BrowserUnavailableError, CommandError."""
        params: dict[str, Any] = {"disposeOnDetach": True, "proxyServer": "direct://"}
        if proxy is not None:
            # Chromium would ask loopback addresses directly; "<-loopback>" takes that back (C-04).
            params |= {"proxyServer": proxy.server, "proxyBypassList": ";".join(("<-loopback>", *proxy.direct))}
        opened = self._clock.monotonic()
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                response = await self.connection.send("Target.createBrowserContext", params)
        except TimeoutError as error:
            self._is_stuck = True
            raise BrowserUnavailableError("The browser no longer answers.") from error
        context = BrowserContext(self.connection, response["browserContextId"], opened)
        self._contexts[context.id] = context
        # An empty list without an origin refuses every permission everywhere (C-11).
        self.connection.post("Browser.grantPermissions", {"permissions": [], "browserContextId": context.id})
        return context

    async def close_context(self, context: BrowserContext) -> None:
        """Dispose of the context; return at the latest after `DISPOSE_WAIT_S`."""
        disposing = asyncio.create_task(self._dispose(context))
        self._disposing.add(disposing)
        disposing.add_done_callback(self._disposing.discard)
        await asyncio.wait({disposing}, timeout=DISPOSE_WAIT_S)

    async def end_hung_scene(self) -> bool:
        """Kill the process that draws scenes if it is busy, after a page stopped answering; return whether.

        Chromium starts another. A shader that never ends would hold up the pictures of all visits.
        """
        for process in self._process.of_kind("gpu-process"):
            with contextlib.suppress(psutil.Error):
                before = process.cpu_times().user
                await asyncio.sleep(SCENE_LOOK_S)
                if process.cpu_times().user - before >= SCENE_BUSY_S:
                    process.kill()
                    self._scene_ended = True
                    return True
        return False

    def recycle_due(self) -> str:
        """Return the reason to replace this browser, e.g. ``pages``, ``age``, ``memory``; or ""."""
        settings, now = self._settings, self._clock.monotonic()
        reasons = {
            "dead": self.died.is_set() or self.connection.closed.is_set(),
            "stuck": self._is_stuck or (self._asked_at is not None and now - self._asked_at > ANSWER_LIMIT_S),
            "scene": self._scene_ended,  # after a few such ends it has no WebGL any more
            "pages": self.visits >= settings.recycle_pages,
            "age": now - self._started >= settings.recycle_age_s,
            "memory": self.held_bytes() >= settings.recycle_rss_mb * 1_000_000,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    async def is_hung(self) -> bool:
        """Return whether a new command stays unanswered for `HANG_LIMIT_S`; a browser with much to do answers late."""
        if not self._is_stuck:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HANG_LIMIT_S):
                    await self.connection.send("Browser.getVersion")
                    return False
        return True

    def held_bytes(self) -> int:
        """Return the private memory of its processes in bytes, at most a second old; shared memory is left out."""
        now = self._clock.monotonic()
        if now - self._measured[0] >= MEASURE_S:
            total = 0
            for pid in session_processes(self.pid):
                with contextlib.suppress(OSError, ValueError):
                    total += own_bytes(pid)
            self._measured = (now, total)
        return self._measured[1]

    def main_bytes(self) -> int:
        """Return the private memory of its main process, which holds what pages store; 0 when it has ended."""
        sizes = {}
        for pid in session_processes(self.pid) if self._main_pid is None else (self._main_pid,):
            with contextlib.suppress(OSError, ValueError):
                if not is_of_kind(pid, ""):
                    sizes[pid] = own_bytes(pid)
        # Beside programs that start it and small helpers.
        self._main_pid = max(sizes, key=sizes.__getitem__, default=None)
        return max(sizes.values(), default=0)

    async def close(self) -> None:
        """End every process of the browser and remove its files. Idempotent."""
        if self._watching is not None:
            self._watching.cancel()
        self.connection.close()
        try:
            await asyncio.shield(self._process.close())
            await self._guardian.close()
        finally:
            self.key_log.close()
            self._home.close()
        await asyncio.gather(*self._disposing)

    async def _read_version(self) -> None:
        self.connection.listen("", self._handle_event)
        try:
            async with asyncio.timeout(self._settings.start_timeout_s):
                answer = await self.connection.send("Browser.getVersion")
                # Every new target is held until it is wanted: popups never load anything.
                holding = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
                await self.connection.send("Target.setAutoAttach", holding)
        except TimeoutError as error:
            text = f"The browser did not answer within {self._settings.start_timeout_s:g} s. {self._process.errors}"
            raise BrowserUnavailableError(text.rstrip()) from error
        except BrowserUnavailableError as error:
            await self._process.close()
            errors = self._process.errors.strip()
            reason = f"Its output: {errors or 'nothing'}"
            if "No usable sandbox" in errors:
                reason = (
                    "This system does not allow unprivileged user namespaces, which the browser's sandbox needs. "
                    "Allow them (sysctl kernel.unprivileged_userns_clone=1, or an AppArmor profile; in a container "
                    "--security-opt seccomp=deploy/chromium-seccomp.json), or install the package chromium-sandbox."
                )
            raise BrowserUnavailableError(f"The browser exited during start-up. {reason}") from error
        self.version = answer["product"].rpartition("/")[2]
        self.user_agent = answer["userAgent"]

    async def _watch(self) -> None:
        """Report to the guardian while the browser answers; kill renderers without a visit."""
        pages_seen: dict[psutil.Process, float] = {}
        with contextlib.suppress(BrowserUnavailableError):
            while True:
                self._asked_at = self._clock.monotonic()
                # No limit here: an answer that never comes is the guardian's to judge.
                await self.connection.send("Browser.getVersion")
                self._asked_at = None
                self._guardian.beat()
                # Contexts share no renderers: the visits of those older than the oldest open context are over.
                now = self._clock.monotonic()
                oldest = min((each.opened for each in self._contexts.values()), default=now)
                pages_seen = {page: pages_seen.get(page, now) for page in self._process.of_kind("renderer")}
                for page, since in pages_seen.items():
                    if since < oldest and now - since >= PING_S:
                        with contextlib.suppress(psutil.Error):
                            page.kill()
                await asyncio.sleep(PING_S)

    async def _dispose(self, context: BrowserContext) -> None:
        context.on_target = context.on_detached = None
        context.close_tab()
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                await self.connection.send("Target.disposeBrowserContext", {"browserContextId": context.id})
        except TimeoutError:
            self._is_stuck = True
        except (BrowserUnavailableError, CommandError):
            pass  # it died, and its contexts with it
        finally:
            self._contexts.pop(context.id, None)

    def _handle_event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Target.attachedToTarget":
            info = params["targetInfo"]
            context = self._contexts.get(info.get("browserContextId", ""))
            if context is not None and context.on_target is not None:
                context.on_target(params["sessionId"], info)  # paused until it is resumed
            else:
                # Before its first request: one that no visit wants, or the window that the browser opens by itself.
                self.connection.post("Target.closeTarget", {"targetId": info["targetId"]})
        elif method == "Target.detachedFromTarget":
            for context in list(self._contexts.values()):
                if context.on_detached is not None:
                    context.on_detached(params["sessionId"])


class ProxyLogin:
    """Proxy authentication for the context of one tab."""

    def __init__(self, endpoint: ProxyEndpoint | None, post: Callable[[str, dict[str, Any]], None]) -> None:
        self._endpoint = endpoint if endpoint is not None and endpoint.username else None
        self._post = post
        self._intercepting = False

    def start(self) -> None:
        """Start interception when there are credentials to give, of documents, of which one is a context's first request.

        A request that the browser is about to report when interception ends would never be sent.
        """
        if self._endpoint is not None:
            self._intercepting = True
            self._post("Fetch.enable", {"handleAuthRequests": True, "patterns": DOCUMENT_PATTERNS})

    def stop(self) -> None:
        """Stop interception: the credentials are known, or not requested."""
        if self._intercepting:
            self._intercepting = False
            self._post("Fetch.disable", {})

    def authenticate(self, params: dict[str, Any]) -> None:
        """Handle an authentication request: the proxy gets the credentials once, a site never."""
        answer: dict[str, Any] = {"response": "CancelAuth"}
        if params["authChallenge"].get("source") == "Proxy" and self._endpoint is not None:
            own = self._endpoint
            answer = {"response": "ProvideCredentials", "username": own.username, "password": own.password}
            self._endpoint = None  # a second request means that the credentials are wrong: give none
        self._post("Fetch.continueWithAuth", {"requestId": params["requestId"], "authChallengeResponse": answer})
        self.stop()
