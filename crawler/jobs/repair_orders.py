"""Orders of repairs: the next visit of a URL makes an earlier capture good.

A repair keeps the item's job, host slot and place. Its profile's visit settings override the item's
own, and payloads use a dedup bucket of the repair: with the usual one a revisit record would refer to
the very payload that is damaged. Politeness, robots and scope apply as for any visit.
"""

import json
import logging
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from functools import cache
from typing import Any

from core.config.settings import Settings
from core.errors import ConfigError, InputError
from core.layout import check_name
from core.urls import identity_key
from crawler.frontier.base import REPAIR_ORDER, Frontier
from crawler.profiles import SHEETS, chain_settings, load_chain, merge_chain

log = logging.getLogger(__name__)

REPAIR_PROFILE = "thorough"
# Of that profile; the rest belongs to the machine, the site or the crawl.
REPAIR_GROUPS = ("visit", "behaviours", "proxy", "media")
_BUCKET_LIMIT = 100


@dataclass(frozen=True, slots=True)
class RepairVisit:
    """Parameters of a URL's next visit that repairs an earlier capture."""

    page_id: str  # of the capture to repair
    bucket: str  # the dedup bucket
    login: str = ""  # the name of the login that the page was captured with; empty: without
    profile: str = REPAIR_PROFILE  # the profile that overrides the item's settings
    item_before: str = ""  # of the URL when this was ordered; a newer one was queued for it

    def to_json(self) -> str:
        """Encode the repair as an order's value; `parse_repair` reads it."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def lay_over(self, settings: Settings) -> Settings:
        """Return the visit's settings; a profile that this machine does not have is ignored."""
        try:
            settings = overlay_profile(settings, self.profile, REPAIR_GROUPS)
        except ConfigError as error:
            log.warning("repair.profile_missing error=%s", error)
        proxy = replace(settings.proxy, dedup_bucket=self.bucket)
        visit = replace(settings.visit, rendered_share=1.0, fresh=True)
        return replace(settings, proxy=proxy, visit=visit)


def parse_repair(text: str) -> RepairVisit:
    """Parse a repair from `RepairVisit.to_json`, ignoring unknown keys. Raises InputError if it is none."""
    try:
        document = json.loads(text)
        known = {each.name: document[each.name] for each in fields(RepairVisit) if each.name in document}
        repair = RepairVisit(**known)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"Not a repair: {error}.") from error
    if not all(isinstance(value, str) for value in asdict(repair).values()):
        raise InputError("Not a repair: a value is no text.")
    check_name(repair.bucket, of="a dedup bucket", limit=_BUCKET_LIMIT)
    return repair


def bucket_for(now: datetime) -> str:
    """Return the name of a new dedup bucket.

    >>> bucket_for(datetime(2026, 11, 22, 1, 40, 7, 123456))
    'repair-20261122014007123'
    """
    return f"repair-{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03}"


def order_repair(frontier: Frontier, url: str, repair: RepairVisit) -> None:
    """Store an order that makes the next visit of the URL that repair."""
    frontier.give_order(REPAIR_ORDER, identity_key(url), repair.to_json())


def cancel_repair(frontier: Frontier, url: str) -> None:
    """Delete the order of a URL's repair."""
    frontier.take_back(REPAIR_ORDER, identity_key(url))


def read_repairs(frontier: Frontier) -> dict[str, RepairVisit]:
    """Read the ordered repairs by identity key; unreadable ones are logged and left out."""
    repairs = {}
    for key, text in frontier.orders(REPAIR_ORDER).items():
        try:
            repairs[key] = parse_repair(text)
        except InputError as error:
            log.warning("repair.unreadable error=%s", error)
    return repairs


def overlay_profile(settings: Settings, name: str, groups: Collection[str]) -> Settings:
    """Return the settings with a profile's values for these groups applied; errors as `load_profile`."""
    for group, keys in _changes(name).items():
        if group in groups:
            settings = replace(settings, **{group: replace(getattr(settings, group), **keys)})
    return settings


@cache
def _changes(name: str) -> dict[str, dict[str, Any]]:
    """Return a profile's values by group, types checked."""
    chain = load_chain(name)
    named, whole = merge_chain(chain), chain_settings(chain)
    return {
        group: {key: getattr(getattr(whole, group), key) for key in table}
        for group, table in named.items()
        if group not in SHEETS
    }
