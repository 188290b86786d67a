"""Cache of each origin's robots.txt, fetched through the proxy and shared by all machines.

A result is a note of the frontier (kind `ROBOTS_NOTE`, key ``scheme://host:port``), so that one fetch serves every
machine for the configured time; each process also caches the latest. Results map as follows (RFC 9309, 2.3.1):

    2xx                     the file's rules, up to 500 KiB
    3xx, 4xx                nothing is forbidden; also after more than five redirects
    429, 5xx, no answer     no visits for now: the host is blocked, each time for longer
    … for 30 days           the rules last read; without any, nothing is forbidden
"""

import asyncio
import base64
import binascii
import json
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakValueDictionary

from cachetools import LRUCache

from core.config.settings import PolicySettings
from core.errors import InputError
from core.json_values import json_facts, read_json
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import warc_date
from core.urls import authority_of
from crawler.capture.page_capture import retry_moment
from crawler.capture.proxy_fetcher import FetchedFile, FileFetcher
from crawler.frontier.base import Frontier, HostBackOff
from crawler.policy.robots import ROBOTS_LIMIT_BYTES, ROBOTS_PATH, Robots, parse_robots, robots_from_facts
from net.connect_errors import NO_SUCH_HOST, UNREACHABLE

NO_ROBOTS = "robots.txt cannot be fetched:"  # beginning of the reason of a block
ROBOTS_NOTE = "robots"
ROBOTS_NOTE_VERSION = 1
TIMEOUT_S = 30.0
UNREACHABLE_LIMIT = timedelta(days=30)  # RFC 9309, 2.3.1.4
RECORD_LIFE = timedelta(days=60)  # of an unused note
DAY = timedelta(days=1)
SHORTEST_RETRY = timedelta(seconds=1)
REMEMBERED_CHARS = 32_000_000
PACKED_CHARS = 2_000  # a longer note is compressed
UNPACKED_LIMIT_BYTES = 8 << 20
_TOO_MANY = 429
# The proxy's constants for refused targets: the visit will get the same (`net.connect_errors`).
_REFUSED_BY_US = ("address:", "host:", "port:", "limit:")


@dataclass(frozen=True, slots=True)
class RobotsRecord:
    """Cached state of an origin's robots.txt."""

    robots: Robots | None  # the rules last read; None when it was never read
    agent: str  # the product token that it was parsed for
    next_at: datetime  # when it is fetched again
    read_at: datetime | None = None  # when it was read, or found to be absent; None when never
    since: datetime | None = None  # since when it cannot be fetched; None when it can
    why: str = ""  # why it cannot be fetched, or why nothing is forbidden; empty when it was read
    was_asked: bool = False  # whether a request was sent just now

    def holds(self, *, now: datetime) -> Robots | None:
        """Return the rules in force; None when no visit is allowed for now."""
        if self.since is None or now - self.since >= UNREACHABLE_LIMIT:
            return self.robots or Robots()
        return None

    def to_note(self) -> str:
        """Encode it as a note's text."""
        facts = json_facts(self, "agent next_at read_at since why")
        facts |= {"version": ROBOTS_NOTE_VERSION, "robots": self.robots.to_facts() if self.robots else None}
        text = json.dumps(facts, separators=(",", ":"))
        if len(text) <= PACKED_CHARS:
            return text
        return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def parse_robots_record(note: str) -> RobotsRecord | None:
    """Parse a note; None when another version wrote it, or it is damaged."""
    try:
        if not note.startswith("{"):
            packed = zlib.decompressobj()
            raw = packed.decompress(base64.b64decode(note), UNPACKED_LIMIT_BYTES)
            note = raw.decode()
        facts: dict[str, Any] = json.loads(note)
        if facts["version"] != ROBOTS_NOTE_VERSION:
            return None
        record = read_json(RobotsRecord, facts | {"robots": None})
        return replace(record, robots=robots_from_facts(facts["robots"])) if facts["robots"] else record
    except (ValueError, KeyError, TypeError, InputError, zlib.error, binascii.Error):
        return None


def interpret_answer(fetched: FetchedFile, agent: str) -> tuple[Robots | None, str]:
    """Return the rules from now on, None when the fetch failed, and why as in `RobotsRecord`; see the module."""
    if fetched.error.startswith(("redirects:", *_REFUSED_BY_US)):  # RFC 9309, 2.3.1.2
        return Robots(), fetched.error
    status = fetched.status
    whole = len(fetched.body) >= ROBOTS_LIMIT_BYTES or not (fetched.truncated or fetched.error)
    if 200 <= status < 300 and whole:
        return parse_robots(fetched.body, agent), ""
    if 300 <= status < 500 and status != _TOO_MANY:
        return Robots(), f"status {status}"
    why = fetched.error or (f"status {status}" if status else "no answer")
    if 200 <= status < 300:
        why = f"it was interrupted: {why}"
    return None, why


def _weight(known: RobotsRecord) -> int:
    """Estimate the record's size in characters."""
    if known.robots is None:
        return 500
    rules = sum(200 + 3 * len(rule.pattern) for rule in known.robots.rules)
    return 500 + rules + sum(100 + len(each) for each in known.robots.sitemaps)


@dataclass(eq=False, repr=False)
class OriginRobots:
    """Lookup of robots.txt files for one event loop; `judge` (`NetworkMonitor.judge`) gets fetches of absent hosts."""

    frontier: Frontier
    fetcher: FileFetcher | None
    _: KW_ONLY
    ask: Callable[[Callable[[], Any]], Awaitable[Any]]
    judge: Callable[[PageInfo], Awaitable[None]] | None = None
    _memory: "LRUCache[str, RobotsRecord]" = field(
        default_factory=lambda: LRUCache(REMEMBERED_CHARS, getsizeof=_weight), init=False
    )
    # Locks of origins, which exist while they are in use.
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)

    async def known(self, url: str, policy: PolicySettings, *, now: datetime) -> RobotsRecord | None:
        """Return the cached record of the URL's origin, however old; None without one."""
        origin = origin_of(url)
        record = self._memory.get(origin)
        if record is None or record.next_at <= now:
            note = await self.ask(lambda: self.frontier.note(ROBOTS_NOTE, origin, now=now))
            record = parse_robots_record(note) if note is not None else None
            if record is not None:
                self._memory[origin] = record
        return record if record is not None and record.agent == policy.robots_agent else None

    async def of(self, url: str, policy: PolicySettings, *, host: str, now: datetime) -> RobotsRecord | None:
        """Return the record of the URL's origin, fetched when it is missing or expired; None: no fetcher and no record.

        Concurrent calls share one fetch. `host` is the slot key that is blocked when it fails. Raises
        ProxyUnavailableError, DiskFullError, LimitReachedError (as `FileFetcher.get`), NetworkAwayError (no host can be
        reached).
        """
        origin = origin_of(url)
        async with self._locks.setdefault(origin, asyncio.Lock()):
            old = await self.known(url, policy, now=now)
            if self.fetcher is None or (old is not None and now < old.next_at):
                return old
            fetched = await self.fetcher.get(
                origin + ROBOTS_PATH, limit_bytes=ROBOTS_LIMIT_BYTES + 1, timeout_s=TIMEOUT_S
            )
            # Half a megabyte is not parsed while others wait for the event loop.
            robots, why = await asyncio.to_thread(interpret_answer, fetched, policy.robots_agent)
            # An answer is used for a day at most (RFC 9309, 2.4).
            lifetime = max(min(timedelta(seconds=policy.robots_lifetime_s), DAY), SHORTEST_RETRY)
            record = RobotsRecord(robots, policy.robots_agent, now + lifetime, read_at=now, why=why)
            if robots is None:
                # Keep the rules last read, and block the host. After `UNREACHABLE_LIMIT` it is no longer
                # blocked, and is visited like any other.
                is_down = why.startswith(UNREACHABLE)
                if is_down and self.judge is not None:
                    target, failed = origin + ROBOTS_PATH, VisitOutcome.FAILED
                    await self.judge(PageInfo("", target, target, warc_date(now), failed, why))
                record = replace(
                    record,
                    robots=old.robots if old is not None else None,
                    read_at=old.read_at if old is not None else None,
                    since=(old.since if old is not None else None) or now,
                )
                if record.holds(now=now) is None:
                    reason, not_before = f"{NO_ROBOTS} {why}"[:500], retry_moment(fetched.headers, now=now)
                    failure = HostBackOff(host, reason, not_before, is_down, blocks=not why.startswith(NO_SUCH_HOST))
                    blocked_until = await self.ask(lambda: self.frontier.back_off(failure, now=now))
                    record = replace(record, next_at=max(blocked_until, now + SHORTEST_RETRY))
            self._memory[origin] = record
            until = max(record.next_at, now) + RECORD_LIFE
            note = record.to_note()
            await self.ask(lambda: self.frontier.put_note(ROBOTS_NOTE, origin, note, now=now, until=until))
            return replace(record, was_asked=True)


def origin_of(url: str) -> str:
    """Return ``scheme://host``, with the port unless it is the default; BadUrlError for no http(s) URL.

    >>> origin_of("HTTPS://Example.org:443/x")
    'https://example.org'
    """
    scheme = "https" if url[:6].lower() == "https:" else "http"
    return f"{scheme}://{authority_of(url)}"
