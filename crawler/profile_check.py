"""What is wrong with a profile, all of it at once, and what is allowed but is seldom meant.

Each key is tried alone, so that one fault does not hide the next; what only keys together can do wrong
is looked at when each of them is right.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from core.errors import ConfigError
from core.profile import check_settings, settings_from
from core.settings import Settings
from crawler.profiles import Layer, check_world, lines_of, settings_of

_SHEETS = ("sheets", "sheet")
_WIDE_PHONE_PX = 1_000
_LONG_VISIT_S = 600.0
_GENTLE_S = 0.5
_MANY_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a profile.

    Attributes:
        where: its source and, when it is known, the line.
        text: a sentence, with the next step.
        line: in the file; 0 when it is not known.
    """

    where: str
    text: str
    line: int = 0


def faults(chain: tuple[Layer, ...]) -> list[Finding]:
    """Everything that makes the profile, or what it extends, unusable."""
    found = [fault for layer in chain for fault in _faults_of(layer)]
    if found:
        return found
    try:
        settings_of(chain)
    except ConfigError as error:
        return [Finding(chain[0].source, str(error))]
    return []


def warnings(chain: tuple[Layer, ...], settings: Settings) -> list[Finding]:
    """What can be used, and is seldom what somebody wants."""
    found = []
    for group, key, text in _suspicions(settings):
        layer = next((each for each in chain if key in each.document.get(group, {})), None)
        if layer is None:
            continue  # nobody has said it: it is a default
        line = _line(layer, group, key)
        found.append(Finding(_place(layer, line), f"[{group}] {key}: {text}", line))
    return found


def _faults_of(layer: Layer) -> Iterator[Finding]:
    known = {each.name for each in fields(Settings)} - set(_SHEETS)
    for group, table in layer.document.items():
        if group not in known or not isinstance(table, dict):
            yield from _tried(layer, {group: table}, group, "")
            continue
        for key, value in table.items():
            yield from _tried(layer, {group: {key: value}}, group, key)


def _tried(layer: Layer, document: dict[str, Any], group: str, key: str) -> Iterator[Finding]:
    try:
        settings = settings_from(document, source=layer.source)
        if group == "index" and settings.index.url:
            # The one key that another must go with; the whole is checked when the rest is right.
            settings = replace(settings, proxy=replace(settings.proxy, dedup_url="redis://a:1/0"))
        check_settings(settings, source=layer.source)
        check_world(settings, layer.source)
    except ConfigError as error:
        line = _line(layer, group, key)
        text = str(error).removeprefix(layer.source).strip().removeprefix(":").strip()
        yield Finding(_place(layer, line), text, line)


def _place(layer: Layer, line: int) -> str:
    return f"{layer.source}, line {line}" if line else layer.source


def _line(layer: Layer, group: str, key: str) -> int:
    """Where the profile says it; 0 when it is written in another way than most write it."""
    wanted = f"{group}[]" if group in _SHEETS else group
    for table, name, number in lines_of(layer.text):
        dotted = not table and name in (f"{group}.{key}", group)
        if (table == wanted and name == key) or dotted:
            return number
    return 0


def _suspicions(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """(group, key, sentence) of all that is seldom meant, whoever has said it."""
    yield from _of_visits(settings)
    yield from _of_identity(settings)
    polite = settings.politeness
    if polite.min_delay_s < _GENTLE_S:
        yield (
            "politeness",
            "min_delay_s",
            "sites may take so many visits for an attack; 1.0 is usual.",
        )
    if polite.visits_per_host > _MANY_AT_ONCE:
        yield "politeness", "visits_per_host", "more than browsers of one reader ever are."
    if settings.proxy.disk_reserve_bytes == 0:
        yield "proxy", "disk_reserve_bytes", "a full disk will break WARCs off; keep some free."
    if settings.egress.allow:
        yield "egress", "allow", "pages of these networks can be reached by whatever a page loads."
    if settings.login.key_file and not settings.login.names:
        yield "login", "key_file", "no login is named, so it opens nothing."


def _of_visits(settings: Settings) -> Iterator[tuple[str, str, str]]:
    visit = settings.visit
    if visit.timeout_s == 0:
        yield "visit", "timeout_s", "no page is ever loaded in no time."
    if visit.timeout_s > _LONG_VISIT_S:
        yield "visit", "timeout_s", "one page may keep a browser for more than ten minutes."
    if visit.settle_limit_s >= visit.timeout_s:
        yield (
            "visit",
            "settle_limit_s",
            "waiting for quiet leaves no time for behaviours and pictures.",
        )
    if settings.behaviours.limit_s >= visit.timeout_s:
        yield "behaviours", "limit_s", "behaviours leave no time for pictures and text."
    if not visit.dom:
        yield "visit", "dom", "playback without scripts is made of the DOM, and will have none."
    if visit.rendered_share > 1:
        yield "visit", "rendered_share", "a share is at most 1."
    if visit.device_scale > 1 and visit.full_page:
        yield (
            "visit",
            "device_scale",
            f"pictures have {visit.device_scale**2:.0f} times as many pixels.",
        )


def _of_identity(settings: Settings) -> Iterator[tuple[str, str, str]]:
    visit = settings.visit
    if visit.mobile and visit.viewport_width > _WIDE_PHONE_PX:
        yield "visit", "mobile", "no phone is so wide; viewport_width = 412 is usual."
    if visit.user_agent and not visit.contact:
        yield "visit", "user_agent", "sites cannot ask whose it is; say contact, too."
    first = visit.language.partition(",")[0].partition(";")[0].strip().partition("-")[0].lower()
    if visit.locale and first not in (
        "",
        "*",
        visit.locale.replace("_", "-").split("-")[0].lower(),
    ):
        yield "visit", "locale", "another language than the first of `language`; sites notice."
    if settings.policy.robots == "obey" and not visit.contact and visit.user_agent:
        yield "policy", "robots_agent", "must be part of user_agent (RFC 9309, 2.2.1)."
