"""URL patterns (host, SURT, prefix, regex, exact) and a table that matches millions.

    example.org                       that host and all below it, any port, http and https
    =example.org                      that host alone
    example.org/path                  prefix, http and https; a final * is optional
    https://example.org/private/      prefix, https only; it ends in / or *
    https://example.org/page?id=1     that URL; any URL that does not end in / or * is exact
    =https://example.org/private/     that URL alone, though it ends in /
    org,example)/path                 SURT: as example.org/path; org,example, as example.org
    re:/tag/[a-z]+$                   regular expression found in the URL (RE2)

URLs are compared by `core.urls.identity_key`. **The most specific pattern decides**: an exact URL before a prefix, a
longer prefix before a shorter, one for a scheme before one for both, then regular expressions, then exact hosts, then
hosts from long to short. A lookup takes few steps, and one pass for each set of expressions.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

from core.errors import BadUrlError, InputError
from core.hosts import canonical_host, domains_of
from core.regexes import RegexList, check_regex
from core.storable_text import shorten_for_message
from core.urls import MAX_URL_LENGTH, fetch_key, identity_and_host, identity_key

REGEX_PREFIX = "re:"
PLAIN_LIMIT_CHARS = 250
_URL = re.compile(r"(https?)://", re.IGNORECASE)
# Most lines of long lists are such hosts and prefixes, spelled the one way they have.
_PLAIN = re.compile(
    r"(?!.*xn--)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,24}"
    r"((?:/(?!\.)[A-Za-z0-9._~-]*)*)"
)
_OTHER_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# Hosts contain no comma, so one before the path indicates a SURT.
_SURT = re.compile(r"(?:(https?)://)?\(?([^()/,:*]+(?:,[^()/,:*]+)*),?(?::(\d{1,5}))?(\)?)(/.*)?", re.IGNORECASE)


class PatternForm(IntEnum):
    """Form of a pattern, from the least specific to the most."""

    HOST_TREE = 0
    HOST = 1
    REGEX = 2
    PREFIX = 3
    EXACT = 4


class PatternRank(NamedTuple):
    """Specificity of a pattern; the greatest decides."""

    form: PatternForm
    length: int
    one_scheme: bool = False


@dataclass(frozen=True, slots=True)
class UrlPattern:
    """Parsed pattern."""

    form: PatternForm
    text: str  # the host, the authority with path, the URL without its scheme, or the expression
    scheme: str = ""  # ``http`` or ``https``; empty for both

    @property
    def rank(self) -> PatternRank:
        """Return its specificity."""
        length = 0 if self.form is PatternForm.REGEX else len(self.text)
        return PatternRank(self.form, length, bool(self.scheme))

    @property
    def names_site(self) -> bool:
        """Return True when it names a whole host."""
        return self.form in (PatternForm.HOST, PatternForm.HOST_TREE)


class PatternTarget(NamedTuple):
    """URL prepared for lookups. `pattern_target` makes it."""

    key: str  # the identity key, which expressions are searched in
    host: str


def pattern_target(url: str) -> PatternTarget:
    """Prepare the URL for lookups. Raises BadUrlError if it is not an http(s) URL."""
    return PatternTarget(*identity_and_host(url))


def parse_pattern(text: str) -> UrlPattern:
    """Parse a pattern; InputError has the reason and what would be right.

    >>> parse_pattern("org,example)/x") == parse_pattern("example.org/x*")
    True
    """
    text = text.strip()
    plain = _PLAIN.fullmatch(text) if len(text) <= PLAIN_LIMIT_CHARS else None
    if plain is not None:
        return UrlPattern(PatternForm.PREFIX if plain[1] else PatternForm.HOST_TREE, text)
    if text.startswith(REGEX_PREFIX):
        return UrlPattern(PatternForm.REGEX, check_regex(text.removeprefix(REGEX_PREFIX)))
    if not text or len(text) > MAX_URL_LENGTH + 1:
        raise _bad(text, f"a pattern has 1 to {MAX_URL_LENGTH} characters")
    exact, named = text.startswith("="), text.removeprefix("=")
    if _OTHER_SCHEME.match(named):
        raise _bad(text, "only http and https are archived")
    try:
        return _exact(named) if exact else _plain(named)
    except BadUrlError as error:
        raise _bad(text, str(error).removesuffix(".")) from error


def _plain(text: str) -> UrlPattern:
    authority = _URL.sub("", text, count=1).partition("/")[0]
    if "," in authority or authority.endswith(")"):
        match = _SURT.fullmatch(text)
        if match is None:
            raise _bad(text, "a SURT prefix looks like org,example)/path")
        scheme, labels, port, closed, path = match.groups()
        host = ".".join(reversed(labels.split(",")))
        if not closed:
            if path or port:
                raise _bad(text, "in a SURT prefix the host is closed before the path: org,example)/x")
            return UrlPattern(PatternForm.HOST_TREE, canonical_host(host))
        if not path and not port and not scheme:
            return UrlPattern(PatternForm.HOST, canonical_host(host))
        authority = f"{canonical_host(host)}:{port}" if port else canonical_host(host)
        written = f"{scheme or 'http'}://{authority}{path or '/'}"
        return UrlPattern(PatternForm.PREFIX, _prefix(written), (scheme or "").lower())
    scheme = _URL.match(text)
    if scheme is not None:
        is_bare = "/" not in text[scheme.end() :] and "?" not in text[scheme.end() :]
        if text.endswith(("/", "*")) or is_bare:
            return UrlPattern(PatternForm.PREFIX, _prefix(text), scheme[1].lower())
        return _exact(text)
    if "/" in text:
        return UrlPattern(PatternForm.PREFIX, _prefix(f"http://{text}"))
    bare = text.removeprefix("*.").removeprefix(".")
    if re.fullmatch(r"[^\[\]:]+:\d{1,5}|\[.*\]:\d{1,5}", bare):  # with a port
        return UrlPattern(PatternForm.PREFIX, _prefix(f"http://{bare}/"))
    return UrlPattern(PatternForm.HOST_TREE, canonical_host(bare))


def _exact(text: str) -> UrlPattern:
    scheme = _URL.match(text)
    if scheme is not None:
        return UrlPattern(PatternForm.EXACT, _schemeless(text), scheme[1].lower())
    if "/" in text:
        return UrlPattern(PatternForm.EXACT, _schemeless(f"http://{text}"))
    return UrlPattern(PatternForm.HOST, canonical_host(text))


def _prefix(text: str) -> str:
    """Return authority and the beginning of path and query, as an identity key spells them."""
    text = text.removesuffix("*")
    key = _schemeless(text)
    return f"{key}?" if text.endswith("?") and "?" not in key else key


def _schemeless(text: str) -> str:
    return identity_key(fetch_key(text, allow_single_label=True)).partition("://")[2]


def _bad(text: str, why: str) -> InputError:
    return InputError(f"{shorten_for_message(text)!r} is not a pattern: {why}.")


T = TypeVar("T")


class PatternMatch(NamedTuple, Generic[T]):
    """Matching pattern with its specificity and value."""

    rank: PatternRank
    value: T


class PatternTable(Generic[T]):
    """Values, never None, by pattern: `add` them; once `ready` it is searched from any thread."""

    def __init__(self) -> None:
        self._exact: dict[str, T | _ValueList[T]] = {}
        self._hosts: dict[str, T | _ValueList[T]] = {}
        self._trees: dict[str, T | _ValueList[T]] = {}
        self._prefixes: dict[str, _PrefixTable[T]] = {}
        self._regexes: list[tuple[str, T]] = []
        self._expressions: RegexList | None = None
        self.size = 0

    def add(self, pattern: UrlPattern, value: T) -> None:
        """Add the value under the pattern, which may have several."""
        self.size += 1
        match pattern.form:
            case PatternForm.EXACT:
                _put(self._exact, f"{pattern.scheme}://{pattern.text}", value)
            case PatternForm.PREFIX:
                self._prefixes.setdefault(pattern.scheme, _PrefixTable()).add(pattern.text, value)
            case PatternForm.REGEX:
                self._regexes.append((pattern.text, value))
                self._expressions = None
            case PatternForm.HOST:
                _put(self._hosts, pattern.text, value)
            case PatternForm.HOST_TREE:
                _put(self._trees, pattern.text, value)

    def ready(self) -> None:
        """Sort and compile now instead of at the first lookup."""
        for prefixes in self._prefixes.values():
            prefixes.ready()
        self._compiled()

    def find(self, target: PatternTarget) -> list[PatternMatch[T]]:
        """Return the matches of the URL, the most specific first."""
        matches = list(self._find_plain(target))
        if self._regexes:
            rank = PatternRank(PatternForm.REGEX, 0)
            numbers = self._compiled().search(target.key)
            matches += [PatternMatch(rank, self._regexes[number][1]) for number in numbers]
        matches.sort(key=lambda match: match.rank, reverse=True)
        return matches

    def _find_plain(self, target: PatternTarget) -> Iterator[PatternMatch[T]]:
        own, _, rest = target.key.partition("://")
        for scheme in (own, ""):
            yield from _each(self._exact, f"{scheme}://{rest}", PatternRank(PatternForm.EXACT, len(rest), bool(scheme)))
            prefixes = self._prefixes.get(scheme)
            if prefixes is not None:
                for text, value in prefixes.of(rest):
                    yield PatternMatch(PatternRank(PatternForm.PREFIX, len(text), bool(scheme)), value)
        yield from _each(self._hosts, target.host, PatternRank(PatternForm.HOST, len(target.host)))
        for domain in domains_of(target.host):
            yield from _each(self._trees, domain, PatternRank(PatternForm.HOST_TREE, len(domain)))

    def _compiled(self) -> RegexList:
        if self._expressions is None:
            self._expressions = RegexList([text for text, _ in self._regexes])
        return self._expressions


class _ValueList(list[T]):
    """Several values under one pattern."""


def _put(values: "dict[str, T | _ValueList[T]]", key: str, value: T) -> None:
    existing = values.get(key)
    if existing is None:
        values[key] = value
    elif isinstance(existing, _ValueList):
        existing.append(value)
    else:
        values[key] = _ValueList((existing, value))


def _each(values: "dict[str, T | _ValueList[T]]", key: str, rank: PatternRank) -> Iterator[PatternMatch[T]]:
    entry = values.get(key)
    if isinstance(entry, _ValueList):
        for value in entry:
            yield PatternMatch(rank, value)
    elif entry is not None:
        yield PatternMatch(rank, entry)


class _PrefixTable(Generic[T]):
    """Values by prefix."""

    def __init__(self) -> None:
        self._values: dict[str, T | _ValueList[T]] = {}
        self._sorted: list[str] | None = None

    def add(self, prefix: str, value: T) -> None:
        _put(self._values, prefix, value)
        self._sorted = None

    def ready(self) -> list[str]:
        """Return the sorted prefixes."""
        if self._sorted is None:
            self._sorted = sorted(self._values)
        return self._sorted

    def of(self, text: str) -> Iterator[tuple[str, T]]:
        """Yield the prefixes that the text begins with, longest first."""
        keys = self.ready()
        end = bisect_right(keys, text)
        while end:
            key = keys[end - 1]
            if text.startswith(key):
                for match in _each(self._values, key, PatternRank(PatternForm.PREFIX, 0)):
                    yield key, match.value
                end = bisect_left(keys, key, 0, end)
            else:  # what both have in common bounds the prefixes that are left
                text = text[: _in_common(text, key)]
                end = bisect_right(keys, text, 0, end)


def _in_common(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
