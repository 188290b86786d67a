"""Cookies and local storage of a login, confined to the hosts it was recorded for.

A cookie that a site set for a whole domain is narrowed to the named hosts when it is taken, so that
no other host of that domain is ever sent it. Of a page only its own origin's storage is touched.
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
    """Cookies and storage of the hosts that it is for.

    Attributes:
        cookies: ``name``, ``value``, ``domain`` (with a dot before it: also for hosts below),
            ``path``, ``expires`` (seconds since 1970; absent: until the browser is closed), flags.
        storage: local storage by origin.
    """

    cookies: tuple[Cookie, ...] = field(default=(), repr=False)
    storage: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    def alive(self, now_s: float) -> "SiteSession":
        """The session without the cookies that have expired; `now_s` counts from 1970."""
        cookies = tuple(each for each in self.cookies if each.get("expires", now_s + 1) > now_s)
        return SiteSession(cookies, self.storage)


def check_hosts(hosts: Sequence[str]) -> None:
    """Refuse host patterns that are none, and the one that stands for all hosts.

    Raises:
        ConfigError: the text names it.
    """
    if not hosts or "*" in hosts:
        raise ConfigError(
            "A login is for the hosts that it names, not for all: name example.org or *.example.org."
        )
    HostPatterns(dict.fromkeys(hosts, True))


def covers_host_of(hosts: Sequence[str], url: str) -> bool:
    """Whether the URL's host is one of them."""
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
    """Of what a browser holds, that which is for these hosts.

    Args:
        cookies: as ``Storage.getCookies`` gives them.
        storage: local storage by origin.
        hosts: patterns (`core.hosts.HostPatterns`).
    """
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
    """Give a page, which has gone nowhere yet, the session.

    Raises:
        CommandError, PageClosedError, BrowserUnavailableError: it could not be given.
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
    """Set them; one that the browser does not take leaves the others be."""
    connection, of = context.connection, {"browserContextId": context.id}
    try:
        await connection.send("Storage.setCookies", {"cookies": cookies, **of})
    except CommandError:
        for cookie in cookies[:-1]:
            connection.post("Storage.setCookies", {"cookies": [cookie], **of})
        with suppress(CommandError):
            await connection.send("Storage.setCookies", {"cookies": cookies[-1:], **of})


def _param(cookie: Cookie) -> Cookie:
    """The cookie as the browser takes it: without a domain it is for the one host of its URL."""
    domain = cookie["domain"]
    if domain.startswith("."):
        return dict(cookie)
    scheme = "https" if cookie.get("secure") else "http"
    rest = {key: value for key, value in cookie.items() if key != "domain"}
    return {**rest, "url": f"{scheme}://{domain}/"}


def _domains(domain: str, hosts: Sequence[str]) -> list[str]:
    """For which of the hosts a cookie of that domain is kept, in the same spelling."""
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
