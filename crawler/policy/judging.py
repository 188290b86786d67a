"""What policy says of a URL before it is visited, rule by rule; the first that is against it decides.

    entries ─> lists ─> failed links ─> address ─> robots.txt

A whitelist entry overrides what the crawl and the site say, and the lists: everything but blacklist
entries that are more specific, and addresses that are not the web.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime

from core.settings import EgressSettings, PolicySettings
from core.url_patterns import Target, target_of
from core.urls import identity_key
from crawler.frontier.base import Frontier, Lane
from crawler.policy.address_check import AddressCheck
from crawler.policy.book import Ask, PolicyBook
from crawler.policy.entries import PolicyEntry
from crawler.policy.lists import ListBook
from crawler.policy.origins import Known, OriginRobots
from crawler.rules import VISIT, Action, Verdict

MANY_RULES = 300
NOT_KNOWN = "not known yet; it is asked for before a visit"
ROBOTS_AWAY = "robots: it cannot be had ("  # how the reason begins; why not, and ")", follow
FAILED_LINKS = "failed-link"  # the kind of note that a 404 leaves (A06)


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one rule says.

    Attributes:
        rule: its name.
        verdict: what would become of the item if it decided.
        text: its word in a sentence, also when it has nothing against a visit.
        closes_site: whether it has just learnt that all of the site is closed to us.
    """

    rule: str
    verdict: Verdict
    text: str
    closes_site: bool = False

    @property
    def is_against(self) -> bool:
        """Whether it is against a visit."""
        return self.verdict.action is not Action.VISIT


@dataclass(frozen=True, slots=True)
class Subject:
    """What is judged.

    Attributes:
        url: a fetch key.
        host: whose slot is blocked when its robots.txt cannot be had.
        lane: how urgent it is.
        policy: the settings that hold for it, entries not yet regarded.
        egress: where the proxy may connect to.
    """

    url: str
    host: str
    lane: Lane
    policy: PolicySettings
    egress: EgressSettings


class Judge:
    """Asks every rule. One for all workers of a process.

    Attributes:
        book: the entries.
        lists: the lists.
        robots: what robots.txt files say.
    """

    def __init__(
        self,
        frontier: Frontier,
        book: PolicyBook,
        lists: ListBook,
        robots: OriginRobots,
        *,
        ask: Ask,
    ) -> None:
        self._frontier = frontier
        self._ask = ask
        self._egress: AddressCheck | None = None
        self.book = book
        self.lists = lists
        self.robots = robots

    async def opinions(self, subject: Subject, *, now: datetime) -> AsyncIterator[Opinion]:
        """What each rule says, in their order; stop asking when you know enough.

        The book and the lists are used as they are: refresh them first.
        """
        target = target_of(subject.url)
        allowing, opinion = self._entries(target, now=now)
        yield opinion
        policy = self.policy_for(target, subject.policy, now=now)
        over = f"passed over: {allowing}" if allowing is not None else ""
        yield _nothing("lists", over) if over else self._lists(target)
        yield _nothing("failed links", over) if over else await self._failed(subject, now=now)
        yield self._address(target, subject.egress)
        if policy.robots != "obey":
            yield _nothing("robots.txt", f"policy.robots is {policy.robots!r}")
        elif over:
            yield _nothing("robots.txt", over)
        else:
            yield await self._robots(subject, policy, now=now)

    def policy_for(
        self, target: Target, policy: PolicySettings, *, now: datetime
    ) -> PolicySettings:
        """The settings with what setting entries say of the URL laid over them."""
        entries = self.book.entries.settings(target, now=now)
        found: PolicySettings = policy
        for key, entry in entries.items():
            match key:
                case "robots":
                    found = replace(found, robots=entry.value)
                case "noarchive":
                    found = replace(found, noarchive=entry.value)
                case "ban_s":
                    found = replace(found, ban_s=float(entry.value))
                case "ban_failures":
                    found = replace(found, ban_failures=int(float(entry.value)))
                case "ban_failures_s":
                    found = replace(found, ban_failures_s=float(entry.value))
                case _:  # "archive" is asked for before
                    pass
        return found

    def allowing(self, target: Target, *, now: datetime) -> PolicyEntry | None:
        """The whitelist entry that decides on the URL; None when none does."""
        return self._entries(target, now=now)[0]

    def refusing(self, target: Target, *, now: datetime) -> str:
        """Why entries or lists refuse the URL; empty when they do not, or only put it off."""
        allowing, opinion = self._entries(target, now=now)
        if allowing is None and opinion.verdict.action is not Action.SKIP:
            opinion = self._lists(target)
        return opinion.verdict.reason

    def _entries(self, target: Target, *, now: datetime) -> tuple[PolicyEntry | None, Opinion]:
        """The entry that allows the URL whatever others say, and what the entries say."""
        entry = self.book.entries.deciding(target, now=now)
        if entry is None:
            return None, _nothing("entries", "no entry matches")
        if entry.allows:
            return entry, _nothing("entries", str(entry))
        if entry.defers:
            verdict = Verdict(Action.LATER, str(entry), until=entry.expires_at)
            return None, Opinion("entries", verdict, str(entry))
        return None, _against("entries", str(entry))

    def _lists(self, target: Target) -> Opinion:
        line = self.lists.lists.refusing(target)
        if line is not None:
            return _against("lists", f"list: {line}")
        names = ", ".join(self.lists.lists.sources)
        return _nothing("lists", f"not named in {names}" if names else "there are none")

    def _address(self, target: Target, egress: EgressSettings) -> Opinion:
        """What can be said of host and port without looking anything up; the proxy does the rest."""
        if self._egress is None or self._egress.settings is not egress:
            self._egress = AddressCheck(egress)
        why = self._egress.against(target)
        if why:
            return Opinion("address", Verdict(Action.FAIL, why), why)
        return _nothing("address", "nothing against host and port; the proxy checks the address")

    async def _failed(self, subject: Subject, *, now: datetime) -> Opinion:
        key = failed_link_key(subject.url)
        note = await self._ask(lambda: self._frontier.note(FAILED_LINKS, key, now=now))
        if note is None:
            return _nothing("failed links", "it is not known to have failed")
        text = f"failed link: {note}"
        if subject.lane is Lane.NOW:
            return _nothing("failed links", f"somebody waits for it, although {text}")
        return _against("failed links", text)

    async def _robots(self, subject: Subject, policy: PolicySettings, *, now: datetime) -> Opinion:
        """What robots.txt says."""
        url = subject.url
        known = await self.robots.of(url, policy, host=subject.host, now=now)
        if known is None:
            return _nothing("robots.txt", NOT_KNOWN)
        robots = known.holds(now=now)
        if robots is None:
            reason = f"{ROBOTS_AWAY}{known.why})"
            verdict = Verdict(Action.LATER, reason, until=known.next_at, asked=known.asked)
            return Opinion("robots.txt", verdict, _of(known, reason))
        if len(robots.rules) > MANY_RULES:  # a hostile file may take a second or two
            rule = await asyncio.to_thread(robots.rule_for, url)
        else:
            rule = robots.rule_for(url)
        if rule is None or rule.allow:
            text = str(rule) if rule is not None else known.why or "no rule for it"
            return Opinion("robots.txt", Verdict(asked=known.asked), _of(known, text))
        reason = f"robots: {rule}"
        verdict = Verdict(Action.SKIP, reason, asked=known.asked)
        closes_site = robots.forbids_all and known.asked
        return Opinion("robots.txt", verdict, _of(known, reason), closes_site)


def failed_link_key(url: str) -> str:
    """Under which a link that failed is noted."""
    return identity_key(url)


def failed_link_note(status: int, *, now: datetime, until: datetime) -> str:
    """What is noted of a link that failed."""
    return f"status {status} on {now:%Y-%m-%d}; not asked for again before {until:%Y-%m-%d}"


def _of(known: Known, text: str) -> str:
    if known.read_at is not None:
        return f"{text} (read {known.read_at:%Y-%m-%d %H:%M} UTC)"
    return text


def _against(rule: str, reason: str) -> Opinion:
    return Opinion(rule, Verdict(Action.SKIP, reason), reason)


def _nothing(rule: str, text: str) -> Opinion:
    return Opinion(rule, VISIT, text)
