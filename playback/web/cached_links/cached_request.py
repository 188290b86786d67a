"""Request for the copies of a page's links, parsed and checked; InputError for invalid ones.

URLs are taken as they appear in a page. Those that cannot be archived are not errors; their answer is empty.
"""

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from core.errors import BadUrlError, InputError
from links.archives.archive_urls import SERVICES, recognise
from links.registry.wikis import WikiName
from playback.web.copy_lookup import UrlSpellings
from playback.web.i18n import languages, noop
from playback.web.registry.registry_values import parse_wiki

MOST_URLS = 1_000
_LONGEST_URL = 8_192  # what the proxy archives at most
_MOST_PAGE_ID = 2**63
# Relative addresses and those of other schemes are never archived.
_WEB = re.compile(r"(?:https?:)?[/\\]{2}[^/\\]", re.IGNORECASE)
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,34}", re.ASCII)
_SPACE = " \t\n\r\f"
_FRAGMENT_SAFE = "!$&'()*+,/:;=?@-._~%"  # RFC 3986, 3.5, and existing escapes
_LONGEST_FRAGMENT = 256
_ARCHIVES = frozenset(
    host
    for service in SERVICES.values()
    for host in (*service.hosts, *(each for form in service.forms for each in form.hosts))
)


@dataclass(frozen=True, slots=True)
class RequestedUrl:
    """URL of a request."""

    text: str
    spelled: UrlSpellings | None = None  # None: not to be archived
    fragment: str = ""  # with its ``#``, appended to the address of a copy; or empty
    is_copy: bool = False  # it is a copy in an archive, or a page of this one


@dataclass(frozen=True, slots=True)
class CachedQuestion:
    """Parsed request."""

    wiki: WikiName | None  # the page's wiki; None when not given: then no link state is disclosed
    urls: tuple[RequestedUrl, ...]  # in the order of the request
    language: str = ""  # of the texts; empty: negotiated
    page_id: int = 0  # the wiki's number of the page that contains them; 0 when not given (W20)


def parse_cached(body: bytes, *, own: tuple[str, ...] = ()) -> CachedQuestion:
    """Parse a JSON body; addresses below `own`, this archive's origins, are copies already."""
    try:
        document = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InputError(noop("Send a JSON object in UTF-8."))
    urls = document.get("urls")
    if not isinstance(urls, list) or not all(isinstance(each, str) for each in urls):
        raise InputError(noop('Specify the URLs: {"urls": ["https://example.org/"]}.'))
    if len(urls) > MOST_URLS:
        raise InputError(noop("At most 1000 URLs are allowed per request."))
    page_id = document.get("page_id")
    if page_id is None:
        page_id = 0  # e.g. of a page not saved yet
    if isinstance(page_id, float) and page_id.is_integer():
        page_id = int(page_id)  # JSON knows one sort of numbers
    is_whole = isinstance(page_id, int) and not isinstance(page_id, bool)
    if not is_whole or not 0 <= page_id < _MOST_PAGE_ID:
        raise InputError(noop("A page ID is a positive integer, such as 9301140."))
    wiki, language = _text(document, "wiki"), _text(document, "lang")
    if language and not _CODE.fullmatch(language):
        raise InputError(noop("Use a language tag such as de or de-AT."))
    # Codes such as ``simple`` and ``zh-classical`` have no translation.
    base = re.split("[-_]", language.lower(), maxsplit=1)[0]
    return CachedQuestion(
        parse_wiki(wiki) if wiki else None,
        tuple(requested_url(each, own) for each in urls),
        base if base in languages() else "",
        page_id,
    )


def requested_url(text: str, own: tuple[str, ...] = ()) -> RequestedUrl:
    """Parse the URL for look-up.

    >>> requested_url("//Example.org/%7Ea#top").spelled.identity
    'https://example.org/~a'
    >>> [requested_url(text).spelled for text in ("/wiki/A", "javascript:alert(1)", "#top", "")]
    [None, None, None, None]
    """
    stripped = text.strip(_SPACE)
    if len(stripped) > _LONGEST_URL or not _WEB.match(stripped):
        return RequestedUrl(text)
    try:
        spelled = UrlSpellings.of(stripped)
    except BadUrlError:
        return RequestedUrl(text)
    if is_copy(spelled.fetch, own):
        return RequestedUrl(text, is_copy=True)
    fragment = "" if "#" in spelled.fetch else stripped.partition("#")[2]
    if not fragment or len(fragment) > _LONGEST_FRAGMENT:
        return RequestedUrl(text, spelled)
    return RequestedUrl(text, spelled, "#" + quote(fragment, safe=_FRAGMENT_SAFE, errors="replace"))


def is_copy(url: str, own: tuple[str, ...] = ()) -> bool:
    """Return True when the address, a fetch key, is a copy in an archive or a page of this one.

    >>> is_copy("https://web.archive.org/web/2020/https://a.example/"), is_copy("https://a.example/")
    (True, False)
    """
    if any(origin and url.startswith(f"{origin}/") for origin in own):
        return True
    host = url.partition("://")[2].partition("/")[0].partition(":")[0].removeprefix("www.")
    # All other addresses of copies contain the original.
    if host not in _ARCHIVES and "http" not in url[7:] and "www." not in url[12:]:
        return False
    return recognise(url) is not None


def _no_constant(name: str) -> None:
    raise ValueError(name)  # NaN and infinities are not JSON


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(noop("wiki and lang must be strings."))
    return value
