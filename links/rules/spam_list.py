"""Spam lists of wikis: parsing, and matching of URLs by many expressions at once.

A line is a fragment of a regular expression for a host and what follows. MediaWiki joins lines and runs them by PCRE;
here each is compiled by RE2, so that an invalid line is skipped and listed in `SpamLists.problems`. Nearly every
fragment contains a literal word: only the fragments whose words are in the URL are run.

    blacklist  Spam blacklist: a fragment of a regular expression a line
    whitelist  Spam whitelist, of the same form: its matches are cut out before the blacklists are run
    domains    MediaWiki:BlockedExternalDomains.json: ``[{"domain": …, "notes": …}]``, with subdomains
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import re2

from core.errors import BadUrlError, InputError
from core.hosts import canonical_host
from core.regexes import REGEX_LIMIT_BYTES, RegexList, check_regex, re2_options
from links.url_parts import split_identity

# What MediaWiki puts before each line: a scheme, and the beginning of a host. URLs within URLs count,
# such as those in the address of an archive's copy.
ANYWHERE = r"(?im)(?:https?:)?//+[a-z0-9_\-.]*(?:"
# The same, for the URL itself, not for URLs in its path or query.
AT_HOST = r"(?i)^https?://+[a-z0-9_\-.]*(?:"


def fragment_of(line: str) -> str:
    """Return the line without its comment and surrounding white space; often empty.

    >>> fragment_of("  casino-[a-z]+  # since 2009 ")
    'casino-[a-z]+'
    """
    return line.partition("#")[0].strip()


def fragment_expression(fragment: str, *, before: str = ANYWHERE) -> str:
    """Convert a fragment to a complete expression (RE2); InputError when RE2 rejects it."""
    if fragment.endswith("\\"):
        raise InputError(
            f"{fragment[:200]!r} ends in a backslash, which would escape the line break; MediaWiki skips it, too."
        )
    return check_regex(fragment, before=before, after=")")


LEAST_CHARS = 4  # shorter words occur in every URL
_BRANCHES_LIMIT = 20
_DEPTHS = {"open": 1, "close": -1}
# Syntax of a fragment, as far as words are concerned. Unknown syntax ends the search for words.
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


class FragmentSet:
    """Fragments that are searched for together, numbered by position. Thread-safe."""

    def __init__(self, fragments: list[str]) -> None:
        """Compile the fragments, each accepted by `fragment_expression`."""
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
        self._words = RegexList([re2.escape(word) for word in by_word])
        self._others = RegexList([self._expressions[number] for number in self._wordless])

    def search(self, text: str) -> Iterator[int]:
        """Yield the numbers of the fragments that match the text, in their order."""
        # The long s is an s but for its case; no other letter beyond ASCII stays one as a small letter.
        words = self._words.search(text.lower().replace("\u017f", "s"))
        alone = {number for word in words for number in self._numbers[word]}
        numbers = {number for number in alone if self.pattern(number).search(text)}
        if self._wordless:
            numbers.update(self._wordless[number] for number in self._others.search(text))
        return iter(sorted(numbers))

    def pattern(self, number: int) -> Any:
        """Return the compiled expression of that number."""
        regex = self._compiled.get(number)
        if regex is None:
            regex = self._compiled[number] = re2.compile(self._expressions[number], re2_options(REGEX_LIMIT_BYTES))
        return regex


def words_of(fragment: str) -> list[str]:
    """Return lower-case words of which one is in every match of the fragment; empty when none is certain.

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
    is_known = bool(parts) and parts[-1][0] == "end" and depth == 0 and len(words) <= _BRANCHES_LIMIT
    return sorted(set(words)) if is_known and min(map(len, words)) >= LEAST_CHARS else []


def _tokens(fragment: str) -> Iterator[tuple[str, str]]:
    """Yield the tokens of the fragment and an end token, which is missing for unsupported syntax."""
    place = 0
    while place < len(fragment):
        token = _TOKEN.match(fragment, place)
        # Flags and group names may change the meaning of the rest.
        if token is None or (token[0] == "(" and fragment.startswith("(?", place)):
            return
        if not token[0].isascii():
            return
        yield token.lastgroup or "", token[0]
        place = token.end()
    yield "end", ""


LIST_LIMIT_CHARS = 16 << 20
PROBLEMS_KEPT = 1_000
_TEXT_SHOWN_CHARS = 120


class SpamListKind(StrEnum):
    """Kind of a list; the values are stored in the registry."""

    BLACKLIST = "blacklist"
    WHITELIST = "whitelist"
    DOMAINS = "domains"


def list_kind(name: str) -> SpamListKind:
    """Return the kind of list in a page or file of that name.

    >>> list_kind("MediaWiki:Spam-whitelist").value, list_kind("Spam blacklist").value
    ('whitelist', 'blacklist')
    """
    lower = name.lower()
    if lower.endswith(".json"):
        return SpamListKind.DOMAINS
    return SpamListKind.WHITELIST if "whitelist" in lower else SpamListKind.BLACKLIST


@dataclass(frozen=True, slots=True)
class SpamList:
    """Text of a spam list."""

    name: str  # its display name, e.g. ``MediaWiki:Spam-blacklist``.
    kind: SpamListKind  # its format
    content: str  # the whole text
    is_global: bool = False  # it applies to the whole farm

    @property
    def label(self) -> str:
        """Return its name and scope."""
        return f"{'farm' if self.is_global else 'wiki'}: {self.name}"


@dataclass(frozen=True, slots=True)
class SpamLine:
    """Line of a list that matches a URL."""

    list: str  # the list's label
    line: int  # its number from 1; in a list of domains the entry's

    def __str__(self) -> str:
        """Return the reference for notes."""
        return f"{self.list}, line {self.line}"


@dataclass(frozen=True, slots=True)
class SpamListProblem:
    """Line that is skipped."""

    hit: SpamLine  # its position
    text: str  # the line, shortened
    reason: str  # the error


class SpamLists:
    """Compiled spam lists of a wiki and its farm; `problems` has the first skipped lines. Thread-safe."""

    def __init__(self, lists: Iterable[SpamList] = ()) -> None:
        """Parse and compile the lists; InputError for malformed JSON or a list that is too long."""
        self.lists = tuple(lists)
        self.size = 0
        self.problems: list[SpamListProblem] = []
        self._domains: dict[str, SpamLine] = {}
        black: dict[SpamLine, str] = {}
        white: dict[SpamLine, str] = {}
        for each in self.lists:
            if len(each.content) > LIST_LIMIT_CHARS:
                raise InputError(f"{each.name} has more than {LIST_LIMIT_CHARS:,} characters.")
            if each.kind is SpamListKind.DOMAINS:
                try:
                    entries = json.loads(each.content.removeprefix("\ufeff"))
                except (ValueError, RecursionError) as error:
                    raise InputError(f"{each.name} is not JSON: {error}.") from error
                if not isinstance(entries, list):
                    form = '[{"domain": "…", "notes": "…"}, …]'
                    raise InputError(f"{each.name} is not a list: its form is {form}.")
                for number, entry in enumerate(entries, start=1):
                    hit = SpamLine(each.label, number)
                    domain = entry.get("domain") if isinstance(entry, dict) else entry
                    try:
                        host = canonical_host(str(domain or "").strip().removeprefix("*."))
                    except BadUrlError:
                        shown = json.dumps(entry, ensure_ascii=False)[:_TEXT_SHOWN_CHARS]
                        self._note(SpamListProblem(hit, shown, "It has no domain."))
                    else:
                        self._domains.setdefault(host, hit)
            else:
                fragments = black if each.kind is SpamListKind.BLACKLIST else white
                fragments.update(self._fragments(each))
        self.size += len(self._domains) + len(black) + len(white)
        self._lines = list(black)
        self._black = FragmentSet(list(black.values()))
        self._white = FragmentSet(list(white.values()))

    def hit_of(self, text: str, identity: str) -> SpamLine | None:
        """Return the line that matches the URL, as written on the page or as its identity key; else None."""
        if not self.size:
            return None
        domain = split_identity(identity).host
        while domain and self._domains:
            if domain in self._domains:
                return self._domains[domain]
            domain = domain.partition(".")[2]
        for spelling in dict.fromkeys((identity, text.replace("\uff0e", "."))):
            left = spelling
            for number in self._white.search(spelling):
                left = self._white.pattern(number).sub("", left)
            for number in self._black.search(left):
                return self._lines[number]
        return None

    def _fragments(self, each: SpamList) -> Iterator[tuple[SpamLine, str]]:
        for number, line in enumerate(each.content.split("\n"), start=1):
            fragment = fragment_of(line.removeprefix("\ufeff") if number == 1 else line)
            if not fragment or fragment == "0":  # MediaWiki treats this as an empty line, too
                continue
            hit = SpamLine(each.label, number)
            try:
                fragment_expression(fragment)
            except InputError as error:
                self._note(SpamListProblem(hit, fragment[:_TEXT_SHOWN_CHARS], str(error)))
            else:
                yield hit, fragment

    def _note(self, problem: SpamListProblem) -> None:
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(problem)
