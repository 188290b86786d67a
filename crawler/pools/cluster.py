"""Cluster membership: service announcements in the frontier, and the pool of remote proxies.

A proxy's note names the authority that browsers are to trust, so it is signed with the cluster's secret: write access
to the store alone redirects no browser. A replayed old note names a former proxy, which must still authenticate before
each visit (`proxy.control.frames`).

A visit uses the least loaded announced proxy with disk space; one that could not be reached is avoided for a while.
"""

import asyncio
import json
import logging
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, Self

from core.clock import Clock
from core.errors import ProxyUnavailableError, WeboidError
from core.hosts import join_host_port, split_host_port
from core.json_values import read_json
from crawler.frontier.base import PROXY_SERVICE, WORKER_SERVICE, Frontier
from crawler.pools.resource_pool import ProxyAccess
from net.backoff import WaitEnded, WaitStarted
from net.stop_signals import wait_for_any
from proxy.control.client import ProxyClient
from proxy.control.handshake import ClusterSecret

log = logging.getLogger(__name__)

SERVICE_KINDS = (PROXY_SERVICE, WORKER_SERVICE)
ANNOUNCEMENT_INTERVAL_S = 5.0
ANNOUNCEMENT_LIFE = timedelta(seconds=15)
_SIGNATURE = "signature"
_IGNORED_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class AnnouncedProxy:
    """Proxy as described by its note."""

    name: str  # the note's key
    control: tuple[str, int]  # address of its control connection
    browsers: tuple[str, int]  # address of its HTTP proxy
    spki: str  # of its authority's leaf key
    visits: int  # open ones
    free_bytes: int  # on the disk that holds its WARCs
    reserve_bytes: int  # of these, how much must stay free
    authority: str  # its certificate, as PEM
    beat: int  # grows with each note of the same process
    started: str  # when the process began

    @property
    def has_room(self) -> bool:
        """Return True when its disk has room for another visit."""
        return self.free_bytes >= self.reserve_bytes

    @classmethod
    def parse(cls, name: str, text: str, secret: ClusterSecret) -> Self | None:
        """Parse the note; None when it is of another version, or its signature is invalid."""
        try:
            content = json.loads(text)
            signature = str(content.pop(_SIGNATURE))
            if not secret.has_signed(_message(PROXY_SERVICE, name, content), signature):
                return None
            control, browsers = map(split_host_port, (content["address"], content["browsers"]))
            return read_json(cls, content | {"name": name, "control": control, "browsers": browsers})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, WeboidError):
            return None


def living_proxies(
    frontier: Frontier, clock: Clock, secret: ClusterSecret, ignored: set[str] | None = None
) -> list[AnnouncedProxy]:
    """List the announced proxies by name; a new name in `ignored` is logged once. May raise TransientError."""
    ignored = set() if ignored is None else ignored
    proxies = []
    for name, text in sorted(frontier.notes(PROXY_SERVICE, now=clock.now()).items()):
        proxy = AnnouncedProxy.parse(name, text, secret)
        if proxy is not None:
            proxies.append(proxy)
        elif name not in ignored and len(ignored) < _IGNORED_LIMIT:
            ignored.add(name)
            log.warning("registry.ignored name=%.200r reason=not signed with our secret", name)
    return proxies


def _message(kind: str, name: str, content: dict[str, Any]) -> bytes:
    """Return the canonical bytes of a note that are signed."""
    return json.dumps([kind, name, content], sort_keys=True, separators=(",", ":")).encode()


def is_announced_on(frontier: Frontier, kind: str, host: str, clock: Clock) -> bool:
    """Return True when such a process is announced on that machine; may raise TransientError."""
    for text in frontier.notes(kind, now=clock.now()).values():
        try:
            if json.loads(text)["host"] == host:
                return True
        except (ValueError, KeyError, TypeError):
            continue
    return False


@dataclass(eq=False, repr=False)
class ServiceAnnouncer:
    """Periodic announcement of this process; `close` withdraws it."""

    frontier: Frontier
    kind: str
    name: str
    describe: Callable[[], dict[str, Any]]  # returns the note's content, called from any thread
    clock: Clock
    secret: ClusterSecret | None = None  # None: unsigned
    _beats: int = field(default=0, init=False)
    _silent: bool = field(default=False, init=False)
    _over: threading.Event = field(default_factory=threading.Event, init=False)

    def __post_init__(self) -> None:
        self._announce()
        self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Delete the note; when the store does not answer, it expires. Idempotent."""
        if self._over.is_set():
            return
        self._over.set()
        self._thread.join()
        try:
            self.frontier.erase_note(self.kind, self.name)
        except WeboidError as error:
            log.info("registry.left kind=%s name=%s error=%s", self.kind, self.name, error)

    def _run(self) -> None:
        while not self._over.wait(ANNOUNCEMENT_INTERVAL_S):
            self._announce()

    def _announce(self) -> None:
        self._beats += 1
        content = {**self.describe(), "beat": self._beats}
        if self.secret is not None:
            message = _message(self.kind, self.name, content)
            content[_SIGNATURE] = self.secret.signature(message)
        now = self.clock.now()
        try:
            self.frontier.put_note(self.kind, self.name, json.dumps(content), now=now, until=now + ANNOUNCEMENT_LIFE)
            self._silent = False
        except WeboidError as error:
            if not self._silent:  # once per outage
                log.warning("registry.silent error=%s", error)
            self._silent = True


PROXIES_POLL_S = 2.0
AVOID_S = 2.0  # back-off after an unreachable proxy, doubled each time …
AVOID_LIMIT_S = 60.0  # … up to this


@dataclass(eq=False, repr=False)
class RemoteProxyPool:
    """`crawler.pools.resource_pool.ProxyPool` that polls for announced proxies between `start` and `stop`."""

    frontier: Frontier
    secret: ClusterSecret
    clock: Clock
    _: KW_ONLY
    stopping: asyncio.Event  # once set, waiting for a proxy ends
    rng: Random
    authority: Path  # where the certificate of the proxies' authority is written
    report: Callable[[WaitStarted | WaitEnded], None]
    _proxies: dict[str, AnnouncedProxy] = field(default_factory=dict, init=False)
    _ignored: set[str] = field(default_factory=set, init=False)
    _hosts: dict[str, str] = field(default_factory=dict, init=False)
    _visits: Counter[str] = field(default_factory=Counter, init=False)
    _before: dict[str, int] = field(default_factory=dict, init=False)  # our own visits when a note was read
    _avoided: dict[str, tuple[float, int]] = field(default_factory=dict, init=False)  # until when, times in a row
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _missing_since: float | None = field(default=None, init=False)
    _polling: asyncio.Task[None] | None = field(default=None, init=False)

    @property
    def lent(self) -> int:
        """Return the number of visits in progress."""
        return self._visits.total()

    async def start(self) -> None:
        """Start polling, and wait for the first proxy; ProxyUnavailableError when stopped before."""
        with suppress(WeboidError):  # the task polls again
            await self._refresh()
        self._polling = asyncio.create_task(self._poll())
        await self._choose()

    async def stop(self) -> None:
        """Stop polling."""
        if self._polling is not None:
            self._polling.cancel()
            with suppress(asyncio.CancelledError):
                await self._polling

    @property
    def needs(self) -> ProxyAccess:
        """Return the proxies' common authority, and their addresses for browsers."""
        spkis = {each.spki for each in self._proxies.values()}
        return ProxyAccess(",".join(sorted(spkis)), dict(self._hosts))

    @asynccontextmanager
    async def lend(self, prefer: str = "") -> AsyncIterator[ProxyClient]:
        """See `ProxyPool.lend`; waits for one until `stopping`."""
        chosen = await self._choose(prefer)
        name = chosen.name
        self._visits[name] += 1
        try:
            yield ProxyClient(chosen.control, self.secret)
        except ProxyUnavailableError as error:
            _, times = self._avoided.get(name, (0.0, 0))
            pause_s = min(AVOID_S * 2**times, AVOID_LIMIT_S)
            self._avoided[name] = self.clock.monotonic() + pause_s, times + 1
            log.warning("proxy.lost name=%s reason=%s", name, error)
            raise
        else:
            self._avoided.pop(name, None)
        finally:
            self._visits[name] -= 1

    async def _choose(self, prefer: str = "") -> AnnouncedProxy:
        while True:
            now = self.clock.monotonic()
            able = [
                each
                for name, each in self._proxies.items()
                if each.has_room and (name not in self._avoided or self._avoided[name][0] <= now)
            ]
            self._report_availability(able=bool(able))
            if able:
                able = [each for each in able if f"http://{join_host_port(*each.browsers)}" == prefer] or able
                least = min(map(self._load, able))
                return self.rng.choice([each for each in able if self._load(each) == least])
            if self.stopping.is_set():
                raise ProxyUnavailableError("No proxy is available, and the worker is stopping.")
            await wait_for_any(self._changed, self.stopping, timeout_s=PROXIES_POLL_S)

    def _load(self, proxy: AnnouncedProxy) -> int:
        """Return its visits: those of its note, and ours that began or ended since."""
        name = proxy.name
        return proxy.visits + self._visits[name] - self._before.get(name, 0)

    def _report_availability(self, *, able: bool) -> None:
        if able:
            if self._missing_since is not None:
                away_s = self.clock.monotonic() - self._missing_since
                self._missing_since = None
                self.report(WaitEnded("proxy", away_s))
            return
        if self._missing_since is not None:
            return
        self._missing_since = self.clock.monotonic()
        if not self._proxies:
            text = "No proxy is registered: start one with `weboid proxy`."
        elif any(each.has_room for each in self._proxies.values()):
            text = "No proxy can be reached; the last error is in the log."
        else:
            text = "Every proxy is out of disk space: free some on their machines."
        self.report(WaitStarted("proxy", text))

    async def _poll(self) -> None:
        while True:
            try:
                await self._refresh()
            except WeboidError as error:  # the last known proxies are kept
                log.info("registry.unavailable error=%s", error)
            await asyncio.sleep(PROXIES_POLL_S)

    async def _refresh(self) -> None:
        proxies = await asyncio.to_thread(living_proxies, self.frontier, self.clock, self.secret, self._ignored)
        hosts = await asyncio.to_thread(_resolve_all, proxies)
        for each in proxies:
            known = self._proxies.get(each.name)
            if known is None or (known.started, known.beat) != (each.started, each.beat):
                self._before[each.name] = self._visits[each.name]
            if known is not None and known.started != each.started:
                self._avoided.pop(each.name, None)  # it was restarted
        if proxies and proxies[0].spki not in {each.spki for each in self._proxies.values()}:
            await asyncio.to_thread(self.authority.write_text, proxies[0].authority)
        self._proxies = {each.name: each for each in proxies if join_host_port(*each.browsers) in hosts}
        # A visit that is about to borrow a browser may be at a proxy that has just gone.
        self._hosts = {**(self._hosts if self.lent else {}), **hosts}
        self._changed.set()
        self._changed = asyncio.Event()


def _resolve_all(proxies: list[AnnouncedProxy]) -> Mapping[str, str]:
    """Resolve the proxies' announced addresses for browsers; unknown names are left out."""
    addresses = {}
    for each in proxies:
        host, port = each.browsers
        with suppress(OSError):
            (*_, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses[join_host_port(host, port)] = join_host_port(str(address[0]), port)
    return addresses
