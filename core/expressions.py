"""Regular expressions that users give: run by RE2, so in time that grows with the text alone."""

from collections.abc import Iterator

import re2

from core.errors import InputError
from core.patterns import re2_options, re2_said

REGEX_LIMIT_CHARS = 2_000
REGEX_LIMIT_BYTES = 8 << 20  # of a compiled expression; RE2 refuses what would need more
SET_PATTERNS = 2_000  # expressions that are searched for at once …
SET_CHARS = 64_000  # … and their characters: the automaton stays small enough to be fast
SET_LIMIT_BYTES = 32 << 20


def check_regex(expression: str, *, before: str = "", after: str = "") -> str:
    """The expression, with what is put around it, when RE2 can run it.

    RE2 takes time that grows with the length of the URL alone, whatever the expression.

    Raises:
        InputError: RE2 cannot run it, or it is empty or too long.
    """
    if not expression or len(expression) > REGEX_LIMIT_CHARS:
        raise _bad(expression, f"an expression has 1 to {REGEX_LIMIT_CHARS} characters")
    whole = f"{before}{expression}{after}"
    try:
        for each in (expression, whole):  # by itself first: its brackets must not pair with ours
            re2.compile(each, re2_options(REGEX_LIMIT_BYTES))
    except re2.error as error:
        raise _bad(
            expression,
            f"RE2 cannot run it ({re2_said(error)[:200]}); it knows no look-ahead and no back references",
        ) from error
    return whole


class Expressions:
    """Expressions that are searched for together; each has the number of its place."""

    def __init__(self, expressions: list[str]) -> None:
        """Compile them; `check_regex` has taken each."""
        self._sets = _sets_of(expressions)

    def search(self, text: str) -> Iterator[int]:
        """The numbers of those that are found in the text."""
        for each in self._sets:
            yield from each.search(text)


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
        self._set = re2.Set.SearchSet(re2_options(limit_bytes))
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
        if re2.search(expression, text, re2_options(REGEX_LIMIT_BYTES)):
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


def _bad(expression: str, why: str) -> InputError:
    shown = expression if len(expression) <= 200 else expression[:200] + "…"
    return InputError(f"{shown!r} is no regular expression: {why}.")
