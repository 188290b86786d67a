"""Check of a profile for its author: all errors, and valid values that are seldom intended."""

from collections.abc import Iterator

from core.config.settings import Settings
from core.errors import ConfigError
from crawler.profiles import (
    ProfileFinding,
    ProfileLayer,
    chain_settings,
    finding_at,
    layer_faults,
)

_WIDE_PHONE_PX = 1_000
_LONG_VISIT_S = 600.0
_GENTLE_S = 0.5
_MANY_AT_ONCE = 8


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
