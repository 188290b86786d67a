"""Policy evaluation of a URL before its visit: entries, lists, failed links, address, robots.

It only saves visits; the proxy enforces which addresses may be connected to (`net.egress`). A whitelist entry overrides
all but more specific blacklist entries, and addresses outside the public web.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from core.clock import Clock
from core.config.settings import EgressSettings, PolicySettings, Settings
from core.errors import BadUrlError
from core.urls import host_of, identity_key
from crawler.frontier.base import POLICY_ORDER, Frontier, FrontierItem, Lane
from crawler.rules.visit_rule import ALLOW_VISIT, RuleAction, RuleDecision, waits_for_host
from net.address_policy import EgressPolicy
from net.connect_errors import NO_SUCH_HOST, BlockedError

if TYPE_CHECKING:
    from crawler.policy.policy_entries import BlocklistCache, PolicyEntries, PolicyEntry
    from crawler.policy.robots_cache import OriginRobots, RobotsRecord


def address_fault(url: str, policy: EgressPolicy) -> str:
    """Return why the URL must not be requested, without name resolution, a constant first; empty: nothing is known."""
    try:
        host, parts = host_of(url), urlsplit(identity_key(url))
        port = parts.port or (443 if parts.scheme == "https" else 80)
        policy.check_target(host, port)
        addresses, _ = policy.known_addresses(host, port) or ((), port)
        for address in addresses:
            policy.check(host, address)
    except BlockedError as error:
        return f"{error.reason}: {error}".removesuffix(".")
    except (BadUrlError, ValueError) as error:
        return f"address: {error}".removesuffix(".")
    return ""


ENTRIES_POLL_S = 0.4
READING_SHARE = 10.0  # reading takes at most one part in this many of the time
PRUNED_AFTER = timedelta(days=1)  # an entry that expired so long ago is taken out
PRUNED_AT_ONCE = 1_000
IN_A_THREAD = 1_000  # more entries than these are not read on the event loop

Ask = Callable[[Callable[[], Any]], Awaitable[Any]]


@dataclass(eq=False, repr=False)
class PolicyEntryCache:
    """Cache of policy entries for one event loop, read for at most a tenth of the time; `ask` as `StoreRetry.ask`."""

    frontier: Frontier
    _: KW_ONLY
    clock: Clock
    ask: Ask
    _version: int = field(default=-1, init=False)
    _orders: dict[str, str] = field(default_factory=dict, init=False)
    _next_read_at: float = field(default=float("-inf"), init=False)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    entries: PolicyEntries | None = field(default=None, init=False)  # None: there were none yet

    async def refresh(self) -> None:
        """Read the entries when they may have changed; a change is seen within a second."""
        if self.clock.monotonic() < self._next_read_at:
            return
        async with self._reading:
            began = self.clock.monotonic()
            if began < self._next_read_at:
                return
            now = self.clock.now()
            stats = await self.ask(lambda: self.frontier.stats(now))
            if stats.version != self._version:
                orders: dict[str, str] = await self.ask(lambda: self.frontier.orders(POLICY_ORDER))
                if orders != self._orders:
                    from crawler.policy.policy_entries import read_entries

                    if len(orders) > IN_A_THREAD:
                        self.entries = await asyncio.to_thread(read_entries, orders, known=self.entries)
                    else:
                        self.entries = read_entries(orders, known=self.entries)
                    self._orders = orders
                    over = [
                        key
                        for key, entry in self.entries.by_id.items()
                        if entry.expires_at is not None and entry.expires_at + PRUNED_AFTER <= now
                    ]
                    for key in over[:PRUNED_AT_ONCE]:
                        await self.ask(partial(self.frontier.take_back, POLICY_ORDER, key))
                self._version = stats.version
            ended = self.clock.monotonic()
            self._next_read_at = ended + max(ENTRIES_POLL_S, (ended - began) * READING_SHARE)

    async def ban(self, url: str, reason: str, *, seconds: float, now: datetime, key: str = "") -> None:
        """Block the URL's site, which is its host, for a while (A05; with `FAILING_SITE` A07)."""
        if seconds <= 0:
            return
        from crawler.policy.policy_entries import CRAWL_ACTOR, PolicyEntry, PolicyKind

        entry = PolicyEntry(
            kind=PolicyKind.AUTOBLACKLIST,
            pattern=f"={host_of(url)}",
            reason=reason[:500],
            actor=CRAWL_ACTOR,
            made_at=now,
            expires_at=now + timedelta(seconds=min(seconds, 1e9)),
            key=key,
        )
        existing = self.entries.by_id.get(entry.id) if self.entries is not None else None
        if existing is not None and existing.holds(now):
            return
        value = entry.to_json()
        await self.ask(lambda: self.frontier.give_order(POLICY_ORDER, entry.id, value))
        self._next_read_at = float("-inf")


MANY_RULES = 300
NOT_KNOWN = "not known yet; it is fetched before a visit"
ROBOTS_UNAVAILABLE = "robots: robots.txt cannot be fetched ("  # how the reason begins; why not, and ")", follow
FAILED_LINK_NOTE = "failed-link"  # the kind of note that a 404 leaves (A06)


@dataclass(frozen=True, slots=True)
class PolicyOpinion:
    """Opinion of one policy rule."""

    rule: str  # its name
    text: str  # the opinion in a sentence, also when it does not object to a visit
    verdict: RuleDecision = ALLOW_VISIT  # the decision if this rule were the only one
    closes_site: bool = False  # whether the rule has just found that the whole site is disallowed

    @property
    def is_against(self) -> bool:
        """Return True when it objects to a visit."""
        return self.verdict.action is not RuleAction.VISIT


@dataclass(eq=False, repr=False)
class PolicyEvaluator:
    """Evaluator of all policy rules. One for all workers of a process."""

    frontier: Frontier
    book: PolicyEntryCache
    lists: BlocklistCache | None  # None when no lists are configured
    make_robots: Callable[[], OriginRobots]
    _: KW_ONLY
    ask: Ask
    _egress: tuple[EgressSettings, EgressPolicy] | None = field(default=None, init=False)

    @cached_property
    def robots(self) -> OriginRobots:
        """Return the robots.txt files, made when the first is looked up."""
        return self.make_robots()

    async def opinions(self, item: FrontierItem, settings: Settings, *, now: datetime) -> AsyncIterator[PolicyOpinion]:
        """Yield each rule's opinion, in their order; entries and lists are used as they are: refresh them first."""
        allowing, opinion = self._entries(item.url, now=now)
        yield opinion
        policy = self.policy_for(item.url, settings.policy, now=now)
        over = f"passed over: {allowing}" if allowing is not None else ""
        yield PolicyOpinion("lists", over) if over else self._lists(item.url)
        yield (PolicyOpinion("failed links", over) if over else await self._failed(item, now=now))
        yield self._address(item.url, settings.egress)
        if policy.robots != "obey":
            yield PolicyOpinion("robots.txt", f"policy.robots is {policy.robots!r}")
        elif over:
            yield PolicyOpinion("robots.txt", over)
        else:
            opinion = await self._robots(item, policy, now=now)
            why = opinion.verdict.reason.removeprefix(ROBOTS_UNAVAILABLE).removesuffix(")")
            if why.startswith(NO_SUCH_HOST) and not waits_for_host(item, settings.frontier):
                opinion = replace(
                    opinion, verdict=replace(opinion.verdict, action=RuleAction.FAIL, reason=why, until=None)
                )
            yield opinion

    def policy_for(self, url: str, policy: PolicySettings, *, now: datetime) -> PolicySettings:
        """Return the settings with the URL's setting entries applied."""
        if self.book.entries is None:
            return policy
        for key, entry in self.book.entries.settings(url, now=now).items():
            if key != "archive":  # fetched before
                kind = type(getattr(policy, key))
                value: Any = entry.value if kind is str else kind(float(entry.value))
                policy = replace(policy, **{key: value})
        return policy

    def allowing(self, url: str, *, now: datetime) -> PolicyEntry | None:
        """Return the whitelist entry that decides on the URL; None when none does."""
        return self._entries(url, now=now)[0]

    def refusing(self, url: str, *, now: datetime) -> str:
        """Return why entries or lists refuse the URL; empty when they do not, or only defer it."""
        allowing, opinion = self._entries(url, now=now)
        if allowing is None and opinion.verdict.action is not RuleAction.SKIP:
            opinion = self._lists(url)
        return opinion.verdict.reason

    def _entries(self, url: str, *, now: datetime) -> tuple[PolicyEntry | None, PolicyOpinion]:
        """Return (whitelist entry that overrides other rules, opinion of the entries)."""
        entry = None if self.book.entries is None else self.book.entries.deciding(url, now=now)
        if entry is None:
            return None, PolicyOpinion("entries", "no entry matches")
        if entry.allows:
            return entry, PolicyOpinion("entries", str(entry))
        if entry.defers:
            verdict = RuleDecision(RuleAction.LATER, str(entry), until=entry.expires_at)
            return None, PolicyOpinion("entries", str(entry), verdict)
        return None, _opinion_against("entries", str(entry))

    def _lists(self, url: str) -> PolicyOpinion:
        if self.lists is None:
            return PolicyOpinion("lists", "there are none")
        line = self.lists.lists.refusing(url)
        if line is not None:
            return _opinion_against("lists", f"list: {line}")
        return PolicyOpinion("lists", f"not named in {', '.join(self.lists.lists.sources)}")

    def _address(self, url: str, egress: EgressSettings) -> PolicyOpinion:
        """Return the opinion on host and port without name resolution; the proxy checks the rest."""
        if self._egress is None or self._egress[0] is not egress:
            # The proxy checks for its machine's own addresses, which may be another machine.
            self._egress = egress, EgressPolicy(egress, is_own=lambda _address: False)
        why = address_fault(url, self._egress[1])
        if why:
            return PolicyOpinion("address", why, RuleDecision(RuleAction.FAIL, why))
        return PolicyOpinion("address", "nothing against host and port; the proxy checks the address")

    async def _failed(self, item: FrontierItem, *, now: datetime) -> PolicyOpinion:
        key = identity_key(item.url)
        note = await self.ask(lambda: self.frontier.note(FAILED_LINK_NOTE, key, now=now))
        if note is None:
            return PolicyOpinion("failed links", "it is not known to have failed")
        text = f"failed link: {note}"
        if item.lane is Lane.NOW:
            return PolicyOpinion("failed links", f"a user waits for it, although {text}")
        return _opinion_against("failed links", text)

    async def _robots(self, item: FrontierItem, policy: PolicySettings, *, now: datetime) -> PolicyOpinion:
        """Return the opinion of robots.txt."""
        url = item.url
        known = await self.robots.of(url, policy, host=item.host, now=now)
        if known is None:
            return PolicyOpinion("robots.txt", NOT_KNOWN)
        robots = known.holds(now=now)
        if robots is None:
            reason = f"{ROBOTS_UNAVAILABLE}{known.why})"
            verdict = RuleDecision(RuleAction.LATER, reason, until=known.next_at, was_asked=known.was_asked)
            return PolicyOpinion("robots.txt", _with_read_date(known, reason), verdict)
        if len(robots.rules) > MANY_RULES:  # a hostile file may take a second or two
            rule = await asyncio.to_thread(robots.rule_for, url)
        else:
            rule = robots.rule_for(url)
        if rule is None or rule.allow:
            text = str(rule) if rule is not None else known.why or "no rule for it"
            return PolicyOpinion("robots.txt", _with_read_date(known, text), RuleDecision(was_asked=known.was_asked))
        reason = f"robots: {rule}"
        verdict = RuleDecision(RuleAction.SKIP, reason, was_asked=known.was_asked)
        closes_site = robots.forbids_all and known.was_asked
        return PolicyOpinion("robots.txt", _with_read_date(known, reason), verdict, closes_site)


def _with_read_date(known: RobotsRecord, text: str) -> str:
    if known.read_at is not None:
        return f"{text} (read {known.read_at:%Y-%m-%d %H:%M} UTC)"
    return text


def _opinion_against(rule: str, reason: str) -> PolicyOpinion:
    return PolicyOpinion(rule, reason, RuleDecision(RuleAction.SKIP, reason))
