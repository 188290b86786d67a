"""Browser contexts that visits of one site share: HTTP cache, cookies, consent, storage.

A context is lent to one visit at a time, through one proxy, which identifies it by credentials that all its visits have
(`proxy.visit_registry`): it is lent until the visit has ended at the proxy, too. What a page takes from the context's
cache was recorded by an earlier visit: `SharedContext.recorded` says where, for the page's manifest.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from core.clock import Clock
from core.hosts import ProxyEndpoint
from core.timestamps import warc_date_at
from crawler.frontier.base import AFFINITY_HOSTS
from proxy.control.client import ContextCredentials
from proxy.request_log import RequestLogEntry, RequestOutcome
from render.browser import Browser, BrowserContext

IDLE_LIMIT = 2 * AFFINITY_HOSTS  # contexts without a visit; the one used longest ago goes first
TAB_LIMIT = 4  # of them keep their tab, which is a process of some 60 MB
RECORDED_LIMIT = 20_000  # resources of one context whose records are known
VERSIONS_LIMIT = 100  # records of one of them


class ContextKey(NamedTuple):
    """Site, job and settings that the visits of one context share."""

    site: str  # registrable domain, or IP address
    job: str
    settings: str  # of the visit, with its stored level


class CachedRecord(NamedTuple):
    """Record of a resource that the browser may have in its cache."""

    started_ms: int  # when it was requested, in Unix milliseconds
    status: int | None  # HTTP status
    digest: str  # payload digest
    location: str = ""  # of a redirect, as sent

    @classmethod
    def of(cls, entry: RequestLogEntry) -> Self:
        """Return the record of a request."""
        return cls(entry.started_ms, entry.status, entry.digest, entry.location)

    @property
    def date(self) -> str:
        """Return its WARC-Date."""
        return warc_date_at(self.started_ms)


@dataclass(eq=False, slots=True)
class SharedContext:
    """Browser context of consecutive visits, created by its first one."""

    opened: float  # on the monotonic clock
    credentials: ContextCredentials = field(default_factory=ContextCredentials.random)
    proxy: str = ""  # server address of its proxy
    browser: Browser | None = None
    context: BrowserContext | None = None
    recorded: dict[str, list[CachedRecord]] = field(default_factory=dict)  # by URL, in order; no payload twice in a row

    async def in_browser(self, browser: Browser, endpoint: ProxyEndpoint) -> BrowserContext:
        """Return the context if it is of this browser and proxy, else a fresh one; errors as `Browser.open_context`."""
        is_usable = self.context is not None and self.context.reusable
        if not is_usable or self.browser is not browser or self.proxy != endpoint.server:
            await self.close()
            self.browser, self.proxy = browser, endpoint.server
            self.context = await browser.open_context(endpoint)
        assert self.context is not None
        return self.context

    def remember(self, ledger: Iterable[RequestLogEntry]) -> None:
        """Note the records of a visit that has ended, which later visits may find in the cache."""
        for entry in ledger:
            stored = entry.kept in (RequestOutcome.RESPONSE, RequestOutcome.REVISIT)
            if not stored or entry.method != "GET" or entry.status == 304 or entry.truncated:
                continue
            if len(self.recorded) < RECORDED_LIMIT or entry.url in self.recorded:
                records = self.recorded.setdefault(entry.url, [])
                record = CachedRecord.of(entry)
                if not records or records[-1][1:] != record[1:]:
                    records.append(record)
                del records[:-VERSIONS_LIMIT]

    async def close(self) -> None:
        """Dispose of the browser's context, if there is one."""
        browser, context = self.browser, self.context
        self.browser = self.context = None
        self.recorded.clear()
        if browser is not None and context is not None and not browser.died.is_set():
            await browser.close_context(context)


class SharedContextPool:
    """Idle contexts by their key; the contexts end with their browsers at the latest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._idle: OrderedDict[ContextKey, list[SharedContext]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._idle.values()))

    @asynccontextmanager
    async def lend(self, key: ContextKey, *, visits: int, age_s: float) -> AsyncIterator[SharedContext]:
        """Lend a context of the key; it ends after `visits` visits, at the age `age_s`, or after one that failed."""
        shared = self._take(key) or SharedContext(self._clock.monotonic())
        if self._clock.monotonic() - shared.opened >= age_s:
            await shared.close()
            shared = SharedContext(self._clock.monotonic())
        is_over = True
        try:
            yield shared
            context = shared.context
            is_over = context is None or not context.reusable or context.visits >= visits
        finally:
            if is_over:
                await shared.close()
            else:
                self._idle.setdefault(key, []).append(shared)
                self._idle.move_to_end(key)
                for idle in [each for contexts in self._idle.values() for each in contexts][:-TAB_LIMIT]:
                    if idle.context is not None:
                        idle.context.close_tab()
                while len(self) > IDLE_LIMIT:
                    oldest = next(iter(self._idle))
                    dropped = self._take(oldest)
                    assert dropped is not None
                    await dropped.close()

    def _take(self, key: ContextKey) -> SharedContext | None:
        contexts = self._idle.get(key)
        if not contexts:
            return None
        context = contexts.pop()
        if not contexts:
            del self._idle[key]
        return context
