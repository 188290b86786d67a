"""Sitemaps as a rule: before a seed is visited, what its host's sitemaps name joins the crawl.

Once a day for each host of a job, whoever comes first; the others go on meanwhile. What came of it is
noted in the frontier (kind "sitemap"). A page that a sitemap names counts as one link away from the
seed, and is decided on like any link.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

from core.clock import Clock
from core.urls import authority_of
from crawler.frontier.base import Frontier, FrontierItem, NewItem
from crawler.jobs import Jobs
from crawler.patience import Patience
from crawler.rules import VISIT, Aftermath, Verdict
from crawler.sitemap_walk import Gets, SitemapWalk
from crawler.sitemaps import SitemapUrl
from crawler.turns import Turns
from crawler.visiting import Captured

log = logging.getLogger(__name__)

SITEMAP_NOTE = "sitemap"  # the key is the job and the host
VALID = timedelta(days=1)


class SitemapRule:
    """A `Rule`; one for all workers of a process."""

    def __init__(
        self,
        jobs: Jobs,
        frontier: Frontier,
        patience: Patience,
        fetch: Gets,
        *,
        turns: Turns,
        clock: Clock,
    ) -> None:
        """Take what is needed: `fetch` asks for the files, `turns` says whose turn a page takes."""
        self._jobs = jobs
        self._frontier = frontier
        self._patience = patience
        self._fetch = fetch
        self._turns = turns
        self._clock = clock
        self._walking: set[str] = set()

    async def before(self, item: FrontierItem, *, now: datetime) -> Verdict:
        """Read the sitemaps of the seed's host when the job wants them and nobody has."""
        job = self._jobs.job(item.job)
        if job is None or item.hops or not job.settings.scope.sitemaps:
            return VISIT
        key = f"{item.job} {authority_of(item.url)}"
        if key in self._walking:
            return VISIT
        self._walking.add(key)
        try:
            known = await self._patience.ask(
                lambda: self._frontier.note(SITEMAP_NOTE, key, now=now)
            )
            if known is None:
                await self._walk(item, key)
        finally:
            self._walking.discard(key)
        return VISIT

    async def after(
        self, item: FrontierItem, captured: Captured, aftermath: Aftermath, *, now: datetime
    ) -> None:
        """Nothing follows."""

    async def _walk(self, item: FrontierItem, key: str) -> None:
        settings = self._jobs.settings_for(item.url, item.job)
        walk = SitemapWalk(
            self._fetch,
            rest_s=settings.politeness.min_delay_s,
            monotonic=self._clock.monotonic,
        )

        async def take(file: str, pages: Sequence[SitemapUrl]) -> int:
            items = [
                each for page in pages if (each := self._item(item, file, page.url)) is not None
            ]
            assigned = await self._turns.assign(items)
            result = await self._patience.ask(
                lambda: self._frontier.add(assigned, now=self._clock.now())
            )
            return result.added

        walked = await walk.run(item.url, take)
        if not walked.reached:
            return  # nor will the seed be: its next attempt comes here again
        for problem in walked.problems:
            log.warning("sitemap.problem %s", problem)
        log.info("sitemap.read host=%s files=%d pages=%d", key, walked.files, walked.found)
        value, now = json.dumps(asdict(walked), ensure_ascii=False), self._clock.now()
        await self._patience.ask(
            lambda: self._frontier.put_note(SITEMAP_NOTE, key, value, now=now, until=now + VALID)
        )

    def _item(self, seed: FrontierItem, file: str, url: str) -> NewItem | None:
        """The page as an item; None when it does not belong to the crawl."""
        scope = self._jobs.scope_for(url, seed.job)
        decision = scope.decide(url, hops=seed.hops + 1, hops_off=scope.extra_hops)
        if not decision.followed:
            return None
        return NewItem(
            url, lane=self._jobs.lane(seed.job), hops=seed.hops + 1, via=file, job=seed.job
        )
