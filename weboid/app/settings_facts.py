"""Presets, their settings, and logins as JSON values, without secrets."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from core.config.settings import Settings
from crawler.profiles import builtin_profiles, load_chain, load_profile, source_of_key
from render.sign_in import Login

_SECRET_URLS = (("index", "url"), ("proxy", "dedup_url"), ("frontier", "url"))


def list_presets() -> list[tuple[str, str]]:
    """Return name and purpose of the profiles that come with the program."""
    rows = []
    for name in builtin_profiles():
        comment = []
        for line in load_chain(name)[0].text.splitlines():
            if not line.startswith("#"):
                break
            comment.append(line.lstrip("# ").strip())
        load_profile(name)  # an invalid one is an error here
        rows.append((name, " ".join(comment).partition(". ")[0].rstrip(".")))
    return rows


def setting_rows(settings: Settings, chain: Any) -> Iterator[dict[str, Any]]:
    """Yield the settings with their sources, without passwords."""
    usual = Settings()
    for group in fields(settings):
        if group.name == "sheets":
            continue
        values, defaults = getattr(settings, group.name), getattr(usual, group.name)
        for each in fields(values):
            value = getattr(values, each.name)
            if (group.name, each.name) in _SECRET_URLS:
                value = _without_password(value)
            elif (group.name, each.name) == ("egress", "via"):
                value = {pattern: _without_password(via) for pattern, via in value.items()}
            yield {
                "group": group.name,
                "key": each.name,
                "value": value,
                "default": getattr(defaults, each.name),
                "from": source_of_key(chain, group.name, each.name) or "default",
            }


def _without_password(address: str) -> str:
    scheme, separator, rest = address.partition("://")
    user, at, host = rest.rpartition("@")
    if not at:
        return address
    return f"{scheme}{separator}{user.partition(':')[0]}:…@{host}"


def login_facts(login: Login) -> dict[str, object]:
    """Return what may be shown of a login as JSON values: no cookie, no stored item."""
    return {
        "name": login.name,
        "hosts": login.hosts,
        "cookies": login.cookies,
        "made_at": login.made_at.isoformat(),
        "expires_at": None if login.expires_at is None else login.expires_at.isoformat(),
        "unverified_tls": login.unverified_tls,
    }
