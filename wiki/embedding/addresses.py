"""What an attribute's bytes mean as an address, and whose page that is."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import unescape
from html.entities import html5
from urllib.parse import urljoin

from core.errors import BadUrlError, ConfigError
from core.hosts import HostPatterns
from core.urls import fetch_key, host_of, identity_key
from links.archives.recognising import recognise

LONGEST = 4_096  # of an address: longer ones are nobody's citation
_REFERENCE = re.compile(r"&(?:#(?:[0-9]{1,9}|[xX][0-9a-fA-F]{1,8});?|([A-Za-z0-9]{1,40};?))(=?)")
_TAKEN_OUT = re.compile("[\t\n\r]")
_AROUND = "".join(map(chr, range(0x21)))  # C0 controls and space (WHATWG URL, 4.4)
_ABSOLUTE = re.compile(r"https?:[/\\]{2}[^/\\]", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE | re.ASCII)
_BEFORE_QUERY = re.compile(r"[^?#]*")


def text_of(value: bytes, charset: str) -> str:
    """An attribute's value, with its character references read as in attributes (13.2.5.73).

    >>> text_of(b"/?a=1&amp;b=2&copy=3&eacute", "utf-8")
    '/?a=1&b=2&copy=3é'
    """
    text = value.decode(charset, "replace")
    return _REFERENCE.sub(_referred, text) if "&" in text else text


def _referred(found: re.Match[str]) -> str:
    name, equals = found[1], found[2]
    if name is None:
        return unescape(found[0].removesuffix("=")) + equals
    if name.endswith(";"):
        return html5.get(name, f"&{name}") + equals
    return found[0] if equals else html5.get(name, f"&{name}")


@dataclass(frozen=True, slots=True)
class Cited:
    """What a link cites.

    Attributes:
        url: its address, absolute, else as it stands in the page.
        host: whose it is.
        page: what tells one page from others; of a copy, that of the original; empty when unknown.
        is_copy: it is a known archive's, or this one's.
    """

    url: str
    host: str
    page: str
    is_copy: bool


@dataclass(frozen=True)
class Surroundings:
    """Where a page lies, and which addresses are not to be marked.

    Attributes:
        url: the page's own; empty when it is not known.
        own: hosts whose pages are no citations: ``wiki.example``, ``*.example``.
        fronts: origins of this archive's front and replay.
    """

    url: str = ""
    own: tuple[str, ...] = ()
    fronts: tuple[str, ...] = ()

    @cached_property
    def hosts(self) -> HostPatterns[bool]:
        """All hosts that are not to be marked.

        Raises:
            ConfigError: one of the patterns is none.
        """
        named = [*self.own]
        try:
            named += [host_of(url) for url in (self.url, *self.fronts) if url]
        except BadUrlError as error:
            raise ConfigError(f"A page or front has no usable address: {error}") from error
        return HostPatterns(dict.fromkeys(named, True))

    def cited(self, href: str, base: str = "") -> "Cited | None":
        """What a link cites; None when it is nothing to ask for.

        Args:
            href: the attribute's text.
            base: of the page's own ``<base href>``.
        """
        text = _TAKEN_OUT.sub("", href.strip(_AROUND))
        if not text or len(text) > LONGEST or "\ufffd" in text:
            return None
        if not _ABSOLUTE.match(text):
            text = self._absolute(text, base)
            if not text:
                return None
        cited = _cited(text, self.fronts)
        return cited if cited is not None and not self.hosts.of(cited.host) else None

    def _absolute(self, text: str, base: str) -> str:
        """What a relative address means; empty when that is unknown, or nothing of the web."""
        if _SCHEME.match(text):
            return ""
        is_of_host = text.replace("\\", "/", 2).startswith("//")
        if not is_of_host and not base:
            return ""  # the page's own host
        try:
            start = urljoin(self.url, base) if base else self.url
            start = start or ("https://unknown.invalid/" if is_of_host else "")
            joined = urljoin(start, text.replace("\\", "/", 2) if is_of_host else text)
        except ValueError:
            return ""
        return joined if _ABSOLUTE.match(joined) else ""


@lru_cache(maxsize=8_192)  # a page's links are the same at its next view
def _cited(text: str, fronts: tuple[str, ...]) -> Cited | None:
    """What an absolute address cites; None for one that nobody can ask for."""
    try:
        key = fetch_key(text)
        archive = recognise(key, own=fronts)
        is_copy = archive is not None and archive.is_known
        # Copies of a page stand beside it under either scheme, and with or without a last slash.
        of = archive.original if archive is not None and is_copy else key
        page = identity_key(of).partition("://")[2].rstrip("/") if of else ""
        return Cited(text, host_of(key), page, is_copy=is_copy)
    except BadUrlError:
        return None


def with_escaped_query(text: str, charset: str) -> str:
    """The address with its query in the page's own encoding, as browsers send it (WHATWG URL, 4.4).

    >>> with_escaped_query("http://example.org/é?q=é", "cp1252")
    'http://example.org/é?q=%E9'
    """
    if charset == "utf-8" or text.isascii() or "?" not in text:
        return text
    before = _BEFORE_QUERY.match(text)
    assert before is not None
    query, hash_sign, fragment = text[before.end() :].partition("#")
    coded = "".join(map(chr, query.encode(charset, "xmlcharrefreplace")))
    escaped = "".join(char if ord(char) < 0x80 else f"%{ord(char):02X}" for char in coded)
    return before[0] + escaped + hash_sign + fragment


def origins(urls: Iterable[str]) -> tuple[str, ...]:
    """The origins of addresses, each once.

    Raises:
        ConfigError: one is no http(s) address.
    """
    found: dict[str, None] = {}
    for url in urls:
        matched = re.match(r"(https?://[^/?#\\@\s]+)(?=[/?#]|$)", url, re.IGNORECASE)
        if matched is None:
            raise ConfigError(f"{url[:80]!r} is no address of a front: https://archive.example.")
        found[matched[1].lower()] = None
    return tuple(found)
