"""A window of the real browser, steered over DevTools: what a reader sees, hears and can reach."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import axe_core_python  # type: ignore[import-untyped]
import pytest_asyncio

from core.clock import SystemClock
from core.config.settings import BrowserSettings
from render.browser import Browser
from render.chromium import find_browser

_AXE = Path(axe_core_python.__file__).parent / "axe.min.js"
_SERIOUS = ("serious", "critical")
# Rules none of whose checks can be that serious are not run: what they find is not returned.
_PREPARE = f"""
window.lesserRules = {{}};
for (const rule of axe._audit.rules) {{
    const checks = [...rule.any, ...rule.all, ...rule.none].map(each => axe._audit.data.checks[each.id || each].impact);
    if (!(rule.impact ? [rule.impact] : checks).some(each => {json.dumps(_SERIOUS)}.includes(each)))
        lesserRules[rule.id] = {{enabled: false}};
}}
Object.keys(lesserRules).length
"""


@dataclass
class BrowserScreen:
    """One window. `open` leads it somewhere; scripts of the page's own stay as forbidden as ever."""

    browser: Browser
    session: str

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a DevTools command to the window; return its result."""
        return await self.browser.connection.send(method, params, self.session)

    async def open(self, address: str, *, size: tuple[int, int] = (1200, 900), dark: bool = False) -> None:
        """Load an address, and wait until it has loaded with its frames and pictures."""
        await self.adapt(size=size, dark=dark)
        # A page between them would cost each one a new process.
        await self.value("window.left = true")
        answer = await self.send("Page.navigate", url=address)
        if "loaderId" not in answer:  # the same document, at another of its fragments
            await self.send("Page.reload")
        await self.value("""new Promise(done => {
            const look = () => document.readyState === 'complete' && !window.left ? done(true) : setTimeout(look, 10);
            look();
        })""")

    async def adapt(self, *, size: tuple[int, int], dark: bool) -> None:
        """Set the window's size and the reader's theme, also of the page that is shown; nothing moves."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=size[0], height=size[1], deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        features = [theme, {"name": "prefers-reduced-motion", "value": "reduce"}]
        await self.send("Emulation.setEmulatedMedia", media="", features=features)

    async def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page's world; promises are awaited."""
        for _ in range(20):  # the document may change under the first ones
            try:
                answer = await self.send(
                    "Runtime.evaluate",
                    expression=expression, awaitPromise=True, returnByValue=True,
                )  # fmt: skip
            except Exception as error:
                if "context" not in str(error).lower() and "navigat" not in str(error).lower():
                    raise
                continue
            assert "exceptionDetails" not in answer, answer["exceptionDetails"]
            return answer["result"].get("value")
        raise AssertionError("The document does not come to rest.")

    async def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("rawKeyDown", "keyUp"):
            await self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    async def faults(self) -> list[str]:
        """Return `findings`, and by how much the document is wider than the window."""
        found = await self.findings()
        wide = await self.value("document.documentElement.scrollWidth - innerWidth")
        return [*found, f"wider by {wide}"] if wide > 0 else found

    async def findings(self) -> list[str]:
        """Return axe's serious and critical violations in the document: rule, element and summary."""
        if not await self.value("'axe' in window"):
            assert await self.value(_AXE.read_text() + _PREPARE) > 0
        report = await self.value(
            "axe.run(document, {iframes: false, preload: false, resultTypes: ['violations'], rules: lesserRules})"
            ".then(results => JSON.stringify(results.violations))"
        )
        return [
            f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
            for each in json.loads(report)
            if each["impact"] in _SERIOUS
            for node in each["nodes"]
        ]

    async def picture(self) -> bytes:
        """Return a screenshot of the window as PNG."""
        answer = await self.send("Page.captureScreenshot", format="png")
        return base64.b64decode(answer["data"])

    async def pdf(self) -> bytes:
        """Return the page as it is printed, as PDF."""
        answer = await self.send("Page.printToPDF")
        return base64.b64decode(answer["data"])


@asynccontextmanager
async def open_screen() -> AsyncIterator[BrowserScreen]:
    """Launch a browser and yield a window of it."""
    async with await launch_browser() as browser, open_window(browser) as screen:
        yield screen


async def launch_browser() -> Browser:
    """Launch a browser for `open_window`, a context manager; its event loop may pause between uses."""
    return await Browser.launch(
        BrowserSettings(hang_limit_s=3_600), find_browser(), hosts={"127.0.0.1": "127.0.0.1"}, clock=SystemClock()
    )


@asynccontextmanager
async def open_window(browser: Browser) -> AsyncIterator[BrowserScreen]:
    """Yield a window of that browser that shares no storage with its other windows."""
    async with browser.context() as context:
        sessions: list[str] = []
        context.on_target = lambda session, info: sessions.append(session)
        send = browser.connection.send
        made = await send("Target.createTarget", {"url": "about:blank", "browserContextId": context.id})
        attached = await send("Target.attachToTarget", {"targetId": made["targetId"], "flatten": True})
        screen = BrowserScreen(browser, attached["sessionId"])
        await screen.send("Page.enable")
        await screen.send("Runtime.runIfWaitingForDebugger")
        for session in sessions:
            browser.connection.post("Runtime.runIfWaitingForDebugger", session_id=session)
        yield screen


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def windows() -> AsyncIterator[Browser]:
    """Yield a browser for the windows of all tests of the session's loop."""
    async with await launch_browser() as it:
        yield it


@pytest_asyncio.fixture(name="screen", scope="module", loop_scope="session")
async def module_screen(windows: Browser) -> AsyncIterator[BrowserScreen]:
    """Yield one window for all tests of a module that imports this: none may mind what another left in it."""
    async with open_window(windows) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="session")
async def screen(windows: Browser) -> AsyncIterator[BrowserScreen]:
    """Yield a new window of the session's browser."""
    async with open_window(windows) as it:
        yield it
