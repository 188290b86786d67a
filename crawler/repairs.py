"""Repairs as the frontier knows them: a URL whose next visit makes good what an earlier one broke.

An order names such a URL, so that every worker on every machine knows it; the item keeps its job, its
host and its turn. What the profile of repairs says of visits is laid over the item's own settings, and
payloads are kept in a dedup bucket of the repair's own: with the usual one a revisit record would point
to the very payload that is damaged. Politeness, robots and scope hold as for any visit.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime

from core.errors import ConfigError, InputError
from core.names import check_name
from core.settings import Settings
from core.urls import identity_key
from crawler.frontier.base import Frontier, FrontierItem
from crawler.logins import Logins
from crawler.profiles import laid_over
from crawler.rules import VISIT, Action, Aftermath, Verdict
from crawler.visiting import Captured

log = logging.getLogger(__name__)

REPAIR_ORDER = "repair"  # its kind; the key is the URL's identity key
REPAIR_PROFILE = "thorough"
# Of that profile; the rest belongs to the machine, the site or the crawl.
REPAIR_GROUPS = ("visit", "behaviours", "proxy", "media")
_BUCKET_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Repair:
    """How the next visit of a URL is made.

    Attributes:
        page_id: of the capture that is to be made good.
        bucket: the dedup bucket.
        login: the name of the login that the page was captured with; empty: without.
        profile: the profile that is laid over the item's settings.
        item_before: the id that the URL's item had when this was ordered; one of another id was queued
            for it. Empty: there was none.
    """

    page_id: str
    bucket: str
    login: str = ""
    profile: str = REPAIR_PROFILE
    item_before: str = ""

    def to_json(self) -> str:
        """The repair as an order's value; `parse_repair` reads it."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def lay_over(self, settings: Settings) -> Settings:
        """The settings of the visit; without the profile, where this machine has none of that name."""
        try:
            settings = laid_over(settings, self.profile, REPAIR_GROUPS)
        except ConfigError as error:
            log.warning("repair.profile_missing error=%s", error)
        proxy = replace(settings.proxy, dedup_bucket=self.bucket)
        visit = replace(settings.visit, rendered_share=1.0)
        return replace(settings, proxy=proxy, visit=visit)


def parse_repair(text: str) -> Repair:
    """The repair that `Repair.to_json` wrote; keys it does not know are left out.

    Raises:
        InputError: it is none.
    """
    try:
        document = json.loads(text)
        known = {each.name: document[each.name] for each in fields(Repair) if each.name in document}
        repair = Repair(**known)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"Not a repair: {error}.") from error
    if not all(isinstance(value, str) for value in asdict(repair).values()):
        raise InputError("Not a repair: a value is no text.")
    check_name(repair.bucket, of="a dedup bucket", limit=_BUCKET_LIMIT)
    return repair


def bucket_for(now: datetime) -> str:
    """A bucket that nothing was kept in before.

    >>> bucket_for(datetime(2026, 11, 22, 1, 40, 7, 123456))
    'repair-20261122014007123'
    """
    return f"repair-{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03}"


def give_repair(frontier: Frontier, url: str, repair: Repair) -> None:
    """Let the next visit of the URL be that repair."""
    frontier.give_order(REPAIR_ORDER, identity_key(url), repair.to_json())


def take_back_repair(frontier: Frontier, url: str) -> None:
    """Let visits of the URL be as they were."""
    frontier.take_back(REPAIR_ORDER, identity_key(url))


def read_repairs(frontier: Frontier) -> dict[str, Repair]:
    """The repairs that are ordered, by identity key; what cannot be read is told and left out."""
    found = {}
    for key, text in frontier.orders(REPAIR_ORDER).items():
        try:
            found[key] = parse_repair(text)
        except InputError as error:
            log.warning("repair.unreadable error=%s", error)
    return found


class RepairRule:
    """A `Rule`: a repair is made as whom the page was captured, and leads nowhere.

    Its links were followed, or left, when the page was captured first.
    """

    def __init__(self, repair_of: Callable[[str], Repair | None], logins: Logins) -> None:
        """Take what says which repair a URL's next visit is, and the logins of the run."""
        self._repair_of = repair_of
        self._logins = logins

    async def before(self, item: FrontierItem, *, now: datetime) -> Verdict:  # noqa: ARG002 a rule
        """Against a visit with another login than the page was captured with."""
        repair = self._repair_of(item.url)
        if repair is None:
            return VISIT
        login = self._logins.of(item.url)
        name = login.name if login is not None else ""
        if name == repair.login:
            return VISIT
        if repair.login:
            return Verdict(Action.FAIL, f"login: this run has not the login {repair.login}")
        return Verdict(Action.FAIL, f"login: it was captured without one, and this run has {name}")

    async def after(
        self, item: FrontierItem, captured: Captured, aftermath: Aftermath, *, now: datetime
    ) -> None:
        """Leave out what the page links to."""
        del captured, now
        if self._repair_of(item.url) is not None:
            aftermath.links.clear()
