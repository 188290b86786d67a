"""Patterns that name URLs.

    example.org                       that host and all below it, any port, http and https
    =example.org                      that host alone
    example.org/path                  what begins so, http and https; a final * may say so
    https://example.org/private/      what begins so, https only; it ends in / or *
    https://example.org/page?id=1     that URL; whatever does not end in / or * is meant exactly
    =https://example.org/private/     that URL alone, though it ends in /
    org,example)/path                 SURT: as example.org/path; org,example, as example.org
    re:/tag/[a-z]+$                   where this is found in the URL (RE2)

URLs are compared by their identity keys (`core.urls.identity_key`), so that no other spelling of
what is named slips through; beyond that every byte counts, and letter case does. **The most specific
pattern decides**: an exact URL before a prefix, a longer prefix before a shorter, one for a scheme
before one for both, then regular expressions, then exact hosts, then hosts from long to short.
"""

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from core.errors import BadUrlError, InputError
from core.expressions import check_regex
from core.hosts import canonical_host
from core.urls import MAX_URL_LENGTH, fetch_key, host_of, identity_key

REGEX_PREFIX = "re:"
PLAIN_LIMIT_CHARS = 250
_URL = re.compile(r"(https?)://", re.IGNORECASE)
# Most lines of long lists are such hosts and prefixes, spelled the one way they have.
_PLAIN = re.compile(
    r"(?!.*xn--)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,24}"
    r"((?:/(?!\.)[A-Za-z0-9._~-]*)*)"
)
_OTHER_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# A comma stands in no host, so before the path it tells a SURT.
_SURT = re.compile(
    r"(?:(https?)://)?\(?([^()/,:*]+(?:,[^()/,:*]+)*),?(?::(\d{1,5}))?(\)?)(/.*)?", re.IGNORECASE
)


class Form(IntEnum):
    """The forms of patterns, from the least specific to the most."""

    HOST_TREE = 0
    HOST = 1
    REGEX = 2
    PREFIX = 3
    EXACT = 4


class Rank(NamedTuple):
    """How specific a pattern is; the greatest decides."""

    form: Form
    length: int
    one_scheme: bool = False


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern that was understood.

    Attributes:
        form: what kind it is.
        text: the host, the authority with path, the URL without its scheme, or the expression.
        scheme: ``http`` or ``https``; empty when both are meant.
    """

    form: Form
    text: str
    scheme: str = ""

    @property
    def rank(self) -> Rank:
        """How specific it is."""
        length = 0 if self.form is Form.REGEX else len(self.text)
        return Rank(self.form, length, bool(self.scheme))

    @property
    def names_site(self) -> bool:
        """Whether it names a host with all that is on it."""
        return self.form in (Form.HOST, Form.HOST_TREE)


@dataclass(frozen=True)
class Target:
    """A URL that is looked up. `target_of` makes it."""

    url: str
    scheme: str
    rest: str  # the identity key without its scheme
    host: str

    @cached_property
    def text(self) -> str:
        """The identity key, which expressions are searched in."""
        return f"{self.scheme}://{self.rest}"


def target_of(url: str) -> Target:
    """The URL as patterns see it.

    Raises:
        BadUrlError: it is no http(s) URL.
    """
    scheme, _, rest = identity_key(url).partition("://")
    return Target(url, scheme, rest, host_of(url))


def parse_pattern(text: str) -> Pattern:
    """The pattern that the text means; see the module.

    Raises:
        InputError: it means none; the text says why and what would be right.

    >>> parse_pattern("org,example)/x") == parse_pattern("example.org/x*")
    True
    """
    text = text.strip()
    plain = _PLAIN.fullmatch(text) if len(text) <= PLAIN_LIMIT_CHARS else None
    if plain is not None:
        return Pattern(Form.PREFIX if plain[1] else Form.HOST_TREE, text)
    if text.startswith(REGEX_PREFIX):
        return Pattern(Form.REGEX, check_regex(text.removeprefix(REGEX_PREFIX)))
    if not text or len(text) > MAX_URL_LENGTH + 1:
        raise _bad(text, f"a pattern has 1 to {MAX_URL_LENGTH} characters")
    exact, named = text.startswith("="), text.removeprefix("=")
    if _OTHER_SCHEME.match(named):
        raise _bad(text, "only http and https are archived")
    try:
        return _exact(named) if exact else _plain(named)
    except BadUrlError as error:
        raise _bad(text, str(error).removesuffix(".")) from error


def _plain(text: str) -> Pattern:
    authority = _URL.sub("", text, count=1).partition("/")[0]
    if "," in authority or authority.endswith(")"):
        return _surt(text)
    scheme = _URL.match(text)
    if scheme is not None:
        bare = "/" not in text[scheme.end() :] and "?" not in text[scheme.end() :]
        if text.endswith(("/", "*")) or bare:
            return Pattern(Form.PREFIX, _prefix(text), scheme[1].lower())
        return _exact(text)
    if "/" in text:
        return Pattern(Form.PREFIX, _prefix(f"http://{text}"))
    return _host(text)


def _exact(text: str) -> Pattern:
    scheme = _URL.match(text)
    if scheme is not None:
        key = identity_key(_fetch(text))
        return Pattern(Form.EXACT, key.partition("://")[2], scheme[1].lower())
    if "/" in text:
        return Pattern(Form.EXACT, identity_key(_fetch(f"http://{text}")).partition("://")[2])
    return Pattern(Form.HOST, canonical_host(text))


def _host(text: str) -> Pattern:
    bare = text.removeprefix("*.").removeprefix(".")
    if re.fullmatch(r"[^\[\]:]+:\d{1,5}|\[.*\]:\d{1,5}", bare):  # with a port
        return Pattern(Form.PREFIX, _prefix(f"http://{bare}/"))
    return Pattern(Form.HOST_TREE, canonical_host(bare))


def _surt(text: str) -> Pattern:
    found = _SURT.fullmatch(text)
    if found is None:
        raise _bad(text, "a SURT prefix reads org,example)/path")
    scheme, labels, port, closed, path = found.groups()
    host = ".".join(reversed(labels.split(",")))
    if not closed:
        if path or port:
            raise _bad(text, "in a SURT prefix the host is closed before the path: org,example)/x")
        return Pattern(Form.HOST_TREE, canonical_host(host))
    if not path and not port and not scheme:
        return Pattern(Form.HOST, canonical_host(host))
    authority = f"{canonical_host(host)}:{port}" if port else canonical_host(host)
    written = f"{scheme or 'http'}://{authority}{path or '/'}"
    return Pattern(Form.PREFIX, _prefix(written), (scheme or "").lower())


def _prefix(text: str) -> str:
    """Authority and the beginning of path and query, as an identity key spells them."""
    text = text.removesuffix("*")
    key = identity_key(_fetch(text)).partition("://")[2]
    return f"{key}?" if text.endswith("?") and "?" not in key else key


def _fetch(text: str) -> str:
    return fetch_key(text, allow_single_label=True)


def _bad(text: str, why: str) -> InputError:
    shown = text if len(text) <= 200 else text[:200] + "…"
    return InputError(f"{shown!r} is no pattern: {why}.")
