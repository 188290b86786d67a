"""Visit rule protocol: decision before a visit, and follow-up after it.

    claim ─> before: visit │ skip │ fail │ later    visit ─> after: links, due, delays, … ─> complete

The first rule that objects in `before` decides, and its reason is recorded. `after` adds to one
`FollowUp`, which the worker applies: first what must be durable (links, delays), then the item's end.
A worker that crashes in between does all of it again, so every effect must be idempotent.

Rules are called concurrently by several workers of one process, from one event loop. Apart from
caches they hold no state that other machines do not see.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from crawler.capture.page_capture import CaptureResult
from crawler.frontier.base import FrontierItem, NewItem


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
    asked: bool = False  # it took a request to the host, so that its delay applies


ALLOW_VISIT = RuleDecision()


class HostBackOff(NamedTuple):
    """The arguments of `Frontier.back_off`."""

    host: str
    reason: str
    at_least: datetime | None = None
    down: bool = False


@dataclass(slots=True)
class FollowUp:
    """Follow-up of a visit; each rule adds its part."""

    links: list[NewItem] = field(default_factory=list)  # URLs to add to the frontier
    delay: timedelta | None = None  # the host's; the longest request wins; None: by the settings
    rests: dict[str, datetime] = field(default_factory=dict)  # other hosts: not visited before
    back_offs: list[HostBackOff] = field(default_factory=list)  # hosts that failed or refused us
    due: datetime | None = None  # when the page is visited again; None: never
    memo: str = ""  # value to remember for the page

    def wish_delay(self, delay: timedelta) -> None:
        """Set the host's delay to at least this."""
        self.delay = delay if self.delay is None else max(self.delay, delay)

    def wish_rest(self, host: str, until: datetime) -> None:
        """Delay visits of another host at least until then."""
        self.rests[host] = max(self.rests.get(host, until), until)


class VisitRule:
    """Base of visit rules; see the module. By default it allows every visit and adds nothing."""

    async def before(self, item: FrontierItem, *, now: datetime) -> RuleDecision:  # noqa: ARG002 a rule
        """Decide whether to visit the item."""
        return ALLOW_VISIT

    async def after(
        self, item: FrontierItem, captured: CaptureResult, follow_up: FollowUp, *, now: datetime
    ) -> None:
        """Add the follow-up of the visit; called also when the visit will be tried again."""
