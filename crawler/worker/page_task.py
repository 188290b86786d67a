"""Page task: one frontier item from its claim to its end.

    host down? ─> finished before? ─> rules: before ─> visit ─> rules: after ─> links, delays
                                                                                     │
                                                    end of the claim <─ manifest <───╯

Links join the frontier before the page's manifest is written, and the item ends after: after a crash in between it is
claimed again and either visited again, which adds no link twice, or found finished by its manifest. The manifest is
written only while the claim is held, so that a page is captured once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar

from core import errors
from core.clock import Clock
from core.config.settings import Settings
from core.hosts import registrable
from core.page_classes import WITHHELD
from core.page_manifest import PageInfo, VisitOutcome
from core.urls import host_of, identity_key
from crawler.capture.page_capture import (
    SILENCES,
    CaptureRequest,
    CaptureResult,
    StoredLevelOf,
    capture,
    host_refusing_recorder,
    stored_level,
)
from crawler.frontier.base import AddResult, Frontier, FrontierItem, HostBackOff, ItemState, NewItem
from crawler.frontier.host_slots import SlotAssigner, retry_at
from crawler.policy.policy_rule import PolicyRule
from crawler.pools.resource_pool import ResourcePool
from crawler.pools.shared_contexts import ContextKey
from crawler.rules.visit_rule import FollowUp, RecrawlRule, RuleAction, RuleDecision, VisitRule, waits_for_host
from crawler.worker.backpressure import DiskLimit, MemoryLimit, NetworkAwayError, NetworkMonitor
from crawler.worker.crawl_events import Event, LinksAdded, PageDeferred, PageDone, PageRetried, PageSkipped
from net.backoff import StoreRetry
from warc.index.database import IndexDatabase, page_outcome

if TYPE_CHECKING:
    from crawler.capture.media_download import MediaDownloads
    from crawler.capture.plain_visit import PlainVisits
    from render.sign_in import SiteLogins

log = logging.getLogger(__name__)

MAX_INTERNAL_ERRORS = 20  # pages in a row that end a run: then no page is at fault
MAX_CRASHES = 5  # browsers or proxies that a page may see die before it counts as an attempt
REPORTED_WAIT = timedelta(seconds=10)  # shorter waits are not reported
_REASON_CHARS = 300  # of a recorded error
NO_REST = timedelta(0)  # the host was not asked
RUN_ERRORS = (errors.DiskFullError, errors.LimitReachedError, errors.DedupUnavailableError)
HOST_DOWN = "host down:"  # how the reason of an item begins that ended unvisited
ONE_ATTEMPT = "one-attempt"  # the kind of the notes on URLs, by identity key, that are visited once
CONNECTIONS_NOTE = "connections"  # the kind of notes on hosts, "browser" or "recorder": whose connections reach them
HELPED_FOR = timedelta(days=7)  # before the recorder's connections are tried again
SILENT_FOR = timedelta(hours=1)  # the same of a host that did not answer, which may only have been slow
UNHELPED_FOR = timedelta(days=1)  # before the browser's are, where they were refused as well
CONNECTIONS_AGE_S = 10.0  # notes of other processes are seen after so long
LINKS_AT_ONCE = 1_000  # a store is not kept from others for longer

_T = TypeVar("_T")


class ClaimLostError(errors.WeboidError):
    """Lost claim: the lease ran out and another worker has the item."""


@dataclass(slots=True)
class CrawlContext:
    """Dependencies of page tasks; one for all workers of a process."""

    frontier: Frontier
    supervisor: ResourcePool
    index: IndexDatabase
    rules: Sequence[VisitRule]  # called in this order
    settings_for: Callable[[FrontierItem], Settings]  # returns the settings of an item
    policy: PolicyRule  # the rule that decides whether a visit may be archived
    recrawl: RecrawlRule  # the rule that sets when a page is due again
    turns: SlotAssigner  # assigns slot keys to links
    space: DiskLimit | None  # the collection's disk; None when remote proxies check theirs
    room: MemoryLimit  # this machine's memory
    network: NetworkMonitor  # detects network outages
    patience: StoreRetry
    plain: Callable[[], PlainVisits] | None  # fetches pages that are not rendered; None: all are
    clock: Clock
    report: Callable[[Event], None]  # called with each event
    stored_level_of: StoredLevelOf  # looks up decisions on stored levels
    logins: SiteLogins | None = None  # None: there are none
    downloads: Callable[[], MediaDownloads] | None = None  # of players' media; None: each page has its own
    ways: dict[str, str] = field(default_factory=dict)  # notes on connections, by host
    ways_read_at: float = field(default=float("-inf"))
    deaths: Counter[str] = field(default_factory=Counter)
    broken: set[str] = field(default_factory=set)  # consecutive pages with an internal error


class PageTask:
    """Processing of one item. `run` it once."""

    def __init__(self, item: FrontierItem, context: CrawlContext) -> None:
        self._item = item
        self._context = context
        self._follow_up = FollowUp()
        self._is_only_attempt = False

    async def run(self) -> None:
        """Process the item, and end its claim; an unexpected error costs the page an attempt.

        Raises DiskFullError, LimitReachedError, DedupUnavailableError (no page can be stored; it was released),
        ClaimLostError (another worker has it), InvariantError (consecutive pages ended with internal errors).
        """
        try:
            if self._item.host_down:
                await self._leave_to_its_host()
            elif not await self._was_finished():
                await self._process()
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
            self._context.broken.clear()

    async def _process(self) -> None:
        """Visit the item, or apply the first objection of a rule."""
        item, context = self._item, self._context
        try:
            is_asked = False
            for rule in context.rules:
                decision = await rule.before(item, now=self._now())
                is_asked = is_asked or decision.was_asked
                if decision.action is not RuleAction.VISIT:
                    await self._apply_decision(decision, delay=None if is_asked else NO_REST)
                    return
            await self._visit()
        except RUN_ERRORS as error:
            await self._release(str(error))
            low = context.space is None or context.space.is_low()
            if not (isinstance(error, errors.DiskFullError) and low):
                raise  # waiting for space would not help
        except (errors.BrowserUnavailableError, errors.ProxyUnavailableError) as error:
            # Fail a page that repeatedly kills them after all.
            context.deaths[item.url] += 1
            if context.deaths[item.url] >= MAX_CRASHES:
                del context.deaths[item.url]
                await self._retry(str(error))
            else:
                log.warning("visit.interrupted url=%s reason=%s", item.url, error)
                await self._release(str(error))
        except (ClaimLostError, errors.InvariantError):
            raise
        except (NetworkAwayError, errors.IndexUnavailableError) as error:
            await self._release(str(error))
        except errors.WeboidError as error:
            log.warning("visit.failed url=%s error=%s", item.url, error)
            await self._retry(str(error))

    async def _leave_to_its_host(self) -> None:
        """End an unvisited item whose host is down, or defer it until that ends, at the cost of one attempt."""
        item, frontier = self._item, self._context.frontier
        reason = f"{HOST_DOWN} {item.host_down}"
        settings = self._context.settings_for(self._item).frontier
        if not settings.wait_for_sites or await self._take_only_attempt():
            await self._fail(reason, delay=NO_REST)
            return
        now = self._now()
        host = await self._retrying(lambda: frontier.host(item.host, now=now))
        over = host.down_until if host is not None else None
        own_turn = retry_at(now, item.attempts, settings.retry_delay_s)
        await self._retry(reason, not_before=max(over or own_turn, own_turn), delay=NO_REST)

    async def _take_only_attempt(self) -> bool:
        """Return True when the item was queued for a single attempt; the note is deleted by reading."""
        frontier, key = self._context.frontier, identity_key(self._item.url)
        note = await self._retrying(lambda: frontier.note(ONE_ATTEMPT, key, now=self._now()))
        if note is not None:
            await self._retrying(lambda: frontier.erase_note(ONE_ATTEMPT, key))
            self._is_only_attempt = True
        return self._is_only_attempt

    async def _was_finished(self) -> bool:
        """Complete an item whose visit was finished without ending its claim."""
        item, context = self._item, self._context
        outcome = await self._retrying(lambda: page_outcome(context.index, item.id))
        if outcome is None:
            return False
        if outcome is VisitOutcome.FAILED:
            await self._fail("failed, as its manifest says", delay=NO_REST, attempts=-1)
        elif outcome is VisitOutcome.SKIPPED:
            await self._fail("skipped, as its manifest says", delay=NO_REST, skip=True)
        else:
            context.recrawl.schedule(item, None, self._follow_up, now=self._now())
            await self._complete(outcome, None, delay=NO_REST, attempts=-1)
        return True

    async def _apply_decision(self, decision: RuleDecision, *, delay: timedelta | None) -> None:
        item, frontier = self._item, self._context.frontier
        if decision.action in (RuleAction.SKIP, RuleAction.FAIL):
            await self._fail(decision.reason, delay=delay, skip=decision.action is RuleAction.SKIP)
            return
        until = decision.until
        await self._retrying(lambda: frontier.release(item, now=self._now(), reason=decision.reason, not_before=until))
        if until is not None and until - self._now() >= REPORTED_WAIT:
            self._context.report(PageDeferred(item.url, decision.reason, until))

    async def _own_connections(self, kind: str) -> tuple[str, ...]:
        """Return the hosts that the browser connects to itself, by the setting or by what earlier visits noted."""
        context = self._context
        if kind != "auto":
            return ("*",) if kind == "browser" else ()
        now, moment = self._now(), context.clock.monotonic()
        if moment - context.ways_read_at > CONNECTIONS_AGE_S:
            context.ways = await self._retrying(lambda: context.frontier.notes(CONNECTIONS_NOTE, now=now))
            context.ways_read_at = moment
        known = [host for host, way in context.ways.items() if way == "browser"]
        site = registrable(host_of(self._item.url)) if known else ""  # few crawls need the list of suffixes for this
        return tuple(host for host in known if registrable(host) == site)

    async def _visit(self) -> None:
        item, context = self._item, self._context
        settings = context.settings_for(item)
        only_attempt = await self._take_only_attempt()
        last_attempt = only_attempt or item.attempts >= settings.frontier.attempts
        stored = await self._retrying(lambda: stored_level(item, settings, context.frontier, context.stored_level_of))
        plain = None
        if context.plain is not None and item.hops and settings.visit.rendered_share < 1:
            from crawler.capture.plain_visit import is_rendered

            if not is_rendered(item.url, settings.visit.rendered_share):
                plain = context.plain()

        async def follow(page: PageInfo) -> None:
            # The manifest may be written when this returns.
            await self._carry_out(CaptureResult(page))
            if not await self._retrying(lambda: context.frontier.renew(item, now=self._now())):
                raise ClaimLostError(f"{item.url} was given to another worker in the meantime.")

        login, key = None if context.logins is None else context.logins.of(item.url), None
        own, is_auto = await self._own_connections(settings.visit.connections), settings.visit.connections == "auto"
        if own:
            plain = None  # a fetch without a browser would be refused
        # The proxy can distinguish requests of visits only by their own connections.
        is_fresh = settings.visit.fresh or only_attempt or bool(own)
        if not (is_fresh or login is not None or plain is not None):
            # Visits that differ in a setting, such as language or device, do not share a context.
            differing = repr((settings.visit, settings.proxy.dedup_bucket, stored))
            digest = sha256(differing.encode()).hexdigest()
            key = ContextKey(registrable(host_of(item.url)), item.job, digest)
        request = CaptureRequest(
            item.url,
            item.id,
            last_attempt,
            plain,
            login,
            first_attempt=item.attempts <= 1,
            waits_for_host=waits_for_host(item, settings.frontier),
            stored=stored,
            context=key,
            browser_hosts=own,
            # A link that is confirmed as dead by one attempt must not owe it to the recorder's connections.
            browser_follows=is_auto and not own and (only_attempt or settings.frontier.attempts == 1),
            tries_browser=is_auto and plain is None and host_of(item.url) not in context.ways,
            downloads=context.downloads() if context.downloads is not None and settings.media.players else None,
        )

        visit = partial(
            capture,
            supervisor=context.supervisor,
            settings=settings,
            clock=context.clock,
            before_manifest=follow,
            forbids=context.policy.forbids(item),
        )
        captured = await visit(request)
        is_silent = captured.page.reason.startswith(SILENCES)
        helped = host_of(captured.page.final_url or item.url) if captured.again and last_attempt else ""
        if helped:
            captured = await visit(replace(request, plain=None, browser_hosts=("*",), browser_follows=False))
        page = captured.page
        # A page of a host that lets the browser's connections in may be forbidden.
        refusing = host_refusing_recorder(page, counts_denial=not own or item.attempts > 1) if is_auto else ""
        own, refusing = (*own, helped) if refusing else own, refusing or helped
        if refusing and (plain is None or helped) and (refusing in own or refusing not in context.ways):
            helped_for = SILENT_FOR if is_silent else HELPED_FOR
            way, lifetime = ("recorder", UNHELPED_FOR) if refusing in own else ("browser", helped_for)
            now = self._now()
            await self._retrying(
                lambda: context.frontier.put_note(CONNECTIONS_NOTE, refusing, way, now=now, until=now + lifetime)
            )
            context.ways[refusing] = way
        if captured.again:
            await self._carry_out(captured)
            reason = str(page.page_class) if page.page_class in WITHHELD else f"status {page.status}"
            await self._retry(page.reason or reason, page)
        elif page.outcome in (VisitOutcome.FAILED, VisitOutcome.SKIPPED):
            is_skip = page.outcome is VisitOutcome.SKIPPED
            await self._fail(page.reason, page=page, delay=self._follow_up.delay, skip=is_skip)
        else:
            # A stored refusal, such as an archived 503, has blocked the host for longer than any
            # delay; as an answer it would reset the failures that set the next block's length.
            refused = any(each.host == item.host for each in self._follow_up.back_offs)
            await self._complete(page.outcome, page, delay=NO_REST if refused else self._follow_up.delay)

    async def _carry_out(self, captured: CaptureResult) -> None:
        """Collect the rules' follow-up, and apply all of it but the item's own end."""
        item, context, follow_up = self._item, self._context, self._follow_up
        frontier = context.frontier

        def add(items: list[NewItem]) -> AddResult:
            return frontier.add(items, now=self._now())

        def back_off(failure: HostBackOff) -> datetime:
            return frontier.back_off(failure, now=self._now())

        await context.network.judge(captured.page)
        for rule in context.rules:
            await rule.after(item, captured, follow_up, now=self._now())
        links, added = await context.turns.assign(follow_up.links), 0
        for start in range(0, len(links), LINKS_AT_ONCE):
            result = await self._retrying(partial(add, links[start : start + LINKS_AT_ONCE]))
            added += result.added
        if added:
            context.report(LinksAdded(item.url, added))
        if follow_up.rests:
            await self._retrying(lambda: frontier.rest(follow_up.rests, now=self._now()))
        for each in follow_up.back_offs:
            await self._retrying(partial(back_off, each))

    async def _complete(
        self, outcome: VisitOutcome, page: PageInfo | None, *, delay: timedelta | None, attempts: int = 0
    ) -> None:
        item, frontier, follow_up = self._item, self._context.frontier, self._follow_up
        completed = await self._retrying(
            lambda: frontier.complete(
                item,
                now=self._now(),
                outcome=str(outcome),
                duration=_duration(page),
                delay=delay,
                stored_bytes=page.stored_bytes if page is not None else 0,
                due=follow_up.due,
                memo=follow_up.memo,
            )
        )
        if completed:
            self._context.report(PageDone(item.url, page, "", item.attempts + attempts))

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
        item, frontier = self._item, self._context.frontier
        end = frontier.skip if skip else frontier.fail
        ended = await self._retrying(
            lambda: end(item, now=self._now(), reason=reason, duration=_duration(page), delay=delay)
        )
        if ended and skip:
            self._context.report(PageSkipped(item.url, reason))
        elif ended:
            self._context.report(PageDone(item.url, page, reason, item.attempts + attempts))

    async def _retry(
        self,
        reason: str,
        page: PageInfo | None = None,
        *,
        not_before: datetime | None = None,
        delay: timedelta | None = None,
    ) -> None:
        item, frontier = self._item, self._context.frontier
        delay = self._follow_up.delay if delay is None else delay
        if self._is_only_attempt:
            await self._fail(reason, page=page, delay=delay)
            return
        state = await self._retrying(
            lambda: frontier.retry(
                item, now=self._now(), reason=reason, not_before=not_before, duration=_duration(page), delay=delay
            )
        )
        if state is ItemState.DEAD:
            self._context.report(PageDone(item.url, None, reason, item.attempts))
        elif state is ItemState.QUEUED:
            self._context.report(PageRetried(item.url, reason, item.attempts))

    async def _note_internal_error(self, error: BaseException) -> None:
        """Count an attempt of the page (if only by its lease's end); end the run when consecutive pages fail so."""
        item, broken = self._item, self._context.broken
        text = " ".join(f"{type(error).__name__}: {error}".split())[:_REASON_CHARS]
        log.error("visit.internal_error url=%s error=%s", item.url, text, exc_info=error)
        broken.add(item.url)
        try:
            await self._retry(f"internal error: {text}")
        except errors.UnavailableError:
            raise  # without a frontier no work is possible
        except Exception:
            log.exception("visit.not_recorded url=%s", item.url)
        if len(broken) >= MAX_INTERNAL_ERRORS:
            raise errors.InvariantError(
                f"{len(broken)} pages in a row ended with an internal error of Weboid, the last "
                f"with {text}. The log has each with its traceback: please report it. Nothing that "
                "was archived is lost, and the same command continues with the rest."
            )

    async def _release(self, reason: str) -> None:
        item, context = self._item, self._context
        await self._retrying(lambda: release_item(item, context, reason))

    async def _retrying(self, operation: Callable[[], _T]) -> _T:
        return await self._context.patience.ask(operation)

    def _now(self) -> datetime:
        return self._context.clock.now()


def release_item(item: FrontierItem, context: CrawlContext, reason: str) -> None:
    """Release an item whose visit was broken off; the host may have received requests and is delayed."""
    now = context.clock.now()
    rest = timedelta(seconds=context.settings_for(item).politeness.min_delay_s)
    context.frontier.rest({item.host: now + rest}, now=now)
    context.frontier.release(item, now=now, reason=reason)


def _duration(page: PageInfo | None) -> timedelta | None:
    return timedelta(seconds=page.seconds) if page is not None else None
