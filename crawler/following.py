"""Scope as a rule: what is visited at all, and which links of a page join the crawl.

Before a visit an item is held against the exclude patterns once more, since these may have changed;
whether it lies in scope was decided when its link was found. After it the links of the rendered page
are decided on, each with a reason. Links of redirected pages count as those of where the redirects
led: a page in scope that redirects out of it is kept, and its links outside count as one hop further
off. Where a seed redirects to is seen as a seed, too, as browsertrix does. A parked domain or a
check for robots leads nowhere, and a wall is not where a seed moved. ``rel=nofollow`` says
nothing to an archive and is ignored.

What is found is in the page's manifest; what was decided is counted by reason, for the job in the
frontier's notes (kind "links") and for each page in ``reports/links-JOB.jsonl``; link by link in
``reports/decisions-JOB.jsonl`` where ``[scope] link_decisions`` says so.
"""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from core.classes import LEADS_NOWHERE, WALLS
from core.errors import BadUrlError
from core.pages import Outcome, PageInfo
from core.urls import identity_key
from crawler.frontier.base import Frontier, FrontierItem, NewItem
from crawler.jobs import Jobs
from crawler.linklog import LinkLog, PageLinks
from crawler.patience import Patience
from crawler.rules import VISIT, Action, Aftermath, Verdict
from crawler.scope import Decision, link_key
from crawler.visiting import Captured

LINKS_NOTE = "links"  # the kind of the notes with counts; the key is the job and who counts
LINKS_LIMIT = 10_000  # of one page
UNREADABLE_WAIT = timedelta(minutes=1)


@dataclass(slots=True)
class Found:
    """What became of a page's links: those that join the crawl, and the decision on each."""

    items: list[NewItem] = field(default_factory=list)
    decisions: list[tuple[str, Decision]] = field(default_factory=list)


class ScopeRule:
    """A `Rule`; one for all workers of a process."""

    def __init__(
        self,
        jobs: Jobs,
        frontier: Frontier,
        patience: Patience,
        *,
        name: str,
        record: LinkLog | None = None,
    ) -> None:
        """Take what is needed.

        Args:
            jobs: says what holds for a URL.
            frontier: where counts are noted.
            patience: asks it.
            name: of this process, under which it counts.
            record: keeps decisions by page; None where there is no collection to keep them in.
        """
        self._jobs = jobs
        self._frontier = frontier
        self._patience = patience
        self._name = name
        self._record = record
        self._counts: dict[str, Counter[str]] = {}

    async def before(self, item: FrontierItem, *, now: datetime) -> Verdict:
        """Skip what is excluded by now; wait while the job cannot be read."""
        await self._patience.ask(self._jobs.look)
        fault = self._jobs.fault(item.job)
        if fault:
            return Verdict(Action.LATER, f"job: {fault}", until=now + UNREADABLE_WAIT)
        excluded = self._jobs.scope_for(item.url, item.job).excluded(item.url)
        if excluded is not None:
            return Verdict(Action.SKIP, f"scope: exclude {excluded}")
        return VISIT

    async def after(
        self, item: FrontierItem, captured: Captured, aftermath: Aftermath, *, now: datetime
    ) -> None:
        """Let the links that belong to the crawl join it."""
        page = captured.page
        kept = page.outcome in (Outcome.COMPLETE, Outcome.PARTIAL) and not captured.again
        nowhere = page.page_class in LEADS_NOWHERE
        if not kept or nowhere or self._jobs.job(item.job) is None:
            return
        target = seed_target(item, page)
        if target:
            await self._patience.ask(lambda: self._jobs.move_seed(item.job, item.url, target))
        found = await asyncio.to_thread(decide_links, self._jobs, item, page)
        aftermath.links += found.items
        await self._tell(item, found, now)

    async def _tell(self, item: FrontierItem, found: Found, now: datetime) -> None:
        """Count the decisions, and keep them by page."""
        if not found.decisions:
            return
        counts = self._counts.setdefault(item.job, Counter())
        counts.update(decision.constant for _, decision in found.decisions)
        key, value = f"{item.job} {self._name}", json.dumps(counts, sort_keys=True)
        await self._patience.ask(lambda: self._frontier.put_note(LINKS_NOTE, key, value, now=now))
        if self._record is not None:
            await asyncio.to_thread(self._keep, self._record, item, found, now)

    def _keep(self, record: LinkLog, item: FrontierItem, found: Found, now: datetime) -> None:
        page = PageLinks.of(item, found.decisions, now)
        record.write(page)
        if self._jobs.settings_for(item.url, item.job).scope.link_decisions:
            record.write_decisions(page, found.decisions)


def decide_links(jobs: Jobs, item: FrontierItem, page: PageInfo) -> Found:
    """Decide on the links of a page of a crawl, each URL once, at most `LINKS_LIMIT`."""
    found = Found()
    target = _target(page)
    hops_off = item.hops_off
    if target and not jobs.scope_for(target, item.job).holds(target):
        hops_off = max(hops_off, 1)
    seen = {identity_key(url) for url in (item.url, target) if url}
    lane = jobs.lane(item.job)
    for text in page.outlinks[:LINKS_LIMIT]:
        try:
            url = link_key(text)
            identity = identity_key(url)
        except BadUrlError as error:
            refused = Decision(followed=False, reason=f"url: {error.reason}")
            found.decisions.append((text, refused))
            continue
        if identity in seen:
            continue
        seen.add(identity)
        hops = item.hops + 1
        decision = jobs.scope_for(url, item.job).decide(url, hops=hops, hops_off=hops_off)
        found.decisions.append((url, decision))
        if decision.followed:
            off = decision.hops_off
            new = NewItem(url, lane=lane, hops=hops, via=item.url, job=item.job, hops_off=off)
            found.items.append(new)
    return found


def seed_target(item: FrontierItem, page: PageInfo) -> str:
    """Where a seed redirects to, when it is a seed and leads to a page; else empty."""
    is_page = (page.status or 0) < 400 and page.page_class not in WALLS
    return _target(page) if item.hops == 0 and is_page else ""


def link_counts(frontier: Frontier, *, now: datetime) -> dict[str, dict[str, int]]:
    """Links decided on, by job and reason, of all processes that have counted."""
    found: dict[str, Counter[str]] = {}
    for key, value in frontier.notes(LINKS_NOTE, now=now).items():
        counts = found.setdefault(key.partition(" ")[0], Counter())
        try:
            counts.update({str(reason): int(count) for reason, count in json.loads(value).items()})
        except (ValueError, AttributeError, TypeError):
            continue  # another version's
    return {job: dict(counts) for job, counts in found.items()}


def _target(page: PageInfo) -> str:
    """Where redirects led, as a fetch key; empty when they led nowhere else."""
    try:
        target = link_key(page.final_url)
        return "" if identity_key(target) == identity_key(page.url) else target
    except BadUrlError:
        return ""
