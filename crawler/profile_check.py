"""Check of profiles for their authors: errors of each key, with lines, warnings about values, sources of settings."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

from core.config.profile import check_settings, settings_from, tables_of_key
from core.config.settings import Settings
from core.errors import ConfigError
from core.json_values import FactsOf
from core.layout import CONFIG_FILE
from core.urls import mask_passwords
from crawler import profiles

_WIDE_PHONE_PX = 1_000
_LONG_VISIT_S = 600.0
_GENTLE_S = 0.5
_MANY_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class ProfileFinding:
    """Error or warning about a profile."""

    where: str  # its source and, when it is known, the line
    text: str  # a sentence, with the next step
    line: int = 0  # in the file; 0 when it is not known


def layer_faults(layer: profiles.ProfileLayer) -> Iterator[ProfileFinding]:
    """Yield the errors of a profile, each key by itself."""
    known = {each.name for each in fields(Settings)} - set(profiles.SHEETS)
    for group, table in layer.document.items():
        if group not in known | set(profiles.SHEETS):
            own = profiles.CONFIG_TABLES if Path(layer.source).name == CONFIG_FILE else ()
            names = sorted((*known, "sheet", *own))
            near = get_close_matches(group, names, n=1)
            hint = f" Did you mean [{near[0]}]?" if near else tables_of_key(group)
            text = f"There is no table {group!r}.{hint} Tables: {', '.join(names)}."
            yield finding_at(layer, group, "", text)
            continue
        if group in profiles.SHEETS and isinstance(table, list):
            for number, sheet in enumerate(table):
                yield from _sheet_faults(layer, group, sheet, number)
            continue
        if group not in known or not isinstance(table, dict):
            yield from _tried(layer, {group: table}, group, "")
            continue
        for key, value in table.items():
            yield from _tried(layer, {group: {key: value}}, group, key)


def _sheet_faults(layer: profiles.ProfileLayer, group: str, sheet: Any, number: int) -> Iterator[ProfileFinding]:
    tables = {name: keys for name, keys in sheet.items() if isinstance(keys, dict)} if isinstance(sheet, dict) else {}
    bare = {name: each for name, each in sheet.items() if name not in tables} if tables else sheet
    if faults := [*_tried(layer, {group: [bare]}, group, "", number)]:
        yield from faults
        return
    for name, keys in tables.items():
        for key, value in keys.items():
            yield from _tried(layer, {group: [{**bare, name: {key: value}}]}, group, f"{name}.{key}", number)


def _tried(
    layer: profiles.ProfileLayer, document: dict[str, Any], group: str, key: str, number: int = 0
) -> Iterator[ProfileFinding]:
    try:
        settings = settings_from(document, source=layer.source)
        if group == "index" and settings.index.url:
            # The one key that another must go with; the whole is checked when the rest is right.
            settings = replace(settings, proxy=replace(settings.proxy, dedup_url="redis://a:1/0"))
        check_settings(settings, source=layer.source)
        profiles.check_environment(settings, layer.source)
    except ConfigError as error:
        text = str(error).removeprefix(layer.source).strip().removeprefix(":").strip()
        yield finding_at(layer, group, key, text, number)


def finding_at(layer: profiles.ProfileLayer, group: str, key: str, text: str, number: int = 0) -> ProfileFinding:
    """Return the finding about a key of a profile, with its line when that is known; `number` as in `line_of`."""
    line = profiles.line_of(layer.text, group, key, number=number)
    where = f"{layer.source}, line {line}" if line else layer.source
    return ProfileFinding(where, text, line)


def profile_faults(chain: tuple[profiles.ProfileLayer, ...]) -> list[ProfileFinding]:
    """List all errors of the profile, and of those that it extends."""
    faults = [fault for layer in chain for fault in layer_faults(layer)]
    if faults:
        return faults
    try:
        profiles.chain_settings(chain)
    except ConfigError as error:
        return [ProfileFinding(chain[0].source, str(error))]
    return []


def profile_warnings(chain: tuple[profiles.ProfileLayer, ...], settings: Settings) -> list[ProfileFinding]:
    """List valid values that are seldom intended."""
    warnings = []
    for name, text in _suspicions(settings):
        group, _, key = name.partition(".")
        layer = next((each for each in chain if key in each.document.get(group, {})), None)
        if layer is None:
            continue  # not set by any profile: a default
        warnings.append(finding_at(layer, group, key, f"[{group}] {key}: {text}"))
    return warnings


def _visit_suspicions(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield (setting, sentence) for values of visits that are seldom intended."""
    visit = settings.visit
    first = visit.language.partition(",")[0].partition(";")[0].strip().partition("-")[0].lower()
    if visit.timeout_s == 0:
        yield "visit.timeout_s", "no page loads within this time."
    if visit.timeout_s > _LONG_VISIT_S:
        yield "visit.timeout_s", "one page may occupy a browser for more than ten minutes."
    if visit.settle_limit_s >= visit.timeout_s:
        yield "visit.settle_limit_s", "waiting for network idle leaves no time for behaviours and pictures."
    if settings.behaviours.limit_s >= visit.timeout_s:
        yield "behaviours.limit_s", "behaviours leave no time for pictures and text."
    if not visit.dom:
        yield "visit.dom", "playback without scripts uses the DOM, which will be missing."
    if visit.device_scale > 1 and visit.full_page:
        yield "visit.device_scale", f"pictures have {visit.device_scale**2:.0f} times as many pixels."
    if visit.mobile and visit.viewport_width > _WIDE_PHONE_PX:
        yield "visit.mobile", "no phone is this wide; 412 is usual."
    if visit.user_agent and not visit.contact:
        yield "visit.user_agent", "sites cannot contact the operator; set contact, too."
    if visit.locale and first not in ("", "*", visit.locale.replace("_", "-").split("-")[0].lower()):
        yield "visit.locale", "another language than the first of `language`; sites notice."


def _suspicions(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield (setting, sentence) for values that are seldom intended."""
    yield from _visit_suspicions(settings)
    visit, polite, login = settings.visit, settings.politeness, settings.login
    if settings.policy.robots == "obey" and visit.user_agent and not visit.contact:
        yield "policy.robots_agent", "must be part of user_agent (RFC 9309, 2.2.1)."
    if polite.min_delay_s < _GENTLE_S:
        yield "politeness.min_delay_s", "sites may mistake so many visits for an attack; 1.0 is usual."
    if polite.visits_per_host > _MANY_AT_ONCE:
        yield "politeness.visits_per_host", "more connections than one reader's browser ever opens."
    if settings.proxy.disk_reserve_bytes == 0:
        yield "proxy.disk_reserve_bytes", "a full disk truncates WARCs; reserve some space."
    if settings.egress.allow:
        yield "egress.allow", "archived pages can load anything from these networks."
    if login.key_file and not login.names:
        yield "login.key_file", "no login is named, so the key is unused."


def list_presets() -> list[tuple[str, str]]:
    """Return name and purpose of the profiles that come with the program."""
    rows = []
    for name in profiles.builtin_profiles():
        lines = profiles.load_chain(name)[0].text.splitlines()
        comment = (line.lstrip("# ").strip() for line in takewhile(lambda line: line.startswith("#"), lines))
        profiles.load_profile(name)  # an invalid one is an error here
        rows.append((name, " ".join(comment).partition(". ")[0].rstrip(".")))
    return rows


SettingFacts = Annotated[dict[str, Any], FactsOf(
    "SettingFacts", group=str, key=str, value=Any, default=Any, **{"from": str},
)]  # fmt: skip


def setting_rows(settings: Settings, chain: tuple[profiles.ProfileLayer, ...]) -> Iterator[SettingFacts]:
    """Yield the settings with their sources, with lines where they are known, without passwords."""
    usual = Settings()
    for group in fields(settings):
        if group.name == "sheets":
            continue
        values, defaults = getattr(settings, group.name), getattr(usual, group.name)
        for each in fields(values):
            value = getattr(values, each.name)
            if isinstance(value, str):
                value = mask_passwords(value)
            elif (group.name, each.name) == ("egress", "via"):
                value = {pattern: mask_passwords(via) for pattern, via in value.items()}
            layer = next((one for one in chain if each.name in one.document.get(group.name, {})), None)
            yield {
                "group": group.name,
                "key": each.name,
                "value": value,
                "default": getattr(defaults, each.name),
                "from": "default" if layer is None else finding_at(layer, group.name, each.name, "").where,
            }
