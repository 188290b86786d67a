"""Scope rule: which links of a page join the crawl, and the log of these decisions.

One JSON object a line in ``reports/links-JOB.jsonl``; with ``[scope] link_decisions`` also one a link in
``reports/decisions-JOB.jsonl``. A line is bounded, whatever the page; a file that
has grown to its limit is set aside as ``….1.jsonl``, older ones move up, and the oldest is dropped: the
links themselves are in the pages' manifests for good. Several processes may write the same file.

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
import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from core.errors import BadUrlError
from core.page_classes import WALLS, WITHOUT_OWN_LINKS
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import warc_date
from core.urls import identity_key
from crawler.capture.page_capture import CaptureResult
from crawler.capture.visit_rule import ALLOW_VISIT, FollowUp, RuleAction, RuleDecision
from crawler.frontier.base import Frontier, FrontierItem, NewItem
from crawler.jobs.job_settings import JobSettings
from crawler.jobs.scope import LinkDecision, link_key
from net.backoff import StoreRetry

log = logging.getLogger(__name__)

FILE_LIMIT_BYTES = 100_000_000
FILES_KEPT = 9  # set aside, for each job
EXAMPLES_KEPT = 2  # of the links that were not followed, for each reason
REASONS_KEPT = 50
SHOWN_CHARS = 300
URL_CHARS = 2_000  # of a link, in the log of decisions


@dataclass(frozen=True, slots=True)
class PageLinks:
    """What was decided on the links of a page.

    Attributes:
        page_id: the page's identifier.
        page: its URL.
        job: the crawl.
        at: when.
        hops: links from a seed to the page.
        links: how many were decided on, each URL once.
        followed: how many of them belong to the crawl.
        decided: how many by reason.
        examples: some that do not, by reason.
    """

    page_id: str
    page: str
    job: str
    at: str
    hops: int
    links: int
    followed: int
    decided: dict[str, int]
    examples: dict[str, list[str]]

    @classmethod
    def of(
        cls, item: FrontierItem, decisions: Sequence[tuple[str, LinkDecision]], now: datetime
    ) -> "PageLinks":
        """The account of the decisions."""
        counts = Counter(decision.reason[:SHOWN_CHARS] for _, decision in decisions)
        examples: dict[str, list[str]] = {}
        for url, decision in decisions:
            if decision.followed:
                continue
            some = examples.setdefault(decision.reason[:SHOWN_CHARS], [])
            if len(some) < EXAMPLES_KEPT:
                some.append(url[:SHOWN_CHARS])
        return cls(
            page_id=item.id,
            page=item.url,
            job=item.job,
            at=warc_date(now),
            hops=item.hops,
            links=len(decisions),
            followed=sum(decision.followed for _, decision in decisions),
            decided=dict(counts.most_common(REASONS_KEPT)),
            examples=dict(list(examples.items())[:REASONS_KEPT]),
        )


class LinkLog:
    """Appends to the files; holds none open. Thread-safe."""

    def __init__(self, folder: Path, *, limit_bytes: int = FILE_LIMIT_BYTES) -> None:
        """Keep the files in the folder, each up to so many bytes."""
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()

    def write(self, page: PageLinks) -> None:
        """Add a line. A disk that takes none costs the record, not the crawl."""
        self._append(self._folder / f"links-{page.job}.jsonl", [asdict(page)])

    def write_decisions(
        self, page: PageLinks, decisions: Sequence[tuple[str, LinkDecision]]
    ) -> None:
        """Add a line for each link, followed or not, with the reason; as `write`."""
        whose = {"page_id": page.page_id, "page": page.page, "at": page.at}
        lines = [
            {
                **whose,
                "url": url[:URL_CHARS],
                "followed": decision.followed,
                "reason": decision.reason[:SHOWN_CHARS],
            }
            for url, decision in decisions
        ]
        self._append(self._folder / f"decisions-{page.job}.jsonl", lines)

    def _append(self, path: Path, objects: Sequence[Mapping[str, object]]) -> None:
        text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in objects)
        try:
            with self._lock:
                with path.open("ab") as file:
                    file.write(text.encode(errors="replace"))
                    file.flush()
                    is_full = file.tell() >= self._limit_bytes
                if is_full:
                    self._set_aside(path)
        except OSError as error:
            log.warning("links.unrecorded path=%s error=%s", path, error)

    def _set_aside(self, path: Path) -> None:
        """Move the file and the older ones up by one number."""
        numbered = [path.with_suffix(f".{number}.jsonl") for number in range(1, FILES_KEPT + 1)]
        for older, newer in zip(numbered[:0:-1], numbered[-2::-1], strict=True):
            if newer.exists():
                newer.replace(older)
        path.replace(numbered[0])


LINK_COUNTS_NOTE = "links"  # the kind of the notes with counts; the key is the job and who counts
LINKS_LIMIT = 10_000  # of one page
UNREADABLE_WAIT = timedelta(minutes=1)


@dataclass(slots=True)
class LinkSelection:
    """What became of a page's links: those that join the crawl, and the decision on each."""

    items: list[NewItem] = field(default_factory=list)
    decisions: list[tuple[str, LinkDecision]] = field(default_factory=list)


class ScopeRule:
    """A `Rule`; one for all workers of a process."""

    def __init__(
        self,
        jobs: JobSettings,
        frontier: Frontier,
        patience: StoreRetry,
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

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:
        """Skip what is excluded by now; wait while the job cannot be read."""
        await self._patience.ask(self._jobs.look)
        fault = self._jobs.fault(item.job)
        if fault:
            return RuleDecision(RuleAction.LATER, f"job: {fault}", until=now + UNREADABLE_WAIT)
        excluded = self._jobs.scope_for(item.url, item.job).excluded(item.url)
        if excluded is not None:
            return RuleDecision(RuleAction.SKIP, f"scope: exclude {excluded}")
        return ALLOW_VISIT

    async def after(
        self, item: FrontierItem, captured: CaptureResult, aftermath: FollowUp, *, now: datetime
    ) -> None:
        """Let the links that belong to the crawl join it."""
        page = captured.page
        kept = page.outcome in (VisitOutcome.COMPLETE, VisitOutcome.PARTIAL) and not captured.again
        nowhere = page.page_class in WITHOUT_OWN_LINKS
        if not kept or nowhere or self._jobs.job(item.job) is None:
            return
        target = seed_target(item, page)
        if target:
            await self._patience.ask(lambda: self._jobs.move_seed(item.job, item.url, target))
        found = await asyncio.to_thread(decide_links, self._jobs, item, page)
        aftermath.links += found.items
        await self._tell(item, found, now)

    async def _tell(self, item: FrontierItem, found: LinkSelection, now: datetime) -> None:
        """Count the decisions, and keep them by page."""
        if not found.decisions:
            return
        counts = self._counts.setdefault(item.job, Counter())
        counts.update(decision.constant for _, decision in found.decisions)
        key, value = f"{item.job} {self._name}", json.dumps(counts, sort_keys=True)
        await self._patience.ask(
            lambda: self._frontier.put_note(LINK_COUNTS_NOTE, key, value, now=now)
        )
        if self._record is not None:
            await asyncio.to_thread(self._keep, self._record, item, found, now)

    def _keep(
        self, record: LinkLog, item: FrontierItem, found: LinkSelection, now: datetime
    ) -> None:
        page = PageLinks.of(item, found.decisions, now)
        record.write(page)
        if self._jobs.settings_for(item.url, item.job).scope.link_decisions:
            record.write_decisions(page, found.decisions)


def decide_links(jobs: JobSettings, item: FrontierItem, page: PageInfo) -> LinkSelection:
    """Decide on the links of a page of a crawl, each URL once, at most `LINKS_LIMIT`."""
    found = LinkSelection()
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
            refused = LinkDecision(followed=False, reason=f"url: {error.reason}")
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
    for key, value in frontier.notes(LINK_COUNTS_NOTE, now=now).items():
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
