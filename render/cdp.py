"""Chrome DevTools Protocol client over the browser's debugging pipe.

Messages are JSON, each terminated by a NUL byte. One connection serves every tab: a message of an
attached target carries its session id ("flat" sessions). A page causes some six hundred events, so
each is decoded at most once, and events without a listener are not decoded at all.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from core.errors import BrowserUnavailableError, TransientError
from core.storable_text import parse_json

EventHandler = Callable[[str, dict[str, Any]], None]

READ_BYTES = 1 << 20
# A 16,000 px screenshot of noise is about 80 MB of base64; no valid answer is larger than this.
MESSAGE_LIMIT_BYTES = 512 * 1024 * 1024
# Unsolicited events to skip before decoding; the browser writes "method" first.
UNREAD = tuple(
    b'{"method":"' + name + b'"'
    for name in (
        b"Network.dataReceived",
        b"Network.requestWillBeSentExtraInfo",
        b"Network.responseReceivedExtraInfo",
        b"Network.responseReceivedEarlyHints",
        b"Network.resourceChangedPriority",
        b"Network.policyUpdated",
        b"Network.webSocketFrameReceived",
        b"Network.webSocketFrameSent",
        b"Network.eventSourceMessageReceived",
        b"Page.frameClearedScheduledNavigation",
        b"Page.frameResized",
        b"Page.frameScheduledNavigation",
        b"Page.frameRequestedNavigation",
        b"Page.frameStartedNavigating",
        b"Page.frameStartedLoading",
        b"Page.frameSubtreeWillBeDetached",
        b"Runtime.executionContextCreated",
        b"Runtime.executionContextDestroyed",
        b"Runtime.executionContextsCleared",
        b"Target.targetInfoChanged",
    )
)


STRETCH_LIMIT = 4.0


def stretched(limit_s: float) -> float:
    """Return the limit times the load of each processor in the last minute, between once and four times.

    A page that computes for two seconds answers after eight where four processes share its processor.
    """
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return limit_s * min(max(load, 1.0), STRETCH_LIMIT)


class CommandError(TransientError):
    """Command refused by the browser with message `detail`, or target detached before it answered."""

    def __init__(self, method: str, detail: str) -> None:
        super().__init__(f"The browser command {method} failed: {detail}")
        self.method = method
        self.detail = detail


class CdpConnection:
    """Connection to one browser, which owns both descriptors; BrowserUnavailableError once the browser is gone."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self._unsent = bytearray()
        self._pending: dict[int, tuple[asyncio.Future[dict[str, Any]], str, str]] = {}
        self._handlers: dict[str, EventHandler] = {}
        self._taps: dict[str, Callable[[dict[str, Any]], None]] = {}
        self._next_id = 0
        self._open = True
        self._reason = ""
        self.closed = asyncio.Event()
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)
        self._loop.add_reader(read_fd, self._readable)

    async def send(self, method: str, params: Mapping[str, Any] | None = None, session_id: str = "") -> dict[str, Any]:
        """Return a command's result; CommandError: it was refused, or its session ended; BrowserUnavailableError."""
        future: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        identifier = self._submit(method, params, session_id)
        self._pending[identifier] = (future, method, session_id)
        try:
            return await future
        finally:
            self._pending.pop(identifier, None)

    def post(self, method: str, params: Mapping[str, Any] | None = None, session_id: str = "") -> None:
        """Send a command and ignore its result; a browser that is gone is not an error."""
        with contextlib.suppress(BrowserUnavailableError):
            self._submit(method, params, session_id)

    def tap(self, session_id: str, handler: Callable[[dict[str, Any]], None]) -> None:
        """Pass all messages of the session that are not answers to `handler`, unparsed."""
        self._taps[session_id] = handler

    def untap(self, session_id: str) -> None:
        """End `tap`."""
        self._taps.pop(session_id, None)

    def listen(self, session_id: str, handler: EventHandler) -> None:
        """Register `handler` for the events of the session; the empty id denotes the browser itself."""
        self._handlers[session_id] = handler

    def forget(self, session_id: str, reason: str) -> None:
        """End a session: drop its events, and fail its pending commands with `CommandError`."""
        self._handlers.pop(session_id, None)
        for future, method, owner in list(self._pending.values()):
            if owner == session_id and not future.done():
                future.set_exception(CommandError(method, reason))

    def close(self, reason: str = "it was closed") -> None:
        """Close both descriptors and fail pending commands. Idempotent."""
        if not self._open:
            return
        self._open = False
        self._reason = reason
        self._loop.remove_reader(self._read_fd)
        self._loop.remove_writer(self._write_fd)
        os.close(self._read_fd)
        os.close(self._write_fd)
        self._parts.clear()
        self._unsent.clear()
        for future, _, _ in list(self._pending.values()):
            if not future.done():
                future.set_exception(BrowserUnavailableError(f"The browser is gone: {reason}."))
        self._handlers.clear()
        self.closed.set()

    def _submit(self, method: str, params: Mapping[str, Any] | None, session_id: str) -> int:
        if not self._open:
            raise BrowserUnavailableError(f"The browser is gone: {self._reason}.")
        self._next_id += 1
        message: dict[str, Any] = {"id": self._next_id, "method": method, "params": params or {}}
        if session_id:
            message["sessionId"] = session_id
        # Commands of one callback are written together: the browser gets the second before any effect of the first.
        if not self._unsent:
            self._loop.call_soon(self._begin_write)
        self._unsent += json.dumps(message).encode("ascii") + b"\0"
        return self._next_id

    def _begin_write(self) -> None:
        if self._open:
            self._write()
        if self._open and self._unsent:
            self._loop.add_writer(self._write_fd, self._writable)

    def _write(self) -> None:
        try:
            del self._unsent[: os.write(self._write_fd, self._unsent)]
        except BlockingIOError:
            pass
        except OSError as error:
            self.close(f"its pipe broke ({error.strerror})")

    def _writable(self) -> None:
        self._write()
        if self._open and not self._unsent:
            self._loop.remove_writer(self._write_fd)

    def _readable(self) -> None:
        try:
            data = os.read(self._read_fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(f"its pipe broke ({error.strerror})")
            return
        if not data:
            self.close("it ended")
            return
        *ended, rest = data.split(b"\0")
        for piece in ended:
            message = b"".join((*self._parts, piece))
            self._parts.clear()
            self._parts_bytes = 0
            self._dispatch(message)
        if rest and self._open:
            self._parts.append(rest)
            self._parts_bytes += len(rest)
            if self._parts_bytes > MESSAGE_LIMIT_BYTES:
                self.close("it sent a message over the limit")

    def _dispatch(self, raw: bytes) -> None:
        is_unread = raw.startswith(UNREAD)
        if is_unread and not self._taps:
            return
        try:
            message: dict[str, Any] = parse_json(raw)
        except ValueError:
            self.close("it sent something that is not JSON")
            return
        if "id" in message:
            waiting = self._pending.get(message["id"])
            if waiting is None or waiting[0].done():
                return
            future, method, _ = waiting
            if (error := message.get("error")) is None:
                future.set_result(message.get("result", {}))
            else:
                future.set_exception(CommandError(method, str(error.get("message", error))))
            return
        if (session := message.get("sessionId", "")) in self._taps:
            self._taps[session](message)
            return
        handler = self._handlers.get(session)
        if handler is None or is_unread:
            return
        try:
            handler(message["method"], message.get("params", {}))
        except Exception as error:  # noqa: BLE001 one visit's mistake must not silence the others
            self._loop.call_exception_handler(
                {"message": f"Handling {message.get('method')} failed.", "exception": error}
            )
