"""Patterns that name URLs, and a table that finds among a million of them those that match one.

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
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

import re2

from core.errors import BadUrlError, InputError
from core.hosts import canonical_host
from core.urls import MAX_URL_LENGTH, fetch_key, host_of, identity_key

T = TypeVar("T")

REGEX_PREFIX = "re:"
REGEX_LIMIT_CHARS = 2_000
REGEX_LIMIT_BYTES = 8 << 20  # of a compiled pattern; RE2 refuses what would need more
SET_PATTERNS = 2_000  # regular expressions that are searched for at once …
SET_CHARS = 64_000  # … and their characters: the automaton stays small enough to be fast
SET_LIMIT_BYTES = 32 << 20
HOST_LABELS = 128  # more than a host name can have
_URL = re.compile(r"(https?)://", re.IGNORECASE)
# Most lines of long lists are such hosts, spelled the one way they have.
_PLAIN_HOST = re.compile(r"(?!.*xn--)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,24}")
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


class Match(NamedTuple, Generic[T]):
    """A pattern that matched, by how specific it is, and what was kept under it."""

    rank: Rank
    value: T


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
    if _PLAIN_HOST.fullmatch(text):
        return Pattern(Form.HOST_TREE, text)
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


def check_regex(expression: str, *, before: str = "", after: str = "") -> str:
    """The expression, with what is put around it, when RE2 can run it.

    RE2 takes time that grows with the length of the URL alone, whatever the expression.

    Raises:
        InputError: RE2 cannot run it, or it is empty or too long.
    """
    named = f"{REGEX_PREFIX}{expression}"
    if not expression or len(expression) > REGEX_LIMIT_CHARS:
        raise _bad(named, f"an expression has 1 to {REGEX_LIMIT_CHARS} characters")
    whole = f"{before}{expression}{after}"
    try:
        for each in (expression, whole):  # by itself first: its brackets must not pair with ours
            re2.compile(each, _options(REGEX_LIMIT_BYTES))
    except re2.error as error:
        said = error.args[0] if error.args else ""
        said = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise _bad(
            named,
            f"RE2 cannot run it ({said[:200]}); it knows no look-ahead and no back references",
        ) from error
    return whole


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


class PatternTable(Generic[T]):
    """Values by pattern. Fill it with `add`, then ask it; it may be asked from any thread.

    A look-up takes some dictionary look-ups for the host, a few steps of binary search for the
    prefixes, and one pass of the URL through each set of expressions, however many patterns there are.
    """

    def __init__(self) -> None:
        self._exact: dict[str, T | _Several[T]] = {}
        self._hosts: dict[str, T | _Several[T]] = {}
        self._trees: dict[str, T | _Several[T]] = {}
        self._prefixes: dict[str, _Prefixes[T]] = {}
        self._regexes: list[tuple[str, T]] = []
        self._sets: list[_RegexSet | _Alone] | None = []
        self.size = 0

    def add(self, pattern: Pattern, value: T) -> None:
        """Keep the value under the pattern, beside others that are there."""
        self.size += 1
        match pattern.form:
            case Form.EXACT:
                _put(self._exact, f"{pattern.scheme}://{pattern.text}", value)
            case Form.PREFIX:
                self._prefixes.setdefault(pattern.scheme, _Prefixes()).add(pattern.text, value)
            case Form.REGEX:
                self._regexes.append((pattern.text, value))
                self._sets = None
            case Form.HOST:
                _put(self._hosts, pattern.text, value)
            case Form.HOST_TREE:
                _put(self._trees, pattern.text, value)

    def ready(self) -> None:
        """Sort and compile now what the first look-up would have to."""
        for prefixes in self._prefixes.values():
            prefixes.ready()
        if self._sets is None:
            self._sets = _sets_of([text for text, _ in self._regexes])

    def find(self, target: Target) -> list[Match[T]]:
        """What matches the URL, the most specific first."""
        found = [*self._find_plain(target), *self._find_regexes(target)]
        found.sort(key=lambda match: match.rank, reverse=True)
        return found

    def _find_plain(self, target: Target) -> Iterator[Match[T]]:
        for scheme in (target.scheme, ""):
            rank = Rank(Form.EXACT, len(target.rest), bool(scheme))
            yield from _each(self._exact, f"{scheme}://{target.rest}", rank)
            prefixes = self._prefixes.get(scheme)
            if prefixes is not None:
                for text, value in prefixes.of(target.rest):
                    yield Match(Rank(Form.PREFIX, len(text), bool(scheme)), value)
        yield from _each(self._hosts, target.host, Rank(Form.HOST, len(target.host)))
        domain = target.host
        for _ in range(HOST_LABELS):
            yield from _each(self._trees, domain, Rank(Form.HOST_TREE, len(domain)))
            _, dot, domain = domain.partition(".")
            if not dot:
                break

    def _find_regexes(self, target: Target) -> Iterator[Match[T]]:
        if self._sets is None:
            self.ready()
        for regexes in self._sets or ():
            for number in regexes.search(target.text):
                yield Match(Rank(Form.REGEX, 0), self._regexes[number][1])


class _Several(list[T]):
    """The values under one pattern, when there are several."""


def _put(values: "dict[str, T | _Several[T]]", key: str, value: T) -> None:
    there = values.get(key)
    if there is None:
        values[key] = value
    elif isinstance(there, _Several):
        there.append(value)
    else:
        values[key] = _Several((there, value))


def _each(values: "dict[str, T | _Several[T]]", key: str, rank: Rank) -> Iterator[Match[T]]:
    found = values.get(key)
    if isinstance(found, _Several):
        for value in found:
            yield Match(rank, value)
    elif found is not None:
        yield Match(rank, found)


class _Prefixes(Generic[T]):
    """Values by prefix."""

    def __init__(self) -> None:
        self._values: dict[str, T | _Several[T]] = {}
        self._sorted: list[str] | None = None

    def add(self, prefix: str, value: T) -> None:
        _put(self._values, prefix, value)
        self._sorted = None

    def ready(self) -> list[str]:
        """The prefixes in order."""
        if self._sorted is None:
            self._sorted = sorted(self._values)
        return self._sorted

    def of(self, text: str) -> Iterator[tuple[str, T]]:
        """The prefixes that the text begins with, longest first.

        The greatest prefix that is not after the text is one of its own or differs from it
        somewhere; what it is a prefix of, too, can only be found among what both have in common.
        """
        keys = self.ready()
        end = bisect_right(keys, text)
        while end:
            key = keys[end - 1]
            if text.startswith(key):
                for match in _each(self._values, key, Rank(Form.PREFIX, 0)):
                    yield key, match.value
                end = bisect_left(keys, key, 0, end)
            else:
                text = text[: _in_common(text, key)]
                end = bisect_right(keys, text, 0, end)


def _in_common(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginnings."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class _RegexSet:
    """Expressions that are searched for in one pass.

    The first one matches everything. An automaton that ran out of memory says that nothing matches;
    this tells it from a text in which nothing does, and then each is searched for by itself.
    """

    def __init__(self, expressions: list[str], first: int, limit_bytes: int) -> None:
        """Compile them.

        Raises:
            re2.error: together they are too large.
        """
        self._first = first
        self._expressions = expressions
        self._set = re2.Set.SearchSet(_options(limit_bytes))
        for expression in ("", *expressions):
            self._set.Add(expression)
        self._set.Compile()

    def search(self, text: str) -> Iterator[int]:
        """The numbers of the expressions that are found in the text."""
        found = self._set.Match(text) or []
        if 0 in found:
            yield from (self._first + number - 1 for number in sorted(found) if number)
        else:
            yield from _each_alone(self._expressions, self._first, text)


class _Alone:
    """An expression that is too large for a set."""

    def __init__(self, expression: str, first: int) -> None:
        self._expression = expression
        self._first = first

    def search(self, text: str) -> Iterator[int]:
        """Its number when it is found in the text."""
        return _each_alone([self._expression], self._first, text)


def _each_alone(expressions: list[str], first: int, text: str) -> Iterator[int]:
    for number, expression in enumerate(expressions, start=first):
        if re2.search(expression, text, _options(REGEX_LIMIT_BYTES)):
            yield number


def _sets_of(expressions: list[str]) -> list[_RegexSet | _Alone]:
    sets: list[_RegexSet | _Alone] = []
    start, chars = 0, 0
    for number, expression in enumerate(expressions):
        chars += len(expression)
        if chars > SET_CHARS or number - start >= SET_PATTERNS:
            sets += _compiled(expressions[start:number], start)
            start, chars = number, len(expression)
    return sets + _compiled(expressions[start:], start)


def _compiled(expressions: list[str], first: int) -> list[_RegexSet | _Alone]:
    """They in one set, or in several when one would be too large."""
    if not expressions:
        return []
    try:
        return [_RegexSet(expressions, first, SET_LIMIT_BYTES)]
    except re2.error:
        half = len(expressions) // 2
        if not half:
            return [_Alone(expressions[0], first)]
        return _compiled(expressions[:half], first) + _compiled(expressions[half:], first + half)


def _options(limit_bytes: int) -> re2.Options:
    options = re2.Options()
    options.max_mem = limit_bytes
    options.log_errors = False
    return options


def _bad(text: str, why: str) -> InputError:
    shown = text if len(text) <= 200 else text[:200] + "…"
    return InputError(f"{shown!r} is no pattern: {why}.")
