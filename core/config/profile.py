"""Profile reader: TOML applied to the default settings, and validation.

Unknown tables and keys are refused; every error names the place, the key, and valid values.

Extra request headers are added by the proxy on the way to the origin, so the browser does not know of
them and sends no CORS preflight because of them. They go to every host of a page, so none of them may
carry a secret: use logins for that.
"""

import ipaddress
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from core.captures import check_login_name
from core.config.database_urls import RedisUse, parse_index_url, parse_redis_url
from core.config.settings import (
    LINK_MIRRORS,
    LINK_PRESETS,
    PICTURE_FORMATS,
    SCOPE_KINDS,
    EgressSettings,
    FrontierSettings,
    LinksSettings,
    PolicySettings,
    Settings,
    VisitSettings,
)
from core.config.sheets import NOT_IN_SHEETS, SHEET_GROUPS, Sheet, surt_prefix
from core.config.stored_level import StoredLevel
from core.errors import ConfigError, InputError
from core.hosts import HostPatterns, parse_endpoint, parse_upstream_proxy, resolve_key
from core.regexes import PatternList
from core.timestamps import parse_duration

MAX_HEADERS = 32
MAX_HEADER_BYTES = 16_384  # names and values together
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # a token (RFC 9110, 5.6.2)
_VALUE = re.compile(
    r"[!-~](?:[\t -~]*[!-~])?"
)  # no CR, no LF, no white space around (RFC 9110, 5.5)

_HOP = "it is between two hops, and the proxy's own"
_FRAMING = "it says where a message ends or goes, and the proxy says that"
_PRIVATE = "it carries a secret to every host; make a login instead: weboid login URL"
_CONDITION = "the answer would no longer be the whole of what a visitor gets"
_BROWSER = "it says what the browser does, and would lie"
_REFUSED = {
    **dict.fromkeys(
        ("connection", "keep-alive", "te", "trailer", "upgrade", "http2-settings"), _HOP
    ),
    **dict.fromkeys(("host", "transfer-encoding", "expect", "max-forwards"), _FRAMING),
    **dict.fromkeys(("cookie", "cookie2", "authorization"), _PRIVATE),
    **dict.fromkeys(("range", "accept-encoding"), _CONDITION),
    "origin": _BROWSER,
    "user-agent": "say [visit] user_agent or contact instead",
    "accept-language": "say [visit] language instead",
}
_REFUSED_PREFIXES = {
    "proxy-": _HOP,
    "content-": _FRAMING,
    "if-": _CONDITION,
    "sec-fetch-": _BROWSER,
    "sec-websocket-": _BROWSER,
    "sec-ch-": "say [visit] mobile instead; client hints follow it",
    "access-control-": _BROWSER,
}


def check_header(name: str, value: str) -> None:
    """Check that a header may be added to requests; the text of a ConfigError gives the reason."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name[:100]!r} is no name of a header: write letters and hyphens.")
    key = name.lower()
    why = _REFUSED.get(key)
    for prefix, reason in _REFUSED_PREFIXES.items():
        if key.startswith(prefix):
            why = reason
    if why is not None:
        raise ConfigError(f"{name} cannot be added: {why}.")
    if not _VALUE.fullmatch(value):
        raise ConfigError(
            f"the value of {name} must be printable ASCII on one line, without blanks around it."
        )


def check_headers(headers: Mapping[str, str]) -> None:
    """Check that the headers may be added to requests, once each and not too many, or ConfigError."""
    for name, value in headers.items():
        check_header(name, value)
    if len({name.lower() for name in headers}) != len(headers):
        raise ConfigError("one of the names is there twice; upper and lower case are the same.")
    size = sum(len(name) + len(value) for name, value in headers.items())
    if len(headers) > MAX_HEADERS or size > MAX_HEADER_BYTES:
        raise ConfigError(f"at most {MAX_HEADERS} headers of {MAX_HEADER_BYTES} bytes in all.")


_PRODUCT_TOKEN = re.compile("[A-Za-z_-]+")
_LOCALE = re.compile("[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8}){0,6}")  # BCP 47, roughly
_TIMEZONE = re.compile("[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}")
_LANGUAGE = re.compile(r"[A-Za-z0-9*;=., _-]{0,200}")
_CONTACT = re.compile(r"https?://[!-'*-~]{1,500}|[!-'*-~]{1,100}@[!-'*-~]{1,200}")
_WEB_PAGE = re.compile(r"https?://[!-'*-~]{1,500}")
_STORE = re.compile("|".join(StoredLevel))
_AGENT = re.compile("[ -~]{0,1000}")
VIEWPORT_LIMIT_PX = 10_000
DEVICE_SCALE_LIMIT = 5.0
COLOUR_SCHEMES = ("light", "dark")


def parse_settings(text: str, *, source: str = "profile") -> Settings:
    """Parse the settings of a profile's TOML text; missing keys keep their defaults.

    The text of a ConfigError names `source`, the key, and what would be right.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is no TOML: {error}.") from error
    settings = settings_from(document, source=source)
    check_settings(settings, source=source)
    return settings


def settings_from(document: dict[str, Any], *, source: str = "profile") -> Settings:
    """Return the settings in a parsed document, types checked; raises as `parse_settings`."""
    groups = _groups()
    tables = dict(document)
    sheets = tables.pop("sheets", None) or tables.pop("sheet", ())
    _refuse_unknown(tables, {**groups, "sheet": Sheet}, source)
    values = {
        name: _group(groups[name], table, f"{source} [{name}]") for name, table in tables.items()
    }
    if not isinstance(sheets, list | tuple) or not all(isinstance(each, dict) for each in sheets):
        raise ConfigError(f"{source}: a sheet must be a table [[sheet]].")
    parsed = []
    for number, table in enumerate(sheets, start=1):
        keys = dict(table)
        named = [keys.pop(key) for key in ("prefix", "match") if key in keys]
        if len(named) != 1 or not isinstance(named[0], str):
            raise ConfigError(
                f'{source} sheet {number} must say which part it is for: prefix = "org,example,", '
                'or match = "example.org".'
            )
        parsed.append(parse_sheet(named[0], keys, source=f"{source} sheet"))
    return Settings(**values, sheets=tuple(parsed))


def parse_sheet(prefix: str, document: Mapping[str, Any], *, source: str = "sheet") -> Sheet:
    """Parse a sheet from `document`, types checked. `source` names its origin in errors.

    The text of a ConfigError names the sheet and the key, also one that no sheet can change.
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
    """Apply the sheets to the settings in their order; later ones override earlier ones."""
    for sheet in sheets:
        groups = {
            name: replace(getattr(settings, name), **keys) for name, keys in sheet.changes().items()
        }
        settings = replace(settings, **groups)
    return settings


def _groups() -> dict[str, type]:
    """Return the tables that a profile may have, `[[sheet]]` excluded."""
    return {
        name: kind for name, kind in typing.get_type_hints(Settings).items() if name != "sheets"
    }


def _group(group: type, table: object, where: str) -> Any:
    if not isinstance(table, dict):
        raise ConfigError(f"{where} must be a table.")
    types = typing.get_type_hints(group)
    _refuse_unknown(table, types, where)
    return group(**{key: _value(types[key], key, value, where) for key, value in table.items()})


def _refuse_unknown(table: dict[str, Any], known: dict[str, Any], where: str) -> None:
    unknown = sorted(table.keys() - known.keys())
    if unknown:
        near = get_close_matches(unknown[0], known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ConfigError(
            f"{where} has unknown keys: {', '.join(unknown)}.{hint} Known are: {', '.join(known)}."
        )


_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(?:([kmgt])(i?))?b?", re.ASCII)


def parse_size(text: str) -> int:
    """Return a number of bytes: ``5GB``, ``700 MB``, ``2TiB``, ``1000``."""
    match = _SIZE.fullmatch("".join(text.split()).lower())
    if match is None:
        raise InputError(f"{text[:40]!r} is no size: write 700MB, 5GB or 2TB.")
    step = 1024 if match[3] else 1000
    power = "kmgt".find(match[2]) + 1 if match[2] else 0
    return int(float(match[1]) * step**power)


def _value(kind: Any, key: str, value: object, group: str) -> object:
    """Return the value in its type; seconds and bytes may be texts such as ``10m`` and ``5GB``."""
    where = f"{group} {key}"
    if kind in (int, float) and isinstance(value, str):
        try:
            if key.endswith(("_s", "seconds")):
                return kind(parse_duration(value).total_seconds())
            if key.endswith("bytes"):
                return kind(parse_size(value))
        except InputError as error:
            raise ConfigError(f"{where}: {error}") from error
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
    """Check the settings of all groups; a ConfigError names `source`, the key, and what would be right."""
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
    _check_visit(settings.visit, source)
    # Refuse names that no login can have.
    for name in settings.login.names:
        try:
            check_login_name(name)
        except InputError as error:
            raise ConfigError(f"{source} [login] names: {error}") from error
    _check_frontier(settings.frontier, source)
    _check_choice(f"{source} [scope]", "kind", settings.scope.kind, SCOPE_KINDS)
    PatternList(settings.scope.include, where=f"{source} [scope] include")
    PatternList(settings.scope.exclude, where=f"{source} [scope] exclude")
    _check_policy(settings.policy, source)
    every = settings.recrawl.every
    try:
        is_short = bool(every) and parse_duration(every) < timedelta(seconds=1)
    except InputError as error:
        raise ConfigError(f"{source} [recrawl] every: {error}") from error
    if is_short:
        raise ConfigError(f"{source} [recrawl] every must be a second at least.")
    _check_links(settings.links, source)
    if not 0 <= settings.quality.share <= 1:
        raise ConfigError(f"{source} [quality] share must be from 0 to 1.")
    if not 0 <= settings.visit.rendered_share <= 1:
        raise ConfigError(f"{source} [visit] rendered_share must be from 0 to 1.")
    if settings.index.url:
        parse_index_url(settings.index.url)
        if not settings.proxy.dedup_url:
            raise ConfigError(
                f"{source} [index] url needs [proxy] dedup_url: machines that share an index also"
                " share a dedup index, which is in Redis."
            )
    _check_egress(settings.egress, source)


def _check_choice(where: str, name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ConfigError(f"{where} {name} must be one of {', '.join(known)}, not {value!r}.")


def _check_visit(visit: VisitSettings, source: str) -> None:
    """Check the browser's values, and texts that could inject a header line."""
    where = f"{source} [visit]"
    for name in ("viewport_width", "viewport_height"):
        if not 1 <= getattr(visit, name) <= VIEWPORT_LIMIT_PX:
            raise ConfigError(f"{where} {name} must be from 1 to {VIEWPORT_LIMIT_PX} pixels.")
    if not 0.1 <= visit.device_scale <= DEVICE_SCALE_LIMIT:
        raise ConfigError(f"{where} device_scale must be from 0.1 to {DEVICE_SCALE_LIMIT:g}.")
    if visit.colour_scheme not in COLOUR_SCHEMES:
        raise ConfigError(
            f'{where} colour_scheme must be "light" or "dark", not {visit.colour_scheme!r}.'
        )
    _check_choice(where, "picture_format", visit.picture_format, PICTURE_FORMATS)
    if not 1 <= visit.picture_quality <= 100:
        raise ConfigError(
            f"{source} [visit] picture_quality must be from 1 to 100, not {visit.picture_quality}."
        )
    forms = (
        ("locale", _LOCALE, "be a language tag such as de-DE"),
        ("timezone", _TIMEZONE, "be a name such as Europe/Berlin"),
        ("contact", _CONTACT, "be an address such as https://example.org/bot or crawl@example.org"),
        ("purpose_page", _WEB_PAGE, "be an address such as https://example.org/about-crawler"),
        ("language", _LANGUAGE, "be a list of languages such as de-DE,de;q=0.8"),
        ("store", _STORE, f"be one of {', '.join(StoredLevel)}"),
        ("user_agent", _AGENT, "be printable ASCII on one line"),
    )
    for name, form, right in forms:
        value = getattr(visit, name)
        if value and not form.fullmatch(value):
            raise ConfigError(f"{where} {name} must {right}, not {value[:100]!r}.")
    try:
        check_headers(visit.headers)
    except ConfigError as error:
        raise ConfigError(f"{where} headers: {error}") from error


def _check_links(links: LinksSettings, source: str) -> None:
    """Check the checker's values, and texts that could inject a header line."""
    where = f"{source} [links]"
    _check_choice(where, "preset", links.preset, LINK_PRESETS)
    _check_choice(where, "mirror", links.mirror, LINK_MIRRORS)
    if links.connections < 1 or links.timeout_s <= 0 or links.pass_days < 1:
        raise ConfigError(f"{where} connections, timeout_s and pass_days must be more than zero.")
    if links.reports_per_day < 1:
        raise ConfigError(f"{where} reports_per_day must be more than zero.")
    if links.contact and not _CONTACT.fullmatch(links.contact):
        raise ConfigError(f"{where} contact must be an address such as https://example.org/bot.")
    if links.purpose_page and not _WEB_PAGE.fullmatch(links.purpose_page):
        raise ConfigError(f"{where} purpose_page must be an address such as https://example.org/.")
    link_user_agent(links)


def link_user_agent(links: LinksSettings) -> str:
    """Return the User-Agent of link checks; ConfigError for the word "link" or other characters.

    Many sites refuse a client that calls itself something with "link" (links.md 5.5).
    """
    pages = "".join(f"; +{each}" for each in (links.purpose_page, links.contact) if each)
    name = links.user_agent or f"Mozilla/5.0 (compatible; Weboid/0.1{pages})"
    setting = "user_agent" if links.user_agent else "contact or purpose_page"
    if len(name) > 512 or name != name.strip() or not _AGENT.fullmatch(name):
        raise ConfigError(f"[links] {setting} must be printable ASCII on one line, 500 characters.")
    if "link" in name.lower():
        raise ConfigError(
            f'[links] {setting} has the word "link", and many servers refuse whoever calls itself '
            "that: write another name, or the address of another page."
        )
    return name


def _check_frontier(frontier: FrontierSettings, source: str) -> None:
    """Check order, lease length and Redis address."""
    if frontier.url:
        parse_redis_url(frontier.url, RedisUse.FRONTIER)
    if frontier.order not in ("fifo", "random"):
        raise ConfigError(
            f'{source} [frontier] order must be "fifo" or "random", not {frontier.order!r}.'
        )
    if not frontier.lease_s:
        raise ConfigError(f"{source} [frontier] lease_s must be more than zero.")


def _check_policy(policy: PolicySettings, source: str) -> None:
    """Check the values: a typing error must not make a crawl ignore robots.txt or noarchive."""
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
    """Check networks, addresses, host patterns and proxies."""
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
        HostPatterns({pattern: parse_upstream_proxy(via) for pattern, via in egress.via.items()})
    except ConfigError as error:
        raise ConfigError(f"{source} [egress]: {error}") from error
