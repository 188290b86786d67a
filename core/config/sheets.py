"""Sheets: settings for a part of the web, named by a SURT prefix.

The spelling is that of Heritrix; scheme and user information are left out, a non-default port precedes the
parenthesis. (`core.url_keys` merges many more spellings and is for index lookups only.)

    org,example,            example.org and all hosts below it
    org,example,)/          example.org alone
    org,example,)/wiki/     its pages below /wiki/
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Generic, TypeVar

from core.config.profile import check_settings, parse_group, refuse_unknown, settings_groups
from core.config.settings import Settings
from core.errors import BadUrlError, ConfigError
from core.hosts import canonical_host
from core.urls import identity_key

T = TypeVar("T")

# Tables that a sheet may change: all others belong to the machine and the run, not to a site.
SHEET_GROUPS = ("visit", "politeness", "scope", "policy", "recrawl")
# Keys of these that apply to the whole crawl, or that the frontier stores for all hosts.
NOT_IN_SHEETS = {
    "scope": frozenset({"kind", "sitemaps", "pages", "bytes", "seconds"}),
    "politeness": frozenset(
        {"per_address", "visits_per_host", "host_retry_s", "host_retry_limit_s", "host_failures", "host_down_s"}
    ),
}
PREFIX_LIMIT_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Sheet:
    """Settings for URLs with a SURT prefix: the changed keys of each group, types checked."""

    prefix: str  # of SURTs, as `surt_prefix` spells it
    visit: Mapping[str, Any] = field(default_factory=dict)
    politeness: Mapping[str, Any] = field(default_factory=dict)
    scope: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    recrawl: Mapping[str, Any] = field(default_factory=dict)

    def changes(self) -> dict[str, Mapping[str, Any]]:
        """Return the groups that it changes, each with its keys."""
        groups = {name: getattr(self, name) for name in SHEET_GROUPS}
        return {name: keys for name, keys in groups.items() if keys}


def parse_sheets(tables: object, source: str) -> tuple[Sheet, ...]:
    """Parse the tables ``[[sheet]]`` of a profile; ConfigError names `source`."""
    if not isinstance(tables, list | tuple) or not all(isinstance(each, dict) for each in tables):
        raise ConfigError(f"{source}: a sheet must be a table [[sheet]].")
    parsed = []
    for table in tables:
        keys = dict(table)
        named = [keys.pop(key) for key in ("prefix", "match") if key in keys]
        if len(named) != 1 or not isinstance(named[0], str):
            raise ConfigError(
                f'{source} sheet: a sheet must name its part of the web: prefix = "org,example,", '
                'or match = "example.org".'
            )
        parsed.append(parse_sheet(named[0], keys, source=f"{source} sheet"))
    return tuple(parsed)


def parse_sheet(prefix: str, document: Mapping[str, Any], *, source: str = "sheet") -> Sheet:
    """Parse a sheet, types checked; ConfigError names `source`, the sheet and the key, also an unchangeable one."""
    where = f"{source} {prefix!r}"
    try:
        spelled = surt_prefix(prefix)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    groups = {name: group for name, group in settings_groups().items() if name in SHEET_GROUPS}
    refuse_unknown(document, groups, where)
    changes: dict[str, dict[str, Any]] = {}
    for name, table in document.items():
        within = f"{where} [{name}]"
        checked = parse_group(groups[name], table, within)
        for key in table:
            if key in NOT_IN_SHEETS.get(name, ()):
                raise ConfigError(f"{within} {key} applies to the whole crawl: no sheet can change it.")
        changes[name] = {key: getattr(checked, key) for key in table}
    sheet = Sheet(spelled, **changes)
    check_settings(with_sheets(Settings(), (sheet,)), source=where)
    return sheet


def with_sheets(settings: Settings, sheets: Iterable[Sheet]) -> Settings:
    """Apply the sheets to the settings in their order; later ones override earlier ones."""
    for sheet in sheets:
        groups = {name: replace(getattr(settings, name), **keys) for name, keys in sheet.changes().items()}
        settings = replace(settings, **groups)
    return settings


class SurtPrefixMap(Generic[T]):
    """Values by SURT prefix; a lookup costs one step for each distinct prefix length."""

    def __init__(self, values: Iterable[tuple[str, T]]) -> None:
        """Build the map; several values of one prefix keep their order."""
        self._values: dict[str, list[T]] = {}
        for prefix, value in values:
            self._values.setdefault(prefix, []).append(value)
        self._lengths = sorted({len(prefix) for prefix in self._values})

    def of(self, surt_: str) -> tuple[T, ...]:
        """Return the values whose prefix the SURT begins with, the longest prefix last."""
        lengths = takewhile(lambda length: length <= len(surt_), self._lengths)
        return tuple(value for length in lengths for value in self._values.get(surt_[:length], ()))


def surt(url: str) -> str:
    """Return the SURT of the URL's identity key. Raises BadUrlError if it is not an http(s) URL.

    >>> surt("https://www.Example.org/wiki/A?b=c"), surt("http://[::1]:8080/")
    ('org,example,www,)/wiki/A?b=c', '[::1],:8080)/')
    """
    rest = identity_key(url).partition("://")[2]
    authority, slash, path = rest.partition("/")
    return f"{_turned(authority)}){slash}{path}"


def surt_prefix(text: str) -> str:
    """Parse a prefix: SURT, Heritrix's ``http://(org,example,``, a host with those below it, or a URL's beginning.

    Raises ConfigError if it is none, or ends inside a label.

    >>> surt_prefix("example.org"), surt_prefix("https://example.org/wiki/")
    ('org,example,', 'org,example,)/wiki/')
    """
    prefix = text.strip()
    scheme, separator, bare = prefix.partition("://")
    if not separator:
        bare = prefix
    elif scheme.lower() not in ("http", "https"):
        bare = ""
    if not bare or len(bare) > PREFIX_LIMIT_CHARS:
        raise ConfigError(f"{text[:200]!r} is not a prefix: write org,example, or example.org.")
    if "," in bare.partition("/")[0].partition(")")[0]:
        return _normalize_prefix(bare.removeprefix("("), text)
    host, slash, _path = bare.partition("/")
    try:
        if slash or ":" in host.rpartition("]")[2]:
            key = surt(f"http://{bare.removeprefix('*.')}")
            return key if slash else key.removesuffix("/")
        return _turned(canonical_host(host.removeprefix("*.")))
    except BadUrlError as error:
        raise ConfigError(f"{text[:200]!r} is not a prefix: write org,example, or example.org.") from error


def _normalize_prefix(prefix: str, text: str) -> str:
    """Normalize a SURT prefix: the host in lower case, a comma after its last label."""
    front, parenthesis, path = prefix.partition(")")
    is_whole = front.endswith(",") or ",:" in front
    if not parenthesis and not is_whole:
        raise ConfigError(f"{text[:200]!r} ends inside a label: write {front[:150]}, for the domain.")
    return front.lower() + ("" if is_whole else ",") + parenthesis + path


def _turned(authority: str) -> str:
    """Reverse the authority's labels, ``org,example,`` or ``org,example,:8080``."""
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port:
        host, colon, port = authority, "", ""
    is_address = host.startswith("[") or host.replace(".", "").isdigit()
    labels = [host] if is_address else host.split(".")[::-1]
    return "".join(f"{label}," for label in labels) + colon + port
