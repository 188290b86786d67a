"""Visit rule protocol: decision before a visit, and follow-up after it.

    claim ─> before: visit │ skip │ fail │ later      visit ─> after: links, due, rests, … ─> complete

A rule is one noun: policy, robots.txt, scope, budget, recrawl, politeness. `before` says whether the
item is visited; the first rule that is against it decides, and what it says is recorded in the
books. `after` gets what was captured and adds to one `FollowUp`, which the worker carries out: first
what must not be lost (links, rests), then the item's own end. A worker that dies in between does all
of it again, so everything in an aftermath may be done twice.

Rules are called by several workers of one process at once, from one event loop. They hold no state
that other machines do not see, except caches.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from core.config.settings import Settings
from crawler.capture.page_capture import CaptureResult
from crawler.frontier.base import FrontierItem, NewItem


class RuleAction(StrEnum):
    """What becomes of an item before it is visited."""

    VISIT = "visit"
    SKIP = "skip"  # it is not to be visited: `Frontier.skip`
    FAIL = "fail"  # it cannot be: `Frontier.fail`
    LATER = "later"  # not now: `Frontier.release` with a moment


@dataclass(frozen=True, slots=True)
class RuleDecision:
    """A rule's word on an item.

    Attributes:
        action: what becomes of it.
        reason: why, a constant first, e.g. ``robots: /private is disallowed``; empty for VISIT.
        until: for LATER, not before this moment.
        asked: whether the host was asked in order to find out, so that it must rest.
    """

    action: RuleAction = RuleAction.VISIT
    reason: str = ""
    until: datetime | None = None
    asked: bool = False


ALLOW_VISIT = RuleDecision()


@dataclass(frozen=True, slots=True)
class HostBackOff:
    """The arguments of `Frontier.back_off`."""

    host: str
    reason: str
    at_least: datetime | None = None
    down: bool = False


@dataclass(slots=True)
class FollowUp:
    """What follows from a visit; each rule adds its part.

    Attributes:
        links: URLs to add to the frontier.
        delay: how long the host rests; the longest wish holds; None: by the settings.
        rests: hosts that were asked by the way, and until when they rest.
        back_offs: hosts that failed or refused us.
        due: when the page is visited again; None: never.
        memo: what to remember of the page.
    """

    links: list[NewItem] = field(default_factory=list)
    delay: timedelta | None = None
    rests: dict[str, datetime] = field(default_factory=dict)
    back_offs: list[HostBackOff] = field(default_factory=list)
    due: datetime | None = None
    memo: str = ""

    def wish_delay(self, delay: timedelta) -> None:
        """Let the host rest at least so long."""
        self.delay = delay if self.delay is None else max(self.delay, delay)

    def wish_rest(self, host: str, until: datetime) -> None:
        """Let another host rest at least until then."""
        self.rests[host] = max(self.rests.get(host, until), until)


class VisitRule(Protocol):
    """See the module."""

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:
        """Whether to visit the item."""
        ...

    async def after(
        self, item: FrontierItem, captured: CaptureResult, aftermath: FollowUp, *, now: datetime
    ) -> None:
        """Add what follows from the visit; it is also asked when the visit will be tried again."""
        ...


class FollowUpRule:
    """The part of a `VisitRule` that is against no visit: what it has to say follows from one."""

    def __init__(self, settings_for: Callable[[FrontierItem], Settings]) -> None:
        """Take what says which settings hold for an item."""
        self._settings_for = settings_for

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:  # noqa: ARG002 a rule
        """Nothing is against a visit: the frontier has kept the host's time, and the page's."""
        return ALLOW_VISIT
