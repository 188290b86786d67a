"""Cookies and local storage of a login, confined to the hosts it was recorded for.

A cookie for a whole domain is narrowed to the named hosts when it is recorded, so that no other
host of that domain is ever sent it. Local storage is accessed for a page's own origin only.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from core.errors import BadUrlError, ConfigError
from core.hosts import HostPatterns, canonical_host
from render.browser import BrowserContext
from render.cdp import CommandError
from render.page import WORLD, BrowserPage, load_script

COOKIES_LIMIT = 3_000
STORAGE_LIMIT_CHARS = 5_000_000  # what browsers give one origin
# Of ``Network.Cookie`` (what is read) those that ``Network.CookieParam`` (what is set) knows, too.
_KEPT = ("name", "value", "path", "secure", "httpOnly", "sameSite", "priority")

Cookie = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SiteSession:
    """Cookies and local storage, limited to their hosts.

    Attributes:
        cookies: ``name``, ``value``, ``domain`` (with a leading dot: subdomains, too), ``path``,
            ``expires`` (seconds since 1970; absent: until the browser is closed), flags.
        storage: local storage by origin.
    """

    cookies: tuple[Cookie, ...] = field(default=(), repr=False)
    storage: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    def alive(self, now_s: float) -> "SiteSession":
        """Return the session without expired cookies; `now_s` is in seconds since 1970."""
        cookies = tuple(each for each in self.cookies if each.get("expires", now_s + 1) > now_s)
        return SiteSession(cookies, self.storage)


def check_hosts(hosts: Sequence[str]) -> None:
    """Validate host patterns; refuse the one that matches all hosts.

    Raises:
        ConfigError: a pattern is invalid; the text names it.
    """
    if not hosts or "*" in hosts:
        raise ConfigError(
            "A login is for the hosts that it names, not for all: name example.org or *.example.org."
        )
    HostPatterns(dict.fromkeys(hosts, True))


def covers_host_of(hosts: Sequence[str], url: str) -> bool:
    """Return whether the URL's host matches one of the patterns."""
    try:
        host = canonical_host(urlsplit(url).hostname or "")
    except (BadUrlError, ValueError):
        return False
    return bool(HostPatterns(dict.fromkeys(hosts, True)).of(host))


def confine_to_hosts(
    cookies: Sequence[Cookie],
    storage: Mapping[str, Mapping[str, str]],
    hosts: Sequence[str],
) -> SiteSession:
    """Return the cookies (of ``Storage.getCookies``) and storage (by origin) of these host patterns."""
    found: dict[tuple[str, str, str], Cookie] = {}
    for cookie in cookies:
        for domain in _domains(str(cookie.get("domain", "")), hosts):
            kept = {key: cookie[key] for key in _KEPT if key in cookie}
            kept["domain"] = domain
            if cookie.get("expires", -1) > 0:
                kept["expires"] = cookie["expires"]
            found.setdefault((kept["name"], domain, kept.get("path", "/")), kept)
    own = {
        origin: dict(items) for origin, items in storage.items() if covers_host_of(hosts, origin)
    }
    return SiteSession(tuple(found.values())[:COOKIES_LIMIT], own)


async def restore_session(session: SiteSession, context: BrowserContext, page: BrowserPage) -> None:
    """Load the session into a page that has not navigated yet.

    Raises:
        CommandError, PageClosedError, BrowserUnavailableError: it could not be loaded.
    """
    await _set_cookies([_param(cookie) for cookie in session.cookies], context)
    if session.storage:
        facts = json.dumps({origin: dict(items) for origin, items in session.storage.items()})
        source = f"({load_script('storage')})({facts})"
        # In a world of our own, where no page can watch it being done.
        await page.send(
            "Page.addScriptToEvaluateOnNewDocument", {"source": source, "worldName": WORLD}
        )


async def _set_cookies(cookies: list[Cookie], context: BrowserContext) -> None:
    """Set the cookies; a refused one does not affect the others."""
    connection, of = context.connection, {"browserContextId": context.id}
    try:
        await connection.send("Storage.setCookies", {"cookies": cookies, **of})
    except CommandError:
        for cookie in cookies[:-1]:
            connection.post("Storage.setCookies", {"cookies": [cookie], **of})
        with suppress(CommandError):
            await connection.send("Storage.setCookies", {"cookies": cookies[-1:], **of})


def _param(cookie: Cookie) -> Cookie:
    """Convert the cookie to a CDP parameter; without a domain it is for its URL's host alone."""
    domain = cookie["domain"]
    if domain.startswith("."):
        return dict(cookie)
    scheme = "https" if cookie.get("secure") else "http"
    rest = {key: value for key, value in cookie.items() if key != "domain"}
    return {**rest, "url": f"{scheme}://{domain}/"}


def _domains(domain: str, hosts: Sequence[str]) -> list[str]:
    """Return the cookie domains, narrowed to the hosts, under which a cookie is stored."""
    below = domain.startswith(".")
    try:
        bare = canonical_host(domain.removeprefix("."))
    except BadUrlError:
        return []
    found = []
    for pattern in hosts:
        wide = pattern.startswith("*.")
        named = canonical_host(pattern.removeprefix("*."))
        inside = bare == named or (wide and bare.endswith(f".{named}"))
        if inside:
            found.append(f".{bare}" if below and wide else bare)
        elif below and named.endswith(f".{bare}"):
            found.append(f".{named}" if wide else named)
    return list(dict.fromkeys(found))
