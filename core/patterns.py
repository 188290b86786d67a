"""Patterns that users give: RE2, so that no pattern and no URL can hang a crawl.

RE2 searches in time that grows with the text alone and refuses what it cannot run in that way, such
as look-ahead and back references. A pattern is searched for anywhere in the URL, letter case as given.
"""

from collections.abc import Iterable
from typing import Protocol

import re2

from core.errors import ConfigError

PATTERN_LIMIT_CHARS = 4_000
PATTERNS_LIMIT = 1_000
MEMORY_LIMIT_BYTES = 8 << 20  # for one compiled pattern; RE2's own default
SHOWN_CHARS = 120
JOINED_CHARS = 50_000  # patterns compiled as one; a larger program is slower to search
# Text after it is literal up to a \E, so such a pattern would swallow its neighbours.
_QUOTED = r"\Q"


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str, /) -> object | None:
        """Something when it is found in the text."""
        ...


class Patterns:
    """A list of patterns, searched as one: the cost of a look-up hardly grows with their number."""

    def __init__(self, texts: Iterable[str], *, where: str = "patterns") -> None:
        """Compile them.

        Args:
            texts: patterns in RE2's syntax.
            where: the setting or option that they come from, for errors.

        Raises:
            ConfigError: RE2 cannot run one of them, or there are too many; the text names the
                pattern and the reason.
        """
        self._texts = tuple(dict.fromkeys(texts))
        if len(self._texts) > PATTERNS_LIMIT:
            raise ConfigError(f"{where}: {len(self._texts)} patterns; at most {PATTERNS_LIMIT}.")
        self._single = [compile_pattern(text, where=where) for text in self._texts]
        self._joined = [each for group in _groups(self._texts) for each in _joined(group)]

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._texts)

    def first_in(self, url: str) -> str | None:
        """The first pattern that is found in the URL; None when none is."""
        if not any(each.search(url) for each in self._joined):
            return None
        found = zip(self._texts, self._single, strict=True)
        return next((text for text, each in found if each.search(url)), None)


def compile_pattern(text: str, *, where: str) -> Pattern:
    """One pattern, ready to search.

    Raises:
        ConfigError: it is empty, longer than `PATTERN_LIMIT_CHARS`, or RE2 cannot run it.
    """
    shown = text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"
    if not text:
        raise ConfigError(f"{where}: an empty pattern would match everything; write .* for that.")
    if len(text) > PATTERN_LIMIT_CHARS:
        raise ConfigError(
            f"{where}: the pattern {shown!r} is longer than {PATTERN_LIMIT_CHARS} characters."
        )
    try:
        compiled: Pattern = re2.compile(text, re2_options())
    except (re2.error, UnicodeEncodeError) as error:
        raise ConfigError(
            f"{where}: the pattern {shown!r} cannot be run: {re2_said(error)}. "
            "Patterns are RE2: no look-ahead, no back references."
        ) from error
    return compiled


def re2_options(limit_bytes: int = MEMORY_LIMIT_BYTES) -> re2.Options:
    """How expressions are compiled: in so much memory, and without a word on standard error."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = limit_bytes
    return options


def re2_said(error: Exception) -> str:
    """RE2's words as text: it raises bytes."""
    word = error.args[0] if error.args else ""
    return word.decode(errors="replace") if isinstance(word, bytes) else str(error)


def _groups(texts: Iterable[str]) -> list[list[str]]:
    """The patterns in groups that are compiled as one."""
    groups: list[list[str]] = []
    room = 0
    for text in texts:
        alone = _QUOTED in text
        if alone or len(text) > room:
            groups.append([])
            room = 0 if alone else JOINED_CHARS
        groups[-1].append(text)
        room -= len(text)
    return groups


def _joined(group: list[str]) -> list[Pattern]:
    """Patterns, as few as possible, one of which is found wherever one of the group is."""
    text = group[0] if len(group) == 1 else "|".join(f"(?:{each})" for each in group)
    try:
        return [re2.compile(text, re2_options())]
    except re2.error:  # too large together, for each was compiled alone before
        half = len(group) // 2
        return _joined(group[:half]) + _joined(group[half:])
