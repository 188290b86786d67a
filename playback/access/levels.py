"""Levels of a copy: rules, rights of editors, and rule precedence (A18 to A21; docs/how-to/levels.md); pure.

An editor's rule is limited by the editor's current right: once it is withdrawn their rules can only restrict.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

import core.page_classes
from core.config.stored_level import DEFAULT_STORED_LEVEL, StoredLevel
from core.errors import BadUrlError, InputError
from core.hosts import domains_of
from core.layout import check_name
from core.urls import fetch_key, host_of, identity_and_host, identity_key

LONGEST_WIKI = 64  # characters of a wiki's name
_NEVER_IN_DOMAINS = frozenset("/?#@\\")
_LONGEST_ACTOR = 255  # characters; MediaWiki allows as many bytes


class Level(StrEnum):
    """Level of a copy, in ascending order of what is shown."""

    TEXT = "text"  # text and paragraphs
    LIMITED = "limited"  # headings, lists, tables, links; without the page's design
    HTML = "html"  # the page without its images
    IMAGES = "images"  # the page with its images and its look
    FULL = "full"  # everything including scripts, on its own origin

    @property
    def rank(self) -> int:
        """Return the position in the order; 0 is the lowest."""
        return _RANKS[self]

    def covers(self, other: "Level") -> bool:
        """Return True when this level is equal to or above the other."""
        return self.rank >= other.rank


_RANKS = {level: rank for rank, level in enumerate(Level)}
DEFAULT_LEVEL = Level(core.page_classes.DEFAULT_REPLAY_LEVEL)


_L = TypeVar("_L", bound=Level | StoredLevel)


def lowest_level(*levels: Level) -> Level:
    """Return the lowest of the levels."""
    return min(levels, key=lambda level: level.rank)


class LevelScope(StrEnum):
    """Scope of a rule, in order of precedence."""

    LINK = "link"
    DOMAIN = "domain"
    WIKI = "wiki"
    DEFAULT = "default"


# Scopes included in a right.
_REACH = {
    LevelScope.LINK: (LevelScope.LINK,),
    LevelScope.DOMAIN: (LevelScope.LINK, LevelScope.DOMAIN),
    LevelScope.WIKI: (LevelScope.LINK, LevelScope.DOMAIN, LevelScope.WIKI),
}


@dataclass(frozen=True, slots=True)
class LevelActor:
    """Author of a decision: an operator or, with a wiki, an editor of that wiki."""

    name: str
    wiki: str = ""

    @property
    def is_operator(self) -> bool:
        """Return True for an operator, who may decide anything."""
        return not self.wiki

    def __str__(self) -> str:
        return f"{self.name}@{self.wiki}" if self.wiki else self.name


def parse_actor(text: str) -> LevelActor:
    """Parse ``name`` or ``name@wiki``, else raise InputError; MediaWiki user names never contain ``@``."""
    name, at, wiki = text.strip().partition("@")
    if not name or len(name) > _LONGEST_ACTOR or not name.isprintable():
        raise InputError(f"{text[:80]!r} is not an actor: use NAME, or NAME@WIKI for an editor.")
    return LevelActor(name, check_wiki(wiki) if at else "")


def check_wiki(name: str) -> str:
    """Return a wiki's name, which is used in URL paths; raise InputError when it is not valid."""
    return check_name(name, of="a wiki", limit=LONGEST_WIKI)


@dataclass(frozen=True, slots=True)
class LevelTarget:
    """Target of a rule; user input is parsed by `target_of`."""

    scope: LevelScope
    wiki: str = ""  # whose readers are affected; empty: all readers
    what: str = ""  # a link's identity key, or a domain; else empty

    def __str__(self) -> str:
        where = f" in the wiki {self.wiki}" if self.wiki else ""
        if self.scope is LevelScope.WIKI:
            return f"the wiki {self.wiki}"
        return f"{self.scope} {self.what}{where}" if self.what else "the default"


def target_of(*, wiki: str = "", domain: str = "", link: str = "") -> LevelTarget:
    """Return the target for a link, a domain, a wiki or, without any of them, everything."""
    wiki = check_wiki(wiki) if wiki else ""
    if link and domain:
        raise InputError("A rule applies to a link or to a domain, not to both.")
    if link:
        return LevelTarget(LevelScope.LINK, wiki, identity_key(fetch_key(link, allow_single_label=True)))
    if domain:
        bare = domain.strip().removeprefix("*.").rstrip(".")
        has_port = ":" in bare and not bare.startswith("[")
        try:
            host = host_of(fetch_key(f"http://{bare}/", allow_single_label=True)) if bare else ""
        except BadUrlError:
            host = ""
        if not host or has_port or _NEVER_IN_DOMAINS & set(bare):
            raise InputError(f"{domain[:200]!r} is not a domain: write example.org, without scheme, port or path.")
        return LevelTarget(LevelScope.DOMAIN, wiki, host)
    return LevelTarget(LevelScope.WIKI, wiki) if wiki else LevelTarget(LevelScope.DEFAULT)


@dataclass(frozen=True)  # no slots: generic aliases set an attribute (Python 3.11)
class LevelDecision(Generic[_L]):
    """Decision about a level."""

    number: int  # increases with each decision of the same kind
    target: LevelTarget
    level: _L | None  # None when the rule was removed
    actor: LevelActor  # author of the decision
    decided_at: datetime
    reason: str = ""
    is_stored: bool = False  # the decision is about the stored level


Rule = LevelDecision[Level]  # of the copy as shown
StoredRule = LevelDecision[StoredLevel]


@dataclass(frozen=True, slots=True)
class LevelRight:
    """Decision about the rights of a wiki's editors."""

    number: int  # increases with each decision
    wiki: str  # where the right applies
    editor: str  # name of the editor; empty: all editors without a right of their own
    # `Scope.LINK`, `Scope.DOMAIN` (links and domains), or `Scope.WIKI` (also the wiki itself)
    scope: LevelScope
    most: Level | None  # the highest level they may allow; None: the right is withdrawn
    actor: LevelActor  # operator who granted or withdrew it
    decided_at: datetime
    reason: str = ""


@dataclass(frozen=True)  # no slots: generic aliases set an attribute (Python 3.11)
class LevelRuling(Generic[_L]):
    """Level of a URL, with the rule that determines it."""

    level: _L
    # the rule applied; None: none matched, and the level is the default
    rule: LevelDecision[_L] | None = None
    is_capped: bool = False  # the rule's level exceeds the current right of its editor


@dataclass(frozen=True)  # no slots: generic aliases set an attribute (Python 3.11)
class _LevelKind(Generic[_L]):
    """Kind of level (shown or stored)."""

    verb: str  # used in messages
    default: _L  # level without a rule
    lowest: _L  # level of URLs that cannot be parsed
    highest: _L  # the highest level an operator may allow
    allowed_by: Callable[[Level], _L]  # the highest level of a right to a shown level


_SHOWN: _LevelKind[Level] = _LevelKind("show", DEFAULT_LEVEL, Level.TEXT, Level.FULL, lambda most: most)
_STORED: _LevelKind[StoredLevel] = _LevelKind(
    "store",
    DEFAULT_STORED_LEVEL,
    StoredLevel.TEXT,
    StoredLevel.EVERYTHING,
    lambda most: StoredLevel.EVERYTHING if most.covers(Level.IMAGES) else StoredLevel.TEXT,
)
Rights = Mapping[tuple[str, str], LevelRight]


class RuleTable(Generic[_L]):
    """Rules of one kind in force, and the rights to change them. Immutable."""

    def __init__(self, kind: _LevelKind[_L], rules: Mapping[LevelTarget, LevelDecision[_L]], rights: Rights) -> None:
        self._kind = kind
        self._rules = rules
        self._rights = rights

    @property
    def rules(self) -> Collection[LevelDecision[_L]]:
        """Return the rules in force."""
        return self._rules.values()

    def ruling(self, url: str, wiki: str = "") -> LevelRuling[_L]:
        """Return the ruling for a URL; URLs that cannot be parsed get the lowest level."""
        if not self._rules:
            return LevelRuling(self._kind.default)
        try:
            rules = self.matching_rules(url, wiki)
        except BadUrlError:
            return LevelRuling(self._kind.lowest)
        return self._first(iter(rules))

    def matching_rules(self, url: str, wiki: str = "") -> list[LevelDecision[_L]]:
        """Return every rule that matches the URL, in order of precedence; BadUrlError for no URL."""
        identity, host = identity_and_host(url)
        whose = (wiki, "") if wiki else ("",)
        named = [(LevelScope.LINK, identity), *((LevelScope.DOMAIN, each) for each in domains_of(host))]
        targets = [LevelTarget(scope, each, name) for scope, name in named for each in whose]
        if wiki:
            targets.append(LevelTarget(LevelScope.WIKI, wiki))
        targets.append(LevelTarget(LevelScope.DEFAULT))
        return [self._rules[target] for target in targets if target in self._rules]

    def at(self, target: LevelTarget) -> LevelDecision[_L] | None:
        """Return the rule for exactly this target."""
        return self._rules.get(target)

    def most(self, actor: LevelActor, target: LevelTarget) -> _L | None:
        """Return the highest level the actor may allow, also limited by an operator's rule for all wikis; or None."""
        if actor.is_operator:
            return self._kind.highest
        right = self._rights.get((actor.wiki, actor.name)) or self._rights.get((actor.wiki, ""))
        if right is None or right.most is None or target.wiki != actor.wiki or target.scope not in _REACH[right.scope]:
            return None
        most = self._kind.allowed_by(right.most)
        for_all = self._rules.get(replace(target, wiki=""))
        if for_all is None or for_all.level is None or for_all.level.rank >= most.rank:
            return most
        return for_all.level

    def check_right(self, actor: LevelActor, target: LevelTarget, level: _L | None) -> None:
        """Raise InputError unless the actor may set that level, or remove the rule (None)."""
        if actor.is_operator:
            return
        if (most := self.most(actor, target)) is None:
            raise InputError(self._refusal(actor, target))
        rule = self._rules.get(target)
        if rule is not None and rule.actor.is_operator:
            raise InputError(f"{actor} may not change the level of {target}: an operator ({rule.actor}) decided it.")
        if level is not None and level.rank > most.rank:
            raise InputError(
                f"{actor} may not {self._kind.verb} {target} at the level {level}: editors of {actor.wiki} may allow "
                f"at most {most} there. An operator may allow it."
            )

    def _refusal(self, actor: LevelActor, target: LevelTarget) -> str:
        intro = f"{actor} may not decide on {target}: "
        if target.wiki != actor.wiki:
            return f"{intro}editors decide within their own wiki only (--wiki {actor.wiki})."
        right = self._rights.get((actor.wiki, actor.name)) or self._rights.get((actor.wiki, ""))
        if right is None:
            return (
                f"{intro}editors of {actor.wiki} have no right to. An operator gives it with"
                f" `weboid level rights --wiki {actor.wiki} --most LEVEL`."
            )
        which = " and ".join(f"{scope}s" for scope in _REACH[right.scope])
        more = " An operator may."
        if target.scope is LevelScope.WIKI:
            more = " An operator may, and lets them with `weboid level rights --most LEVEL --whole-wiki`."
        return f"{intro}editors of {actor.wiki} decide on {which} only.{more}"

    def _first(self, rules: Iterator[LevelDecision[_L]]) -> LevelRuling[_L]:
        if (rule := next(rules, None)) is None:
            return LevelRuling(self._kind.default)
        assert rule.level is not None
        most = self.most(rule.actor, rule.target) or self._first(rules).level
        is_capped = rule.level.rank > most.rank
        return LevelRuling(most if is_capped else rule.level, rule, is_capped)


class LevelRules(RuleTable[Level]):
    """All rules and rights in force; itself the table of shown levels. Immutable."""

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        rights: Iterable[LevelRight] = (),
        stored: Iterable[StoredRule] = (),
        *,
        before: "LevelRules | None" = None,
    ) -> None:
        granted = {(each.wiki, each.editor): each for each in before.rights} if before else {}
        for right in rights:
            granted.pop((right.wiki, right.editor), None)
            if right.most is not None:
                granted[right.wiki, right.editor] = right
        super().__init__(_SHOWN, _after(before, rules), granted)
        stored_before = None if before is None else before.stored
        self.stored: RuleTable[StoredLevel] = RuleTable(_STORED, _after(stored_before, stored), granted)
        # Wikis that have rules of their own; in others the rules for all wikis apply.
        self.wikis = frozenset(target.wiki for target in self._rules) - {""}

    def of_kind(self, *, is_stored: bool) -> RuleTable[Any]:
        """Return the rules about stored, else shown levels."""
        return self.stored if is_stored else self

    @property
    def rights(self) -> Collection[LevelRight]:
        """Return the rights in force."""
        return self._rights.values()

    def of(self, url: str, wiki: str = "") -> Level:
        """Return the highest level shown of the URL to readers of `wiki` (empty: no wiki)."""
        return self.ruling(url, wiki).level

    def of_page(self, urls: Iterable[str], wiki: str = "") -> Level:
        """Return the highest level shown of a page with several URLs: by a rule for one of them, else the lowest."""
        rulings = [self.ruling(url, wiki) for url in dict.fromkeys(urls)]
        named = [each for each in rulings if each.rule and each.rule.target.scope is LevelScope.LINK]
        return lowest_level(*(each.level for each in named or rulings))


def _after(
    before: RuleTable[_L] | None, decisions: Iterable[LevelDecision[_L]]
) -> dict[LevelTarget, LevelDecision[_L]]:
    rules = {} if before is None else {rule.target: rule for rule in before.rules}
    for decision in decisions:
        rules.pop(decision.target, None)
        if decision.level is not None:
            rules[decision.target] = decision
    return rules
