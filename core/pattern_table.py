"""A table that finds, among a million patterns, those that match a URL.

A look-up takes some dictionary look-ups for the host, a few steps of binary search for the prefixes,
and one pass of the URL through each set of expressions, however many patterns there are.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from core.expressions import Expressions
from core.url_patterns import Form, Pattern, Rank, Target

T = TypeVar("T")

HOST_LABELS = 128  # more than a host name can have


class Match(NamedTuple, Generic[T]):
    """A pattern that matched, by how specific it is, and what was kept under it."""

    rank: Rank
    value: T


class PatternTable(Generic[T]):
    """Values, which are never None, by pattern.

    Fill it with `add`, then ask it; once `ready`, it may be asked from any thread.
    """

    def __init__(self) -> None:
        self._exact: dict[str, T | _Several[T]] = {}
        self._hosts: dict[str, T | _Several[T]] = {}
        self._trees: dict[str, T | _Several[T]] = {}
        self._prefixes: dict[str, _Prefixes[T]] = {}
        self._regexes: list[tuple[str, T]] = []
        self._expressions: Expressions | None = None
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
                self._expressions = None
            case Form.HOST:
                _put(self._hosts, pattern.text, value)
            case Form.HOST_TREE:
                _put(self._trees, pattern.text, value)

    def ready(self) -> None:
        """Sort and compile now what the first look-up would have to."""
        for prefixes in self._prefixes.values():
            prefixes.ready()
        self._compiled()

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
        if self._regexes:
            for number in self._compiled().search(target.text):
                yield Match(Rank(Form.REGEX, 0), self._regexes[number][1])

    def _compiled(self) -> Expressions:
        if self._expressions is None:
            self._expressions = Expressions([text for text, _ in self._regexes])
        return self._expressions


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
