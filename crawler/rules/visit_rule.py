"""Visit rules: the protocol, delay and back-off of hosts, and the date of the next recrawl.

    claim ─> before: visit │ skip │ fail │ later    visit ─> after: links, due, delays, … ─> complete

The first rule that objects in `before` decides. `after` adds to one `FollowUp`, which the worker applies: first what
must be durable (links, delays), then the item's end. A worker that crashes in between does all of it again, so every
effect must be idempotent. Apart from caches rules hold no state that other machines do not see.

Hosts of images, scripts and frames are delayed too. A host that answers 429 or 503, to a page or to a resource, or with
a bot challenge, is blocked for its Retry-After, and twice as long each time in a row; one that cannot be reached is
given up after a few times (W46): its other URLs would get the same result.

Changes are detected by the page's visible text (`core.page_manifest.PageInfo.text_digest`), as the source of most pages
differs at each visit. A page that answers 404 or 410 is not due again.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING

from core.config.settings import FrontierSettings, RecrawlSettings, Settings
from core.page_classes import GONE_STATUSES, NOT_THE_PAGE, REFUSAL_STATUSES, PageClass
from core.page_manifest import PageInfo, VisitOutcome
from core.timestamps import parse_duration
from core.urls import host_or_empty
from crawler.frontier.base import FrontierItem, HostBackOff, Lane, NewItem
from crawler.frontier.host_slots import host_delay
from net.connect_errors import NO_SUCH_HOST, UNREACHABLE

if TYPE_CHECKING:
    from crawler.capture.page_capture import CaptureResult


class RuleAction(StrEnum):
    """Action on an item before its visit."""

    VISIT = "visit"
    SKIP = "skip"  # it is not to be visited: `Frontier.skip`
    FAIL = "fail"  # it cannot be: `Frontier.fail`
    LATER = "later"  # not now: `Frontier.release` with a moment


@dataclass(frozen=True, slots=True)
class RuleDecision:
    """Decision of a rule on an item."""

    action: RuleAction = RuleAction.VISIT
    reason: str = ""  # why, a constant first: ``robots: /private is disallowed``; empty for VISIT
    until: datetime | None = None  # for LATER, not before this moment
    was_asked: bool = False  # it took a request to the host, so that its delay applies


ALLOW_VISIT = RuleDecision()


@dataclass(slots=True)
class FollowUp:
    """Follow-up of a visit; each rule adds its part."""

    links: list[NewItem] = field(default_factory=list)  # URLs to add to the frontier
    delay: timedelta | None = None  # the host's; the longest request wins; None: by the settings
    rests: dict[str, datetime] = field(default_factory=dict)  # other hosts: not visited before
    back_offs: list[HostBackOff] = field(default_factory=list)  # hosts that failed or refused us
    due: datetime | None = None  # when the page is visited again; None: never
    memo: str = ""  # value to remember for the page

    def request_delay(self, delay: timedelta) -> None:
        """Set the host's delay to at least this."""
        self.delay = delay if self.delay is None else max(self.delay, delay)


class VisitRule:
    """Base of visit rules; see the module. By default it allows every visit and adds nothing."""

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:  # noqa: ARG002 a rule
        """Decide whether to visit the item."""
        return ALLOW_VISIT

    async def after(self, item: FrontierItem, captured: CaptureResult, follow_up: FollowUp, *, now: datetime) -> None:
        """Add the follow-up of the visit; called also when the visit will be tried again."""


MINIMAL_REST = timedelta(milliseconds=1)  # to the frontier a delay of zero means that the host got no request
HOSTS_LIMIT = 200  # of one page; a hostile page could name thousands


@dataclass(eq=False, repr=False)
class PolitenessRule(VisitRule):
    """`VisitRule` of host delays and back-offs."""

    settings_for: Callable[[FrontierItem], Settings]

    async def after(self, item: FrontierItem, captured: CaptureResult, follow_up: FollowUp, *, now: datetime) -> None:
        """Delay the hosts that received requests; back off from those that refused or failed."""
        page, politeness = captured.page, self.settings_for(item).politeness
        delay = host_delay(timedelta(seconds=page.seconds), politeness)
        follow_up.request_delay(max(delay, MINIMAL_REST))
        follow_up.back_offs += _page_back_offs(item, captured)
        rest = now + timedelta(seconds=politeness.min_delay_s)
        own = {item.host, host_or_empty(page.url), ""}
        refusals: dict[str, int] = {}  # the refusing status, or 0, of the other hosts that received requests
        for resource in page.resources:
            if (host := host_or_empty(resource.url)) not in own:
                refused = resource.status if resource.status in REFUSAL_STATUSES else 0
                refusals[host] = refusals.get(host) or refused or 0
        for host, refused in islice(refusals.items(), HOSTS_LIMIT):
            follow_up.rests[host] = max(follow_up.rests.get(host, rest), rest)
            if refused:
                follow_up.back_offs.append(HostBackOff(host, f"status {refused} for a resource of a page"))


def waits_for_host(item: FrontierItem, settings: FrontierSettings) -> bool:
    """Return True when the item is tried again though its host does not exist; never while a user waits for it."""
    return settings.wait_for_sites and item.lane is not Lane.NOW


def _page_back_offs(item: FrontierItem, captured: CaptureResult) -> list[HostBackOff]:
    """Return the back-offs that follow from the page's own response."""
    page = captured.page
    target = host_or_empty(page.final_url)
    host = item.host if target in ("", host_or_empty(page.url)) else target
    if page.status in REFUSAL_STATUSES and not page.reason.startswith(UNREACHABLE):
        reason = f"Retry-After, status {page.status}" if captured.not_before else ""
        return [HostBackOff(host, reason or f"status {page.status}", captured.not_before)]
    if page.page_class is PageClass.CHALLENGE:
        return [HostBackOff(host, "challenge", captured.not_before)]
    if page.outcome is VisitOutcome.FAILED and page.reason.startswith(UNREACHABLE):
        # A host that does not exist needs no pause.
        return [HostBackOff(host, page.reason, down=True, blocks=not page.reason.startswith(NO_SUCH_HOST))]
    return []


ONE_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class RecrawlState:
    """Recrawl memo of a page."""

    interval_s: float  # the time between this visit and the next
    digest: str  # of its visible text; empty when unknown

    def __str__(self) -> str:
        """Format the memo for the frontier; `parse_recrawl_state` reads it."""
        return json.dumps([round(self.interval_s, 3), self.digest], separators=(",", ":"))


def parse_recrawl_state(text: str) -> RecrawlState | None:
    """Parse the memo; None when there is none, or when another version wrote it."""
    try:
        interval_s, digest = json.loads(text)
        memo = RecrawlState(float(interval_s), str(digest))
    except (ValueError, TypeError, OverflowError):
        return None
    return memo if math.isfinite(memo.interval_s) else None


def next_recrawl_state(old: RecrawlState | None, digest: str, settings: RecrawlSettings) -> RecrawlState:
    """Compute the new memo; its interval is within the configured bounds."""
    known = digest or (old.digest if old is not None else "")
    if settings.every:
        return RecrawlState(parse_duration(settings.every).total_seconds(), known)
    if old is None:
        interval_s = settings.first_s
    elif not digest or not old.digest:
        interval_s = old.interval_s
    elif digest == old.digest:
        interval_s = old.interval_s * settings.unchanged_factor
    else:
        interval_s = old.interval_s * settings.changed_factor
    return RecrawlState(max(min(interval_s, settings.max_s), settings.min_s), known)


@dataclass(eq=False, repr=False)
class RecrawlRule(VisitRule):
    """`VisitRule` of recrawl dates."""

    settings_for: Callable[[FrontierItem], Settings]
    _made: deque[datetime] = field(default_factory=deque, init=False)  # captures made again in the last hour

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:
        """Defer a due page while the hourly share of recrawls is used up.

        This bounds the recrawls that new links wait for, as both come in the same lane.
        """
        most = self.settings_for(item).recrawl.per_hour
        if not most or item.lane is not Lane.HIGH or parse_recrawl_state(item.memo) is None:
            return ALLOW_VISIT
        while self._made and self._made[0] <= now - ONE_HOUR:
            self._made.popleft()
        if len(self._made) >= most:
            return RuleDecision(RuleAction.LATER, "recrawl: enough in this hour", self._made[0] + ONE_HOUR)
        self._made.append(now)
        return ALLOW_VISIT

    async def after(self, item: FrontierItem, captured: CaptureResult, follow_up: FollowUp, *, now: datetime) -> None:
        """Set when the page is due again; a page that was given up never is."""
        if captured.page.outcome in (VisitOutcome.COMPLETE, VisitOutcome.PARTIAL):
            self.schedule(item, captured.page, follow_up, now=now)

    def schedule(self, item: FrontierItem, page: PageInfo | None, follow_up: FollowUp, *, now: datetime) -> None:
        """Set due date and memo; `page` is None for a finished visit whose item was not completed."""
        settings = self.settings_for(item).recrawl
        is_gone = page is not None and page.status in GONE_STATUSES
        if is_gone or not (settings.enabled or settings.every):
            follow_up.memo = item.memo
            return
        memo = next_recrawl_state(
            parse_recrawl_state(item.memo),
            "" if page is None or page.page_class in NOT_THE_PAGE else page.text_digest,
            settings,
        )
        follow_up.memo = str(memo)
        follow_up.due = now + timedelta(seconds=memo.interval_s)
