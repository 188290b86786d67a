"""Levels of a copy: rules, rights of editors, and which rule wins (A18 to A21); pure.

A rule gives a level to one link, to a domain with all below it, to a wiki, or to everything. For a URL
a link's rule goes before a domain's, the longer domain before the shorter, any domain before the
wiki, the wiki before the default; of two that name the same thing the reader's wiki's own goes before
the one for all wikis.

A rule that an editor made counts as far as the editors' right reaches now: lowering a wiki's most
lowers what its editors had allowed before, and where the right is gone, their rules only take away.

Stored levels (`core.config.stored_level`) go by rules of their own, which are found in the same order.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import core.page_classes
from core.config.stored_level import DEFAULT_STORED_LEVEL, StoredLevel
from core.errors import BadUrlError, InputError
from core.layout import check_name
from core.url_keys import browser_identity

LONGEST_WIKI = 64  # characters of a wiki's name
_LONGEST_ACTOR = 255  # characters; MediaWiki allows as many bytes


class Level(StrEnum):
    """How a copy is shown, from the least to the most."""

    TEXT = "text"  # text and paragraphs
    LIMITED = "limited"  # headings, lists, tables, links; no look of its own
    HTML = "html"  # the page without its images
    IMAGES = "images"  # the page with its images and its look
    FULL = "full"  # everything, scripts too, on an origin of its own

    @property
    def rank(self) -> int:
        """0 for the least."""
        return _RANKS[self]

    def covers(self, other: "Level") -> bool:
        """True when whoever may see this may see the other."""
        return self.rank >= other.rank


_RANKS = {level: rank for rank, level in enumerate(Level)}
DEFAULT_LEVEL = Level(core.page_classes.DEFAULT_REPLAY_LEVEL)


class _RankedLevel(Protocol):
    """A level of either kind."""

    @property
    def rank(self) -> int:
        """0 for the least."""
        ...


_L = TypeVar("_L", bound=_RankedLevel)


def lowest_level(*levels: Level) -> Level:
    """The one of them that shows the least."""
    return min(levels, key=lambda level: level.rank)


class LevelScope(StrEnum):
    """What a rule is about; an earlier one goes before a later one."""

    LINK = "link"
    DOMAIN = "domain"
    WIKI = "wiki"
    DEFAULT = "default"


# What a right to the scope is a right to.
_REACH = {
    LevelScope.LINK: (LevelScope.LINK,),
    LevelScope.DOMAIN: (LevelScope.LINK, LevelScope.DOMAIN),
    LevelScope.WIKI: (LevelScope.LINK, LevelScope.DOMAIN, LevelScope.WIKI),
}


@dataclass(frozen=True, slots=True)
class LevelActor:
    """Who decides: an operator, or an editor of a wiki.

    Whoever passes on what a wiki's user wants must name the wiki: without one it is an operator.
    """

    name: str
    wiki: str = ""

    @property
    def is_operator(self) -> bool:
        """True for who may decide anything."""
        return not self.wiki

    def __str__(self) -> str:
        """``name``, or ``name@wiki``."""
        return f"{self.name}@{self.wiki}" if self.wiki else self.name


def parse_actor(text: str) -> LevelActor:
    """The actor that ``name`` or ``name@wiki`` means; MediaWiki lets no user's name hold an ``@``.

    Raises:
        InputError: it names nobody.
    """
    name, at, wiki = text.strip().partition("@")
    if not name or len(name) > _LONGEST_ACTOR or not name.isprintable():
        raise InputError(f"{text[:80]!r} names nobody: write a name, or NAME@WIKI for an editor.")
    return LevelActor(name, check_wiki(wiki) if at else "")


def check_wiki(name: str) -> str:
    """The name of a wiki, which stands in addresses.

    Raises:
        InputError: it is no name.
    """
    return check_name(name, of="a wiki", limit=LONGEST_WIKI)


@dataclass(frozen=True, slots=True)
class LevelTarget:
    """What a rule is about; what people type becomes one in `playback.access.level_targets`.

    Attributes:
        wiki: whose readers it is about; empty: everybody.
        what: a link's identity key, or a domain; else empty.
    """

    scope: LevelScope
    wiki: str = ""
    what: str = ""

    def __str__(self) -> str:
        """In words, for people."""
        where = f" in the wiki {self.wiki}" if self.wiki else ""
        if self.scope is LevelScope.WIKI:
            return f"the wiki {self.wiki}"
        return f"{self.scope} {self.what}{where}" if self.what else "the default"


@dataclass(frozen=True)  # no slots: generic aliases set an attribute (Python 3.11)
class LevelDecision(Generic[_L]):
    """One decision about a level.

    Attributes:
        number: later decisions of one kind have higher ones.
        level: None when the decision was to have no rule any more.
        actor: who decided.
        is_stored: it is about what is recorded.
    """

    number: int
    target: LevelTarget
    level: _L | None
    actor: LevelActor
    decided_at: datetime
    reason: str = ""
    is_stored: bool = False


Rule = LevelDecision[Level]  # of what is shown
StoredRule = LevelDecision[StoredLevel]


@dataclass(frozen=True, slots=True)
class LevelRight:
    """One decision about what a wiki's editors may decide.

    Attributes:
        number: later decisions have higher ones.
        wiki: within which wiki.
        editor: which of its editors; empty: each whom no right of their own is given.
        scope: `Scope.LINK`, `Scope.DOMAIN` for links and domains, `Scope.WIKI` for the wiki itself, too.
        most: the most that they may allow; None: nothing may be decided any more.
        actor: who gave or withdrew it.
    """

    number: int
    wiki: str
    editor: str
    scope: LevelScope
    most: Level | None
    actor: LevelActor
    decided_at: datetime
    reason: str = ""


@dataclass(frozen=True)  # no slots: generic aliases set an attribute (Python 3.11)
class LevelRuling(Generic[_L]):
    """The level of a URL, and why.

    Attributes:
        rule: what decided; None: nothing did, and the level is the default.
        is_capped: the rule says more than its editor may allow now.
    """

    level: _L
    rule: LevelDecision[_L] | None = None
    is_capped: bool = False


Ruling = LevelRuling[Level]  # of what is shown
StoredRuling = LevelRuling[StoredLevel]


@dataclass(frozen=True)  # no slots: generic aliases set an attribute (Python 3.11)
class _LevelKind(Generic[_L]):
    """One kind of level: its words, bounds and default.

    Attributes:
        verb: what is done with a page at the level.
        default: without a rule.
        unreadable: of what no browser can parse.
        highest: what an operator may allow.
        allowed_by: the highest that an editor may allow whose right reaches to a shown level.
    """

    verb: str
    default: _L
    unreadable: _L
    highest: _L
    allowed_by: Callable[[Level], _L]


def _same(most: Level) -> Level:
    return most


def _storable(most: Level) -> StoredLevel:
    """Return the highest stored level of an editor: whose readers see images may have all stored."""
    return StoredLevel.EVERYTHING if most.covers(Level.IMAGES) else StoredLevel.TEXT


_SHOWN: _LevelKind[Level] = _LevelKind("show", DEFAULT_LEVEL, Level.TEXT, Level.FULL, _same)
_STORED: _LevelKind[StoredLevel] = _LevelKind(
    "store", DEFAULT_STORED_LEVEL, StoredLevel.TEXT, StoredLevel.EVERYTHING, _storable
)
Rights = Mapping[tuple[str, str], LevelRight]


class RuleTable(Generic[_L]):
    """The rules of one kind that hold, and the rights to make them. Never changes."""

    def __init__(
        self, kind: _LevelKind[_L], rules: Mapping[LevelTarget, LevelDecision[_L]], rights: Rights
    ) -> None:
        self._kind = kind
        self._rules = rules
        self._rights = rights

    @property
    def rules(self) -> Collection[LevelDecision[_L]]:
        """The rules that hold."""
        return self._rules.values()

    def ruling(self, url: str, wiki: str = "") -> LevelRuling[_L]:
        """What decides on the URL; what no browser can parse has the least."""
        if not self._rules:
            return LevelRuling(self._kind.default)
        try:
            rules = self._speaking(url, wiki)
        except BadUrlError:
            return LevelRuling(self._kind.unreadable)
        return self._first(rules)

    def speaking(self, url: str, wiki: str = "") -> list[LevelDecision[_L]]:
        """Every rule about the URL, the one that goes before all others first.

        Raises:
            BadUrlError: no browser can parse it.
        """
        return list(self._speaking(url, wiki))

    def at(self, target: LevelTarget) -> LevelDecision[_L] | None:
        """The rule about that very thing."""
        return self._rules.get(target)

    def most(self, actor: LevelActor, target: LevelTarget) -> _L | None:
        """The most that the actor may allow there; None: the actor may decide nothing there.

        What is decided about the very same thing for everybody, which operators do, no editor exceeds.
        """
        if actor.is_operator:
            return self._kind.highest
        right = self._rights.get((actor.wiki, actor.name)) or self._rights.get((actor.wiki, ""))
        if right is None or right.most is None or target.wiki != actor.wiki:
            return None
        if target.scope not in _REACH[right.scope]:
            return None
        most = self._kind.allowed_by(right.most)
        for_all = self._rules.get(replace(target, wiki=""))
        if for_all is None or for_all.level is None or for_all.level.rank >= most.rank:
            return most
        return for_all.level

    def check_right(self, actor: LevelActor, target: LevelTarget, level: _L | None) -> None:
        """Return when the actor may give the target that level, or with None take its rule away.

        Raises:
            InputError: the actor may not; the text says what would be allowed, or who may.
        """
        if actor.is_operator:
            return
        most = self.most(actor, target)
        if most is None:
            raise InputError(self._refusal(actor, target))
        held = self._rules.get(target)
        if held is not None and held.actor.is_operator:
            raise InputError(
                f"{actor} may not change the level of {target}: an operator ({held.actor}) decided it."
            )
        if level is not None and level.rank > most.rank:
            raise InputError(
                f"{actor} may not {self._kind.verb} {target} at the level {level}: there editors of"
                f" {actor.wiki} may allow {most} at most. An operator may."
            )

    def _refusal(self, actor: LevelActor, target: LevelTarget) -> str:
        told = f"{actor} may not decide on {target}: "
        if target.wiki != actor.wiki:
            return f"{told}editors decide within their own wiki only (--wiki {actor.wiki})."
        given = self._rights.get((actor.wiki, actor.name)) or self._rights.get((actor.wiki, ""))
        if given is None:
            return (
                f"{told}editors of {actor.wiki} have no right to. An operator gives it with"
                f" `weboid level rights allow --wiki {actor.wiki} --most LEVEL`."
            )
        which = " and ".join(f"{scope}s" for scope in _REACH[given.scope])
        more = " An operator may."
        if target.scope is LevelScope.WIKI:
            more = " An operator may, and lets them with `weboid level rights allow --whole-wiki`."
        return f"{told}editors of {actor.wiki} decide on {which} only.{more}"

    def _first(self, rules: Iterator[LevelDecision[_L]]) -> LevelRuling[_L]:
        """The ruling of the first rule; an editor's only as far as the right to it reaches now."""
        rule = next(rules, None)
        if rule is None:
            return LevelRuling(self._kind.default)
        assert rule.level is not None
        most = self.most(rule.actor, rule.target) or self._first(rules).level
        is_capped = rule.level.rank > most.rank
        return LevelRuling(most if is_capped else rule.level, rule, is_capped)

    def _speaking(self, url: str, wiki: str) -> Iterator[LevelDecision[_L]]:
        identity, host = browser_identity(url)
        whose = (wiki, "") if wiki else ("",)
        named = [
            (LevelScope.LINK, identity),
            *((LevelScope.DOMAIN, domain) for domain in _domains(host)),
        ]
        targets = [LevelTarget(scope, each, what) for scope, what in named for each in whose]
        if wiki:
            targets.append(LevelTarget(LevelScope.WIKI, wiki))
        targets.append(LevelTarget(LevelScope.DEFAULT))
        return (self._rules[target] for target in targets if target in self._rules)


class LevelRules(RuleTable[Level]):
    """All rules and rights that hold, ready to be asked. Never changes; `after` makes another.

    It is the table of what is shown itself.

    Attributes:
        stored: the table of what is recorded.
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        rights: Iterable[LevelRight] = (),
        stored: Iterable[StoredRule] = (),
        *,
        before: "LevelRules | None" = None,
    ) -> None:
        held = {} if before is None else dict(before._rights)  # noqa: SLF001 of our own kind
        for right in rights:
            held.pop((right.wiki, right.editor), None)
            if right.most is not None:
                held[right.wiki, right.editor] = right
        super().__init__(_SHOWN, _after(before, rules), held)
        stored_before = None if before is None else before.stored
        self.stored: RuleTable[StoredLevel] = RuleTable(
            _STORED, _after(stored_before, stored), held
        )
        self._wikis = frozenset(target.wiki for target in self._rules) - {""}

    def after(
        self,
        rules: Iterable[Rule],
        rights: Iterable[LevelRight],
        stored: Iterable[StoredRule] = (),
    ) -> "LevelRules":
        """These with later decisions, which come in their order."""
        return LevelRules(rules, rights, stored, before=self)

    @property
    def rights(self) -> Collection[LevelRight]:
        """The rights that hold."""
        return self._rights.values()

    @property
    def wikis(self) -> frozenset[str]:
        """The wikis that `speak_of` knows."""
        return self._wikis

    def speak_of(self, wiki: str) -> bool:
        """True when there is a rule for that wiki's readers; else they are shown what everybody is."""
        return wiki in self._wikis

    def of(self, url: str, wiki: str = "") -> Level:
        """The most that a reader of `wiki` (empty: of none) is shown of the URL."""
        return self.ruling(url, wiki).level

    def of_page(self, urls: Iterable[str], wiki: str = "") -> Level:
        """The most that is shown of a page; see `page_ruling`."""
        return self.page_ruling(urls, wiki).level

    def page_ruling(self, urls: Iterable[str], wiki: str = "") -> Ruling:
        """What decides on a page that goes by several URLs: the one cited, and the one it led to.

        A rule about one of these links decides; else the URL with the least does, so that a redirect
        from a domain that is trusted shows no more of one that is not.
        """
        rulings = [self.ruling(url, wiki) for url in dict.fromkeys(urls)]
        named = [
            each for each in rulings if each.rule and each.rule.target.scope is LevelScope.LINK
        ]
        return min(named or rulings, key=lambda ruling: ruling.level.rank)


def _after(
    before: RuleTable[_L] | None, decisions: Iterable[LevelDecision[_L]]
) -> dict[LevelTarget, LevelDecision[_L]]:
    held = {} if before is None else {rule.target: rule for rule in before.rules}
    for decision in decisions:
        held.pop(decision.target, None)
        if decision.level is not None:
            held[decision.target] = decision
    return held


def _domains(host: str) -> Iterator[str]:
    """The host and the domains that it lies in, the longest first."""
    yield host
    while not host.startswith("[") and "." in host:
        host = host.partition(".")[2]
        yield host
