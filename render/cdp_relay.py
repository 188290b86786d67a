"""WebSocket endpoint through which another DevTools client, such as Playwright, drives one page.

The browser itself has no debugging port: commands go through our pipe, in sessions of the page and its frames and
workers only. The endpoint is on loopback for as long as it is open, under a random path, and refuses browsers, which
send an Origin. Commands that concern other targets, contexts or the whole browser are refused; those that would
change what the visit emulates are answered without effect.
"""

import asyncio
import json
import secrets
from typing import Any

from aiohttp import WSMsgType, web

from render.cdp import CdpConnection, CommandError

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
    """Endpoint for one client; an async context manager that yields its URL."""

    def __init__(self, connection: CdpConnection, target_id: str, context_id: str, url: str) -> None:
        self._connection = connection
        self._target_id = target_id
        self._context_id = context_id
        self._url = url
        self._sessions: set[str] = set()
        self._page_session = ""
        self._outgoing: asyncio.Queue[str] = asyncio.Queue()
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
        for session in self._sessions:
            self._connection.untap(session)
        if self._page_session:
            self._connection.post("Target.detachFromTarget", {"sessionId": self._page_session})
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        given = request.match_info["token"]
        if not secrets.compare_digest(given.encode(), self._token.encode()):
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
                self._pass_on(message, method, params, session)
        elif method == "Target.setAutoAttach":
            await self._attach()
            self._answer(message, {})
        elif method == "Target.getTargetInfo":
            self._answer(message, {"targetInfo": _ROOT_TARGET})
        elif method == "Browser.getVersion":
            self._pass_on(message, method, params, "")
        elif method in _CONTEXT_METHODS:
            own = {**params, "browserContextId": self._context_id}
            self._pass_on(message, method, own, "")
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
        self._put(message)

    def _pass_on(self, message: Message, method: str, params: Message, session: str) -> None:
        def answered(answer: Message | CommandError) -> None:
            if isinstance(answer, CommandError):
                self._put(_numbered(message, {"error": {"code": -32000, "message": answer.detail}}))
            else:
                self._answer(message, answer)

        self._connection.pass_on(method, params, session, answered)

    def _refuse(self, message: Message) -> None:
        text = f"{message['method']} is not possible within a visit."
        self._put(_numbered(message, {"error": {"code": -32000, "message": text}}))

    def _answer(self, message: Message, result: Message) -> None:
        self._put(_numbered(message, {"result": result}))

    def _put(self, message: Message) -> None:
        self._outgoing.put_nowait(json.dumps(message))


def _numbered(message: Message, answer: Message) -> Message:
    session = {"sessionId": message["sessionId"]} if message.get("sessionId") else {}
    return {"id": message["id"], **answer, **session}
