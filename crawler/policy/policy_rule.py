"""Policy rule: evaluation before a visit, and consequences after it (noarchive, failures, bans).

    page or headers say noarchive  ─> the page is SKIPPED, its site blocked for `ban_s` (A05)
    404, 410                       ─> the link has failed, and is not visited again for `ban_s` (A06)
    `ban_failures` URLs in a row   ─> the site is blocked for `ban_failures_s`, and its queued items
                                      are deferred until then (A07)

Redirects are no failures for A06: most are moves to https. A redirect to a refused URL is handled as a visit of it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING

from core.clock import Clock
from core.config.settings import PolicySettings, Settings
from core.errors import BadUrlError, InvariantError
from core.page_classes import GONE_STATUSES
from core.page_manifest import PageInfo, VisitOutcome
from core.urls import host_of, identity_key
from crawler.frontier.base import Frontier, FrontierItem, Lane
from crawler.policy import policy_evaluator
from crawler.rules.visit_rule import ALLOW_VISIT, FollowUp, RuleAction, RuleDecision, VisitRule
from render.visit import Visit

if TYPE_CHECKING:
    from crawler.capture.page_capture import CaptureResult
    from crawler.capture.proxy_fetcher import FileFetcher
    from crawler.policy.robots_cache import OriginRobots

SITE_FAILURES_NOTE = "site-failures"  # the kind of note that counts URLs of a host that failed in a row
FAILED_ROW_S = 604_800.0  # failures further apart are not consecutive
NOARCHIVE = "noarchive:"
SITE_CLOSED = "robots.txt forbids the whole site"
# Failures on our side, not the site's.
_OUR_FAULTS = ("address:", "host:", "port:", "limit:", "proxy:", "browser:", "closed", "crashed")


@dataclass(eq=False, repr=False)
class PolicyRule(VisitRule):
    """`VisitRule` of the exclusion policy; `ask` is `net.backoff.StoreRetry.ask`."""

    judge: policy_evaluator.PolicyEvaluator
    _: KW_ONLY
    settings_for: Callable[[FrontierItem], Settings]
    clock: Clock
    ask: policy_evaluator.Ask

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:
        """Return the first objection of a policy rule.

        Raises ConfigError (a list cannot be read at first), ProxyUnavailableError, DiskFullError, LimitReachedError.
        """
        await self.refresh()
        was_asked = False
        async for opinion in self.judge.opinions(item, self.settings_for(item), now=now):
            if opinion.text == policy_evaluator.NOT_KNOWN:
                raise InvariantError("robots.txt is to be obeyed, but no proxy is available to fetch it.")
            was_asked = was_asked or opinion.verdict.was_asked
            if opinion.closes_site:
                await self._ban(item.url, item, SITE_CLOSED, now=now)
            if opinion.is_against:
                return opinion.verdict
        return await self._after_asking(item, now=now) if was_asked else ALLOW_VISIT

    async def _after_asking(self, item: FrontierItem, *, now: datetime) -> RuleDecision:
        """Defer the page so that the host delay applies after its robots.txt; not when that would expire."""
        settings = self.settings_for(item)
        rest = timedelta(seconds=settings.politeness.min_delay_s)
        delay = await self._crawl_delay(item, self._policy(item, now=now), now=now)
        if delay is not None and item.lane is not Lane.NOW:
            rest = max(rest, delay)
        if not timedelta(0) < 2 * rest < timedelta(seconds=settings.policy.robots_lifetime_s):
            return RuleDecision(was_asked=True)
        until = now + rest
        await self.ask(lambda: self.judge.frontier.rest({item.host: until}, now=now))
        return RuleDecision(RuleAction.LATER, "robots: read; the host rests first", until, was_asked=True)

    async def explain(self, item: FrontierItem, *, now: datetime) -> list[policy_evaluator.PolicyOpinion]:
        """Return the opinions of all policy rules on the item; raises as `before`."""
        await self.refresh()
        return [each async for each in self.judge.opinions(item, self.settings_for(item), now=now)]

    async def refresh(self) -> None:
        """Read entries and lists that have changed; raises as `before`."""
        await self.judge.book.refresh()
        if self.judge.lists is not None:
            await self.judge.lists.refresh(monotonic=self.clock.monotonic())

    def forbids(self, item: FrontierItem) -> Callable[[Visit], str]:
        """Return a function for `crawler.capture.page_capture.capture`: why a visit must not be archived."""

        def why(visit: Visit) -> str:
            now = self.clock.now()
            if visit.final_url != visit.url:
                with suppress(BadUrlError):  # data:, blob: and the like belong to no site
                    refused = self.judge.refusing(visit.final_url, now=now)
                    if refused:
                        return f"redirect: {visit.final_url[:200]} ({refused})"
            policy = self._policy(item, now=now)
            header = visit.headers.get("x-robots-tag", "")
            is_stated = policy.noarchive == "obey" and (header or visit.robots_meta)
            if not is_stated or self.judge.allowing(item.url, now=now) is not None:
                return ""
            from crawler.policy.robots import forbidding_reason

            return forbidding_reason([header], visit.robots_meta, agent=policy.robots_agent, now=now)

        return why

    async def after(self, item: FrontierItem, captured: CaptureResult, follow_up: FollowUp, *, now: datetime) -> None:
        """Apply the robots.txt delay to the host, and record failures and prohibitions."""
        policy = self._policy(item, now=now)
        delay = await self._crawl_delay(item, policy, now=now)
        if delay is not None:
            follow_up.request_delay(delay)
        page = captured.page
        await self._count(page, policy, now=now)
        if captured.again:
            return
        if page.outcome is VisitOutcome.SKIPPED and page.reason.startswith(NOARCHIVE):
            await self._ban(page.final_url, item, page.reason, now=now)
        key = identity_key(item.url)
        if page.status in GONE_STATUSES and page.outcome is not VisitOutcome.FAILED:
            if policy.ban_s > 0:
                until = now + timedelta(seconds=min(policy.ban_s, 1e9))
                note = f"status {page.status} on {now:%Y-%m-%d}; not asked for again before {until:%Y-%m-%d}"
                await self._put(policy_evaluator.FAILED_LINK_NOTE, key, note, now=now, until=until)
        elif page.outcome in (VisitOutcome.COMPLETE, VisitOutcome.PARTIAL):
            await self._forget(policy_evaluator.FAILED_LINK_NOTE, key, now=now)

    async def _crawl_delay(self, item: FrontierItem, policy: PolicySettings, *, now: datetime) -> timedelta | None:
        """Return the delay that robots.txt requests, as far as the settings honour it."""
        if policy.robots != "obey":
            return None
        known = await self.judge.robots.known(item.url, policy, now=now)
        robots = known.holds(now=now) if known is not None else None
        if robots is None or not robots.crawl_delay_s:
            return None
        limit_s = self.settings_for(item).politeness.crawl_delay_limit_s
        return timedelta(seconds=min(robots.crawl_delay_s, limit_s))

    async def _count(self, page: PageInfo, policy: PolicySettings, *, now: datetime) -> None:
        """Count different URLs that failed in a row, repeated attempts too; ban a site after too many."""
        if policy.ban_failures <= 0 or page.reason.startswith(_OUR_FAULTS):
            return
        host = host_of(page.url)
        failed = page.outcome is VisitOutcome.FAILED or (page.status or 0) >= 500
        if not failed:
            await self._forget(SITE_FAILURES_NOTE, host, now=now)
            return
        note = await self.ask(lambda: self.judge.frontier.note(SITE_FAILURES_NOTE, host, now=now))
        try:
            listed = json.loads(note or "[]")
        except (ValueError, RecursionError):
            listed = []
        known = [str(each) for each in listed] if isinstance(listed, list) else []
        spelled = identity_key(page.url).encode("utf-8", "surrogatepass")
        row = list(dict.fromkeys([*known, blake2b(spelled, digest_size=4).hexdigest()]))
        if len(row) < policy.ban_failures:
            if row != known:
                until = now + timedelta(seconds=min(max(policy.ban_failures_s, FAILED_ROW_S), 1e9))
                await self._put(SITE_FAILURES_NOTE, host, json.dumps(row), now=now, until=until)
            return
        from crawler.policy.policy_entries import FAILING_SITE

        why = page.reason or f"status {page.status}"
        reason = f"{len(row)} URLs in a row failed, the last: {why}"
        seconds = policy.ban_failures_s
        await self.judge.book.ban(page.url, reason, seconds=seconds, now=now, key=FAILING_SITE)
        await self._forget(SITE_FAILURES_NOTE, host, now=now)

    async def _put(self, kind: str, key: str, note: str, *, now: datetime, until: datetime) -> None:
        await self.ask(lambda: self.judge.frontier.put_note(kind, key, note, now=now, until=until))

    async def _forget(self, kind: str, key: str, *, now: datetime) -> None:
        """Delete the note, if there is one: reading is cheaper than writing."""
        if await self.ask(lambda: self.judge.frontier.note(kind, key, now=now)) is not None:
            await self.ask(lambda: self.judge.frontier.erase_note(kind, key))

    async def _ban(self, url: str, item: FrontierItem, reason: str, *, now: datetime) -> None:
        """Block the URL's site for the duration in the item's settings."""
        seconds = self._policy(item, now=now).ban_s
        await self.judge.book.ban(url, reason, seconds=seconds, now=now)

    def _policy(self, item: FrontierItem, *, now: datetime) -> PolicySettings:
        return self.judge.policy_for(item.url, self.settings_for(item).policy, now=now)


def make_policy(  # noqa: PLR0913 dependencies
    frontier: Frontier,
    policy: PolicySettings,
    *,
    fetcher: Callable[[], FileFetcher] | None,
    settings_for: Callable[[FrontierItem], Settings],
    clock: Clock,
    ask: policy_evaluator.Ask,
    judge_network: Callable[[PageInfo], Awaitable[None]] | None = None,
) -> PolicyRule:
    """Build the policy rule; without a fetcher only cached robots.txt files are used, for `explain` alone."""
    book = policy_evaluator.PolicyEntryCache(frontier, clock=clock, ask=ask)

    def make_robots() -> OriginRobots:
        from crawler.policy.robots_cache import OriginRobots

        fetch = None if fetcher is None else fetcher()
        return OriginRobots(frontier, fetch, ask=ask, judge=judge_network)

    lists = None
    if policy.lists:
        from crawler.policy.policy_entries import BlocklistCache

        lists = BlocklistCache(policy.lists)
    judge = policy_evaluator.PolicyEvaluator(frontier, book, lists, make_robots, ask=ask)
    return PolicyRule(judge, settings_for=settings_for, clock=clock, ask=ask)
