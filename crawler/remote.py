"""Proxies that run elsewhere: found by their notes in the frontier, reached by TCP.

They come and go. A visit goes to the one that has least to do among those that live and have room;
one that could not be reached is left alone for a while. When there is none, visits wait, and the
claims behind them hold. Nothing here starts or ends a proxy.
"""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from core.clock import Clock
from core.errors import ProxyUnavailableError, WeboidError
from core.hostport import join_host_port
from crawler.frontier.base import Frontier
from crawler.lending import Needs
from crawler.registry import AnnouncedProxy, living_proxies
from crawler.waiting import GoingOn, Waiting
from proxy.client import ProxyClient
from proxy.handshake import Secret

log = logging.getLogger(__name__)

LOOK_S = 2.0
SHUN_S = 2.0  # a proxy that was not there is left alone for so long, doubled each time in a row …
SHUN_LIMIT_S = 60.0  # … and at most so long


@dataclass(frozen=True, slots=True)
class RemoteProxy:
    """A proxy on some machine, for one visit."""

    client: ProxyClient


@dataclass(frozen=True, slots=True)
class _Shunned:
    until: float
    times: int


class RemoteProxies:
    """A `crawler.lending.Proxies`. Between `start` and `stop` it keeps looking for proxies.

    Attributes:
        lent: visits under way.
    """

    def __init__(  # noqa: PLR0913 each comes from somebody else
        self,
        frontier: Frontier,
        secret: Secret,
        clock: Clock,
        *,
        stopping: asyncio.Event,
        dice: Random,
        authority: Path,
        report: Callable[[Waiting | GoingOn], None],
    ) -> None:
        """Look for nothing yet.

        Args:
            frontier: where proxies announce themselves.
            secret: what they know us by.
            clock: the time.
            stopping: once it is set nobody waits for a proxy any more.
            dice: chooses among those that have equally little to do.
            authority: where the certificate of the proxies' authority is written.
            report: told when there is no proxy, and when there is one again.
        """
        self._frontier = frontier
        self._secret = secret
        self._clock = clock
        self._stopping = stopping
        self._dice = dice
        self._authority = authority
        self._report = report
        self._found: dict[str, AnnouncedProxy] = {}
        self._ignored: set[str] = set()
        self._hosts: dict[str, str] = {}
        self._visits: Counter[str] = Counter()
        self._before: dict[str, int] = {}  # our own visits when a note was read
        self._shunned: dict[str, _Shunned] = {}
        self._changed = asyncio.Event()
        self._missing_since: float | None = None
        self._looking: asyncio.Task[None] | None = None

    @property
    def lent(self) -> int:
        """Visits under way."""
        return self._visits.total()

    async def start(self) -> None:
        """Look for proxies, and wait for the first.

        Raises:
            ProxyUnavailableError: we were told to stop before there was one.
        """
        with suppress(WeboidError):  # the task will look again
            await self._refresh()
        self._looking = asyncio.create_task(self._look())
        await self._chosen()

    async def stop(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking

    @property
    def needs(self) -> Needs:
        """Their authority, which all proxies of a collection share, and where browsers go."""
        spkis = {each.spki for each in self._found.values()}
        return Needs(",".join(sorted(spkis)), dict(self._hosts))

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[RemoteProxy]:
        """The proxy that has least to do, for one visit.

        Raises:
            ProxyUnavailableError: it went during the visit, or there is none and we are to stop.
        """
        chosen = await self._chosen()
        name = chosen.name
        self._visits[name] += 1
        try:
            yield RemoteProxy(ProxyClient(chosen.control, self._secret))
        except ProxyUnavailableError as error:
            self._shun(name, error)
            raise
        else:
            self._shunned.pop(name, None)
        finally:
            self._visits[name] -= 1

    async def _chosen(self) -> AnnouncedProxy:
        while True:
            now = self._clock.monotonic()
            able = [
                each
                for name, each in self._found.items()
                if each.has_room and (name not in self._shunned or self._shunned[name].until <= now)
            ]
            self._tell(able=bool(able))
            if able:
                least = min(map(self._load, able))
                return self._dice.choice([each for each in able if self._load(each) == least])
            if self._stopping.is_set():
                raise ProxyUnavailableError("No proxy is there, and the worker is to stop.")
            await self._wait()

    async def _wait(self) -> None:
        """Return when something may have changed."""
        waiting = {
            asyncio.create_task(self._changed.wait()),
            asyncio.create_task(self._stopping.wait()),
        }
        try:
            await asyncio.wait(waiting, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    def _load(self, proxy: AnnouncedProxy) -> int:
        """Its visits: those it told of, and ours that began or ended since."""
        name = proxy.name
        return proxy.visits + self._visits[name] - self._before.get(name, 0)

    def _shun(self, name: str, error: WeboidError) -> None:
        times = self._shunned[name].times + 1 if name in self._shunned else 0
        pause_s = min(SHUN_S * 2**times, SHUN_LIMIT_S)
        self._shunned[name] = _Shunned(self._clock.monotonic() + pause_s, times)
        log.warning("proxy.lost name=%s reason=%s", name, error)

    def _tell(self, *, able: bool) -> None:
        if able:
            if self._missing_since is not None:
                away_s = self._clock.monotonic() - self._missing_since
                self._missing_since = None
                self._report(GoingOn("proxy", away_s))
            return
        if self._missing_since is not None:
            return
        self._missing_since = self._clock.monotonic()
        if not self._found:
            text = "No proxy has announced itself: start one with `weboid proxy`."
        elif any(each.has_room for each in self._found.values()):
            text = "No proxy can be reached; the last error is in the log."
        else:
            text = "Every proxy is out of space: free some where its collection lies."
        self._report(Waiting("proxy", text))

    async def _look(self) -> None:
        while True:
            try:
                await self._refresh()
            except WeboidError as error:  # what is known stays known
                log.info("registry.away error=%s", error)
            await asyncio.sleep(LOOK_S)

    async def _refresh(self) -> None:
        proxies = await asyncio.to_thread(
            living_proxies, self._frontier, self._clock, self._secret, self._ignored
        )
        hosts = await asyncio.to_thread(_resolved, proxies)
        for each in proxies:
            known = self._found.get(each.name)
            if known is None or (known.started, known.beat) != (each.started, each.beat):
                self._before[each.name] = self._visits[each.name]
            if known is not None and known.started != each.started:
                self._shunned.pop(each.name, None)  # it was started anew
        if proxies and proxies[0].spki not in {each.spki for each in self._found.values()}:
            await asyncio.to_thread(self._authority.write_text, proxies[0].authority)
        self._found = {each.name: each for each in proxies if _key(each) in hosts}
        # A visit that is about to borrow a browser may be at a proxy that has just gone.
        self._hosts = {**(self._hosts if self.lent else {}), **hosts}
        self._changed.set()
        self._changed = asyncio.Event()


def _key(proxy: AnnouncedProxy) -> str:
    return join_host_port(*proxy.browsers)


def _resolved(proxies: list[AnnouncedProxy]) -> Mapping[str, str]:
    """Where browsers find the proxies, by what their notes say; a name that is unknown is left out."""
    found = {}
    for each in proxies:
        host, port = each.browsers
        with suppress(OSError):
            (*_, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found[_key(each)] = join_host_port(str(address[0]), port)
    return found
