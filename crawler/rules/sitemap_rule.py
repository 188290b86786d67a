"""Sitemap rule: queues the pages of the sitemaps of a seed's host.

Files are fetched one after the other, each once, with the host's delay between them, and limited in
number, index depth, pages and time. An index names files of its own host; a robots.txt may name those of
another (sitemaps.org, "Sitemaps & Cross Submits").

One worker does this once a day for each host of a job. The result is a note of the frontier (kind
"sitemap"). A page in a sitemap counts as one link away from the seed, and is decided on like any link.
"""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from datetime import datetime, timedelta
from itertools import islice

from core.clock import Clock
from core.urls import authority_of, host_of, identity_key
from crawler.capture.proxy_fetcher import FileFetcher
from crawler.frontier.base import Frontier, FrontierItem, NewItem
from crawler.frontier.politeness import SlotAssigner
from crawler.jobs.job_settings import JobSettings
from crawler.rules.sitemap_parser import BYTES_LIMIT, SitemapFile, SitemapUrl, parse_sitemap, sitemap_lines
from crawler.rules.visit_rule import ALLOW_VISIT, RuleDecision, VisitRule
from net.backoff import StoreRetry

FILES_LIMIT = 1_000  # of one host
PAGES_LIMIT = 5_000_000  # of one host
DEPTH_LIMIT = 3  # indexes within indexes; sitemaps.org has one
TIME_LIMIT_S = 600.0  # of one host; pages found by then are used
FILE_TIMEOUT_S = 60.0
ROBOTS_BYTES = 500 * 1024
WALK_BATCH = 1_000  # pages that are handed on together
PROBLEMS_KEPT = 20


@dataclass(slots=True)
class SitemapWalkResult:
    """Result of a walk."""

    files: int = 0  # sitemaps that were read
    found: int = 0  # pages that they name
    added: int = 0  # of these, those that were new to the crawl
    problems: list[str] = field(default_factory=list)  # problems of files, the first few
    reached: bool = True  # whether the site answered at all

    def note(self, url: str, problem: str) -> None:
        """Record a problem, up to the limit."""
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(f"{url[:200]}: {problem[:200]}")


@dataclass(eq=False, repr=False)
class SitemapWalk:
    """Walk of a host's sitemaps; `run` it once for each host."""

    fetch: FileFetcher
    _: KW_ONLY
    rest_s: float  # between two files
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self, site: str, take: Callable[[str, Sequence[SitemapUrl]], Awaitable[int]]) -> SitemapWalkResult:
        """Read the sitemaps of a site, of which `site` is any URL; errors are the fetcher's.

        `take` gets a file and at most `WALK_BATCH` of its pages, and returns how many were new.
        """
        walked, ends = SitemapWalkResult(), self.monotonic() + TIME_LIMIT_S
        robots = await self.fetch.get(_of(site, "/robots.txt"), limit_bytes=ROBOTS_BYTES, timeout_s=FILE_TIMEOUT_S)
        if not robots.status:
            return SitemapWalkResult(reached=False)
        named = sitemap_lines(robots.body) if 200 <= robots.status < 300 else ()
        usual = _of(site, "/sitemap.xml")  # not announced, so it may be missing
        waiting = deque((url, 0) for url in named or (usual,))
        seen = {identity_key(url) for url, _ in waiting}
        while waiting and walked.files < FILES_LIMIT:
            if self.monotonic() > ends:
                walked.note(site, f"its sitemaps take longer than {TIME_LIMIT_S:.0f} s")
                break
            url, depth = waiting.popleft()
            await self.sleep(self.rest_s)
            file = await self._read(url, walked, quiet=url == usual)
            for start in range(0, len(file.pages), WALK_BATCH):
                walked.added += await take(url, file.pages[start : start + WALK_BATCH])
            walked.found += len(file.pages)
            if walked.found >= PAGES_LIMIT:
                walked.note(site, f"its sitemaps name more than {PAGES_LIMIT} pages")
                break
            if file.sitemaps and depth >= DEPTH_LIMIT:
                walked.note(url, f"more than {DEPTH_LIMIT} indexes lie within each other")
                continue
            for below in islice(file.sitemaps, FILES_LIMIT):
                key = identity_key(below)
                if key not in seen and host_of(below) == host_of(url):
                    seen.add(key)
                    waiting.append((below, depth + 1))
        else:
            if waiting:
                walked.note(site, f"it has more than {FILES_LIMIT} sitemaps")
        await self.sleep(self.rest_s)  # before the next request
        return walked

    async def _read(self, url: str, walked: SitemapWalkResult, *, quiet: bool) -> SitemapFile:
        """Read one file; its problem is recorded unless `quiet`, for the default location."""
        fetched = await self.fetch.get(url, limit_bytes=BYTES_LIMIT, timeout_s=FILE_TIMEOUT_S)
        if not 200 <= fetched.status < 300:
            if not quiet:
                walked.note(url, fetched.error or f"status {fetched.status}")
            return SitemapFile()
        walked.files += 1
        file = await asyncio.to_thread(parse_sitemap, fetched.body)
        problem = file.problem or (fetched.error if fetched.truncated else "")
        if problem and not (quiet and not file.pages):
            walked.note(url, problem)
        return file


def _of(site: str, path: str) -> str:
    return f"{site.partition('://')[0]}://{authority_of(site)}{path}"


log = logging.getLogger(__name__)

SITEMAP_NOTE = "sitemap"  # the key is the job and the host
SITEMAPS_VALID = timedelta(days=1)


@dataclass(eq=False, repr=False)
class SitemapRule(VisitRule):
    """`VisitRule` of sitemaps; one for all workers of a process."""

    jobs: JobSettings
    frontier: Frontier
    patience: StoreRetry
    fetch: FileFetcher
    _: KW_ONLY
    turns: SlotAssigner
    clock: Clock
    _walking: set[str] = field(default_factory=set, init=False)

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:
        """Read the sitemaps of the seed's host, if the job uses them and no worker has read them today."""
        job = self.jobs.job(item.job)
        if job is None or item.hops or not job.settings.scope.sitemaps:
            return ALLOW_VISIT
        key = f"{item.job} {authority_of(item.url)}"
        if key in self._walking:
            return ALLOW_VISIT
        self._walking.add(key)
        try:
            known = await self.patience.ask(lambda: self.frontier.note(SITEMAP_NOTE, key, now=now))
            if known is None:
                await self._walk(item, key)
        finally:
            self._walking.discard(key)
        return ALLOW_VISIT

    async def _walk(self, item: FrontierItem, key: str) -> None:
        settings = self.jobs.settings_for(item.url, item.job)
        walk = SitemapWalk(self.fetch, rest_s=settings.politeness.min_delay_s, monotonic=self.clock.monotonic)

        async def take(file: str, pages: Sequence[SitemapUrl]) -> int:
            items = []
            for url in (page.url for page in pages):
                scope = self.jobs.scope_for(url, item.job)
                hops = item.hops + 1
                if scope.decide(url, hops=hops, hops_off=scope.extra_hops).followed:
                    lane = self.jobs.lane(item.job)
                    items.append(NewItem(url, lane=lane, hops=hops, via=file, job=item.job))
            assigned = await self.turns.assign(items)
            result = await self.patience.ask(lambda: self.frontier.add(assigned, now=self.clock.now()))
            return result.added

        walked = await walk.run(item.url, take)
        if not walked.reached:
            return  # nor will the seed be: its next attempt comes here again
        for problem in walked.problems:
            log.warning("sitemap.problem %s", problem)
        log.info("sitemap.read host=%s files=%d pages=%d", key, walked.files, walked.found)
        value, now = json.dumps(asdict(walked), ensure_ascii=False), self.clock.now()
        await self.patience.ask(
            lambda: self.frontier.put_note(SITEMAP_NOTE, key, value, now=now, until=now + SITEMAPS_VALID)
        )
