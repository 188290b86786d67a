"""Profile reader: TOML applied to the default settings, and validation; unknown tables and keys are refused."""

from __future__ import annotations

import ipaddress
import json
import math
import re
import tomllib
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from core.captures import check_login_name
from core.config.settings import (
    CONNECTION_KINDS,
    LINK_MIRRORS,
    LINK_PRESETS,
    PICTURE_FORMATS,
    SCOPE_KINDS,
    EgressSettings,
    LinksSettings,
    ScopeSettings,
    Settings,
)
from core.config.stored_level import StoredLevel
from core.errors import ConfigError, InputError
from core.hosts import HostPatterns, parse_endpoint, parse_upstream_proxy, resolve_key
from core.timestamps import parse_duration

_CONTACT = re.compile(r"https?://[!-'*-~]{1,500}|[!-'*-~]{1,100}@[!-'*-~]{1,200}")
_WEB_PAGE = re.compile(r"https?://[!-'*-~]{1,500}")
_AGENT = re.compile("[ -~]{0,1000}")
VIEWPORT_LIMIT_PX = 10_000
# Choices, ranges and forms of values by "table.key". A typing error in `policy` must not make a crawl
# ignore robots.txt or noarchive, and a text must not inject a header line.
_CHOICES: dict[str, Sequence[str]] = {
    "visit.colour_scheme": ("light", "dark"),
    "visit.connections": CONNECTION_KINDS,
    "visit.picture_format": PICTURE_FORMATS,
    "visit.store": ("", *StoredLevel),
    "frontier.order": ("fifo", "random"),
    "scope.kind": SCOPE_KINDS,
    "policy.robots": ("obey", "ignore"),
    "policy.noarchive": ("obey", "ignore"),
    "links.preset": LINK_PRESETS,
    "links.mirror": LINK_MIRRORS,
    "storage.addressing": ("auto", "path", "virtual"),
    "storage.checksum": ("sha256", "md5"),
}
# All other numbers are zero or more.
_RANGES = {
    "visit.viewport_width": (1, VIEWPORT_LIMIT_PX),
    "visit.viewport_height": (1, VIEWPORT_LIMIT_PX),
    "visit.device_scale": (0.1, 5),
    "visit.picture_quality": (1, 100),
    "visit.rendered_share": (0, 1),
    "quality.share": (0, 1),
    "scope.depth": (-1, math.inf),
    **dict.fromkeys(
        (
            *("proxy.processes", "proxy.body_limit_bytes", "proxy.warc_limit_bytes"),
            *("egress.connections_per_host", "links.connections", "links.pass_days"),
            "links.reports_per_day",
        ),
        (1, math.inf),
    ),
}
_ABOVE_ZERO = ("frontier.lease_s", "links.timeout_s")
_FORMS = {
    "visit.locale": (
        re.compile("[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8}){0,6}"),  # BCP 47, roughly
        "a language tag such as de-DE",
    ),
    "visit.timezone": (re.compile("[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}"), "a name such as Europe/Berlin"),
    "visit.language": (re.compile(r"[A-Za-z0-9*;=., _-]{0,200}"), "a list of languages such as de-DE,de;q=0.8"),
    "visit.user_agent": (_AGENT, "printable ASCII on one line"),
    "storage.url": (
        re.compile(r"s3://[A-Za-z0-9._-]{3,255}(?:/[!-~]{0,700})?"),
        "an address such as s3://bucket/prefix",
    ),
    "storage.endpoint_url": (_WEB_PAGE, "an address such as https://s3.example.org"),
    "policy.robots_agent": (
        re.compile("[A-Za-z_-]+"),
        "a product token, letters, hyphens and underscores only (RFC 9309, 2.2.1)",
    ),
    **dict.fromkeys(
        ("visit.contact", "links.contact"),
        (_CONTACT, "an address such as https://example.org/bot or crawl@example.org"),
    ),
    **dict.fromkeys(
        ("visit.purpose_page", "links.purpose_page"),
        (_WEB_PAGE, "an address such as https://example.org/about-crawler"),
    ),
}
_REQUIRED = ("policy.robots_agent",)  # other texts with a form may be empty


def parse_settings(text: str, *, source: str = "profile") -> Settings:
    """Parse a profile's TOML text; missing keys keep their defaults. ConfigError names `source` and key."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not TOML: {error}.") from error
    settings = settings_from(document, source=source)
    check_settings(settings, source=source)
    return settings


def settings_from(document: dict[str, Any], *, source: str = "profile") -> Settings:
    """Return the settings in a parsed document, types checked; raises as `parse_settings`."""
    groups, tables = settings_groups(), dict(document)
    sheets = tables.pop("sheets", None) or tables.pop("sheet", ())
    refuse_unknown(tables, {**groups, "sheet": None}, source)
    values = {name: parse_group(groups[name], table, f"{source} [{name}]") for name, table in tables.items()}
    if sheets:
        from core.config.sheets import parse_sheets

        values["sheets"] = parse_sheets(sheets, source)
    return Settings(**values)


def settings_groups() -> dict[str, type]:
    """Return the tables that a profile may have, `[[sheet]]` excluded."""
    return {each.name: each.type for each in fields(Settings) if isinstance(each.type, type)}


def parse_group(group: type, table: object, where: str) -> Any:
    """Return the settings of a table, types checked; `where` names it in a ConfigError."""
    if not isinstance(table, dict):
        raise ConfigError(f"{where} must be a table.")
    types = typing.get_type_hints(group)
    refuse_unknown(table, types, where)
    return group(**{key: _value(types[key], key, value, f"{where} {key}") for key, value in table.items()})


def parse_scope_setting(key: str, value: object, where: str) -> Any:
    """Return the value of a key of [scope], its type and range checked; ConfigError names `where`."""
    parsed = _value(typing.get_type_hints(ScopeSettings)[key], key, value, where)
    if wrong := _fault(f"scope.{key}", parsed):
        raise ConfigError(f"{where} must be {wrong}.")
    if isinstance(parsed, tuple):
        from core.regexes import PatternList

        PatternList(parsed, where=where)
    return parsed


def tables_of_key(key: str) -> str:
    """Return a sentence with the tables that have such a key; empty without one."""
    tables = [f"[{name}]" for name, group in settings_groups().items() if key in typing.get_type_hints(group)]
    return f" It is a key of {' and '.join(tables)}." if tables else ""


def refuse_unknown(table: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    """Raise ConfigError for an unknown key, with the table that has it, or a similar one."""
    unknown = sorted(table.keys() - known.keys())
    if unknown:
        near = get_close_matches(unknown[0], known, n=1)
        hint = tables_of_key(unknown[0]) or (f" Did you mean {near[0]}?" if near else "")
        raise ConfigError(f"{where} has unknown keys: {', '.join(unknown)}.{hint} Known: {', '.join(known)}.")


_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(?:([kmgt])(i?))?b?", re.ASCII)


def parse_size(text: str) -> int:
    """Return a number of bytes: ``5GB``, ``700 MB``, ``2TiB``, ``1000``."""
    match = _SIZE.fullmatch("".join(text.split()).lower())
    if match is None:
        raise InputError(f"{text[:40]!r} is not a size: write 700MB, 5GB or 2TB.")
    step = 1024 if match[3] else 1000
    power = "kmgt".find(match[2]) + 1 if match[2] else 0
    return int(float(match[1]) * step**power)


def local_retention(text: str) -> timedelta | int | None:
    """Return the time or the number of bytes of `[storage] keep_local`; None: "always". InputError: neither."""
    if text == "always":
        return None
    try:
        return parse_duration(text)
    except InputError:
        return parse_size(text)


_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    tuple[str, ...]: "a list of strings",
    dict[str, str]: "a table of strings",
}


def _value(kind: Any, key: str, value: object, where: str) -> object:
    """Return the value in its type; seconds and bytes may be texts such as ``10m`` and ``5GB``."""
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
    raise ConfigError(f"{where} must be {_KINDS[kind]}, not {json.dumps(value, ensure_ascii=False, default=str)}.")


def check_settings(settings: Settings, *, source: str) -> None:
    """Check the settings of all groups; a ConfigError names `source`, the key, and what would be right."""
    for name in settings_groups():
        group = getattr(settings, name)
        for each in fields(group):
            wrong = _fault(f"{name}.{each.name}", getattr(group, each.name))
            if wrong:
                raise ConfigError(f"{source} [{name}] {each.name} must be {wrong}.")
    stores = settings.proxy.dedup_url, settings.frontier.url, settings.index.url
    if any(stores):
        from core.config.database_urls import check_store_urls

        check_store_urls(*stores, source=source)
    for name in ("include", "exclude"):
        if patterns := getattr(settings.scope, name):
            from core.regexes import PatternList

            PatternList(patterns, where=f"{source} [scope] {name}")
    every = settings.recrawl.every
    where = "[visit] headers"
    try:
        if settings.visit.headers:
            from core.config.added_headers import check_headers

            check_headers(settings.visit.headers)
        where = "[login] names"
        for name in settings.login.names:
            check_login_name(name)
        where = "[storage] keep_local"
        local_retention(settings.storage.keep_local)
        where = "[recrawl] every"
        is_short = bool(every) and parse_duration(every) < timedelta(seconds=1)
    except InputError as error:
        raise ConfigError(f"{source} {where}: {error}") from error
    if is_short:
        raise ConfigError(f"{source} [recrawl] every must be at least a second.")
    link_user_agent(settings.links)
    _check_egress(settings.egress, source)


def _fault(key: str, value: object) -> str:
    """Return what the value of ``table.key`` must be; empty when it is that."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            return "a finite number"
        lowest, highest = _RANGES.get(key, (0, math.inf))
        if key in _ABOVE_ZERO and not value:
            return "more than zero"
        if not lowest <= value <= highest:
            if highest < math.inf:
                return f"from {lowest:g} to {highest:g}, not {value}"
            return f"at least {lowest:g}" if lowest else "zero or more"
    choices = _CHOICES.get(key)
    if choices is not None and value not in choices:
        return f"one of {', '.join(filter(None, choices))}, not {value!r}"
    form, right = _FORMS.get(key, (None, ""))
    if form is not None and isinstance(value, str) and (value or key in _REQUIRED):
        return "" if form.fullmatch(value) else f"{right}, not {value[:100]!r}"
    return ""


def setting_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of the values that ``table.key`` may have, with its default."""
    table, _, key = name.partition(".")
    kind = typing.get_type_hints(settings_groups()[table])[key]
    default = {"default": getattr(getattr(Settings(), table), key)}
    if kind in (int, float):
        lowest, highest = _RANGES.get(name, (0, math.inf))
        limits = {"minimum": lowest} | ({"maximum": highest} if highest < math.inf else {})
        number = {"type": "integer" if kind is int else "number", **limits}
        if key.endswith(("_s", "seconds", "bytes")):
            return {"anyOf": [number, {"type": "string", "pattern": "^[0-9][0-9A-Za-z. ]*$"}], **default}
        return number | default
    if name in _CHOICES:
        return {"enum": list(_CHOICES[name]), **default}
    if kind == tuple[str, ...]:
        return {"type": "array", "items": {"type": "string"}, **default}
    if kind == dict[str, str]:
        return {"type": "object", "additionalProperties": {"type": "string"}, **default}
    return {"type": "boolean" if kind is bool else "string", **default}


def link_user_agent(links: LinksSettings) -> str:
    """Return the User-Agent of link checks; ConfigError for "link", which many sites refuse."""
    pages = "".join(f"; +{each}" for each in (links.purpose_page, links.contact) if each)
    name = links.user_agent or f"Mozilla/5.0 (compatible; Weboid/0.2{pages})"
    setting = "user_agent" if links.user_agent else "contact or purpose_page"
    if len(name) > 512 or name != name.strip() or not _AGENT.fullmatch(name):
        raise ConfigError(f"[links] {setting} must be printable ASCII on one line, 500 characters.")
    if "link" in name.lower():
        raise ConfigError(
            f'[links] {setting} has the word "link", and many servers refuse clients that call themselves '
            "that: write another name, or the address of another page."
        )
    return name


def _check_egress(egress: EgressSettings, source: str) -> None:
    """Check networks, addresses, host patterns and proxies."""
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
