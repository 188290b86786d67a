"""Flows: Python files of the operator that act on a page through Playwright, within its visit.

A file has ``async def flow(page)`` and names the pages that it is for: ``match = "https://shop.example/*"``, one
pattern or a list (`core.url_patterns`). It runs once the page has settled, before the behaviours, in a process of its
own (``python -m render.behaviours.flows``): whatever it does, it ends in time.
"""

import asyncio
import inspect
import json
import os
import secrets
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NoReturn

from aiohttp import WSMsgType, web

from core.errors import BrowserUnavailableError, ConfigError, InputError
from core.hosts import registrable
from core.page_manifest import PageBehaviour
from core.url_patterns import PatternTable, parse_pattern, pattern_target
from core.urls import host_of
from render.cdp import CommandError
from render.page import BrowserPage

REASON_CHARS = 300
KILL_S = 2.0  # after the time of a flow whose process has not ended by itself
_PACKAGES = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True, slots=True)
class PageFlow:
    """Function of one file, and the pages that it is for."""

    path: Path
    run: Callable[[Any], Awaitable[None]]
    matches: PatternTable[str]

    @property
    def name(self) -> str:
        """Return its name in manifests."""
        return f"flow {self.path.name}"

    def is_for(self, url: str) -> bool:
        """Return whether the flow is for the page."""
        try:
            return bool(self.matches.find(pattern_target(url)))
        except InputError:
            return False


def load_flow(path: Path) -> PageFlow:
    """Read the file; ConfigError names it, and its line where there is one."""
    try:
        import playwright  # noqa: F401 the extra weboid[flows]
    except ImportError as error:
        raise ConfigError("[behaviours] flows: they need Playwright: pip install 'weboid[flows]'.") from error
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), names)  # noqa: S102 the operator's own file
    except OSError as error:
        raise ConfigError(f"[behaviours] flows: {path} cannot be read: {error.strerror}.") from error
    except (Exception, SystemExit) as error:  # whatever the operator's file raises when it is run
        raise ConfigError(f"[behaviours] flows: {_place(path, error)}") from error
    run, match = names.get("flow"), names.get("match")
    patterns = [match] if isinstance(match, str) else match
    if not inspect.iscoroutinefunction(run) or len(inspect.signature(run).parameters) != 1:
        raise ConfigError(f'[behaviours] flows: {path} has no "async def flow(page)".')
    if not (isinstance(patterns, list) and patterns and all(isinstance(e, str) for e in patterns)):
        raise ConfigError(
            f"[behaviours] flows: {path} must name its pages, e.g."
            ' match = "https://shop.example/*", or a list of patterns.'
        )
    table: PatternTable[str] = PatternTable()
    for each in patterns:
        try:
            table.add(parse_pattern(each), each)
        except InputError as error:
            raise ConfigError(f"[behaviours] flows: {path}: {error}") from error
    table.ready()
    return PageFlow(path, run, table)


async def run_flows(
    page: BrowserPage, flows: Sequence[PageFlow], limit_s: Callable[[], float]
) -> tuple[tuple[PageBehaviour, ...], str]:
    """Run the page's flows up to one that fails, each for `limit_s()`; return their results, and a shortfall or ""."""
    start, done = page.url, []
    for flow in flows:
        if not flow.is_for(start):
            continue
        began = time.monotonic()
        error = await _run(page, flow, limit_s())
        seconds = time.monotonic() - began
        site = registrable(host_of(page.url)) if page.url.startswith("http") else ""
        if not error and site != registrable(host_of(start)):
            error = f"{flow.path.name}: it ended on another site"
        done.append(PageBehaviour(flow.name, 1, int(not error), round(seconds, 3), error))
        if error:
            return tuple(done), f"flow: {error}"
    return tuple(done), ""


async def _run(page: BrowserPage, flow: PageFlow, limit_s: float) -> str:
    """Run the flow in a process of its own; return its error with the place in the file, or ""."""
    paths = (_PACKAGES, *filter(None, [os.environ.get("PYTHONPATH")]))
    with TemporaryDirectory(prefix="weboid-flow-", ignore_cleanup_errors=True) as scratch:  # Playwright leaves files
        async with CdpRelay(page) as endpoint:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "render.behaviours.flows"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "TMPDIR": scratch, "PYTHONPATH": os.pathsep.join(paths)},
                start_new_session=True,
            )
            output, reason, ends = b"", f"stopped after {limit_s:.0f} s", time.monotonic() + limit_s
            try:
                async with asyncio.timeout(limit_s + KILL_S):
                    # Not on the command line, where every user of the machine could read the endpoint.
                    output, _ = await process.communicate(json.dumps([str(flow.path), endpoint, reason, ends]).encode())
                    reason = f"its process ended with {process.returncode}"
            except TimeoutError:
                pass
            finally:
                with suppress(ProcessLookupError):  # Playwright's, too
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
    return str(json.loads(output)) if output else f"{flow.path.name}: {reason}"


def main() -> NoReturn:
    """Run the flow that standard input names, and write its error to standard output; end in time."""
    name, endpoint, reason, ends = json.load(sys.stdin)
    path, result = Path(name), os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # for what the flow prints
    task: asyncio.Task[None] | None = None

    def finish(error: str = "") -> NoReturn:
        os.write(result, json.dumps(error).encode())
        sys.stdout.flush()
        os._exit(0)  # whatever tasks and threads the flow has left

    def stop(_signal: int, frame: FrameType | None) -> None:
        awaiting: list[FrameType | None] = []
        coroutine: Any = task.get_coro() if task is not None else None
        while inspect.iscoroutine(coroutine):
            awaiting.insert(0, coroutine.cr_frame)
            coroutine = coroutine.cr_await
        frames = (*(each for each, _ in traceback.walk_stack(frame)), *awaiting)
        lines = [each.f_lineno for each in frames if each and each.f_code.co_filename == name]
        finish(_located(path, lines[0] if lines else None, reason))

    async def drive() -> None:
        from playwright.async_api import async_playwright

        nonlocal task
        task = asyncio.current_task()
        try:
            flow, driver = load_flow(path), await async_playwright().start()
            browser = await driver.chromium.connect_over_cdp(endpoint)
            await flow.run(browser.contexts[0].pages[0])
        except BaseException as error:  # noqa: BLE001 whatever the operator's code raises
            finish(_place(path, error))
        finish()

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(ends - time.monotonic(), 0.001))  # the same clock in all processes
    asyncio.run(drive())
    raise AssertionError


def _place(path: Path, error: BaseException) -> str:
    """Return file, line and reason of an error, e.g. ``shop.py:12: TimeoutError: …``."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(path) else None
    cause: BaseException | None = error
    while cause is not None and line is None:
        lines = [e.lineno for e in traceback.extract_tb(cause.__traceback__) if e.filename == str(path)]
        line = lines[-1] if lines else None
        cause = cause.__cause__ or cause.__context__
    message = " ".join(str(error).split())
    return _located(path, line, f"{type(error).__name__}: {message}".removesuffix(": "))


def _located(path: Path, line: int | None, reason: str) -> str:
    return f"{path.name}{f':{line}' if line else ''}: {reason}"[:REASON_CHARS]


MESSAGE_LIMIT_BYTES = 64 << 20
_ROOT_TARGET = {
    "targetId": "browser", "type": "browser", "title": "", "url": "", "attached": True,
    "canAccessOpener": False,
}  # fmt: skip
# Of the browser context, for which the other client must not choose another.
_CONTEXT_METHODS = frozenset(("Storage.getCookies", "Storage.setCookies", "Storage.clearCookies"))
_IGNORED_METHODS = frozenset(
    (
        "Browser.setDownloadBehavior", "Page.setDownloadBehavior", "Network.setUserAgentOverride",
        "Network.setCacheDisabled", "Network.setBypassServiceWorker", "Page.setBypassCSP",
        "Page.setInterceptFileChooserDialog", "Browser.close",
    )
)  # fmt: skip
_SESSION_TARGET_METHODS = frozenset(("Target.setAutoAttach", "Target.detachFromTarget"))

Message = dict[str, Any]


class CdpRelay:
    """WebSocket endpoint through which another DevTools client, such as Playwright, drives one page.

    An async context manager that yields its URL, on loopback under a random path; browsers, which send an Origin, are
    refused. Commands go through our pipe, in sessions of the page, its frames and workers only; those that concern
    other targets, contexts or the browser are refused, and those that would change what the visit emulates have no
    effect.
    """

    def __init__(self, page: BrowserPage) -> None:
        self._connection = page.connection
        self._target_id = page.target_id
        self._context_id = page.context.id
        self._url = page.url
        self._sessions: set[str] = set()
        self._page_session = ""
        self._outgoing: asyncio.Queue[str] = asyncio.Queue()
        self._passing: set[asyncio.Task[None]] = set()  # commands that the browser has not answered
        self._token = secrets.token_urlsafe(32)
        self._runner: web.AppRunner | None = None
        self._is_taken = False

    async def __aenter__(self) -> str:
        app = web.Application()
        app.router.add_get("/{token}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port = self._runner.addresses[0][1]
        return f"ws://127.0.0.1:{port}/{self._token}"

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        for task in self._passing:
            task.cancel()
        for session in self._sessions:
            self._connection.untap(session)
        if self._page_session:
            self._connection.post("Target.detachFromTarget", {"sessionId": self._page_session})
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        token = request.match_info["token"]
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            raise web.HTTPNotFound
        if self._is_taken or "Origin" in request.headers:
            raise web.HTTPForbidden
        self._is_taken = True
        socket = web.WebSocketResponse(max_msg_size=MESSAGE_LIMIT_BYTES)
        await socket.prepare(request)

        async def write() -> None:
            while True:
                await socket.send_str(await self._outgoing.get())

        writing = asyncio.create_task(write())
        try:
            async for received in socket:
                if received.type is WSMsgType.TEXT:
                    await self._handle(json.loads(received.data))
        finally:
            writing.cancel()
        return socket

    async def _handle(self, message: Message) -> None:
        """Answer the command, or pass it on to the browser."""
        method, session = str(message["method"]), str(message.get("sessionId", ""))
        params = message.get("params") or {}
        domain = method.partition(".")[0]
        if method in _IGNORED_METHODS or domain == "Emulation":
            self._answer(message, {})
        elif session:
            is_refused = domain in ("Browser", "SystemInfo", "Tethering") or (
                domain == "Target" and method not in _SESSION_TARGET_METHODS
            )
            if session not in self._sessions or is_refused:
                self._refuse(message)
            else:
                self._start_command(message, method, params, session)
        elif method == "Target.setAutoAttach":
            await self._attach()
            self._answer(message, {})
        elif method == "Target.getTargetInfo":
            self._answer(message, {"targetInfo": _ROOT_TARGET})
        elif method == "Browser.getVersion":
            self._start_command(message, method, params, "")
        elif method in _CONTEXT_METHODS:
            self._start_command(message, method, {**params, "browserContextId": self._context_id}, "")
        else:
            self._refuse(message)

    async def _attach(self) -> None:
        """Open the client's session of the page, once."""
        if self._page_session:
            return
        attached = await self._connection.send("Target.attachToTarget", {"targetId": self._target_id, "flatten": True})
        self._page_session = attached["sessionId"]
        self._tap(self._page_session)
        page = {
            "targetId": self._target_id, "type": "page", "title": "", "url": self._url,
            "attached": True, "canAccessOpener": False, "browserContextId": self._context_id,
        }  # fmt: skip
        facts = {"sessionId": self._page_session, "targetInfo": page, "waitingForDebugger": False}
        self._put({"method": "Target.attachedToTarget", "params": facts})

    def _tap(self, session: str) -> None:
        self._sessions.add(session)
        self._connection.tap(session, self._event)

    def _event(self, message: Message) -> None:
        if message["method"] == "Target.attachedToTarget":
            self._tap(message["params"]["sessionId"])
        # In the order of messages: a command that was answered before resumes in the loop's next turn, too.
        asyncio.get_running_loop().call_soon(self._put, message)

    def _start_command(self, message: Message, method: str, params: Message, session: str) -> None:
        """Pass the command on to the browser; its result or error is sent when it comes."""

        async def passed() -> None:
            try:
                self._answer(message, await self._connection.send(method, params, session))
            except (CommandError, BrowserUnavailableError) as error:
                self._refuse(message, error.detail if isinstance(error, CommandError) else str(error))

        task = asyncio.create_task(passed())
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    def _refuse(self, message: Message, reason: str = "") -> None:
        text = reason or f"{message['method']} is not possible within a visit."
        self._answer(message, {"code": -32000, "message": text}, "error")

    def _answer(self, message: Message, result: Message, kind: str = "result") -> None:
        session = {"sessionId": message["sessionId"]} if message.get("sessionId") else {}
        self._put({"id": message["id"], kind: result, **session})

    def _put(self, message: Message) -> None:
        self._outgoing.put_nowait(json.dumps(message))


if __name__ == "__main__":
    main()
