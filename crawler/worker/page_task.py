"""Page task: one frontier item from its claim to its end.

    host down? ─> finished before? ─> rules: before ─> visit ─> rules: after ─> links, delays
                                                                                     │
                                                    end of the claim <─ manifest <───╯

Nothing that follows from a visit may be lost: links join the frontier before the page's manifest is
written, and the item ends after. A crash in between leaves an item that is claimed again and either
visited again, which adds no link twice, or found finished by its manifest. The manifest is written only
while the claim is held, so that a page is captured once.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from core.clock import Clock
from core.config.settings import Settings
from core.errors import (
    BrowserUnavailableError,
    DedupUnavailableError,
    DiskFullError,
    IndexUnavailableError,
    InvariantError,
    LimitReachedError,
    ProxyUnavailableError,
    UnavailableError,
    WeboidError,
)
from core.page_classes import WITHHELD
from core.page_manifest import PageInfo, VisitOutcome
from core.urls import identity_key
from crawler.capture.page_capture import CaptureRequest, CaptureResult, StoredLevelLookup, capture
from crawler.capture.plain_visit import PlainVisits, is_rendered
from crawler.capture.site_logins import NO_LOGINS, SiteLogins
from crawler.capture.visit_rule import (
    ALLOW_VISIT,
    FollowUp,
    HostBackOff,
    RuleAction,
    RuleDecision,
    VisitRule,
)
from crawler.frontier.base import Frontier, FrontierItem, ItemState
from crawler.frontier.politeness import SlotAssigner, retry_at
from crawler.policy.policy_rule import PolicyRule
from crawler.pools.resource_pool import ResourcePool
from crawler.rules.after_visit import RecrawlRule
from crawler.worker.backpressure import DiskLimit, MemoryLimit, NetworkAwayError, NetworkMonitor
from crawler.worker.crawl_events import (
    Event,
    LinksAdded,
    PageDeferred,
    PageDone,
    PageRetried,
    PageSkipped,
)
from net.backoff import StoreRetry
from warc.index.protocol import CaptureIndex

log = logging.getLogger(__name__)

MAX_INTERNAL_ERRORS = 20  # pages in a row that end a run: then no page is at fault
MAX_CRASHES = 5  # browsers or proxies that a page may see die before it counts as an attempt
REPORTED_WAIT = timedelta(seconds=10)  # shorter waits are not reported
_REASON_CHARS = 300  # of a recorded error
NO_REST = timedelta(0)  # the host was not asked
RUN_ERRORS = (DiskFullError, LimitReachedError, DedupUnavailableError)
HOST_DOWN = "host down:"  # how the reason of an item begins that ended unvisited
ONE_ATTEMPT = "one-attempt"  # the kind of the notes on URLs, by identity key, that are visited once
LINKS_AT_ONCE = 1_000  # a store is not kept from others for longer

_T = TypeVar("_T")


class ClaimLostError(WeboidError):
    """Lost claim: the lease ran out and another worker has the item."""


@dataclass(slots=True)
class CrawlContext:
    """Dependencies of page tasks; one for all workers of a process."""

    frontier: Frontier
    supervisor: ResourcePool
    index: CaptureIndex
    rules: Sequence[VisitRule]  # called in this order
    settings_for: Callable[[FrontierItem], Settings]  # returns the settings of an item
    policy: PolicyRule  # the rule that decides whether a visit may be archived
    recrawl: RecrawlRule  # the rule that sets when a page is due again
    turns: SlotAssigner  # assigns slot keys to links
    space: DiskLimit | None  # the collection's disk; None when remote proxies check theirs
    room: MemoryLimit  # this machine's memory
    network: NetworkMonitor  # detects network outages
    patience: StoreRetry
    plain: PlainVisits | None  # fetches pages that are not rendered; None: all are
    clock: Clock
    report: Callable[[Event], None]  # called with each event
    stored_levels: StoredLevelLookup  # looks up the stored level of a page
    logins: SiteLogins = NO_LOGINS
    deaths: Counter[str] = field(default_factory=Counter)
    broken: set[str] = field(default_factory=set)  # consecutive pages with an internal error


class PageTask:
    """Processing of one item. `run` it once."""

    def __init__(self, item: FrontierItem, means: CrawlContext) -> None:
        self._item = item
        self._means = means
        self._aftermath = FollowUp()
        self._is_only_attempt = False

    async def run(self) -> None:
        """Process the item, and end its claim; an unexpected error costs the page an attempt.

        Raises:
            DiskFullError, LimitReachedError, DedupUnavailableError: no page can be stored; it was released.
            ClaimLostError: another worker has it.
            InvariantError: consecutive pages ended with internal errors.
        """
        try:
            if self._item.host_down:
                await self._leave_to_its_host()
            elif not await self._was_finished():
                await self._do()
        except (ClaimLostError, *RUN_ERRORS):
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling() > 0:
                raise
            await self._note_internal_error(error)  # it escaped from something that was awaited
        except Exception as error:  # noqa: BLE001 any error of a page is recorded for that page
            await self._note_internal_error(error)
        else:
            self._means.broken.clear()

    async def _do(self) -> None:
        """Visit the item, or apply the rules' decision."""
        item = self._item
        try:
            verdict = await self._judge()
            if verdict.action is RuleAction.VISIT:
                await self._visit()
            else:
                await self._refuse(verdict)
        except RUN_ERRORS as error:
            await self._give_back(str(error))
            low = self._means.space is None or self._means.space.is_low()
            if not (isinstance(error, DiskFullError) and low):
                raise  # waiting for space would not help
        except (BrowserUnavailableError, ProxyUnavailableError) as error:
            await self._survive(error)
        except (ClaimLostError, InvariantError):
            raise
        except (NetworkAwayError, IndexUnavailableError) as error:
            await self._give_back(str(error))
        except WeboidError as error:
            log.warning("visit.failed url=%s error=%s", item.url, error)
            await self._retry(str(error))

    async def _leave_to_its_host(self) -> None:
        """End or defer an unvisited item whose host is known to be down.

        Deferred items are tried again when the ban ends, and not before their own moment, so that an outage
        of any length costs one attempt.
        """
        item, frontier = self._item, self._means.frontier
        reason = f"{HOST_DOWN} {item.host_down}"
        settings = self._means.settings_for(self._item).frontier
        if not settings.wait_for_sites or await self._take_only_attempt():
            await self._fail(reason, delay=NO_REST)
            return
        now = self._now()
        seen = await self._ask(lambda: frontier.host(item.host, now=now))
        over = seen.down_until if seen is not None else None
        own_turn = retry_at(now, item.attempts, settings)
        await self._retry(reason, not_before=max(over or own_turn, own_turn), delay=NO_REST)

    async def _take_only_attempt(self) -> bool:
        """Return True when the item was queued for a single attempt; the note is deleted by reading."""
        frontier, key = self._means.frontier, identity_key(self._item.url)
        note = await self._ask(lambda: frontier.note(ONE_ATTEMPT, key, now=self._now()))
        if note is not None:
            await self._ask(lambda: frontier.erase_note(ONE_ATTEMPT, key))
            self._is_only_attempt = True
        return self._is_only_attempt

    async def _was_finished(self) -> bool:
        """Complete an item whose visit was finished without ending its claim."""
        item, means = self._item, self._means
        outcome = await self._ask(lambda: means.index.page_outcome(item.id))
        if outcome is None:
            return False
        if outcome is VisitOutcome.FAILED:
            await self._fail("failed, as its manifest says", delay=NO_REST, attempts=-1)
        elif outcome is VisitOutcome.SKIPPED:
            await self._fail("skipped, as its manifest says", delay=NO_REST, skip=True)
        else:
            means.recrawl.schedule(item, None, self._aftermath, now=self._now())
            await self._complete(outcome, None, delay=NO_REST, attempts=-1)
        return True

    async def _judge(self) -> RuleDecision:
        """Return the first objection of a rule."""
        asked = False
        for rule in self._means.rules:
            verdict = await rule.before(self._item, now=self._now())
            asked = asked or verdict.asked
            if verdict.action is not RuleAction.VISIT:
                return RuleDecision(verdict.action, verdict.reason, verdict.until, asked=asked)
        return ALLOW_VISIT

    async def _refuse(self, verdict: RuleDecision) -> None:
        item, frontier = self._item, self._means.frontier
        delay = None if verdict.asked else NO_REST
        if verdict.action in (RuleAction.SKIP, RuleAction.FAIL):
            is_skip = verdict.action is RuleAction.SKIP
            await self._fail(verdict.reason, delay=delay, skip=is_skip)
        else:
            await self._ask(
                lambda: frontier.release(
                    item, now=self._now(), reason=verdict.reason, not_before=verdict.until
                )
            )
            if verdict.until is not None and verdict.until - self._now() >= REPORTED_WAIT:
                self._means.report(PageDeferred(item.url, verdict.reason, verdict.until))

    async def _visit(self) -> None:
        item, means = self._item, self._means
        settings = means.settings_for(item)
        only_attempt = await self._take_only_attempt()
        last_attempt = only_attempt or item.attempts >= settings.frontier.attempts
        stored = await self._ask(lambda: means.stored_levels.of(item, settings))
        rendered = not item.hops or is_rendered(item.url, settings.visit.rendered_share)
        captured = await capture(
            CaptureRequest(
                item.url,
                item.id,
                last_attempt,
                None if rendered else means.plain,
                means.logins.of(item.url),
                first_attempt=item.attempts <= 1,
                stored=stored,
            ),
            supervisor=means.supervisor,
            settings=settings,
            clock=means.clock,
            before_manifest=self._follow,
            forbids=means.policy.forbids(item),
        )
        page = captured.page
        if captured.again:
            await self._carry_out(captured)
            is_withheld = page.page_class in WITHHELD
            reason = str(page.page_class) if is_withheld else f"status {page.status}"
            await self._retry(page.reason or reason, page)
        elif page.outcome is VisitOutcome.FAILED:
            await self._fail(page.reason, page=page, delay=self._aftermath.delay)
        elif page.outcome is VisitOutcome.SKIPPED:
            await self._fail(page.reason, page=page, delay=self._aftermath.delay, skip=True)
        else:
            # A stored refusal, such as an archived 503, has blocked the host for longer than any
            # delay; as an answer it would reset the failures that set the next block's length.
            refused = any(each.host == item.host for each in self._aftermath.back_offs)
            delay = NO_REST if refused else self._aftermath.delay
            await self._complete(page.outcome, page, delay=delay)

    async def _follow(self, page: PageInfo) -> None:
        """Store the visit's follow-up; the manifest may be written when this returns.

        Raises ClaimLostError, NetworkAwayError if the manifest must not be written.
        """
        await self._carry_out(CaptureResult(page))
        item, frontier = self._item, self._means.frontier
        if not await self._ask(lambda: frontier.renew(item, now=self._now())):
            raise ClaimLostError(f"{item.url} was given to another worker meanwhile.")

    async def _carry_out(self, captured: CaptureResult) -> None:
        """Collect the rules' follow-up, and apply all of it but the item's own end."""
        item, means, aftermath = self._item, self._means, self._aftermath
        frontier = means.frontier

        def back_off(wanted: HostBackOff) -> None:
            host, reason, at_least, down = wanted
            frontier.back_off(host, reason, now=self._now(), at_least=at_least, down=down)

        await means.network.judge(captured.page)
        for rule in means.rules:
            await rule.after(item, captured, aftermath, now=self._now())
        links, added = await means.turns.assign(aftermath.links), 0
        for start in range(0, len(links), LINKS_AT_ONCE):
            some = links[start : start + LINKS_AT_ONCE]
            result = await self._ask(
                lambda: frontier.add(some, now=self._now())  # noqa: B023 awaited at once
            )
            added += result.added
        if added:
            means.report(LinksAdded(item.url, added))
        if aftermath.rests:
            await self._ask(lambda: frontier.rest(aftermath.rests, now=self._now()))
        for each in aftermath.back_offs:
            await self._ask(lambda: back_off(each))  # noqa: B023 awaited at once

    async def _complete(
        self,
        outcome: VisitOutcome,
        page: PageInfo | None,
        *,
        delay: timedelta | None,
        attempts: int = 0,
    ) -> None:
        item, frontier, aftermath = self._item, self._means.frontier, self._aftermath
        completed = await self._ask(
            lambda: frontier.complete(
                item,
                now=self._now(),
                outcome=str(outcome),
                duration=_duration(page),
                delay=delay,
                stored_bytes=page.stored_bytes if page is not None else 0,
                due=aftermath.due,
                memo=aftermath.memo,
            )
        )
        if completed:
            self._means.report(PageDone(item.url, page, "", item.attempts + attempts))

    async def _fail(
        self,
        reason: str,
        *,
        delay: timedelta | None,
        page: PageInfo | None = None,
        attempts: int = 0,
        skip: bool = False,
    ) -> None:
        """Mark the item dead, or with `skip` as not to be visited."""
        item, frontier = self._item, self._means.frontier
        end = frontier.skip if skip else frontier.fail
        ended = await self._ask(
            lambda: end(item, now=self._now(), reason=reason, duration=_duration(page), delay=delay)
        )
        if ended and skip:
            self._means.report(PageSkipped(item.url, reason))
        elif ended:
            self._means.report(PageDone(item.url, page, reason, item.attempts + attempts))

    async def _retry(
        self,
        reason: str,
        page: PageInfo | None = None,
        *,
        not_before: datetime | None = None,
        delay: timedelta | None = None,
    ) -> None:
        item, frontier = self._item, self._means.frontier
        delay = self._aftermath.delay if delay is None else delay
        if self._is_only_attempt:
            await self._fail(reason, page=page, delay=delay)
            return
        state = await self._ask(
            lambda: frontier.retry(
                item,
                now=self._now(),
                reason=reason,
                not_before=not_before,
                duration=_duration(page),
                delay=delay,
            )
        )
        if state is ItemState.DEAD:
            self._means.report(PageDone(item.url, None, reason, item.attempts))
        elif state is ItemState.QUEUED:
            self._means.report(PageRetried(item.url, reason, item.attempts))

    async def _survive(self, error: WeboidError) -> None:
        """Release an item whose browser or proxy died; fail a page that repeatedly kills them after all."""
        item, means = self._item, self._means
        means.deaths[item.url] += 1
        if means.deaths[item.url] >= MAX_CRASHES:
            del means.deaths[item.url]
            await self._retry(str(error))
            return
        log.warning("visit.interrupted url=%s reason=%s", item.url, error)
        await self._give_back(str(error))

    async def _note_internal_error(self, error: BaseException) -> None:
        """Count an attempt of the page; end the run when consecutive pages fail so.

        When even that cannot be stored the claim's lease runs out, which counts, too.
        """
        item, broken = self._item, self._means.broken
        said = " ".join(f"{type(error).__name__}: {error}".split())[:_REASON_CHARS]
        log.error("visit.internal_error url=%s error=%s", item.url, said, exc_info=error)
        broken.add(item.url)
        try:
            await self._retry(f"internal error: {said}")
        except UnavailableError:
            raise  # without a frontier no work is possible
        except Exception:
            log.exception("visit.not_recorded url=%s", item.url)
        if len(broken) >= MAX_INTERNAL_ERRORS:
            raise InvariantError(
                f"{len(broken)} pages in a row ended with an internal error of Weboid, the last "
                f"with {said}. The log has each with its traceback: please report it. Nothing that "
                "was archived is lost, and the same command goes on with the rest."
            )

    async def _give_back(self, reason: str) -> None:
        item, means = self._item, self._means
        await self._ask(lambda: release_item(item, means, reason))

    async def _ask(self, verb: Callable[[], _T]) -> _T:
        return await self._means.patience.ask(verb)

    def _now(self) -> datetime:
        return self._means.clock.now()


def release_item(item: FrontierItem, means: CrawlContext, reason: str) -> None:
    """Release an item whose visit was broken off; the host may have received requests and is delayed."""
    now = means.clock.now()
    rest = timedelta(seconds=means.settings_for(item).politeness.min_delay_s)
    means.frontier.rest({item.host: now + rest}, now=now)
    means.frontier.release(item, now=now, reason=reason)


def _duration(page: PageInfo | None) -> timedelta | None:
    return timedelta(seconds=page.seconds) if page is not None else None
