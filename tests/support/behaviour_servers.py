"""Small servers that behave: each answers as one kind of server on the web does, byte for byte.

A behaviour is what a server does with a request: a list of steps, each bytes to send or a `ServerAction`. They
listen on loopback, under names and the usual ports as the settings' ``[egress] resolve`` maps them.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from core.config.settings import EgressSettings, LinksSettings, Settings
from links.check_result import CheckVerdict
from links.checker.http_probe import HttpProber


class ServerAction(Enum):
    """Action of a server besides sending."""

    HANG = auto()  # nothing more, for ever
    RESET = auto()  # the connection, rudely
    ENDLESS = auto()  # the last bytes again and again, as fast as they are taken
    DRIP = auto()  # the last bytes again and again, a few a second
    KEEP = auto()  # wait for another request on the connection, which never comes


Step = bytes | ServerAction
Steps = Sequence[Step]


@dataclass(frozen=True)
class BehaviourRequest:
    """Request that was received."""

    method: str
    path: str
    headers: Mapping[str, str]


Answering = Callable[[BehaviourRequest], Steps]

WORDS = (
    "The bridge was built of red stone in the year of the great flood. Masons from three valleys came,"
    " and their marks are still to be seen below the second arch, where the water is slow. "
)
PAGE = (
    b"<!doctype html><html><head><title>The old bridge</title></head><body><h1>The old bridge</h1><p>"
    + WORDS.encode() * 4
    + b"</p></body></html>"
)
HTML = "text/html; charset=utf-8"


def reply(
    status: int = 200,
    body: bytes = PAGE,
    *,
    mime: str = HTML,
    length: int | None = -1,
    headers: Mapping[str, str] | None = None,
    **more: str,
) -> bytes:
    """Return a whole response, without Content-Length if `length` is None; in `more` underscores are hyphens."""
    lines = [f"HTTP/1.1 {status} Whatever"]
    if mime:
        lines.append(f"Content-Type: {mime}")
    if length is not None:
        lines.append(f"Content-Length: {len(body) if length < 0 else length}")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in more.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def head_of(answer: bytes) -> bytes:
    """Return a response without its body."""
    return answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"


def moved(location: str, status: int = 302, *, Set_Cookie: str = "") -> bytes:  # noqa: N803
    """Return a redirect response."""
    more = {"Set-Cookie": Set_Cookie} if Set_Cookie else {}
    return reply(status, b"", headers={"Location": location} | more)


def always(*steps: Step) -> Answering:
    """Answer every request with these steps; HEAD gets no body of a single whole response."""

    def answer(request: BehaviourRequest) -> Steps:
        if request.method == "HEAD" and len(steps) == 1 and isinstance(steps[0], bytes):
            return [head_of(steps[0])]
        return steps

    return answer


def rawly(*steps: Step) -> Answering:
    """Answer every request with these steps, HEAD as well."""
    return lambda _: steps


def head(*steps: Step, get: bytes | None = None) -> Answering:
    """Answer HEAD with these steps, and GET with the page."""
    return lambda request: steps if request.method == "HEAD" else [reply() if get is None else get]


def paths(table: Mapping[str, bytes], other: bytes | None = None) -> Answering:
    """Answer by path, with `other` or 404 where the table has none."""

    def answer(request: BehaviourRequest) -> Steps:
        response = table.get(request.path, reply(404) if other is None else other)
        return [head_of(response) if request.method == "HEAD" else response]

    return answer


@dataclass(frozen=True)
class ServerBehaviour:
    """A behaviour and what a look at it must find.

    Attributes:
        name: in a few words, with hyphens.
        verdict: what is to be found.
        servers: by ``host:port``, as URLs name it.
        url: what is asked for.
        note: what the finding's note begins with.
        timeout_s: of the look.
        tls: the certificate's kind, for port 443: see `certificates`.
        get_only: ask as a host that answers HEAD badly.
        facts: more that the finding must say.
    """

    name: str
    verdict: CheckVerdict
    servers: Mapping[str, Answering]
    url: str = "http://site.test/cited/page.html"
    note: str = ""
    timeout_s: float = 60.0
    tls: str = "good"
    get_only: bool = False
    facts: Mapping[str, object] = field(default_factory=dict)


def one(name: str, verdict: CheckVerdict, answering: Answering, **more: object) -> ServerBehaviour:
    """Return a behaviour of one server, at port 80."""
    return replace(ServerBehaviour(name, verdict, {"site.test:80": answering}), **more)  # type: ignore[arg-type]


async def _serve(answering: Answering, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await _answer(answering, reader, writer)
        writer.close()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.transport.abort()
    except asyncio.CancelledError:  # the test is over
        writer.transport.abort()


async def _answer(answering: Answering, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    data = await reader.readexactly(1)
    if data == b"\x16":  # the hello of TLS to a server that does not speak it
        for step in answering(BehaviourRequest("HELLO", "/", {})):
            writer.write(step if isinstance(step, bytes) else b"")
        return
    data += await reader.readuntil(b"\r\n\r\n")
    lines = data.decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
    last = b""
    for step in answering(BehaviourRequest(method, path, headers)):
        if isinstance(step, bytes):
            writer.write(step)
            await writer.drain()
            last = step
        else:
            await _do(step, last, reader, writer)


async def _do(deed: ServerAction, last: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if deed is ServerAction.RESET:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    elif deed in (ServerAction.HANG, ServerAction.KEEP):
        await reader.read()
    else:
        while not writer.transport.is_closing():
            writer.write(last)
            await writer.drain()
            if deed is ServerAction.DRIP:
                await asyncio.sleep(0.05)


@asynccontextmanager
async def serving(
    servers: Mapping[str, Answering],
    contexts: Callable[[str], ssl.SSLContext] | None = None,
    *,
    addresses: Mapping[str, str] | None = None,
) -> AsyncIterator[dict[str, str]]:
    """Run the servers; yield the `[egress] resolve` that maps their names to them."""
    resolve: dict[str, str] = {}
    running: list[asyncio.Server] = []
    tasks: set[asyncio.Task[None]] = set()

    def handler(answering: Answering) -> Callable[..., Awaitable[None]]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            await _serve(answering, reader, writer)

        return handle

    for name, answering in servers.items():
        host, _, port = name.rpartition(":")
        context = contexts(host) if contexts is not None and port == "443" else None
        address = (addresses or {}).get(host, "127.0.0.1")
        server = await asyncio.start_server(handler(answering), address, 0, ssl=context, backlog=4096)
        running.append(server)
        socket_name = server.sockets[0].getsockname()
        bare = f"[{socket_name[0]}]" if ":" in socket_name[0] else socket_name[0]
        resolve[name] = f"{bare}:{socket_name[1]}"
    try:
        yield resolve
    finally:
        for server in running:
            server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def closed_port() -> Iterator[int]:
    """Yield a port on which nothing listens; it stays bound, so that nothing can take it."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


def settings_for(resolve: Mapping[str, str], *, timeout_s: float = 60.0, ca_file: str = "") -> Settings:
    """Return settings that allow requests to loopback."""
    return Settings(
        egress=EgressSettings(allow=("127.0.0.0/8", "::1/128"), resolve=dict(resolve), ca_file=ca_file),
        links=LinksSettings(timeout_s=timeout_s, contact="https://wiki.test/checks"),
    )


def prober_for(settings: Settings, **more: object) -> HttpProber:
    """Return a prober that regards no address as its own."""
    return HttpProber(settings, is_own=lambda _: False, **more)  # type: ignore[arg-type]
