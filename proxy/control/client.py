"""Client of the control socket, for workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple

from core import errors
from core.captures import RecordLocation
from core.config.stored_level import DEFAULT_STORED_LEVEL, StoredLevel
from core.errors import ProxyUnavailableError, WeboidError
from core.hosts import ProxyEndpoint
from core.timestamps import warc_date
from proxy.control.frames import HEAD_LIMIT_BYTES, UNTAGGED, FrameTags, Message, pack_frame, receive_frame_async
from proxy.request_log import RefetchRequest, RequestLogEntry, from_table

if TYPE_CHECKING:
    from proxy.control.handshake import ClusterSecret

CONNECT_LIMIT_S = 5.0
# A remote proxy that has not answered for this long is unresponsive. It may wait for others' payloads, for the
# index, and for a slow disk, each for a minute or more.
ANSWER_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class NewArtifact:
    """Artifact to write: its ``urn:``, type and bytes."""

    uri: str
    content_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class RequestLogSnapshot:
    """Request log of a visit in progress."""

    # Finished requests with the fields of `proxy.request_log.BRIEF_FIELDS`; `kept` is not final yet.
    entries: list[RequestLogEntry]
    in_flight: frozenset[str]  # the URLs of the others


class ContextCredentials(NamedTuple):
    """Proxy credentials of a browser context with several visits, one at a time."""

    username: str
    password: str

    @classmethod
    def random(cls) -> ContextCredentials:
        """Return new credentials, which no page can guess."""
        return cls(token_hex(8), token_hex(16))


@dataclass(eq=False)
class ProxyVisit:
    """One visit at the proxy. Created by `ProxyClient.visit`, which also ends it."""

    _connection: _ControlConnection
    credentials: ProxyEndpoint  # for the visit's browser context
    # Takes lines of the browser's key log; None where it makes no connections itself.
    send_secrets: Callable[[list[str]], None] | None = None
    refused: int = 0  # set by the seal: number of requests beyond the limit, which have no log entry

    async def write(self, artifacts: Sequence[NewArtifact], *, document: str, date: datetime) -> list[RecordLocation]:
        """Write artifacts of the page with that URL after redirects; return when they are on disk and in the index.

        Raises DiskFullError, ProxyUnavailableError, or WeboidError if they could not be written.
        """
        common = {"date": warc_date(date), "document": document}
        described = [
            {**common, "uri": each.uri, "content_type": each.content_type, "size": len(each.data)} for each in artifacts
        ]
        body = b"".join(each.data for each in artifacts)
        answer = await self._connection.ask({"verb": "write", "artifacts": described}, body)
        return [RecordLocation(*each) for each in answer["locations"]]

    async def ledger(
        self,
        *,
        grace_s: float = 0.0,
        awaited: Sequence[str] = (),
        await_s: float = 0.0,
        again: Sequence[RefetchRequest] = (),
        limit_bytes: int = 0,
    ) -> RequestLogSnapshot:
        """Return the outcome of each request so far. The visit stays open: no request is cut."""
        message: Message = {"verb": "ledger", "grace_s": grace_s, "awaited": list(awaited), "await_s": await_s}
        message |= {"again": [asdict(each) for each in again], "limit_bytes": limit_bytes}
        answer = await self._connection.ask(message, more_s=grace_s + await_s)
        return RequestLogSnapshot(from_table(answer["entries"]), frozenset(answer["in_flight"]))

    async def seal(self, *, grace_s: float, awaited: Sequence[str] = (), await_s: float = 0.0) -> list[RequestLogEntry]:
        """Close the network part of the visit; return each request's outcome, records on disk."""
        message = {"verb": "seal", "grace_s": grace_s, "awaited": list(awaited), "await_s": await_s}
        answer = await self._connection.ask(message, more_s=grace_s + await_s)
        self.refused = int(answer["refused"])
        return from_table(answer["entries"])


class ProxyClient:
    """Client of a proxy process, addressed by control socket path or by host, port and secret."""

    def __init__(self, address: Path | tuple[str, int], secret: ClusterSecret | None = None) -> None:
        self._address = address
        self._secret = secret

    @asynccontextmanager
    async def visit(  # noqa: PLR0913 fields of the message
        self,
        page_id: str,
        *,
        bucket: str,
        headers: Mapping[str, str] | None = None,
        login: str = "",
        unverified_tls: bool = False,
        stored: StoredLevel = DEFAULT_STORED_LEVEL,
        shared: ContextCredentials | None = None,
        confirm_within_s: float = 0.0,
        browser_hosts: Sequence[str] = (),
    ) -> AsyncIterator[ProxyVisit]:
        """Open a visit and yield it; it is closed at the end of the block.

        `unverified_tls` allows the login at origins whose certificate does not verify; `shared`: a context whose visits
        take turns; `confirm_within_s`: origins may confirm captures no older; `browser_hosts`: those that the browser
        connects to itself ("*": all). Raises ConfigError for a header, DiskFullError, LimitReachedError.
        """
        async with self._connected() as connection:
            message: Message = {
                "verb": "open",
                "page_id": page_id,
                "bucket": bucket,
                "headers": dict(headers or {}),
                "login": login,
                "unverified_tls": unverified_tls,
                "stored": str(stored),
                "confirm_within_s": confirm_within_s,
                "browser_hosts": list(browser_hosts),
            }
            if shared is not None:
                message |= shared._asdict()
            answer = await connection.ask(message)
            credentials = ProxyEndpoint(*(answer[name] for name in ("host", "port", "username", "password", "token")))
            async with self._sending_secrets() if browser_hosts else nullcontext() as send:
                yield ProxyVisit(connection, credentials, send)
            await connection.ask({"verb": "close"})

    async def status(self) -> Message:
        """Return the process's id, open visits, uptime, free bytes and reserve."""
        async with self._connected() as connection:
            return await connection.ask({"verb": "status"})

    async def reach(self, host: str, port: int) -> bool:
        """Check whether the proxy can connect to the host; no request is sent."""
        async with self._connected() as connection:
            answer = await connection.ask({"verb": "reach", "host": host, "port": port})
            return bool(answer["reached"])

    @property
    def is_local(self) -> bool:
        """Return whether it is reached by a Unix socket, so that messages do not cross a network."""
        return isinstance(self._address, Path)

    @asynccontextmanager
    async def _sending_secrets(self) -> AsyncIterator[Callable[[list[str]], None]]:
        """Open a connection for a browser's TLS secrets; yield the function that sends lines of its key log."""
        queue: asyncio.Queue[list[str]] = asyncio.Queue()
        async with self._connected() as connection:

            async def send() -> None:
                while True:
                    await connection.ask({"verb": "secrets", "lines": await queue.get()})

            sending = asyncio.create_task(send())
            try:
                yield queue.put_nowait
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[_ControlConnection]:
        try:
            if isinstance(self._address, Path):
                reader, writer = await asyncio.open_unix_connection(str(self._address), limit=HEAD_LIMIT_BYTES)
            else:
                from net.timeouts import enable_keepalive

                async with asyncio.timeout(CONNECT_LIMIT_S):  # TimeoutError is an OSError
                    reader, writer = await asyncio.open_connection(*self._address, limit=HEAD_LIMIT_BYTES)
                enable_keepalive(writer.get_extra_info("socket"))
        except OSError as error:
            raise ProxyUnavailableError(f"The proxy does not answer: {error}.") from error
        try:
            if self._secret is None:
                yield _ControlConnection(reader, writer, UNTAGGED, None)
            else:
                from proxy.control.handshake import introduce

                tags = await introduce(reader, writer, self._secret)
                yield _ControlConnection(reader, writer, tags, ANSWER_LIMIT_S)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


class _ControlConnection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    tags: FrameTags
    limit_s: float | None  # a child that hangs is its parent's business

    async def ask(self, message: Message, body: bytes = b"", *, more_s: float = 0.0) -> Message:
        """Send a message; return its answer within `more_s` longer, or raise it if it is an error."""
        limit_s = None if self.limit_s is None else self.limit_s + more_s
        try:
            async with asyncio.timeout(limit_s):
                self.writer.write(pack_frame(message, body, self.tags.sent))
                await self.writer.drain()
                answer, _ = await receive_frame_async(self.reader, self.tags.received)
        except TimeoutError as error:
            self.writer.transport.abort()  # unread data is no longer needed
            raise ProxyUnavailableError(f"The proxy has not answered for {limit_s:.0f} seconds.") from error
        except OSError as error:
            raise ProxyUnavailableError("The proxy closed its control socket.") from error
        if "error" in answer:
            raise getattr(errors, answer["error"], WeboidError)(answer["message"])
        return answer
