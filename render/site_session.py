"""Logins of a run, and their sessions: cookies and local storage.

A cookie for a whole domain is narrowed to the named hosts when it is recorded, so that no other
host of that domain is ever sent it. Local storage is accessed for a page's own origin only.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from core.errors import BadUrlError, ConfigError
from core.hosts import HostPatterns, canonical_host
from render.browser import BrowserContext
from render.cdp import CommandError
from render.page import WORLD, BrowserPage, load_script

COOKIES_LIMIT = 3_000
# Of ``Network.Cookie`` (what is read) those that ``Network.CookieParam`` (what is set) knows, too.
_KEPT = ("name", "value", "path", "secure", "httpOnly", "sameSite", "priority")

Cookie = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SiteSession:
    """Cookies and local storage, limited to their hosts."""

    # ``name``, ``value``, ``domain`` (with a leading dot: subdomains, too), ``path``, ``expires``
    # (seconds since 1970; absent: until the browser is closed), flags
    cookies: tuple[Cookie, ...] = field(default=(), repr=False)
    # Local storage by origin
    storage: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    def alive(self, now_s: float) -> "SiteSession":
        """Return the session without expired cookies; `now_s` is in seconds since 1970."""
        cookies = tuple(each for each in self.cookies if each.get("expires", now_s + 1) > now_s)
        return SiteSession(cookies, self.storage)


def check_hosts(hosts: Sequence[str]) -> None:
    """Validate host patterns; refuse the one that matches all hosts.

    Raises ConfigError: a pattern is invalid; the text names it.
    """
    if not hosts or "*" in hosts:
        raise ConfigError("A login is for the hosts that it names, not for all: name example.org or *.example.org.")
    HostPatterns(dict.fromkeys(hosts, True))


def covers_host_of(hosts: Sequence[str], url: str) -> bool:
    """Return whether the URL's host matches one of the patterns."""
    try:
        host = canonical_host(urlsplit(url).hostname or "")
    except (BadUrlError, ValueError):
        return False
    return bool(HostPatterns(dict.fromkeys(hosts, True)).of(host))


@dataclass(frozen=True, slots=True)
class Login:
    """Login of one or more hosts."""

    name: str
    hosts: tuple[str, ...]  # patterns of the hosts that it is for; it is used for no other
    made_at: datetime
    expires_at: datetime | None = None  # of the last cookie with a date; None: none has one
    cookies: int = 0  # number of cookies
    key: str = ""  # kind of its key, ``passphrase`` or ``file``
    unverified_tls: bool = False  # also for servers whose certificate does not verify
    session: SiteSession = field(default_factory=SiteSession)  # empty as long as it is sealed


class SiteLogins:
    """Opened logins; a page uses the first whose hosts match."""

    def __init__(self, logins: Sequence[Login] = ()) -> None:
        self._logins = tuple(logins)

    def __repr__(self) -> str:
        return f"<Logins [{', '.join(each.name for each in self._logins)}]>"

    def __len__(self) -> int:
        return len(self._logins)

    def of(self, url: str) -> Login | None:
        """Return the login for the page; None: visit without one."""
        return next((each for each in self._logins if covers_host_of(each.hosts, url)), None)


def confine_to_hosts(
    cookies: Sequence[Cookie], storage: Mapping[str, Mapping[str, str]], hosts: Sequence[str]
) -> SiteSession:
    """Return the cookies (of ``Storage.getCookies``) and storage (by origin) of these host patterns."""
    confined: dict[tuple[str, str, str], Cookie] = {}
    for cookie in cookies:
        for domain in _domains(str(cookie.get("domain", "")), hosts):
            narrowed = {key: cookie[key] for key in _KEPT if key in cookie}
            narrowed["domain"] = domain
            if cookie.get("expires", -1) > 0:
                narrowed["expires"] = cookie["expires"]
            confined.setdefault((narrowed["name"], domain, narrowed.get("path", "/")), narrowed)
    own = {origin: dict(items) for origin, items in storage.items() if covers_host_of(hosts, origin)}
    return SiteSession(tuple(confined.values())[:COOKIES_LIMIT], own)


async def restore_session(session: SiteSession, context: BrowserContext, page: BrowserPage) -> None:
    """Load the session into a page that has not navigated yet.

    Raises CommandError, PageClosedError, BrowserUnavailableError: it could not be loaded.
    """
    cookies = []
    for each in session.cookies:
        cookie, domain = dict(each), each["domain"]
        if not domain.startswith("."):  # it is for its URL's host alone
            scheme = "https" if cookie.get("secure") else "http"
            cookie["url"] = f"{scheme}://{cookie.pop('domain')}/"
        cookies.append(cookie)
    connection, of = context.connection, {"browserContextId": context.id}
    try:
        await connection.send("Storage.setCookies", {"cookies": cookies, **of})
    except CommandError:
        # One by one: a refused one does not affect the others.
        for cookie in cookies[:-1]:
            connection.post("Storage.setCookies", {"cookies": [cookie], **of})
        with suppress(CommandError):
            await connection.send("Storage.setCookies", {"cookies": cookies[-1:], **of})
    if session.storage:
        facts = json.dumps({origin: dict(items) for origin, items in session.storage.items()})
        source = f"({load_script('storage')})({facts})"
        # In a world of our own, where no page can watch it being done.
        await page.send("Page.addScriptToEvaluateOnNewDocument", {"source": source, "worldName": WORLD})


def _domains(domain: str, hosts: Sequence[str]) -> list[str]:
    """Return the cookie domains, narrowed to the hosts, under which a cookie is stored."""
    below = domain.startswith(".")
    try:
        bare = canonical_host(domain.removeprefix("."))
    except BadUrlError:
        return []
    domains = []
    for pattern in hosts:
        wide = pattern.startswith("*.")
        named = canonical_host(pattern.removeprefix("*."))
        inside = bare == named or (wide and bare.endswith(f".{named}"))
        if inside:
            domains.append(f".{bare}" if below and wide else bare)
        elif below and named.endswith(f".{bare}"):
            domains.append(f".{named}" if wide else named)
    return list(dict.fromkeys(domains))
