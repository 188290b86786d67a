"""URLs: repair, fetch key, identity key and host by the WHATWG URL Standard.

fetch key     the URL to request: the WHATWG serialisation of the repaired text.
identity key  the URL's identity: the fetch key without spelling that carries no meaning.
replay key    the key of captures in an index (`core.url_keys`): it merges distinct pages, so it is
              for index lookups only.
"""

import re
from enum import StrEnum
from urllib.parse import unquote_to_bytes

import can_ada

from core.errors import BadUrlError
from core.storable_text import shorten_for_message

MAX_URL_LENGTH = 65_536  # far beyond what servers accept (8 KiB is common), short enough to be stored ten million times

# Controls, separators, surrogates, and what Unicode calls Default_Ignorable_Code_Point, without the
# variation selectors, which emoji and ideographs need. IDNA silently drops most of them, so that
# two different texts would name one host (W48): refuse them before anything parses the text.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufff8\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE | re.ASCII)
_WEB_SCHEME = re.compile(r"https?:([/\\]*)([^/\\?#]*)", re.IGNORECASE | re.ASCII)
# "example.org:8080/x" has no scheme although it looks like one.
_HOST_AND_PORT = re.compile(r"(?!https?:)[a-z0-9.-]+:\d{1,5}(?=[/?#]|$)", re.IGNORECASE | re.ASCII)
# A URL that was quoted as a whole once: its scheme's colon or slashes are escapes.
_QUOTED_WHOLE = re.compile(r"https?(?:%3a|:(?=%2f))", re.IGNORECASE | re.ASCII)
_DIGITS_AND_DOTS = re.compile(r"[\d.]+", re.ASCII)
_IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+", re.ASCII)
# RFC 1123 2.1: letters, digits and hyphens, first and last no hyphen; "3sat" is right (W48). The
# underscore inside is outside the RFC, but such hosts answer and browsers open them.
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?", re.ASCII)
MAX_HOST_LENGTH = 253  # RFC 1035 2.3.4: 255 octets on the wire
# An escape that is whole: one after a stray "%" or "%4" could fuse with it when decoded.
_ESCAPE_OR_UNSAFE = re.compile(r"""(?<!%)(?<!%[0-9A-Fa-f])%([0-9A-Fa-f]{2})|["<>\[\\\]^`{|}]""", re.ASCII)
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PASSWORD = re.compile(r"(://[^:/@\s]*:)[^/\s]*@")
_PATH_PLAIN = _UNRESERVED | frozenset("!$&'()*+,:;=@")
_QUERY_PLAIN = _UNRESERVED | frozenset("!$'()*,:@/?")
# Most URLs are their own identity key: no escapes, none needed, nothing trivial to remove.
_PLAIN_URL = re.compile(
    r"https?://([a-z0-9.-]*[a-z0-9-])(?::\d+)?/[A-Za-z0-9._~!$&'()*+,:;=@/-]*"
    r"(?:\?[A-Za-z0-9._~!$&()*+,:;=@/?-]+)?"
)


class UrlFault(StrEnum):
    """`reason` of a `BadUrlError`: the rule that a text breaks."""

    EMPTY = "empty"
    TOO_LONG = "too-long"
    INVISIBLE = "invisible"  # control, bidirectional or zero-width characters
    SCHEME = "scheme"  # neither http nor https
    NO_HOST = "no-host"
    DOUBLED_SCHEME = "doubled-scheme"  # http://http://…
    SINGLE_LABEL = "single-label"  # no dot, and no IP address
    TLD = "tld"  # the last label has one character only
    LABEL = "label"
    PORT = "port"
    UNPARSABLE = "unparsable"


# Most URLs have one spelling alone: nothing that a browser, or the keys, would write otherwise.
ONE_SPELLING = re.compile(
    r"https?://(?:(?!xn--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,62}"
    r"(?:(?:/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)+/?|/)(?:\?[A-Za-z0-9=&_.~-]+)?",
    re.ASCII,
)
_ONE_SPELLING_LENGTH = 250  # a host is shorter


def has_one_spelling(url: str) -> bool:
    """Return True when the URL is surely its own fetch key and identity key; a quick check."""
    return len(url) <= _ONE_SPELLING_LENGTH and ONE_SPELLING.fullmatch(url) is not None


def fetch_key(text: str, *, allow_single_label: bool = False) -> str:
    """Return the URL in `text`, repaired and serialised as in the WHATWG URL Standard; idempotent.

    User information and the fragment are left out, except one that names a page (``#!/page/2``). BadUrlError has a
    `UrlFault` (W48). `allow_single_label` accepts hosts such as ``localhost``.

    >>> fetch_key("HTTP://User@www.Example.org:80/a b#top")
    'http://www.example.org/a%20b'
    """
    repaired = repair(text)
    # The authority as it was typed, without user information.
    match = _WEB_SCHEME.match(repaired)
    if match is None:
        raise _bad(repaired, UrlFault.SCHEME, "it is neither http nor https")
    authority = match[2].rpartition("@")[2]
    # The parser skips any number of slashes; after two a host is meant, after three it was left out (W48).
    if len(match[1]) > 2 or not authority:
        raise _bad(repaired, UrlFault.NO_HOST, "it has no host")
    if "%" in authority:
        _refuse_invisible(unquote_to_bytes(authority).decode(errors="replace"), repaired)
    try:
        url = _parse(repaired)
    except BadUrlError as error:
        port = authority.rpartition(":")[2] if ":" in authority else ""
        if port and "]" not in port and not (port.isascii() and port.isdigit()):
            raise _bad(text, UrlFault.PORT, "its port is not a number") from error
        if port.isdigit() and int(port[:6]) > 65_535:
            raise _bad(text, UrlFault.PORT, "its port is above 65535") from error
        raise
    _check_host(text, url.hostname, allow_single_label=allow_single_label)
    _strip(url)
    return str(url.href)


def repair(text: str) -> str:
    """Correct common omissions and errors of people and wikis in a URL; BadUrlError if that is impossible.

    White space, ``//host/`` (https), a missing scheme or ``://`` (http), a URL percent-encoded as a whole, whose bytes
    that are not UTF-8 stay escaped. The parser corrects missing slashes (``https:/host``).
    """
    text = text.strip()
    if not text:
        raise _bad(text, UrlFault.EMPTY, "it is empty")
    if len(text) > MAX_URL_LENGTH:
        raise _bad(text, UrlFault.TOO_LONG, f"it is longer than {MAX_URL_LENGTH} characters")
    _refuse_invisible(text, text)
    if _QUOTED_WHOLE.match(text):
        text = _unquote_once(text)
        _refuse_invisible(text, text)
    if text.startswith("//"):
        return "https:" + text
    if text.startswith("://"):
        return "http" + text
    if text[0] in "/\\?#.":
        raise _bad(text, UrlFault.NO_HOST, "it has no host")
    scheme = _SCHEME.match(text)
    if scheme is not None and _HOST_AND_PORT.match(text) is None:
        if scheme[1].lower() not in ("http", "https"):
            raise _bad(text, UrlFault.SCHEME, "it is neither http nor https")
        return text
    authority = re.split(r"[/\\?#]", text, maxsplit=1)[0]
    if "@" in authority:
        raise _bad(text, UrlFault.SCHEME, "it looks like an e-mail address")
    host = authority.partition(":")[0]
    if _DIGITS_AND_DOTS.fullmatch(host) and not _IPV4.fullmatch(host):
        # With a scheme it is a host as the parser reads it (3.14 is 3.0.0.14); without one, a number.
        raise _bad(text, UrlFault.NO_HOST, "it is a number")
    return "http://" + text


def identity_key(url: str) -> str:
    """Return the key that all spellings of a URL share; scheme, case, query order and slashes count; BadUrlError.

    It is the fetch key without the dot at the end of the host, the ``?`` of an empty query, the case of escapes
    (``%c3``), and escapes that delimit nothing (RFC 3986, 6.2.2). In a path all but ``/ ? # %`` count as such, in a
    query all but ``& = + ; # %``: MediaWiki merges these in its table of links but not in its pages, and both must
    refer to the same link. Characters that no URL may hold, such as ``|``, are escaped.

    >>> identity_key("http://example.org./%7Euser/stra%c3%9fe?")
    'http://example.org/~user/stra%C3%9Fe'
    """
    return _identity_of(_parse(url))


def identity_and_host(url: str) -> tuple[str, str]:
    """Return (`identity_key`, `host_of`), parsing the URL once; raises BadUrlError."""
    parsed = _parse(url)
    host: str = parsed.hostname
    return _identity_of(parsed), host.removesuffix(".")


def host_of(url: str) -> str:
    """Return the host: lower case, punycode, no port, no final dot, IPv6 in brackets; raises BadUrlError."""
    return str(_parse(url).hostname).removesuffix(".")


def host_or_empty(url: str) -> str:
    """Return `host_of` the URL; empty for what is no web URL, such as ``data:``."""
    try:
        return host_of(url)
    except BadUrlError:
        return ""


def authority_of(url: str) -> str:
    """Return the host as `host_of`, and the port unless it is the scheme's default; raises BadUrlError."""
    parsed = _parse(url)
    host = str(parsed.hostname).removesuffix(".")
    return f"{host}:{parsed.port}" if parsed.port else host


def _parse(text: str) -> can_ada.URL:
    try:
        url = can_ada.parse(text)
    except (ValueError, TypeError) as error:  # TypeError: a lone surrogate
        raise _bad(text, UrlFault.UNPARSABLE, "no browser can parse it") from error
    if url.protocol not in ("http:", "https:"):
        raise _bad(text, UrlFault.SCHEME, "it is neither http nor https")
    return url


def _identity_of(parsed: can_ada.URL) -> str:
    """Return the identity key of a parsed URL, which is changed."""
    href: str = parsed.href
    if _PLAIN_URL.fullmatch(href):
        return href
    _strip(parsed)
    path = _normalize_escapes(parsed.pathname, _PATH_PLAIN)
    query = _normalize_escapes(parsed.search, _QUERY_PLAIN)
    port = f":{parsed.port}" if parsed.port else ""
    host = parsed.hostname.removesuffix(".")
    return f"{parsed.protocol}//{host}{port}{path}{query}{parsed.hash}"


def _normalize_escapes(component: str, plain: frozenset[str]) -> str:
    """Normalize a component's escapes as in an identity key; characters in `plain` need none."""

    def spelled(match: re.Match[str]) -> str:
        if match[1] is None:
            return f"%{ord(match[0]):02X}"
        character = chr(int(match[1], 16))
        return character if character in plain else match[0].upper()

    if component == "?":
        return ""
    return _ESCAPE_OR_UNSAFE.sub(spelled, component)


def _strip(url: can_ada.URL) -> None:
    """Remove user information, and the fragment unless it names a page."""
    if url.has_credentials():
        url.username = ""
        url.password = ""
    if url.has_hash() and not url.hash.startswith("#!"):
        url.hash = ""


def _unquote_once(text: str) -> str:
    data = unquote_to_bytes(text)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in data)


def _refuse_invisible(checked: str, text: str) -> None:
    match = _INVISIBLE.search(checked)
    if match is not None:
        raise _bad(text, UrlFault.INVISIBLE, f"it contains the character U+{ord(match[0]):04X}")


def _check_host(text: str, hostname: str, *, allow_single_label: bool) -> None:
    """Refuse hosts that parse but are not on the public web (W48)."""
    if hostname.startswith("[") or _IPV4.fullmatch(hostname):
        return
    host = hostname.removesuffix(".")
    if host in ("http", "https"):
        raise _bad(text, UrlFault.DOUBLED_SCHEME, "it begins with two schemes")
    labels = host.split(".")
    if len(host) > MAX_HOST_LENGTH or not all(map(_LABEL.fullmatch, labels)):
        raise _bad(text, UrlFault.LABEL, "its host is not a valid host name (RFC 1123)")
    if len(labels) == 1:
        if not allow_single_label:
            raise _bad(text, UrlFault.SINGLE_LABEL, "its host has no dot")
    elif len(labels[-1]) < 2:
        raise _bad(text, UrlFault.TLD, "no top-level domain has one letter")


def _bad(text: str, fault: UrlFault, why: str) -> BadUrlError:
    return BadUrlError(f"{shorten_for_message(text)!r} is not a URL that can be fetched: {why}.", reason=fault.value)


def mask_passwords(text: str) -> str:
    """Return the text without the passwords of addresses in it.

    >>> mask_passwords("redis://u:p@ss@host/0"), mask_passwords("https://a.example:80/@x")
    ('redis://u:…@host/0', 'https://a.example:80/@x')
    """
    return _PASSWORD.sub(r"\1…@", text)
