"""Settings: typed, frozen, with units in their names; what they do not know they refuse.

A profile is a TOML file with one table a group, e.g. ``[visit]``. A function takes the group it
needs, never the whole bag. A `[[sheet]]` table changes some of it for a part of the web. Each field's comment is its documentation (`docs/settings.md` is made
from it).
"""

import ipaddress
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from core.errors import ConfigError
from core.hosts import HostPatterns, parse_endpoint, resolve_key
from core.index_url import parse_index_url
from core.patterns import Patterns
from core.redis_url import RedisUse, parse_redis_url
from core.sheets import NOT_IN_SHEETS, SHEET_GROUPS, Sheet, surt_prefix
from core.via import parse_via

SCOPE_KINDS = ("page", "prefix", "host", "domain", "any")

_PRODUCT_TOKEN = re.compile("[A-Za-z_-]+")


@dataclass(frozen=True, slots=True)
class VisitSettings:
    """One visit: what the browser does with a page, and for how long."""

    timeout_s: float = 60.0  # the deadline of the whole visit, from navigation to artifacts
    settle_s: float = 0.5  # the page is quiet when no request was in flight for so long
    settle_limit_s: float = 15.0  # stop waiting for quiet after so long, and go on
    scroll_limit_s: float = 10.0  # scroll through the page for at most so long; 0 turns it off
    viewport_width: int = 1280  # CSS pixels
    viewport_height: int = 800  # CSS pixels
    view: bool = True  # keep a viewport screenshot
    full_page: bool = True  # keep a screenshot of the whole page
    thumbnail: bool = True  # keep a small picture for lists
    dom: bool = True  # keep the final DOM, which playback is made from
    text: bool = True  # keep the visible text
    full_page_limit_px: int = 16_000  # a full-page screenshot is cut at this height
    rendered_share: float = (
        1.0  # of pages that are no seeds, so many are rendered, the rest fetched
    )
    language: str = "en-US,en"  # Accept-Language
    user_agent: str = ""  # empty: the browser's own, without the word Headless


@dataclass(frozen=True, slots=True)
class BrowserSettings:
    """The browser process."""

    executable: str = ""  # empty: the first found of headless shell, Chromium, Chrome
    recycle_pages: int = 250  # a browser is replaced after so many visits
    recycle_rss_mb: int = 3_000  # … or when its processes hold so much memory
    recycle_age_s: float = 3_600.0  # … or when it is so old
    start_timeout_s: float = 30.0  # a browser that does not answer by then is given up


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The WARC-writing proxy."""

    processes: int = 1  # proxies that share the load; a visit stays on one
    body_limit_bytes: int = 256 * 1024 * 1024  # a longer body is cut and marked WARC-Truncated
    connect_timeout_s: float = 15.0  # name, addresses and TLS handshake together
    read_timeout_s: float = 30.0  # silence on a connection for so long ends the response
    response_limit_s: float = 600.0  # one response may take so long, then it is cut and marked
    warc_limit_bytes: int = 1_000_000_000  # a WARC is closed when it has reached this size
    warc_limit_s: float = 86_400.0  # … or when it has been open for so long; 0: never
    dedup_bucket: str = "default"  # captures in one bucket share their payloads
    dedup_also: tuple[str, ...] = ()  # buckets whose payloads may be referred to, but not added to
    dedup_min_bytes: int = 1  # a smaller payload is written each time it is met
    dedup_url: str = ""  # "redis://host:port/number" for several machines; empty: this collection
    disk_reserve_bytes: int = 1_000_000_000  # archiving pauses when less than this is free
    disk_wait_s: float = 86_400.0  # wait so long for space, then end the run; 0: end it at once
    seal_grace_s: float = 2.0  # what is still in flight at the end of a visit may take so long
    visit_limit_bytes: int = 2_000_000_000  # all that one visit may receive
    visit_limit_requests: int = 10_000  # all that one visit may ask for
    crawl_limit_bytes: int = 0  # all that one run may receive, through all proxies; 0: no limit
    whole_ranges: bool = True  # when a page asks for a part (206), fetch the whole once, too
    websockets: bool = True  # lead them through, unrecorded; false: refuse them


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The captures index: what was captured, and in which WARC it lies."""

    url: str = ""  # "postgresql://user:password@host:port/name", with [proxy] dedup_url; empty: this collection
    patience_s: float = 60.0  # wait so long for a database that is gone, then visits are made again


@dataclass(frozen=True, slots=True)
class EgressSettings:
    """Where the proxy may connect to."""

    allow: tuple[str, ...] = ()  # networks allowed although they are not public, e.g. "127.0.0.0/8"
    refuse: tuple[str, ...] = ()  # networks refused although public or allowed: your own servers'
    resolve: dict[str, str] = field(
        default_factory=dict
    )  # "host" or "host:port" -> "address" or "address:port", asked before DNS
    ca_file: str = ""  # certificates to trust besides the system's, as a PEM file
    enforce_tls: bool = False  # refuse origins whose certificate does not verify
    block: tuple[str, ...] = ()  # hosts never asked: "example.org", "*.example.org": all in it, too
    via: dict[str, str] = field(
        default_factory=dict
    )  # host pattern -> "socks5://…", "socks5h://…", "http://host:port" or "direct"; "*": all others
    connections_per_host: int = 12  # open to one host and port at the same time, by each proxy


@dataclass(frozen=True, slots=True)
class PolitenessSettings:
    """How gently one host is asked."""

    delay_factor: float = 1.0  # wait so many times as long as the last visit took …
    min_delay_s: float = 1.0  # … but at least this
    max_delay_s: float = 30.0  # … and at most this
    visits_per_host: int = 1  # visits to one host at the same time
    per_address: bool = False  # hosts that resolve to one address take turns as if they were one
    crawl_delay_limit_s: float = 300.0  # what a robots.txt may ask for between two visits at most
    host_retry_s: float = (
        60.0  # a host that refused us or failed rests so long, doubled each time …
    )
    host_retry_limit_s: float = 86_400.0  # … and at most so long
    host_failures: int = 5  # a host that could not be reached so often in a row is given up …
    host_down_s: float = 86_400.0  # … for so long: what waits for it ends unvisited


@dataclass(frozen=True, slots=True)
class FrontierSettings:
    """The queue of URLs to visit."""

    attempts: int = 3  # a URL that failed so often goes to the dead letters
    lease_s: float = 60.0  # a claim not renewed for so long may be claimed by another
    retry_delay_s: float = 30.0  # before the second attempt; doubles with each
    order: str = "fifo"  # in a lane: "fifo", or "random"
    high_every: int = 5  # each so-many-th claim looks in the lane "high" first; 0: never
    standard_every: int = 10  # each so-many-th looks in the lane "standard" first; 0: never
    url: str = (
        ""  # "redis://host:port/number?frontier=NAME" for several machines; empty: this collection
    )


@dataclass(frozen=True, slots=True)
class ScopeSettings:
    """Which links a crawl follows."""

    kind: str = "prefix"  # "page", "prefix", "host", "domain" or "any", seen from each seed
    depth: int = -1  # links followed from a seed at most; -1: any number
    extra_hops: int = 0  # links followed beyond the scope
    include: tuple[str, ...] = ()  # patterns (RE2): a URL in which one is found is in scope, too
    exclude: tuple[str, ...] = ()  # patterns (RE2): a URL in which one is found is never visited
    sitemaps: bool = False  # read the sitemaps that a seed's host has, and add what is in scope
    pages: int = 0  # pages that the crawl may archive; 0: no limit
    bytes: int = 0  # bytes that it may store; 0: no limit
    seconds: float = 0.0  # how long it may take; 0: no limit
    host_pages: int = 0  # pages of one host; 0: no limit
    host_bytes: int = 0  # bytes of one host; 0: no limit
    host_seconds: float = 0.0  # how long visits may keep one host busy, in all; 0: no limit


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """What is not archived although it is asked for."""

    robots: str = "ignore"  # robots.txt (RFC 9309): "obey", or "ignore"
    robots_agent: str = "Weboid"  # the product token that robots.txt is read for
    robots_lifetime_s: float = (
        86_400.0  # a robots.txt is asked for again after so long (24 h: RFC 9309, 2.4)
    )
    noarchive: str = "ignore"  # noarchive and nocache in a page or its headers: "obey", or "ignore"
    ban_failures: int = (
        0  # a site at which so many URLs in a row failed is not asked for a while; 0: never (A07)
    )
    ban_s: float = (
        604_800.0  # how long a site that forbids archiving or keeps failing is left alone
    )
    lists: tuple[
        str, ...
    ] = ()  # files of hosts, URLs or patterns that are never visited: spam lists


@dataclass(frozen=True, slots=True)
class RecrawlSettings:
    """When a page is archived again."""

    enabled: bool = False  # queue what was archived again by itself
    first_s: float = 604_800.0  # after the first capture
    min_s: float = 86_400.0  # never sooner
    max_s: float = 7_776_000.0  # never later
    changed_factor: float = 0.5  # the interval of a page that has changed is multiplied by this …
    unchanged_factor: float = 1.5  # … and of one that has not by this


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a profile can say."""

    visit: VisitSettings = VisitSettings()
    browser: BrowserSettings = BrowserSettings()
    proxy: ProxySettings = ProxySettings()
    index: IndexSettings = IndexSettings()
    egress: EgressSettings = field(default_factory=EgressSettings)
    politeness: PolitenessSettings = PolitenessSettings()
    frontier: FrontierSettings = FrontierSettings()
    scope: ScopeSettings = ScopeSettings()
    policy: PolicySettings = PolicySettings()
    recrawl: RecrawlSettings = RecrawlSettings()
    sheets: tuple[Sheet, ...] = ()  # changes for a part of the web; see `core.sheets`


def parse_settings(text: str, *, source: str = "profile") -> Settings:
    """The settings that a profile's TOML text says; what it leaves out keeps its default.

    Raises:
        ConfigError: no TOML, an unknown table or key, a wrong type, or a value out of range; the
            text names `source`, the key, and what would be right.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is no TOML: {error}.") from error
    settings = settings_from(document, source=source)
    check_settings(settings, source=source)
    return settings


def settings_from(document: dict[str, Any], *, source: str = "profile") -> Settings:
    """The settings in a parsed document, types checked.

    Raises:
        ConfigError: as `parse_settings`.
    """
    groups = _groups()
    tables = dict(document)
    sheets = tables.pop("sheets", None) or tables.pop("sheet", ())
    _refuse_unknown(tables, {**groups, "sheet": Sheet}, source)
    return Settings(
        **{
            name: _group(groups[name], table, f"{source} [{name}]")
            for name, table in tables.items()
        },
        sheets=_sheets(sheets, source),
    )


def parse_sheet(prefix: str, document: Mapping[str, Any], *, source: str = "sheet") -> Sheet:
    """The sheet that changes what `document` says, types checked.

    Args:
        prefix: as `core.sheets.surt_prefix` takes it.
        document: tables of keys by group.
        source: where it comes from, for errors.

    Raises:
        ConfigError: an unknown group or key, a key that no sheet can change, or a wrong type; the
            text names the sheet and the key.
    """
    where = f"{source} {prefix!r}"
    try:
        spelled = surt_prefix(prefix)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    groups = {name: group for name, group in _groups().items() if name in SHEET_GROUPS}
    _refuse_unknown(dict(document), groups, where)
    changes: dict[str, dict[str, Any]] = {}
    for name, table in document.items():
        within = f"{where} [{name}]"
        checked = _group(groups[name], table, within)
        for key in table:
            if key in NOT_IN_SHEETS.get(name, ()):
                raise ConfigError(
                    f"{within} {key} holds as a whole: no sheet can change it for a part."
                )
        changes[name] = {key: getattr(checked, key) for key in table}
    sheet = Sheet(spelled, **changes)
    check_settings(with_sheets(Settings(), (sheet,)), source=where)
    return sheet


def with_sheets(settings: Settings, sheets: Iterable[Sheet]) -> Settings:
    """The settings as the sheets change them, one after the other: of two the later one holds."""
    for sheet in sheets:
        groups = {
            name: replace(getattr(settings, name), **keys) for name, keys in sheet.changes().items()
        }
        settings = replace(settings, **groups)
    return settings


def _groups() -> dict[str, type]:
    """The tables that a profile may have, `[[sheet]]` excluded."""
    return {
        name: kind for name, kind in typing.get_type_hints(Settings).items() if name != "sheets"
    }


def _sheets(tables: object, source: str) -> tuple[Sheet, ...]:
    if not isinstance(tables, list | tuple) or not all(isinstance(each, dict) for each in tables):
        raise ConfigError(f"{source}: a sheet must be a table [[sheet]].")
    found = []
    for number, table in enumerate(tables, start=1):
        document = dict(table)
        named = [document.pop(key) for key in ("prefix", "match") if key in document]
        if len(named) != 1 or not isinstance(named[0], str):
            raise ConfigError(
                f'{source} sheet {number} must say which part it is for: prefix = "org,example,", '
                'or match = "example.org".'
            )
        found.append(parse_sheet(named[0], document, source=f"{source} sheet"))
    return tuple(found)


def _group(group: type, table: object, where: str) -> Any:
    if not isinstance(table, dict):
        raise ConfigError(f"{where} must be a table.")
    types = typing.get_type_hints(group)
    _refuse_unknown(table, types, where)
    return group(
        **{key: _value(types[key], value, f"{where} {key}") for key, value in table.items()}
    )


def _refuse_unknown(table: dict[str, Any], known: dict[str, Any], where: str) -> None:
    unknown = sorted(table.keys() - known.keys())
    if unknown:
        raise ConfigError(
            f"{where} has unknown keys: {', '.join(unknown)}. Known are: {', '.join(known)}."
        )


def _value(kind: Any, value: object, where: str) -> object:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind == tuple[str, ...]:
        if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
            return tuple(value)
    elif kind == dict[str, str]:
        if isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
            return dict(value)
    elif type(value) is kind:
        return value
    raise ConfigError(f"{where} must be of type {getattr(kind, '__name__', kind)}, not {value!r}.")


def check_settings(settings: Settings, *, source: str) -> None:
    """Refuse what no part could work with.

    Raises:
        ConfigError: the text names `source`, the key, and what would be right.
    """
    for group_name in _groups():
        group = getattr(settings, group_name)
        for each in fields(group):
            value = getattr(group, each.name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            lowest = -1 if each.name == "depth" else 0
            if number and not lowest <= value < float("inf"):  # NaN neither
                raise ConfigError(f"{source} [{group_name}] {each.name} must be zero or more.")
    for positive in ("processes", "body_limit_bytes", "warc_limit_bytes"):
        if getattr(settings.proxy, positive) < 1:
            raise ConfigError(f"{source} [proxy] {positive} must be at least 1.")
    if settings.proxy.dedup_url:
        parse_redis_url(settings.proxy.dedup_url, RedisUse.DEDUP)
    if settings.frontier.url:
        parse_redis_url(settings.frontier.url, RedisUse.FRONTIER)
    _check_scope(settings.scope, source)
    _check_policy(settings.policy, source)
    if settings.index.url:
        parse_index_url(settings.index.url)
        if not settings.proxy.dedup_url:
            raise ConfigError(
                f"{source} [index] url needs [proxy] dedup_url: machines that share an index also"
                " share a dedup index, which is in Redis."
            )
    _check_egress(settings.egress, source)


def _check_scope(scope: ScopeSettings, source: str) -> None:
    """Refuse kinds that are none, and patterns that cannot be run."""
    if scope.kind not in SCOPE_KINDS:
        raise ConfigError(
            f"{source} [scope] kind must be one of {', '.join(SCOPE_KINDS)}, not {scope.kind!r}."
        )
    Patterns(scope.include, where=f"{source} [scope] include")
    Patterns(scope.exclude, where=f"{source} [scope] exclude")


def _check_policy(policy: PolicySettings, source: str) -> None:
    """Refuse words that mean nothing: a slip must not let a crawl ignore what sites say."""
    for name in ("robots", "noarchive"):
        if getattr(policy, name) not in ("obey", "ignore"):
            raise ConfigError(
                f'{source} [policy] {name} must be "obey" or "ignore",'
                f" not {getattr(policy, name)!r}."
            )
    if not _PRODUCT_TOKEN.fullmatch(policy.robots_agent):
        raise ConfigError(
            f"{source} [policy] robots_agent must be a product token, letters, hyphens and"
            f" underscores only (RFC 9309, 2.2.1), not {policy.robots_agent!r}."
        )


def _check_egress(egress: EgressSettings, source: str) -> None:
    """Refuse networks, addresses, host patterns and proxies that are none."""
    if egress.connections_per_host < 1:
        raise ConfigError(f"{source} [egress] connections_per_host must be at least 1.")
    for name in ("allow", "refuse"):
        for network in getattr(egress, name):
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise ConfigError(f"{source} [egress] {name}: {error}.") from error
    try:
        for name, endpoint in egress.resolve.items():
            resolve_key(name)
            parse_endpoint(endpoint)
        HostPatterns(dict.fromkeys(egress.block, True))
        HostPatterns({pattern: parse_via(via) for pattern, via in egress.via.items()})
    except ConfigError as error:
        raise ConfigError(f"{source} [egress]: {error}") from error
