"""When a page is visited again: sooner when it has changed since, later when it has not.

What is compared is the page's visible text (`core.pages.PageInfo.text_digest`): the source of most
pages differs each time although nothing that a reader sees does. A wall, a parked domain or a page
that says that it is gone shows nothing of the page, which therefore counts as neither changed nor
unchanged. Between two visits the frontier
remembers the interval and the digest as the URL's memo.
"""

import json
import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.classes import NOT_THE_PAGE
from core.pages import Outcome, PageInfo
from core.settings import RecrawlSettings
from crawler.frontier.base import FrontierItem
from crawler.rules import Aftermath, Follower
from crawler.visiting import Captured


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
        if not settings.enabled:
            aftermath.memo = item.memo
            return
        memo = next_memo(parse_memo(item.memo), _look(page), settings)
        aftermath.memo = str(memo)
        aftermath.due = now + timedelta(seconds=memo.interval_s)


def _look(page: PageInfo | None) -> str:
    """The digest of what the page looked like; empty when that was not seen."""
    return "" if page is None or page.page_class in NOT_THE_PAGE else page.text_digest
