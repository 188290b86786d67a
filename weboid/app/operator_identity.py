"""Operator identity: contact address, purpose page, and the settings of unattended runs.

Precedence: the environment (`WEBOID_CONTACT`, `WEBOID_PURPOSE_PAGE`), the profile, the table ``[operator]`` in the
collection's ``weboid.toml``; older collections have it in ``collection.toml``. A run is unattended when its URLs
were not given by hand. It obeys robots.txt and names the purpose page to every site, unless the profile disables that.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from core.config.profile import check_settings
from core.config.settings import PURPOSE_PAGE, Settings
from core.errors import ConfigError
from core.layout import CONFIG_FILE, Layout
from crawler.collection import is_trial, trial_settings
from crawler.profiles import load_profile, profile_sets

TABLE: Final = "operator"
_ENVIRONMENT: Final = {"contact": "WEBOID_CONTACT", "purpose_page": "WEBOID_PURPOSE_PAGE"}
_GROUPS: Final = ("visit", "links")


@dataclass(frozen=True, slots=True)
class OperatorIdentity:
    """Public identity of the operator; empty fields are not set."""

    contact: str = ""  # a page or mail address
    purpose_page: str = ""  # URL of a page that explains the visits
    addresses: str = ""  # IP addresses of visits, for the front's page about the crawler
    recrawl: str = ""  # interval after which unattended runs archive living pages again, e.g. "90d"
    name: str = ""  # the archive's name on readers' pages; empty: Weboid


def read_operator(root: Path) -> OperatorIdentity:
    """Return the operator from ``weboid.toml``, or an older ``collection.toml``; empty without one."""
    try:
        marker = tomllib.loads(Layout(root).marker.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # code that needs the collection reports the error
        marker = {}
    older = marker.get(TABLE, {})
    if not isinstance(older, dict) or not all(isinstance(each, str) for each in older.values()):
        raise ConfigError(f"{Layout(root).marker}: [{TABLE}] must contain strings only.")
    table = dict(older)
    if (root / CONFIG_FILE).exists():
        from weboid.app.collection_config import read_config

        table |= read_config(root).operator()
    return OperatorIdentity(*(table.get(each.name, "") for each in fields(OperatorIdentity)))


def known_operator(root: Path) -> OperatorIdentity:
    """Return the operator with the environment applied over it; raises as `read_operator`."""
    return replace(read_operator(root), **_from_environment())


def _from_environment() -> dict[str, str]:
    return {name: os.environ[of] for name, of in _ENVIRONMENT.items() if os.environ.get(of)}


def check_operator(operator: OperatorIdentity) -> None:
    """Validate addresses for use in a User-Agent."""
    settings = _completed(Settings(), operator_fields(operator))
    check_settings(settings, source="the operator's")


def operator_fields(operator: OperatorIdentity) -> dict[str, str]:
    """Return the operator's non-empty fields by name."""
    values = {name: getattr(operator, name) for name in (*_ENVIRONMENT, "recrawl")}
    return {name: value for name, value in values.items() if value}


def collection_settings(
    profile: str, root: Path | None = None, *, unattended: bool = False, robots: str | None = None
) -> Settings:
    """Return the settings of a profile, completed by the collection's operator; a trial uses its own stores.

    `unattended`: the URLs were not given by hand. `robots`: "obey" or "ignore" where an option sets it.
    """
    settings = load_profile(profile)
    operator = read_operator(root) if root is not None else OperatorIdentity()
    values = operator_fields(operator) | _from_environment()
    proxy = settings.proxy
    proxy = replace(proxy, operator=proxy.operator or operator.name, profile=proxy.profile or profile_name(profile))
    settings = _completed(replace(settings, proxy=proxy), values, profile=profile, unattended=unattended)
    if robots is None and unattended and not profile_sets(profile, "policy", "robots"):
        robots = "obey"
    if robots is not None:
        settings = replace(settings, policy=replace(settings.policy, robots=robots))
    check_settings(settings, source="the operator's")
    return settings if root is None or not is_trial(root) else trial_settings(settings)


def profile_name(profile: str) -> str:
    """Return the name of a profile: of a preset, or of a file without its folder.

    >>> profile_name("wiki"), profile_name("/data/weboid.toml@mobile"), profile_name("mine/news.toml")
    ('wiki', 'mobile', 'news')
    """
    return Path(profile.rpartition("@")[2] or profile).stem


def _completed(
    settings: Settings, values: Mapping[str, str], *, profile: str = "", unattended: bool = True
) -> Settings:
    for group in _GROUPS:
        changes: dict[str, Any] = {}
        for name in _ENVIRONMENT:
            if profile and not os.environ.get(_ENVIRONMENT[name]) and profile_sets(profile, group, name):
                continue
            has_default = name == "purpose_page" and group == "visit"
            is_given = unattended if has_default else name in values
            if is_given:
                changes[name] = values.get(name, PURPOSE_PAGE)
        settings = replace(settings, **{group: replace(getattr(settings, group), **changes)})
    every = values.get("recrawl", "")
    is_set = profile and any(profile_sets(profile, "recrawl", key) for key in ("every", "enabled"))
    if every and unattended and not is_set:
        settings = replace(settings, recrawl=replace(settings.recrawl, every=every))
    return settings


def contact_notice(contact: str) -> str:
    """Return the first line of a run without a contact address; empty when there is one."""
    if contact:
        return ""
    return (
        "No contact address is set, so sites cannot reach the operator. "
        "Set `contact` under [operator] in weboid.toml, or WEBOID_CONTACT, or run `weboid wiki add URL --contact ADDRESS`."
    )
