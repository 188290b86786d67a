"""Thousands of fragments of regular expressions, searched for in URLs that are new each time.

An automaton of ten thousand expressions is built while it runs, and a URL that it never saw costs
milliseconds. Nearly every fragment of a spam list holds a word that must be there, so these words are
searched for first, in microseconds, and the few fragments whose words are found are run alone.
"""

import re
from collections.abc import Iterator
from typing import Any

import re2

from core.expressions import REGEX_LIMIT_BYTES, Expressions
from core.patterns import re2_options
from core.spam_fragments import fragment_expression

LEAST_CHARS = 4  # shorter words stand in every URL
_BRANCHES_LIMIT = 20
_DEPTHS = {"open": 1, "close": -1}
# What a fragment is made of, as far as words go. What is not known here ends the search for words.
_TOKEN = re.compile(
    r"""
    (?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])
  | (?P<open>\((?:\?:)?)
  | (?P<close>\))
  | (?P<bar>\|)
  | (?P<repeat>[*+?][?+]?|\{\d*,?\d*\}\??)
  | (?P<gap>\\[bBdDwWsSAz]|[.^$])
  | (?P<escaped>\\[^A-Za-z0-9])
  | (?P<plain>[^\\\[\](){}|*+?.^$])
    """,
    re.VERBOSE | re.DOTALL,
)


class Fragments:
    """Fragments that are searched for together; each has the number of its place. From any thread."""

    def __init__(self, fragments: list[str]) -> None:
        """Take them; `core.spam_fragments.fragment_expression` has taken each."""
        self._expressions = [fragment_expression(fragment) for fragment in fragments]
        self._compiled: dict[int, Any] = {}
        by_word: dict[str, list[int]] = {}
        self._wordless: list[int] = []
        for number, fragment in enumerate(fragments):
            words = words_of(fragment)
            for word in words:
                by_word.setdefault(word, []).append(number)
            if not words:
                self._wordless.append(number)
        self._numbers = list(by_word.values())
        self._words = Expressions([re2.escape(word) for word in by_word])
        self._others = Expressions([self._expressions[number] for number in self._wordless])

    def __len__(self) -> int:
        """How many there are."""
        return len(self._expressions)

    def search(self, text: str) -> Iterator[int]:
        """The numbers of those that are found in the text, in their order."""
        # The long s is an s but for its case; no other letter beyond ASCII stays one as a small letter.
        words = self._words.search(text.lower().replace("\u017f", "s"))
        alone = {number for word in words for number in self._numbers[word]}
        found = {number for number in alone if self.pattern(number).search(text)}
        if self._wordless:
            found.update(self._wordless[number] for number in self._others.search(text))
        return iter(sorted(found))

    def pattern(self, number: int) -> Any:
        """The compiled expression of that number."""
        found = self._compiled.get(number)
        if found is None:
            options = re2_options(REGEX_LIMIT_BYTES)
            found = self._compiled[number] = re2.compile(self._expressions[number], options)
        return found


def words_of(fragment: str) -> list[str]:
    """Words in lower case of which one stands in whatever the fragment is found in; often one.

    None when there is no telling: words are too short, or it says what is not known here. What stands
    in brackets is passed over.

    >>> words_of("casino-(?:one|two)[.]com"), words_of("foo|barbar"), words_of("abcd?e")
    (['casino-'], [], [])
    """
    parts = list(_tokens(fragment))
    words: list[str] = []
    best, run, depth = "", "", 0
    for kind, text in parts:
        if depth == 0 and kind in ("plain", "escaped"):
            run += text[-1]
            continue
        if kind == "repeat" and not text.startswith("+"):
            run = run[:-1]  # it may be left out
        best, run = max(best, run, key=len), ""
        depth += _DEPTHS.get(kind, 0)
        if kind == "end" or (kind == "bar" and depth == 0):
            words.append(best.lower())
            best = ""
    is_known = (
        bool(parts) and parts[-1][0] == "end" and depth == 0 and len(words) <= _BRANCHES_LIMIT
    )
    return sorted(set(words)) if is_known and min(map(len, words)) >= LEAST_CHARS else []


def _tokens(fragment: str) -> Iterator[tuple[str, str]]:
    """What the fragment is made of, and at last its end; the end is missing when it is not known."""
    place = 0
    while place < len(fragment):
        token = _TOKEN.match(fragment, place)
        # Flags and names of groups may change what follows.
        if token is None or (token[0] == "(" and fragment.startswith("(?", place)):
            return
        if not token[0].isascii():
            return
        yield token.lastgroup or "", token[0]
        place = token.end()
    yield "end", ""
