"""HTTP server for ASGI applications, with limits on connections and stalled readers, which uvicorn lacks."""

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from core.errors import InvariantError, ListenError

_BACKLOG = 2048  # connections that wait to be accepted
_OTHER_FILES = 200  # databases, WARCs, pipes of child processes, static files


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds on the connections of one server."""

    # At once. Beyond that the one that has waited longest for a request is closed; when all are
    # being answered, new requests get 503.
    connections: int
    per_peer: int | None = None  # limit per client address; None behind a reverse proxy
    head_s: float = 20.0  # time for a request's head, from the connection's begin or the last answer's end
    stall_s: float = 30.0  # time in which a client must read its buffered data


class HttpServer(uvicorn.Server):
    """uvicorn with `ConnectionLimits`, which leaves signals to its caller unless asked to handle them."""

    def __init__(
        self,
        app: Any,
        limits: ConnectionLimits,
        *,
        on_ready: Callable[[], object] = lambda: None,
        signals: bool = False,
        **options: Any,
    ) -> None:
        """Create a server; with `signals` it ends at SIGTERM and SIGINT; `options` are uvicorn's."""
        config = uvicorn.Config(
            app,
            http=partial(_HttpConnection, _ConnectionSet(limits)),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # each application decides whose X-Forwarded-For it believes
            limit_concurrency=limits.connections + 1,
            # asyncio accepts this many before dropped ones are closed: they need file descriptors, too.
            backlog=_OTHER_FILES // 8,
            **options,
        )
        super().__init__(config)
        self.listening = asyncio.Event()  # set once it listens
        self._on_ready = on_ready
        self._signals = signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, and call `on_ready`."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_BACKLOG)
        self.listening.set()
        self._on_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals during the block, if the server was configured to."""
        with super().capture_signals() if self._signals else contextlib.nullcontext():
            yield


@asynccontextmanager
async def running(server: HttpServer, listener: socket.socket) -> AsyncIterator[None]:
    """Run the server during the block; afterwards it has stopped and the listener is closed."""
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    ready = asyncio.create_task(server.listening.wait())
    try:
        await asyncio.wait((serving, ready), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
            raise InvariantError("The HTTP server exited during start-up.")
        yield
    finally:
        ready.cancel()
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        listener.close()


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket; an empty host is every address, port 0 a free one; or ListenError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=256)
    except (OSError, OverflowError) as error:
        raise ListenError(host, port, error) from error
    # Its connections inherit it. Without it a kept-alive one waits 40 ms for each answer, for asyncio
    # sets it only where a socket names its protocol.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def connection_limit(most: int, *, files_each: int = 1) -> int:
    """Raise the limit of open files; return how many connections of `files_each` descriptors fit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return most
    return max(16, min(most, max(hard - _OTHER_FILES, hard // 2) // files_each))


@dataclass
class _ConnectionSet:
    """Open connections of one server."""

    limits: ConnectionLimits
    # Those with an incomplete request or none; the longest waiting first.
    waiting: "dict[_HttpConnection, None]" = field(default_factory=dict)
    all: "set[_HttpConnection]" = field(default_factory=set)

    def make_room(self, peer: str) -> None:
        """Close the connection that waits longest: of the peer if it exceeds its limit, else of any."""
        limit, first = self.limits.per_peer, None
        if limit is not None and sum(each.peer == peer for each in self.all) >= limit:
            first = next((each for each in self.waiting if each.peer == peer), None)
        elif len(self.all) >= self.limits.connections:
            first = next(iter(self.waiting), None)
        if first is not None:
            first.drop()


class _HttpConnection(H11Protocol):
    """Connection that is closed when a head does not arrive or an answer is not read in time."""

    def __init__(self, connections: _ConnectionSet, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open = connections
        self._timers: dict[str, asyncio.TimerHandle] = {}  # "head", "stall"
        self.peer = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection, closing another one if the limit is reached."""
        super().connection_made(transport)
        self.peer = self.client[0] if self.client else ""
        self._open.make_room(self.peer)
        self._open.all.add(self)
        self._follow()

    def data_received(self, data: bytes) -> None:
        """Process received data, and update the timer."""
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        """Wait for the next request, and for the reader to take the rest of the answer."""
        super().on_response_complete()
        self._follow()

    def pause_writing(self) -> None:
        """Start the stall timer."""
        super().pause_writing()
        if "stall" not in self._timers:
            self._timers["stall"] = self.loop.call_later(self._open.limits.stall_s, self.drop)

    def resume_writing(self) -> None:
        """Stop the stall timer."""
        self._cancel_timer("stall")
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._cancel_timer("head")
        self._cancel_timer("stall")
        self._open.waiting.pop(self, None)
        self._open.all.discard(self)
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the connection at once; buffered output is lost."""
        self._open.waiting.pop(self, None)
        self._open.all.discard(self)
        self.transport.abort()

    def _follow(self) -> None:
        """Set timer and queue position by the connection's current state."""
        waiting = self._open.waiting
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            if "head" not in self._timers:
                waiting.pop(self, None)  # from now on it is the last
                waiting[self] = None
                self._timers["head"] = self.loop.call_later(self._open.limits.head_s, self.drop)
            return
        self._cancel_timer("head")
        if self.conn.their_state is h11.SEND_BODY:
            waiting.setdefault(self)
        else:
            waiting.pop(self, None)

    def _cancel_timer(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()
