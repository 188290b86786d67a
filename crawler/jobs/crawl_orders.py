"""Orders of a crawl, which reach every worker through the frontier: jobs, sheets of sites, and repairs of captures.

Machine settings (proxy, egress, browser, frontier) are the worker's own; crawl settings (`JOB_GROUPS` and the sheets)
are the job's. A repair, a URL's next visit that makes an earlier capture good, uses its profile's visit settings and a
dedup bucket of its own: with the usual one a revisit record would refer to the very payload that is damaged.
"""

import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Any

from core.config.profile import parse_settings
from core.config.settings import ScopeSettings, Settings
from core.config.sheets import Sheet, parse_sheet
from core.errors import BadUrlError, ConfigError, InputError
from core.json_values import read_json
from core.layout import check_name
from core.timestamps import parse_warc_date, warc_date
from core.urls import fetch_key, host_of, identity_key
from crawler.frontier.base import REPAIR_ORDER, Frontier, Lane
from crawler.jobs.job_settings import SHEET_ORDER
from crawler.profiles import SHEETS, chain_settings, load_chain, merge_chain

log = logging.getLogger(__name__)

JOB_VERSION = 1
JOB_GROUPS = ("visit", "politeness", "scope", "policy", "recrawl")
SEEDS_LIMIT = 200_000
NAME_LIMIT = 100
_CONTROLS = re.compile("[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Job:
    """Crawl job."""

    name: str  # letters, digits, dots, hyphens and underscores
    seeds: tuple[str, ...]  # fetch keys
    settings: Settings  # of these `JOB_GROUPS` and the sheets apply
    lane: Lane  # the lane of its seeds and the links it finds
    made_at: datetime  # when it was first submitted

    def to_json(self) -> str:
        """Encode the job as an order's value."""
        return json.dumps(
            {
                "version": JOB_VERSION,
                "seeds": self.seeds,
                "lane": self.lane.name.lower(),
                "made_at": warc_date(self.made_at),
                "settings": settings_text(self.settings),
            },
            ensure_ascii=False,
        )


def parse_job(name: str, text: str) -> Job:
    """Parse a job from `Job.to_json`; ConfigError, with the reason, for another version or unusable settings."""
    where = f"job {name!r}"
    try:
        document: dict[str, Any] = json.loads(text)
        if document["version"] != JOB_VERSION:
            raise ConfigError(
                f"{where} is of version {document['version']!r}, this release reads {JOB_VERSION}: use the release "
                "that made it."
            )
        return Job(
            name=name,
            seeds=tuple(fetch_key(seed, allow_single_label=True) for seed in document["seeds"]),
            settings=parse_settings(document["settings"], source=where),
            lane=Lane[document["lane"].upper()],
            made_at=parse_warc_date(document["made_at"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, BadUrlError) as error:
        raise ConfigError(f"{where} cannot be read: {error}.") from error


def check_job_name(name: str) -> str:
    """Return the job name if it is valid. Raises InputError if it is not valid."""
    return check_name(name, of="a crawl", limit=NAME_LIMIT)


def derive_job_name(seeds: Sequence[str]) -> str:
    """Return a name for a crawl without one, determined by its seeds.

    >>> derive_job_name(["https://example.org/wiki/"])
    'example.org-0f095c'
    """
    keys = sorted({identity_key(seed) for seed in seeds})
    host = re.sub(r"[^A-Za-z0-9.-]", "", host_of(seeds[0]))[:60].strip(".-") or "crawl"
    return f"{host}-{sha256(chr(10).join(keys).encode()).hexdigest()[:6]}"


def jobs_of_groups(
    groups: Mapping[ScopeSettings, tuple[str, ...]], settings: Settings, lane: Lane, name: str, *, now: datetime
) -> list[Job]:
    """Return a job for each group of seeds: named `name`, `name`-1 and so on, or after its seeds. Raises InputError."""
    base = check_job_name(name) if name else ""
    return [
        Job(
            name=derive_job_name(seeds) if not base else f"{base}-{number}" if number else base,
            seeds=seeds,
            settings=replace(settings, scope=own),
            lane=lane,
            made_at=now,
        )
        for number, (own, seeds) in enumerate(groups.items())
    ]


def settings_text(settings: Settings) -> str:
    """Format a job's settings as TOML; `core.config.settings.parse_settings` reads it."""
    default, lines = Settings(), []
    for name in JOB_GROUPS:
        group, usual = getattr(settings, name), getattr(default, name)
        keys = [each.name for each in fields(group)]
        changed = {key: getattr(group, key) for key in keys if getattr(group, key) != getattr(usual, key)}
        if changed:
            lines.append(f"[{name}]")
            lines += [f"{key} = {toml_value(value)}" for key, value in changed.items()]
    for sheet in settings.sheets:
        lines += ["[[sheet]]", f"prefix = {toml_value(sheet.prefix)}"]
        for name, keys_ in sheet.changes().items():
            lines += [f"{name}.{key} = {toml_value(value)}" for key, value in keys_.items()]
    return "".join(f"{line}\n" for line in lines)


def toml_value(value: object) -> str:
    """Format a setting's value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        pairs = (f"{toml_value(str(key))} = {toml_value(each)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    return repr(value)


def change_sheet(
    frontier: Frontier, prefix: str, changes: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Add changes to the sheet of a SURT prefix, and return all of its changes; ConfigError for unsuitable settings."""
    text = frontier.orders(SHEET_ORDER).get(prefix)
    before = parse_live_sheet(prefix, text).changes() if text else {}
    groups = {*before, *changes}
    document = {name: {**before.get(name, {}), **changes.get(name, {})} for name in sorted(groups)}
    whole = {name: dict(keys) for name, keys in parse_sheet(prefix, document).changes().items()}
    frontier.give_order(SHEET_ORDER, prefix, json.dumps(whole))
    return whole


def live_sheets(frontier: Frontier) -> list[Sheet]:
    """Read the sheets that were set while the crawl runs; unreadable ones are logged and left out."""
    sheets = []
    for prefix, text in frontier.orders(SHEET_ORDER).items():
        try:
            sheets.append(parse_live_sheet(prefix, text))
        except ConfigError as error:
            log.warning("sheet.unreadable error=%s", error)
    return sheets


def parse_live_sheet(prefix: str, text: str) -> Sheet:
    """Parse the sheet in an order. Raises ConfigError for none, or keys unknown to this version."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ConfigError(f"sheet {prefix!r} is not a table.")
    except ValueError as error:
        raise ConfigError(f"sheet {prefix!r} cannot be read: {error}.") from error
    return parse_sheet(prefix, document)


REPAIR_PROFILE = "thorough"
REPAIR_GROUPS = ("visit", "behaviours", "proxy", "media")  # the rest is the machine's, the site's or the crawl's
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
        repair = read_json(RepairVisit, json.loads(text))
    except (ValueError, RecursionError, InputError) as error:
        raise InputError(f"Not a repair: {error}") from error
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
