"""One request and its response: sent on, passed back, hashed, and handed over to be written.

The browser gets the response as it comes. When the browser goes away the rest is still fetched, up
to the limits: a download that the browser refuses is kept from the response that announced it.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.settings import ProxySettings
from proxy.egress import BlockedAddressError, ConnectError, UnknownHostError
from proxy.http1 import HEAD_LIMIT_BYTES as HEAD_LIMIT
from proxy.http1 import (
    Body,
    Framing,
    MalformedMessageError,
    ResponseHead,
    find_head_end,
    forwarded_response_head,
    keeps_alive,
    parse_response_head,
    response_framing,
)
from proxy.ledger import Kept, LedgerEntry
from proxy.spool import Spool
from proxy.upstream import READ_BYTES, Connection, Origin, Upstream
from proxy.visits import Visit
from proxy.wire import ConnectionLostError, Wire

# RFC 9110 9.2.2: only these may be sent again when a reused connection closes without an answer.
_IDEMPOTENT = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))


@dataclass(slots=True)
class Recorded:
    """A finished exchange, for whoever writes it.

    Attributes:
        request: the request as the origin got it.
        head_size: how many bytes of the spool are the response's head.
        block: running SHA-256 of the whole response as it came.
        payload: running SHA-256 of the body without its transfer coding; None when the coding was
            broken or cut short, so that nobody could tell the payload.
        body: running SHA-256 of the body as it came; the same object when it has no coding.
    """

    entry: LedgerEntry
    visit: Visit
    started_at: datetime
    remote_ip: str
    request: bytes
    spool: Spool
    head_size: int
    block: Any
    payload: Any
    body: Any


@dataclass(frozen=True, slots=True)
class Exchanges:
    """What every exchange needs: the way out, the limits, and where records go."""

    upstream: Upstream
    settings: ProxySettings
    spool_folder: Path
    hand_over: Callable[[Recorded], None]
    now: Callable[[], datetime]
    monotonic: Callable[[], float] = time.monotonic


class NoResponseError(Exception):
    """No response came. `status` is what we answer instead, `reason` goes into the ledger."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Exchange:
    """One request on its way. `run` does it all; `cut` ends it from another thread."""

    def __init__(self, tools: Exchanges, visit: Visit, url: str, method: str) -> None:
        self.url = url
        self._tools = tools
        self._visit = visit
        self._started_at = tools.now()
        self._started = tools.monotonic()
        started_ms = int(self._started_at.timestamp() * 1000)
        self.entry = LedgerEntry(url=url, method=method, started_ms=started_ms)
        self._connection: Connection | None = None
        self._cut_for = ""

    def cut(self, reason: str) -> None:
        """End it now; what came so far is recorded as truncated for `reason`."""
        self._cut_for = reason
        connection = self._connection
        if connection is not None:
            connection.abort()

    def run(self, origin: Origin, request: bytes, browser: Wire, *, keep_alive: bool) -> bool:
        """Send the request, pass the response back, hand the record over.

        Args:
            origin: where to.
            request: head and body in origin form.
            browser: who gets the response.
            keep_alive: whether the browser means to go on.

        Returns:
            Whether the browser's connection can carry another request.

        Raises:
            NoResponseError: there is nothing to record; the browser has been told nothing yet.
        """
        head, connection, rest = self._ask(origin, request)
        spool = Spool(self._tools.spool_folder)
        try:
            framing, length = response_framing(head, self.entry.method)
        except MalformedMessageError as error:
            connection.close()
            raise NoResponseError(502, f"malformed: {error}") from error
        relay = _Relay(self, spool, browser, coded=framing is Framing.CHUNKED)
        keep_alive = keep_alive and framing is not Framing.CLOSE
        relay.start(head, keep_alive=keep_alive)
        body = Body(framing, length)
        relay.body(body, rest, connection)
        self._settle(connection, head, body, relay)
        self._tools.hand_over(
            Recorded(
                entry=self.entry,
                visit=self._visit,
                started_at=self._started_at,
                remote_ip=connection.remote_ip,
                request=request,
                spool=spool,
                head_size=len(head.raw),
                block=relay.block,
                # A chunked body cut short has no payload that two readers would agree on.
                payload=relay.payload if body.done or framing is not Framing.CHUNKED else None,
                body=relay.coded or relay.payload,
            )
        )
        return keep_alive and body.done and relay.browser_listens

    def _ask(self, origin: Origin, request: bytes) -> tuple[ResponseHead, Connection, bytes]:
        """The response's head, the connection, and the bytes of the body that came with it."""
        fresh = self.entry.method not in _IDEMPOTENT
        while True:
            connection = self._connect(origin, fresh=fresh)
            self.entry.tls_error = connection.tls_error
            try:
                connection.sock.sendall(request)
                head, rest = self._read_head(connection)
            except (OSError, ValueError, ConnectionLostError) as error:
                connection.close()
                if connection.reused and not self._cut_for:
                    fresh = True  # it was closed while idle: nothing was answered, ask again
                    continue
                timed_out = isinstance(error, TimeoutError)
                reason = self._cut_for or ("timeout" if timed_out else f"disconnected: {error}")
                raise NoResponseError(504 if timed_out else 502, reason) from error
            except MalformedMessageError as error:
                connection.close()
                raise NoResponseError(502, f"malformed: {error}") from error
            return head, connection, rest

    def _connect(self, origin: Origin, *, fresh: bool) -> Connection:
        try:
            connection = self._tools.upstream.lend(origin, fresh=fresh)
        except BlockedAddressError as error:
            self.entry.kept = Kept.BLOCKED
            raise NoResponseError(403, f"address: {error}") from error
        except UnknownHostError as error:
            raise NoResponseError(502, f"dns: {error}") from error
        except ConnectError as error:
            raise NoResponseError(502, f"connect: {error}") from error
        self._connection = connection
        if self._cut_for:
            connection.abort()
        return connection

    def _read_head(self, connection: Connection) -> tuple[ResponseHead, bytes]:
        buffer = bytearray()
        while True:
            end = find_head_end(buffer)
            if end >= 0:
                head = parse_response_head(bytes(buffer[:end]))
                del buffer[:end]
                if head.status >= 200 or head.status == 101:
                    return head, bytes(buffer)
                continue  # RFC 9110 15.2: interim responses come before the one
            if len(buffer) > HEAD_LIMIT:
                raise MalformedMessageError("The head is longer than 1 MiB.")
            piece = connection.sock.recv(READ_BYTES)
            if not piece:
                raise ConnectionLostError("closed before a response")
            buffer += piece

    def read_more(self, connection: Connection, body: Body, received: int) -> bytes:
        """The next piece of the body; empty when it is over, whole or not (then truncated says)."""
        settings = self._tools.settings
        if received >= settings.body_limit_bytes:
            self.entry.truncated = "length"
            return b""
        if self._tools.monotonic() - self._started > settings.response_limit_s:
            self.entry.truncated = "time"
            return b""
        try:
            piece = connection.sock.recv(READ_BYTES)
        except TimeoutError:
            self.entry.truncated = self._cut_for or "time"
            return b""
        except (OSError, ValueError):
            self.entry.truncated = self._cut_for or "disconnect"
            return b""
        if not piece and not (body.close() and not self._cut_for):
            self.entry.truncated = self._cut_for or "disconnect"
        return piece[: settings.body_limit_bytes - received]

    def _settle(
        self, connection: Connection, head: ResponseHead, body: Body, relay: "_Relay"
    ) -> None:
        """Fill in the ledger and give the connection back."""
        entry = self.entry
        entry.status = head.status
        entry.mime = head.mime
        entry.size = len(head.raw) + relay.body_size
        entry.seconds = self._tools.monotonic() - self._started
        if body.malformed and not entry.truncated:
            entry.truncated = "unspecified"
        whole = body.done and not entry.truncated and not relay.surplus
        if whole and keeps_alive(head.version, head.get(b"connection")) and head.status != 101:
            self._tools.upstream.give_back(connection)
        else:
            connection.close()


class _Relay:
    """Passes a response to the browser and keeps it, counting and hashing on the way."""

    def __init__(self, exchange: Exchange, spool: Spool, browser: Wire, *, coded: bool) -> None:
        self._exchange = exchange
        self._spool = spool
        self._browser = browser
        self._held = b""  # the head, sent together with the first bytes of the body
        self.browser_listens = True
        self.block = hashlib.sha256()
        self.payload = hashlib.sha256()
        self.coded = hashlib.sha256() if coded else None
        self.body_size = 0
        self.surplus = False

    def start(self, head: ResponseHead, *, keep_alive: bool) -> None:
        self._spool.add(head.raw)
        self.block.update(head.raw)
        self._held = forwarded_response_head(head, keep_alive=keep_alive)

    def body(self, body: Body, piece: bytes, connection: Connection) -> None:
        while True:
            if piece:
                self._take(body, piece)
            if body.done or body.malformed:
                break
            if self._held and not piece:
                self._send(b"")
            piece = self._exchange.read_more(connection, body, self.body_size)
            if not piece:
                break
        if self._held:
            self._send(b"")

    def _take(self, body: Body, piece: bytes) -> None:
        taken, payload = body.feed(piece)
        if taken != len(piece):
            self.surplus = True
            piece = piece[:taken]
        self.body_size += taken
        self._spool.add(piece)
        self.block.update(piece)
        self.payload.update(payload)
        if self.coded is not None:
            self.coded.update(piece)
        self._send(piece)

    def _send(self, piece: bytes) -> None:
        data = self._held + piece if self._held else piece
        self._held = b""
        if self.browser_listens:
            try:
                self._browser.send(data)
            except ConnectionLostError:
                self.browser_listens = False


def utc_now() -> datetime:
    """The current moment; the default clock of a process that has no other."""
    return datetime.fromtimestamp(time.time(), UTC)
