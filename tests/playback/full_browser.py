"""A reader's browser whose frames can be asked what they see.

Other than the crawler's browser it has no policy of its own: nothing but names is changed, every name
that is not this machine's leads to a listener (P-03).
"""

import asyncio
import base64
import contextlib
import io
import os
from collections.abc import AsyncIterator
from typing import Any

from PIL import Image

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
        self.console: list[str] = []  # console messages and exceptions
        self.targets: list[str] = []  # every address that was opened in a target of its own

    async def start(self, context: dict[str, Any]) -> None:
        """Open the tab in a browser context."""
        blank = {"url": "about:blank", **context}
        made = await self._connection.send("Target.createTarget", blank)
        response = await self._connection.send("Target.attachToTarget", {"targetId": made["targetId"], "flatten": True})
        self._session = response["sessionId"]
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
        """Return the URL that the tab shows now."""
        address: str = await self.ask("location.href")
        return address

    async def ask(self, expression: str, *, within: str = "") -> Any:
        """Return the value of an expression in the page, or in the frame whose address contains `within`."""
        session, parameters = self._session, {}
        if within:
            frame = await self._frame(within)
            session, parameters = frame[0], {"contextId": frame[1]}
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

    async def picture(self, *, size: tuple[int, int] = (800, 600), dark: bool = False) -> Image.Image:
        """Return a picture of the tab in that size and theme."""
        for method, parameters in (
            (
                "Emulation.setDeviceMetricsOverride",
                {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False},
            ),
            (
                "Emulation.setEmulatedMedia",
                {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]},
            ),
        ):
            await self._connection.send(method, parameters, self._session)
        shot = await self._connection.send("Page.captureScreenshot", {"format": "png"}, self._session)
        with Image.open(io.BytesIO(base64.b64decode(shot["data"]))) as image:
            return image.convert("RGB")

    async def picture_with(self, pixels: dict[tuple[int, int], tuple[int, int, int]]) -> Image.Image:
        """Return the first picture that has those colours: a frame of another process is drawn later than its page."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                image = await self.picture()
                if all(image.getpixel(place) == colour for place, colour in pixels.items()):
                    return image
                await asyncio.sleep(0.05)

    async def _frame(self, within: str) -> tuple[str, int]:
        """Wait for the frame whose address contains `within`; return its session and script context."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                for (session, identifier), context in reversed(list(self._contexts.items())):
                    if context.get("auxData", {}).get("isDefault"):
                        parameters = {"expression": "location.href", "contextId": identifier}
                        with contextlib.suppress(CommandError, TimeoutError):
                            async with asyncio.timeout(_ANSWER_S):
                                answer = await self._connection.send("Runtime.evaluate", parameters, session)
                            if within in str(answer["result"].get("value", "")) and (session != self._session):
                                return session, identifier
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 0.1)

    async def _attended(self, session: str) -> None:
        self._connection.listen(session, lambda name, event: self._record_event(session, name, event))
        for method, parameters in (
            ("Page.enable", {}),
            ("Runtime.enable", {}),
            ("Log.enable", {}),
            ("Target.setAutoAttach", {"autoAttach": True, "waitForDebuggerOnStart": False, "flatten": True}),
        ):
            # The frame, or the whole browser, may have gone meanwhile.
            with contextlib.suppress(CommandError, BrowserUnavailableError):
                await self._connection.send(method, parameters, session)

    def _record_event(self, session: str, name: str, event: dict[str, Any]) -> None:
        if name == "Runtime.executionContextCreated":
            context = event["context"]
            self._contexts[session, context["id"]] = context
        elif name == "Runtime.executionContextDestroyed":
            self._contexts.pop((session, event["executionContextId"]), None)
        elif name in ("Runtime.executionContextsCleared", "Target.detachedFromTarget"):
            gone = event.get("sessionId", session)  # of the frame that is detached
            for key in [key for key in self._contexts if key[0] == gone]:
                del self._contexts[key]
        elif name == "Target.attachedToTarget":
            self.targets.append(f"{event['targetInfo']['type']} {event['targetInfo']['url']}")
            task = asyncio.create_task(self._attended(event["sessionId"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif name == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.console.append(str(details.get("exception", {}).get("description") or details["text"]))
        elif name == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(each.get("value")) for each in event["args"]))
        elif name == "Log.entryAdded":
            self.console.append(event["entry"]["text"])
        self._changed.set()


@contextlib.asynccontextmanager
async def reader_browser(leaks_port: int, *flags: str) -> AsyncIterator[CdpConnection]:
    """Start a browser that resolves every foreign host to the listener at that port of 127.0.0.1."""
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
    """Open a tab in a browser context of its own; at the end dispose of both and of all that the tab opened."""
    context = await browser.send("Target.createBrowserContext", {"disposeOnDetach": True})
    try:
        tab = BrowserTab(browser)
        await tab.start(context)
        yield tab
    finally:
        await browser.send("Target.disposeBrowserContext", context)


@contextlib.asynccontextmanager
async def reader(leaks_port: int, *flags: str) -> AsyncIterator[BrowserTab]:
    """Start a browser and open one tab in it."""
    async with reader_browser(leaks_port, *flags) as browser, tab_in(browser) as tab:
        yield tab
