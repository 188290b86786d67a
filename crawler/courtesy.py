"""The courtesy that hosts are owed after a visit: how long they rest, and when they are left alone.

A visit asks more hosts than the page's own: those of its pictures, scripts and frames rest, too, so
that a page of theirs is not asked for at once (the frontier knows hosts only by the pages that wait
for them; the proxy holds what a visit does at one time to `egress.connections_per_host`). A host that
answers 429 or 503, to a page or to a part of one, or with a check for robots, is blocked, for as long as its Retry-After says
and twice as long each time in a row. A host that cannot be reached at all is tried again in the same
manner and given up after a few times (W46): what its other URLs would get is what this one got.
"""

from datetime import datetime, timedelta
from itertools import islice

from core.classes import PageClass
from core.errors import BadUrlError
from core.pages import Outcome, PageInfo
from core.urls import host_of
from crawler.frontier.base import FrontierItem
from crawler.politeness import host_delay
from crawler.rules import Aftermath, BackOff, Follower
from crawler.visiting import REFUSALS, Captured
from proxy.ways_out import UNREACHABLE

ASKED = timedelta(milliseconds=1)  # to the frontier no delay means that the host was not asked
HOSTS_LIMIT = 200  # of one page; a hostile page could name thousands


class CourtesyRule(Follower):
    """A `Rule` of what hosts are owed."""

    async def after(
        self, item: FrontierItem, captured: Captured, aftermath: Aftermath, *, now: datetime
    ) -> None:
        """Let the hosts that were asked rest, and those that refused or failed for longer."""
        page, politeness = captured.page, self._settings_for(item).politeness
        delay = host_delay(timedelta(seconds=page.seconds), politeness)
        aftermath.wish_delay(max(delay, ASKED))
        aftermath.back_offs += _page_back_offs(item, captured)
        rest = now + timedelta(seconds=politeness.min_delay_s)
        own = {item.host, _host(page.url)}
        for host, refused in islice(_hosts(page, without=own), HOSTS_LIMIT):
            aftermath.wish_rest(host, rest)
            if refused:
                aftermath.back_offs.append(BackOff(host, f"status {refused} for a part of a page"))


def _page_back_offs(item: FrontierItem, captured: Captured) -> list[BackOff]:
    """What the page's own answer says of its host."""
    page = captured.page
    target = _host(page.final_url)
    host = item.host if target in ("", _host(page.url)) else target
    if page.status in REFUSALS and not page.reason.startswith(UNREACHABLE):
        reason = f"Retry-After, status {page.status}" if captured.not_before else ""
        return [BackOff(host, reason or f"status {page.status}", captured.not_before)]
    if page.page_class is PageClass.CHALLENGE:
        return [BackOff(host, "challenge", captured.not_before)]
    if page.outcome is Outcome.FAILED and page.reason.startswith(UNREACHABLE):
        return [BackOff(host, page.reason, down=True)]
    return []


def _hosts(page: PageInfo, *, without: set[str]) -> list[tuple[str, int]]:
    """The other hosts that the page asked, each with a refusal of its, or 0."""
    found: dict[str, int] = {}
    for resource in page.resources:
        host = _host(resource.url)
        if host and host not in without:
            refused = resource.status if resource.status in REFUSALS else 0
            found[host] = found.get(host) or refused or 0
    return list(found.items())


def _host(url: str) -> str:
    try:
        return host_of(url)
    except BadUrlError:
        return ""  # data:, blob: and the like ask nobody
