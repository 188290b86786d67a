"""A small web on loopback: names, a name server, and hosts that do what a test tells them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import cast

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

from core.config.settings import EgressSettings, LinksSettings, Settings
from links.check_history import EPOCH
from links.checker.check_run import CheckContext, CheckPlan, CheckRun, CheckTally, OnSave
from links.checker.dns_resolver import DnsResolver
from links.checker.due_urls import ALL_HOSTS, HostShare
from links.checker.host_turns import HostTurns
from links.checker.http_probe import HttpProber
from links.checker.result_store import CheckRules
from links.checker.result_writer import LeaseHolder
from links.feedback.marks import LiveMarks
from links.registry.database import RegistryStore, RegistryThread
from links.states import DEFAULT, CheckPreset, LinkState

PAGE = "<!doctype html><title>{title}</title><h1>{title}</h1><p>" + "The bridge was built of red stone. " * 12
Answering = Callable[[str, str], "HostReply"]  # method and path


@dataclass(frozen=True)
class HostReply:
    """Response of a host. Status 0 closes the connection without a word."""

    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HostRequest:
    """A request that came."""

    host: str
    method: str
    path: str
    began: float
    ended: float


def fine(method: str, path: str) -> HostReply:
    """Return a page for a path that a test names, and 404 for an invented one, which is longer."""
    if len(path) > 12:
        return gone(method, path)
    return HostReply(200, PAGE.format(title=f"Page {path}"))


def gone(_method: str, _path: str) -> HostReply:
    """Return a 404."""
    return HostReply(404, "<title>Not found</title>No such page.")


def broken(_method: str, _path: str) -> HostReply:
    """Return a 502, an error that may be temporary."""
    return HostReply(502, "<title>Bad gateway</title>")


def silent(_method: str, _path: str) -> HostReply:
    """Close the connection without a response."""
    return HostReply(0)


def no_head(method: str, path: str) -> HostReply:
    """Return 405 to HEAD, a page to other methods."""
    return HostReply(405) if method == "HEAD" else fine(method, path)


class ServerFarm:
    """The hosts. Those without an entry are fine; names in `lost` do not exist.

    Attributes:
        hosts: what each host does; a test may change it at any time.
        lost: names that the name server does not know.
        requests: every request, in the order of coming.
    """

    def __init__(self) -> None:
        self.hosts: dict[str, Answering] = {}
        self.lost: set[str] = set()
        self.requests: list[HostRequest] = []
        self.port = 0
        self.dns_port = 0
        self.on_request: Callable[[], None] = lambda: None

    def requests_to(self, host: str) -> list[HostRequest]:
        """Return the requests that a host received."""
        return [each for each in self.requests if each.host == host]

    def settings(self, names: list[str], **links: object) -> Settings:
        """Return settings in which these names lead here; `links` are changes of that group."""
        known = {name: f"127.0.0.1:{self.port}" for name in names if name not in self.lost}
        return Settings(
            egress=EgressSettings(allow=("127.0.0.0/8",), resolve=known),
            links=replace(
                LinksSettings(host_gap_s=0.02, timeout_s=20.0, contact="https://example.org/"),
                **links,  # type: ignore[arg-type]
            ),
        )

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and answer it."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            began = time.monotonic()
            method, path, _ = head.split(" ", 2)
            host = next(line[5:].strip() for line in head.split("\r\n") if line.lower().startswith("host:"))
            self.on_request()
            reply = self.hosts.get(host, fine)(method, path)
            self.requests.append(HostRequest(host, method, path, began, time.monotonic()))
            if reply.status:
                writer.write(_bytes(reply, with_body=method != "HEAD"))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


def _bytes(reply: HostReply, *, with_body: bool) -> bytes:
    body = reply.body.encode()
    headers = {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in (headers | reply.headers).items()]
    head = "\r\n".join([f"HTTP/1.1 {reply.status} Whatever", *lines, "Connection: close"])
    return head.encode() + b"\r\n\r\n" + (body if with_body else b"")


class _NameServer(asyncio.DatagramProtocol):
    """Knows the root and, at 127.0.0.1, every name that is not lost."""

    def __init__(self, farm: ServerFarm) -> None:
        self._farm = farm

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        question = query.question[0]
        name = question.name.to_text()
        if name == ".":
            answer.answer.append(dns.rrset.from_text(".", 60, "IN", "NS", "a.root.example."))
        elif name.rstrip(".") in self._farm.lost or not name.endswith(".example."):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif question.rdtype == 1:
            answer.answer.append(dns.rrset.from_text(name, 60, "IN", "A", "127.0.0.1"))
        self._transport.sendto(answer.to_wire(), addr)


@asynccontextmanager
async def running_server_farm() -> AsyncIterator[ServerFarm]:
    """Run a farm and its name server."""
    farm = ServerFarm()
    server = await asyncio.start_server(farm.answer, "127.0.0.1", 0)
    farm.port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _NameServer(farm), local_addr=("127.0.0.1", 0))
    farm.dns_port = transport.get_extra_info("sockname")[1]
    try:
        yield farm
    finally:
        transport.close()
        server.close()
        await server.wait_closed()


class DayClock:
    """A clock whose days a test turns."""

    def __init__(self, day: int = 3_000) -> None:
        self.day = day

    def now(self) -> datetime:
        """Return noon of the day."""
        noon = datetime(EPOCH.year, EPOCH.month, EPOCH.day, 12, tzinfo=UTC)
        return noon + timedelta(days=self.day)

    def monotonic(self) -> float:
        """Return the machine's monotonic seconds."""
        return time.monotonic()


class FixedMarks:
    """Marks by host."""

    def __init__(self, states: dict[str, LinkState] | None = None, settings: dict[str, str] | None = None) -> None:
        self.states = states or {}
        self.settings = settings or {}

    def current(self) -> "FixedMarks":
        """Return itself."""
        return self

    def state_of(self, url: str) -> LinkState | None:
        """Return the state that the test set for the URL's host."""
        return self.states.get(url.split("/")[2])

    def setting(self, _url: str, key: str) -> str | None:
        """Return a setting, which is the same for every URL."""
        return self.settings.get(key)

    def refuses(self, _url: str) -> str:
        """Return no reason: any URL may be a replacement."""
        return ""


@dataclass
class FarmChecker:
    """A checker of a store over a farm; each `check` is a pass."""

    context: CheckContext
    plan: CheckPlan
    stop: asyncio.Event

    async def check(self, *, on_save: OnSave | None = None, **changes: object) -> CheckTally:
        """Make a pass over what is due."""
        plan = replace(self.plan, **changes)  # type: ignore[arg-type]
        return await CheckRun(self.context, plan, on_save=on_save).run(self.stop)


@asynccontextmanager
async def checking(
    store: RegistryStore,
    farm: ServerFarm,
    names: list[str],
    *,
    days: DayClock,
    preset: CheckPreset = DEFAULT,
    browser: bool = True,
    marks: FixedMarks | None = None,
    holder: str = "tester",
    gap_s: float = 0.02,
    part: HostShare = ALL_HOSTS,
    closer: bool = False,
    connections: int = 50,
) -> AsyncIterator[FarmChecker]:
    """Yield a checker that sends real requests."""
    async with AsyncExitStack() as stack:
        settings = farm.settings(names, host_gap_s=gap_s)
        registry = RegistryThread(store, monotonic=days.monotonic, first_delay_s=0.02)
        stack.callback(registry.close)
        dns = DnsResolver(nameservers=[("127.0.0.1", farm.dns_port)], hosts={})
        stack.push_async_callback(dns.close)
        turns = HostTurns(gap_s, monotonic=days.monotonic)
        prober = await stack.enter_async_context(HttpProber(settings, is_own=lambda _: False, names=dns, turns=turns))
        plan = CheckPlan(CheckRules(preset, browser), part, connections=connections, closer=closer)
        leases = LeaseHolder(registry, [plan.part], holder, clock=days)
        await leases.take()
        stack.push_async_callback(leases.give_back)
        live = cast("LiveMarks", marks or FixedMarks())
        context = CheckContext(registry, prober, turns, leases, days, live)
        yield FarmChecker(context, plan, asyncio.Event())
