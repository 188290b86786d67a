"""A window of Firefox, driven over WebDriver BiDi."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

FIREFOX = shutil.which("firefox-esr")
_LISTENING = "WebDriver BiDi listening on "
_START_S = 60.0
# Half of what a window costs is not the page: icons and moving parts of tabs, what is kept of each visit,
# processes for pages to come, services.
_PREFERENCES: dict[str, bool | int] = {
    "accessibility.force_disabled": 1,
    "app.normandy.enabled": False,
    "browser.cache.disk.enable": False,
    "browser.chrome.site_icons": False,
    "browser.newtabpage.enabled": False,
    "browser.pagethumbnails.capturing_disabled": True,
    "browser.sessionstore.interval": 3_600_000,
    "browser.sessionstore.resume_from_crash": False,
    "browser.startup.page": 0,
    "browser.translations.enable": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.ipc.processPrelaunch.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "places.history.enabled": False,
    "signon.rememberSignons": False,
    "toolkit.cosmeticAnimations.enabled": False,
    "toolkit.telemetry.enabled": False,
    "ui.prefersReducedMotion": 1,
}


@dataclass
class FirefoxWindow:
    """The browser's window; commands one after another."""

    connection: ClientConnection
    context: str = ""
    size: tuple[int, int] = (0, 0)  # as it was set
    _ids: "count[int]" = field(default_factory=count)

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a WebDriver BiDi command; return its result."""
        number = next(self._ids)
        await self.connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:  # events come in between
            answer = json.loads(await self.connection.recv())
            if answer.get("id") == number:
                assert answer["type"] == "success", answer
                result: dict[str, Any] = answer["result"]
                return result

    async def open(self, address: str) -> None:
        """Load an address, until it has loaded."""
        await self.send("browsingContext.navigate", context=self.context, url=address, wait="complete")

    async def resize(self, width: int, height: int) -> None:
        """Let the page have that size."""
        if self.size != (width, height):
            viewport = {"width": width, "height": height}
            await self.send("browsingContext.setViewport", context=self.context, viewport=viewport)
            self.size = width, height

    async def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page: a text, number, boolean or None."""
        answer = await self.send(
            "script.evaluate", expression=expression, target={"context": self.context}, awaitPromise=True
        )
        assert answer["type"] == "success", answer
        return answer["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until it holds in a loaded page; pages that load one another meanwhile answer each for itself."""
        async with asyncio.timeout(120):
            while not await self._holds(expression):
                await asyncio.sleep(0.1)

    async def _holds(self, expression: str) -> bool:
        try:
            return bool(await self.value(f"document.readyState === 'complete' && !!({expression})"))
        except AssertionError:  # the document was replaced during the question
            return False

    async def cookie(self, name: str, value: str, host: str) -> None:
        """Store a cookie of a host."""
        cookie = {"name": name, "value": {"type": "string", "value": value}, "domain": host}
        await self.send("storage.setCookie", cookie=cookie)


@asynccontextmanager
async def open_firefox(home: Path) -> AsyncIterator[FirefoxWindow]:
    """Start Firefox with that folder as its profile; yield a window."""
    assert FIREFOX is not None
    lines = [f'user_pref("{name}", {json.dumps(value)});\n' for name, value in _PREFERENCES.items()]
    (home / "user.js").write_text("".join(lines))
    options = ("--headless", "--no-remote", "--profile", str(home), "--remote-debugging-port", "0")
    process = await asyncio.create_subprocess_exec(
        *(FIREFOX, *options),
        env={**os.environ, "HOME": str(home)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        address = ""
        async with asyncio.timeout(_START_S):
            while _LISTENING not in address:
                line = await process.stderr.readline()
                assert line, "Firefox ended at its start."
                address = line.decode("utf-8", "replace")
        async with connect(f"{address.split(_LISTENING)[1].strip()}/session", max_size=None) as connection:
            window = FirefoxWindow(connection)
            await window.send("session.new", capabilities={})
            tree = await window.send("browsingContext.getTree")
            window.context = tree["contexts"][0]["context"]
            yield window
    finally:
        process.terminate()
        await process.wait()
