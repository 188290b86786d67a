"""A reader's browser whose frames can be asked what they see.

Other than the crawler's browser it has no policy of its own: nothing but names is changed, every name
that is not this machine's leads to a listener (P-03).
"""

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from core.errors import BrowserUnavailableError
from render import cdp
from render.browser_process import NOBODY, BrowserHome, BrowserProcess, privilege_prefix
from render.cdp import CdpConnection, CommandError
from render.chromium import find_browser

_PATIENCE_S = 120.0
_CLICK_PATIENCE_S = 3.0  # before it is clicked again
_ANSWER_S = 10.0  # a frame that is replaced meanwhile may never answer


class BrowserTab:
    """A tab of the browser and all frames in it."""

    def __init__(self, connection: CdpConnection) -> None:
        self._connection = connection
        self._session = ""
        self._frames: dict[str, str] = {}  # sessions of frames in other processes, and their addresses
        self._contexts: dict[tuple[str, int], dict[str, Any]] = {}
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.said: list[str] = []  # console messages and exceptions
        self.targets: list[str] = []  # every address that was opened in a target of its own

    async def start(self, context: dict[str, Any]) -> None:
        """Open the tab in a browser context."""
        blank = {"url": "about:blank", **context}
        made = await self._connection.send("Target.createTarget", blank)
        told = await self._connection.send("Target.attachToTarget", {"targetId": made["targetId"], "flatten": True})
        self._session = told["sessionId"]
        await self._attended(self._session)

    async def open(self, address: str) -> None:
        """Go to an address and wait until it and its frames have loaded.

        Frames of the document that is left may live on in the browser: they are no longer of this tab.
        """
        for key in [key for key in self._contexts if key[0] != self._session]:
            del self._contexts[key]
        await self._connection.send("Page.navigate", {"url": address}, self._session)
        await self.until("document.readyState === 'complete'")

    async def address(self) -> str:
        """Where the tab is now."""
        found: str = await self.ask("location.href")
        return found

    async def ask(self, expression: str, *, within: str = "") -> Any:
        """The value of an expression in the page, or in the frame whose address contains `within`."""
        session, parameters = self._session, {}
        if within:
            found = await self._frame(within)
            session, parameters = found[0], {"contextId": found[1]}
        answer = await self._connection.send(
            "Runtime.evaluate",
            {"expression": expression, "awaitPromise": True, "returnByValue": True, **parameters},
            session,
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    async def until(self, expression: str, *, within: str = "", patience_s: float = _PATIENCE_S) -> Any:
        """Ask again until the value is true."""
        async with asyncio.timeout(patience_s):
            while True:
                with contextlib.suppress(CommandError, KeyError):
                    value = await self.ask(expression, within=within)
                    if value:
                        return value
                await asyncio.sleep(0.05)

    async def click(self, x: int, y: int, *, until: str, within: str = "") -> Any:
        """Click there as a person would: once more if nothing came of it.

        A frame of another process lies under the mouse only when the browser has drawn it: a click
        that comes sooner goes to what was there before.
        """
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                for kind in ("mousePressed", "mouseReleased"):
                    await self._connection.send(
                        "Input.dispatchMouseEvent",
                        {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1},
                        self._session,
                    )
                with contextlib.suppress(TimeoutError):
                    return await self.until(until, within=within, patience_s=_CLICK_PATIENCE_S)

    async def picture(self, path: Path, *, width: int = 1280, height: int = 800) -> None:
        """Write a picture of the tab."""
        await self._connection.send(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
            self._session,
        )
        shot = await self._connection.send("Page.captureScreenshot", {"format": "png"}, self._session)
        path.write_bytes(base64.b64decode(shot["data"]))

    async def _frame(self, within: str) -> tuple[str, int]:
        """The session and the script context of the frame at such an address, once it is there."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                for (session, identifier), context in reversed(list(self._contexts.items())):
                    if context.get("auxData", {}).get("isDefault"):
                        asked = {"expression": "location.href", "contextId": identifier}
                        with contextlib.suppress(CommandError, TimeoutError):
                            async with asyncio.timeout(_ANSWER_S):
                                answer = await self._connection.send("Runtime.evaluate", asked, session)
                            if within in str(answer["result"].get("value", "")) and (session != self._session):
                                return session, identifier
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 0.1)

    async def _attended(self, session: str) -> None:
        self._connection.listen(session, lambda name, told: self._heard(session, name, told))
        for method, parameters in (
            ("Page.enable", {}),
            ("Runtime.enable", {}),
            ("Log.enable", {}),
            ("Target.setAutoAttach", {"autoAttach": True, "waitForDebuggerOnStart": False, "flatten": True}),
        ):
            # The frame, or the whole browser, may have gone meanwhile.
            with contextlib.suppress(CommandError, BrowserUnavailableError):
                await self._connection.send(method, parameters, session)

    def _heard(self, session: str, name: str, told: dict[str, Any]) -> None:
        if name == "Runtime.executionContextCreated":
            context = told["context"]
            self._contexts[session, context["id"]] = context
        elif name == "Runtime.executionContextDestroyed":
            self._contexts.pop((session, told["executionContextId"]), None)
        elif name in ("Runtime.executionContextsCleared", "Target.detachedFromTarget"):
            gone = told.get("sessionId", session)  # of the frame that is detached
            for key in [key for key in self._contexts if key[0] == gone]:
                del self._contexts[key]
        elif name == "Target.attachedToTarget":
            self.targets.append(f"{told['targetInfo']['type']} {told['targetInfo']['url']}")
            task = asyncio.create_task(self._attended(told["sessionId"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif name == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.said.append(str(details.get("exception", {}).get("description") or details["text"]))
        elif name == "Runtime.consoleAPICalled":
            self.said.append(" ".join(str(each.get("value")) for each in told["args"]))
        elif name == "Log.entryAdded":
            self.said.append(told["entry"]["text"])
        self._changed.set()


@contextlib.asynccontextmanager
async def reader_browser(leaks_port: int, *flags: str) -> AsyncIterator[CdpConnection]:
    """A browser to which every foreign name is the listener at that port."""
    root = os.geteuid() == 0
    executable = find_browser("")
    home = BrowserHome(owner=NOBODY if root else None)
    rules = f"MAP * 127.0.0.1:{leaks_port}, EXCLUDE 127.0.0.1, EXCLUDE *.localhost"
    command = [
        *privilege_prefix(root=root, executable=executable.path), str(executable.path),
        "--headless", "--remote-debugging-pipe", "--disable-gpu", "--hide-scrollbars",
        "--force-color-profile=srgb", "--disable-background-networking", "--disable-component-update",
        "--no-first-run", "--site-per-process", f"--user-data-dir={home.profile}",
        f"--host-resolver-rules={rules}", *flags, "about:blank",
    ]  # fmt: skip
    # The crawler leaves the events about script contexts unread.
    unread, cdp.UNREAD = cdp.UNREAD, ()
    process = BrowserProcess(command, home=home.inside)
    connection = CdpConnection(process.read_fd, process.write_fd)
    try:
        yield connection
    finally:
        connection.close()
        await process.close()
        home.close()
        cdp.UNREAD = unread


@contextlib.asynccontextmanager
async def tab_in(browser: CdpConnection) -> AsyncIterator[BrowserTab]:
    """A tab of a profile of its own, which is gone afterwards with all that it opened."""
    context = await browser.send("Target.createBrowserContext", {"disposeOnDetach": True})
    try:
        tab = BrowserTab(browser)
        await tab.start(context)
        yield tab
    finally:
        await browser.send("Target.disposeBrowserContext", context)


@contextlib.asynccontextmanager
async def reader(leaks_port: int, *flags: str) -> AsyncIterator[BrowserTab]:
    """A tab of a browser of its own."""
    async with reader_browser(leaks_port, *flags) as browser, tab_in(browser) as tab:
        yield tab
