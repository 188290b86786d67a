"""When a page is visited again: sooner when it has changed since, later when it has not.

What is compared is the page's visible text (`core.pages.PageInfo.text_digest`): the source of most
pages differs each time although nothing that a reader sees does. A wall, a parked domain or a page
that says that it is gone shows nothing of the page, which therefore counts as neither changed nor
unchanged; one that answers 404 or 410 is not due again. Between two visits the frontier
remembers the interval and the digest as the URL's memo.
"""

import json
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.classes import NOT_THE_PAGE
from core.durations import parse_duration
from core.pages import Outcome, PageInfo
from core.settings import RecrawlSettings, Settings
from crawler.frontier.base import FrontierItem, Lane
from crawler.policy.rule import GONE
from crawler.rules import VISIT, Action, Aftermath, Follower, Verdict
from crawler.visiting import Captured

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Memo:
    """What is remembered of a page.

    Attributes:
        interval_s: the time until the visit after.
        digest: what it looked like; empty when that is unknown.
    """

    interval_s: float
    digest: str

    def __str__(self) -> str:
        """The memo as the frontier keeps it; `parse_memo` reads it."""
        return json.dumps([round(self.interval_s, 3), self.digest], separators=(",", ":"))


def parse_memo(text: str) -> Memo | None:
    """The memo; None when there is none, or when another version wrote it."""
    try:
        interval_s, digest = json.loads(text)
        memo = Memo(float(interval_s), str(digest))
    except (ValueError, TypeError, OverflowError):
        return None
    return memo if math.isfinite(memo.interval_s) else None


def next_memo(old: Memo | None, digest: str, settings: RecrawlSettings) -> Memo:
    """What to remember now; its interval is within the bounds that the settings draw."""
    if settings.every:
        interval_s = parse_duration(settings.every).total_seconds()
        return Memo(interval_s, digest or (old.digest if old is not None else ""))
    if old is None:
        interval_s = settings.first_s
    elif not digest or not old.digest:
        interval_s = old.interval_s
    elif digest == old.digest:
        interval_s = old.interval_s * settings.unchanged_factor
    else:
        interval_s = old.interval_s * settings.changed_factor
    bounded = max(min(interval_s, settings.max_s), settings.min_s)
    return Memo(bounded, digest or (old.digest if old is not None else ""))


class RecrawlRule(Follower):
    """A `Rule` of when pages are due."""

    def __init__(self, settings_for: Callable[[FrontierItem], Settings]) -> None:
        """Take what says which settings hold for an item."""
        super().__init__(settings_for)
        self._made: deque[datetime] = deque()  # captures made again in the last hour

    async def before(self, item: FrontierItem, *, now: datetime) -> Verdict:
        """Put off a page that is due again, while an hour's share of such visits is used up.

        New links wait behind no more of them than that: they come in the same lane.
        """
        most = self._settings_for(item).recrawl.per_hour
        if not most or item.lane is not Lane.HIGH or parse_memo(item.memo) is None:
            return VISIT
        while self._made and self._made[0] <= now - HOUR:
            self._made.popleft()
        if len(self._made) >= most:
            return Verdict(Action.LATER, "recrawl: enough in this hour", self._made[0] + HOUR)
        self._made.append(now)
        return VISIT

    async def after(
        self, item: FrontierItem, captured: Captured, aftermath: Aftermath, *, now: datetime
    ) -> None:
        """Say when the page is due again. A page that was not kept is not: it was given up."""
        if captured.page.outcome in (Outcome.COMPLETE, Outcome.PARTIAL):
            self.schedule(item, captured.page, aftermath, now=now)

    def schedule(
        self, item: FrontierItem, page: PageInfo | None, aftermath: Aftermath, *, now: datetime
    ) -> None:
        """The same for a page whose visit was over before its worker could say so (None)."""
        settings = self._settings_for(item).recrawl
        is_gone = page is not None and page.status in GONE
        if is_gone or not (settings.enabled or settings.every):
            aftermath.memo = item.memo
            return
        memo = next_memo(parse_memo(item.memo), _look(page), settings)
        aftermath.memo = str(memo)
        aftermath.due = now + timedelta(seconds=memo.interval_s)


def _look(page: PageInfo | None) -> str:
    """The digest of what the page looked like; empty when that was not seen."""
    return "" if page is None or page.page_class in NOT_THE_PAGE else page.text_digest
