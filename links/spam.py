"""Spam lists: what a farm and a wiki block, matched and never asked for (W52).

Three kinds of lists are known, as MediaWiki's extensions write them:

    blacklist  Spam blacklist: a fragment of a regular expression a line (`core.spam_fragments`)
    whitelist  Spam whitelist, of the same form: what it matches is cut out before the blacklists look
    domains    MediaWiki:BlockedExternalDomains.json: ``[{"domain": …, "notes": …}]``, with all below

A farm's lists hold for all its wikis, a wiki's own for that wiki alone; nobody is told what another
wiki blocks. What RE2 cannot run is left out and named by its line: `SpamLists.problems`.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from core.errors import BadUrlError, InputError
from core.hosts import canonical_host
from core.spam_fragments import fragment_expression, fragment_of
from links.fragments import Fragments
from links.locator import split

LIST_LIMIT_CHARS = 16 << 20
PROBLEMS_KEPT = 1_000
_TEXT_SHOWN_CHARS = 120


class ListKind(StrEnum):
    """What a list is, by the words that the registry keeps."""

    BLACKLIST = "blacklist"
    WHITELIST = "whitelist"
    DOMAINS = "domains"


def list_kind(name: str) -> ListKind:
    """Return what a page or file of that name holds.

    >>> list_kind("MediaWiki:Spam-whitelist").value, list_kind("Spam blacklist").value
    ('whitelist', 'blacklist')
    """
    lower = name.lower()
    if lower.endswith(".json"):
        return ListKind.DOMAINS
    return ListKind.WHITELIST if "whitelist" in lower else ListKind.BLACKLIST


@dataclass(frozen=True, slots=True)
class SpamList:
    """A list as somebody wrote it.

    Attributes:
        name: what people know it by, e.g. ``MediaWiki:Spam-blacklist``.
        kind: how it is read.
        content: the whole text.
        is_global: it is the farm's, and no wiki's own.
    """

    name: str
    kind: ListKind
    content: str
    is_global: bool = False

    @property
    def label(self) -> str:
        """Its name, and whose it is."""
        return f"{'farm' if self.is_global else 'wiki'}: {self.name}"


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that names a URL.

    Attributes:
        list: the list's label.
        line: its number from 1; in a list of domains the entry's.
    """

    list: str
    line: int

    def __str__(self) -> str:
        """As notes cite it."""
        return f"{self.list}, line {self.line}"


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that is left out.

    Attributes:
        hit: where it stands.
        text: the line, shortened.
        reason: why it is left out.
    """

    hit: Hit
    text: str
    reason: str


class SpamLists:
    """A wiki's spam lists and its farm's, ready to be asked. From any thread."""

    def __init__(self, lists: Iterable[SpamList] = ()) -> None:
        """Read the lists.

        Raises:
            InputError: a list of domains is no JSON of that form, or a list is too long.
        """
        self.lists = tuple(lists)
        self.size = 0
        self._problems: list[Problem] = []
        self._domains: dict[str, Hit] = {}
        black: dict[Hit, str] = {}
        white: dict[Hit, str] = {}
        for each in self.lists:
            if len(each.content) > LIST_LIMIT_CHARS:
                raise InputError(f"{each.name} has more than {LIST_LIMIT_CHARS:,} characters.")
            if each.kind is ListKind.DOMAINS:
                self._add_domains(each)
            else:
                found = black if each.kind is ListKind.BLACKLIST else white
                found.update(self._fragments(each))
        self.size += len(self._domains) + len(black) + len(white)
        self._lines = list(black)
        self._black = Fragments(list(black.values()))
        self._white = Fragments(list(white.values()))

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The first of the lines that are left out."""
        return tuple(self._problems)

    def hit_of(self, text: str, identity: str) -> Hit | None:
        """The line that names the URL; None when none does.

        Args:
            text: as it stands on the page: a list may name a spelling.
            identity: its identity key.
        """
        if not self.size:
            return None
        return self._domain_hit(split(identity).host) or next(
            self._fragment_hits(dict.fromkeys((identity, _unspoofed(text)))), None
        )

    def _domain_hit(self, host: str) -> Hit | None:
        domain = host
        while domain and self._domains:
            if domain in self._domains:
                return self._domains[domain]
            domain = domain.partition(".")[2]
        return None

    def _fragment_hits(self, texts: Iterable[str]) -> Iterator[Hit]:
        for text in texts:
            left = text
            for number in self._white.search(text):
                left = self._white.pattern(number).sub("", left)
            yield from (self._lines[number] for number in self._black.search(left))

    def _fragments(self, each: SpamList) -> Iterator[tuple[Hit, str]]:
        for number, line in enumerate(each.content.split("\n"), start=1):
            fragment = fragment_of(line.removeprefix("\ufeff") if number == 1 else line)
            if not fragment or fragment == "0":  # MediaWiki takes this for an empty line, too
                continue
            hit = Hit(each.label, number)
            try:
                fragment_expression(fragment)
            except InputError as error:
                self._note(Problem(hit, fragment[:_TEXT_SHOWN_CHARS], str(error)))
            else:
                yield hit, fragment

    def _add_domains(self, each: SpamList) -> None:
        for number, entry in enumerate(_entries(each), start=1):
            hit = Hit(each.label, number)
            domain = entry.get("domain") if isinstance(entry, dict) else entry
            try:
                host = canonical_host(str(domain or "").strip().removeprefix("*."))
            except BadUrlError:
                shown = json.dumps(entry, ensure_ascii=False)[:_TEXT_SHOWN_CHARS]
                self._note(Problem(hit, shown, "It names no domain."))
            else:
                self._domains.setdefault(host, hit)

    def _note(self, problem: Problem) -> None:
        if len(self._problems) < PROBLEMS_KEPT:
            self._problems.append(problem)


def _entries(each: SpamList) -> list[object]:
    try:
        found = json.loads(each.content.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{each.name} is no JSON: {error}.") from error
    if not isinstance(found, list):
        raise InputError(f'{each.name} is no list: it reads [{{"domain": "…", "notes": "…"}}, …].')
    return found


def _unspoofed(text: str) -> str:
    """With the dots that are no dots, as MediaWiki's extension does before it looks."""
    return text.replace("\uff0e", ".")
