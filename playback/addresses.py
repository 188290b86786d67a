"""The addresses of playback, written and read in one place; pure.

``/c/<timestamp><modifier>/<url>`` is replay's, ``/page/<timestamp>/<url>`` and its sisters are the
front's. The archived URL stands in the path as it is, query included, so that a person can type
it. Only its ``#`` must be hidden from the browser, as ``%23``; an archived URL that itself holds
``%23`` gets one ``%25`` more, so that nothing is lost either way.

>>> escape_url("https://example.org/a%2Fb?q=1#!/c")
'https://example.org/a%2Fb?q=1%23!/c'
>>> unescape_url("https://example.org/a%2Fb?q=1%23!/c")
'https://example.org/a%2Fb?q=1#!/c'
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

# RFC 3986, 2.2 and 2.3: reserved, unreserved, and the percent sign of what is already encoded.
_SAFE = "!$&'()*+,/:;=?@[]~%-._"
_HASH = re.compile(r"#|%((?:25)*)23")
_HIDDEN_HASH = re.compile(r"%((?:25)*)23")
_MEMENTO = re.compile(r"/c/(\d{14})([a-z]{2}_)?/(.+)", re.ASCII | re.DOTALL)
_TIMESTAMPED = re.compile(r"(\d{14})/(.+)", re.ASCII | re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_WEB_URL = re.compile(r"https?://[^/\\?#\x00-\x20\x7f][^\x00-\x20\x7f]*", re.IGNORECASE | re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_MERGED_SLASHES = re.compile(r"(https?):/+", re.IGNORECASE)

LONGEST_URL = 8_192  # characters; what the proxy archives at most (research C-12)


class Modifier(StrEnum):
    """What is wanted of a capture, in pywb's spelling; replay answers no other."""

    PAGE = ""
    VERY = "mp_"  # the page of that very date, also one that is offered to nobody
    IMAGE = "im_"
    STYLE = "cs_"
    PLAIN_STYLE = "cp_"  # a style sheet that names no image
    TEXT = "id_"


@dataclass(frozen=True, slots=True)
class Memento:
    """A replay address: which capture, and what of it."""

    timestamp: str
    modifier: Modifier
    url: str


def escape_url(url: str) -> str:
    """The archived URL as it stands in a path of ours: printable ASCII without quotes or ``<>#``."""
    hidden = _HASH.sub(lambda m: "%23" if m[0] == "#" else f"%25{m[1]}23", url)
    return quote(hidden, safe=_SAFE, errors="replace")


def unescape_url(text: str) -> str:
    """The archived URL that `escape_url` wrote; the inverse for every URL in ASCII."""
    return _HIDDEN_HASH.sub(lambda m: f"%{m[1][2:]}23" if m[1] else "#", text)


def memento_path(memento: Memento) -> str:
    """The path of a replay address."""
    return f"/c/{memento.timestamp}{memento.modifier}/{escape_url(memento.url)}"


def parse_memento_path(target: str) -> Memento | None:
    """The replay address that a raw request target names, query included; None for any other."""
    match = _MEMENTO.fullmatch(target)
    if match is None or match[2] not in {None, *Modifier}:
        return None
    url = _archived_url(match[3])
    return None if url is None else Memento(match[1], Modifier(match[2] or ""), url)


def page_path(timestamp: str, url: str, *, view: str = "page") -> str:
    """The front's path of a page's cached copy, or of another `view` of it."""
    return f"/{view}/{timestamp}/{escape_url(url)}"


def parse_page_rest(rest: str) -> tuple[str | None, str] | None:
    """Timestamp (None: the newest) and URL from what follows ``/page/``; None when it is no URL."""
    match = _TIMESTAMPED.fullmatch(rest)
    url = _archived_url(match[2] if match else rest)
    if url is None or url.startswith("urn:"):
        return None
    return (match[1] if match else None), url


def is_web_url(url: str) -> bool:
    """True when `url` may become a link for people: http or https with a host, no control character.

    Anything else, ``javascript:`` above all, is text.
    """
    return _WEB_URL.fullmatch(url) is not None


def _archived_url(text: str) -> str | None:
    if len(text) > LONGEST_URL or _CONTROL.search(text):
        return None
    # A reverse proxy that merges slashes must not hide every page.
    text = _MERGED_SLASHES.sub(r"\1://", unescape_url(text), count=1)
    if text.startswith("urn:"):
        return text
    if not _SCHEME.match(text) or re.match(r"[^/]+:\d+(?:/|$)", text):
        text = f"https://{text}"
    return text if is_web_url(text) else None
