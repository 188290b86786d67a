"""Settings of a wiki, stored as JSON in the registry: sync, bot and template map.

The registry's own keys (`links.rules.wiki_rules`) are in the same object; these are under ``feed``, ``show``
and ``bot``. Unknown keys, wrong types and values out of range are errors: a misspelt exclusion would archive
unwanted pages.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self, TypeVar, get_args, get_origin, get_type_hints

from core.errors import BadUrlError, ConfigError
from core.urls import fetch_key
from wiki.wikitext.template_map import check_map

STATEMENT_FORM: Final = "P31, or P31=Q5 with a value"
_ENTRY: Final = re.compile(r"(P[1-9][0-9]{0,9})\s*(?:=(.*))?", re.DOTALL)


def parse_statement(text: str) -> str:
    """Normalize a statement entry, ``P31`` or ``P31=Q5``; ConfigError describes the form.

    >>> parse_statement(" P31 = Q5"), parse_statement("P856=https://a.org/?b=c"), parse_statement("P31")
    ('P31=Q5', 'P856=https://a.org/?b=c', 'P31')
    """
    match = _ENTRY.fullmatch(text.strip())
    name, value = match.groups() if match else ("", None)
    plain = None if value is None else unicodedata.normalize("NFC", value).strip()
    if not name or plain == "":
        raise ConfigError(f"{text[:80]!r} is not a property: write {STATEMENT_FORM}.")
    return name if plain is None else f"{name}={plain}"


GRACE_PRESETS_H = (0, 24, 48)
TEXTS_LIMIT: Final = 1_000  # entries of a list
TEXT_CHARS: Final = 1_000
TALK_MODES = ("never", "beside", "only")
_API: Final = re.compile(r"https?://[^@?#\s]+\.php")


@dataclass(frozen=True)
class FeedSettings:
    """Selection of observed pages, and rules for archiving their links."""

    namespaces: tuple[int, ...] = (0,)
    categories: tuple[str, ...] = ()  # only pages in these, or below them; empty: all
    category_depth: int = 5  # how far below
    templates: tuple[str, ...] = ()  # only pages that use one of these; empty: all
    properties: tuple[str, ...] = ()  # only pages whose Wikidata item has one of these statements; empty: all
    not_categories: tuple[str, ...] = ()  # never pages in these, or below them
    not_templates: tuple[str, ...] = ()  # never pages that use these
    not_properties: tuple[str, ...] = ()  # never pages whose Wikidata item has one of these statements
    item_api: str = ""  # api.php to query for Wikidata items; empty: the one that the wiki names
    not_pages: tuple[str, ...] = ()  # never these, by title
    grace_h: float = 0.0  # a new link is looked for once more after so long, before it is archived
    archive: bool = True  # links are archived, not only watched
    archived_days: int = 30  # a link that was archived so lately is not archived again (A02)
    poll_s: float = 10.0  # between two questions for recent changes
    sweep_days: float = 7.0  # each page is read again at least so often (W36)
    # Pages of the wiki that hold its spam lists, fetched every hour.
    spam_lists: tuple[str, ...] = (
        "MediaWiki:Spam-blacklist",
        "MediaWiki:Spam-whitelist",
        "MediaWiki:BlockedExternalDomains.json",
    )
    farm_spam_api: str = ""  # api.php of the wiki with the lists of the whole farm; empty: none
    farm_spam_lists: tuple[str, ...] = ("Spam blacklist",)  # pages of that wiki
    account: str = ""  # who reads, for wikis that ask for a login or give bots higher limits
    password_file: str = ""  # of that account: a bot password, or an OAuth 2 token of its owner
    basic_file: str = ""  # user:password of a web server in front of the wiki (HTTP Basic)


@dataclass(frozen=True)
class BotSettings:
    """Permissions of the bot; disabled by default."""

    enabled: bool = False
    account: str = ""
    password_file: str = ""
    run_page: str = ""  # edits are made only while this page says "yes" or "run"
    edits_per_minute: float = 6.0
    talk: str = "never"  # "never", "beside": in addition to an edit, or "only": a message on the talk page instead
    convert_bare: bool = True  # a bare reference may become a citation template where that is safe
    tag_dead: bool = True  # a dead link without a copy gets the wiki's dead-link tag
    mark: bool = True  # edits carry the bot flag
    maxlag_s: int = 5
    stop_on_messages: bool = True  # a message on the account's talk page stops it
    front: str = ""  # where readers find our own copies, https://archive.example; empty: not cited
    not_pages: tuple[str, ...] = ()  # pages that it skips, by title
    not_domains: tuple[str, ...] = ()  # domains whose links it skips, with their subdomains

    def is_off_for(self, *, title: str = "", host: str = "") -> bool:
        """Return True when the bot is switched off for the page, or for the host's links."""
        return title in self.not_pages or any(host == each or host.endswith(f".{each}") for each in self.not_domains)

    def switched(self, *, pages: Iterable[str] = (), domains: Iterable[str] = (), is_on: bool) -> "BotSettings":
        """Return the settings with the bot on or off for these pages and domains. Raises ConfigError."""
        values: dict[str, tuple[str, ...]] = {}
        for name, chosen in (("not_pages", pages), ("not_domains", domains)):
            existing, names = getattr(self, name), dict.fromkeys(chosen)
            rest = (each for each in existing if each not in names)
            values[name] = tuple(rest) if is_on else tuple(dict.fromkeys((*existing, *names)))
        return replace_settings(self, "bot", **values)


_Group = TypeVar("_Group", FeedSettings, BotSettings)
# Minimum and maximum of numbers, both inclusive.
_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "namespaces": (0, 100_000),
    "category_depth": (0, 50),
    "grace_h": (0, 24 * 365),
    "archived_days": (0, 36_500),
    "poll_s": (0.5, 86_400),
    "sweep_days": (0.01, 365),
    "edits_per_minute": (0.01, 600),
    "maxlag_s": (0, 3_600),
}
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {"talk": TALK_MODES}


@dataclass(frozen=True)
class WikiSettings:
    """All settings of a wiki."""

    feed: FeedSettings = FeedSettings()
    bot: BotSettings = BotSettings()
    templates: Mapping[str, Any] | None = None  # laid over the language's template map

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the settings in the registry's JSON; raises ConfigError for an unknown key or invalid value."""
        document = _object(text)
        templates = document.get("templates")
        if templates is not None:
            check_map(templates, "templates")
        return cls(
            _group(FeedSettings, document.get("feed", {}), "feed"),
            _group(BotSettings, document.get("bot", {}), "bot"),
            templates,
        )

    def merged_into(self, text: str) -> dict[str, Any]:
        """Merge these settings into the registry's JSON; other keys are kept, default values left out."""
        own = {"feed": to_json(self.feed) or None, "bot": to_json(self.bot) or None, "templates": self.templates}
        merged = {**_object(text), **own}
        return {name: value for name, value in merged.items() if name not in own or value is not None}


def to_json(group: FeedSettings | BotSettings) -> dict[str, Any]:
    """Return the values of a group that differ from the defaults, as JSON values."""
    default, names = type(group)(), (each.name for each in fields(group))
    changed = {name: getattr(group, name) for name in names if getattr(group, name) != getattr(default, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}


def replace_settings(group: _Group, name: str, **values: Any) -> _Group:
    """Return the group with other values, None keeping one; raises ConfigError for an invalid value."""
    changes = {key: value for key, value in values.items() if value is not None}
    checked = _group(type(group), changes, name)
    return replace(group, **{key: getattr(checked, key) for key in changes})


def _object(text: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The wiki's settings are not JSON: {error}.") from error
    if not isinstance(document, dict):
        raise ConfigError("The wiki's settings must be an object.")
    return document


def _group(kind: type[_Group], values: Any, name: str) -> _Group:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{name} must be an object.")
    hints = get_type_hints(kind)
    for key in values:
        if key not in hints:
            raise ConfigError(f"There is no {name}.{str(key)[:80]}; known: {', '.join(sorted(hints))}.")
    fields: dict[str, Any] = {}
    for key, value in values.items():
        where = f"{name}.{key}"
        if get_origin(hints[key]) is not tuple:
            fields[key] = _single(hints[key], value, where, key)
            continue
        if not isinstance(value, list | tuple) or len(value) > TEXTS_LIMIT:
            raise ConfigError(f"{where} must be a list of at most {TEXTS_LIMIT:,} entries.")
        fields[key] = tuple(_single(get_args(hints[key])[0], each, where, key) for each in value)
    return kind(**fields)


def _single(kind: type[Any], value: Any, where: str, key: str) -> Any:
    if kind is bool:
        if not isinstance(value, bool):
            raise ConfigError(f"{where} must be true or false.")
        return value
    if kind is str:
        if not isinstance(value, str) or len(value) > TEXT_CHARS or not value.isprintable():
            raise ConfigError(f"{where} must be a string of at most {TEXT_CHARS:,} characters.")
        choices = _CHOICES.get(key)
        if choices and value not in choices:
            raise ConfigError(f"{where} must be one of {', '.join(choices)}.")
        # See that a text has the form which its field needs.
        if key in {"properties", "not_properties"}:
            try:
                parse_statement(value)
            except ConfigError as error:
                raise ConfigError(f"{where}: {error}") from error
        if key in {"item_api", "farm_spam_api"} and value:
            try:
                fetch_key(value, allow_single_label=True)
                is_api = _API.fullmatch(value) is not None
            except BadUrlError:
                is_api = False
            if not is_api:
                raise ConfigError(
                    f"{where} must be the address of an api.php, such as "
                    "https://www.wikidata.org/w/api.php, without a password."
                )
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or (kind is int and value != int(value)):
        raise ConfigError(f"{where} must be a {'whole ' if kind is int else ''}number.")
    least, most = _RANGES.get(key, (-math.inf, math.inf))
    if not least <= value <= most:
        raise ConfigError(f"{where} must be from {least:g} to {most:g}.")
    return int(value) if kind is int else float(value)
