"""Regular expressions given by users, run by RE2 in linear time: no look-ahead, no back references."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import re2

from core.errors import ConfigError, InputError
from core.storable_text import shorten_for_message

REGEX_LIMIT_BYTES = 8 << 20  # of a compiled expression, as RE2's own default; it refuses what would need more
PATTERN_LIMIT_CHARS = 4_000
PATTERNS_LIMIT = 1_000
SHOWN_CHARS = 120


class PatternList:
    """List of patterns, searched as one: the cost of a lookup hardly grows with their number."""

    def __init__(self, texts: Iterable[str], *, where: str = "patterns") -> None:
        """Compile them; a ConfigError names `where` they come from, the pattern and the reason."""
        self._texts = list(dict.fromkeys(texts))
        if len(self._texts) > PATTERNS_LIMIT:
            raise ConfigError(f"{where}: {len(self._texts)} patterns; at most {PATTERNS_LIMIT}.")
        for text in self._texts:
            compile_pattern(text, where=where)
        self._expressions = RegexList(self._texts)

    def first_in(self, url: str) -> str | None:
        """Return the first pattern that matches the URL, else None."""
        number = next(self._expressions.search(url), None)
        return None if number is None else self._texts[number]


def compile_pattern(text: str, *, where: str) -> re.Pattern[str]:
    """Compile one pattern, or raise ConfigError: empty, too long, or not RE2."""
    shown = shorten_for_message(text, SHOWN_CHARS)
    if not text:
        raise ConfigError(f"{where}: an empty pattern would match everything; write .* for that.")
    if len(text) > PATTERN_LIMIT_CHARS:
        raise ConfigError(f"{where}: the pattern {shown!r} is longer than {PATTERN_LIMIT_CHARS} characters.")
    try:
        compiled: re.Pattern[str] = re2.compile(text, re2_options())
    except (re2.error, UnicodeEncodeError) as error:
        raise ConfigError(
            f"{where}: the pattern {shown!r} cannot be run: {re2_error_text(error)}. "
            "Patterns are RE2: no look-ahead, no back references."
        ) from error
    return compiled


def re2_options(limit_bytes: int = REGEX_LIMIT_BYTES) -> re2.Options:
    """Return RE2 options: a memory limit, and no messages on standard error."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = limit_bytes
    return options


def re2_error_text(error: Exception) -> str:
    """Return RE2's error message as text: it raises bytes."""
    word = error.args[0] if error.args else ""
    return word.decode(errors="replace") if isinstance(word, bytes) else str(error)


REGEX_LIMIT_CHARS = 2_000
SET_PATTERNS = 2_000  # expressions searched at once …
SET_CHARS = 64_000  # … and their characters: the automaton stays small enough to be fast
SET_LIMIT_BYTES = 32 << 20


def check_regex(expression: str, *, before: str = "", after: str = "") -> str:
    """Return the expression, between `before` and `after`, if RE2 can run it; else InputError."""
    if not expression or len(expression) > REGEX_LIMIT_CHARS:
        raise _bad(expression, f"an expression has 1 to {REGEX_LIMIT_CHARS} characters")
    whole = f"{before}{expression}{after}"
    try:
        for each in (expression, whole):  # by itself first: its brackets must not pair with the added ones
            re2.compile(each, re2_options())
    except re2.error as error:
        raise _bad(
            expression,
            f"RE2 cannot run it ({re2_error_text(error)[:200]}); it has no look-ahead and no back references",
        ) from error
    return whole


class RegexList:
    """Expressions that are searched for together, numbered by position."""

    def __init__(self, expressions: list[str]) -> None:
        """Compile the expressions, which have passed `check_regex`."""
        # Number of the first expression, expressions, and their set; None: a single one is too large for a set.
        self._sets: list[tuple[int, list[str], Any]] = []
        start, chars = 0, 0
        for number, expression in enumerate(expressions):
            chars += len(expression)
            if chars > SET_CHARS or number - start >= SET_PATTERNS:
                self._add(expressions[start:number], start)
                start, chars = number, len(expression)
        self._add(expressions[start:], start)

    def search(self, text: str) -> Iterator[int]:
        """Yield the numbers of the expressions that are found in the text."""
        for first, expressions, compiled in self._sets:
            # The first one of a set matches everything: an automaton that ran out of memory reports
            # no match at all, and then each expression is searched for by itself.
            matches = compiled.Match(text) or [] if compiled is not None else []
            if 0 in matches:
                yield from (first + number - 1 for number in sorted(matches) if number)
                continue
            for number, expression in enumerate(expressions, start=first):
                if re2.search(expression, text, re2_options()):
                    yield number

    def _add(self, expressions: list[str], first: int) -> None:
        """Compile the expressions to one set, or to several when one would be too large."""
        if not expressions:
            return
        compiled = re2.Set.SearchSet(re2_options(SET_LIMIT_BYTES))
        try:
            for expression in ("", *expressions):
                compiled.Add(expression)
            compiled.Compile()
            self._sets.append((first, expressions, compiled))
        except re2.error:
            half = len(expressions) // 2
            if half:
                self._add(expressions[:half], first)
                self._add(expressions[half:], first + half)
            else:
                self._sets.append((first, expressions, None))


def _bad(expression: str, why: str) -> InputError:
    return InputError(f"{shorten_for_message(expression)!r} is not a regular expression: {why}.")
