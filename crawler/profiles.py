"""Crawl profiles: lookup by name or path, inheritance, checks with line numbers, and warnings for authors.

A profile may extend another (``extends = "default"``): its values override that one's, key by key; its
sheets follow that one's. A chain has a limited length, and ends at the defaults.

Each key is checked alone, so that one fault does not hide the next; combinations of keys are checked
when each of them is valid.
"""

import tomllib
import zoneinfo
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from core.config.profile import check_settings, settings_from
from core.config.settings import Settings
from core.errors import ConfigError
from core.layout import CONFIG_FILE
from render.behaviours.catalog import load_behaviours

FOLDER = Path(__file__).resolve().parent.parent / "profiles"
EXTENDS = "extends"
CONFIG_TABLES = ("operator", "seed", "archive", "crawl", "serve", "watch")  # no settings
CHAIN_LIMIT = 5
SIZE_LIMIT_BYTES = 10_000_000
_SHEETS = ("sheets", "sheet")
_WIDE_PHONE_PX = 1_000
_LONG_VISIT_S = 600.0
_GENTLE_S = 0.5
_MANY_AT_ONCE = 8
_FILES = (("behaviours", "scripts"), ("behaviours", "flows"), ("login", "key_file"))


@dataclass(frozen=True, slots=True)
class ProfileLayer:
    """Profile of a chain."""

    source: str  # its name in errors
    text: str = field(repr=False)  # its TOML
    document: Mapping[str, Any] = field(repr=False)  # its values, without ``extends``


def builtin_profiles() -> list[str]:
    """List the profiles that come with the program."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_profile(name: str) -> Settings:
    """Load the settings of a built-in profile, or of a TOML file (a name with a slash or ``.toml``).

    ``FOLDER/weboid.toml@PRESET`` is a collection's configuration over that preset.

    Raises ConfigError if there is none of that name, or it has unknown keys or invalid values.
    """
    chain = load_chain(name)
    try:
        return chain_settings(chain)
    except ConfigError as error:
        fault = next((each for layer in chain for each in layer_faults(layer) if each.line), None)
        if fault is None:
            raise
        raise ConfigError(f"{fault.where}: {fault.text}") from error


def chain_settings(chain: tuple[ProfileLayer, ...]) -> Settings:
    """Return the settings of a chain of profiles, the last one first; errors as `load_profile`."""
    source = chain[0].source
    settings = settings_from(merge_chain(chain), source=source)
    check_settings(settings, source=source)
    check_environment(settings, source)
    return settings


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
        if group not in _SHEETS
    }


def check_environment(settings: Settings, source: str) -> None:
    """Raise ConfigError, with key and available values, when a behaviour or time zone does not exist."""
    try:
        load_behaviours(settings.behaviours)
    except ConfigError as error:
        raise ConfigError(f"{source} {error}") from error
    zone = settings.visit.timezone
    known = _timezones()
    if zone and known and zone not in known:
        raise ConfigError(f"{source} [visit] timezone: {zone!r} is none; write one such as Europe/Berlin.")


def load_chain(name: str) -> tuple[ProfileLayer, ...]:
    """Load the profile and those that it extends, in that order.

    Raises ConfigError if one of them does not exist, is no TOML, or the chain does not end.
    """
    chain: list[ProfileLayer] = []
    file, _, preset = name.rpartition("@")
    name, preset = (file, preset) if file.endswith(CONFIG_FILE) else (name, "")
    path = _path(name)
    named_at = ""  # file and line that name the profile
    while True:
        source = str(path) if path.parent != FOLDER else f"profile {path.stem}"
        text = _text(path, name, named_at)
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{source} is no TOML: {error}.") from error
        parent = document.pop(EXTENDS, None)
        if path.name == CONFIG_FILE:
            document = {key: each for key, each in document.items() if key not in CONFIG_TABLES}
            parent = preset or parent or "default"
        # Let the files that a profile brings along be seen from its own folder.
        folder = path.resolve().parent
        for group, key in _FILES:
            table = document.get(group)
            if not isinstance(table, dict):
                continue
            value = table.get(key)
            if isinstance(value, str) and value:
                table[key] = str(folder / value)
            elif isinstance(value, list):
                table[key] = [str(folder / each) if isinstance(each, str) else each for each in value]
        chain.append(ProfileLayer(source, text, document))
        if parent is None:
            return tuple(chain)
        if not isinstance(parent, str) or not parent:
            raise ConfigError(f"{source} {EXTENDS} must be a profile's name or the path of a file.")
        if len(chain) >= CHAIN_LIMIT:
            raise ConfigError(
                f"{source} {EXTENDS} {parent!r}: a profile extends at most {CHAIN_LIMIT - 1} others, and none itself."
            )
        named = next((line for table, key, line in lines_of(text) if (table, key) == ("", EXTENDS)), 0)
        named_at = f"{source}, line {named}: " if named and not preset else ""
        name, path = parent, _path(parent, near=None if preset else path.parent)
        preset = ""


def merge_chain(chain: tuple[ProfileLayer, ...]) -> dict[str, Any]:
    """Merge the chain into one document. Raises ConfigError if a group is no table."""
    whole: dict[str, Any] = {}
    sheets: list[Any] = []
    for layer in reversed(chain):
        for group, table in layer.document.items():
            if group in _SHEETS:
                if not isinstance(table, list):
                    raise ConfigError(f"{layer.source}: a sheet must be a table [[sheet]].")
                sheets += table
            elif isinstance(table, dict) and isinstance(whole.get(group, {}), dict):
                whole[group] = {**whole.get(group, {}), **table}
            else:
                whole[group] = table
    return {**whole, "sheet": sheets} if sheets else whole


def source_of_key(chain: tuple[ProfileLayer, ...], group: str, key: str) -> str:
    """Return the source of the profile that sets the key; empty when none does."""
    for layer in chain:
        table = layer.document.get(group)
        if isinstance(table, dict) and key in table:
            return layer.source
    return ""


def profile_sets(name: str, group: str, key: str) -> bool:
    """Return True when the profile, or one that it extends, sets a key; errors as `load_chain`."""
    return bool(source_of_key(load_chain(name), group, key))


@cache
def _timezones() -> frozenset[str]:
    """Return the names of all time zones; empty on a machine without time zone data."""
    return frozenset(zoneinfo.available_timezones())


def _path(name: str, *, near: Path | None = None) -> Path:
    """Return the file of a profile; a path in another profile is relative to that one."""
    if "/" in name or name.endswith(".toml"):
        return Path(name) if near is None else near / name
    return FOLDER / f"{name}.toml"


def _text(path: Path, name: str, named_at: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT_BYTES + 1)
        if len(data) > SIZE_LIMIT_BYTES:
            raise ConfigError(f"{path} is too large for a profile.")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(builtin_profiles())
        raise ConfigError(
            f"{named_at}There is no profile {name!r}: name one of {known}, or the path of a TOML file."
        ) from error


def lines_of(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield (table, key, line) of each plainly written key of a TOML text, lines from 1."""
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if bare.startswith("[["):
            table = bare.partition("]]")[0].lstrip("[").strip() + "[]"
            yield table, "", number
        elif bare.startswith("["):
            table = bare.partition("]")[0].lstrip("[").strip()
            yield table, "", number
        elif "=" in bare and not bare.startswith("#"):
            yield table, bare.partition("=")[0].strip().strip("\"'"), number


@dataclass(frozen=True, slots=True)
class ProfileFinding:
    """Error or warning about a profile."""

    where: str  # its source and, when it is known, the line
    text: str  # a sentence, with the next step
    line: int = 0  # in the file; 0 when it is not known


def layer_faults(layer: ProfileLayer) -> Iterator[ProfileFinding]:
    """Yield the errors of a profile, each key by itself."""
    known = {each.name for each in fields(Settings)} - set(_SHEETS)
    for group, table in layer.document.items():
        if group not in known | set(_SHEETS):
            own = CONFIG_TABLES if Path(layer.source).name == CONFIG_FILE else ()
            names = sorted((*known, "sheet", *own))
            near = get_close_matches(group, names, n=1)
            hint = f" Did you mean [{near[0]}]?" if near else ""
            text = f"There is no table {group!r}.{hint} Tables are: {', '.join(names)}."
            yield finding_at(layer, group, "", text)
            continue
        if group not in known or not isinstance(table, dict):
            yield from _tried(layer, {group: table}, group, "")
            continue
        for key, value in table.items():
            yield from _tried(layer, {group: {key: value}}, group, key)


def _tried(layer: ProfileLayer, document: dict[str, Any], group: str, key: str) -> Iterator[ProfileFinding]:
    try:
        settings = settings_from(document, source=layer.source)
        if group == "index" and settings.index.url:
            # The one key that another must go with; the whole is checked when the rest is right.
            settings = replace(settings, proxy=replace(settings.proxy, dedup_url="redis://a:1/0"))
        check_settings(settings, source=layer.source)
        check_environment(settings, layer.source)
    except ConfigError as error:
        text = str(error).removeprefix(layer.source).strip().removeprefix(":").strip()
        yield finding_at(layer, group, key, text)


def finding_at(layer: ProfileLayer, group: str, key: str, text: str) -> ProfileFinding:
    """Return the finding about a key of a profile, with its line when that is known."""
    line = _line(layer, group, key)
    where = f"{layer.source}, line {line}" if line else layer.source
    return ProfileFinding(where, text, line)


def _line(layer: ProfileLayer, group: str, key: str) -> int:
    """Return the key's line in the profile; 0 when it is written in an unusual way."""
    wanted = f"{group}[]" if group in _SHEETS else group
    for table, name, number in lines_of(layer.text):
        dotted = not table and name in (f"{group}.{key}", group)
        if (table == wanted and name == key) or dotted:
            return number
    return 0


def profile_faults(chain: tuple[ProfileLayer, ...]) -> list[ProfileFinding]:
    """List all errors of the profile, and of those that it extends."""
    faults = [fault for layer in chain for fault in layer_faults(layer)]
    if faults:
        return faults
    try:
        chain_settings(chain)
    except ConfigError as error:
        return [ProfileFinding(chain[0].source, str(error))]
    return []


def profile_warnings(chain: tuple[ProfileLayer, ...], settings: Settings) -> list[ProfileFinding]:
    """List valid values that are seldom intended."""
    warnings = []
    for group, key, text in _suspicions(settings):
        layer = next((each for each in chain if key in each.document.get(group, {})), None)
        if layer is None:
            continue  # not set by any profile: a default
        warnings.append(finding_at(layer, group, key, f"[{group}] {key}: {text}"))
    return warnings


def _suspicions(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Yield (group, key, sentence) for values that are seldom intended."""
    visit, polite, login = settings.visit, settings.politeness, settings.login
    first = visit.language.partition(",")[0].partition(";")[0].strip().partition("-")[0].lower()
    locale = visit.locale.replace("_", "-").split("-")[0].lower()
    is_anonymous = bool(visit.user_agent and not visit.contact)
    pixels = f"pictures have {visit.device_scale**2:.0f} times as many pixels."
    for is_so, name, text in (
        (visit.timeout_s == 0, "visit.timeout_s", "no page is ever loaded in no time."),
        (
            visit.timeout_s > _LONG_VISIT_S,
            "visit.timeout_s",
            "one page may keep a browser for more than ten minutes.",
        ),
        (
            visit.settle_limit_s >= visit.timeout_s,
            "visit.settle_limit_s",
            "waiting for quiet leaves no time for behaviours and pictures.",
        ),
        (
            settings.behaviours.limit_s >= visit.timeout_s,
            "behaviours.limit_s",
            "behaviours leave no time for pictures and text.",
        ),
        (
            not visit.dom,
            "visit.dom",
            "playback without scripts is made of the DOM, and will have none.",
        ),
        (visit.rendered_share > 1, "visit.rendered_share", "a share is at most 1."),
        (visit.device_scale > 1 and visit.full_page, "visit.device_scale", pixels),
        (
            visit.mobile and visit.viewport_width > _WIDE_PHONE_PX,
            "visit.mobile",
            "no phone is so wide; viewport_width = 412 is usual.",
        ),
        (is_anonymous, "visit.user_agent", "sites cannot ask whose it is; say contact, too."),
        (
            bool(visit.locale) and first not in ("", "*", locale),
            "visit.locale",
            "another language than the first of `language`; sites notice.",
        ),
        (
            settings.policy.robots == "obey" and is_anonymous,
            "policy.robots_agent",
            "must be part of user_agent (RFC 9309, 2.2.1).",
        ),
        (
            polite.min_delay_s < _GENTLE_S,
            "politeness.min_delay_s",
            "sites may take so many visits for an attack; 1.0 is usual.",
        ),
        (
            polite.visits_per_host > _MANY_AT_ONCE,
            "politeness.visits_per_host",
            "more than browsers of one reader ever are.",
        ),
        (
            settings.proxy.disk_reserve_bytes == 0,
            "proxy.disk_reserve_bytes",
            "a full disk will break WARCs off; keep some free.",
        ),
        (
            bool(settings.egress.allow),
            "egress.allow",
            "pages of these networks can be reached by whatever a page loads.",
        ),
        (
            bool(login.key_file and not login.names),
            "login.key_file",
            "no login is named, so it opens nothing.",
        ),
    ):
        if is_so:
            group, _, key = name.partition(".")
            yield group, key, text
