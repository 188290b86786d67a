"""Scope rule and budget rule: the links of a page that join the crawl, the log of these decisions, limits of a job.

Links of a redirected page count as those of the target: a page in scope that redirects out of it is kept, and its links
outside count as one hop further off. The target of a seed's redirect counts as a seed, as in browsertrix, unless it is
a wall. ``rel=nofollow`` is ignored.

Decisions are counted by reason, for the job in the frontier's notes (kind "links") and for each page in
``reports/links-JOB.jsonl``; with ``[scope] link_decisions`` each link is also logged in
``reports/decisions-JOB.jsonl``. A full file is renamed to ``….1.jsonl``, and the oldest is deleted. Several processes
may write the same file.

Page budgets are exact with any number of workers and machines: of the current claims the oldest ones go first, and one
that may be too many waits for them. Visits in progress may exceed bytes and seconds slightly. A larger budget for the
same job queues the skipped items again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.config.settings import ScopeSettings
from core.errors import BadUrlError
from core.json_values import json_facts
from core.page_classes import WALLS, WITHOUT_OWN_LINKS
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import warc_date
from core.urls import identity_key
from crawler.frontier.base import Frontier, FrontierItem, ItemRecord, ItemState, JobCounts, NewItem
from crawler.frontier.frontier_export import ItemSelection, select_items
from crawler.jobs.job_settings import JobSettings
from crawler.jobs.scope import LinkDecision, link_key
from crawler.rules.visit_rule import ALLOW_VISIT, FollowUp, RuleAction, RuleDecision, VisitRule
from net.backoff import StoreRetry

if TYPE_CHECKING:
    from crawler.capture.page_capture import CaptureResult

log = logging.getLogger(__name__)

FILE_LIMIT_BYTES = 100_000_000
FILES_KEPT = 9  # set aside, for each job
EXAMPLES_KEPT = 2  # of the links that were not followed, for each reason
REASONS_KEPT = 50
SHOWN_CHARS = 300
URL_CHARS = 2_000  # of a link, in the log of decisions


def summarize_links(item: FrontierItem, decisions: Sequence[tuple[str, LinkDecision]], now: datetime) -> dict[str, Any]:
    """Summarize the decisions on a page's links as JSON values, with examples of refused links."""
    counts = Counter(decision.reason[:SHOWN_CHARS] for _, decision in decisions)
    examples: dict[str, list[str]] = {}
    for url, decision in decisions:
        if not decision.followed:
            some = examples.setdefault(decision.reason[:SHOWN_CHARS], [])
            if len(some) < EXAMPLES_KEPT:
                some.append(url[:SHOWN_CHARS])
    return {
        **json_facts(item, "job hops", page_id="id", page="url"),
        "at": warc_date(now),
        "links": len(decisions),
        "followed": sum(decision.followed for _, decision in decisions),
        "decided": dict(counts.most_common(REASONS_KEPT)),
        "examples": dict(list(examples.items())[:REASONS_KEPT]),
    }


@dataclass(eq=False, repr=False)
class LinkLog:
    """Writer of the link logs; keeps no file open. Thread-safe."""

    folder: Path
    _: KW_ONLY
    limit_bytes: int = FILE_LIMIT_BYTES
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def write(self, page: Mapping[str, Any]) -> None:
        """Append a line. A full disk loses the line and does not stop the crawl."""
        self._append(self.folder / f"links-{page['job']}.jsonl", [page])

    def write_decisions(self, page: Mapping[str, Any], decisions: Sequence[tuple[str, LinkDecision]]) -> None:
        """Append a line for each link, followed or not, with the reason; as `write`."""
        whose = {key: page[key] for key in ("page_id", "page", "at")}
        lines = [
            {**whose, "url": url[:URL_CHARS], "followed": decision.followed, "reason": decision.reason[:SHOWN_CHARS]}
            for url, decision in decisions
        ]
        self._append(self.folder / f"decisions-{page['job']}.jsonl", lines)

    def _append(self, path: Path, objects: Sequence[Mapping[str, object]]) -> None:
        text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in objects)
        try:
            with self._lock:
                with path.open("ab") as file:
                    file.write(text.encode(errors="replace"))
                    file.flush()
                    is_full = file.tell() >= self.limit_bytes
                if is_full:
                    self._set_aside(path)
        except OSError as error:
            log.warning("links.unrecorded path=%s error=%s", path, error)

    def _set_aside(self, path: Path) -> None:
        """Rename the file and the older ones up by one number."""
        numbered = [path.with_suffix(f".{number}.jsonl") for number in range(1, FILES_KEPT + 1)]
        for older, newer in zip(numbered[:0:-1], numbered[-2::-1], strict=True):
            if newer.exists():
                newer.replace(older)
        path.replace(numbered[0])


LINK_COUNTS_NOTE = "links"  # the kind of the notes with counts; the key is the job and the process
LINKS_LIMIT = 10_000  # of one page


@dataclass(eq=False, repr=False)
class ScopeRule(VisitRule):
    """`VisitRule` of a page's links; one for all workers of a process."""

    jobs: JobSettings
    frontier: Frontier
    patience: StoreRetry
    _: KW_ONLY
    name: str  # of this process, for its counts
    record: LinkLog | None = None
    _counts: dict[str, Counter[str]] = field(default_factory=dict, init=False)

    async def after(self, item: FrontierItem, captured: CaptureResult, follow_up: FollowUp, *, now: datetime) -> None:
        """Add the links that belong to the crawl."""
        page = captured.page
        is_archived = page.outcome in (VisitOutcome.COMPLETE, VisitOutcome.PARTIAL) and not captured.again
        nowhere = page.page_class in WITHOUT_OWN_LINKS
        if not is_archived or nowhere or self.jobs.job(item.job) is None:
            return
        target = seed_target(item, page)
        if target:
            await self.patience.ask(lambda: self.jobs.move_seed(item.job, item.url, target))
        items, decisions = await asyncio.to_thread(decide_links, self.jobs, item, page)
        follow_up.links += items
        if not decisions:
            return
        counts = self._counts.setdefault(item.job, Counter())
        counts.update(decision.reason.partition(":")[0] for _, decision in decisions)
        key, value = f"{item.job} {self.name}", json.dumps(counts, sort_keys=True)
        await self.patience.ask(lambda: self.frontier.put_note(LINK_COUNTS_NOTE, key, value, now=now))
        if self.record is not None:
            summary = summarize_links(item, decisions, now)
            await asyncio.to_thread(self.record.write, summary)
            if self.jobs.settings_for(item.url, item.job).scope.link_decisions:
                await asyncio.to_thread(self.record.write_decisions, summary, decisions)


def decide_links(
    jobs: JobSettings, item: FrontierItem, page: PageInfo
) -> tuple[list[NewItem], list[tuple[str, LinkDecision]]]:
    """Return links of a crawl's page that join it, and the decisions on all, each URL once, at most `LINKS_LIMIT`."""
    items: list[NewItem] = []
    decisions: list[tuple[str, LinkDecision]] = []
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
            decisions.append((text, LinkDecision(followed=False, reason=f"url: {error.reason}")))
            continue
        if identity in seen:
            continue
        seen.add(identity)
        hops = item.hops + 1
        decision = jobs.scope_for(url, item.job).decide(url, hops=hops, hops_off=hops_off)
        decisions.append((url, decision))
        if decision.followed:
            items.append(NewItem(url, lane, hops, item.url, item.job, decision.hops_off))
    return items, decisions


def seed_target(item: FrontierItem, page: PageInfo) -> str:
    """Return the target of a seed's redirect to a page; empty for other items."""
    is_page = (page.status or 0) < 400 and page.page_class not in WALLS
    return _target(page) if item.hops == 0 and is_page else ""


def link_counts(frontier: Frontier, *, now: datetime) -> dict[str, dict[str, int]]:
    """Sum the decisions of all processes, by job and reason."""
    by_job: dict[str, Counter[str]] = {}
    for key, value in frontier.notes(LINK_COUNTS_NOTE, now=now).items():
        counts = by_job.setdefault(key.partition(" ")[0], Counter())
        try:
            counts.update({str(reason): int(count) for reason, count in json.loads(value).items()})
        except (ValueError, AttributeError, TypeError):
            continue  # another version's
    return {job: dict(counts) for job, counts in by_job.items()}


def _target(page: PageInfo) -> str:
    """Return the fetch key of the redirects' target; empty without a redirect."""
    try:
        target = link_key(page.final_url)
        return "" if identity_key(target) == identity_key(page.url) else target
    except BadUrlError:
        return ""


BUDGET_REASON = "budget: "  # how a reason begins
BUDGET_WAIT_S = 1.0  # wait of an item over the budget for those in progress
MANY = 20  # number of surplus items skipped at once
CLAIMS_LIMIT = 5_000  # workers of a crawl
DISCARD_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class _BudgetAnswer:
    """Result of a budget check: `reason` when used up; `wait` when claims in progress may use it up."""

    reason: str = ""
    wait: bool = False
    of_host: bool = False


_WITHIN_BUDGET = _BudgetAnswer()


@dataclass(eq=False, repr=False)
class BudgetRule(VisitRule):
    """`VisitRule` of budgets; one for all workers of a process."""

    jobs: JobSettings
    frontier: Frontier
    patience: StoreRetry
    _: KW_ONLY
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _clearing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:
        """Skip the item when a budget is used up; defer it when claims in progress may use it up."""
        word = await self.patience.ask(lambda: self._word(item, now))
        if word.wait:
            # Held in the meantime, so that thousands of others are not claimed and released without effect. Checked
            # again before it is released: the oldest claim finds none ahead and proceeds, whereas claims that check
            # only once can wait for one another forever.
            await self.sleep(BUDGET_WAIT_S)
            word = await self.patience.ask(lambda: self._word(item, now))
        if word.reason:
            if not self._clearing.locked():
                async with self._clearing:
                    await self.patience.ask(lambda: self._clear(item, word, now))
            return RuleDecision(RuleAction.SKIP, word.reason)
        if word.wait:
            until = now + timedelta(seconds=2 * BUDGET_WAIT_S)
            return RuleDecision(RuleAction.LATER, f"{BUDGET_REASON}the last pages are in progress", until=until)
        return ALLOW_VISIT

    def _word(self, item: FrontierItem, now: datetime) -> _BudgetAnswer:
        """Return the result of the first budget that objects to a visit."""
        job = self.jobs.job(item.job)
        if job is None:
            return _WITHIN_BUDGET
        word = self._word_of_job(item, job.settings.scope, now)
        if word.reason or word.wait:
            return word
        scope = self.jobs.settings_for(item.url, item.job).scope
        if not (scope.host_pages or scope.host_bytes or scope.host_seconds):
            return _WITHIN_BUDGET
        ahead = self._ahead_of(item, of_host=True) if scope.host_pages else 0
        host = self.frontier.host(item.host, now=now)
        if host is None:
            return _WITHIN_BUDGET
        limits = scope.host_pages, scope.host_bytes, scope.host_seconds
        reason = _exhausted_budget(limits, (host.done, host.bytes, host.busy.total_seconds()), f" of {item.host}")
        wait = not reason and 0 < scope.host_pages <= host.done + ahead
        return _BudgetAnswer(reason, wait=wait, of_host=True)

    def _word_of_job(self, item: FrontierItem, scope: ScopeSettings, now: datetime) -> _BudgetAnswer:
        if not (scope.pages or scope.bytes or scope.seconds):
            return _WITHIN_BUDGET
        counts = self.frontier.job_counts(item.job)
        if not scope.pages or counts.done + counts.claimed <= scope.pages:
            return _BudgetAnswer(_exhausted_budget_of_job(scope, counts, now))
        # The claims first: one that is completed in between counts twice, never not at all.
        ahead = self._ahead_of(item, of_host=False)
        counts = self.frontier.job_counts(item.job)
        reason = _exhausted_budget_of_job(scope, counts, now)
        return _BudgetAnswer(reason, wait=not reason and counts.done + ahead >= scope.pages)

    def _ahead_of(self, item: FrontierItem, *, of_host: bool) -> int:
        """Count claims that are older than the item's, of its host or of its job."""
        host = item.host if of_host else None
        claims = self.frontier.ls(ItemState.CLAIMED, limit=CLAIMS_LIMIT, host=host)
        return sum(record.item.token < item.token and (of_host or record.item.job == item.job) for record in claims)

    def _clear(self, item: FrontierItem, word: _BudgetAnswer, now: datetime) -> None:
        """Skip many remaining items together instead of claiming them one by one."""
        if word.of_host:
            host = self.frontier.host(item.host, now=now)
            more = host is not None and host.waiting >= MANY
            while more:
                records = self.frontier.ls(ItemState.QUEUED, limit=DISCARD_BATCH, host=item.host)
                more = bool(self._discard(records, item.job, word.reason, now))
        elif self.frontier.job_counts(item.job).queued >= MANY:
            of_job = ItemSelection(job=item.job)
            for some in select_items(self.frontier, ItemState.QUEUED, of_job):
                self._discard(some, item.job, word.reason, now)

    def _discard(self, records: Sequence[ItemRecord], job: str, reason: str, now: datetime) -> int:
        urls = [record.item.url for record in records if record.item.job == job]
        return self.frontier.discard(urls, now=now, reason=reason) if urls else 0


def _exhausted_budget_of_job(scope: ScopeSettings, counts: JobCounts, now: datetime) -> str:
    lasted = now - (counts.began_at or now)
    used = counts.done, counts.bytes, lasted.total_seconds()
    return _exhausted_budget((scope.pages, scope.bytes, scope.seconds), used)


def _exhausted_budget(limits: tuple[int, int, float], used: tuple[int, int, float], of: str = "") -> str:
    """Return the reason of an exhausted budget of pages, bytes or seconds; empty when there is none."""
    pages, stored, seconds = limits
    names = f"{pages} page{'s' * (pages != 1)}", f"{stored} bytes", f"{seconds:.0f} s"
    over = (name for name, limit, count in zip(names, limits, used, strict=True) if 0 < limit <= count)
    return next((f"{BUDGET_REASON}{name}{of}" for name in over), "")
