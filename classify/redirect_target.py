"""Redirect targets: root page, error page, login, consent or parking service, where a site no longer has the page."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self
from urllib.parse import parse_qsl, unquote, urljoin, urlsplit

from classify.evidence import entries, expression
from classify.missing_page import PARKERS
from classify.page_excerpt import is_root
from core.errors import BadUrlError
from core.hosts import registrable
from core.urls import fetch_key, host_of

MAX_URL = 8_192  # of a Location; servers truncate longer ones, too


class RedirectEnding(StrEnum):
    """Kind of a redirect's final target; the value is a constant of a finding's note."""

    FINE = ""
    ROOT = "redirect: root"
    ERROR_PAGE = "redirect: error page"
    LOGIN = "redirect: login"
    CONSENT = "redirect: consent"
    PARKED = "redirect: parked"


class BadLocationError(Exception):
    """Location that cannot be followed; `args[0]` gives the reason, a constant first."""


_ERROR_SEGMENT = re.compile(expression("redirect", "error_segment"), re.IGNORECASE)
_LOGIN_SEGMENT = re.compile(expression("redirect", "login_segment"), re.IGNORECASE)
_CONSENT_SEGMENT = re.compile(expression("redirect", "consent_segment"), re.IGNORECASE)
_LOGIN_HOSTS = re.compile(expression("redirect", "login_hosts"), re.IGNORECASE)
_CONSENT_HOSTS = re.compile(expression("redirect", "consent_hosts"), re.IGNORECASE)
# GoDaddy also sells other products.
_PARKERS = PARKERS - {"godaddy.com"}
_SHORTENERS = frozenset(entries("redirect", "shorteners"))


def resolve_location(base: str, location: str) -> str:
    """Resolve a Location header, Latin-1 for bytes and decoded as UTF-8 where valid, to a fetch key.

    `base` is the fetch key of the URL that sent it. Raises BadLocationError if it cannot be followed.
    """
    try:
        text = location.encode("latin-1").decode()
    except UnicodeError:  # not UTF-8; or from a page's refresh, which is text already
        text = location
    text = text.strip(" \t\r\n\x00")
    if not text:
        raise BadLocationError("redirect: no location")
    if len(text) > MAX_URL:
        raise BadLocationError("redirect: location too long")
    scheme = _SCHEME.match(text)
    if scheme is not None and scheme[1].lower() not in ("http", "https"):
        raise BadLocationError(f"redirect: scheme {scheme[1].lower()[:40]}")
    try:
        # The parser reads backslashes as slashes; so must the joining before it.
        return fetch_key(urljoin(base, text.replace("\\", "/")), allow_single_label=True)
    except (BadUrlError, ValueError) as error:
        reason = error.reason if isinstance(error, BadUrlError) else "unparsable"
        raise BadLocationError(f"redirect: bad location, {reason}") from error


_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(?!\d)", re.IGNORECASE | re.ASCII)


def classify_ending(url: str, final: str) -> RedirectEnding:
    """Classify the final target of redirects relative to the requested URL.

    >>> classify_ending("http://example.org/a", "https://www.example.org/").name
    'ROOT'
    """
    if _bare(url) == _bare(final):
        return RedirectEnding.FINE
    before, after = _RedirectPlace.of(url), _RedirectPlace.of(final)
    if after.domain in _PARKERS and before.domain != after.domain:
        return RedirectEnding.PARKED
    if _leads(_CONSENT_SEGMENT, _CONSENT_HOSTS, before, after):
        return RedirectEnding.CONSENT
    if _leads(_LOGIN_SEGMENT, _LOGIN_HOSTS, before, after):
        return RedirectEnding.LOGIN
    query = dict(parse_qsl(after.query[:2048]))
    if (after.has(_ERROR_SEGMENT) and not before.has(_ERROR_SEGMENT)) or any(
        query.get(name) in _ERROR_VALUES for name in ("error", "e", "err", "status")
    ):
        return RedirectEnding.ERROR_PAGE
    if is_root(after.url) and not is_root(before.url) and before.domain not in _SHORTENERS:
        return RedirectEnding.ROOT
    return RedirectEnding.FINE


@dataclass(frozen=True, slots=True)
class _RedirectPlace:
    url: str
    host: str
    domain: str
    segments: tuple[str, ...]  # of the path, each without its extension
    query: str

    @classmethod
    def of(cls, url: str) -> Self:
        parts = urlsplit(url)
        host = host_of(url)
        names = [unquote(each) for each in parts.path[:2048].split("/") if each]
        segments = tuple(re.sub(r"\.[A-Za-z]{2,5}$", "", each)[:200] for each in names)
        return cls(url, host, registrable(host), segments, parts.query)

    def has(self, pattern: re.Pattern[str]) -> bool:
        return any(pattern.fullmatch(each) for each in self.segments)


_ERROR_VALUES = frozenset(("404", "410", "notfound"))


def _bare(url: str) -> str:
    """Return the URL without differences of scheme and host spelling."""
    parts = urlsplit(url)
    host = (parts.hostname or "").removeprefix("www.")
    return f"{host}{parts.path.rstrip('/')}?{parts.query}"


def _leads(segment: re.Pattern[str], hosts: re.Pattern[str], before: _RedirectPlace, after: _RedirectPlace) -> bool:
    """Return True if the target is such a page and the requested URL was not."""
    if before.has(segment) or hosts.fullmatch(before.host):
        return False
    return after.has(segment) or (after.host != before.host and hosts.fullmatch(after.host) is not None)
